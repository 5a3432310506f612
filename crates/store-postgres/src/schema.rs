//! The tables: one row per generator id, one row about the store, and which versions were made.
//!
//! Everything is a plain column, so that an operator can look at it by SQL. Rows of `cells` are all
//! made at once and never deleted: `until_tick` is the high-water mark of its generator id.

use snowlease_lease::Outage;
use tokio_postgres::types::Type;

use crate::address::Schema;
use crate::fault::Fault;
use crate::row;
use crate::session::Session;

/// The version that this program makes and knows.
pub(crate) const VERSION: i32 = 1;

/// The label of a holder, a column for each part.
const TEXT: &str = "text NOT NULL DEFAULT ''";

/// Tells our tables from those of other programs.
const PROGRAM: &str = "snowlease";

/// What a schema holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// There is no such schema, or nothing in it.
    Missing,
    /// Tables of another program.
    Foreign,
    /// A store of this version.
    Ours(i32),
}

/// Answers one row: the number of tables in the schema, and whether ours is among them. The name
/// of the schema is the parameter.
const LOOK: &str = "
    SELECT count(*) AS tables,
           count(*) FILTER (WHERE c.relname = 'migrations' AND a.attname = 'program') AS ours
      FROM pg_catalog.pg_class c
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
      LEFT JOIN pg_catalog.pg_attribute a
        ON a.attrelid = c.oid AND a.attname = 'program' AND NOT a.attisdropped
     WHERE n.nspname = $1 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')";

/// Looks what the schema holds, and changes nothing.
pub(crate) async fn look(session: &Session, schema: &Schema) -> Result<Kind, Fault> {
    let fault = |error| Fault::of_statement(&error, &session.server);
    let damaged = |_| {
        Fault::tell(Outage::unavailable(
            "the catalogue of PostgreSQL is not readable: look into the server's log",
        ))
    };
    let rows = session
        .client
        .query_typed(LOOK, &[(&schema.to_string(), Type::NAME)])
        .await
        .map_err(fault)?;
    let Some(row) = rows.first() else { return Ok(Kind::Missing) };
    let (tables, ours) = (row.try_get(0).map_err(damaged)?, row.try_get(1).map_err(damaged)?);
    match (tables, ours) {
        (0_i64, _) => return Ok(Kind::Missing),
        (_, 0_i64) => return Ok(Kind::Foreign),
        _ => {}
    }
    let rows = session.client.query_typed(&version(schema), &[]).await.map_err(fault)?;
    let version = match rows.first() {
        Some(row) => row::get::<Option<i32>>(row, "version").map_err(Fault::tell)?,
        None => None,
    };
    Ok(version.map_or(Kind::Foreign, Kind::Ours))
}

/// Which version the schema has. Only if [`LOOK`] found our table.
fn version(schema: &Schema) -> String {
    format!("SELECT max(version) AS version FROM {schema}.migrations WHERE program = '{PROGRAM}'")
}

/// Makes the tables of version 1, without rows.
pub(crate) fn create(schema: &Schema) -> String {
    format!(
        "
    CREATE TABLE {schema}.migrations (
        program text NOT NULL,
        version integer NOT NULL,
        made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (program, version)
    );
    CREATE TABLE {schema}.meta (
        only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
        layout text NOT NULL,
        tick_ms bigint NOT NULL CHECK (tick_ms > 0),
        epoch_ms bigint NOT NULL,
        fingerprint bigint NOT NULL,
        first_id bigint NOT NULL CHECK (first_id >= 0),
        last_id bigint NOT NULL CHECK (last_id >= first_id),
        mode text NOT NULL DEFAULT 'open' CHECK (mode IN ('open', 'frozen')),
        floor_tick bigint NOT NULL DEFAULT 0 CHECK (floor_tick >= 0),
        longest_window bigint NOT NULL DEFAULT 0 CHECK (longest_window >= 0),
        region {TEXT},
        environment {TEXT},
        plan text,
        previous_plan text,
        system_id bigint NOT NULL,
        timeline bigint NOT NULL,
        cells_oid bigint NOT NULL
    );
    CREATE TABLE {schema}.cells (
        generator_id bigint PRIMARY KEY,
        until_tick bigint NOT NULL DEFAULT 0 CHECK (until_tick >= 0),
        draining boolean NOT NULL DEFAULT false,
        from_tick bigint NOT NULL DEFAULT 0 CHECK (from_tick >= 0),
        seq bigint NOT NULL DEFAULT 0 CHECK (seq >= 0),
        granted_at_ms bigint NOT NULL DEFAULT 0,
        changed_at_ms bigint NOT NULL DEFAULT 0,
        format bigint NOT NULL,
        token bytea CHECK (octet_length(token) = 32),
        holder {TEXT},
        machine {TEXT},
        process {TEXT},
        region {TEXT}
    ) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);
    CREATE INDEX cells_by_until ON {schema}.cells (until_tick, generator_id) WHERE NOT draining;
    CREATE UNIQUE INDEX cells_by_token ON {schema}.cells (token) WHERE token IS NOT NULL;
    COMMENT ON SCHEMA {schema} IS 'leases of generator ids by snowlease';
    COMMENT ON TABLE {schema}.cells IS
        'one row per generator id; never delete a row, never lower until_tick';
    COMMENT ON COLUMN {schema}.cells.token IS 'hash of the token of the holder; NULL: nobody';
    COMMENT ON COLUMN {schema}.cells.changed_at_ms IS 'last grant or renewal, Unix ms';
    INSERT INTO {schema}.migrations (program, version) VALUES ('{PROGRAM}', {VERSION});"
    )
}

/// Fills a store that was just made. Parameters: layout, tick length, epoch, fingerprint, first and
/// last generator id, region, environment, plan.
pub(crate) fn fill(schema: &Schema) -> [String; 2] {
    let cells_oid = cells_oid(schema);
    [
        format!(
            "INSERT INTO {schema}.meta (layout, tick_ms, epoch_ms, fingerprint, first_id, last_id,
                    region, environment, plan, system_id, timeline, cells_oid)
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, {SYSTEM_ID}, {TIMELINE},
                    {cells_oid}"
        ),
        format!(
            "INSERT INTO {schema}.cells (generator_id, format)
             SELECT id, $3 FROM generate_series($1::bigint, $2::bigint) AS id"
        ),
    ]
}

/// The identity of the table of cells: tables that are made anew from a dump have another.
pub(crate) fn cells_oid(schema: &Schema) -> String {
    format!("'{schema}.cells'::pg_catalog.regclass::oid::bigint")
}

/// The identity of the cluster: made by `initdb`, kept by every copy.
pub(crate) const SYSTEM_ID: &str = "(SELECT system_identifier FROM pg_catalog.pg_control_system())";

/// The history that the log is written to now: grows with each promotion, also when the control
/// file does not say so yet.
pub(crate) const TIMELINE: &str = "('x' || lpad(left(pg_catalog.pg_walfile_name(\
    pg_catalog.pg_current_wal_lsn()), 8), 16, '0'))::bit(64)::bigint";
