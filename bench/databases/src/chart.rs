//! The chart: rows a second while a table grows, and what its key takes.

use crate::key::Key;
use crate::load::{self, Load};
use crate::svg::Svg;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 500.0;
/// The corners of the curves' plane.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 850.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 320.0;
/// Where bars begin, and how high a line of them is.
const BARS: f64 = 392.0;
const LINE: f64 = 22.0;

/// Batches that a point of a curve stands for: single ones jump with every flush of the log.
const SMOOTHED: usize = 5;

fn colour(key: Key) -> &'static str {
    match key {
        Key::Snowlease => "#1f6feb",
        Key::Uuid7 => "#1a7f37",
        Key::Uuid4 => "#cf222e",
        Key::Sequence => "#9a6700",
    }
}

/// Draws the loads.
pub(crate) fn draw(loads: &[(Key, Vec<Load>)]) -> String {
    let mut svg = Svg::default();
    curves(&mut svg, loads);
    bars(&mut svg, loads, 0, "Index of the primary key, MiB", 16.0);
    bars(&mut svg, loads, 2, "WAL of the load, MiB", 496.0);
    svg.done("Loading PostgreSQL under four kinds of key", WIDTH, HEIGHT)
}

fn curves(svg: &mut Svg, loads: &[(Key, Vec<Load>)]) {
    let batch = loads[0].1[0].batch as f64;
    let rows = batch * loads[0].1[0].seconds.len() as f64;
    let curves: Vec<(Key, Vec<f64>)> =
        loads.iter().map(|(key, loads)| (*key, smooth(&load::rates(loads)))).collect();
    let most = curves.iter().flat_map(|(_, rates)| rates).copied().fold(0.0, f64::max);
    let step = if most > 400_000.0 { 100_000.0 } else { 50_000.0 };
    let most = (most / step).ceil() * step;
    let x = |row: f64| LEFT + row / rows * (RIGHT - LEFT);
    let y = |rate: f64| BOTTOM - rate / most * (BOTTOM - TOP);
    svg.text((16.0, 24.0), "start", "bold", "Rows loaded in a second, in thousands");
    let mut rate = 0.0;
    while rate <= most {
        svg.rule((LEFT, y(rate)), (RIGHT, y(rate)));
        let label = format!("{:.0}", rate / 1e3);
        svg.text((LEFT - 8.0, y(rate) + 4.0), "end", "normal", &label);
        rate += step;
    }
    for part in 0..=5 {
        let row = rows * f64::from(part) / 5.0;
        let label = format!("{:.2}", row / 1e6);
        let label = label.trim_end_matches('0').trim_end_matches('.');
        svg.text((x(row), BOTTOM + 18.0), "middle", "normal", label);
    }
    let middle = f64::midpoint(LEFT, RIGHT);
    svg.text((middle, BOTTOM + 36.0), "middle", "normal", "millions of rows in the table");
    let mut ends = Vec::new();
    for (key, rates) in curves.iter().rev() {
        let point = |(at, rate): (usize, &f64)| (x(batch * (at as f64 + 0.5)), y(*rate));
        let points: Vec<(f64, f64)> = rates.iter().enumerate().map(point).collect();
        svg.line(&points, colour(*key), if *key == Key::Snowlease { 2.5 } else { 1.7 });
        ends.push((points[points.len() - 1].1, *key));
    }
    // Names stand where curves end, apart enough to be read.
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = TOP;
    for (end, key) in ends {
        let at = end.max(free);
        svg.coloured((RIGHT + 8.0, at + 4.0), "start", "bold", colour(key), key.name());
        free = at + 16.0;
    }
}

/// Each point becomes the median of those around it.
fn smooth(rates: &[f64]) -> Vec<f64> {
    let around = |at: usize| {
        let from = at.saturating_sub(SMOOTHED / 2);
        let mut near = rates[from..rates.len().min(at + SMOOTHED / 2 + 1)].to_vec();
        near.sort_by(f64::total_cmp);
        near[near.len() / 2]
    };
    (0..rates.len()).map(around).collect()
}

/// One of the sizes of the loads, from this place on to the right.
fn bars(svg: &mut Svg, loads: &[(Key, Vec<Load>)], which: usize, title: &str, left: f64) {
    let sizes: Vec<(Key, f64)> =
        loads.iter().map(|(key, loads)| (*key, load::sizes(loads)[which])).collect();
    let most = sizes.iter().map(|(_, size)| *size).fold(0.0, f64::max);
    svg.text((left, BARS), "start", "bold", title);
    for (line, (key, size)) in sizes.into_iter().enumerate() {
        let y = BARS + LINE * (line as f64 + 1.0);
        let width = size / most * 290.0;
        svg.text((left + 68.0, y), "end", "normal", key.name());
        svg.bar((left + 76.0, y - 12.0), (width, LINE - 6.0), colour(key));
        svg.text((left + 82.0 + width, y), "start", "normal", &format!("{size:.0}"));
    }
}
