// SPDX-License-Identifier: MIT OR Apache-2.0

//! Loadables that race: which do, and what they compute in the order of their lists.

mod common;

use std::fs;
use std::path::Path;

use common::{loadables, reference};
use nvdla_runtime::device::{self, Selection};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::network::races::{races, Edge, Races};
use nvdla_runtime::network::statistics_in_tensors;
use nvdla_runtime::session::Session;

const XCEPTION: &str = "loadables-2/tiny_xception.nv_small.int8.per-filter";

fn session(loadable: Loadable) -> Session {
    let device = device::open(&Selection::Model(None), &loadable).unwrap().device;
    Session::new(loadable, device).unwrap()
}

/// The name of the loadable's folder.
fn name(path: &Path) -> String {
    path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned()
}

/// Of all loadables of NVIDIA's compiler, these race; and those that the reference data marks write over what they read.
#[test]
fn which_loadables_race() {
    let Some(reference) = reference() else { return };
    let (mut racing, mut over_own_input, mut count) = (Vec::new(), Vec::new(), 0);
    for folder in ["loadables", "loadables-2", "regression"] {
        for path in loadables(reference.join(folder)) {
            let Races { pairs, over_own_input: own, not_examined } = races(&Loadable::open(&path).unwrap()).unwrap();
            assert_eq!(not_examined, []);
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
    let mut expected: Vec<_> =
        all().map(|(_, name)| name).filter(|name| name.starts_with("lenet.") && name.ends_with(".b2")).collect();
    expected.push("tiny_xception.nv_small.int8.per-filter");
    assert_eq!(racing, expected);
}

#[test]
fn a_loadable_that_races_runs_in_the_order_of_its_list() {
    let Some(folder) = reference().map(|reference| reference.join(XCEPTION)) else { return };
    let run = |order: bool| {
        let mut session = session(Loadable::open(folder.join("net.nvdla")).unwrap());
        let edges = if order { session.order().unwrap() } else { Vec::new() };
        session.set_input(0, &fs::read(folder.join("in0.bin")).unwrap()).unwrap();
        session.run().unwrap();
        // Again, with the graph that was put back.
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
            assert_eq!(session.order().unwrap(), []);
        }
        session.run().unwrap();
        session.output(0).unwrap().to_vec()
    };
    assert_eq!(run(true), run(false));
}

/// Every loadable that races can be ordered, runs, and does not race any more in what it is then.
#[test]
fn all_that_race_can_be_ordered() {
    let Some(reference) = reference() else { return };
    for path in loadables(reference.join("loadables")).iter().filter(|path| name(path).ends_with(".b2")) {
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

/// Statistics in a tensor make its bytes differ from run to run: allowed, and told apart from an error.
#[test]
fn statistics_times() {
    let Some(reference) = reference() else { return };
    let loadable = Loadable::open(reference.join("loadables-hostile/statistics_times.nvdla")).unwrap();
    let found: Vec<_> = statistics_in_tensors(&loadable).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("task 0 writes its statistics into the tensor \"s1\", at 0x"), "{found:?}");
    session(loadable).run().unwrap();
    for path in loadables(reference.join("loadables")) {
        assert_eq!(statistics_in_tensors(&Loadable::open(path).unwrap()).unwrap(), []);
    }
}
