//! Prints a figure: what ids tell as time, against true time, through an hour in which clocks do
//! what they should not. `cargo xtask codegen` writes it to `docs/figures/bad-hour.svg`.
//!
//! The holder is the real one, run by plain calls on scripted clocks, so that the same figure comes
//! out each time.

#![allow(clippy::print_stdout, reason = "it prints a figure")]
#![allow(clippy::unwrap_used, reason = "a figure of a failed run is none")]
#![allow(clippy::cast_precision_loss, reason = "a figure is for people")]

use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Arc;

use snowlease_core::{Format, Refusal};
use snowlease_lease::Terms;
use snowlease_lease::id_clock::Time;
use snowlease_lease::testing::{Guard, Host, MemoryStore, Referenced, ScriptedTime};

/// 2026-01-01T00:00:00Z.
const START_MS: i64 = 1_767_225_600_000;

/// How often an id is asked for, and how often the clocks are looked at.
const STEP_MS: u64 = 250;

const HOUR: u64 = 3_600_000 / STEP_MS;

/// What happens, from a minute of the hour on.
const STORY: [(u64, &str); 8] = [
    (4, "wall set back 0.4 s: slewed"),
    (8, "set right: slewed"),
    (12, "wall set ahead 0.9 s: reference says no"),
    (18, "set right"),
    (24, "suspended for 3 min"),
    (33, "wall runs fast: ids follow slowly"),
    (43, "wall set right by 0.8 s: reference says yes"),
    (50, "stopped for 2 min"),
];

/// A point of a line: minutes into the hour, and how far off in seconds.
type Point = (f64, f64);

