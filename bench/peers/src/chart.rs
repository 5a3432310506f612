//! The chart: bars on one scale of powers of ten, a group for each setting.

use std::fmt::Write;

use crate::row::Table;

const WIDTH: f64 = 960.0;
/// Where bars begin and where they end.
const LEFT: f64 = 244.0;
const RIGHT: f64 = 880.0;
const LINE: f64 = 19.0;
/// The ends of the scale, in nanoseconds.
const LEAST: f64 = 0.1;
const MOST: f64 = 1_000.0;
const OURS: &str = "#1f6feb";
const THEIRS: &str = "#b4b9c1";
const INK: &str = "#24292f";

/// Settings that are drawn, and what they are called there.
const GROUPS: &[(&str, &str)] = &[
    ("paced", "One id a call, below the cap, one thread"),
    ("two threads, shared", "Two threads on one generator"),
    ("batches of 1000", "Batches of 1000"),
];

/// The chart, on a ground of its own so that it reads on any page.
pub(crate) fn draw(tables: &[Table]) -> String {
    let mut body = String::new();
    let mut y = 62.0;
    for (setting, title) in GROUPS {
        let Some(table) = tables.iter().find(|table| table.setting == *setting) else { continue };
        text(&mut body, 16.0, y, "start", "bold", title);
        y += LINE;
        let mut rows: Vec<_> = table.rows.iter().collect();
        rows.sort_by(|a, b| a.median.total_cmp(&b.median));
        for row in rows {
            let ours = row.about.is_ours();
            let weight = if ours { "bold" } else { "normal" };
            let end = x(row.median);
            text(&mut body, LEFT - 8.0, y, "end", weight, row.about.named().trim());
            let colour = if ours { OURS } else { THEIRS };
            let (top, width, height) = (y - 11.0, end - LEFT, LINE - 5.0);
            let _ = writeln!(
                body,
                "<rect x=\"{LEFT}\" y=\"{top}\" width=\"{width:.1}\" height=\"{height}\" \
                 fill=\"{colour}\"/>"
            );
            text(&mut body, end + 6.0, y, "start", weight, &format!("{:.2}", row.median));
            y += LINE;
        }
        y += LINE * 0.7;
    }
    let height = y + 8.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Nanoseconds for an id: Snowlease and other libraries</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height:.0}\" rx=\"6\" fill=\"#fff\"/>\n"
    );
    let heading = "Nanoseconds for an id; shorter is better, each line is ten times the last";
    text(&mut svg, 16.0, 24.0, "start", "bold", heading);
    let mut value = LEAST;
    while value <= MOST * 1.01 {
        let at = x(value);
        let _ = writeln!(
            svg,
            r##"<line x1="{at:.1}" y1="46" x2="{at:.1}" y2="{y:.1}" stroke="#e4e4e4"/>"##
        );
        text(&mut svg, at, 42.0, "middle", "normal", &format!("{value:.1}").replace(".0", ""));
        value *= 10.0;
    }
    svg.push_str(&body);
    svg.push_str("</svg>\n");
    svg
}

/// Where a value lies.
fn x(value: f64) -> f64 {
    let share = (value.clamp(LEAST, MOST) / LEAST).log10() / (MOST / LEAST).log10();
    LEFT + share * (RIGHT - LEFT)
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, weight: &str, what: &str) {
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\" \
         fill=\"{INK}\" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\">{what}</text>"
    );
}
