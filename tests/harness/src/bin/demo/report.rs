//! What is told of a measurement.

use std::env;
use std::io::{IsTerminal, stdout};
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Style};
use serde_json::{Value, json};

use crate::measure::Measurement;

/// What stands in the columns, as the share of values that are no larger.
const COLUMNS: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)];

/// Prints a table with a row each for the bare client, patchbay and the ratio of the two.
pub fn print_table(measurement: &Measurement) {
    let coloured = stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    print!("{}", table(measurement, coloured));
}

fn table(measurement: &Measurement, coloured: bool) -> String {
    let (floor, patchbay) = (quantiles(&measurement.floor), quantiles(&measurement.patchbay));
    let milliseconds = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1} ms"));
    let ratio = |index: usize| ratio(patchbay[index], floor[index]);
    let times = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));

    let style = |style: Style| if coloured { style } else { Style::new() };
    let (bold, dim) = (style(Style::new().bold()), style(Style::new().dimmed()));
    let arrived = measurement.patchbay.len();
    let complete = measurement.missing.is_empty();
    let colour = style(if complete { AnsiColor::Green } else { AnsiColor::Red }.on_default());

    let row = |style: Style, name: &str, cells: [String; 4], note: &str| {
        let cells = cells.map(|cell| format!("{cell:>10}")).concat();
        format!("{style}{name:<12}{cells}{style:#}  {dim}{note}{dim:#}")
            .trim_end()
            .to_owned()
            + "\n"
    };
    let mut text = String::from("\n");
    text += &row(bold, "", COLUMNS.map(|(name, _)| name.to_owned()), "");
    text += &row(
        Style::new(),
        "bare client",
        floor.map(milliseconds),
        "write, event, apply, event",
    );
    text += &row(bold, "patchbay", patchbay.map(milliseconds), "write, event of the copy");
    text += &row(Style::new(), "ratio", [0, 1, 2, 3].map(|index| times(ratio(index))), "");
    text + &format!(
        "\n{colour}{arrived} of {} changes arrived{colour:#}\n",
        measurement.changes
    )
}

/// The same for programs. Times are in milliseconds.
pub fn json(measurement: &Measurement) -> Value {
    let (floor, patchbay) = (quantiles(&measurement.floor), quantiles(&measurement.patchbay));
    let named = |values: [Option<f64>; 4]| {
        let named = COLUMNS
            .iter()
            .zip(values)
            .map(|((name, _), value)| (name.to_string(), json!(value.map(rounded))));
        Value::Object(named.collect())
    };
    json!({
        "changes": measurement.changes,
        "arrived": measurement.patchbay.len(),
        "missing": measurement.missing,
        "floor_ms": named(floor),
        "patchbay_ms": named(patchbay),
        "ratio": named([0, 1, 2, 3].map(|index| ratio(patchbay[index], floor[index]))),
    })
}

fn ratio(value: Option<f64>, floor: Option<f64>) -> Option<f64> {
    Some(value? / floor.filter(|floor| *floor > 0.0)?)
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The quantiles of the columns in milliseconds, by nearest rank.
fn quantiles(times: &[Duration]) -> [Option<f64>; 4] {
    let mut sorted = times.to_vec();
    sorted.sort();
    COLUMNS.map(|(_, share)| {
        let rank = (share * sorted.len() as f64).ceil() as usize;
        sorted
            .get(rank.saturating_sub(1))
            .map(|time| time.as_secs_f64() * 1000.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement() -> Measurement {
        let times = |factor: u64| {
            (1..=100)
                .rev()
                .map(|n| Duration::from_micros(n * 100 * factor))
                .collect()
        };
        Measurement {
            changes: 100,
            floor: times(1),
            patchbay: times(2),
            missing: Vec::new(),
        }
    }

    #[test]
    fn quantiles_are_by_nearest_rank() {
        assert_eq!(
            quantiles(&measurement().floor),
            [Some(5.0), Some(9.0), Some(9.9), Some(10.0)]
        );
        assert_eq!(quantiles(&[Duration::from_millis(7)]), [Some(7.0); 4]);
        assert_eq!(quantiles(&[]), [None; 4]);
    }

    #[test]
    fn the_table_is_aligned() {
        let expected = "
                   p50       p90       p99       max
bare client     5.0 ms    9.0 ms    9.9 ms   10.0 ms  write, event, apply, event
patchbay       10.0 ms   18.0 ms   19.8 ms   20.0 ms  write, event of the copy
ratio             2.00      2.00      2.00      2.00

100 of 100 changes arrived
";
        assert_eq!(table(&measurement(), false), expected);
    }

    #[test]
    fn json_tells_what_did_not_arrive() {
        let line = "change 3: a did not reach b in 10 s".to_owned();
        let json = json(&Measurement {
            missing: vec![line.clone()],
            patchbay: Vec::new(),
            ..measurement()
        });
        assert_eq!(json["missing"], json!([line]));
        assert_eq!((&json["arrived"], &json["floor_ms"]["p99"]), (&json!(0), &json!(9.9)));
        assert_eq!(
            (&json["patchbay_ms"]["p50"], &json["ratio"]["p50"]),
            (&Value::Null, &Value::Null)
        );
    }
}
