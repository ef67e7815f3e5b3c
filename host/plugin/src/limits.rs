//! What one plugin may use of the host.

use std::time::Duration;

use wasmtime::ResourceLimiter;

const MIB: usize = 1024 * 1024;

/// Core instances that one component may consist of. A component made by `componentize-py` has one per shared library
/// and a few shims; others have three to five.
pub(crate) const CORE_INSTANCES: u32 = 128;

/// Linear memories that one component may have. Compilers emit one; a component composed of two has two.
pub(crate) const MEMORIES: u32 = 4;

/// Tables that one component may have: one per language runtime and one per shim.
pub(crate) const TABLES: u32 = 32;

/// What one plugin may use: in memory for all of an instance, in time and size for each call.
///
/// [`Limits::default`] suits most plugins. A value of its own for one plugin is accepted up to [`Limits::CEILING`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of linear memory that an instance may have, all its memories together. Default 64 MiB: the bundled Go
    /// plugins need 40 to 50 MiB, Rust ones two. A plugin that is refused more usually aborts, which is then reported
    /// as [`CallError::MemoryLimit`](crate::CallError::MemoryLimit).
    pub memory: usize,
    /// Wall-clock time that one call may take; the instantiation counts as a call. Default 2 s: calls take micro- to
    /// milliseconds, a Go plugin that renders its first kustomization 40 ms, and a busy machine may stretch that
    /// tenfold. It is checked every tick of the engine, so an endless loop runs up to one tick longer. A call that
    /// comes back after its time is given up all the same.
    pub time: Duration,
    /// Elements that the tables of an instance may have together, eight bytes each in the host. Default 262,144: Go
    /// puts every function into the table, and 21 MB of it has some 60,000.
    pub table_elements: usize,
    /// Bytes of strings and files that go into one call. Default 8 MiB: four Kubernetes objects of the greatest size
    /// that etcd stores, or a fair piece of a repository.
    pub input: usize,
    /// Bytes that one call may hand back, as they take room in the host: strings and list elements. Default 8 MiB. It
    /// is checked while the answer is read, so more than this is never allocated. The same bound holds for each call
    /// that the plugin makes of the host.
    pub output: usize,
    /// Lines of log that one call may write, by `write-line` and standard output together. Default 100. What is
    /// beyond is dropped and counted in one last line.
    pub log_lines: u32,
    /// Bytes of the component itself. Default 64 MiB: Go with kustomize in it has 21.
    pub module: usize,
}

impl Limits {
    /// The greatest values that a plugin can be given. The engine's pools are laid out for them.
    pub const CEILING: Limits = Limits {
        memory: 1024 * MIB,
        time: Duration::from_secs(60),
        table_elements: 1024 * 1024,
        input: 64 * MIB,
        output: 64 * MIB,
        log_lines: 10_000,
        module: 256 * MIB,
    };

    /// Gives the limits back if each is between 1 and its [ceiling](Limits::CEILING). `log_lines` may be 0.
    ///
    /// # Errors
    /// The first field that is not, with its value and the bounds.
    pub fn checked(self) -> Result<Limits, LimitsError> {
        let ceiling = Limits::CEILING;
        let numbers = [
            ("memory", self.memory, ceiling.memory),
            ("table_elements", self.table_elements, ceiling.table_elements),
            ("input", self.input, ceiling.input),
            ("output", self.output, ceiling.output),
            ("module", self.module, ceiling.module),
        ];
        for (field, value, most) in numbers {
            if value == 0 || value > most {
                return Err(LimitsError {
                    field,
                    value: value.to_string(),
                    bounds: format!("from 1 to {most}"),
                });
            }
        }
        if self.time.is_zero() || self.time > ceiling.time {
            return Err(LimitsError {
                field: "time",
                value: format!("{:?}", self.time),
                bounds: format!("more than 0 and at most {:?}", ceiling.time),
            });
        }
        if self.log_lines > ceiling.log_lines {
            return Err(LimitsError {
                field: "log_lines",
                value: self.log_lines.to_string(),
                bounds: format!("at most {}", ceiling.log_lines),
            });
        }
        Ok(self)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            memory: 64 * MIB,
            time: Duration::from_secs(2),
            table_elements: 256 * 1024,
            input: 8 * MIB,
            output: 8 * MIB,
            log_lines: 100,
            module: 64 * MIB,
        }
    }
}

