//! Connecting: from a URL and a few settings to a handle that issues ids.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use snowlease_core::clock::nanos;
use snowlease_core::{Format, Generator};
use snowlease_lease::{
    ClockGate, ClockTerms, ClockTermsError, Gated, Holder, HolderError, IdClock, Keeper,
    LeaseStore, Meta, NotReady, PlanHash, Realm, RealmError, StoreStatus, Terms, os, ticking,
};

use crate::Ids;
use crate::offload::Offload;
use crate::store::{self, StoreError};

/// Settings of a connection.
///
/// # Example
///
/// ```
/// use std::time::Duration;
///
/// let ids = snowlease::Connector::new("memory:orders")
///     .name("orders-writer")
///     .region("eu-1")
///     .ready_within(Duration::from_secs(2))
///     .connect_blocking()?;
/// assert_eq!(ids.format(), snowlease::Format::DEFAULT);
/// # Ok::<(), snowlease::ConnectError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Connector {
    url: String,
    name: Option<String>,
    region: String,
    format: Option<Format>,
    realm: Realm,
    terms: Terms,
    clock_terms: ClockTerms,
    clock_gate: Option<ClockGate>,
    ticking: bool,
    ready_within: Duration,
    max_wait: Duration,
}

impl Connector {
    /// A connection to the store at this URL; see the crate's table of URLs.
    pub fn new(url: impl Into<String>) -> Connector {
        Connector {
            url: url.into(),
            name: None,
            region: String::new(),
            format: None,
            realm: Realm::default(),
            terms: Terms::DEFAULT,
            clock_terms: ClockTerms::DEFAULT,
            clock_gate: None,
            ticking: false,
            ready_within: Duration::from_secs(10),
            max_wait: Generator::DEFAULT_MAX_WAIT,
        }
    }

