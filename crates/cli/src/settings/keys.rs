//! The keys of the configuration: one table for flags, environment, file, help and
//! `--print-config`.

/// What may be configured.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Its flag without the two hyphens in front; its other names follow from it.
    pub(crate) flag: &'static str,
    /// What its value is called in help; a switch has none.
    pub(crate) value: Option<&'static str>,
    /// What holds if nobody says otherwise, as text; empty if there is no such thing.
    pub(crate) default: &'static str,
    /// The default in words, where it depends on something else.
    pub(crate) default_help: &'static str,
    /// What it is for.
    pub(crate) help: &'static str,
    /// The part of the help it stands in; empty for the first.
    pub(crate) heading: &'static str,
}

/// The keys that few have to touch stand apart.
const CLOCK: &str = "Clock";

impl Key {
    const fn new(flag: &'static str, value: &'static str, help: &'static str) -> Key {
        Key { flag, value: Some(value), default: "", default_help: "", help, heading: "" }
    }

    const fn switch(flag: &'static str, help: &'static str) -> Key {
        Key { flag, value: None, default: "false", default_help: "", help, heading: "" }
    }

    const fn default(mut self, default: &'static str) -> Key {
        self.default = default;
        self
    }

    const fn default_help(mut self, default_help: &'static str) -> Key {
        self.default_help = default_help;
        self
    }

    const fn heading(mut self, heading: &'static str) -> Key {
        self.heading = heading;
        self
    }

    /// As it is written in the file.
    pub(crate) fn name(&self) -> String {
        self.flag.replace('-', "_")
    }

    /// The environment variable.
    pub(crate) fn variable(&self) -> String {
        format!("SNOWLEASE_{}", self.name().to_ascii_uppercase())
    }
}

pub(crate) static LISTEN: Key =
    Key::new("listen", "ADDRESS", "Where to serve HTTP; port 0 picks one")
        .default("127.0.0.1:8700");
pub(crate) static STORE: Key = Key::new(
    "store",
    "URL",
    "Where leases are kept: sqlite:PATH, etcd://HOST,HOST/PREFIX, postgres://… or memory:",
)
.default("sqlite:snowlease.db");
pub(crate) static LAYOUT: Key =
    Key::new("layout", "LAYOUT", "Widths of tick, generator id and sequence in bits, 63 together")
        .default("t41g10s12");
pub(crate) static TICK: Key =
    Key::new("tick", "LENGTH", "Length of a tick, with its unit").default("1ms");
pub(crate) static EPOCH: Key =
    Key::new("epoch", "TIME", "The instant of tick 0, RFC 3339 with a zone")
        .default("2024-01-01T00:00:00Z");
pub(crate) static GENERATORS: Key =
    Key::new("generators", "FIRST-LAST", "The generator ids this store grants")
        .default_help("all of the layout, 65,536 at most");
pub(crate) static REGION: Key = Key::new("region", "NAME", "The region this process runs in");
pub(crate) static ENVIRONMENT: Key =
    Key::new("environment", "NAME", "The environment it belongs to, such as production");
pub(crate) static PLAN: Key = Key::new(
    "plan",
    "FILE",
    "The plan of all ranges: brings format, generator ids, region and environment along",
);
pub(crate) static RANGE: Key =
    Key::new("range", "NAME", "The range of the plan that this store grants");
pub(crate) static BRIDGE: Key = Key::new(
    "bridge",
    "LENGTH",
    "How long windows grow with the age of a lease, to outlive an outage of the store",
)
.default_help("as long as a lease: they do not grow");
pub(crate) static ROLLBACK_GUARD: Key = Key::new(
    "rollback-guard",
    "enforce|warn",
    "What to do about a store of a fleet that was silent for long and may have been put back",
)
.default("enforce");
pub(crate) static LEASE: Key =
    Key::new("lease", "LENGTH", "How long a lease holds, with its unit").default("60s");
pub(crate) static RENEW: Key =
    Key::new("renew", "LENGTH", "How often it is renewed, with its unit")
        .default_help("a third of the lease");
