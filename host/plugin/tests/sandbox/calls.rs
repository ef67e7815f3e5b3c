//! Calls: answers come through, and whatever a plugin does ends with an error of that call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use patchbay_plugin::contract::{Answer, Change, Finding, Object, QueryFailure, QueryFailureReason};
use patchbay_plugin::{CallError, Direction, Engine, Function, Limits, LogSink, Plugin, Settings};

use crate::guest::{ANSWER, EMPTY, Guest, Lines, failure, primary};

/// Fast enough for a test, and far more than a call takes.
const TIME: Duration = Duration::from_millis(200);

fn limits() -> Limits {
    Limits {
        time: TIME,
        ..Limits::default()
    }
}

/// What `reconcile` fails with if this is its body.
fn reconcile_error(body: &str, fields: &str, limits: Limits) -> CallError {
    let guest = Guest {
        reconcile: body.to_owned(),
        fields: fields.to_owned(),
        ..Guest::default()
    };
    let mut instance = guest.instance(limits);
    let error = instance.reconcile(&primary("{}"), &[]).expect_err("an error");
    let again = instance.references(&primary("{}"), &[]);
    assert_eq!(again.expect_err("an error"), CallError::Poisoned);
    error
}

#[test]
fn every_function_answers() {
    let mut instance = Guest::default().instance(limits());
    let primary = primary("{}");
    let answers = [Answer {
        id: "q".into(),
        finding: Finding::Failed(QueryFailure {
            reason: QueryFailureReason::Forbidden,
            message: "no".into(),
        }),
    }];
    let set = instance.references(&primary, &answers).expect("an answer");
    assert!(set.is_ok_and(|set| set.queries.is_empty() && !set.complete));
    let outcome = instance.reconcile(&primary, &answers).expect("an answer");
    assert!(outcome.is_ok_and(|outcome| outcome.writes.is_empty()));
    let end = instance.finalize(&primary, &answers).expect("an answer");
    assert!(end.is_ok_and(|end| !end.done));
    let change = Change {
        before: None,
        after: Some(primary.object.clone()),
    };
    let dependents = instance.dependents("watch", &change).expect("an answer");
    assert_eq!(dependents.map(|keys| keys.len()), Ok(0));
}

#[test]
fn the_primary_reaches_the_plugin_and_its_failure_comes_back() {
    let guest = Guest {
        // The object's JSON stands behind the ids of its cluster and version.
        reconcile: failure(
            "(i32.load offset=16 (local.get $in))",
            "(i32.load offset=20 (local.get $in))",
        ),
        ..Guest::default()
    };
    let mut instance = guest.instance(limits());
    for json in ["{\"a\": \"ä\"}", "again"] {
        let failure = instance
            .reconcile(&primary(json), &[])
            .expect("an answer")
            .expect_err("a failure");
        assert_eq!(failure.message, json);
        assert!(!failure.permanent);
    }
}

#[test]
fn an_instance_knows_nothing_of_another() {
    let counter = "(global.set $count (i32.add (global.get $count) (i32.const 1)))
        (if (i32.gt_u (global.get $count) (i32.const 1)) (then unreachable))";
    let guest = Guest {
        reconcile: format!("{counter} (i32.const {EMPTY})"),
        fields: "(global $count (mut i32) (i32.const 0))".into(),
        ..Guest::default()
    };
    let plugin = guest.load(limits()).expect("a plugin");
    for _ in 0..3 {
        let lines: Arc<dyn LogSink> = Arc::new(Lines::default());
        let mut instance = plugin.instantiate(lines).expect("an instance");
        let answer = instance.reconcile(&primary("{}"), &[]);
        assert!(answer.is_ok(), "{answer:?}");
        let answer = instance.reconcile(&primary("{}"), &[]);
        assert!(matches!(answer, Err(CallError::Trap { .. })), "{answer:?}");
    }
}

#[test]
fn a_trap_names_its_cause_and_its_functions() {
    let error = reconcile_error(
        "(call $outer) unreachable",
        "(func $outer (call $inner)) (func $inner unreachable)",
        limits(),
    );
    assert_eq!(
        error.to_string(),
        "reconcile trapped: the plugin aborted (`unreachable` executed), in inner < outer < reconcile"
    );
}

