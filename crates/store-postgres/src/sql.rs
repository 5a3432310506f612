//! The statements: each operation is one, and decides and writes in one atomic step.
//!
//! What they have in common:
//!
//! * A row is locked with `SKIP LOCKED`, so that no statement ever waits for a row that another
//!   session holds, and none of ours waits behind it on the connection. Whoever is skipped tries
//!   again.
//! * The server's clock is read after the row was locked, never when the transaction began.
//! * The conditions of [`rules`](snowlease_lease::rules) stand in the `WHERE` of the `UPDATE`,
//!   which is judged on the row as it is when it is written. A statement that changes nothing has
//!   decided nothing: why is found out afterwards, by the rules themselves.
//! * What an operator changes in `meta` is changed behind a lock of `cells` that keeps every writer
//!   out. In READ COMMITTED a writer takes its lock of the table before it takes its snapshot, so
//!   it sees either the state before and ends before the change, or the state after. Each writes
//!   nothing under another isolation, where a writer that had to wait would judge what was: a
//!   pooler may hand us a session that our settings have not reached.
//! * The transaction syncs its commit whatever the server, the database or the user have set.
//! * The timeline and the table are compared in each, so that no pooler can put another server in
//!   between, and nobody an older table.

use std::time::Duration;

use snowlease_core::Format;
use snowlease_lease::Terms;

use crate::address::Schema;
use crate::schema::{SYSTEM_ID, TIMELINE, cells_oid};

/// The server's clock in Unix ms, unless a parameter gives another one.
fn now(parameter: &str) -> String {
    format!(
        "coalesce({parameter}::bigint, \
         floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint)"
    )
}

/// Makes the commit of this transaction wait for the disk, and for a synchronous standby if there
/// is one.
const DURABLE: &str = "pg_catalog.set_config('synchronous_commit', \
    CASE pg_catalog.current_setting('synchronous_commit') WHEN 'remote_apply' \
    THEN 'remote_apply' ELSE 'on' END, true)";

/// Whether a writer that had to wait for the lock of the table sees what was changed meanwhile.
const FRESH: &str = "pg_catalog.current_setting('transaction_isolation') = 'read committed'";

/// The texts of all statements for one schema.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) grant: String,
    pub(crate) confirm: String,
    pub(crate) renew: String,
    pub(crate) release: String,
    pub(crate) drain: String,
    pub(crate) look: String,
    pub(crate) pool: String,
    pub(crate) pulse: String,
    pub(crate) longer: String,
    pub(crate) list: String,
}

/// The columns of a cell, as `row.rs` reads them.
const CELL: &str = "c.generator_id, c.until_tick, c.draining, c.from_tick, c.seq, \
    c.granted_at_ms, c.format, c.token, c.holder, c.machine, c.process, c.region";

/// The columns of the row about the store, as `row.rs` reads them.
fn meta(schema: &Schema) -> String {
    format!(
        "m.layout, m.tick_ms, m.epoch_ms, m.fingerprint, m.first_id, m.last_id, m.mode, \
         m.floor_tick, m.longest_window, m.region AS store_region, m.environment, m.plan, \
         m.previous_plan, m.timeline = {TIMELINE} AND m.cells_oid = {} AS same_lineage, \
         {FRESH} AS fresh",
        cells_oid(schema)
    )
}

impl Texts {
    pub(crate) fn new(schema: &Schema) -> Texts {
        Texts {
            grant: grant(schema),
            confirm: confirm(schema),
            renew: renew(schema),
            release: release(schema),
            drain: drain(schema),
            look: look(schema),
            pool: pool(schema),
            pulse: format!(
                "SELECT coalesce(max(changed_at_ms), 0) AS pulse_ms, {} AS now_ms \
                   FROM {schema}.cells",
                now("$1")
            ),
            longer: format!(
                "UPDATE {schema}.meta SET longest_window = $1 \
                  WHERE longest_window < $1 AND {FRESH} AND {DURABLE} <> ''"
            ),
            list: format!(
                "SELECT {CELL} FROM {schema}.cells c WHERE seq >= $1 ORDER BY generator_id"
            ),
        }
    }
}

