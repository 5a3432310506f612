//! A holder: the program of this crate, leased from a service, under clocks of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use snowlease_clocks::record::{Record, Said};
use snowlease_core::Format;

use crate::fakes::Fakes;
use crate::judge::Log;
use crate::process::{Process, holder};
use crate::service::{RENEW, Service, WINDOW};
use crate::time::eventually;

/// Threads that share its handle.
const THREADS: usize = 3;

#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) process: Process,
    name: String,
    folder: PathBuf,
    format: Format,
}

impl Holder {
    /// Starts one and waits for its first ids.
    pub(crate) fn start(folder: &Path, name: &str, fakes: &Fakes, service: &Service) -> Holder {
        let holder = Holder::start_with(folder, name, fakes, service, (WINDOW, RENEW), THREADS);
        holder.issues();
        holder
    }

    /// Starts one, whatever becomes of it.
    pub(crate) fn start_with(
        folder: &Path,
        name: &str,
        fakes: &Fakes,
        service: &Service,
        terms: (Duration, Duration),
        threads: usize,
    ) -> Holder {
        Holder::spawn(folder, name, Some(fakes), service, terms, threads)
    }

    /// As [`start_with`](Holder::start_with), under the clocks of this machine, and without the
    /// libraries that fake them.
    pub(crate) fn start_bare(
        folder: &Path,
        name: &str,
        service: &Service,
        terms: (Duration, Duration),
        threads: usize,
    ) -> Holder {
        Holder::spawn(folder, name, None, service, terms, threads)
    }

    fn spawn(
        folder: &Path,
        name: &str,
        fakes: Option<&Fakes>,
        service: &Service,
        (window, renew): (Duration, Duration),
        threads: usize,
    ) -> Holder {
        let folder = folder.join(name);
        fs::create_dir(&folder).expect("no other holder has this name");
        let errors = fs::File::create(folder.join("errors")).expect("the folder takes files");
        let mut command = Command::new(holder());
        command.args(["hold", &service.url]).arg(&folder).arg(threads.to_string());
        command.args([window, renew].map(|time| time.as_millis().to_string()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        if let Some(fakes) = fakes {
            fakes.dress(&mut command);
        }
        let process = Process::start(&mut command);
        Holder { process, name: name.to_owned(), folder, format: Format::DEFAULT }
    }

    /// Its ids are of this format.
    pub(crate) fn of_format(self, format: Format) -> Holder {
        Holder { format, ..self }
    }

    /// Waits for its first id.
    #[track_caller]
    pub(crate) fn issues(&self) {
        eventually("the holder issues", || {
            self.log().lines.iter().flatten().any(|record| matches!(record.said, Said::Id(_)))
        });
    }

    pub(crate) fn log(&self) -> Log {
        let read = |name: String| fs::read(self.folder.join(name));
        let lines = (0..).map_while(|number| read(format!("calls-{number}")).ok());
        let lines = lines.map(|bytes| Record::all(&bytes)).collect();
        Log { name: self.name.clone(), format: self.format, lines }
    }

    /// Why it has had no lease so far, a line for each attempt.
    pub(crate) fn connecting(&self) -> String {
        fs::read_to_string(self.folder.join("connecting")).unwrap_or_default()
    }

    /// What it wrote on stderr: nothing, unless it panicked or gave up.
    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(self.folder.join("errors")).unwrap_or_default()
    }

    /// A number of its last status, by the name it has there.
    pub(crate) fn status(&self, name: &str) -> Option<i64> {
        let status = fs::read_to_string(self.folder.join("status")).unwrap_or_default();
        // The last one may be half written.
        let whole = status.rsplit_once('\n')?.0;
        let last = whole.rsplit('\n').next()?;
        let value = last.rsplit_once(&format!(" {name}: "))?.1;
        let digits = |c: char| c != '-' && !c.is_ascii_digit();
        value.split(digits).find(|word| !word.is_empty())?.parse().ok()
    }

    /// How often its clock was seen set.
    pub(crate) fn steps(&self) -> i64 {
        self.status("steps").expect("it counts them")
    }
}
