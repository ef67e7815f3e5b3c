//! Where the programs under test are.

use std::env;
use std::path::PathBuf;

use anyhow::{Result, bail};

/// The host's binary.
pub fn host() -> Result<PathBuf> {
    named_by("PATCHBAY_BIN", "the host's binary")
}

/// The folder of the plugins.
pub fn plugins() -> Result<PathBuf> {
    named_by("PATCHBAY_PLUGINS", "the plugins' folder")
}

/// The folder of the plugins that only tests use, such as `script.wasm`.
pub fn test_plugins() -> Result<PathBuf> {
    named_by("PATCHBAY_TEST_PLUGINS", "the folder of the test plugins")
}

/// The folder of the example plugins, with the one in each of these languages.
pub fn example_plugins(languages: &[&str]) -> Result<PathBuf> {
    let folder = named_by("PATCHBAY_EXAMPLE_PLUGINS", "the folder of the example plugins")?;
    for language in languages {
        let path = folder.join(format!("mirror-{language}.wasm"));
        if !path.exists() {
            bail!(
                "{} is not there: `cargo xtask plugins --language {language}` builds it, or says what is missing",
                path.display()
            );
        }
    }
    Ok(folder)
}

fn named_by(variable: &str, what: &str) -> Result<PathBuf> {
    let Some(path) = env::var_os(variable)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
    else {
        bail!("{variable} does not say where {what} is: run the tests by `cargo xtask test`");
    };
    if !path.exists() {
        bail!(
            "{variable} names {}, which is not there: run the tests by `cargo xtask test`",
            path.display()
        );
    }
    Ok(path)
}
