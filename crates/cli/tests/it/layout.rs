//! `snowlease layout show`.

use crate::run::run;

#[test]
fn the_default_layout_is_shown_with_its_arithmetic() {
    let said = run(&["layout", "show"]).answer();
    assert_eq!(run(&["layout"]).answer(), said);
    for words in [
        "layout t41g10s12, tick 1 ms, epoch 2024-01-01T00:00:00.000Z",
        "tick          41 bits  2^41 = 2,199,023,255,552  x 1 ms = 69.6 years",
        "generator_id  10 bits  2^10 = 1,024",
        "sequence      12 bits  2^12 = 4,096",
        "per generator 4,096 ids a tick  4,096,000 a second  353,894,400,000 a day",
        "all together  4,194,304 ids a tick  4,194,304,000 a second",
        "time ends     2093-09-06T15:47:35.552Z (",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(said.lines().all(|line| line.len() <= 100), "{said}");
}

#[test]
fn other_layouts_and_presets_are_shown_by_their_own_numbers() {
    let said = run(&["layout", "--layout", "t39g16s8", "--tick", "10ms"]).answer();
    assert!(said.contains("2^39 = 549,755,813,888  x 10 ms = 174.2 years"), "{said}");
    assert!(said.contains("256 ids a tick  25,600 a second"), "{said}");
    let said = run(&["layout", "show", "--preset", "discord"]).answer();
    assert!(said.contains("increment     12 bits"), "{said}");
    assert!(!said.contains("per generator"), "{said}");
}

#[test]
fn json_says_the_same() {
    let facts = run(&["layout", "show", "--json", "--layout", "t41g13s9"]).json();
    assert_eq!(facts["format"]["layout"], "t41g13s9");
    assert_eq!(facts["fields"][1]["values"], 8192);
    assert_eq!(facts["per_generator"]["ids_per_tick"], 512);
    assert_eq!(facts["total"]["ids_per_second"], 4_194_304_000_u64);
    assert_eq!(facts["end"], "2093-09-06T15:47:35.552Z");
}

#[test]
fn widths_that_are_no_layout_are_refused_by_how_much_they_miss() {
    run(&["layout", "--layout", "t40g10s12"]).fails(2, &["--layout", "add 1"]);
    run(&["layout", "show", "--layout", "t0g31s32"]).fails(2, &["at least 1 bit of tick"]);
    run(&["layout", "show", "--tick", "0ms"]).fails(2, &["--tick", "choose 1 ms"]);
    run(&["layout", "show", "--tick", "25h"]).fails(2, &["--tick"]);
}
