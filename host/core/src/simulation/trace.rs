//! What happened last, for people who look at a seed that failed.

use std::collections::{HashSet, VecDeque};
use std::fmt::Arguments;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::{PrimaryKey, Time, Wake};

/// Lines kept. What led to a violation is seldom further back.
const LINES: usize = 60;

/// Writing lines costs more than all else, so they are written only when a seed that failed is played again.
pub(super) struct Trace {
    pub(super) written: bool,
    lines: VecDeque<String>,
    /// Of all lines, also those that are not kept.
    digest: DefaultHasher,
    /// What was said since the world began to come to rest. What is tried again and again is told once.
    said: Option<HashSet<String>>,
}

impl Trace {
    pub(super) fn new(written: bool) -> Self {
        Trace {
            written,
            lines: VecDeque::new(),
            digest: DefaultHasher::new(),
            said: None,
        }
    }

    pub(super) fn note(&mut self, step: u64, now: Time, what: Arguments<'_>) {
        let what = what.to_string();
        what.hash(&mut self.digest);
        if let Some(said) = &mut self.said
            && !said.insert(without_number(&what))
        {
            return;
        }
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        self.lines
            .push_back(format!("#{step} +{:.1}s {what}", now.0.as_secs_f64()));
    }

    /// From now on, what has been said since is not said again.
    pub(super) fn say_once(&mut self, once: bool) {
        self.said = once.then(HashSet::new);
    }

    pub(super) fn digest(&self) -> u64 {
        self.digest.finish()
    }

    pub(super) fn lines(&self) -> String {
        self.lines.iter().map(|line| format!("  {line}\n")).collect()
    }
}

/// A line without its first number, which is that of a run, a read or a watch.
fn without_number(line: &str) -> String {
    let is_digit = |letter: char| letter.is_ascii_digit();
    match line.find(is_digit) {
        Some(at) => format!("{}{}", &line[..at], line[at..].trim_start_matches(is_digit)),
        None => line.to_owned(),
    }
}

/// Notes a line, such as `#12 +3.2s event v17 ConfigMap n/a l=x k=4`.
macro_rules! note {
    ($world:expr, $($what:tt)*) => {
        if $world.trace.written {
            $world.trace.note($world.counted.steps, $world.now, format_args!($($what)*))
        }
    };
}
pub(super) use note;

/// A primary, with the number of its controller.
pub(super) fn shown(key: &PrimaryKey) -> String {
    format!("{}:{}", key.controller.0, key.name)
}

pub(super) fn reasons(wakes: &[Wake]) -> String {
    wakes.iter().map(Wake::to_string).collect::<Vec<_>>().join(", ")
}