/// Grants one free row to each ask, the one that has been free longest to the one that asks for the
/// earliest tick. Asks that get none, or that have a row already, are left out of the answer.
///
/// 1-9: of each ask the token, first and last tick, window to be remembered, the asker's clock,
/// and the label. 10: the last of the first ticks. 11: how many asks. 12: fingerprint. 13: the
/// clock. 14, 15: of each ask environment and plan. 16: the tolerated skew in ms. 17: in ticks.
fn grant(schema: &Schema) -> String {
    let now = now("$13");
    format!(
        "
    WITH ask AS MATERIALIZED (
        SELECT a.*, row_number() OVER (ORDER BY a.from_tick, a.number) AS turn
          FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
                      $6::text[], $7::text[], $8::text[], $9::text[], $14::text[], $15::text[])
               WITH ORDINALITY AS a(token, from_tick, until_tick, window_ticks, now_ms,
                      holder, machine, process, region, environment, plan, number)
    ), free AS MATERIALIZED (
        SELECT generator_id FROM {schema}.cells
         WHERE NOT draining AND until_tick <= $10::bigint
         ORDER BY until_tick, generator_id LIMIT $11::bigint FOR UPDATE SKIP LOCKED
    ), turn AS MATERIALIZED (
        SELECT generator_id, row_number() OVER () AS turn, {now} AS now_ms, {DURABLE} AS durable
          FROM free
    )
    UPDATE {schema}.cells c
       SET until_tick = least(a.until_tick,
               (t.now_ms - m.epoch_ms) / m.tick_ms + a.window_ticks + $17::bigint),
           from_tick = a.from_tick, seq = c.seq + 1, granted_at_ms = t.now_ms,
           changed_at_ms = t.now_ms, format = m.fingerprint, token = a.token,
           holder = a.holder, machine = a.machine, process = a.process, region = a.region
      FROM ask a JOIN turn t ON t.turn = a.turn CROSS JOIN {schema}.meta m
     WHERE c.generator_id = t.generator_id
       AND NOT c.draining AND c.until_tick <= a.from_tick
       AND m.fingerprint = $12::bigint AND m.mode = 'open' AND m.floor_tick <= a.from_tick
       AND a.environment IN ('', m.environment)
       AND (a.plan IS NULL OR a.plan IN (m.plan, m.previous_plan))
       AND a.window_ticks <= m.longest_window
       AND abs(a.now_ms - t.now_ms) <= $16::bigint
       AND (t.now_ms - m.epoch_ms) / m.tick_ms + a.window_ticks + $17::bigint > a.from_tick
       AND m.timeline = {TIMELINE} AND m.cells_oid = c.tableoid::bigint
       AND t.durable <> '' AND {FRESH}
       AND NOT EXISTS (SELECT FROM {schema}.cells k WHERE k.token = a.token)
    RETURNING a.number, c.generator_id, c.from_tick, c.until_tick, c.seq, t.now_ms"
    )
}

/// Writes a row as it is: what is read of it has then been committed as durably as a grant.
///
/// 1: the token. 2: the clock.
fn confirm(schema: &Schema) -> String {
    let now = now("$2");
    format!(
        "
    WITH mine AS MATERIALIZED (
        SELECT generator_id FROM {schema}.cells WHERE token = $1::bytea FOR UPDATE SKIP LOCKED
    ), turn AS MATERIALIZED (
        SELECT generator_id, {now} AS now_ms, {DURABLE} AS durable FROM mine
    )
    UPDATE {schema}.cells c SET changed_at_ms = c.changed_at_ms
      FROM turn t, {schema}.meta m
     WHERE c.generator_id = t.generator_id AND c.token = $1::bytea AND t.durable <> ''
       AND {FRESH}
       AND m.timeline = {TIMELINE} AND m.cells_oid = c.tableoid::bigint
    RETURNING c.generator_id, c.from_tick, c.until_tick, c.seq, c.draining, t.now_ms"
    )
}

