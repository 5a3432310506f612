//! `snowlease serve`: composes a store, a keeper and the service, and takes them down in order.
//!
//! Down means: readiness ends and no connection is taken; requests under way are finished; the gate
//! is closed and the lease given back, so that its generator id is free at once. Another signal a
//! second later or more skips all of that.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::Args;
use snowlease_core::{Format, Generator};
use snowlease_lease::{
    Administer, Holder, IdClock, Keeper, Meta, Realm, State, Terms, os, ticking,
};
use snowlease_service::{Limits, Parts, Service, Standing};
use snowlease_wire::time::beside_ticks;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::clock;
use crate::logs;
use crate::output::{self, note};
use crate::settings::keys::{self, Key};
use crate::settings::{Clock, ClockGuard, Flags, Keys, Origin, Setting, Settings, hide_secrets};
use crate::stores::{self, Wanted};
use crate::time::{YEAR_MS, told};
use crate::usage::Usage;
use crate::watch::{Seen, watch};

/// How long a request may wait for a tick behind others; the service bounds how many wait at once.
const QUEUE_WAIT: Duration = Duration::from_millis(100);

/// How long to wait for the first lease before saying that there is none yet.
const FIRST_LEASE: Duration = Duration::from_secs(2);

/// `timeout` signals the group and the process, and a terminal is pressed twice: signals this soon
/// after the first one are the same one.
const ONE_SIGNAL: Duration = Duration::from_secs(1);

/// Enough for the deepest handler in a debug build, and memory is only taken where it is touched.
const STACK_BYTES: usize = 1 << 20;

const EXAMPLES: &str = "\
Examples:
  snowlease serve
  snowlease serve --store sqlite:/var/lib/snowlease/ids.db --listen 127.0.0.1:9000
  snowlease serve --layout t41g13s9 --generators 0-4095 --region eu
  snowlease serve --config snowlease.toml --print-config
  SNOWLEASE_LEASE=30s SNOWLEASE_RENEW=10s snowlease serve

Each value comes from its flag, else its variable, else the file, else its default;
--print-config shows which, as a file that can be used again. A store that is not there is
created; one that is there brings its format and generator ids along unless they are given.
SIGTERM and SIGINT end the service in order, another one a second later or more at once.";

/// Start the lease and id service
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    #[command(flatten)]
    flags: Flags<ServeKeys>,
    /// Print the configuration with the origin of each value, and end
    #[arg(long)]
    print_config: bool,
    /// Print the configuration as JSON
    #[arg(long, requires = "print_config")]
    json: bool,
}

#[derive(Clone, Debug)]
struct ServeKeys;

impl Keys for ServeKeys {
    const KEYS: &'static [&'static Key] = &keys::ALL;
}

impl Serve {
    pub(crate) fn run(self) -> Result<()> {
        let sources = self.flags.sources()?;
        let settings = Settings::resolve(&sources)?;
        sources.suspects().for_each(|suspect| note(format_args!("warning: {suspect}")));
        if self.print_config {
            return output::answer(&if self.json {
                settings.shown.json().to_string()
            } else {
                settings.shown.toml()
            });
        }
        check_exposure(&settings)?;
        logs::start(settings.log);
        // Before the store, so that a port in use leaves no new store behind.
        let listener = bind(settings.listen.value)?;
        let wanted = Wanted {
            format: settings.format.given(),
            range: settings.generators.given(),
            realm: settings.realm.clone(),
            region: settings.holder.region().to_owned(),
            terms: settings.terms,
            rollback_guard: settings.rollback_guard,
        };
        let store = stores::open_or_create(&settings.store.value, &wanted)?;
        let store = clock::gated(store, &settings.clock);
        let meta = store.status()?.meta;
        warn_of_the_end(meta.format);
        warn_of_the_tick(meta.format, settings.terms);
        let serving = Serving {
            meta,
            store,
            url: settings.store.value,
            realm: settings.realm,
            terms: settings.terms,
            clock: settings.clock,
            holder: settings.holder,
            batch: settings.max_ids_per_request,
        };
        serving.run(listener)
    }
}

/// A format must be left before its time field ends, and that takes planning.
fn warn_of_the_end(format: Format) {
    let (end_ms, now_ms) = (format.end_ms(), os::wall_ms());
    if end_ms.saturating_sub(now_ms) < YEAR_MS {
        let verb = if end_ms <= now_ms { "ended" } else { "end" };
        note(format_args!(
            "warning: the ids of this format {verb} at {}: plan a format with a later epoch or \
             more bits of tick",
            told(end_ms)
        ));
    }
}

/// A window ends with a tick, also when it is given back.
fn warn_of_the_tick(format: Format, terms: Terms) {
    let (tick_ms, window_ms) = (u128::from(format.tick_ms()), terms.window().as_millis());
    if tick_ms * 10 > window_ms {
        note(format_args!(
            "warning: a tick of {tick_ms} ms is long for a lease of {window_ms} ms: a generator id \
             that is given back stays taken until its tick ends"
        ));
    }
}

/// A narrow format gives less at once than was asked for; the default is only a bound.
fn warn_of_the_batch(batch: &Setting<usize>, limit: usize) {
    if batch.value > limit && batch.origin != Origin::Default {
        note(format_args!(
            "warning: {} {}: a request gets {limit} ids of this format at most",
            batch.origin.of(&keys::MAX_IDS_PER_REQUEST),
            batch.value
        ));
    }
}

