//! Progress: a list of steps, with a spinner and the time taken on a terminal, and plain lines elsewhere.
//!
//! All of it goes to standard error, so that standard output holds results only.

use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// A step that is shorter is told of only once it is done.
const QUIET: Duration = Duration::from_secs(2);

/// Without a terminal, a long step gives a sign of life this often.
const SIGN_OF_LIFE: Duration = Duration::from_secs(60);

/// The steps of one command.
pub struct Steps {
    bars: Option<MultiProgress>,
    aborted: AtomicBool,
}

/// A step that is being done.
pub struct Step<'a> {
    steps: &'a Steps,
    name: &'a str,
    begin: Instant,
    bar: Option<ProgressBar>,
    now: Mutex<String>,
    result: Mutex<String>,
}

impl Steps {
    /// No steps yet.
    pub fn new() -> Self {
        Self {
            bars: io::stderr().is_terminal().then(MultiProgress::new),
            aborted: AtomicBool::new(false),
        }
    }

    /// Does one step and shows how it goes. Several may be done at once.
    pub fn step<T>(&self, name: &str, work: impl FnOnce(&Step) -> Result<T>) -> Result<T> {
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner().with_prefix(name.to_owned()));
            bar.set_style(style("{spinner:.cyan} {prefix}  {elapsed:.dim}  {wide_msg:.dim}"));
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        let begin = Instant::now();
        let step = Step {
            steps: self,
            name,
            begin,
            bar,
            now: Mutex::default(),
            result: Mutex::default(),
        };
        let result = thread::scope(|scope| {
            let (done, waiting) = mpsc::channel::<()>();
            if step.bar.is_none() {
                scope.spawn(|| step.give_signs_of_life(waiting));
            }
            let result = work(&step);
            drop(done);
            result
        });
        step.finish(result.is_ok());
        result
    }

    /// Ends the commands of all other steps, since what they do is of no use any more.
    pub fn abort(&self) {
        self.aborted.store(true, Ordering::Relaxed);
    }

    /// Whether [`abort`](Self::abort) was called.
    pub fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Relaxed)
    }
}

impl Step<'_> {
    /// Whether the step is of no use any more.
    pub fn is_aborted(&self) -> bool {
        self.steps.is_aborted()
    }

    /// Shows what the step is doing now.
    pub fn now(&self, text: impl Into<String>) {
        let text = text.into();
        if let Some(bar) = &self.bar {
            bar.set_message(text.clone());
        }
        set(&self.now, text);
    }

    /// Sets what is shown beside the step once it is done.
    pub fn result(&self, text: impl Into<String>) {
        set(&self.result, text.into());
    }

    fn give_signs_of_life(&self, done: mpsc::Receiver<()>) {
        let mut pause = QUIET;
        while done.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let now = get(&self.now);
            let now = if now.is_empty() { now } else { format!(": {now}") };
            eprintln!("- {}, {} so far{now}", self.name, duration(self.begin.elapsed()));
            pause = SIGN_OF_LIFE;
        }
    }

    fn finish(&self, success: bool) {
        let taken = duration(self.begin.elapsed());
        let mark = if success { "✓" } else { "✗" };
        let result = match get(&self.result) {
            result if !success || result.is_empty() => format!("({taken})"),
            result => format!("({taken}): {result}"),
        };
        match &self.bar {
            Some(bar) => {
                let colour = if success { "green" } else { "red" };
                bar.set_style(
                    style(&format!("{{spinner:.{colour}}} {{prefix}} {{wide_msg:.dim}}")).tick_strings(&[mark, mark]),
                );
                bar.finish_with_message(result);
            }
            None => eprintln!("{mark} {} {result}", self.name),
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn set(place: &Mutex<String>, text: String) {
    *place.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = text;
}

fn get(place: &Mutex<String>) -> String {
    place.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
}

fn duration(time: Duration) -> String {
    match time.as_secs() {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 10..60 => format!("{seconds} s"),
        seconds => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_exact_as_is_useful() {
        let shown = |millis| duration(Duration::from_millis(millis));
        assert_eq!(
            (shown(40), shown(9_940), shown(59_900)),
            ("0.0 s".into(), "9.9 s".into(), "59 s".into())
        );
        assert_eq!(shown(387_000), "6 min 27 s");
    }

    #[test]
    fn a_step_gives_its_works_result() {
        let steps = Steps::new();
        assert_eq!(steps.step("adding", |_| Ok(1 + 1)).unwrap(), 2);
        let failed: Result<()> = steps.step("failing", |_| Err(anyhow::anyhow!("no")));
        assert_eq!(failed.unwrap_err().to_string(), "no");
    }
}
