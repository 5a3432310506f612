//! The id clock. Under construction.
