//! What holds for every verb: help, typos, no arguments.

use crate::run::{command, finish, run};

const VERBS: &[&[&str]] = &[
    &["serve"],
    &["next"],
    &["decode"],
    &["range"],
    &["layout"],
    &["layout", "show"],
    &["lease", "list"],
    &["store", "init"],
    &["store", "status"],
    &["store", "quarantine"],
];

#[test]
fn without_arguments_it_says_what_to_type() {
    let said = run(&[]).answer();
    for line in ["snowlease serve ", "snowlease next ", "snowlease decode "] {
        assert!(said.contains(line), "{said}");
    }
    assert!(said.lines().count() < 10, "{said}");
}

#[test]
fn every_verb_has_help_with_examples() {
    for verb in VERBS {
        let help = run(&[verb, &["--help"][..]].concat()).answer();
        assert!(help.contains(&format!("Examples:\n  snowlease {}", verb[0])), "{help}");
        assert!(help.contains("--json") || *verb == ["next"], "{help}");
    }
    assert!(run(&["--help"]).answer().contains("Exit codes"));
    assert!(run(&["--version"]).answer().starts_with("snowlease 0."));
}

#[test]
fn a_slip_is_answered_with_the_right_word() {
    run(&["decod", "1"]).fails(2, &["'decod'", "'decode'", "(see snowlease --help)"]);
    run(&["decode", "--lay", "t41g10s12", "1"]).fails(2, &["'--lay'", "'--layout'"]);
    run(&["layout", "shwo"]).fails(2, &["'shwo'"]);
    run(&["range"]).fails(2, &["--from <TIME>", "--to <TIME>", "see snowlease range --help"]);
}

#[test]
fn there_is_no_colour_where_there_is_no_terminal() {
    for arguments in [&["--help"][..], &["decode", "x"], &["decod"]] {
        let run = finish(command(arguments).env("CLICOLOR", "1"));
        assert!(!format!("{}{}", run.out, run.err).contains('\u{1b}'));
    }
}
