//! `snowlease next`: ids, from a service or straight from a store.
//!
//! Ids are printed batch by batch, so any number can be asked for. If a later batch fails the ids
//! already printed are good, and the exit code is 1.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use snowlease::{Connector, Ids, Refusal};
use snowlease_core::clock::nanos;
use snowlease_core::{Id, TextForm};
use snowlease_lease::{ClockGate, Realm, os};
use snowlease_wire as wire;
use snowlease_wire::Code;
use snowlease_wire::time::beside_ticks;

use crate::client::{Client, Refused};
use crate::output::Answer;
use crate::stores::{self, Wanted};
use crate::target::{Asked, Target};
use crate::usage::Usage;

/// A batch, unless the service takes less at once.
const BATCH: u64 = 10_000;

/// How long ids may fail to come before the command fails.
const PATIENCE: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
Examples:
  snowlease next
  snowlease next -n 10 --as crockford
  snowlease next -n 1000000 --server http://ids.internal:8700 > ids
  snowlease next --store sqlite:snowlease.db
  snowlease next --store etcd://etcd-1:2379,etcd-2:2379/ids --environment production

Forms: decimal, hex, crockford, base62. Crockford is the one for places that ignore case, such as
file names. With --store a generator id is leased for this call and given back, without a
service.";

/// Print new ids, one a line
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Next {
    /// How many
    #[arg(short, value_name = "COUNT", default_value = "1")]
    #[arg(value_parser = count)]
    n: u64,
    /// The text form: decimal, hex, crockford or base62
    #[arg(long = "as", value_name = "FORM", default_value = "decimal")]
    form: TextForm,
    /// With --store: the environment that the store is of [env: SNOWLEASE_ENVIRONMENT]
    #[arg(long, value_name = "NAME", requires = "store")]
    environment: Option<String>,
    /// With --store: what to do while the kernel does not call this host's clock right; enforce
    /// with etcd, else warn, unless said [env: SNOWLEASE_CLOCK_GATE]
    #[arg(long, value_name = "enforce|warn", requires = "store")]
    clock_gate: Option<String>,
    #[command(flatten)]
    target: Target,
}

impl Next {
    pub(crate) fn run(self) -> Result<()> {
        match self.target.asked()? {
            Asked::Service(client) => {
                let (mut batch, mut last) = (BATCH, None);
                print(self.n, self.form, |left| {
                    let ids = from_service(&client, left, &mut batch)?;
                    check_order(&mut last, &ids)?;
                    Ok(ids)
                })
            }
            Asked::Store(url) => {
                let or_variable = |given: Option<String>, name| given.or(std::env::var(name).ok());
                let environment = or_variable(self.environment, "SNOWLEASE_ENVIRONMENT");
                let environment = environment.unwrap_or_default();
                let gate = or_variable(self.clock_gate, "SNOWLEASE_CLOCK_GATE");
                let gate = gate.map(|text| {
                    let wrong = |fault| Usage(format!("--clock-gate {text:?}: {fault}"));
                    text.parse::<ClockGate>().map_err(wrong)
                });
                let gate = gate.transpose()?;
                let realm = Realm::new(environment.as_str(), None)
                    .map_err(|error| Usage(format!("--environment {environment:?}: {error}")))?;
                // The library makes a store where there is none, but does not say so.
                let wanted = Wanted { realm, ..Wanted::default() };
                let format = stores::open_or_create(&url, &wanted)?.status()?.meta.format;
                let connector = Connector::new(url).name("snowlease next");
                // What is usual the library knows.
                let connector = match gate {
                    Some(gate) => connector.clock_gate(gate),
                    None => connector,
                };
                let ids = connector
                    .environment(environment)?
                    .connect_blocking()
                    .map_err(|error| anyhow!("{}", beside_ticks(&error.to_string(), format)))?;
                let mut batch = BATCH;
                let done = print(self.n, self.form, |left| from_store(&ids, left, &mut batch));
                // What could not be given back ends by itself; the ids are here all the same.
                let _ = ids.shutdown_blocking();
                done
            }
        }
    }
}

/// A number as it prints: no sign and no leading zero, as the service has it.
fn count(text: &str) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|n| *n > 0 && n.to_string() == text);
    number.ok_or_else(|| "write a whole number from 1 on, such as 10".to_owned())
}

fn print(n: u64, form: TextForm, mut next: impl FnMut(u64) -> Result<Vec<Id>>) -> Result<()> {
    let mut answer = Answer::new();
    let mut left = n;
    while left > 0 {
        let ids = next(left)?;
        left = left.saturating_sub(ids.len() as u64);
        for id in ids {
            answer.line(form.encode(id).as_str())?;
        }
        answer.flush()?;
    }
    Ok(())
}