/// Moves `until` of each row that is bytewise the one that the ask knows. Others are left out of
/// the answer.
///
/// 1-6: of each ask the generator id, token, seq, next token, until, window to be remembered.
/// 7: the tolerated skew in ticks. 8: the clock.
fn renew(schema: &Schema) -> String {
    let now = now("$8");
    format!(
        "
    WITH ask AS MATERIALIZED (
        SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bytea[], $5::bigint[],
                             $6::bigint[])
               WITH ORDINALITY AS a(generator_id, token, seq, next, until_tick, window_ticks,
                                    number)
    ), held AS MATERIALIZED (
        SELECT generator_id FROM {schema}.cells WHERE generator_id = ANY ($1::bigint[])
           FOR UPDATE SKIP LOCKED
    ), turn AS MATERIALIZED (
        SELECT generator_id, {now} AS now_ms, {DURABLE} AS durable FROM held
    )
    UPDATE {schema}.cells c
       SET until_tick = least(a.until_tick,
               (t.now_ms - m.epoch_ms) / m.tick_ms + a.window_ticks + $7::bigint),
           seq = c.seq + 1, token = a.next, changed_at_ms = t.now_ms
      FROM ask a JOIN turn t ON t.generator_id = a.generator_id CROSS JOIN {schema}.meta m
     WHERE c.generator_id = a.generator_id AND c.token = a.token AND c.seq = a.seq
       AND least(a.until_tick, (t.now_ms - m.epoch_ms) / m.tick_ms + a.window_ticks + $7::bigint)
           > c.until_tick
       AND m.floor_tick <= c.until_tick
       AND a.window_ticks <= m.longest_window
       AND m.timeline = {TIMELINE} AND m.cells_oid = c.tableoid::bigint
       AND t.durable <> '' AND {FRESH}
    RETURNING a.number, c.until_tick, c.seq, c.draining, t.now_ms"
    )
}

/// Cuts the window of a row that bears one of the tokens.
///
/// 1: generator id. 2, 3: the tokens. 4: seq. 5: the first tick not used.
fn release(schema: &Schema) -> String {
    format!(
        "
    WITH held AS MATERIALIZED (
        SELECT generator_id, {DURABLE} AS durable FROM (
            SELECT generator_id FROM {schema}.cells WHERE generator_id = $1::bigint
               FOR UPDATE SKIP LOCKED) AS h
    )
    UPDATE {schema}.cells c
       SET until_tick = $5::bigint, seq = c.seq + 1, token = NULL,
           holder = '', machine = '', process = '', region = ''
      FROM held h
     WHERE c.generator_id = h.generator_id AND c.token IN ($2::bytea, $3::bytea)
       AND c.seq >= $4::bigint AND $5::bigint BETWEEN c.from_tick AND c.until_tick
       AND h.durable <> '' AND {FRESH}
    RETURNING c.seq"
    )
}

/// Sets or takes back the mark of a row that has it not or has it.
///
/// 1: generator id. 2: whether it drains.
fn drain(schema: &Schema) -> String {
    format!(
        "
    WITH held AS MATERIALIZED (
        SELECT generator_id, {DURABLE} AS durable FROM (
            SELECT generator_id FROM {schema}.cells WHERE generator_id = $1::bigint
               FOR UPDATE SKIP LOCKED) AS h
    )
    UPDATE {schema}.cells c SET draining = $2, seq = c.seq + 1
      FROM held h
     WHERE c.generator_id = h.generator_id AND c.draining <> $2 AND h.durable <> ''
       AND {FRESH}
    RETURNING c.seq"
    )
}

/// A row and what the store is for, to find out why nothing was changed.
///
/// 1: generator id. 2: the clock.
fn look(schema: &Schema) -> String {
    let (now, meta) = (now("$2"), meta(schema));
    format!(
        "SELECT {CELL}, {meta}, {now} AS now_ms
           FROM {schema}.meta m LEFT JOIN {schema}.cells c ON c.generator_id = $1::bigint"
    )
}