#[test]
fn a_function_name_cannot_forge_a_line() {
    let error = reconcile_error(
        "(call $bad) unreachable",
        "(func $bad (@name \"x\\0aERROR \\1b[2J\") unreachable)",
        limits(),
    );
    let text = error.to_string();
    assert!(text.contains("x\\nERROR"), "{text}");
    assert!(!text.contains(char::is_control), "{text}");
}

#[test]
fn an_endless_loop_ends_with_the_time() {
    let begin = Instant::now();
    let error = reconcile_error("(loop $l (br $l)) unreachable", "", limits());
    let expected = CallError::TimedOut {
        function: Function::Reconcile,
        limit: TIME,
    };
    assert_eq!(error, expected);
    // A bound that only a loop without an end passes, however busy the machine is.
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn recursion_without_end_traps() {
    let error = reconcile_error(
        "(call $deeper (i32.const 1))",
        "(func $deeper (param i32) (result i32)
            (i32.add (call $deeper (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))",
        limits(),
    );
    let text = error.to_string();
    assert!(
        text.starts_with("reconcile trapped: call stack exhausted, in deeper"),
        "{text}"
    );
}

#[test]
fn memory_beyond_the_limit_is_refused() {
    let error = reconcile_error(
        "(if (i32.eq (memory.grow (i32.const 65000)) (i32.const -1)) (then unreachable)) unreachable",
        "",
        limits(),
    );
    let expected = CallError::MemoryLimit {
        function: Function::Reconcile,
        limit: limits().memory,
    };
    assert_eq!(error, expected);
}

#[test]
fn a_plugin_that_takes_a_refusal_well_goes_on() {
    let guest = Guest {
        reconcile: format!("(drop (memory.grow (i32.const 65000))) (i32.const {EMPTY})"),
        ..Guest::default()
    };
    let mut instance = guest.instance(limits());
    assert!(instance.reconcile(&primary("{}"), &[]).is_ok());
}

#[test]
fn tables_beyond_the_limit_are_refused() {
    let error = reconcile_error(
        "(if (i32.eq (table.grow $t (ref.null func) (i32.const 1000000)) (i32.const -1)) (then unreachable))
         unreachable",
        "(table $t 1 funcref)",
        limits(),
    );
    let text = error.to_string();
    assert!(text.contains("refused tables of more than 262144"), "{text}");
}

#[test]
fn an_answer_beyond_the_limit_is_not_read() {
    let limits = Limits {
        memory: 256 << 20,
        output: 1 << 20,
        ..limits()
    };
    let expected = CallError::TooLarge {
        function: Function::Reconcile,
        direction: Direction::Output,
        bytes: None,
        limit: 1 << 20,
    };
    let hundred = 100 << 20;
    let body = format!(
        "(drop (memory.grow (i32.const 1700))) {}",
        failure("(i32.const 65536)", &format!("(i32.const {hundred})"))
    );
    assert_eq!(reconcile_error(&body, "", limits), expected);
}

#[test]
fn an_answer_that_repeats_one_string_is_not_read_either() {
    // 100,000 events of 64 KiB each lie in little memory, since all of them are the same bytes.
    let body = format!(
        "(local $at i32)
         (drop (memory.grow (i32.const 64)))
         (local.set $at (i32.const 65536))
         (loop $l
            (i32.store8 (local.get $at) (i32.const 0))
            (i32.store offset=4 (local.get $at) (i32.const 0x300000))
            (i32.store offset=8 (local.get $at) (i32.const 65536))
            (i32.store offset=12 (local.get $at) (i32.const 0x300000))
            (i32.store offset=16 (local.get $at) (i32.const 65536))
            (local.set $at (i32.add (local.get $at) (i32.const 20)))
            (br_if $l (i32.lt_u (local.get $at) (i32.const 2065536))))
         ;; outcome: writes, status, events
         (i32.store (i32.const {}) (i32.const 65536))
         (i32.store (i32.const {}) (i32.const 100000))
         (i32.const {ANSWER})",
        ANSWER + 8 + 8 + 12,
        ANSWER + 8 + 8 + 12 + 4,
    );
    let error = reconcile_error(&body, "", limits());
    assert!(
        matches!(
            error,
            CallError::TooLarge {
                direction: Direction::Output,
                bytes: None,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn what_is_no_text_is_a_bad_answer() {
    let body = format!(
        "(i32.store (i32.const 32768) (i32.const 0xffffffff)) {}",
        failure("(i32.const 32768)", "(i32.const 4)")
    );
    let error = reconcile_error(&body, "", limits());
    let text = error.to_string();
    assert!(text.starts_with("reconcile trapped: invalid utf-8"), "{text}");
}

#[test]
fn pointers_out_of_memory_are_a_bad_answer() {
    let body = failure("(i32.const 0x7fffffff)", "(i32.const 4)");
    let error = reconcile_error(&body, "", limits());
    assert!(matches!(error, CallError::Trap { .. }), "{error}");
    let error = reconcile_error("(i32.const 3)", "", limits());
    assert!(matches!(error, CallError::Trap { .. }), "{error}");
}

#[test]
fn what_goes_in_is_bounded_and_does_not_poison() {
    let limits = Limits {
        input: 1000,
        ..limits()
    };
    let mut instance = Guest::default().instance(limits);
    let error = instance
        .reconcile(&primary(&"x".repeat(2000)), &[])
        .expect_err("an error");
    // Beside the JSON there are the ids of cluster and version, and the configuration.
    let expected = CallError::TooLarge {
        function: Function::Reconcile,
        direction: Direction::Input,
        bytes: Some(2005),
        limit: 1000,
    };
    assert_eq!(error, expected);
    let answers = [Answer {
        id: "q".into(),
        finding: Finding::Matches(vec![
            Object {
                cluster_id: "c1".into(),
                resource_version: "1".into(),
                json: "x".repeat(400),
            };
            3
        ]),
    }];
    let error = instance.references(&primary("{}"), &answers);
    assert!(matches!(error, Err(CallError::TooLarge { .. })), "{error:?}");
    assert!(instance.reconcile(&primary("{}"), &[]).is_ok());
}

#[test]
fn an_input_that_does_not_fit_the_plugin_is_its_memory_limit() {
    let limits = Limits {
        memory: 1 << 20,
        ..limits()
    };
    let mut instance = Guest::default().instance(limits);
    let error = instance
        .reconcile(&primary(&"x".repeat(2 << 20)), &[])
        .expect_err("an error");
    assert!(matches!(error, CallError::MemoryLimit { .. }), "{error}");
}

#[test]
fn a_full_engine_says_so_and_has_room_again() {
    for pool in [true, false] {
        let engine = Engine::new(&Settings {
            instances: 2,
            pool,
            ..Settings::default()
        })
        .expect("an engine");
        let component = Guest::default().component();
        let plugin = Plugin::load(&engine, "guest", &component, limits()).expect("a plugin");
        let start = || plugin.instantiate(Arc::new(Lines::default()));
        let one = start().expect("an instance");
        let _two = start().expect("an instance");
        let error = start().expect_err("no room");
        assert_eq!(
            error.to_string(),
            "no room for another instance: 2 exist, which is the limit; try again when another one has ended"
        );
        drop(one);
        start().expect("an instance");
    }
}

#[test]
fn an_engine_without_a_pool_keeps_the_same_limits() {
    let engine = Engine::new(&Settings {
        pool: false,
        ..Settings::default()
    })
    .expect("an engine");
    let guest = Guest {
        reconcile: "(if (i32.eq (memory.grow (i32.const 65000)) (i32.const -1)) (then unreachable)) unreachable".into(),
        ..Guest::default()
    };
    let plugin = Plugin::load(&engine, "guest", &guest.component(), limits()).expect("a plugin");
    let mut instance = plugin.instantiate(Arc::new(Lines::default())).expect("an instance");
    assert!(instance.references(&primary("{}"), &[]).is_ok());
    let error = instance.reconcile(&primary("{}"), &[]);
    assert!(matches!(error, Err(CallError::MemoryLimit { .. })), "{error:?}");
}
