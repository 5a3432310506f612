//! The experiment of the example, with fewer orders.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::path::Path;
use std::process::Command;

#[test]
fn no_duplicate_and_no_restart_while_the_lease_service_is_killed_twice() {
    let orders = Path::new(env!("CARGO_BIN_EXE_orders"));
    let dir = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let run = Command::new(orders)
        .args(["run", "--orders", "60000", "--rate", "8000", "--lease", "3"])
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .arg("--dir")
        .arg(dir.path())
        .output()
        .unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("no duplicate among 240000 orders in 4 files"), "{stdout}\n{stderr}");
    assert_eq!(stdout.matches("service killed").count(), 2, "{stdout}");
    // The second outage outlasts the leases: every writer resumed under another one.
    assert_eq!(stdout.matches("under 2 leases").count(), 4, "{stdout}");
}
