// SPDX-License-Identifier: MIT OR Apache-2.0

//! The project's own LeNet: the compiler makes its loadables, plain loops compute the same layers as the built-in
//! model, and it classifies its digits.

use std::path::{Path, PathBuf};

use nvdla_compiler::calibrate::table;
use nvdla_compiler::compiler::Compiler;
use nvdla_compiler::evaluate::integers;
use nvdla_compiler::evaluate::measure::Measured;
use nvdla_compiler::float;
use nvdla_compiler::import::model::{Model, Options};
use nvdla_compiler::ir::{Color, Preprocess, TensorId};
use nvdla_compiler::net::step::Kind;
use nvdla_compiler::options::{Bytes, Shares};
use nvdla_compiler::output::compiled::Compiled;
use nvdla_compiler::quantize::{image_value, Granularity};
use nvdla_runtime::device::ModelDevice;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::{Completed, RunOptions, Session};
use nvdla_tests::reference;
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};

const DIGITS: [&str; 10] = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
/// The picture's height and width.
const SIDE: usize = 28;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/lenet")
}

fn model() -> Model {
    Model::open(&folder().join("lenet.onnx"), &Options::default()).unwrap()
}

fn table_of_scales() -> String {
    std::fs::read_to_string(folder().join("lenet.scales.json")).unwrap()
}

/// As the command in the example's README.
fn compiler(config: &'static Config) -> Compiler {
    let preprocess = Preprocess { std: vec![255.0], color: Color::Gray, ..Preprocess::default() };
    Compiler::new(config).preprocess(preprocess).shares(Shares::Int8)
}

fn compiled(config: &'static Config, granularity: Granularity) -> Compiled {
    compiler(config).granularity(granularity).table(table_of_scales()).compile(&model()).unwrap()
}

/// The int8 of a binary PGM file of 28 x 28.
fn pixels(path: &Path) -> Vec<i8> {
    let bytes = std::fs::read(path).unwrap();
    assert!(bytes.starts_with(b"P5"), "{}", path.display());
    bytes[bytes.len() - SIDE * SIDE..].iter().map(|&byte| image_value(byte)).collect()
}

/// The input's bytes: lines of 28 elements, 32 bytes apart.
fn input(pixels: &[i8]) -> Vec<u8> {
    let line = |line: &[i8]| line.iter().map(|&value| value as u8).chain([0; 4]).collect::<Vec<_>>();
    pixels.chunks_exact(SIDE).flat_map(line).collect()
}

/// The elements of a cube without gaps, channel by channel.
fn unpack(bytes: &[u8], [c, h, w]: [u32; 3], atom: u32) -> Vec<i16> {
    let at = |k: u32, y: u32, x: u32| ((k / atom * h + y) * w + x) * atom + k % atom;
    (0..c * h * w).map(|n| (bytes[at(n / (h * w), n / w % h, n % w) as usize] as i8).into()).collect()
}

fn class(values: &[i16]) -> usize {
    (0..values.len()).max_by_key(|&class| (values[class], std::cmp::Reverse(class))).unwrap()
}

#[test]
fn the_loadables_are_what_the_compiler_makes() {
    for config in [&NV_SMALL, &NV_LARGE] {
        let path = folder().join(format!("lenet.{}.nvdla", config.name));
        let made = compiled(config, Granularity::Kernel).loadable;
        assert!(made == std::fs::read(&path).unwrap(), "{} is not what the compiler makes", path.display());
    }
    assert_eq!(
        std::fs::read(folder().join("lenet.nvdla")).unwrap(),
        std::fs::read(folder().join("lenet.nv_small.nvdla")).unwrap()
    );
}

/// The table of scales is the one that calibration measures. Matrix products differ from machine to machine in their last bits.
#[test]
fn the_scales_are_what_calibration_measures() {
    let model = model();
    let measured = compiler(&NV_SMALL).calibrate(folder().join("calibration")).calibrated(&model).unwrap().own;
    let given = table::read(&table_of_scales(), &model.graph).unwrap();
    for id in (0..model.graph.tensors.len()).map(TensorId) {
        let (measured, given) = (measured.get(id), given.get(id));
        assert_eq!(measured.is_some(), given.is_some(), "{}", model.graph.tensor(id).name);
        if let (Some(measured), Some(given)) = (measured, given) {
            let ratio = measured.scale / given.scale;
            assert!((0.99..1.01).contains(&ratio), "{}: {measured:?}, {given:?}", model.graph.tensor(id).name);
        }
    }
}

