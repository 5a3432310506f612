//! `cargo xtask bench peers`: see [`snowlease_bench_peers`].

fn main() {
    snowlease_bench_peers::run();
}
