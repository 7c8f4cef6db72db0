// SPDX-License-Identifier: MIT OR Apache-2.0

//! The project's own LeNet: its loadables are what the compiler makes, every layer on the built-in model is what plain
//! loops compute, and it knows its digits.

mod plain;

use std::path::{Path, PathBuf};

use nvdla_compiler::graph::{Graph, Shape};
use nvdla_compiler::quantize::{Granularity, Scales};
use nvdla_compiler::{calibration, compile, import};
use nvdla_runtime::device::ModelDevice;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::{Completed, RunOptions, Session};
use nvdla_tests::reference;
use nvdla_uapi::config::{Config, NV_LARGE, NV_SMALL};

const DIGITS: [&str; 10] = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
const IMAGE: Shape = Shape { channels: 1, height: 28, width: 28 };

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/lenet")
}

fn graph() -> (Graph, Vec<Vec<Vec<u8>>>) {
    let graph = import::read(&folder().join("lenet.json")).unwrap();
    let images = calibration::read(&folder().join("calibration"), &graph).unwrap();
    (graph, images)
}

/// The pixels of a binary PGM file of 28 x 28.
fn pixels(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    assert!(bytes.starts_with(b"P5"), "{}", path.display());
    bytes[bytes.len() - 784..].to_vec()
}

fn input(pixels: &[u8], config: &Config) -> Vec<u8> {
    let values: Vec<i8> = pixels.iter().map(|&byte| nvdla_compiler::quantize::image_value(byte)).collect();
    plain::pack(&values, IMAGE, config.memory_atomic, true)
}

fn class(values: &[i8]) -> usize {
    (0..values.len()).max_by_key(|&class| (values[class], std::cmp::Reverse(class))).unwrap()
}

#[test]
fn the_loadables_are_what_the_compiler_makes() {
    let (graph, images) = graph();
    for config in [&NV_SMALL, &NV_LARGE] {
        let path = folder().join(format!("lenet.{}.nvdla", config.name));
        let made = compile(&graph, &images, config, Granularity::Kernel).unwrap();
        assert!(made == std::fs::read(&path).unwrap(), "{} is not what the compiler makes", path.display());
    }
    assert_eq!(
        std::fs::read(folder().join("lenet.nvdla")).unwrap(),
        std::fs::read(folder().join("lenet.nv_small.nvdla")).unwrap()
    );
}

/// Every layer of every image, on both configurations, with a scale a kernel and with a scale a layer.
#[test]
fn every_layer_is_exact() {
    let (graph, images) = graph();
    let scales = Scales::calibrate(&graph, &images);
    for config in [&NV_SMALL, &NV_LARGE] {
        for granularity in [Granularity::Kernel, Granularity::Layer] {
            let file = compile(&graph, &images, config, granularity).unwrap();
            let mut session = Session::new(Loadable::from_bytes(file).unwrap(), ModelDevice::new(config)).unwrap();
            for digit in DIGITS {
                let pixels = pixels(&folder().join(format!("images/{digit}.pgm")));
                let expected = plain::evaluate(&graph, &scales, granularity, std::slice::from_ref(&pixels));
                session.set_input(0, &input(&pixels, config)).unwrap();
                // The layers that leave a surface, in the order of the list's operations.
                let mut layers = ["relu1", "pool1", "relu2", "pool2", "relu3", "ip2"].into_iter();
                let mut look = |completed: Completed<'_>| {
                    if let Some(bytes) = completed.surface {
                        let layer = layers.next().unwrap();
                        let node = graph.find(layer).unwrap();
                        let found = plain::unpack(bytes, graph.node(node).shape, config.memory_atomic);
                        assert_eq!(found, expected[&node], "{layer} of {digit} on {}", config.name);
                    }
                    Ok(())
                };
                let options = RunOptions { on_operation: Some(&mut look), ..Default::default() };
                session.run_with(options).unwrap();
                assert_eq!(layers.next(), None);
                let prob = graph.find("prob").unwrap();
                let found = plain::unpack(session.output(0).unwrap(), graph.node(prob).shape, config.memory_atomic);
                assert_eq!(found, expected[&prob], "{digit} on {}", config.name);
            }
        }
    }
}

/// A loadable knows the digit that gives each image its name.
fn knows(loadable: &Path, config: &'static Config, images: &Path, digits: &[&str]) {
    let mut session = Session::new(Loadable::open(loadable).unwrap(), ModelDevice::new(config)).unwrap();
    for digit in digits {
        let pixels = pixels(&images.join(format!("{digit}.pgm")));
        session.set_input(0, &input(&pixels, config)).unwrap();
        session.run().unwrap();
        let shape = Shape { channels: 10, height: 1, width: 1 };
        let values = plain::unpack(session.output(0).unwrap(), shape, config.memory_atomic);
        assert_eq!(DIGITS[class(&values)], *digit, "{values:?} of {}", loadable.display());
    }
}

/// The committed loadables know these digits.
fn ours_know(images: &Path, digits: &[&str]) {
    for config in [&NV_SMALL, &NV_LARGE] {
        knows(&folder().join(format!("lenet.{}.nvdla", config.name)), config, images, digits);
    }
}

#[test]
fn our_digits() {
    ours_know(&folder().join("images"), &DIGITS);
}

/// The reference data's digits, by our LeNet and by the one that NVIDIA's compiler made for nv_small.
#[test]
fn reference_digits() {
    let Some(reference) = reference::folder() else { return };
    let (images, digits) = (reference.join("images/digits"), ["two", "three", "four", "seven", "eight"]);
    ours_know(&images, &digits);
    let theirs = reference.join("loadables/lenet.nv_small.int8.in-R8/net.nvdla");
    knows(&theirs, &NV_SMALL, &images, &digits);
}
