// SPDX-License-Identifier: MIT OR Apache-2.0

//! The engine's validation on real output of a compiler: all loadables in `loadables` are accepted, and all in `loadables-bad`
//! are refused.

use std::path::{Path, PathBuf};

use nvdla_runtime::loadable::Loadable;
use nvdla_tests::reference;
use nvdla_tests::tasks::HostTask;
use nvdla_uapi::config::Config;

/// The loadables of a folder with the configuration that each is for, which the name's second part says.
fn loadables(folder: &Path) -> Vec<(String, &'static Config, PathBuf)> {
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path().join("net.nvdla");
            let name = path.parent()?.file_name()?.to_str()?.to_owned();
            let config = Config::by_name(name.split('.').nth(1)?)?;
            path.is_file().then_some((name, config, path))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

/// The engine's error for the first task of the loadable that it refuses.
fn refusal(config: &'static Config, path: &Path) -> Option<String> {
    let loadable = Loadable::open(path).unwrap();
    HostTask::all(&loadable).iter().find_map(|task| task.parse(config).err()).map(|error| error.to_string())
}

#[test]
fn every_valid_loadable_is_accepted() {
    let Some(reference) = reference::folder() else { return };
    let all = loadables(&reference.join("loadables"));
    let refused: Vec<_> =
        all.iter().filter_map(|(name, config, path)| Some(format!("{name}: {}", refusal(config, path)?))).collect();
    println!("{} loadables, {} refused", all.len(), refused.len());
    assert!(refused.is_empty(), "{}", refused.join("\n"));
    assert_eq!(all.len(), 302);
}

#[test]
fn every_invalid_loadable_is_refused() {
    let Some(reference) = reference::folder() else { return };
    let all = loadables(&reference.join("loadables-bad"));
    let mut taken = Vec::new();
    for (name, config, path) in &all {
        match refusal(config, path) {
            Some(why) => println!("{name}: {why}"),
            None => taken.push(name.as_str()),
        }
    }
    assert!(taken.is_empty(), "{taken:?} are taken");
    assert_eq!(all.len(), 23);
}
