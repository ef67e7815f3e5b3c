//! Words, columns and colours.

use jiff::{SignedDuration, Timestamp};

/// Colours, or none.
#[derive(Clone, Copy)]
pub(super) struct Paint(pub(super) bool);

impl Paint {
    pub(super) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(super) fn red(self, text: &str) -> String {
        self.with("31", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A text on one line. Plugins name queries as they like, so nothing in it may steer a terminal.
pub(super) fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Rows whose columns line up. The first one is a heading.
pub(super) fn columns<const N: usize>(rows: &[[String; N]], indent: &str, paint: Paint) -> String {
    let rows: Vec<_> = rows.iter().map(|row| row.each_ref().map(|cell| plain(cell))).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let line = line.trim_end();
        let line = if number == 0 { paint.bold(line) } else { line.to_owned() };
        text += &format!("{indent}{line}\n");
    }
    text
}

/// How long ago a moment was.
pub(super) fn ago(now: Timestamp, time: &str) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => format!("{} ago", span(now.duration_since(time))),
        Err(_) => format!("at {time}"),
    }
}

/// How far ahead a moment is.
pub(super) fn ahead(now: Timestamp, time: &str) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => format!("in {}", span(time.duration_since(now))),
        Err(_) => format!("at {time}"),
    }
}

/// A time in the unit that tells enough. One before the beginning is none at all: clocks are read one after the other.
fn span(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match (seconds, seconds / 60, seconds / 3600) {
        (_, _, hours @ 48..) => format!("{} d", hours / 24),
        (_, minutes @ 120.., hours) => format!("{hours} h {} min", minutes % 60),
        (_, minutes @ 2.., _) => format!("{minutes} min"),
        (seconds, _, _) => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_in_a_fitting_unit() {
        for (seconds, told) in [
            (-1, "0 s"),
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7199, "119 min"),
            (9000, "2 h 30 min"),
            (200_000, "2 d"),
        ] {
            assert_eq!(span(SignedDuration::from_secs(seconds)), told);
        }
    }

    #[test]
    fn columns_line_up_whatever_their_letters() {
        let rows = [["A", "B"], ["größer", "x"], ["-", ""]].map(|row| row.map(str::to_owned));
        assert_eq!(columns(&rows, " ", Paint(false)), " A       B\n größer  x\n -\n");
        assert_eq!(columns(&rows[..1], "", Paint(true)), "\x1b[1mA  B\x1b[0m\n");
        let steering = [["\x1b[2Ja\nb".to_owned()]];
        assert_eq!(columns(&steering, "", Paint(false)), " [2Ja b\n");
    }
}
