//! The conformance suite over the embedded store, beside the reference in memory: what holders rely
//! on is the same over both.

mod clocks;
mod handing_over;
mod identity;
mod marks;
mod outages;
mod support;

mod sqlite {
    use snowlease_store_sqlite::testing::NewFile;

    snowlease_lease::conformance!(NewFile);
}