    /// The name shown for this holder in lists of leases; the program's name otherwise.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Connector {
        self.name = Some(name.into());
        self
    }

    /// The region shown for this holder.
    #[must_use]
    pub fn region(mut self, region: impl Into<String>) -> Connector {
        self.region = region.into();
        self
    }

    /// The format to insist on; connecting to a store of another one is then refused. Otherwise the
    /// store's is used, or [`Format::DEFAULT`] for a new one.
    #[must_use]
    pub fn format(mut self, format: Format) -> Connector {
        self.format = Some(format);
        self
    }

    /// The environment this holder belongs to; a store of another one grants it nothing. A store
    /// that has one is leased from directly only by those who state it; a service states its
    /// own for those who do not.
    ///
    /// # Errors
    ///
    /// [`RealmError`] says what a name may look like.
    pub fn environment(mut self, name: impl Into<String>) -> Result<Connector, RealmError> {
        self.realm = Realm::new(name, self.realm.plan())?;
        Ok(self)
    }

    /// The plan this holder was started with; a store of another one grants it nothing.
    #[must_use]
    pub fn plan(mut self, plan: PlanHash) -> Connector {
        self.realm = self.realm.with_plan(Some(plan));
        self
    }

    /// How long windows are and how often they are renewed.
    #[must_use]
    pub fn terms(mut self, terms: Terms) -> Connector {
        self.terms = terms;
        self
    }

    /// How far the wall clock may be off before that is taken for drift, for a step, for a clock
    /// not to be trusted; [`ClockTerms::DEFAULT`] unless set.
    ///
    /// # Errors
    ///
    /// [`ClockTermsError`] says which length does not go, and what does.
    ///
    /// # Example
    ///
    /// On a host whose clock is set by a slow daemon, a tenth of a second is no drift:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use snowlease::{ClockTerms, Connector};
    ///
    /// let terms = ClockTerms { step: Duration::from_millis(100), ..ClockTerms::DEFAULT };
    /// let ids = Connector::new("memory:orders").clock_terms(terms)?.connect_blocking()?;
    /// # ids.next_id()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock_terms(mut self, terms: ClockTerms) -> Result<Connector, ClockTermsError> {
        self.clock_terms = terms.checked()?;
        Ok(self)
    }

    /// What to do while the kernel does not call the wall clock right. Unless set, nothing is
    /// leased anew from etcd then ([`ClockGate::Enforce`]): machines that lease from it have
    /// only their own clocks. From any other store there is, as that has a clock or is for one
    /// machine.
    ///
    /// A lease that is held goes on either way.
    ///
    /// # Example
    ///
    /// ```
    /// use snowlease::{ClockGate, Connector};
    ///
    /// // Nobody synchronises the clocks of this fleet, and it needs no order among its machines.
    /// let connector = Connector::new("etcd://10.0.0.1,10.0.0.2/ids").clock_gate(ClockGate::Warn);
    /// ```
    #[must_use]
    pub fn clock_gate(mut self, gate: ClockGate) -> Connector {
        self.clock_gate = Some(gate);
        self
    }

    /// Has a thread publish the ticks, so that no call reads a clock: the *ticking* guard, for
    /// callers that need the last nanoseconds.
    ///
    /// # What it gives up
    ///
    /// Right after a pause of the whole process (SIGSTOP, suspend, a stolen processor) ids may
    /// carry the tick of before the pause until the thread wakes, also past the real time of the
    /// lease (G4): one sequence's worth of them at most, still unique, ascending and inside the
    /// window (G1, G2). Otherwise an id's tick lags by what the thread takes to wake: some 50 µs on
    /// an idle core.
    ///
    /// # Cost
    ///
    /// A thread that wakes once a tick while ids are drawn, and not at all otherwise. A call
    /// reads no clock; `docs/compare.md` has figures.
    ///
    /// # Example
    ///
    /// ```
    /// let ids = snowlease::Connector::new("memory:orders").ticking().connect_blocking()?;
    /// let (one, other) = (ids.next_id()?, ids.next_id()?);
    /// assert!(one < other);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn ticking(mut self) -> Connector {
        self.ticking = true;
        self
    }

    /// How long connecting may wait for the first lease: 10 s unless set.
    #[must_use]
    pub fn ready_within(mut self, timeout: Duration) -> Connector {
        self.ready_within = timeout;
        self
    }

    /// How long a call may wait for a free tick behind others: 10 ms unless set.
    #[must_use]
    pub fn max_wait(mut self, max_wait: Duration) -> Connector {
        self.max_wait = max_wait;
        self
    }

    /// Connects without blocking the executor.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub async fn connect(self) -> Result<Ids, ConnectError> {
        Offload::start(move || self.connect_blocking()).map_err(ConnectError::Thread)?.await
    }

    /// Connects and blocks until ids can be issued.
    ///
    /// # Errors
    ///
    /// See [`ConnectError`].
    pub fn connect_blocking(self) -> Result<Ids, ConnectError> {
        let until_ns = os::boot_ns().saturating_add(nanos(self.ready_within));
        let holder = self.holder()?;
        let store = self.open(holder.name(), until_ns)?;
        let meta = self.meta_of(&*store, until_ns)?;
        self.check_environment(&meta)?;
        let format = meta.format;
        let clock = IdClock::start_on(self.clock_terms);
        let generator = Generator::new(format, Arc::clone(&clock) as Arc<_>)
            .with_max_wait(self.max_wait)
            .with_fork_guard(os::fork_guard());
        let generator = if self.ticking {
            ticking(generator, Arc::clone(&clock)).map_err(ConnectError::Thread)?
        } else {
            Arc::new(generator)
        };
        let keeper =
            Keeper::start(self.gated(&store), generator, clock, self.terms, holder, self.realm)
                .map_err(ConnectError::Thread)?;
        let left = Duration::from_nanos(until_ns.saturating_sub(os::boot_ns()));
        keeper.wait_ready(left)?;
        Ok(Ids::new(keeper, store))
    }

    /// The store as the keeper is to have it.
    fn gated(&self, store: &store::Shared) -> store::Shared {
        let has_no_clock = matches!(self.url.split_once(':'), Some(("etcd" | "etcds", _)));
        let usual = if has_no_clock { ClockGate::Enforce } else { ClockGate::Warn };
        match self.clock_gate.unwrap_or(usual) {
            ClockGate::Enforce => {
                Arc::new(Gated::new(Arc::clone(store), self.clock_terms.max_error))
            }
            ClockGate::Warn => Arc::clone(store),
        }
    }

    /// The store, waiting for one that does not answer yet.
    fn open(&self, holder: &str, until_ns: u64) -> Result<store::Shared, StoreError> {
        loop {
            match store::open(&self.url, holder, self.format, self.terms) {
                Err(StoreError::Away(_)) if os::boot_ns() < until_ns => {
                    std::thread::park_timeout(Duration::from_millis(100));
                }
                opened => return opened,
            }
        }
    }

    fn holder(&self) -> Result<Holder, HolderError> {
        let name = self.name.clone().unwrap_or_else(program_name);
        let process = std::process::id().to_string();
        Holder::new(name, os::host_name(), process, self.region.as_str())
    }

    /// Who leases from a store directly says where it belongs, if the store does: a program without
    /// a word of configuration never joins production by accident. A service says it for those who
    /// ask it.
    fn check_environment(&self, meta: &Meta) -> Result<(), ConnectError> {
        let of_service = self.url.split_once("://").is_some_and(|(scheme, _)| {
            scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https")
        });
        let theirs = meta.realm.environment();
        if of_service || theirs.is_empty() || !self.realm.environment().is_empty() {
            return Ok(());
        }
        Err(ConnectError::Environment { theirs: theirs.to_owned() })
    }

    /// What the store is for, waiting for a store that does not answer yet.
    fn meta_of(&self, store: &dyn LeaseStore, until_ns: u64) -> Result<Meta, ConnectError> {
        let meta = loop {
            match store.status() {
                Ok(StoreStatus { meta, .. }) => break meta,
                Err(outage) if os::boot_ns() >= until_ns => {
                    return Err(NotReady { reason: outage.detail }.into());
                }
                Err(_) => std::thread::park_timeout(Duration::from_millis(100)),
            }
        };
        match self.format {
            Some(ours) if ours != meta.format => {
                Err(ConnectError::Format { ours, theirs: meta.format })
            }
            _ => Ok(meta),
        }
    }
}

