//! A holder whose clocks somebody else fakes: it leases from a service, issues ids at a pace, and
//! writes down every call.
//!
//! ```text
//! clock-holder clocks                                 what its clocks read, once
//! clock-holder hold URL FOLDER THREADS WINDOW RENEW   WINDOW and RENEW in ms
//! ```
//!
//! In the folder: `calls-N` of each thread, `status` four times a second, `connecting` as long as
//! there is no lease. With no threads it holds its lease and does nothing at all.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::Duration;

use snowlease::{Connector, Ids, Terms};
use snowlease_clocks::record::{Record, Said};
use snowlease_clocks::true_ns;
use snowlease_lease::os;

/// Calls of a thread in one go; the rest of the time it is as idle as a real application.
const BURST: usize = 10;
const PACE: Duration = Duration::from_millis(5);

type Failure = Box<dyn Error + Send + Sync>;

#[allow(clippy::print_stdout, reason = "its answer")]
fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments {
        ["clocks"] => println!("{} {} {}", os::wall_ns(), os::boot_ns(), true_ns()),
        ["hold", url, folder, threads, window, renew] => {
            let terms = Terms::new(ms(window)?, ms(renew)?)?;
            hold(url, Path::new(folder), threads.parse()?, terms)?;
        }
        _ => return Err("see the head of reliability/clocks/src/holder.rs".into()),
    }
    Ok(())
}

fn ms(text: &str) -> Result<Duration, Failure> {
    Ok(Duration::from_millis(text.parse()?))
}

fn hold(url: &str, folder: &Path, threads: usize, terms: Terms) -> Result<(), Failure> {
    let ids = connected(url, folder, terms)?;
    let drawing: Vec<_> = (0..threads)
        .map(|number| {
            let ids = ids.clone();
            let file = append(folder, &format!("calls-{number}"))?;
            Ok::<_, Failure>(thread::spawn(move || draw(&ids, file)))
        })
        .collect::<Result<_, _>>()?;
    let mut status = append(folder, "status")?;
    loop {
        writeln!(status, "{} {:?}", true_ns(), ids.status())?;
        if drawing.is_empty() {
            thread::park();
        }
        thread::park_timeout(Duration::from_millis(250));
        if drawing.iter().any(thread::JoinHandle::is_finished) {
            return Err("a thread has ended".into());
        }
    }
}

/// A lease, however long that takes.
fn connected(url: &str, folder: &Path, terms: Terms) -> Result<Ids, Failure> {
    let mut trouble = append(folder, "connecting")?;
    loop {
        let connector = Connector::new(url).name("clock-holder").terms(terms);
        match connector.ready_within(Duration::from_secs(2)).connect_blocking() {
            Ok(ids) => return Ok(ids),
            Err(error) => writeln!(trouble, "{} {error}", true_ns())?,
        }
        thread::park_timeout(Duration::from_millis(100));
    }
}

fn draw(ids: &Ids, mut file: File) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        for _ in 0..BURST {
            let begun_ns = true_ns();
            let said = ids.next_id().map_or_else(Said::refusal, |id| Said::Id(id.get()));
            let record = Record { begun_ns, ended_ns: true_ns(), said };
            bytes.extend_from_slice(&record.to_bytes());
        }
        // At once: a process that is killed has written what it issued.
        file.write_all(&bytes)?;
        thread::park_timeout(PACE);
    }
}

fn append(folder: &Path, name: &str) -> Result<File, Failure> {
    Ok(OpenOptions::new().create(true).append(true).open(folder.join(name))?)
}
