//! Plugins written by hand: a core module in the text format, encoded as a component of the contract's world.

use std::sync::{Arc, LazyLock, Mutex};

use patchbay_plugin::contract::{Object, Primary, Purpose};
use patchbay_plugin::{CallError, Engine, Instance, Limits, Line, LoadError, LogSink, Plugin, Settings};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

const CONTRACT: &str = include_str!("../../../../wit/0.1.0/plugin.wit");
const WASI: &str = include_str!("wasi.wit");

/// Where the guest's memory holds what, in bytes.
pub const DESCRIPTION: u32 = 1024;
const PRIMARY_KIND: u32 = 1200;
const STRINGS: u32 = 2048;
/// Zeros, which read as an empty answer: `ok` of lists without elements and options without a value.
pub const EMPTY: u32 = 8192;
/// Room for an answer that a function makes.
pub const ANSWER: u32 = 16384;

/// The functions of a guest, each as the instructions of its body. Without change it answers every call emptily.
pub struct Guest {
    pub describe: String,
    pub references: String,
    pub dependents: String,
    pub reconcile: String,
    pub finalize: String,
    /// Imports, which come first in a module.
    pub imports: String,
    /// Further functions and fields of the module.
    pub fields: String,
    /// Pages of 64 KiB that the memory begins with.
    pub pages: u32,
    /// The contract's version.
    pub version: &'static str,
}

impl Default for Guest {
    fn default() -> Self {
        let empty = format!("(i32.const {EMPTY})");
        Guest {
            describe: format!("(i32.const {DESCRIPTION})"),
            references: empty.clone(),
            dependents: empty.clone(),
            reconcile: empty.clone(),
            finalize: empty,
            imports: String::new(),
            fields: String::new(),
            pages: 2,
            version: "0.1.0",
        }
    }
}

impl Guest {
    pub fn wat(&self) -> String {
        let interface = format!("patchbay:plugin/reconciler@{}", self.version);
        let strings = ["test", "1.0", "v1", "ConfigMap"];
        let mut at = STRINGS;
        let mut places = Vec::new();
        for string in strings {
            let length = u32::try_from(string.len()).expect("a short string");
            places.push([at, length]);
            at += length;
        }
        // In the order of the contract's fields: name, version, primaries, finalizer, watches, requests, schema.
        let description = [places[0], places[1], [PRIMARY_KIND, 1]].concat();
        let kind = [places[2], places[3]].concat();
        let Guest {
            describe,
            references,
            dependents,
            reconcile,
            finalize,
            imports,
            fields,
            pages,
            ..
        } = self;
        format!(
            r#"(module
                {imports}
                (memory (export "memory") {pages})
                (data (i32.const {DESCRIPTION}) "{}")
                (data (i32.const {PRIMARY_KIND}) "{}")
                (data (i32.const {STRINGS}) "{}")
                (global $free (mut i32) (i32.const 65536))
                {fields}
                (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
                    ;; Memory is given out from low to high and never taken back.
                    (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
                    (global.set $free (i32.add (local.get $at) (local.get 3)))
                    (loop $more
                        (if (i32.gt_u (global.get $free) (i32.mul (memory.size) (i32.const 65536)))
                            (then
                                (if (i32.eq (memory.grow (i32.const 16)) (i32.const -1)) (then unreachable))
                                (br $more))))
                    (local.get $at))
                (func $describe (export "{interface}#describe") (result i32) {describe})
                (func $references (export "{interface}#references") (param $in i32) (result i32) {references})
                (func $dependents (export "{interface}#dependents")
                    (param i32 i32)
                    (param i32 i32 i32 i32 i32 i32 i32)
                    (param i32 i32 i32 i32 i32 i32 i32)
                    (result i32) {dependents})
                (func $reconcile (export "{interface}#reconcile") (param $in i32) (result i32) {reconcile})
                (func $finalize (export "{interface}#finalize") (param $in i32) (result i32) {finalize}))"#,
            data(&description),
            data(&kind),
            strings.concat(),
        )
    }

    pub fn component(&self) -> Vec<u8> {
        let mut resolve = Resolve::default();
        let contract = CONTRACT.replace(
            "package patchbay:plugin@0.1.0;",
            &format!("package patchbay:plugin@{};", self.version),
        );
        resolve.push_str("plugin.wit", &contract).expect("the contract");
        let world = format!(
            "package patchbay:test;\n{WASI}\nworld guest {{ include patchbay:plugin/plugin@{}; include everything; }}",
            self.version
        );
        let package = resolve.push_str("test.wit", &world).expect("the world");
        let world = resolve.select_world(&[package], Some("guest")).expect("the world");
        let mut module = wat::parse_str(self.wat()).expect("WAT");
        embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("metadata");
        ComponentEncoder::default()
            .module(&module)
            .expect("a module")
            .encode()
            .expect("a component")
    }

    pub fn load(&self, limits: Limits) -> Result<Plugin, LoadError> {
        Plugin::load(&ENGINE, "guest", &self.component(), limits)
    }

    /// An instance whose log nobody reads.
    pub fn instance(&self, limits: Limits) -> Instance {
        self.start(limits, Arc::new(Lines::default())).expect("an instance")
    }

    pub fn start(&self, limits: Limits, lines: Arc<Lines>) -> Result<Instance, CallError> {
        self.load(limits).expect("a plugin").instantiate(lines)
    }
}

/// Little-endian words as the text of a data segment.
fn data(words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.map(|byte| format!("\\{byte:02x}")).collect()
}

pub static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(&Settings::default()).expect("an engine"));

/// Instructions that store words from an address on and give the address.
pub fn answer(words: &[&str]) -> String {
    let mut body = String::new();
    for (index, word) in words.iter().enumerate() {
        let at = ANSWER as usize + 4 * index;
        body += &format!("(i32.store (i32.const {at}) {word})\n");
    }
    body + &format!("(i32.const {ANSWER})")
}

/// A failure whose reason and message are the text at these addresses.
pub fn failure(address: &str, length: &str) -> String {
    // The first word tells `err` from `ok`, the second is padding: an outcome is aligned to eight bytes.
    answer(&["(i32.const 1)", "(i32.const 0)", address, length, address, length])
}

pub fn primary(json: &str) -> Primary {
    Primary {
        object: Object {
            cluster_id: "c1".into(),
            resource_version: "7".into(),
            json: json.into(),
        },
        parent: None,
        purpose: Purpose::Reconcile,
        last_writes: vec![],
        config: "{}".into(),
        time: 1_700_000_000,
    }
}

/// Keeps what a guest logs.
#[derive(Default)]
pub struct Lines(Mutex<Vec<String>>);

impl LogSink for Lines {
    fn line(&self, line: Line<'_>) {
        let line = format!("{:?} {:?} {}", line.source, line.level, line.text);
        self.0.lock().expect("no panic under the lock").push(line);
    }
}

impl Lines {
    pub fn all(&self) -> Vec<String> {
        self.0.lock().expect("no panic under the lock").clone()
    }
}
