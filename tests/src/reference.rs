// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where the reference data is: `NVDLA_REFERENCE`, else `../shared/nvdla` beside the checkout.

use std::path::PathBuf;

/// The reference data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reference {
    /// It is there.
    Found(PathBuf),
    /// It is not, and need not be: tests say that they were skipped.
    Skipped(String),
    /// It is not, and must be (`CI=true`).
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

/// The reference data's folder for a test; without it the test says that it is skipped, and why, and gives none.
///
/// # Panics
///
/// When the data is missing and must not be (`CI=true`).
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