pub(crate) static NAME: Key =
    Key::new("name", "LABEL", "The label of this process in the list of leases")
        .default_help("the host's name");
pub(crate) static MAX_IDS_PER_REQUEST: Key =
    Key::new("max-ids-per-request", "COUNT", "The most ids one request may ask for")
        .default("10000");
pub(crate) static INSECURE: Key = Key::switch(
    "insecure",
    "Serve beyond this machine although there is no access control: whoever reaches it gets ids",
);
pub(crate) static LOG: Key = Key::new(
    "log",
    "FILTER",
    "What to log to stderr: error, warn, info, debug, trace, or a filter",
)
.default("warn");

pub(crate) static CLOCK_GATE: Key = Key::new(
    "clock-gate",
    "enforce|warn",
    "What to do about new leases while the kernel does not call this host's clock right",
)
.default_help("enforce with etcd, else warn")
.heading(CLOCK);
pub(crate) static CLOCK_GUARD: Key = Key::new(
    "clock-guard",
    "precise|ticking",
    "Whether each call checks the time, or a thread publishes each tick",
)
.default("precise")
.heading(CLOCK);
pub(crate) static CLOCK_IGNORE: Key =
    Key::new("clock-ignore", "LENGTH", "Offsets of the wall clock that are noise")
        .default("2ms")
        .heading(CLOCK);
pub(crate) static CLOCK_STEP: Key =
    Key::new("clock-step", "LENGTH", "Offsets beyond which somebody has set it")
        .default("500ms")
        .heading(CLOCK);
pub(crate) static CLOCK_SLEW: Key =
    Key::new("clock-slew", "LENGTH", "How much of an offset ids make up for in a second")
        .default("5ms")
        .heading(CLOCK);
pub(crate) static CLOCK_SAMPLE: Key =
    Key::new("clock-sample", "LENGTH", "How often the clocks are compared")
        .default("250ms")
        .heading(CLOCK);
pub(crate) static CLOCK_PAUSE: Key = Key::new(
    "clock-pause",
    "LENGTH",
    "How long ids pause at most when it was set, until the store has answered",
)
.default("3s")
.heading(CLOCK);
pub(crate) static CLOCK_MAX_ERROR: Key = Key::new(
    "clock-max-error",
    "LENGTH",
    "The kernel's estimate of its error from which it is not trusted",
)
.default("3s")
.heading(CLOCK);
pub(crate) static CLOCK_WARN: Key = Key::new(
    "clock-warn",
    "LENGTH",
    "The difference from the store's clock that is worth a warning",
)
.default("250ms")
.heading(CLOCK);
pub(crate) static ORDERING_BOUND: Key = Key::new(
    "ordering-bound",
    "LENGTH",
    "How far an id may be from the host's time before its order is no longer vouched for",
)
.default("5ms")
.heading(CLOCK);

/// Every key: what a file may hold, whichever verb reads it.
pub(crate) static ALL: [&Key; 28] = [
    &LISTEN,
    &STORE,
    &LAYOUT,
    &TICK,
    &EPOCH,
    &GENERATORS,
    &REGION,
    &ENVIRONMENT,
    &PLAN,
    &RANGE,
    &LEASE,
    &RENEW,
    &BRIDGE,
    &ROLLBACK_GUARD,
    &NAME,
    &MAX_IDS_PER_REQUEST,
    &INSECURE,
    &LOG,
    &CLOCK_GATE,
    &CLOCK_GUARD,
    &CLOCK_IGNORE,
    &CLOCK_STEP,
    &CLOCK_SLEW,
    &CLOCK_SAMPLE,
    &CLOCK_PAUSE,
    &CLOCK_MAX_ERROR,
    &CLOCK_WARN,
    &ORDERING_BOUND,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_the_flag() {
        assert_eq!(MAX_IDS_PER_REQUEST.name(), "max_ids_per_request");
        assert_eq!(MAX_IDS_PER_REQUEST.variable(), "SNOWLEASE_MAX_IDS_PER_REQUEST");
        for (place, key) in ALL.iter().enumerate() {
            assert!(ALL[..place].iter().all(|other| other.flag != key.flag), "{}", key.flag);
        }
    }
}
