// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the compiler thinks of a network's time: its estimate is that of `--profile`, and a network that is compiled for time takes no
//! longer than one that is compiled for size.

use nvdla_compiler::options::{Optimize, Options, Winograd};
use nvdla_compiler::pipeline::compile;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::profile::{Conditions, Profile};
use nvdla_tests::zoo;
use nvdla_uapi::config::{Config, NV_FULL};

const NETWORKS: [(&str, usize); 8] = [
    ("mnist_resnet", 28),
    ("unet", 32),
    ("resnet50_quarter", 64),
    ("squeezenet", 127),
    ("mobilenet", 64),
    ("shufflenet", 64),
    ("googlenet", 64),
    ("yolov8n", 64),
];

/// Each convolution's mode is chosen by its own time, and the network without Winograd's mode is taken if all together are slower.
#[test]
fn winograd_where_it_is_faster_never_makes_a_network_slower() {
    let (mut slower, mut faster) = (Vec::new(), 0);
    for (name, side) in NETWORKS {
        let graph = zoo::graph(name, side).unwrap();
        let ranges = zoo::uniform(&graph, 6.0);
        let [without, with] = [Winograd::Never, Winograd::Faster].map(|mode| {
            let (inputs, winograd) = (vec![Some(zoo::preprocess())], Some(mode));
            compile(&graph, &ranges, &Options { inputs, winograd, ..Options::new(&NV_FULL) }).unwrap().report.cycles
        });
        if with > without {
            slower.push(format!("{name}: {with} cycles with Winograd's mode, and {without} without"));
        }
        faster += usize::from(with < without);
    }
    assert!(slower.is_empty(), "{}", slower.join("\n"));
    assert!(faster > 0, "no network gains by Winograd's mode");
}

#[test]
fn time_is_estimated_as_the_profile_does_and_is_no_longer_than_with_the_goal_of_size() {
    let conditions = Conditions::default();
    let mut wrong = Vec::new();
    for (name, side) in NETWORKS {
        let graph = zoo::graph(name, side).unwrap();
        let ranges = zoo::uniform(&graph, 6.0);
        for config in Config::ALL {
            let [time, size] = [Optimize::Time, Optimize::Size].map(|optimize| {
                let inputs = vec![Some(zoo::preprocess())];
                let options = Options { inputs, optimize, conditions, ..Options::new(config) };
                let compiled = compile(&graph, &ranges, &options).unwrap();
                let loadable = Loadable::from_bytes(compiled.loadable).unwrap();
                let cycles = Profile::new(&loadable, config, conditions).unwrap().cycles();
                if cycles.abs_diff(compiled.report.cycles) > cycles / 50 {
                    wrong.push(format!(
                        "{name} on {} for {optimize:?}: {cycles} cycles, and {} by the compiler",
                        config.name, compiled.report.cycles
                    ));
                }
                cycles
            });
            if time > size {
                wrong.push(format!("{name} on {}: {time} cycles for time, and {size} for size", config.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
