//! The charts of the book, which show the tables of `benches/README.md`.
//!
//! The colours are variables of mdBook's themes, so the charts are readable in light and dark themes. Each chart has two
//! forms, and `book/style.css` shows the form that fits the page.

use std::fmt::Write as _;
use std::fs;

use crate::process;

/// A form of a chart. The lengths are in the units of the view box.
struct Form {
    /// The picture's tag, with its class in `book/style.css`.
    tag: &'static str,
    width: f64,
    /// Where the bars begin.
    left: f64,
    /// Space at the right of the bars, for the number of the longest bar.
    right: f64,
    /// Height of a bar with its label and margin.
    row: f64,
    font_size: u8,
}

/// Has the label of a bar at its left.
const WIDE: Form =
    Form { tag: "<svg", width: 720.0, left: 330.0, right: 60.0, row: 22.0, font_size: 13 };

/// Has the label of a bar above it, for pages of 360 pixels.
const NARROW: Form = Form {
    tag: "<svg class=\"narrow\"",
    width: 340.0,
    left: 0.0,
    right: 50.0,
    row: 40.0,
    font_size: 12,
};

/// Height of a bar with its margin, without a label above it.
const BAR: f64 = 22.0;

/// Rewrites the files of the charts.
pub(crate) fn rewrite_charts() -> Result<(), String> {
    for (name, svg) in charts()? {
        let path = process::root().join("book/pictures").join(name);
        fs::write(&path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Returns the name and the text of each chart.
fn charts() -> Result<[(&'static str, String); 4], String> {
    let page = process::root().join("benches/README.md");
    let page = fs::read_to_string(page).map_err(|error| format!("benches/README.md: {error}"))?;
    Ok([
        ("ratios.svg", ratios(&page, &WIDE)?),
        ("ratios-narrow.svg", ratios(&page, &NARROW)?),
        ("growth.svg", growth(&page, &WIDE)?),
        ("growth-narrow.svg", growth(&page, &NARROW)?),
    ])
}

/// A bar of a chart.
struct Bar {
    label: String,
    value: f64,
}

/// Returns the chart of the times in relation to the floor. Throughputs are left out, because more is better there.
fn ratios(page: &str, form: &Form) -> Result<String, String> {
    let mut bars = Vec::new();
    let mut benchmark = String::new();
    for row in rows(page, "| benchmark | work |")? {
        let [name, work, _, _, _, ratio] = row.as_slice() else {
            return Err(format!("a row of the benchmarks has {} cells", row.len()));
        };
        if !name.is_empty() {
            benchmark = name.replace('`', "");
        }
        let value = ratio.parse().map_err(|error| format!("{benchmark}: {ratio}: {error}"))?;
        if !work.contains("a second") {
            bars.push(Bar { label: format!("{benchmark}: {}", work.replace('`', "")), value });
        }
    }
    let title = "Cost in relation to code written by hand (1.0), by benchmark";
    Ok(chart(title, &bars, Some(1.0), form))
}

/// Returns the chart of the allocations of a turn, early and late in a run.
fn growth(page: &str, form: &Form) -> Result<String, String> {
    let mut bars = Vec::new();
    for row in rows(page, "| allocations of a turn |")? {
        let [way, early, late] = row.as_slice() else {
            return Err(format!("a row of the allocations has {} cells", row.len()));
        };
        for (turns, count) in [("100", early), ("4,000", late)] {
            let value = count.parse().map_err(|error| format!("{way}: {count}: {error}"))?;
            bars.push(Bar { label: format!("{way}, after {turns} turns"), value });
        }
    }
    Ok(chart("Allocations of a turn, early and late in a run", &bars, None, form))
}

/// Returns the cells of the rows of the table whose header starts with `header`.
fn rows<'a>(page: &'a str, header: &str) -> Result<Vec<Vec<&'a str>>, String> {
    let table = page.lines().skip_while(|line| !line.starts_with(header));
    let rows: Vec<Vec<&str>> = table
        .skip(2)
        .map_while(|line| line.strip_prefix('|')?.trim_end().strip_suffix('|'))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    if rows.is_empty() {
        Err(format!("benches/README.md has no table `{header}`"))
    } else {
        Ok(rows)
    }
}

/// Draws horizontal bars, with an optional vertical line at the value `mark`.
fn chart(title: &str, bars: &[Bar], mark: Option<f64>, form: &Form) -> String {
    let Form { tag, width, left, right, row, font_size } = form;
    let longest = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let scale = (width - left - right) / longest;
    let height = row * bars.len() as f64 + BAR;
    let mut svg = format!(
        "{tag} viewBox=\"0 0 {width} {height}\" width=\"100%\" style=\"max-width:{width}px\" \
         role=\"img\" aria-label=\"{title}\" xmlns=\"http://www.w3.org/2000/svg\" font-family=\"sans-serif\" \
         font-size=\"{font_size}\" fill=\"currentColor\">\n"
    );
    for (place, Bar { label, value }) in bars.iter().enumerate() {
        let label_top = row * place as f64 + BAR / 2.0;
        // The bar is beside its label, or below it if the row has space for both.
        let (top, length) = (label_top + row - BAR, value * scale);
        let label_text = label_top + 14.0;
        let _ = match *left > 0.0 {
            true => writeln!(
                svg,
                "<text x=\"{}\" y=\"{label_text}\" text-anchor=\"end\">{label}</text>",
                left - 8.0
            ),
            false => writeln!(svg, "<text x=\"0\" y=\"{label_text}\">{label}</text>"),
        };
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{}\" width=\"{length:.1}\" height=\"{}\" fill=\"var(--links)\"/>",
            top + 2.0,
            BAR - 6.0
        );
        let (after, text) = (left + length + 6.0, top + 14.0);
        let _ = writeln!(svg, "<text x=\"{after:.1}\" y=\"{text}\">{value}</text>");
    }
    if let Some(mark) = mark {
        let place = left + mark * scale;
        let _ = writeln!(
            svg,
            "<line x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"0\" y2=\"{height}\" stroke=\"currentColor\" \
             stroke-dasharray=\"4 3\"/>"
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_in_the_repository_show_the_current_figures() {
        for (name, svg) in charts().unwrap() {
            let path = process::root().join("book/pictures").join(name);
            let stored = fs::read_to_string(path).unwrap_or_default();
            assert_eq!(stored, svg, "{name} is old: run `cargo xtask charts`");
        }
    }

    #[test]
    fn rows_end_with_the_table() {
        let page = "| a | b |\n|---|--:|\n| x | 1 |\n| y | 2 |\n\n| c |\n|---|\n| z |\n";
        assert_eq!(rows(page, "| a |").unwrap(), [["x", "1"], ["y", "2"]]);
        assert!(rows(page, "| d |").is_err());
    }
}
