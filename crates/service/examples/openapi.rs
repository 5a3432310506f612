//! Prints the description of the HTTP calls; `cargo xtask codegen` keeps it in docs/reference.

#![expect(clippy::print_stdout, reason = "printing is its purpose")]

fn main() {
    println!("{}", snowlease_service::openapi_json());
}
