//! Files that a command of ours prints: committed so that a reader needs no tool, compared so that
//! they cannot go stale.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::tool;

/// A committed file and the example that prints what it must be.
pub(crate) struct Generated {
    pub(crate) file: &'static str,
    pub(crate) example: &'static str,
}

/// Every such file.
pub(crate) const GENERATED: &[Generated] = &[
    Generated { file: "docs/reference/openapi.json", example: "openapi" },
    Generated { file: "docs/figures/bad-hour.svg", example: "bad_hour" },
    Generated { file: "crates/store-etcd/src/proto/etcdserverpb.rs", example: "etcd_proto" },
];

/// Fails for each file that is not what its example prints.
pub(crate) fn check() -> Result<()> {
    build()?;
    let mut stale = Vec::new();
    for entry in GENERATED {
        let wanted = tool::output(tool::example(entry.example)?)?;
        if fs::read_to_string(tool::root().join(entry.file)).ok() != Some(wanted) {
            stale.push(entry.file);
        }
    }
    if !stale.is_empty() {
        bail!("not up to date: {}; run `cargo xtask codegen`", stale.join(", "));
    }
    println!("{} generated files are up to date", GENERATED.len());
    Ok(())
}

/// Writes each file anew.
pub(crate) fn write(_: &[String]) -> Result<()> {
    build()?;
    for entry in GENERATED {
        let text = tool::output(tool::example(entry.example)?)?;
        fs::write(tool::root().join(entry.file), text)
            .with_context(|| format!("{} could not be written", entry.file))?;
        println!("wrote {}", entry.file);
    }
    Ok(())
}

/// Of the whole workspace: building one package alone builds its dependencies with fewer features,
/// so all of them once more than the tests need.
fn build() -> Result<()> {
    tool::run(tool::cargo(&["build", "--workspace", "--examples"]))
}
