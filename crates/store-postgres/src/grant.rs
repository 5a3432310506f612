//! Acquire: one statement that grants, and a look that says why it did not.

use snowlease_core::{Format, Tick};
use snowlease_lease::{Acquire, AcquireError, Grant, Outage, PlanHash, Terms, rules};

use crate::fault::Fault;
use crate::link::Call;
use crate::row::{self, Look, count, number};
use crate::shared;
use crate::store::{Next, locked};

/// The tolerated skew, in ms.
pub(crate) fn skew_limit_ms() -> i64 {
    i64::try_from(Terms::SKEW_LIMIT.as_millis()).unwrap_or(i64::MAX)
}

/// How far the asker's clock is ahead, if that is too far whenever the server has read its own
/// between the sending and the answer.
fn skew(sent_ms: i64, heard_ms: i64, server_ms: i64) -> Option<i64> {
    let least = sent_ms.saturating_sub(server_ms);
    let most = heard_ms.saturating_sub(server_ms);
    if least > skew_limit_ms() {
        Some(least)
    } else if most < -skew_limit_ms() {
        Some(most)
    } else {
        None
    }
}

/// The tolerated skew, in ticks.
pub(crate) fn skew_limit(format: Format) -> u64 {
    format.ticks_in_ms(skew_limit_ms().unsigned_abs())
}

/// The length of a window as a quarantine has to wait for it: from the asker's now, or from its
/// begin if that is earlier. No window is longer than the longest that terms allow.
pub(crate) fn window(format: Format, now_ms: i64, from: Tick, until: Tick) -> u64 {
    let now = format.tick_at_ms(now_ms).unwrap_or(from);
    let longest_ms = u64::try_from(Terms::LONGEST_WINDOW.as_millis()).unwrap_or(u64::MAX);
    // A window that fills a tick or more may begin and end within one.
    until.since(now.min(from)).min(format.ticks_in_ms(longest_ms) + 1)
}

/// The first tick that no window may reach now.
pub(crate) fn limit(look: &Look, window: u64) -> Tick {
    let ticks = window.saturating_add(skew_limit(look.meta.format));
    look.now().saturating_add(ticks)
}

/// Whether the window asked for is one at all; if not, only a look says what comes first of all
/// that is wrong.
pub(crate) fn is_possible(format: Format, ask: &Acquire) -> bool {
    ask.format == format && ask.from < ask.until && ask.until <= rules::end(format)
}

/// Grants a lease, or says why not.
pub(crate) async fn acquire(call: &Call, ask: &Acquire) -> Result<Grant, AcquireError> {
    let mut pause = Call::first_pause();
    loop {
        call.settle().await?;
        match call.watch().await {
            Ok(None) => {}
            Ok(Some(left)) => {
                return Err(AcquireError::Outage(Outage::unavailable(format!(
                    "nobody has used the store for long: it is watched for {} ms more whether a \
                     holder vouches that it is no older copy of itself; try again then",
                    left.as_millis()
                ))));
            }
            Err(fault) => {
                call.again(fault)?;
                call.pause(&mut pause).await?;
                continue;
            }
        }
        let granted = if is_possible(ask.format, ask) {
            try_grant(call, std::slice::from_ref(ask)).await
        } else {
            Ok(Vec::new())
        };
        match granted {
            Ok(grants) => {
                if let Some(grant) = grants.into_iter().flatten().next() {
                    return Ok(grant);
                }
            }
            Err(fault) => call.again(fault)?,
        }
        match refuse(call, ask).await? {
            Next::Answer(grant) => return Ok(grant),
            Next::AtOnce => {}
            Next::Later => call.pause_for_row(&mut pause).await?,
        }
    }
}

/// One statement for all asks, all of which [are possible](is_possible). An ask without an answer
/// was left out: nothing has changed for it.
pub(crate) async fn try_grant(call: &Call, asks: &[Acquire]) -> Result<Vec<Option<Grant>>, Fault> {
    let Some(first) = asks.first() else { return Ok(Vec::new()) };
    let format = first.format;
    let tokens: Vec<_> = asks.iter().map(|ask| ask.request_key.token().hash()).collect();
    let tokens: Vec<&[u8]> = tokens.iter().map(|hash| hash.as_bytes().as_slice()).collect();
    let numbers = |of: fn(&Acquire) -> u64| asks.iter().map(of).map(number).collect::<Vec<_>>();
    let (froms, untils) = (numbers(|ask| ask.from.0), numbers(|ask| ask.until.0));
    let windows = numbers(|ask| window(ask.format, ask.now_ms, ask.from, ask.until));
    // What has passed on our side since is no skew of the asker's clock.
    let age_ms = call.age_ms();
    let clocks: Vec<i64> = asks.iter().map(|ask| ask.now_ms.saturating_add(age_ms)).collect();
    let texts = |of: fn(&Acquire) -> &str| asks.iter().map(of).collect::<Vec<_>>();
    let (holders, machines) = (texts(|ask| ask.holder.name()), texts(|ask| ask.holder.machine()));
    let (processes, regions) =
        (texts(|ask| ask.holder.process()), texts(|ask| ask.holder.region()));
    let environments = texts(|ask| ask.realm.environment());
    let plans: Vec<Option<String>> =
        asks.iter().map(|ask| ask.realm.plan().map(PlanHash::to_text)).collect();
    let last = froms.iter().copied().max().unwrap_or(0);
    let rows = call
        .run(
            |all| &all.grant,
            &[
                &tokens,
                &froms,
                &untils,
                &windows,
                &clocks,
                &holders,
                &machines,
                &processes,
                &regions,
                &last,
                &i64::try_from(asks.len()).unwrap_or(i64::MAX),
                &format.fingerprint().cast_signed(),
                &call.shared.clock_ms(),
                &environments,
                &plans,
                &skew_limit_ms(),
                &number(skew_limit(format)),
            ],
        )
        .await?;
    let mut grants: Vec<Option<Grant>> = asks.iter().map(|_| None).collect();
    for row in &rows {
        let (place, grant) = answer(call, row).map_err(granted_but_unreadable)?;
        if let Some(slot) = grants.get_mut(place) {
            *slot = Some(grant);
        }
    }
    Ok(grants)
}

