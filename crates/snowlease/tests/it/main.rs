//! The facade as an application uses it.

mod http;
mod memory;
mod sqlite;