/// Every layer of every image, on both configurations, with a scale per kernel and with a scale per layer.
#[test]
fn every_layer_is_exact() {
    for config in [&NV_SMALL, &NV_LARGE] {
        for granularity in [Granularity::Kernel, Granularity::Layer] {
            let Compiled { loadable, steps, .. } = compiled(config, granularity);
            let mut session = Session::new(Loadable::from_bytes(loadable).unwrap(), ModelDevice::new(config)).unwrap();
            for digit in DIGITS {
                let pixels = pixels(&folder().join(format!("images/{digit}.pgm")));
                let expected = integers::evaluate(&steps, std::slice::from_ref(&pixels));
                session.set_input(0, &input(&pixels)).unwrap();
                // Each step but a view leaves one surface, except for those whose results a pooling takes on the fly.
                let is_view =
                    |kind: &Kind| matches!(kind, Kind::Concat(_) | Kind::Slice { .. } | Kind::Channels(_) | Kind::Same);
                let pooled = |tensor| {
                    let pools = steps.net.steps.iter().filter(|step| matches!(step.kind, Kind::Pool(_)));
                    pools.flat_map(|step| &step.inputs).any(|&input| input == tensor)
                };
                let made = steps.net.steps.iter().filter(|step| !is_view(&step.kind) && !pooled(step.output));
                let mut layers = made.map(|step| step.output);
                let mut look = |completed: Completed<'_>| {
                    if let Some(bytes) = completed.surface {
                        let tensor = layers.next().unwrap();
                        let found = unpack(bytes, steps.net.tensors[tensor].shape, config.memory_atomic);
                        let name = &steps.net.tensors[tensor].name;
                        assert_eq!(Some(&found), expected[tensor].as_ref(), "{name} of {digit} on {}", config.name);
                    }
                    Ok(())
                };
                let options = RunOptions { on_operation: Some(&mut look), ..Default::default() };
                session.run_with(options).unwrap();
                let prob = layers.next().unwrap();
                assert_eq!((layers.next(), steps.net.outputs[0]), (None, prob));
                let found = unpack(session.output(0).unwrap(), [10, 1, 1], config.memory_atomic);
                assert_eq!(Some(&found), expected[prob].as_ref(), "{digit} on {}", config.name);
            }
        }
    }
}

/// In mixed precision some layers have int16, and the outputs lose less than in int8. An error names what is missing.
#[test]
fn mixed_precision_loses_less() {
    // Softmax has int8, so the values before it are the outputs.
    let options = Options { outputs: vec!["ip2".to_owned()], ..Options::default() };
    let model = Model::open(&folder().join("lenet.onnx"), &options).unwrap();
    let samples = folder().join("calibration");
    let loss = |compiler: Compiler| {
        // With 7 bits of a picture's bytes, their rounding would be the greatest loss.
        let compiler = compiler.bytes(Bytes::Eight);
        let compiled = compiler.compile(&model).unwrap();
        let inputs = compiler.inputs(&model.graph).unwrap();
        let mut measured = Measured::new(&compiled, &inputs).unwrap();
        let samples = compiler.samples(&model.graph, &samples, usize::MAX).unwrap();
        let expected = samples.iter().map(|sample| float::run(&model.graph, sample, &mut |_, _| {}).unwrap());
        let loss = measured.output_loss(&samples, &expected.collect::<Vec<_>>()).unwrap();
        let wide = compiled.report.steps.iter().filter(|step| step.precision == "int16").count();
        (loss.decibels(), wide, compiled.report.precision)
    };
    let narrow = loss(compiler(&NV_FULL).calibrate(&samples));
    let all = loss(compiler(&NV_FULL).calibrate(&samples).mixed(1.0));
    assert_eq!((narrow.1, narrow.2, all.2), (0, "int8", "mixed"));
    assert!(all.1 > 0 && all.0 > narrow.0 + 20.0, "{all:?}, {narrow:?}");
    let error = |compiler: Compiler| compiler.compile(&model).unwrap_err().to_string();
    assert_eq!(
        error(compiler(&NV_SMALL).calibrate(&samples).mixed(0.5)),
        "nv_small has no int16, which mixed precision needs"
    );
    let without = error(compiler(&NV_FULL).table(table_of_scales()).mixed(0.5));
    assert!(without.contains("need samples"), "{without}");
}

/// Checks that a loadable classifies each image as the digit in the image's name.
fn classifies(loadable: &Path, config: &'static Config, images: &Path, digits: &[&str]) {
    let mut session = Session::new(Loadable::open(loadable).unwrap(), ModelDevice::new(config)).unwrap();
    for digit in digits {
        let pixels = pixels(&images.join(format!("{digit}.pgm")));
        session.set_input(0, &input(&pixels)).unwrap();
        session.run().unwrap();
        let values = unpack(session.output(0).unwrap(), [10, 1, 1], config.memory_atomic);
        assert_eq!(DIGITS[class(&values)], *digit, "{values:?} of {}", loadable.display());
    }
}

/// Checks the committed loadables with these digits.
fn own_loadables_classify(images: &Path, digits: &[&str]) {
    for config in [&NV_SMALL, &NV_LARGE] {
        classifies(&folder().join(format!("lenet.{}.nvdla", config.name)), config, images, digits);
    }
}

#[test]
fn our_digits() {
    own_loadables_classify(&folder().join("images"), &DIGITS);
}

/// The reference data's digits, with our LeNet and with the one that NVIDIA's compiler made for nv_small.
#[test]
fn reference_digits() {
    let Some(reference) = reference::folder() else { return };
    let (images, digits) = (reference.join("images/digits"), ["two", "three", "four", "seven", "eight"]);
    own_loadables_classify(&images, &digits);
    let theirs = reference.join("loadables/lenet.nv_small.int8.in-R8/net.nvdla");
    classifies(&theirs, &NV_SMALL, &images, &digits);
}