fn program_name() -> String {
    let program = std::env::current_exe().ok();
    let name =
        program.as_deref().and_then(|path| path.file_name()).map(|name| name.to_string_lossy());
    match name {
        Some(name) if !name.is_empty() && name.len() <= Holder::MAX_BYTES => name.into_owned(),
        _ => "unnamed".to_owned(),
    }
}

/// Why there is no connection.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The URL is wrong, or the store it names cannot be opened. Do as the text says.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store's ids have another format than the one insisted on. Use the store's.
    #[error(
        "the store's format is {theirs}, not {ours}: ids of both would collide; use the store's"
    )]
    Format {
        /// What was asked for.
        ours: Format,
        /// What the store has.
        theirs: Format,
    },
    /// The store is of an environment, and none was stated. State it, if that is where this program
    /// belongs.
    #[error(
        "the store is of the environment {theirs}: state it with `Connector::environment` if that \
         is where this program belongs"
    )]
    Environment {
        /// The store's.
        theirs: String,
    },
    /// No lease was had in time. The text says what stood in the way; try again.
    #[error("no lease in time: {0}")]
    NotReady(#[from] NotReady),
    /// The name or region given is no label.
    #[error(transparent)]
    Holder(#[from] HolderError),
    /// A pool of no members was asked for. Ask for one at least.
    #[error("a pool needs at least one member")]
    Members,
    /// The system gave no thread. Free some and try again.
    #[error("the system gives no thread: {0}")]
    Thread(std::io::Error),
}

/// As `Display`: a program whose `main` returns this prints what to do.
impl fmt::Debug for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
