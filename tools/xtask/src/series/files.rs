// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sets of files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Files by their path in the kernel's tree.
pub(super) type Files = BTreeMap<String, String>;

/// The driver's folder.
pub(super) const DRIVER: &str = "drivers/accel/nvdla";
/// Changes a folder from the files `before` to the files `after`. The files may be links to those of another tree.
pub(super) fn write(folder: &Path, before: &Files, after: &Files) -> Result<()> {
    for (path, text) in after.iter().filter(|(path, text)| before.get(*path) != Some(text)) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().context("a file has a folder")?)?;
        let _ = fs::remove_file(&path);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
