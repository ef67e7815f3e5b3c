//! What the demo is doing: a spinner or a bar on a terminal, plain lines elsewhere, on standard error.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Something that is being done.
pub struct Progress {
    name: &'static str,
    begin: Instant,
    bar: ProgressBar,
}

impl Progress {
    /// Something of unknown length.
    pub fn begin(name: &'static str) -> Self {
        Self::with_bar(
            name,
            ProgressBar::new_spinner(),
            "{spinner:.cyan} {prefix}  {elapsed:.dim}",
        )
    }

    /// Something that is counted.
    pub fn begin_counting(name: &'static str, count: u64) -> Self {
        Self::with_bar(
            name,
            ProgressBar::new(count),
            "{spinner:.cyan} {prefix}  {bar:30} {pos}/{len}  {elapsed:.dim}",
        )
    }

    fn with_bar(name: &'static str, bar: ProgressBar, template: &str) -> Self {
        bar.set_prefix(name);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if is_terminal() {
            bar.enable_steady_tick(Duration::from_millis(100));
        } else {
            eprintln!("- {name}");
        }
        Self {
            name,
            begin: Instant::now(),
            bar,
        }
    }

    /// One more is done.
    pub fn count(&self) {
        self.bar.inc(1);
        if let (false, Some(all)) = (is_terminal(), self.bar.length()) {
            let done = self.bar.position();
            if done < all && done.is_multiple_of(all.div_ceil(4)) {
                eprintln!("- {}: {done} of {all}", self.name);
            }
        }
    }

    /// It is done.
    pub fn end(self) {
        self.bar.finish_and_clear();
        let mark = if is_terminal() { "\u{1b}[32m✓\u{1b}[0m" } else { "✓" };
        eprintln!("{mark} {} ({:.1} s)", self.name, self.begin.elapsed().as_secs_f64());
    }
}

fn is_terminal() -> bool {
    stderr().is_terminal()
}
