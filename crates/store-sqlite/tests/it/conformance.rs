//! The conformance suite, plain and while calls are lost, late and repeated.

use snowlease_store_sqlite::testing::NewFile;

mod plain {
    snowlease_lease::conformance!(super::NewFile);
}

mod under_faults {
    use snowlease_lease::testing::suite::UnderFaults;

    snowlease_lease::conformance!(UnderFaults { setup: super::NewFile, seed: 11 });
}
