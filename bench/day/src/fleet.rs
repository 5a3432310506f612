//! Generators under leases of a store, as many as a fleet has.
//!
//! What is real: the generators, an id clock of its own for each, the guard against forks, the
//! store's rules, tokens that change with each renewal, and deadlines. What is not: the keepers'
//! threads, of which one process would have thousands, so that the thread which issues renews when
//! that is due; and a network, for the store is in memory.

use std::sync::Arc;
use std::time::Duration;

use snowlease_core::clock::nanos;
use snowlease_core::{Clock, Format, Generator, Tick, Window};
use snowlease_lease::testing::MemoryStore;
use snowlease_lease::{
    Acquire, Carries, Grant, Holder, IdClock, LeaseStore, Realm, Renew, RequestKey, Terms, Token,
    os,
};

/// A store and the terms of its leases.
#[derive(Debug)]
pub struct Fleet {
    store: MemoryStore,
    format: Format,
    terms: Terms,
    holder: Holder,
}

/// One generator with its lease.
#[derive(Debug)]
pub struct Leased {
    /// Issues the ids.
    pub generator: Generator,
    clock: Arc<IdClock>,
    grant: Grant,
    token: Token,
    renew_at_ns: u64,
    renewals: u64,
}

#[expect(clippy::expect_used, reason = "a benchmark stops at the first surprise")]
impl Fleet {
    /// A fleet whose store has all the generator ids of the format.
    ///
    /// # Panics
    ///
    /// If a store refuses all the ids of a format, or a plain label.
    pub fn new(format: Format, terms: Terms) -> Fleet {
        let all = (0, format.layout().max_generator_id());
        let store = MemoryStore::new(format, all).expect("a range that fits");
        let holder = Holder::new("day", "", "", "").expect("a label");
        Fleet { store, format, terms, holder }
    }

    /// A generator, and the lease it was granted.
    ///
    /// # Panics
    ///
    /// If the store has no generator id left.
    pub fn lease(&self) -> Leased {
        let clock = IdClock::start();
        let generator = Generator::new(self.format, Arc::clone(&clock) as Arc<_>)
            .with_fork_guard(os::fork_guard());
        let key = RequestKey::random();
        let sent = clock.now();
        let ask = Acquire {
            request_key: key.clone(),
            from: self.format.tick_at(sent).expect("a tick"),
            until: self.window_end(sent.unix_ms),
            format: self.format,
            realm: Realm::default(),
            holder: self.holder.clone(),
            patience: self.terms.attempt(),
            now_ms: sent.unix_ms,
        };
        let grant = self.store.acquire(&ask).expect("a lease");
        let layout = self.format.layout();
        let window = Window::new(layout, grant.generator_id, grant.from, grant.until);
        generator.open(window.expect("a window"), self.deadline_ns(sent.boot_ns)).expect("open");
        let renew_at_ns = sent.boot_ns + nanos(self.terms.renew());
        Leased { generator, clock, grant, token: key.token(), renew_at_ns, renewals: 0 }
    }

    /// Renews the lease if that is due at this reading of the boot clock.
    ///
    /// # Panics
    ///
    /// If the store refuses: nobody else had the lease.
    #[inline]
    pub fn renew_if_due(&self, leased: &mut Leased, now_ns: u64) {
        if now_ns >= leased.renew_at_ns {
            self.renew(leased);
        }
    }

    #[cold]
    fn renew(&self, leased: &mut Leased) {
        let sent = leased.clock.now();
        let next = Token::random();
        let ask = Renew {
            generator_id: leased.grant.generator_id,
            token: leased.token.clone(),
            seq: leased.grant.seq,
            next: next.hash(),
            until: self.window_end(sent.unix_ms),
            now_ms: sent.unix_ms,
        };
        let renewal = self.store.renew(&ask).expect("a renewal");
        if renewal.token == Carries::Next {
            leased.token = next;
        }
        leased.grant.seq = renewal.seq;
        leased.grant.until = renewal.until;
        leased.generator.extend(renewal.until, self.deadline_ns(sent.boot_ns));
        leased.renew_at_ns = sent.boot_ns + nanos(self.terms.renew());
        leased.renewals += 1;
    }

    fn window_end(&self, now_ms: i64) -> Tick {
        let window_ms = i64::try_from(self.terms.window().as_millis()).unwrap_or(i64::MAX);
        self.format.first_tick_from_ms(now_ms.saturating_add(window_ms))
    }

    fn deadline_ns(&self, sent_ns: u64) -> u64 {
        let real: Duration = self.terms.window().saturating_sub(self.terms.margin());
        sent_ns + nanos(real)
    }
}

impl Leased {
    /// The generator id that was granted.
    pub fn generator_id(&self) -> u64 {
        self.grant.generator_id
    }

    /// What the store has confirmed: first tick, first tick after.
    pub fn window(&self) -> (Tick, Tick) {
        (self.grant.from, self.grant.until)
    }

    /// How often the lease was renewed.
    pub fn renewals(&self) -> u64 {
        self.renewals
    }
}
