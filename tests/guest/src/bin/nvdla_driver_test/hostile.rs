// SPDX-License-Identifier: MIT OR Apache-2.0

//! The reference data's hostile loadables: each is refused, or runs within its limits, and the device works afterwards.

use std::path::Path;
use std::time::Duration;

use libtest_mimic::Failed;
use nvdla_guest::node::{nodes, Node};
use nvdla_runtime::device::{self, Selection};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::{RunOptions, Session};
use nvdla_tests::case::chain;
use nvdla_tests::reference::folder;

use crate::expect::{ensure, works, Test};

pub(crate) const TESTS: &[Test] = &[("each_file_is_refused_or_runs_within_its_limits", each)];

/// The time limit of a run.
const LIMIT: Duration = Duration::from_secs(2);

/// Runs a file. The result says whether it was refused before or by the driver, ended by the driver, or completed.
fn run(file: &Path, node: &Path) -> Result<(), String> {
    let loadable = Loadable::open(file).map_err(|error| format!("not opened: {}", chain(&error)))?;
    let device = device::open(&Selection::Path(node.into()), &loadable)
        .map_err(|error| format!("no device: {}", chain(&error)))?
        .device;
    let mut session = Session::new(loadable, device).map_err(|error| format!("no session: {}", chain(&error)))?;
    let limits = RunOptions { timeout: Some(LIMIT), run_timeout: Some(LIMIT), ..RunOptions::default() };
    session.run_with(limits).map(drop).map_err(|error| format!("run: {}", chain(&error)))
}

fn each() -> Result<(), Failed> {
    let Some(reference) = folder() else { return Ok(()) };
    let folder = reference.join("loadables-hostile");
    let mut files: Vec<_> =
        std::fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|ending| ending == "nvdla"));
    files.sort();
    ensure!(!files.is_empty(), "{} has no loadables", folder.display());
    for path in nodes() {
        let node = Node::open(&path)?;
        let config = node.config()?;
        for file in &files {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let outcome = run(file, &path);
            // The start of a reason is enough, because a name in it may have any length.
            let shown = outcome.as_ref().map_or_else(|why| why.chars().take(140).collect(), |()| "it ran".to_owned());
            println!("{name} on {config}: {shown}");
            if name == "pdp_parts" {
                // The file is made for nv_small; other configurations report further errors.
                let why =
                    if config == "nv_small" { "operation 2 (PDP): PDP_RDMA reads" } else { "the task is refused" };
                let refused = outcome.is_err_and(|error| error.contains(why));
                ensure!(refused, "{name} on {config}, whose PDP would leave its buffers: {shown}");
            }
            works(&node)?;
        }
    }
    Ok(())
}