/// What the store is for, whether a token is in it, and when the first row becomes free.
///
/// 1: the token. 2: the clock.
fn pool(schema: &Schema) -> String {
    let (now, meta) = (now("$2"), meta(schema));
    format!(
        "SELECT {meta}, {now} AS now_ms,
                EXISTS (SELECT FROM {schema}.cells c WHERE c.token = $1::bytea) AS mine,
                (SELECT until_tick FROM {schema}.cells c WHERE NOT c.draining
                  ORDER BY until_tick, generator_id LIMIT 1) AS earliest
           FROM {schema}.meta m"
    )
}

/// How long such a change waits for the grants under way before it makes room for others.
pub(crate) const LOCK_WAIT: Duration = Duration::from_millis(200);

/// How long it waits the second time, and every third time after that: longer than it takes
/// PostgreSQL to end a vacuum of its own that is in the way (`deadlock_timeout`, one second). All
/// grants and renewals wait behind it meanwhile, so it is not waited as long each time.
const LONG_LOCK_WAIT: Duration = Duration::from_millis(1_300);

/// How long a change waits that was tried so often before and has so much time left; `None`: it
/// could not end in time.
pub(crate) fn lock_wait(tried: u32, left: Duration) -> Option<Duration> {
    let most = if tried % 3 == 1 { LONG_LOCK_WAIT } else { LOCK_WAIT };
    (left >= LOCK_WAIT * 3 / 2).then(|| most.min(left * 2 / 3))
}

/// Changes the row about the store, in one message and one transaction, while no grant or renewal
/// is under way; what these have written is seen, also in a session of another isolation.
pub(crate) fn alone(schema: &Schema, change: &str, wait: Duration) -> String {
    format!(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
         SET LOCAL lock_timeout = {}; SELECT {DURABLE};
         LOCK TABLE {schema}.cells IN SHARE MODE; {change}",
        wait.as_millis()
    )
}

/// Raises the floor to this tick and to every `until` that could be granted from again.
pub(crate) fn raise_floor(schema: &Schema, at_least: u64) -> String {
    format!(
        "UPDATE {schema}.meta SET floor_tick = greatest(floor_tick, {at_least}, \
         (SELECT max(until_tick) FROM {schema}.cells WHERE NOT draining)) RETURNING floor_tick"
    )
}

/// The same, and past every window that may be forgotten, by the server's clock: unless a
/// quarantine is in force and no more than that is asked for.
pub(crate) fn quarantine(schema: &Schema, format: Format, at_least: u64) -> String {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let usual = format.ticks_in_ms(ms(Terms::DEFAULT.window()));
    let skew = format.ticks_in_ms(ms(Terms::SKEW_LIMIT * 2));
    let now = now("NULL");
    format!(
        "UPDATE {schema}.meta SET floor_tick = greatest(floor_tick, {at_least}, \
         (SELECT max(until_tick) FROM {schema}.cells WHERE NOT draining), \
         (SELECT now_tick + greatest(longest_window, {usual}) + {skew} + 1 \
            FROM (SELECT ({now} - epoch_ms) / tick_ms AS now_tick) AS clock \
           WHERE {at_least} > floor_tick OR floor_tick <= now_tick + {skew})) \
         RETURNING floor_tick"
    )
}

/// The same if the lineage is another one than was recorded, which is then recorded too.
pub(crate) fn follow_lineage(schema: &Schema, at_least: u64) -> String {
    let cells_oid = cells_oid(schema);
    format!(
        "UPDATE {schema}.meta SET floor_tick = greatest(floor_tick, {at_least}, \
         (SELECT max(until_tick) FROM {schema}.cells WHERE NOT draining)), \
         system_id = {SYSTEM_ID}, timeline = {TIMELINE}, cells_oid = {cells_oid} \
         WHERE (system_id, timeline, cells_oid) \
         IS DISTINCT FROM ({SYSTEM_ID}, {TIMELINE}, {cells_oid}) \
         RETURNING floor_tick"
    )
}