#[derive(Default)]
struct Lines {
    wall: Vec<Point>,
    /// One line for each lease, in order.
    ids: Vec<(u64, Vec<Point>)>,
    refused: Vec<(f64, &'static str)>,
}

fn main() {
    println!("{}", drawn(&play()));
}

/// The step at which a minute begins.
fn at(minute: u64) -> u64 {
    minute * 60_000 / STEP_MS
}

fn play() -> Lines {
    let memory = Arc::new(MemoryStore::new(Format::DEFAULT, (0, 63)).unwrap());
    let truth = ScriptedTime::at_ms(START_MS);
    let store = Arc::new(Referenced::new(memory, truth.clone(), Terms::DEFAULT));
    let time = truth.apart();
    let mut host = Host::start(store, &time, Format::DEFAULT, Terms::DEFAULT, Guard::Precise);
    let (mut lines, mut seen) = (Lines::default(), HashSet::new());
    for step in 0..HOUR {
        truth.pass_ms(STEP_MS);
        if (at(24)..at(27)).contains(&step) {
            time.suspend_ms(STEP_MS);
            continue;
        }
        time.pass_ms(STEP_MS);
        if step == at(4) {
            time.set_wall_ms(-400);
        } else if step == at(12) {
            time.set_wall_ms(900);
        } else if [at(8), at(18), at(43)].contains(&step) {
            time.set_wall_ms(-ahead_ms(&time, &truth));
        } else if (at(33)..at(37)).contains(&step) {
            // 0.8 s in four minutes.
            time.pass_apart_ns(i128::from(800_000_000 / at(4)), 0, 0, 0);
        } else if (at(50)..at(52)).contains(&step) {
            continue;
        }
        let minute = (step * STEP_MS) as f64 / 60_000.0;
        lines.wall.push((minute, off_s(time.wall_ns(), &truth)));
        // A caller may come before anybody has looked at the clocks.
        for looks in [false, true] {
            if looks {
                host.look();
            }
            match host.next_id() {
                Ok(id) => {
                    assert!(seen.insert(id), "an id was issued twice");
                    let parts = Format::DEFAULT.decode(id);
                    let told_ns = i128::from(Format::DEFAULT.unix_ms(parts.tick)) * 1_000_000;
                    let point = (minute, off_s(told_ns, &truth));
                    match lines.ids.last_mut() {
                        Some((generator_id, line)) if *generator_id == parts.generator_id => {
                            line.push(point);
                        }
                        _ => lines.ids.push((parts.generator_id, vec![point])),
                    }
                }
                Err(Refusal::TickFull { .. }) => {}
                Err(refusal) => lines.refused.push((minute, refusal.code())),
            }
        }
    }
    lines
}

fn ahead_ms(time: &ScriptedTime, truth: &ScriptedTime) -> i64 {
    i64::try_from((time.wall_ns() - truth.wall_ns()) / 1_000_000).unwrap()
}

fn off_s(wall_ns: i128, truth: &ScriptedTime) -> f64 {
    (wall_ns - truth.wall_ns()) as f64 / 1e9
}

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 34.0;
const TOP: f64 = 88.0;
const BOTTOM: f64 = 56.0;

fn x(minute: f64) -> f64 {
    LEFT + minute / 60.0 * (WIDTH - LEFT - RIGHT)
}

/// From a second ahead, above, to a second behind.
fn y(off_s: f64) -> f64 {
    let middle = f64::midpoint(TOP, HEIGHT - BOTTOM);
    middle - off_s * (HEIGHT - TOP - BOTTOM) / 2.0
}

fn drawn(lines: &Lines) -> String {
    let mut parts = vec![
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\">"
        ),
        "<title>What ids tell as time, against true time, through a bad hour</title>".to_owned(),
        format!("<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>"),
    ];
    for n in -4_i32..=4 {
        let off_s = f64::from(n) / 4.0;
        let colour = if n == 0 { "#999" } else { "#e4e4e4" };
        parts.push(line((x(0.0), y(off_s)), (x(60.0), y(off_s)), colour, ""));
        parts.push(text((LEFT - 8.0, y(off_s) + 4.0), "end", "#555", &format!("{off_s:+.2} s")));
    }
    let foot = HEIGHT - BOTTOM;
    for minute in (0..=60).step_by(10) {
        let place = (x(f64::from(minute)), foot + 18.0);
        parts.push(text(place, "middle", "#555", &format!("{minute} min")));
    }
    for (n, (minute, what)) in STORY.iter().enumerate() {
        let (at, height) = (x(*minute as f64), 20.0 + 18.0 * (n % 3) as f64);
        let dashed = " stroke-dasharray=\"2 3\"";
        parts.push(line((at, height - 8.0), (at, foot), "#aaa", dashed));
        parts.push(text((at + 4.0, height), "start", "#333", what));
    }
    parts.push(path(&lines.wall, "#e08a2e", 1.2));
    let colours = ["#1f5fbf", "#0f8f6f", "#8a3fbf", "#bf3f5f"];
    for (n, (generator_id, points)) in lines.ids.iter().enumerate() {
        let colour = colours.get(n % colours.len()).copied().unwrap_or_default();
        parts.push(path(points, colour, 2.4));
        let Some((minute, _)) = points.first() else { continue };
        let place = (x(*minute) + 4.0, y(-0.62) + 15.0 * (n % 2) as f64);
        parts.push(text(
            place,
            "start",
            colour,
            &format!("lease {}: generator id {generator_id}", n + 1),
        ));
    }
    for (minute, _) in &lines.refused {
        parts.push(line((x(*minute), foot - 8.0), (x(*minute), foot), "#c02020", ""));
    }
    let mut codes: Vec<&str> = lines.refused.iter().map(|(_, code)| *code).collect();
    codes.sort_unstable();
    codes.dedup();
    let legend = HEIGHT - 12.0;
    parts.push(text((LEFT, legend), "start", "#e08a2e", "wall clock of the host"));
    let ids = "time told by ids, a colour for each lease";
    parts.push(text((LEFT + 160.0, legend), "start", "#1f5fbf", ids));
    let refused = format!("a call refused: {}", codes.join(", "));
    parts.push(text((LEFT + 420.0, legend), "start", "#c02020", &refused));
    parts.push("</svg>".to_owned());
    parts.join("\n")
}

fn line((x1, y1): Point, (x2, y2): Point, colour: &str, more: &str) -> String {
    format!(
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" \
         stroke=\"{colour}\"{more}/>"
    )
}

fn text((x, y): Point, anchor: &str, colour: &str, what: &str) -> String {
    format!(
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" fill=\"{colour}\">{what}</text>"
    )
}

/// A line through the points but those on a level stretch, broken where time is missing.
fn path(points: &[Point], colour: &str, width: f64) -> String {
    let mut d = String::new();
    // Writing into a string cannot fail.
    let mut put = |pen, point: &Point| {
        let _ = write!(d, "{pen}{:.1} {:.1}", x(point.0), y(point.1));
    };
    let mut drawn: Option<&Point> = None;
    for (n, point) in points.iter().enumerate() {
        let before = n.checked_sub(1).and_then(|n| points.get(n));
        let near = |other: Option<&&Point>| other.is_some_and(|other| apart(other, point) < 0.1);
        let ends = !near(points.get(n + 1).as_ref());
        match (drawn, before) {
            (Some(last), Some(before)) if near(Some(&before)) => {
                if (last.1 - point.1).abs() < 0.004 && !ends {
                    continue;
                }
                put('L', before);
                put('L', point);
            }
            _ => put('M', point),
        }
        drawn = Some(point);
    }
    format!("<path d=\"{d}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>")
}

/// Minutes from one point to another.
fn apart(one: &Point, other: &Point) -> f64 {
    (one.0 - other.0).abs()
}
