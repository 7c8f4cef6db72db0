// SPDX-License-Identifier: MIT OR Apache-2.0

//! Loadables with races: which ones have races, and their results in the order of their lists.

mod common;

use std::fs;
use std::path::Path;

use common::{loadables, reference};
use nvdla_runtime::device::{self, Selection};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::operations::races::{races, Edge, Races};
use nvdla_runtime::operations::statistics;
use nvdla_runtime::session::{Completed, RunOptions, Session};

const XCEPTION: &str = "loadables-2/tiny_xception.nv_small.int8.per-filter";

fn session(loadable: Loadable) -> Session {
    let device = device::open(&Selection::Model(None), &loadable).unwrap().device;
    Session::new(loadable, device).unwrap()
}

/// The name of the loadable's folder.
fn name(path: &Path) -> String {
    path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned()
}

/// Of the loadables of NVIDIA's compiler, these have races. Those that the reference data marks overwrite their own input.
#[test]
fn which_loadables_race() {
    let Some(reference) = reference() else { return };
    let (mut racing, mut over_own_input, mut count) = (Vec::new(), Vec::new(), 0);
    for folder in ["loadables", "loadables-2", "regression"] {
        for path in loadables(reference.join(folder)) {
            let Races { pairs, over_own_input: own, not_examined } = races(&Loadable::open(&path).unwrap()).unwrap();
            assert!(not_examined.is_empty());
            for race in pairs.iter().chain(&own) {
                println!("{}: {race}", name(&path));
            }
            if !pairs.is_empty() {
                racing.push(name(&path));
            }
            if !own.is_empty() {
                over_own_input.push(name(&path));
            }
            count += 1;
        }
    }
    println!("{count} loadables, {} race, {} write over their own input", racing.len(), over_own_input.len());
    let list: serde_json::Value =
        serde_json::from_slice(&fs::read(reference.join("loadables/manifest.json")).unwrap()).unwrap();
    let all = || list.as_array().unwrap().iter().map(|entry| (entry, entry["name"].as_str().unwrap()));
    let marked: Vec<_> = all().filter(|(entry, _)| entry["order_dependent"] == true).map(|(_, name)| name).collect();
    assert_eq!(over_own_input, marked);
    // In resnet18, SDP 6 may be enabled, and fetch its X2 operands, before pooling 2 has written them, because it waits for
    // nothing that waits for the pooling. The LeNets with a batch of 2 race only if a unit's own order is ignored: pooling 11
    // writes where convolution 6 reads, and waits for convolution 7, which CACC ends after convolution 6.
    assert_eq!(racing, ["resnet18.nv_full.int8.per-filter", "tiny_xception.nv_small.int8.per-filter"]);
}

#[test]
fn a_loadable_that_races_runs_in_the_order_of_its_list() {
    let Some(folder) = reference().map(|reference| reference.join(XCEPTION)) else { return };
    let run = |order: bool| {
        let mut session = session(Loadable::open(folder.join("net.nvdla")).unwrap());
        let edges = if order { session.order().unwrap() } else { Vec::new() };
        session.set_input(0, &fs::read(folder.join("in0.bin")).unwrap()).unwrap();
        session.run().unwrap();
        // A second run, with the restored graph.
        session.run().unwrap();
        (edges, session.output(0).unwrap().to_vec())
    };
    let golden = |file: &str| fs::read(folder.join(file)).unwrap();
    let (edges, output) = run(true);
    let pairs: Vec<_> = edges.iter().map(|&Edge { from, to, .. }| (from, to)).collect();
    assert_eq!(pairs, [(14, 16), (26, 28), (64, 66)]);
    assert!(output == golden("out0-ordered.bin"));
    println!(
        "without an order: {}",
        if run(false).1 == golden("out0.bin") { "as the reference" } else { "other bytes" }
    );
}

/// A loadable whose operations have an order keeps its graphs.
#[test]
fn ordering_changes_nothing_else() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/lenet/lenet.nv_small.nvdla");
    let run = |order: bool| {
        let mut session = session(Loadable::open(file).unwrap());
        if order {
            assert!(session.order().unwrap().is_empty());
        }
        session.run().unwrap();
        session.output(0).unwrap().to_vec()
    };
    assert_eq!(run(true), run(false));
}

/// Every loadable with races can be ordered, runs, and has no races afterwards.
#[test]
fn all_that_race_can_be_ordered() {
    let Some(reference) = reference() else { return };
    let wanted = |name: &str| name.contains(".b2") || name == "resnet18.nv_full.int8.per-filter";
    for path in loadables(reference.join("loadables")).iter().filter(|path| wanted(&name(path))) {
        let loadable = Loadable::open(path).unwrap();
        let pairs = races(&loadable).unwrap().pairs.len();
        let mut session = session(loadable);
        let edges = session.order().unwrap();
        assert_eq!(edges.is_empty(), pairs == 0, "{}", name(path));
        session.set_input(0, &fs::read(path.with_file_name("in0.bin")).unwrap()).unwrap();
        session.run().unwrap();
        let golden = fs::read(path.with_file_name("out0.bin")).unwrap();
        assert!(session.output(0).unwrap() == golden, "{}", name(path));
    }
}

/// Statistics that overwrite other bytes make these differ from run to run. This is allowed, and is not an error.
#[test]
fn statistics_times() {
    let Some(reference) = reference() else { return };
    let loadable = Loadable::open(reference.join("loadables-hostile/statistics_times.nvdla")).unwrap();
    let found: Vec<_> = statistics(&loadable).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found, ["task 0 writes its statistics over \"task-0-addr0\", at 0x0 to 0x84 of memory 5"]);
    // They overwrite the network descriptor, which is restored for the next run.
    let mut session = session(loadable);
    for value in [1, 2, 1] {
        let size = session.inputs().next().unwrap().size as usize;
        session.set_input(0, &vec![value; size]).unwrap();
        let mut completed = 0;
        let mut count = |_: Completed<'_>| {
            completed += 1;
            Ok(())
        };
        session.run_with(RunOptions { on_operation: Some(&mut count), ..Default::default() }).unwrap();
        assert_eq!(completed, 3);
    }
    for path in loadables(reference.join("loadables")) {
        assert!(statistics(&Loadable::open(path).unwrap()).unwrap().is_empty());
    }
}
