//! The operator's quarantine, by the clock of the server.

use snowlease_lease::{Acquire, AcquireError, Administer};

use super::*;

fn tick(ahead_ms: i64) -> u64 {
    format().tick_at_ms(os::wall_ms() + ahead_ms).unwrap().0
}

/// An operator whose clock is behind, or who has asked for nothing, forgets no window.
#[test]
fn a_quarantine_reaches_past_every_window_by_the_clock_of_the_server() {
    let server = server(Kind::default(), 8);
    let store = open(&server.url());
    for at_least in [0, tick(-3_600_000)] {
        server.sql("ids", "UPDATE snowlease.meta SET floor_tick = 0");
        let floor = store.quarantine(Tick(at_least)).unwrap().0;
        let now = tick(0);
        // Windows of a minute, and twice the tolerated skew.
        assert!((now + 63_000..now + 64_100).contains(&floor), "{floor} at {now}");
        // A quarantine that is in force is not made longer by asking for it again.
        assert_eq!(store.quarantine(Tick(at_least)), Ok(Tick(floor)));
        assert_eq!(store.quarantine(Tick(floor)), Ok(Tick(floor)));
        // More than that is given to who asks for more.
        assert_eq!(store.quarantine(Tick(floor + 7_000)), Ok(Tick(floor + 7_000)));
    }
    // The longest window that was ever granted is waited for.
    server.sql("ids", "UPDATE snowlease.meta SET floor_tick = 1, longest_window = 600000");
    let floor = store.quarantine(Tick(0)).unwrap().0;
    assert!((603_000..604_100).contains(&(floor - tick(0))), "{floor}");
    // A little more is no less.
    server.sql("ids", "UPDATE snowlease.meta SET longest_window = 60000");
    let floor = store.quarantine(Tick(floor + 1)).unwrap();
    let refused = store.acquire(&Acquire { ..ask_now(&RequestKey::random()) });
    assert_eq!(refused, Err(AcquireError::Quarantined { floor }));
    assert_eq!(store.quarantine(Tick(u64::MAX)).unwrap(), Tick(1 << 41));
}
