//! Lines that plugins write, on their way to the host's log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::contract::Level;

/// Bytes of one line; what is beyond is cut off.
pub const MAX_LINE: usize = 8 * 1024;

/// How a line was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// By the contract's `log.write-line`.
    Log,
    /// On standard output.
    Stdout,
    /// On standard error.
    Stderr,
}

/// One line that a plugin wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// As the plugin gave it; [`Level::Info`] for standard output and standard error.
    pub level: Level,
    /// How it was written.
    pub source: Source,
    /// At most [`MAX_LINE`] bytes, a little more where control characters had to be escaped. It holds no line break
    /// and no control character but the tab, so it cannot forge another line or steer a terminal.
    pub text: &'a str,
}

/// Where the lines of an instance go.
///
/// It is called on the plugin's thread and within the plugin's time, so it must not block. Values of Secrets are not
/// masked yet: only the sink knows what the run was given, so masking is its part.
pub trait LogSink: Send + Sync {
    /// Takes one line. Lines of one instance come in the order in which they were written.
    fn line(&self, line: Line<'_>);
}

/// Sends lines to `tracing`, with the plugin's name as a field.
#[derive(Debug, Clone)]
pub struct TracingSink {
    plugin: String,
}

impl TracingSink {
    /// A sink for lines of the plugin with this name.
    pub fn new(plugin: impl Into<String>) -> TracingSink {
        TracingSink { plugin: plugin.into() }
    }
}

impl LogSink for TracingSink {
    fn line(&self, line: Line<'_>) {
        let plugin = self.plugin.as_str();
        match line.level {
            Level::Debug => tracing::debug!(plugin, "{}", line.text),
            Level::Info => tracing::info!(plugin, "{}", line.text),
            Level::Warning => tracing::warn!(plugin, "{}", line.text),
            Level::Error => tracing::error!(plugin, "{}", line.text),
        }
    }
}

/// The one way from an instance to its sink. It counts the lines of a call and drops those beyond the limit, cuts long
/// ones, and makes lines of what comes in pieces. Its clones are one and the same, since WASI streams hold it as well.
#[derive(Clone)]
pub(crate) struct LogGate(Arc<Mutex<Gate>>);

struct Gate {
    sink: Arc<dyn LogSink>,
    lines: u32,
    left: u32,
    dropped: u64,
    stdout: Partial,
    stderr: Partial,
}

/// The begin of a line that has not ended yet.
#[derive(Default)]
struct Partial(Vec<u8>);

impl LogGate {
    /// A gate that lets `lines` lines through per call.
    pub(crate) fn new(sink: Arc<dyn LogSink>, lines: u32) -> LogGate {
        LogGate(Arc::new(Mutex::new(Gate {
            sink,
            lines,
            left: lines,
            dropped: 0,
            stdout: Partial::default(),
            stderr: Partial::default(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Gate> {
        // A sink that panicked leaves nothing behind that the next line could not live with.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn line(&self, level: Level, text: &str) {
        self.lock().send(level, Source::Log, text.as_bytes());
    }

    /// Takes a piece of a standard stream and sends the lines that it completes.
    pub(crate) fn bytes(&self, source: Source, bytes: &[u8]) {
        let mut gate = self.lock();
        let mut pieces = bytes.split(|byte| *byte == b'\n');
        // `split` gives at least one piece, and the last one has no line break behind it.
        let last = pieces.next_back().unwrap_or_default();
        for piece in pieces {
            let mut line = std::mem::take(gate.partial(source));
            line.extend(piece);
            gate.send(Level::Info, source, &line.0);
        }
        gate.partial(source).extend(last);
    }

    /// Ends a call: sends what stands on the standard streams without a line break, says how many lines were dropped,
    /// and gives the next call its lines.
    pub(crate) fn end_call(&self) {
        let mut gate = self.lock();
        for source in [Source::Stdout, Source::Stderr] {
            let line = std::mem::take(gate.partial(source));
            if !line.0.is_empty() {
                gate.send(Level::Info, source, &line.0);
            }
        }
        if gate.dropped > 0 {
            let text = format!(
                "{} more lines of this call were dropped, {} may be written",
                gate.dropped, gate.lines
            );
            gate.sink.line(Line {
                level: Level::Warning,
                source: Source::Log,
                text: &text,
            });
        }
        gate.dropped = 0;
        gate.left = gate.lines;
    }
}

impl Gate {
    fn partial(&mut self, source: Source) -> &mut Partial {
        match source {
            Source::Stderr => &mut self.stderr,
            Source::Stdout | Source::Log => &mut self.stdout,
        }
    }

    fn send(&mut self, level: Level, source: Source, text: &[u8]) {
        if self.left == 0 {
            self.dropped += 1;
            return;
        }
        self.left -= 1;
        let cut = &text[..text.len().min(MAX_LINE)];
        self.sink.line(Line {
            level,
            source,
            text: &printable(&String::from_utf8_lossy(cut)),
        });
    }
}

impl Partial {
    fn extend(&mut self, bytes: &[u8]) {
        let room = MAX_LINE.saturating_sub(self.0.len());
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// The text without line breaks and other control characters: they are escaped, except for the tab, and those at the
/// end are left out.
pub(crate) fn printable(text: &str) -> String {
    let text = text.trim_end();
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        if char.is_control() && char != '\t' {
            out.extend(char.escape_default());
        } else {
            out.push(char);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl LogSink for Lines {
        fn line(&self, line: Line<'_>) {
            let mut lines = self.0.lock().expect("no panic under the lock");
            lines.push(line.text.to_owned());
        }
    }

    impl Lines {
        fn texts(&self) -> Vec<String> {
            self.0.lock().expect("no panic under the lock").clone()
        }
    }

    fn gate(lines: u32) -> (LogGate, Arc<Lines>) {
        let sink = Arc::new(Lines::default());
        (LogGate::new(sink.clone(), lines), sink)
    }

    #[test]
    fn pieces_become_lines_and_streams_do_not_mix() {
        let (gate, sink) = gate(10);
        gate.bytes(Source::Stdout, b"one\ntw");
        gate.bytes(Source::Stderr, b"err");
        gate.bytes(Source::Stdout, b"o\n\nthr");
        assert_eq!(sink.texts(), ["one", "two", ""]);
        gate.end_call();
        assert_eq!(sink.texts(), ["one", "two", "", "thr", "err"]);
    }

    #[test]
    fn lines_beyond_the_limit_are_counted_and_the_next_call_has_its_own() {
        let (gate, sink) = gate(2);
        for text in ["a", "b", "c"] {
            gate.line(Level::Error, text);
        }
        gate.bytes(Source::Stdout, b"d\n");
        gate.end_call();
        gate.line(Level::Info, "e");
        assert_eq!(
            sink.texts(),
            [
                "a",
                "b",
                "2 more lines of this call were dropped, 2 may be written",
                "e"
            ]
        );
    }

    #[test]
    fn a_line_can_neither_grow_nor_forge_another() {
        let (gate, sink) = gate(10);
        gate.line(Level::Info, "a\nERROR b\u{1b}[2J\tc\n");
        gate.line(Level::Info, &"x".repeat(MAX_LINE + 1));
        for _ in 0..3 {
            gate.bytes(Source::Stdout, &vec![b'y'; MAX_LINE]);
        }
        gate.bytes(Source::Stdout, b"\xff\n");
        gate.bytes(Source::Stdout, b"\xff\n");
        assert_eq!(
            sink.texts(),
            [
                "a\\nERROR b\\u{1b}[2J\tc".to_owned(),
                "x".repeat(MAX_LINE),
                "y".repeat(MAX_LINE),
                "\u{fffd}".to_owned()
            ]
        );
    }
}
