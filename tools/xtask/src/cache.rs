// SPDX-License-Identifier: MIT OR Apache-2.0

//! The cache of built kernels and downloads: one per machine, outside the checkout.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};

/// The checkout that this program was built from.
pub(crate) fn checkout() -> Result<&'static Path> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .context("the checkout's root is two folders above this program's")
}

/// The cache folder: `NVDLA_CACHE`, else `nvdla` in the user's cache folder.
pub(crate) fn root() -> Result<PathBuf> {
    let root = if let Some(folder) = env::var_os("NVDLA_CACHE") {
        PathBuf::from(folder)
    } else {
        let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let base = base.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
        base.context("neither NVDLA_CACHE nor HOME is set, so there is no cache folder")?.join("nvdla")
    };
    fs::create_dir_all(&root).with_context(|| format!("cannot make {}", root.display()))?;
    Ok(root)
}

/// Runs `work` unless `name` is already in the cache, and prints what was done and how long it took. A step that fails or is
/// interrupted is not marked as finished.
pub(crate) fn step(name: &str, what: &str, work: impl FnOnce(&PathBuf) -> Result<()>) -> Result<PathBuf> {
    let path = root()?.join(name);
    let done = root()?.join(format!("{name}.done"));
    if done.exists() {
        return Ok(path);
    }
    let folder = path.parent().context("a step has a name")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Only one step per folder at a time: another run may be doing the same step, or one that uses the same apt folders.
    let lock = fs::File::create(folder.join("lock")).context("cannot make the cache's lock")?;
    if lock.try_lock().is_err() {
        eprintln!("xtask: {what}: another run works in the cache …");
        lock.lock().context("cannot lock the cache")?;
    }
    if done.exists() {
        return Ok(path);
    }
    eprintln!("xtask: {what} …");
    let start = Instant::now();
    work(&path).with_context(|| what.to_string())?;
    fs::write(&done, "").with_context(|| format!("cannot write {}", done.display()))?;
    eprintln!("xtask: {what}: {:.0} s", start.elapsed().as_secs_f64());
    Ok(path)
}
