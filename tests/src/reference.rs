// SPDX-License-Identifier: MIT OR Apache-2.0

//! Finds the reference data: `NVDLA_REFERENCE`, else `../shared/nvdla` beside the checkout.

use std::path::PathBuf;

/// The reference data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Its folder.
    Found(PathBuf),
    /// It does not exist and is not required: tests print that they are skipped.
    Skipped(String),
    /// It does not exist but is required (`CI=true`).
    Missing(String),
}

/// Looks for the reference data.
pub fn find() -> Reference {
    let path = std::env::var_os("NVDLA_REFERENCE")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/nvdla")), PathBuf::from);
    if path.is_dir() {
        return Reference::Found(path);
    }
    let why = format!("the reference data is not at {} (set NVDLA_REFERENCE)", path.display());
    if std::env::var("CI").as_deref() == Ok("true") {
        Reference::Missing(why)
    } else {
        Reference::Skipped(why)
    }
}

/// The folder of reference data for a test. If it does not exist, prints that the test is skipped, and returns none.
///
/// # Panics
///
/// If the data does not exist but is required (`CI=true`).
pub fn folder() -> Option<PathBuf> {
    match find() {
        Reference::Found(path) => Some(path),
        Reference::Skipped(why) => {
            println!("skipped: {why}");
            None
        }
        Reference::Missing(why) => panic!("{why}"),
    }
}
