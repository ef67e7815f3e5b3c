//! WASI with nothing behind it, and the log.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use patchbay_plugin::{CallError, Executor, Instance, Limits, Plugin};

use crate::guest::{EMPTY, Guest, Lines, answer, failure, primary};

/// Runs `reconcile` once with this body. Gives what it answers and what it logs.
fn run(imports: &str, body: &str, limits: Limits) -> (Result<Option<String>, CallError>, Vec<String>) {
    let guest = Guest {
        imports: imports.to_owned(),
        reconcile: body.to_owned(),
        fields: "(data (i32.const 40000) \"one\\0atwo\")".into(),
        ..Guest::default()
    };
    let lines = Arc::new(Lines::default());
    let mut instance = guest.start(limits, lines.clone()).expect("an instance");
    let answer = instance.reconcile(&primary("{}"), &[]);
    let message = answer.map(|answer| answer.err().map(|failure| failure.message));
    (message, lines.all())
}

const LOG: &str = r#"(import "patchbay:plugin/log@0.1.0" "write-line" (func $log (param i32 i32 i32)))"#;
const SUBSCRIBE: &str = r#"(import "wasi:clocks/monotonic-clock@0.2.0" "subscribe-duration"
    (func $subscribe (param i64) (result i32)))"#;
const BLOCK: &str = r#"(import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))"#;
const POLL: &str = r#"(import "wasi:io/poll@0.2.0" "poll" (func $poll (param i32 i32 i32)))"#;
const STDOUT: &str = r#"(import "wasi:cli/stdout@0.2.0" "get-stdout" (func $stdout (result i32)))"#;

const SHORT: Duration = Duration::from_millis(100);
const HOUR: u64 = 3_600_000_000_000;

#[test]
fn the_log_takes_lines_up_to_its_limit() {
    let limits = Limits {
        log_lines: 3,
        ..Limits::default()
    };
    let body = format!(
        "(local $i i32)
         (loop $l
            (call $log (local.get $i) (i32.const 40000) (i32.const 7))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (br_if $l (i32.lt_u (local.get $i) (i32.const 4))))
         (i32.const {EMPTY})"
    );
    let (answer, lines) = run(LOG, &body, limits);
    assert_eq!(answer, Ok(None));
    assert_eq!(
        lines,
        [
            "Log Level::Debug one\\ntwo",
            "Log Level::Info one\\ntwo",
            "Log Level::Warning one\\ntwo",
            "Log Level::Warning 1 more lines of this call were dropped, 3 may be written",
        ]
    );
}

#[test]
fn standard_output_goes_to_the_log() {
    let imports = format!(
        r#"{STDOUT} (import "wasi:io/streams@0.2.0" "[method]output-stream.blocking-write-and-flush"
            (func $write (param i32 i32 i32 i32)))"#
    );
    let body =
        format!("(call $write (call $stdout) (i32.const 40000) (i32.const 7) (i32.const 20000)) (i32.const {EMPTY})");
    let (answer, lines) = run(&imports, &body, Limits::default());
    assert_eq!(answer, Ok(None));
    assert_eq!(lines, ["Stdout Level::Info one", "Stdout Level::Info two"]);
}

#[test]
fn a_stream_makes_the_host_allocate_little() {
    let imports = format!(
        r#"{STDOUT} (import "wasi:io/streams@0.2.0" "[method]output-stream.write-zeroes"
            (func $zeroes (param i32 i64 i32)))"#
    );
    let body = format!(
        "(call $zeroes (call $stdout) (i64.const {}) (i32.const 20000)) (i32.const {EMPTY})",
        u64::MAX
    );
    let (answer, lines) = run(&imports, &body, Limits::default());
    assert!(matches!(answer, Err(CallError::Trap { .. })), "{answer:?}");
    assert_eq!(lines, [] as [&str; 0]);
}

