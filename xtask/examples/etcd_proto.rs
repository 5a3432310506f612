//! Prints the code made from `crates/store-etcd/src/proto/etcd.proto`; `cargo xtask codegen` writes
//! it beside that. An example, so that only this one needs what compiles protocol files.

#![allow(clippy::print_stdout, reason = "printing is what this is for")]

use std::fs;
use std::path::Path;

fn main() -> anyhow::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/store-etcd/src/proto");
    let files = protox::compile(["etcd.proto"], [&folder])?;
    let out = tempfile::tempdir()?;
    prost_build::Config::new().out_dir(out.path()).compile_fds(files)?;
    print!("{}", fs::read_to_string(out.path().join("etcdserverpb.rs"))?);
    Ok(())
}
