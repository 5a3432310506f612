//! `cargo xtask bench databases`: see [`snowlease_bench_databases`].

fn main() {
    snowlease_bench_databases::run();
}