fn assert_timed_out(imports: &str, body: &str) {
    let limits = Limits {
        time: SHORT,
        ..Limits::default()
    };
    let begin = Instant::now();
    let (answer, _) = run(imports, body, limits);
    assert!(matches!(answer, Err(CallError::TimedOut { .. })), "{answer:?}");
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn nobody_sleeps_past_the_time() {
    let block = format!("(call $block (call $subscribe (i64.const {HOUR}))) (i32.const {EMPTY})");
    assert_timed_out(&format!("{SUBSCRIBE} {BLOCK}"), &block);
    let poll = format!(
        "(i32.store (i32.const 20000) (call $subscribe (i64.const {HOUR})))
         (call $poll (i32.const 20000) (i32.const 1) (i32.const 20008))
         (i32.const {EMPTY})"
    );
    assert_timed_out(&format!("{SUBSCRIBE} {POLL}"), &poll);
}

#[test]
fn many_short_sleeps_do_not_pass_the_time_either() {
    let imports = format!(
        r#"{SUBSCRIBE} {BLOCK} (import "wasi:io/poll@0.2.0" "[resource-drop]pollable" (func $drop (param i32)))"#
    );
    let body = "(local $sleep i32)
        (loop $l
            (local.set $sleep (call $subscribe (i64.const 1000000)))
            (call $block (local.get $sleep))
            (call $drop (local.get $sleep))
            (br $l))
        unreachable";
    assert_timed_out(&imports, body);
}

#[test]
fn a_short_sleep_ends_by_itself() {
    let body = format!("(call $block (call $subscribe (i64.const 1000))) (i32.const {EMPTY})");
    let imports = format!("{SUBSCRIBE} {BLOCK}");
    let (answer, _) = run(&imports, &body, Limits::default());
    assert_eq!(answer, Ok(None));
}

#[tokio::test]
async fn a_plugin_waits_on_a_thread_of_the_executor_beside_a_runtime() {
    fn assert_send<T: Send>() {}
    fn assert_sync<T: Sync>() {}
    assert_send::<Instance>();
    assert_sync::<Plugin>();

    let executor = Executor::new(NonZeroUsize::MIN, NonZeroUsize::MIN).expect("threads");
    let body = format!("(call $block (call $subscribe (i64.const 1000))) (i32.const {EMPTY})");
    let imports = format!("{SUBSCRIBE} {BLOCK}");
    let answer = executor.run(move || run(&imports, &body, Limits::default()).0);
    assert_eq!(answer.await, Ok(Ok(None)));
}

#[test]
fn what_a_plugin_can_hold_is_bounded() {
    let body = "(loop $l (drop (call $subscribe (i64.const 1))) (br $l)) unreachable";
    let limits = Limits {
        time: Duration::from_secs(30),
        ..Limits::default()
    };
    let (answer, _) = run(SUBSCRIBE, body, limits);
    assert!(matches!(answer, Err(CallError::Trap { .. })), "{answer:?}");
}

#[test]
fn the_wall_clock_shows_the_time_of_the_run() {
    let imports = r#"(import "wasi:clocks/wall-clock@0.2.0" "now" (func $now (param i32)))"#;
    let body = format!(
        "(call $now (i32.const 20000))
         (if (i64.ne (i64.load (i32.const 20000)) (i64.const 1700000000)) (then unreachable))
         (i32.const {EMPTY})"
    );
    let (answer, _) = run(imports, &body, Limits::default());
    assert_eq!(answer, Ok(None));
}

#[test]
fn there_is_no_environment_and_one_argument() {
    let imports = r#"
        (import "wasi:cli/environment@0.2.0" "get-environment" (func $environment (param i32)))
        (import "wasi:cli/environment@0.2.0" "get-arguments" (func $arguments (param i32)))"#;
    let body = format!(
        "(call $environment (i32.const 20000))
         (if (i32.load offset=4 (i32.const 20000)) (then unreachable))
         (call $arguments (i32.const 20000))
         (if (i32.ne (i32.load offset=4 (i32.const 20000)) (i32.const 1)) (then unreachable))
         {}",
        failure(
            "(i32.load (i32.load (i32.const 20000)))",
            "(i32.load offset=4 (i32.load (i32.const 20000)))"
        )
    );
    let (answer, _) = run(imports, &body, Limits::default());
    assert_eq!(answer, Ok(Some("guest".into())));
}

#[test]
fn there_are_no_files_and_no_sockets() {
    let imports = r#"
        (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $directories (param i32)))
        (import "wasi:sockets/tcp-create-socket@0.2.0" "create-tcp-socket" (func $socket (param i32 i32)))"#;
    // A result of a socket begins with 1 if it is an error; the second error is `access-denied`.
    let body = format!(
        "(call $directories (i32.const 20000))
         (if (i32.load offset=4 (i32.const 20000)) (then unreachable))
         (call $socket (i32.const 0) (i32.const 20000))
         (if (i32.ne (i32.load8_u (i32.const 20000)) (i32.const 1)) (then unreachable))
         (if (i32.ne (i32.load8_u offset=4 (i32.const 20000)) (i32.const 1)) (then unreachable))
         (i32.const {EMPTY})"
    );
    let (answer, _) = run(imports, &body, Limits::default());
    assert_eq!(answer, Ok(None));
}

#[test]
fn random_numbers_are_there_within_bounds() {
    let imports = r#"(import "wasi:random/random@0.2.0" "get-random-bytes" (func $random (param i64 i32)))"#;
    let random = |bytes: u64| {
        let body = format!(
            "(call $random (i64.const {bytes}) (i32.const 20000)) {}",
            answer(&["(i32.const 0)"])
        );
        run(imports, &body, Limits::default()).0
    };
    assert_eq!(random(32), Ok(None));
    let error = random(1 << 30);
    assert!(matches!(error, Err(CallError::Trap { .. })), "{error:?}");
}

#[test]
fn an_exit_is_a_trap_with_its_status() {
    let imports = r#"(import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))"#;
    let (answer, _) = run(imports, "(call $exit (i32.const 1)) unreachable", Limits::default());
    let text = answer.expect_err("an error").to_string();
    assert!(text.contains("the plugin exited with status 1"), "{text}");
}