fn answer(call: &Call, row: &tokio_postgres::Row) -> Result<(usize, Grant), Outage> {
    let place = usize::try_from(count(row, "number")?.saturating_sub(1)).unwrap_or(usize::MAX);
    Ok((place, grant(call, row, false)?))
}

fn grant(call: &Call, row: &tokio_postgres::Row, draining: bool) -> Result<Grant, Outage> {
    Ok(Grant {
        generator_id: count(row, "generator_id")?,
        from: Tick(count(row, "from_tick")?),
        until: Tick(count(row, "until_tick")?),
        seq: count(row, "seq")?,
        draining,
        reference_ms: call.shared.reference_ms(row)?,
    })
}

fn granted_but_unreadable(outage: Outage) -> Fault {
    Fault::tell(Outage { unknown: true, ..outage })
}

/// Why nothing was granted; or the lease that the key has already.
async fn refuse(call: &Call, ask: &Acquire) -> Result<Next<Grant>, AcquireError> {
    let token = ask.request_key.token().hash();
    let token = token.as_bytes().as_slice();
    let clock = call.shared.clock_ms();
    let sent_ms = ask.now_ms.saturating_add(call.age_ms());
    let rows = call.rows(|all| &all.pool, &[&token, &clock]).await?;
    let row = shared::one(rows, &call.shared.address).map_err(|fault| fault.outage)?;
    let look = Look::read(&row)?;
    rules::admit(&look.meta, ask)?;
    let taken = |by: Tick| -> Result<Option<AcquireError>, Outage> {
        let (first, last) = look.meta.range;
        let total = last.saturating_sub(first).saturating_add(1);
        let earliest: Option<i64> = row::get(&row, "earliest")?;
        let earliest = earliest.map(|tick| Tick(tick.unsigned_abs()));
        let free = earliest.is_some_and(|tick| tick <= by);
        Ok((!free).then_some(AcquireError::Exhausted { total, earliest }))
    };
    let mine: bool = row::get(&row, "mine")?;
    // Nothing is free whosever clock is right.
    if let Some(exhausted) = taken(look.now().max(ask.from))?
        && !mine
    {
        return Err(exhausted);
    }
    if let Some(ahead_ms) = skew(sent_ms, ask.now_ms.saturating_add(call.age_ms()), look.now_ms) {
        return Err(AcquireError::Skew { ahead_ms });
    }
    call.shared.judge_session(&look)?;
    if !look.same_lineage {
        call.shared.forget();
        return Ok(Next::AtOnce);
    }
    if mine {
        let rows = call.rows(|all| &all.confirm, &[&token, &clock]).await?;
        return match rows.first() {
            Some(row) => Ok(Next::Answer(grant(call, row, row::get(row, "draining")?)?)),
            None => Ok(later(call)),
        };
    }
    let window = window(ask.format, ask.now_ms, ask.from, ask.until);
    if limit(&look, window) <= ask.from {
        // It begins past all that may be granted now.
        return Err(AcquireError::Window { from: ask.from, until: ask.until });
    }
    if window > look.meta.longest_window {
        call.rows(|all| &all.longer, &[&number(window)]).await?;
        return Ok(Next::AtOnce);
    }
    match taken(ask.from)? {
        Some(exhausted) => Err(exhausted),
        None => Ok(later(call)),
    }
}

fn later<T>(call: &Call) -> Next<T> {
    call.note(locked());
    Next::Later
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_server_is_no_skew() {
        assert_eq!(skew(10_000, 10_010, 10_005), None);
        assert_eq!(skew(10_000, 10_010, 7_999), Some(2_001));
        assert_eq!(skew(10_000, 10_010, 12_011), Some(-2_001));
        // It read its clock at once or at last.
        assert_eq!(skew(10_000, 15_000, 10_000), None);
        assert_eq!(skew(10_000, 15_000, 15_000), None);
        assert_eq!(skew(10_000, 15_000, 7_000), Some(3_000));
    }
}
