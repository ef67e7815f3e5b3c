//! What a component is made of, as a hash.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

/// Everything that goes into a component.
#[derive(Default)]
pub struct Inputs(Sha256);

impl Inputs {
    /// A text.
    pub fn add_text(&mut self, text: &str) {
        self.add(text.as_bytes());
    }

    /// All files of a folder, with their names, but what is only for people to read.
    pub fn add_folder(&mut self, folder: &Path) -> Result<()> {
        for name in files(folder)? {
            if name.extension().is_some_and(|ending| ending == "md") {
                continue;
            }
            self.add_text(&name.to_string_lossy());
            let path = folder.join(&name);
            self.add(&fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?);
        }
        Ok(())
    }

    /// The versions of crates in a Cargo.lock.
    pub fn add_locked(&mut self, lock: &Path, crates: &[&str]) -> Result<()> {
        let text = fs::read_to_string(lock).with_context(|| format!("cannot read {}", lock.display()))?;
        for name in crates {
            for version in locked(&text, name) {
                self.add_text(&format!("{name} {version}"));
            }
        }
        Ok(())
    }

    /// The hash of all that was added.
    pub fn digest(self) -> String {
        format!("{:x}\n", self.0.finalize())
    }

    fn add(&mut self, bytes: &[u8]) {
        // With its length, so that no two lists of parts look the same.
        self.0.update(bytes.len().to_le_bytes());
        self.0.update(bytes);
    }
}

/// The files below a folder, relative to it and sorted.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(relative) = folders.pop() {
        let path = folder.join(&relative);
        let entries = path
            .read_dir()
            .with_context(|| format!("cannot read {}", path.display()))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot read {}", path.display()))?;
            let name = relative.join(entry.file_name());
            match entry.path().is_dir() {
                true => folders.push(name),
                false => found.push(name),
            }
        }
    }
    found.sort();
    Ok(found)
}

fn locked<'a>(lock: &'a str, name: &str) -> Vec<&'a str> {
    let begin = format!("name = \"{name}\"\nversion = \"");
    let found = lock.split(&begin).skip(1);
    found.filter_map(|rest| rest.split('"').next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_name_or_a_content_is_another_hash() {
        let hash = |files: &[(&str, &str)]| {
            let folder = tempfile::tempdir().unwrap();
            for (name, content) in files {
                let path = folder.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, content).unwrap();
            }
            let mut inputs = Inputs::default();
            inputs.add_folder(folder.path()).unwrap();
            inputs.digest()
        };
        let first = hash(&[("a", "1"), ("b/c", "2")]);
        assert_eq!(first, hash(&[("b/c", "2"), ("a", "1"), ("README.md", "text")]));
        for other in [
            hash(&[("a", "1"), ("b/c", "3")]),
            hash(&[("a", "1"), ("b/d", "2")]),
            hash(&[("a", "1")]),
        ] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn versions_come_from_the_lock_file() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"2.0.0\"\n\
            [[package]]\nname = \"ab\"\nversion = \"3.0.0\"\n";
        assert_eq!(locked(lock, "a"), ["1.0.0", "2.0.0"]);
        assert!(locked(lock, "b").is_empty());
    }
}
