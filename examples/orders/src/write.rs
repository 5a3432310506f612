//! The application: writes orders, each under an id from the library.
//!
//! When there is no id it waits until there is one again and goes on; it is never restarted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use rusqlite::{Connection, params};
use snowlease::{Connector, Id, Ids, Terms};

/// Orders in one transaction, and between two lines of progress.
const TRANSACTION: u64 = 1_000;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The lease service.
    #[arg(long, default_value = "http://127.0.0.1:8700")]
    server: String,
    /// The file to write orders into; made anew.
    #[arg(long)]
    file: PathBuf,
    /// How many orders.
    #[arg(long, default_value_t = 1_000_000)]
    orders: u64,
    /// How many orders come in a second; the writer idles until the next ones do.
    #[arg(long, default_value_t = 50_000)]
    rate: u64,
    /// Seconds a lease lasts.
    #[arg(long, default_value_t = 60)]
    lease: u64,
}

pub(crate) fn write(options: &Options) -> Result<()> {
    let lease = Duration::from_secs(options.lease);
    let ids = Connector::new(&options.server)
        .name("orders-writer")
        .terms(Terms::new(lease, lease / 3)?)
        .connect_blocking()?;
    let mut file = create(&options.file)?;
    anyhow::ensure!(options.rate > 0, "--rate is at least 1");
    let pause = Duration::from_secs(TRANSACTION) / u32::try_from(options.rate)?;
    let (mut written, mut waits) = (0, 0);
    while written < options.orders {
        let orders = TRANSACTION.min(options.orders - written);
        waits += write_some(&mut file, &ids, written, orders)?;
        written += orders;
        println!("written {written}");
        std::thread::park_timeout(pause);
    }
    let leases = ids.status().outcomes.granted;
    println!("done: {written} orders under {leases} leases, waited {waits} times for ids");
    ids.shutdown_blocking()?;
    Ok(())
}

fn create(path: &Path) -> Result<Connection> {
    let file = Connection::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    // The orders are the experiment's, not a customer's: speed over safety.
    file.pragma_update(None, "synchronous", "OFF")?;
    file.pragma_update(None, "journal_mode", "MEMORY")?;
    file.execute_batch(
        "CREATE TABLE orders (
            id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, cents INTEGER NOT NULL
        )",
    )
    .with_context(|| format!("{} has orders already: give another file", path.display()))?;
    Ok(file)
}

/// Writes one transaction of orders, and answers how often it had to wait for an id.
fn write_some(file: &mut Connection, ids: &Ids, first: u64, orders: u64) -> Result<u64> {
    let mut waits = 0;
    let transaction = file.transaction()?;
    {
        let mut insert = transaction.prepare_cached("INSERT INTO orders VALUES (?1, ?2, ?3)")?;
        for order in first..first + orders {
            let id = next_id(ids, &mut waits)?;
            let (customer, cents) =
                ((order % 9_973).cast_signed(), (order % 100_003).cast_signed());
            insert.execute(params![id.to_i64(), customer, cents])?;
        }
    }
    transaction.commit()?;
    Ok(waits)
}

fn next_id(ids: &Ids, waits: &mut u64) -> Result<Id> {
    loop {
        match ids.next_id() {
            Ok(id) => return Ok(id),
            Err(refusal) if refusal.retry_after().is_some() => {
                *waits += 1;
                // Back as soon as there is a lease again. A timeout means another turn, and after a
                // shutdown the refusal is one that no waiting helps.
                let _ = ids.ready_blocking(Duration::from_secs(1));
            }
            Err(refusal) => return Err(refusal.into()),
        }
    }
}
