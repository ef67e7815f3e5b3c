//! Loading: each stage refuses what it should, in one line.

use std::time::Duration;

use patchbay_plugin::{Digest, Limits, LoadError, Plugin, Stage};

use crate::guest::{ANSWER, DESCRIPTION, ENGINE, Guest};

fn refusal(guest: &Guest, limits: Limits) -> LoadError {
    guest.load(limits).expect_err("a refusal")
}

fn assert_refusal(error: &LoadError, stage: Stage, expected: &str) {
    assert_eq!(error.stage, stage, "{error}");
    let text = error.to_string();
    assert!(text.starts_with(&format!("plugin guest: {stage}: ")), "{text}");
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

fn load(bytes: &[u8]) -> LoadError {
    Plugin::load(&ENGINE, "guest", bytes, Limits::default()).expect_err("a refusal")
}

#[test]
fn a_plugin_says_what_it_is() {
    let guest = Guest::default();
    let plugin = guest.load(Limits::default()).expect("a plugin");
    assert_eq!(plugin.name(), "guest");
    assert_eq!(plugin.digest(), Digest::of(&guest.component()));
    assert_eq!(plugin.description().name, "test");
    assert_eq!(plugin.description().version, "1.0");
    assert_eq!(plugin.description().primaries[0].kind.kind, "ConfigMap");
    assert_eq!(plugin.limits(), &Limits::default());
}

#[test]
fn a_digest_reads_as_other_tools_write_it() {
    let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(Digest::of(b"abc").to_string(), digest);
}

#[test]
fn read_refuses_nothing_too_much_and_bad_limits() {
    assert_refusal(&load(b""), Stage::Read, "empty");
    let guest = Guest::default();
    let limits = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        limits
    };
    let error = refusal(&guest, limits(|limits| limits.module = 100));
    assert_refusal(&error, Stage::Read, "100 are allowed");
    let error = refusal(&guest, limits(|limits| limits.memory = usize::MAX));
    assert_refusal(&error, Stage::Read, "the limit memory is");
}

#[test]
fn parse_refuses_what_is_no_component() {
    assert_refusal(&load(b"#!/bin/sh"), Stage::Parse, "no WebAssembly");
    let module = wat::parse_str(Guest::default().wat()).expect("WAT");
    assert_refusal(&load(&module), Stage::Parse, "not a component");
    let component = Guest::default().component();
    let error = load(&component[..component.len() / 2]);
    assert_refusal(&error, Stage::Parse, "damaged or cut off");
}

#[test]
fn check_refuses_another_world_version_and_too_much_memory() {
    let component = wat::parse_str("(component)").expect("WAT");
    assert_refusal(&load(&component), Stage::Check, "is it a plugin?");
    let later = Guest {
        version: "0.2.0",
        ..Guest::default()
    };
    let error = refusal(&later, Limits::default());
    assert_refusal(
        &error,
        Stage::Check,
        "version 0.2.0 of the plugin contract, this host speaks 0.1.0",
    );
    let greedy = Guest {
        pages: 65536,
        ..Guest::default()
    };
    let error = refusal(&greedy, Limits::default());
    assert_refusal(&error, Stage::Check, "4294967296 bytes of memory");
}

#[test]
fn compile_refuses_what_is_invalid_or_beyond_the_features() {
    let invalid = r#"(component
        (core module (func (result i32)))
        (instance $i)
        (export "patchbay:plugin/reconciler@0.1.0" (instance $i)))"#;
    let error = load(&wat::parse_str(invalid).expect("WAT"));
    assert_refusal(&error, Stage::Compile, "type mismatch");
    let shared = r#"(component
        (core module (memory 1 2 shared))
        (instance $i)
        (export "patchbay:plugin/reconciler@0.1.0" (instance $i)))"#;
    let error = load(&wat::parse_str(shared).expect("WAT"));
    assert_refusal(&error, Stage::Compile, "threads must be enabled");
}

#[test]
fn link_refuses_other_types() {
    let empty = r#"(component
        (instance $i)
        (export "patchbay:plugin/reconciler@0.1.0" (instance $i)))"#;
    let error = load(&wat::parse_str(empty).expect("WAT"));
    assert_refusal(&error, Stage::Link, "describe");
    let import = r#"(component
        (import "patchbay:plugin/log@0.1.0" (instance (export "read-line" (func (result string)))))
        (instance $i)
        (export "patchbay:plugin/reconciler@0.1.0" (instance $i)))"#;
    let error = load(&wat::parse_str(import).expect("WAT"));
    assert_refusal(&error, Stage::Link, "read-line");
}

#[test]
fn describe_refuses_traps_loops_and_garbage() {
    let describe = |body: &str| Guest {
        describe: body.to_owned(),
        ..Guest::default()
    };
    let limits = Limits {
        time: Duration::from_millis(50),
        ..Limits::default()
    };
    let error = refusal(&describe("unreachable"), limits);
    assert_refusal(&error, Stage::Describe, "the plugin aborted");
    let error = refusal(&describe("(loop $l (br $l)) unreachable"), limits);
    assert_refusal(&error, Stage::Describe, "describe took longer than 50ms");
    let beyond = "(i32.const 0x7ffffff8)";
    let error = refusal(&describe(beyond), limits);
    assert_refusal(&error, Stage::Describe, "describe trapped");
    let start = Guest {
        fields: "(func $start (loop $l (br $l))) (start $start)".into(),
        ..Guest::default()
    };
    let error = refusal(&start, limits);
    assert_refusal(&error, Stage::Describe, "instantiate took longer than 50ms");
}

#[test]
fn validate_refuses_a_description_that_makes_no_sense() {
    let nameless = Guest {
        // A copy without the length of the name.
        describe: format!(
            "(memory.copy (i32.const {ANSWER}) (i32.const {DESCRIPTION}) (i32.const 64)) \
             (i32.store (i32.const {ANSWER}) (i32.const 0)) \
             (i32.store (i32.const {}) (i32.const 0)) \
             (i32.const {ANSWER})",
            ANSWER + 4
        ),
        ..Guest::default()
    };
    let error = refusal(&nameless, Limits::default());
    assert_refusal(&error, Stage::Validate, "the name \"\"");
}
