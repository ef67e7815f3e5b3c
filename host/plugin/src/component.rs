//! What a component says of itself, read without compiling it.

use wasmparser::{Parser, Payload};

use crate::contract::{PACKAGE, VERSION};
use crate::limits::Limits;

/// Packages of WASI 0.2 that are linked.
const WASI: [&str; 6] = ["cli", "clocks", "filesystem", "io", "random", "sockets"];

/// How to make a component of a core module.
const HOW_TO_ENCODE: &str = "make a component of it with `wasm-tools component new`";

/// The outside of a component.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outline {
    imports: Vec<String>,
    exports: Vec<String>,
    /// Bytes of the greatest memory that one of its modules begins with.
    memory: u64,
}

impl Outline {
    /// Reads the outline of a component.
    ///
    /// # Errors
    /// Why this is no component, and what to do.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Outline, String> {
        if !bytes.starts_with(b"\0asm") {
            return Err(not_wasm(bytes));
        }
        if !Parser::is_component(bytes) && Parser::is_core_wasm(bytes) {
            return Err(format!(
                "this is a core WebAssembly module, not a component; {HOW_TO_ENCODE}"
            ));
        }
        let mut outline = Outline::default();
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            let read = payload.and_then(|payload| outline.take(payload, &mut depth));
            read.map_err(|error| format!("the component is damaged or cut off: {error}"))?;
        }
        Ok(outline)
    }

    fn take(&mut self, payload: Payload<'_>, depth: &mut usize) -> wasmparser::Result<()> {
        match payload {
            Payload::Version { .. } => *depth += 1,
            Payload::End(_) => *depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(imports) if *depth == 1 => {
                for import in imports {
                    self.imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(exports) if *depth == 1 => {
                for export in exports {
                    self.exports.push(export?.name.name.to_owned());
                }
            }
            Payload::MemorySection(memories) => {
                for memory in memories {
                    let bytes = memory?.initial.saturating_mul(64 * 1024);
                    self.memory = self.memory.max(bytes);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether this is a component of the contract's world and version, within its limits at the start.
    ///
    /// # Errors
    /// What does not fit, and what to do.
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), String> {
        self.check_version()?;
        for import in &self.imports {
            check_import(import)?;
        }
        let reconciler = format!("{PACKAGE}/reconciler@{VERSION}");
        if !self.exports.contains(&reconciler) {
            return Err(format!(
                "it exports no {reconciler}; is it a plugin? Build it for the world {PACKAGE}/plugin@{VERSION}"
            ));
        }
        if self.memory > limits.memory as u64 {
            return Err(format!(
                "it begins with {} bytes of memory, {} are allowed; give it less or raise the plugin's memory limit",
                self.memory, limits.memory
            ));
        }
        Ok(())
    }

    /// Refuses a plugin that was built for another version of the contract only.
    fn check_version(&self) -> Result<(), String> {
        let versions: Vec<&str> = self
            .exports
            .iter()
            .filter_map(|name| interface(name))
            .filter(|name| name.package == PACKAGE && name.interface == "reconciler")
            .map(|name| name.version)
            .collect();
        match versions.first() {
            Some(version) if !versions.contains(&VERSION) => Err(other_version(version)),
            _ => Ok(()),
        }
    }
}

fn other_version(version: &str) -> String {
    format!(
        "it was built for version {version} of the plugin contract, this host speaks {VERSION}; build it for \
         {VERSION}, or run a host that speaks {version}"
    )
}

fn check_import(import: &str) -> Result<(), String> {
    let refused = || {
        format!(
            "it imports {import}, which the sandbox does not offer; only {PACKAGE}/log and WASI's {} can be imported",
            WASI.join(", ")
        )
    };
    let name = interface(import).ok_or_else(refused)?;
    if name.package == PACKAGE && ["log", "types"].contains(&name.interface) {
        return if compatible(name.version, VERSION) {
            Ok(())
        } else {
            Err(other_version(name.version))
        };
    }
    match name.package.strip_prefix("wasi:") {
        Some(package) if WASI.contains(&package) => {
            if compatible(name.version, "0.2.0") {
                Ok(())
            } else {
                Err(format!(
                    "it imports {import}, but this host offers WASI 0.2; build it for wasm32-wasip2 or with the \
                     preview 1 adapter"
                ))
            }
        }
        _ => Err(refused()),
    }
}

/// The parts of an interface's name, such as `wasi:io/poll@0.2.0`.
struct Interface<'a> {
    package: &'a str,
    interface: &'a str,
    /// Empty if the package has no version.
    version: &'a str,
}

fn interface(name: &str) -> Option<Interface<'_>> {
    let (path, version) = name.split_once('@').unwrap_or((name, ""));
    let (package, interface) = path.split_once('/')?;
    Some(Interface {
        package,
        interface,
        version,
    })
}

/// Whether two versions below 1 differ in their patch level at most, which Semantic Versioning takes as compatible.
fn compatible(one: &str, other: &str) -> bool {
    fn minor(version: &str) -> Option<&str> {
        version.rsplit_once('.').map(|(minor, _)| minor)
    }
    minor(one).is_some() && minor(one) == minor(other)
}

fn not_wasm(bytes: &[u8]) -> String {
    let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(64)]);
    let begin = begin.trim_start();
    let hint = if begin.starts_with("(component") || begin.starts_with("(module") {
        "it is in the text format; translate it with `wasm-tools parse`"
    } else if bytes.starts_with(&[0x1f, 0x8b]) {
        "it is packed with gzip; unpack it"
    } else if begin.starts_with("version https://git-lfs") {
        "it is a pointer of Git LFS; fetch the file itself with `git lfs pull`"
    } else {
        "it does not begin as a WebAssembly component does; is it the right file?"
    };
    format!("this is no WebAssembly: {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(wat: &str) -> Result<Outline, String> {
        Outline::parse(&wat::parse_str(wat).expect("WAT"))
    }

    fn outline(imports: &[&str], exports: &[&str]) -> Outline {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Outline {
            imports: owned(imports),
            exports: owned(exports),
            memory: 0,
        }
    }

    const RECONCILER: &str = "patchbay:plugin/reconciler@0.1.0";

    fn refusal(imports: &[&str], exports: &[&str]) -> String {
        outline(imports, exports)
            .check(&Limits::default())
            .expect_err("a refusal")
    }

    #[test]
    fn what_is_no_component_is_refused_with_the_way_out() {
        let refusals = [
            (&b"hello"[..], "is it the right file?"),
            (b"\x1f\x8b\x08", "unpack it"),
            (b" (component)", "wasm-tools parse"),
            (b"version https://git-lfs.github.com/spec/v1", "git lfs pull"),
            (b"\0asm\x01\0\0\0", "not a component; make a component"),
            (b"\0asm\x0d\0\x01", "damaged or cut off"),
            (b"\0asm\x0d\0\x01\0\x01\xff\x01", "damaged or cut off"),
        ];
        for (bytes, expected) in refusals {
            let message = Outline::parse(bytes).expect_err("a refusal");
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn only_the_outside_is_read_but_all_memories_are() {
        let outline = parse(
            r#"(component
                (import "a" (instance))
                (component (import "inner" (instance)))
                (core module (memory 3))
                (instance $i)
                (export "b" (instance $i)))"#,
        );
        assert_eq!(
            outline,
            Ok(Outline {
                imports: vec!["a".into()],
                exports: vec!["b".into()],
                memory: 3 * 64 * 1024
            })
        );
    }

    #[test]
    fn a_plugin_of_this_world_passes() {
        let imports = [
            "patchbay:plugin/types@0.1.0",
            "patchbay:plugin/log@0.1.7",
            "wasi:io/poll@0.2.0",
            "wasi:cli/environment@0.2.12",
        ];
        let later = "patchbay:plugin/reconciler@0.2.0";
        for exports in [&[RECONCILER][..], &[later, RECONCILER]] {
            assert_eq!(outline(&imports, exports).check(&Limits::default()), Ok(()));
        }
    }

    #[test]
    fn other_worlds_and_versions_are_refused() {
        assert!(refusal(&[], &["wasi:cli/run@0.2.0"]).contains("is it a plugin?"));
        let message = refusal(&[], &["patchbay:plugin/reconciler@0.2.0"]);
        assert!(message.contains("version 0.2.0"), "{message}");
        assert!(message.contains("speaks 0.1.0"), "{message}");
        let message = refusal(&["patchbay:plugin/log@0.3.0"], &[RECONCILER]);
        assert!(message.contains("version 0.3.0"), "{message}");
        for import in ["wasi:http/types@0.2.0", "patchbay:plugin/kill@0.1.0", "print"] {
            let message = refusal(&[import], &[RECONCILER]);
            assert!(message.contains(import), "{message}");
            assert!(message.contains("does not offer"), "{message}");
        }
        let message = refusal(&["wasi:io/poll@0.3.0"], &[RECONCILER]);
        assert!(message.contains("offers WASI 0.2"), "{message}");
    }

    #[test]
    fn a_memory_beyond_the_limit_is_refused() {
        let mut outline = outline(&[], &[RECONCILER]);
        outline.memory = 4 << 30;
        let message = outline.check(&Limits::default()).expect_err("a refusal");
        assert!(
            message.contains("4294967296 bytes of memory, 67108864 are allowed"),
            "{message}"
        );
    }
}
