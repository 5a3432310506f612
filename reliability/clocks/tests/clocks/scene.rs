//! What most scenarios begin with: a service, and a holder that leases from it.

use std::time::Duration;

use snowlease_clocks::true_ns;
use snowlease_lease::{ClockTerms, os};
use tempfile::TempDir;

use crate::fakes::Fakes;
use crate::holder::Holder;
use crate::judge::{Log, unique};
use crate::service::Service;
use crate::time::{TrueTime, ms};

/// What a thread may lose to other processes of a loaded machine, in time: a scenario that needs
/// more of it is not judged by it.
pub(crate) const LOADED: Duration = ms(1_500);

/// Until a step has been looked at and dealt with: the look that is due four times a second, the
/// longest pause, and a thread that was not given a core.
pub(crate) const SETTLED: Duration = ms(250 + 3_000 + 1_500);

/// Offsets that are left alone, in ms.
pub(crate) const LEFT_ALONE_MS: i64 = 2;

/// How fast an offset is made up for, in ms a second.
pub(crate) const SLEW_MS: i64 = 5;

#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) time: TrueTime,
    pub(crate) of_service: Fakes,
    /// The holder's own; none if it is wrong wherever the service is.
    own: Option<Fakes>,
    pub(crate) service: Service,
    pub(crate) holder: Holder,
    /// When all of it ran, in true time.
    pub(crate) begun_ns: u64,
    /// Kept until all of it is over.
    _folder: TempDir,
}

impl Scene {
    /// Both on one host: whatever happens to the clocks happens to both.
    pub(crate) fn on_one_host() -> Scene {
        Scene::start(false)
    }

    /// The holder has a host of its own.
    pub(crate) fn on_two_hosts() -> Scene {
        Scene::start(true)
    }

    fn start(apart: bool) -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        let of_service = Fakes::true_ones(folder.path(), "service");
        let own = apart.then(|| Fakes::true_ones(folder.path(), "holder"));
        let service = Service::start(folder.path(), Some(&of_service), &[]);
        let fakes = own.as_ref().unwrap_or(&of_service);
        let holder = Holder::start(folder.path(), "a", fakes, &service);
        let time = TrueTime::look();
        let begun_ns = true_ns();
        Scene { time, of_service, own, service, holder, begun_ns, _folder: folder }
    }

    /// The clocks of the holder.
    pub(crate) fn fakes(&self) -> &Fakes {
        self.own.as_ref().unwrap_or(&self.of_service)
    }

    /// The true wall clock, as the clocks of the judge are written.
    pub(crate) fn true_wall(&self) -> impl Fn(u64) -> i64 + use<> {
        let time = self.time;
        move |ns| time.unix_ms(ns)
    }

    /// A wall clock that is off by so much.
    pub(crate) fn wall_off(&self, by_ms: i64) -> impl Fn(u64) -> i64 + use<> {
        let time = self.time;
        move |ns| time.unix_ms(ns) + by_ms
    }

    /// What the holder was given, after what holds of every scenario: no id twice, order on the
    /// handle, and nobody panicked.
    #[track_caller]
    pub(crate) fn judged(&mut self, seeded_anew: bool) -> Log {
        assert!(self.holder.process.runs(), "it has ended: {}", self.holder.errors());
        assert_eq!(self.holder.errors(), "");
        no_panic(&self.service);
        let (log, of_service) = (self.holder.log(), self.service.log());
        log.ascends(seeded_anew);
        if of_service.lines.is_empty() {
            unique(&[&log]);
        } else {
            unique(&[&log, &of_service]);
        }
        log
    }
}

#[track_caller]
pub(crate) fn no_panic(service: &Service) {
    let said = service.said();
    assert!(!said.contains("panicked"), "{said}");
}

/// What a service has issued: each id once, in order, and without a panic.
#[track_caller]
pub(crate) fn judged(service: &Service, turns_back: bool) -> Log {
    no_panic(service);
    let log = service.log();
    unique(&[&log]);
    log.ascends(turns_back);
    log
}

/// Whether the kernel of this machine holds its wall clock to be synchronised, which counts where
/// there is no reference.
pub(crate) fn kernel_vouches() -> bool {
    os::kernel_time().is_some_and(|kernel| kernel.is_sure(ClockTerms::DEFAULT.max_error))
}
