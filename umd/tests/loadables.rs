// SPDX-License-Identifier: MIT OR Apache-2.0

//! Loadables that NVIDIA's compiler made: every one opens, and its broken copies never do harm.

use std::{fs, path::PathBuf};

use nvdla_runtime::loadable::Loadable;

/// The folder of reference data, or a word on why there is none.
fn reference() -> Option<PathBuf> {
    let path = std::env::var_os("NVDLA_REFERENCE")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/nvdla")), PathBuf::from);
    if path.is_dir() {
        return Some(path);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "the reference data is missing: {}", path.display());
    eprintln!("skipped: the reference data is not at {} (set NVDLA_REFERENCE)", path.display());
    None
}

/// Every loadable below a folder.
fn loadables(folder: PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            found.extend(loadables(path));
        } else if path.extension().is_some_and(|extension| extension == "nvdla") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_reference_loadable_opens() {
    let Some(reference) = reference() else { return };
    let files = loadables(reference);
    assert!(files.len() > 300, "{} loadables", files.len());
    for path in files {
        let loadable = Loadable::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!loadable.tasks().is_empty());
        assert!(loadable.outputs().len() > 0);
        for memory in loadable.memories().iter() {
            let bytes: u64 = loadable.contents(memory).map(|(blob, _)| blob.data().len() as u64).sum();
            assert!(bytes <= memory.size());
        }
    }
}
