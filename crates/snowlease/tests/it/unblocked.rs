//! Ids without blocking, to one thread alone, and from several generator ids at once.

use std::collections::HashSet;
use std::time::Duration;

use snowlease::{ConnectError, Connector, Format, Id, Layout, Refusal};
use snowlease_lease::os;

fn connector(name: &str) -> Connector {
    Connector::new(format!("memory:{name}")).name("test")
}

#[test]
fn many_futures_at_the_cap_hold_up_no_executor() {
    let ids = connector("futures").max_wait(Duration::from_secs(2)).connect_blocking().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let issued = runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..64 {
            let ids = ids.clone();
            tasks.spawn(async move {
                let mut own = Vec::new();
                for _ in 0..500 {
                    own.push(ids.next_id_async().await.unwrap());
                    own.extend(ids.next_ids_async(9).await.unwrap());
                }
                own
            });
        }
        // On the same thread: late only if one of the tasks held it up.
        let mut latest = Duration::ZERO;
        let mut all: Vec<Id> = Vec::new();
        loop {
            let began_ns = os::boot_ns();
            let pause = tokio::time::sleep(Duration::from_millis(2));
            tokio::select! {
                joined = tasks.join_next() => match joined {
                    Some(own) => {
                        let own = own.unwrap();
                        assert!(own.is_sorted_by(|a, b| a < b));
                        all.extend(own);
                    }
                    None => break,
                },
                () = pause => latest = latest.max(Duration::from_nanos(os::boot_ns() - began_ns)),
            }
        }
        assert!(latest < Duration::from_millis(200), "the executor was held up for {latest:?}");
        all
    });
    let distinct: HashSet<Id> = issued.iter().copied().collect();
    assert_eq!((issued.len(), distinct.len()), (320_000, 320_000));
}

#[test]
fn a_future_that_is_dropped_while_it_waits_costs_nobody_an_id() {
    let ids = connector("dropped").connect_blocking().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut last = Id::MIN;
        for _ in 0..50 {
            let wait = ids.next_ids_async(20_000);
            let cut = tokio::time::timeout(Duration::from_micros(500), wait).await;
            assert!(cut.is_err(), "five ticks went by in half a millisecond");
            let id = ids.next_id_async().await;
            let id = match id {
                Err(Refusal::TickFull { .. }) => continue, // behind what was cut off
                id => id.unwrap(),
            };
            assert!(id > last);
            last = id;
        }
        assert!(last > Id::MIN);
    });
}

#[test]
fn a_batch_of_a_million_is_asked_for_without_blocking_and_too_large_a_one_refused() {
    let ids = connector("large").max_wait(Duration::from_secs(2)).connect_blocking().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let many = runtime.block_on(ids.next_ids_async(1_000_000)).unwrap();
    assert!(many.len() == 1_000_000 && many.is_sorted_by(|a, b| a < b));
    for n in [0, 1 << 21, usize::MAX] {
        let refused = runtime.block_on(ids.next_ids_async(n));
        assert!(matches!(refused, Err(Refusal::BatchSize { .. })), "{n}");
    }
}

#[test]
fn handles_of_threads_share_a_lease_and_keep_it() {
    for connector in [connector("local"), connector("local").ticking()] {
        let ids = connector.connect_blocking().unwrap();
        let locals: Vec<_> = (0..4).map(|_| ids.local()).collect();
        drop(ids);
        let issued: Vec<Vec<Id>> = std::thread::scope(|scope| {
            let threads: Vec<_> = locals
                .into_iter()
                .map(|mut local| {
                    scope.spawn(move || {
                        (0..20_000).filter_map(|_| local.next_id().ok()).collect::<Vec<Id>>()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(issued.iter().all(|ids| ids.is_sorted_by(|a, b| a < b)));
        let distinct: HashSet<Id> = issued.iter().flatten().copied().collect();
        assert_eq!(distinct.len(), issued.iter().map(Vec::len).sum::<usize>());
        assert!(distinct.len() > 70_000, "{}", distinct.len());
    }
}

#[test]
fn a_handle_of_a_thread_ends_with_the_connection() {
    let ids = connector("ended").connect_blocking().unwrap();
    let mut local = ids.local();
    let other = local.clone();
    local.next_id().unwrap();
    ids.shutdown_blocking().unwrap();
    assert_eq!(local.next_id(), Err(Refusal::ShutDown));
    assert_eq!(other.clone().try_next_id(), Err(Refusal::ShutDown));
    assert!(other.ids().status().window.is_none());
}

#[test]
fn a_pool_gives_more_than_one_cap_and_repeats_nothing() {
    // Sixteen ids a tick, so that this thread asks for more than one cap.
    let layout = Layout::new(41, 18, 4).unwrap();
    let format = Format::new(layout, 1, Format::DEFAULT.epoch_ms()).unwrap();
    let connector = connector("pool").format(format).max_wait(Duration::from_secs(2));
    let pool = connector.connect_pool_blocking(3).unwrap();
    let leased: HashSet<u64> =
        pool.members().iter().map(|ids| ids.status().window.unwrap().generator_id()).collect();
    assert_eq!(leased.len(), 3);
    let mut seen = HashSet::new();
    while seen.len() < 10_000 {
        assert!(seen.insert(pool.next_id().unwrap()));
    }
    let used: HashSet<u64> = seen.iter().map(|id| format.decode(*id).generator_id).collect();
    assert!(used.len() > 1, "all are of one generator id");
    assert!(pool.next_ids(500).unwrap().iter().all(|id| seen.insert(*id)));
    pool.shutdown_blocking().unwrap();
}

#[test]
fn a_pool_passes_over_a_member_without_a_lease() {
    let connector = connector("passes").max_wait(Duration::from_secs(2));
    let pool = connector.connect_pool_blocking(2).unwrap();
    for member in pool.members() {
        assert!(pool.next_id().is_ok());
        member.suspend_blocking().unwrap();
    }
    assert!(pool.next_id().is_err());
    assert!(pool.try_next_id().is_err());
    pool.members()[1].resume();
    pool.members()[1].ready_blocking(Duration::from_secs(10)).unwrap();
    for _ in 0..1_000 {
        pool.next_id().unwrap();
    }
}

#[test]
fn a_pool_that_cannot_be_whole_gives_back_what_it_had() {
    // Two generator ids in all.
    let format = Format::new(Layout::new(41, 1, 21).unwrap(), 1, Format::DEFAULT.epoch_ms());
    let connector = connector("whole").format(format.unwrap());
    let keeps_store = connector.clone().connect_blocking().unwrap();
    let short = connector.clone().ready_within(Duration::from_millis(500));
    assert!(matches!(short.connect_pool_blocking(2), Err(ConnectError::NotReady(_))));
    let again = connector.ready_within(Duration::from_secs(5)).connect_blocking().unwrap();
    assert!(again.next_id().is_ok() && keeps_store.next_id().is_ok());
}

#[test]
fn a_pool_without_members_is_refused() {
    assert!(matches!(connector("none").connect_pool_blocking(0), Err(ConnectError::Members)));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let pool = runtime.block_on(connector("some").connect_pool(2)).unwrap();
    let id = runtime.block_on(pool.next_id_async()).unwrap();
    let many = runtime.block_on(pool.next_ids_async(100)).unwrap();
    assert!(many.is_sorted_by(|a, b| a < b) && !many.contains(&id));
    runtime.block_on(pool.shutdown()).unwrap();
}
