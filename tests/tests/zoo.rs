// SPDX-License-Identifier: MIT OR Apache-2.0

//! Well-known networks compile for every configuration. `NVDLA_ZOO` names one network and one configuration (or `all` for
//! either) and a side of the picture; without it, the networks are tried at 64 x 64 on the smallest and the largest
//! configuration, where their loadables are opened and checked by the engine.

use std::time::Instant;

use nvdla_compiler::options::Options;
use nvdla_compiler::pipeline::compile;
use nvdla_runtime::device::ModelDevice;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::Session;
use nvdla_tests::zoo;
use nvdla_uapi::config::{Config, NV_FULL, NV_SMALL};

#[test]
fn networks_compile() {
    let wanted = std::env::var("NVDLA_ZOO").unwrap_or_default();
    let words: Vec<&str> = wanted.split_whitespace().collect();
    let one = |at: usize| words.get(at).copied().filter(|word| *word != "all");
    let side = one(2).and_then(|side| side.parse().ok()).unwrap_or(64);
    let configs: Vec<&Config> = match (one(1), words.len()) {
        (Some(name), _) => vec![Config::by_name(name).unwrap()],
        (None, 0) => vec![&NV_SMALL, &NV_FULL],
        (None, _) => Config::ALL.to_vec(),
    };
    // VGG and ResNet-50 have many weights, and take long where the compiler is not optimised.
    let names = zoo::NAMES
        .into_iter()
        .filter(|name| one(0).map_or(!matches!(*name, "vgg11" | "resnet50"), |wanted| wanted == *name));
    for name in names {
        let graph = zoo::graph(name, side).unwrap();
        let ranges = zoo::uniform(&graph, 6.0);
        for &config in &configs {
            let options = Options { inputs: vec![Some(zoo::preprocess())], ..Options::new(config) };
            let start = Instant::now();
            let compiled = match compile(&graph, &ranges, &options) {
                Ok(compiled) => compiled,
                // The emulator does not support atoms of 16 bytes.
                Err(error) if config.memory_atomic == 16 => {
                    println!("{name} on {}: {error}", config.name);
                    continue;
                }
                Err(error) => panic!("{name} on {}: {error}", config.name),
            };
            let time = start.elapsed();
            let report = &compiled.report;
            println!(
                "{name} {side} x {side} on {}: {:.2} s, {} operations, pool {} (bound {}), constants {}, {} cycles",
                config.name,
                time.as_secs_f64(),
                report.operations.len(),
                report.pool,
                report.pool_bound,
                report.constants,
                report.cycles,
            );
            assert!(report.pool >= report.pool_bound);
            let again = compile(&graph, &ranges, &options).unwrap();
            assert!(again.loadable == compiled.loadable, "{name}: another loadable from the same graph");
            let mut session =
                Session::new(Loadable::from_bytes(compiled.loadable).unwrap(), ModelDevice::new(config)).unwrap();
            if side <= 64 {
                session.run().unwrap();
            }
        }
    }
}
