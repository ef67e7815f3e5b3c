//! Where the API server's binary lies.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The environment variable that names the binary, for those who bring their own.
pub const BINARY_VARIABLE: &str = "PATCHBAY_APISERVER";

const PREFIX: &str = "apiserver-";

/// Hexadecimal digits of the sources' digest in a file name.
const DIGITS: usize = 16;

/// Why there is no binary.
#[derive(Debug, thiserror::Error)]
pub enum BinaryError {
    /// The sources, from which the binary's name is made, cannot be read.
    #[error("cannot read the API server's sources in {}: {error}", folder.display())]
    Sources {
        /// Where they should be.
        folder: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// There is no folder for a cache.
    #[error("no cache folder: set PATCHBAY_CACHE to a folder, or HOME")]
    NoCacheFolder,
    /// Not built yet.
    #[error("the test API server is not built ({} is missing): `cargo xtask test` and `cargo xtask cluster` build it", .0.display())]
    NotBuilt(PathBuf),
}

/// The user's cache folder for patchbay: `$PATCHBAY_CACHE`, else `$XDG_CACHE_HOME/patchbay`, else `~/.cache/patchbay`.
pub fn cache_folder() -> Result<PathBuf, BinaryError> {
    cache_folder_in(|name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from))
        .ok_or(BinaryError::NoCacheFolder)
}

fn cache_folder_in(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    // A relative XDG folder is to be ignored, says the specification.
    variable("PATCHBAY_CACHE")
        .or_else(|| {
            variable("XDG_CACHE_HOME")
                .filter(|folder| folder.is_absolute())
                .map(|folder| folder.join("patchbay"))
        })
        .or_else(|| variable("HOME").map(|home| home.join(".cache/patchbay")))
}

/// The path in the cache under which the binary of these sources lies, once it is built.
pub fn cached_binary(sources: &Path) -> Result<PathBuf, BinaryError> {
    let digest = digest(sources).map_err(|error| BinaryError::Sources {
        folder: sources.to_owned(),
        error,
    })?;
    Ok(cache_folder()?.join(format!("{PREFIX}{digest}")))
}

/// Whether a file of this name in the cache is a binary, of whatever sources.
pub fn is_binary_name(name: &OsStr) -> bool {
    name.to_str()
        .and_then(|name| name.strip_prefix(PREFIX))
        .is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The folder of the sources in this workspace.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("apiserver")
}

/// The binary to start: the one that `PATCHBAY_APISERVER` names, or else the cached one of the sources as they are.
pub fn find_binary() -> Result<PathBuf, BinaryError> {
    let path = match env::var_os(BINARY_VARIABLE).filter(|value| !value.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => cached_binary(&sources())?,
    };
    if path.is_file() {
        Ok(path)
    } else {
        Err(BinaryError::NotBuilt(path))
    }
}

/// A digest of all that the binary is built from.
fn digest(sources: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(sources)? {
        let name = entry?.file_name();
        let is_source = Path::new(&name).extension() == Some(OsStr::new("go")) || name == "go.mod" || name == "go.sum";
        if is_source {
            files.push(name);
        }
    }
    files.sort();
    let mut hash = Sha256::new();
    for name in files {
        let content = fs::read(sources.join(&name))?;
        hash.update(name.as_encoded_bytes());
        hash.update([0]);
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    Ok(hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()[..DIGITS]
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_is_named_after_its_sources() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| fs::write(folder.path().join(name), content).unwrap();
        write("go.mod", "module m");
        write("main.go", "package main");
        let first = digest(folder.path()).unwrap();
        write("README.md", "nothing that is compiled");
        assert_eq!(digest(folder.path()).unwrap(), first);
        write("main.go", "package main // edited");
        let second = digest(folder.path()).unwrap();
        assert_ne!(second, first);
        assert!(is_binary_name(OsStr::new(&format!("apiserver-{second}"))));
    }

    #[test]
    fn other_files_of_the_cache_are_no_binaries() {
        for name in [
            "apiserver-dev",
            "apiserver.lock",
            "target",
            "apiserver-0123456789abcdef.tmp",
        ] {
            assert!(!is_binary_name(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn the_cache_folder_follows_the_environment() {
        let folder = |set: &'static [(&str, &str)]| {
            cache_folder_in(move |name| {
                set.iter()
                    .find(|(n, _)| *n == name)
                    .map(|(_, value)| PathBuf::from(value))
            })
        };
        assert_eq!(folder(&[("PATCHBAY_CACHE", "/p"), ("HOME", "/h")]), Some("/p".into()));
        assert_eq!(
            folder(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]),
            Some("/x/patchbay".into())
        );
        assert_eq!(
            folder(&[("XDG_CACHE_HOME", "x"), ("HOME", "/h")]),
            Some("/h/.cache/patchbay".into())
        );
        assert_eq!(folder(&[]), None);
    }
}
