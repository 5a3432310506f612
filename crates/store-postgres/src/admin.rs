//! The operator's side: what changes the store as a whole waits until no grant is under way.

use std::collections::HashMap;
use std::time::Duration;

use snowlease_core::Tick;
use snowlease_lease::{
    Administer, Cell, Finding, Meta, Mode, Outage, PlanHash, Verified, rules, verify,
};

use crate::link::Call;
use crate::row::{self, number};
use crate::sql;
use crate::store::{self, PostgresStore, locked, look_at};

/// How long it may take to verify a million rows.
const PATIENCE: Duration = Duration::from_mins(1);

impl Administer for PostgresStore {
    fn drain(&self, generator_id: u64, draining: bool) -> Result<(), Outage> {
        if !self.has(generator_id) {
            return Err(rules::out_of_range(self.meta(), generator_id));
        }
        self.link.call(|call| async move {
            let mut pause = Call::first_pause();
            loop {
                let id = number(generator_id);
                match call.run(|all| &all.drain, &[&id, &draining]).await {
                    Ok(rows) if !rows.is_empty() => return Ok(()),
                    Ok(_) => {
                        let (look, cell) = look_at(&call, generator_id).await?;
                        if rules::drain(&cell, draining).is_none() {
                            return Ok(());
                        }
                        call.shared.judge_session(&look)?;
                        call.note(locked());
                    }
                    Err(fault) => call.again(fault)?,
                }
                call.pause(&mut pause).await?;
            }
        })
    }

    fn set_mode(&self, mode: Mode) -> Result<(), Outage> {
        let mode = match mode {
            Mode::Open => "open",
            Mode::Frozen => "frozen",
        };
        self.change(move |schema| format!("UPDATE {schema}.meta SET mode = '{mode}'")).map(drop)
    }

    fn quarantine(&self, at_least: Tick) -> Result<Tick, Outage> {
        // What no tick of the format reaches is nothing that can be asked for.
        let at_least = at_least.min(rules::end(self.meta().format)).0;
        let by_server = self.link.shared.clock_ms().is_none();
        let format = self.meta().format;
        // A clock in place of the server's is nobody's reference: then it is as the operator says.
        let shown = self.change(move |schema| {
            if by_server {
                sql::quarantine(schema, format, at_least)
            } else {
                sql::raise_floor(schema, at_least)
            }
        })?;
        shown.and_then(|floor| floor.parse().ok()).map(Tick).ok_or_else(|| {
            Outage::unknown("the quarantine was not answered: look at the store's status")
        })
    }

    fn adopt_plan(&self, plan: Option<PlanHash>) -> Result<(), Outage> {
        let plan = plan.map_or("NULL".to_owned(), |plan| format!("'{}'", plan.to_text()));
        let change = self.change(move |schema| {
            format!(
                "UPDATE {schema}.meta SET previous_plan = plan, plan = {plan} \
                  WHERE plan IS DISTINCT FROM {plan}"
            )
        });
        change.map(drop)
    }

    fn verify(&self) -> Result<Verified, Outage> {
        // Every row is read, and nobody's lease waits for the answer.
        let limit = self.link.attempt.max(PATIENCE);
        self.link.call_within(limit, |call| async move {
            let (look, _) = store::look(&call, None).await?;
            let rows = call.rows(|all| &all.list, &[&0_i64]).await?;
            let cells = rows.iter().map(row::cell);
            let mut verified = check(&look.meta, cells);
            if !look.same_lineage {
                verified.findings.push(Finding::of_store(
                    "PostgreSQL goes on on another timeline, or with other tables, than the store \
                     has recorded (A1)",
                ));
            }
            Ok(verified)
        })
    }
}

impl PostgresStore {
    fn change(
        &self,
        change: impl FnOnce(&crate::address::Schema) -> String,
    ) -> Result<Option<String>, Outage> {
        let schema = &self.link.shared.address.schema;
        let change = change(schema);
        self.link.call(|call| async move { call.alone(&change).await })
    }
}

/// All rows of the store, by generator id.
fn check(meta: &Meta, rows: impl Iterator<Item = Result<(u64, Cell), Outage>>) -> Verified {
    let history = "PostgreSQL keeps no old versions of rows".to_owned();
    let mut verified = Verified { history, ..Verified::default() };
    let mut owners = HashMap::new();
    let (mut expected, last) = meta.range;
    for row in rows {
        verified.cells += 1;
        let (generator_id, cell) = match row {
            Ok(row) => row,
            Err(error) => {
                verified.findings.push(Finding::of_store(error.to_string()));
                continue;
            }
        };
        let mut wrong = verify::cell(meta, &cell);
        if generator_id > last || generator_id < expected {
            wrong.push("it is not of the store's range (I5)".to_owned());
        } else {
            missing(&mut verified, expected, generator_id);
            expected = generator_id + 1;
        }
        if cell.is_held()
            && let Some(other) = owners.insert(*cell.token.as_bytes(), generator_id)
        {
            wrong.push(format!("its token is that of generator id {other} too (I6)"));
        }
        let finding = |what| Finding::of_cell(generator_id, what);
        verified.findings.extend(wrong.into_iter().map(finding));
    }
    missing(&mut verified, expected, last + 1);
    verified
}

/// The rows from `first` to the one before `end` are not there.
fn missing(verified: &mut Verified, first: u64, end: u64) {
    if first < end {
        verified.findings.push(Finding::of_store(format!(
            "the rows of the generator ids {first} to {} are missing: how far their ids were \
             given out is lost (I1)",
            end - 1
        )));
    }
}