/// Whoever reaches the service gets ids and leases: beyond this machine that must be said.
fn check_exposure(settings: &Settings) -> Result<(), Usage> {
    let listen = settings.listen.value;
    if listen.ip().to_canonical().is_loopback() || settings.insecure {
        return Ok(());
    }
    Err(Usage(format!(
        "{} {listen} is reachable from other machines, and there is no access control: listen on \
         127.0.0.1, or say --insecure if the network keeps strangers out",
        settings.listen.origin.of(&keys::LISTEN)
    )))
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    let listener = TcpListener::bind(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => anyhow!(
            "{address} is in use: another process listens there; stop it, or choose another \
             address with --listen"
        ),
        io::ErrorKind::PermissionDenied => {
            anyhow!("{address} may not be used by this user: choose a port from 1024 on")
        }
        io::ErrorKind::AddrNotAvailable => {
            anyhow!("{address} is no address of this machine: correct --listen")
        }
        _ => anyhow::Error::new(error).context(format!("{address} cannot be listened on")),
    })?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// A store with everything that serving it takes.
struct Serving {
    store: Arc<dyn Administer>,
    /// What the store is for, whatever was configured.
    meta: Meta,
    url: String,
    realm: Realm,
    terms: Terms,
    clock: Clock,
    holder: Holder,
    batch: Setting<usize>,
}

impl Serving {
    fn run(self, listener: TcpListener) -> Result<()> {
        let runtime = runtime()?;
        // Heard from here on, so that no lease is left behind.
        let signals = runtime.block_on(async { Signals::new() })?;
        let line = self.line(listener.local_addr()?);
        let keeper = Arc::new(self.keeper()?);
        warn_of_the_batch(&self.batch, keeper.generator().batch_limit());
        let service = self.service(&keeper);
        let (watching, stop) = mpsc::channel();
        let served = runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            runtime.spawn_blocking({
                let keeper = Arc::clone(&keeper);
                move || watch(&keeper, tell_start(&keeper, &line), &stop)
            });
            service.serve(listener, signals.first()).await
        });
        drop(watching);
        if let Err(not_released) = keeper.stop() {
            note(not_released);
        }
        // Calls that hang in the store do not keep the process.
        runtime.shutdown_background();
        let cut = served.context("the listener failed")?.cut;
        if cut > 0 {
            // Whoever asked sees that there is no answer; nothing of ours is left undone.
            note(format_args!(
                "warning: {cut} connections were cut: their requests took too long to end"
            ));
        }
        Ok(())
    }

    fn keeper(&self) -> Result<Keeper> {
        let no_thread = "the system gives no thread: free some and start again";
        let clock = IdClock::start_on(self.clock.terms);
        if self.clock.guard == ClockGuard::Precise {
            clock::warn_of_slow_reads(clock.status().gauged);
        }
        let generator = Generator::new(self.meta.format, Arc::clone(&clock) as Arc<_>)
            .with_fork_guard(os::fork_guard())
            .with_max_wait(QUEUE_WAIT);
        let generator = match self.clock.guard {
            ClockGuard::Precise => Arc::new(generator),
            ClockGuard::Ticking => ticking(generator, Arc::clone(&clock)).context(no_thread)?,
        };
        let store = Arc::clone(&self.store) as Arc<_>;
        let (holder, realm) = (self.holder.clone(), self.realm.clone());
        Keeper::start(store, generator, clock, self.terms, holder, realm).context(no_thread)
    }

    fn service(self, keeper: &Arc<Keeper>) -> Service {
        let standing = {
            let keeper = Arc::clone(keeper);
            move || Standing::from(keeper.status())
        };
        Service::new(Parts {
            store: self.store,
            generator: Arc::clone(keeper.generator()),
            standing: Arc::new(standing),
            terms: self.terms,
            range: self.meta.range,
            region: self.holder.region().to_owned(),
            realm: self.realm,
            wall_ms: Arc::new(os::wall_ms),
            limits: Limits { batch: self.batch.value, ..Limits::DEFAULT },
        })
    }

    fn line(&self, address: SocketAddr) -> String {
        let (first, last) = self.meta.range;
        let environment = match self.realm.environment() {
            "" => String::new(),
            name => format!("{name}, "),
        };
        let store = hide_secrets(&self.url);
        let what = format!("{environment}store {store}, generator ids {first}-{last}");
        format!("serving ids on http://{address} ({what})")
    }
}

fn runtime() -> Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(thread::available_parallelism().map_or(1, |cores| cores.get().min(8)))
        .thread_stack_size(STACK_BYTES)
        .thread_name("snowlease-http")
        .enable_all()
        .build()
        .context("the system gives no threads: free some and start again")
}

/// Says that ids flow; or, if they do not soon, that the service runs without, and why. Answers
/// with what it has told.
fn tell_start(keeper: &Keeper, line: &str) -> Seen {
    let ready = keeper.wait_ready(FIRST_LEASE);
    let seen = Seen::of(keeper);
    match ready {
        Ok(()) => note(line),
        // It was stopped meanwhile, and says so itself.
        Err(_) if keeper.status().state == State::Idle => {}
        Err(not_ready) => {
            let format = keeper.generator().format();
            let reason = beside_ticks(&not_ready.to_string(), format);
            note(format_args!("{line}; no ids yet: {reason}"));
        }
    }
    seen
}

/// The signals that end the service.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Completes at the first one, and from then on has the next one end the process.
    async fn first(mut self) {
        self.any().await;
        note("stopping: finishing requests, then giving the lease back (again to stop at once)");
        let again = tokio::time::Instant::now() + ONE_SIGNAL;
        tokio::spawn(async move {
            while tokio::time::timeout_at(again, self.any()).await.is_ok() {}
            self.any().await;
            note("stopped at once: the lease ends by itself");
            std::process::exit(1);
        });
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