/// A limit outside its bounds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the limit {field} is {value}, it must be {bounds}")]
pub struct LimitsError {
    field: &'static str,
    value: String,
    bounds: String,
}

/// What an instance was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    Memory,
    Table,
}

/// Counts what an instance has, all of its memories and tables together, and refuses more than the limits allow.
pub(crate) struct Meter {
    memory: Account,
    table_elements: Account,
    refused: Option<Refused>,
}

struct Account {
    used: usize,
    limit: usize,
}

impl Account {
    /// Whether the growth is within the limit, and notes it. A growth beyond the object's own maximum is going to
    /// fail, so it is not noted.
    fn grow(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> bool {
        let used = self.used.saturating_add(desired.saturating_sub(current));
        let fits = used <= self.limit;
        if fits && maximum.is_none_or(|maximum| desired <= maximum) {
            self.used = used;
        }
        fits
    }
}

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Meter {
        Meter {
            memory: Account {
                used: 0,
                limit: limits.memory,
            },
            table_elements: Account {
                used: 0,
                limit: limits.table_elements,
            },
            refused: None,
        }
    }

    /// What has been refused since this was last asked.
    pub(crate) fn take_refused(&mut self) -> Option<Refused> {
        self.refused.take()
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let fits = self.memory.grow(current, desired, maximum);
        if !fits {
            self.refused = Some(Refused::Memory);
        }
        Ok(fits)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let fits = self.table_elements.grow(current, desired, maximum);
        if !fits {
            self.refused = Some(Refused::Table);
        }
        Ok(fits)
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES as usize
    }

    fn tables(&self) -> usize {
        TABLES as usize
    }

    fn memories(&self) -> usize {
        MEMORIES as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_ceilings_are_within_the_bounds() {
        assert_eq!(Limits::default().checked(), Ok(Limits::default()));
        assert_eq!(Limits::CEILING.checked(), Ok(Limits::CEILING));
    }

    #[test]
    fn a_value_outside_the_bounds_is_named() {
        let refused = |change: fn(&mut Limits)| {
            let mut limits = Limits::default();
            change(&mut limits);
            limits.checked().map_err(|error| error.to_string())
        };
        assert_eq!(
            refused(|limits| limits.memory = 2048 * MIB),
            Err("the limit memory is 2147483648, it must be from 1 to 1073741824".into())
        );
        assert_eq!(
            refused(|limits| limits.output = 0),
            Err("the limit output is 0, it must be from 1 to 67108864".into())
        );
        assert_eq!(
            refused(|limits| limits.time = Duration::ZERO),
            Err("the limit time is 0ns, it must be more than 0 and at most 60s".into())
        );
        assert_eq!(
            refused(|limits| limits.log_lines = 10_001),
            Err("the limit log_lines is 10001, it must be at most 10000".into())
        );
    }

    #[test]
    fn memories_count_together() -> wasmtime::Result<()> {
        let mut meter = Meter::new(&Limits {
            memory: 3 * MIB,
            ..Limits::default()
        });
        assert!(meter.memory_growing(0, MIB, None)?);
        assert!(meter.memory_growing(0, MIB, None)?);
        assert!(!meter.memory_growing(MIB, 3 * MIB, None)?);
        assert_eq!(meter.take_refused(), Some(Refused::Memory));
        assert_eq!(meter.take_refused(), None);
        assert!(meter.memory_growing(MIB, 3 * MIB / 2, Some(MIB))?);
        assert!(meter.memory_growing(MIB, 2 * MIB, None)?);
        assert!(!meter.memory_growing(2 * MIB, 2 * MIB + 1, None)?);
        Ok(())
    }
}
