//! Renew: one statement that extends, and a look that says why it did not.

use snowlease_core::{Format, Tick};
use snowlease_lease::rules::{self, Decision};
use snowlease_lease::{Carries, Outage, Renew, RenewError, Renewal, TokenHash};
use tokio::time::timeout;
use tokio_postgres::Row;

use crate::fault::Fault;
use crate::grant::{limit, skew_limit, window};
use crate::link::Call;
use crate::row::{self, count, number};
use crate::store::{Next, locked, look_at};

/// Extends a lease, or says why not.
pub(crate) async fn renew(call: &Call, format: Format, ask: &Renew) -> Result<Renewal, RenewError> {
    let mut pause = Call::first_pause();
    loop {
        if let Err(outage) = call.settle().await {
            // Another holder that knows more than the store stops at once too.
            return match refuse(call, ask).await {
                Err(error @ RenewError::RolledBack { .. }) => Err(error),
                _ => Err(outage.into()),
            };
        }
        match try_renew(call, format, std::slice::from_ref(ask)).await {
            Ok(renewals) => {
                if let Some(renewal) = renewals.into_iter().flatten().next() {
                    return Ok(renewal);
                }
            }
            Err(fault) => call.again(fault)?,
        }
        match refuse(call, ask).await? {
            Next::Answer(renewal) => return Ok(renewal),
            Next::AtOnce => {}
            Next::Later => call.pause_for_row(&mut pause).await?,
        }
    }
}

/// The hash that the cell is to carry: that of nobody would leave a live cell that no one can show
/// a token for.
fn next(ask: &Renew) -> TokenHash {
    if ask.next == TokenHash::NOBODY { ask.token.hash() } else { ask.next }
}

fn length(format: Format, ask: &Renew) -> u64 {
    window(format, ask.now_ms, ask.until, ask.until)
}

/// One statement for all asks. An ask without an answer was left out: nothing has changed for it.
pub(crate) async fn try_renew(
    call: &Call,
    format: Format,
    asks: &[Renew],
) -> Result<Vec<Option<Renewal>>, Fault> {
    let end = rules::end(format);
    let ids: Vec<i64> = asks.iter().map(|ask| number(ask.generator_id)).collect();
    let hashes: Vec<_> = asks.iter().map(|ask| (ask.token.hash(), next(ask))).collect();
    let tokens: Vec<&[u8]> = hashes.iter().map(|(token, _)| &token.as_bytes()[..]).collect();
    let nexts: Vec<&[u8]> = hashes.iter().map(|(_, next)| &next.as_bytes()[..]).collect();
    let seqs: Vec<i64> = asks.iter().map(|ask| number(ask.seq)).collect();
    let untils: Vec<i64> = asks.iter().map(|ask| number(ask.until.min(end).0)).collect();
    let windows: Vec<i64> = asks.iter().map(|ask| number(length(format, ask))).collect();
    let (skew, clock) = (number(skew_limit(format)), call.shared.clock_ms());
    let rows = call
        .run(|all| &all.renew, &[&ids, &tokens, &seqs, &nexts, &untils, &windows, &skew, &clock])
        .await?;
    let mut renewals: Vec<Option<Renewal>> = asks.iter().map(|_| None).collect();
    for row in &rows {
        let unreadable = |outage| Fault::tell(Outage { unknown: true, ..outage });
        let place = count(row, "number").map_err(unreadable)?.saturating_sub(1);
        let renewal = renewal(call, row, Carries::Next).map_err(unreadable)?;
        if let Some(slot) = usize::try_from(place).ok().and_then(|n| renewals.get_mut(n)) {
            *slot = Some(renewal);
        }
    }
    Ok(renewals)
}

fn renewal(call: &Call, row: &Row, token: Carries) -> Result<Renewal, Outage> {
    Ok(Renewal {
        until: Tick(count(row, "until_tick")?),
        seq: count(row, "seq")?,
        token,
        draining: row::get(row, "draining")?,
        reference_ms: call.shared.reference_ms(row)?,
    })
}

/// Why nothing was extended; or the cell as it stands, if it is the asker's still.
async fn refuse(call: &Call, ask: &Renew) -> Result<Next<Renewal>, RenewError> {
    let (look, cell) = look_at(call, ask.generator_id).await?;
    if !look.same_lineage {
        call.shared.forget();
        return Ok(Next::AtOnce);
    }
    let window = length(look.meta.format, ask);
    // By the server's clock, as the statement judges it.
    let judged =
        Renew { until: ask.until.min(limit(&look, window)), now_ms: look.now_ms, ..ask.clone() };
    match rules::renew(&look.meta, &cell, &judged) {
        Err(RenewError::RolledBack { floor }) => {
            // The holder stops at once, also if the floor cannot be written now.
            call.shared.owe(floor);
            let time = call.left() * 7 / 8;
            let floor = match timeout(time, call.settle()).await {
                Ok(Ok(written)) => written.unwrap_or(floor),
                Ok(Err(_)) => floor,
                Err(_) => {
                    call.shared.forget();
                    floor
                }
            };
            Err(RenewError::RolledBack { floor })
        }
        Err(error) => Err(error),
        Ok(_) if !look.fresh => {
            call.shared.judge_session(&look)?;
            Ok(later(call))
        }
        Ok(Decision::Keep(_)) => {
            // It is written as it stands, so that what is answered is as durable as a renewal.
            let token = cell.token.as_bytes().as_slice();
            let clock = call.shared.clock_ms();
            let rows = call.rows(|all| &all.confirm, &[&token, &clock]).await?;
            let carries = if cell.token == next(ask) { Carries::Next } else { Carries::Token };
            match rows.first() {
                Some(row) if count(row, "generator_id")? == ask.generator_id => {
                    Ok(Next::Answer(renewal(call, row, carries)?))
                }
                _ => Ok(later(call)),
            }
        }
        Ok(Decision::Put(..)) if window > look.meta.longest_window => {
            call.rows(|all| &all.longer, &[&number(window)]).await?;
            Ok(Next::AtOnce)
        }
        Ok(Decision::Put(..)) => Ok(later(call)),
    }
}

fn later(call: &Call) -> Next<Renewal> {
    call.note(locked());
    Next::Later
}
