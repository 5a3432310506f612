//! The few shapes of a drawing.

use std::fmt::Write;

pub(crate) const INK: &str = "#24292f";
const GRID: &str = "#e4e4e4";

/// A drawing that grows.
#[derive(Debug, Default)]
pub(crate) struct Svg(String);

impl Svg {
    pub(crate) fn text(&mut self, (x, y): (f64, f64), anchor: &str, weight: &str, what: &str) {
        self.coloured((x, y), anchor, weight, INK, what);
    }

    pub(crate) fn coloured(
        &mut self,
        (x, y): (f64, f64),
        anchor: &str,
        weight: &str,
        colour: &str,
        what: &str,
    ) {
        let _ = writeln!(
            self.0,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\" \
             fill=\"{colour}\">{what}</text>"
        );
    }

    /// A line of the scale.
    pub(crate) fn rule(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let _ = writeln!(
            self.0,
            r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{GRID}"/>"#
        );
    }

    pub(crate) fn bar(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), colour: &str) {
        let _ = writeln!(
            self.0,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{colour}\"/>"
        );
    }

    pub(crate) fn line(&mut self, points: &[(f64, f64)], colour: &str, width: f64) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.0,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"/>",
            points.join(" ")
        );
    }

    /// The whole drawing, on a ground of its own so that it reads on any page.
    pub(crate) fn done(self, title: &str, width: f64, height: f64) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<title>{title}</title>\n\
             <rect width=\"{width}\" height=\"{height}\" rx=\"6\" fill=\"#fff\"/>\n{}</svg>\n",
            self.0
        )
    }
}
