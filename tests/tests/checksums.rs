// SPDX-License-Identifier: MIT OR Apache-2.0

//! The loadables of the zoo, of the LeNet and of random graphs, in all ways for all configurations, have the checksums of
//! `checksums.txt`. A change of the compiler that changes a loadable on purpose writes that file anew:
//!
//! ```text
//! NVDLA_CHECKSUMS=write cargo test -p nvdla-tests --test checksums
//! ```
//!
//! The random graphs of a configuration have one row, so `NVDLA_CHECKSUMS=each` prints the row of every graph.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use nvdla_compiler::calibrate::table;
use nvdla_compiler::import::model::{Model, Options};
use nvdla_compiler::ir::{Color, Graph, Preprocess, Ranges};
use nvdla_tests::checksums::{Row, WAYS};
use nvdla_tests::graphs::{random_graph, ranges};
use nvdla_tests::zoo;
use nvdla_uapi::config::Config;

/// The networks with many weights, which take long, are compiled by fewer ways.
const LARGE: [&str; 2] = ["resnet18", "densenet"];
/// Random graphs per configuration.
const GRAPHS: u64 = 40;
/// Height and width of the zoo's pictures.
const SIDE: usize = 32;

/// A graph with its ranges, and how its inputs are given.
type Given = (Graph, Ranges, Vec<Option<Preprocess>>);

/// The graphs of a row, and the ways in which they are compiled.
struct Network {
    name: String,
    config: &'static Config,
    ways: &'static [&'static str],
    graphs: Box<dyn Fn() -> Vec<Given> + Sync + Send>,
}

fn networks() -> Vec<Network> {
    let mut networks = Vec::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/lenet");
    for config in Config::ALL {
        for name in zoo::NAMES.into_iter().filter(|name| !matches!(*name, "vgg11" | "resnet50")) {
            let graphs = move || {
                let graph = zoo::graph(name, SIDE).unwrap();
                let ranges = zoo::uniform(&graph, 6.0);
                vec![(graph, ranges, vec![Some(zoo::preprocess())])]
            };
            let ways = if LARGE.contains(&name) { &WAYS[..1] } else { &WAYS[..] };
            networks.push(Network { name: name.to_owned(), config, ways, graphs: Box::new(graphs) });
        }
        let folder = folder.clone();
        let lenet = move || {
            let graph = Model::open(&folder.join("lenet.onnx"), &Options::default()).unwrap().graph;
            let text = std::fs::read_to_string(folder.join("lenet.scales.json")).unwrap();
            let ranges = table::read(&text, &graph).unwrap();
            let gray = Preprocess { std: vec![255.0], color: Color::Gray, ..Preprocess::default() };
            vec![(graph, ranges, vec![Some(gray)])]
        };
        networks.push(Network { name: "lenet".to_owned(), config, ways: &WAYS, graphs: Box::new(lenet) });
        let random = move || {
            (1..=GRAPHS)
                .map(|seed| {
                    let (graph, inputs) = random_graph(seed, config);
                    let ranges = ranges(&graph);
                    (graph, ranges, inputs)
                })
                .collect()
        };
        networks.push(Network { name: "random".to_owned(), config, ways: &WAYS, graphs: Box::new(random) });
    }
    networks
}

#[test]
fn loadables_have_their_checksums() {
    let mode = std::env::var("NVDLA_CHECKSUMS").unwrap_or_default();
    let networks = networks();
    let rows = Mutex::new(vec![Row::default(); networks.len()]);
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((at, network)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, networks.get(at)?)))
        {
            let mut all: Option<Row> = None;
            for (graph, ranges, inputs) in (network.graphs)() {
                let row = Row::new(&graph, &ranges, &inputs, network.config, network.ways);
                if mode == "each" {
                    println!("{} on {}:{row}", graph.name, network.config.name);
                }
                match &mut all {
                    Some(all) => all.join(&row),
                    None => all = Some(row),
                }
            }
            rows.lock().unwrap()[at] = all.unwrap_or_default();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let mut text = format!("{:17}{:20}", "network", "configuration");
    for way in WAYS {
        write!(text, " {way:8}").unwrap();
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    for (network, row) in networks.iter().zip(rows.into_inner().unwrap()) {
        writeln!(text, "{:17}{:20}{row}", network.name, network.config.name).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/checksums.txt");
    if mode == "write" {
        std::fs::write(&path, &text).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap();
    let changed: Vec<String> = text
        .lines()
        .zip(known.lines().chain(std::iter::repeat("")))
        .filter(|(found, known)| found != known)
        .map(|(found, known)| format!("{found}\n{known} (before)"))
        .collect();
    assert!(changed.is_empty(), "{} rows have other checksums:\n{}", changed.len(), changed.join("\n"));
    assert_eq!(text.lines().count(), known.lines().count());
}
