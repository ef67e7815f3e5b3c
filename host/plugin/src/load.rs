//! From bytes to a plugin that can be called, in stages.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use wasmtime::component::Component;

use crate::call_error::{CallError, line};
use crate::component::Outline;
use crate::contract::{BindingsPre, Description};
use crate::description;
use crate::engine::Engine;
use crate::instance::{Instance, State};
use crate::limits::Limits;
use crate::log::{LogSink, TracingSink};

/// The steps of loading a plugin, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Its limits are within their bounds; it is there and not too large.
    Read,
    /// It is a WebAssembly component.
    Parse,
    /// It is one of the contract's world, in a version that this host speaks.
    Check,
    /// It is valid and becomes machine code.
    Compile,
    /// What it imports and exports has the contract's types.
    Link,
    /// It starts and says what it is, within its limits.
    Describe,
    /// What it says makes sense.
    Validate,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Read => "read",
            Stage::Parse => "parse",
            Stage::Check => "check",
            Stage::Compile => "compile",
            Stage::Link => "link",
            Stage::Describe => "describe",
            Stage::Validate => "validate",
        })
    }
}

/// A plugin cannot be loaded. Displayed in one line that says at which stage it failed, why, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plugin {plugin}: {stage}: {message}")]
pub struct LoadError {
    /// The name that the plugin was loaded under.
    pub plugin: String,
    /// Where loading ended.
    pub stage: Stage,
    /// Why, in one line.
    pub message: String,
}

/// The SHA-256 of a component, displayed as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A plugin, compiled, linked and described. Its clones are one and the same, and can be used from all threads.
#[derive(Clone)]
pub struct Plugin(Arc<Inner>);

struct Inner {
    name: String,
    digest: Digest,
    description: Description,
    limits: Limits,
    engine: Engine,
    pre: BindingsPre<State>,
}

impl Plugin {
    /// Loads the component in `bytes` under a name, such as that of its file. The name is for messages; what the
    /// plugin calls itself is in its [description](Plugin::description). A loaded plugin can be instantiated: it has
    /// been once, to ask for its description.
    ///
    /// It blocks, for as long as it takes to compile: 0.1 s for 100 KB of Rust, more than ten seconds for 20 MB of
    /// Go. As for all calls of a plugin, the thread must not be one that drives a tokio runtime.
    ///
    /// # Errors
    /// The stage at which it failed, and why. Nothing of the plugin is kept.
    pub fn load(engine: &Engine, name: &str, bytes: &[u8], limits: Limits) -> Result<Plugin, LoadError> {
        let fail = |stage, message: &str| LoadError {
            plugin: name.to_owned(),
            stage,
            message: line(message),
        };

        let limits = limits
            .checked()
            .map_err(|error| fail(Stage::Read, &error.to_string()))?;
        check_size(bytes, &limits).map_err(|message| fail(Stage::Read, &message))?;
        let outline = Outline::parse(bytes).map_err(|message| fail(Stage::Parse, &message))?;
        outline.check(&limits).map_err(|message| fail(Stage::Check, &message))?;
        let component =
            Component::new(engine.wasmtime(), bytes).map_err(|error| fail(Stage::Compile, &format!("{error:#}")))?;
        let pre = engine
            .linker()
            .instantiate_pre(&component)
            .and_then(BindingsPre::new)
            .map_err(|error| {
                let message = format!("it does not fit the contract's types: {error:#}");
                fail(Stage::Link, &message)
            })?;
        let sink = Arc::new(TracingSink::new(name));
        let description = Instance::new(engine, name, &pre, limits, sink)
            .and_then(|mut instance| instance.describe())
            .map_err(|error| fail(Stage::Describe, &error.to_string()))?;
        description::validate(&description).map_err(|message| fail(Stage::Validate, &message))?;

        Ok(Plugin(Arc::new(Inner {
            name: name.to_owned(),
            digest: Digest::of(bytes),
            description,
            limits,
            engine: engine.clone(),
            pre,
        })))
    }

    /// The name that it was loaded under.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The digest of the component that it was loaded from.
    pub fn digest(&self) -> Digest {
        self.0.digest
    }

    /// What the plugin says that it is and needs.
    pub fn description(&self) -> &Description {
        &self.0.description
    }

    /// The limits that each of its calls keeps to.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// A fresh instance, with nothing of any earlier one in it. Lines that it writes go to `log`.
    ///
    /// # Errors
    /// [`CallError::NoRoom`] if the engine has no room now, another [`CallError`] if the plugin fails while it starts.
    pub fn instantiate(&self, log: Arc<dyn LogSink>) -> Result<Instance, CallError> {
        Instance::new(&self.0.engine, &self.0.name, &self.0.pre, self.0.limits, log)
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.0.name)
            .field("digest", &self.0.digest)
            .finish_non_exhaustive()
    }
}

fn check_size(bytes: &[u8], limits: &Limits) -> Result<(), String> {
    if bytes.is_empty() {
        return Err("the file is empty".to_owned());
    }
    if bytes.len() > limits.module {
        return Err(format!(
            "it has {} bytes, {} are allowed; build it smaller or raise the plugin's module limit",
            bytes.len(),
            limits.module
        ));
    }
    Ok(())
}