/// A batch of at most `left` ids; `batch` is lowered to what the service takes at once.
fn from_service(client: &Client, left: u64, batch: &mut u64) -> Result<Vec<Id>> {
    let until_ns = deadline();
    loop {
        let n = left.min(*batch);
        let error = match client.post::<wire::Ids>(&format!("/ids?n={n}")) {
            Ok(answer) => return checked(&answer.ids, n),
            Err(error) => error,
        };
        let Some(problem) = error.downcast_ref::<Refused>().map(|refused| &refused.problem) else {
            return Err(error);
        };
        match (problem.known_code(), problem.limit, problem.retry_after_ms) {
            (Some(Code::BatchSize), Some(limit), _) if (1..n).contains(&limit) => *batch = limit,
            (_, _, Some(ms)) if waited(Duration::from_millis(ms), until_ns) => {}
            _ => return Err(error),
        }
    }
}

/// An answer that is not what was asked for must not pass for ids.
fn checked(texts: &[String], n: u64) -> Result<Vec<Id>> {
    let ids =
        texts.iter().map(|text| TextForm::Decimal.decode(text)).collect::<Result<Vec<_>, _>>();
    match ids {
        Ok(ids) if ids.len() as u64 == n && ids.is_sorted_by(|a, b| a < b) => Ok(ids),
        _ => {
            bail!("the service did not answer with {n} ascending ids: is this a Snowlease service?")
        }
    }
}

/// Each batch is after the one before: an answer that is kept and given again must not pass for new
/// ids.
fn check_order(last: &mut Option<Id>, ids: &[Id]) -> Result<()> {
    if last.is_some() && ids.first() <= last.as_ref() {
        bail!(
            "the service answered with ids that do not come after those before: is there a cache \
             or another service in between? Ask one service, without one"
        );
    }
    *last = ids.last().copied().or(*last);
    Ok(())
}

/// A batch of at most `left` ids; `batch` is lowered to what the format gives at once.
fn from_store(ids: &Ids, left: u64, batch: &mut u64) -> Result<Vec<Id>> {
    let until_ns = deadline();
    loop {
        let n = left.min(*batch);
        match ids.next_ids(usize::try_from(n)?) {
            Ok(ids) => return Ok(ids),
            Err(Refusal::BatchSize { limit, .. }) if (1..n).contains(&(limit as u64)) => {
                *batch = limit as u64;
            }
            Err(refusal) if refusal.retry_after().is_some_and(|wait| waited(wait, until_ns)) => {}
            Err(Refusal::NoLease | Refusal::WindowEnd) => {
                let trouble = ids.status().trouble;
                let trouble = trouble.as_deref().unwrap_or("there is no lease: try again");
                bail!("{}", beside_ticks(trouble, ids.format()));
            }
            Err(refusal) => return Err(refusal.into()),
        }
    }
}

fn deadline() -> u64 {
    os::boot_ns().saturating_add(nanos(PATIENCE))
}

/// Waits, if that does not pass the deadline.
fn waited(wait: Duration, until_ns: u64) -> bool {
    let wake_ns = os::boot_ns().saturating_add(nanos(wait));
    if wake_ns > until_ns {
        return false;
    }
    loop {
        let left_ns = wake_ns.saturating_sub(os::boot_ns());
        if left_ns == 0 {
            return true;
        }
        std::thread::park_timeout(Duration::from_nanos(left_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_only_if_it_is_what_was_asked_for() {
        let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert!(checked(&texts(&["1", "2"]), 2).is_ok());
        for (answer, n) in [(&["1"][..], 2), (&["2", "1"], 2), (&["1", "1"], 2), (&["x"], 1)] {
            assert!(checked(&texts(answer), n).is_err(), "{answer:?}");
        }
    }
    #[test]
    fn no_batch_repeats_another() {
        let ids = |ids: &[i64]| ids.iter().map(|id| Id::try_from(*id).unwrap()).collect::<Vec<_>>();
        let mut last = None;
        check_order(&mut last, &ids(&[1, 2])).unwrap();
        check_order(&mut last, &ids(&[3])).unwrap();
        for again in [&[3, 4][..], &[1, 2], &[3]] {
            assert!(check_order(&mut last, &ids(again)).is_err(), "{again:?}");
        }
        check_order(&mut last, &ids(&[4])).unwrap();
    }

    #[test]
    fn a_count_has_one_text() {
        assert_eq!((count("1"), count("18446744073709551615")), (Ok(1), Ok(u64::MAX)));
        for text in ["", "0", "00", "01", "+5", "-1", " 1", "1 ", "1e3", "18446744073709551616"] {
            assert!(count(text).is_err(), "{text}");
        }
    }
}
