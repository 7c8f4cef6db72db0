// SPDX-License-Identifier: MIT OR Apache-2.0

//! The compiler for Python: a trained network in, the bytes of a loadable out, or how well it does on labelled samples.

use std::collections::HashMap;
use std::path::PathBuf;

use nvdla_compiler::calibrate::{table, Method};
use nvdla_compiler::compiler::{Calibrated, Compiler, MIXED_SHARE};
use nvdla_compiler::evaluate::classes;
use nvdla_compiler::import::model::{Model, Options};
use nvdla_compiler::ir::{Color, Fit, Preprocess};
use nvdla_compiler::options::{Bytes, Optimize, Shares, Winograd};
use nvdla_compiler::quantize::Granularity;
use nvdla_runtime::device::{self, Selection};
use nvdla_runtime::labels::Labels;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::{configuration, Cancel};
use nvdla_uapi::reg::values::Precision;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::Failure;
use crate::interrupt;

/// Reads a choice.
fn choice<T: Copy>(what: &str, given: &str, choices: &[(&str, T)]) -> Result<T, Failure> {
    let found = choices.iter().find(|(name, _)| *name == given);
    let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| Failure::argument(format!("there is no {what} {given:?}; there are {}", names.join(", "))))
}

/// The arguments of [`compile`], by name in a dictionary; `color` is none if the network's input is not a picture.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Arguments {
    model: PathBuf,
    config: String,
    precision: String,
    mixed_layers: Option<f64>,
    calibrate: Option<PathBuf>,
    calibtable: Option<PathBuf>,
    method: Option<String>,
    mean: Vec<f32>,
    std: Vec<f32>,
    color: Option<String>,
    resize: Option<String>,
    input: String,
    weights: String,
    winograd: Option<String>,
    winograd_loss: Option<f64>,
    softmax: String,
    optimize: String,
    batch: u32,
    sram: u64,
    clock: Option<f64>,
    bandwidth: Option<f64>,
    sram_bandwidth: Option<f64>,
    latency: Option<u32>,
    register_write: Option<f64>,
    shapes: HashMap<String, Vec<usize>>,
    inputs: Vec<String>,
    outputs: Vec<String>,
}

/// The arguments of [`evaluate`] beside those of the compilation.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Labelled {
    samples: PathBuf,
    labels: Option<PathBuf>,
    device: Option<String>,
}

/// The compiler with its options, and the model.
fn opened(arguments: &Arguments, cancel: &Cancel) -> Result<(Compiler, Model), Failure> {
    let board = configuration::board(&arguments.config).map_err(|error| Failure::argument(error.to_string()))?;
    let mut conditions = board.conditions;
    for (name, given, value) in [
        ("clock", arguments.clock, &mut conditions.clock),
        ("bandwidth", arguments.bandwidth, &mut conditions.dram),
        ("sram_bandwidth", arguments.sram_bandwidth, &mut conditions.sram),
        ("register_write", arguments.register_write, &mut conditions.register_write),
    ] {
        match given {
            Some(given) if given.is_finite() && given > 0.0 => *value = given,
            Some(given) => return Err(Failure::argument(format!("{name} is {given}, which is not above 0"))),
            None => {}
        }
    }
    conditions.latency = arguments.latency.unwrap_or(conditions.latency);
    let goals = [("time", Optimize::Time), ("size", Optimize::Size), ("memory", Optimize::Memory)];
    let bytes = [("i8", Bytes::Seven), ("u8", Bytes::Eight)];
    let granularities = [("kernel", Granularity::Kernel), ("layer", Granularity::Layer)];
    let mut compiler = Compiler::new(board.config)
        .conditions(conditions)
        .optimize(choice("goal", &arguments.optimize, &goals)?)
        .sram(arguments.sram)
        .batch(arguments.batch)
        .bytes(choice("input", &arguments.input, &bytes)?)
        .granularity(choice("scaling of weights", &arguments.weights, &granularities)?);
    compiler = match choice("precision", &arguments.precision, &[("int8", 0), ("fp16", 1), ("mixed", 2)])? {
        1 => compiler.precision(Precision::Fp16),
        2 => compiler.mixed(arguments.mixed_layers.map_or(MIXED_SHARE, |percent| percent / 100.0)),
        _ => compiler,
    };
    if arguments
        .mixed_layers
        .is_some_and(|percent| arguments.precision != "mixed" || !(percent > 0.0 && percent <= 100.0))
    {
        return Err(Failure::argument("mixed_layers is a percentage above 0, for the precision \"mixed\""));
    }
    if let Some(method) = &arguments.method {
        compiler = compiler.method(method.parse::<Method>().map_err(Failure::argument)?);
    }
    let modes = [("never", Winograd::Never), ("faster", Winograd::Faster), ("always", Winograd::Always)];
    if let Some(mode) = &arguments.winograd {
        compiler = compiler.winograd(choice("use of Winograd's mode", mode, &modes)?);
    }
    if let Some(decibels) = arguments.winograd_loss {
        let goes = arguments.precision == "int8" && arguments.winograd.as_deref() == Some("faster");
        if !goes || decibels.is_nan() || decibels <= 0.0 {
            return Err(Failure::argument(
                "winograd_loss is a number of decibels above 0, for the precision \"int8\" and winograd=\"faster\"",
            ));
        }
        compiler = compiler.winograd_loss(decibels);
    }
    compiler = compiler.shares(choice(
        "form of a softmax's results",
        &arguments.softmax,
        &[("half", Shares::Half), ("int8", Shares::Int8)],
    )?);
    if let Some(path) = &arguments.calibtable {
        let text = table::open(path).map_err(|error| Failure::file(format!("{}: {error}", path.display())))?;
        compiler = compiler.table(text);
    }
    let colors = [("rgb", Color::Rgb), ("bgr", Color::Bgr), ("gray", Color::Gray)];
    let color = arguments.color.as_ref().map(|color| choice("colour order", color, &colors)).transpose()?;
    let fits = [("stretch", Fit::Stretch), ("crop", Fit::Crop)];
    let fit = arguments.resize.as_ref().map(|resize| choice("resize mode", resize, &fits)).transpose()?;
    let (shapes, inputs, outputs) = (arguments.shapes.clone(), arguments.inputs.clone(), arguments.outputs.clone());
    let options = Options { shapes, inputs, outputs, cancel: cancel.clone() };
    let model = Model::open(&arguments.model, &options)?;
    if let Some(color) = color {
        let (mean, std, fit) = (arguments.mean.clone(), arguments.std.clone(), fit.unwrap_or(Fit::Exact));
        compiler = compiler.preprocess(Preprocess { mean, std, color, fit });
    }
    if let Some(folder) = &arguments.calibrate {
        compiler = compiler.calibrate(folder);
    }
    Ok((compiler, model))
}

/// Compiles a network. Returns the loadable, its report in JSON, and warnings.
#[pyfunction]
pub(crate) fn compile(py: Python<'_>, arguments: Arguments) -> PyResult<(Bound<'_, PyBytes>, String, Vec<String>)> {
    // A step of a compilation may be long, so an interrupted call does not wait for it.
    let (loadable, report, warnings) = interrupt::detached(py, move |cancel| {
        let (compiler, model) = opened(&arguments, cancel)?;
        let compiled = compiler.compile(&model)?;
        // Arrays of another order would give wrong results.
        let moved = model.reshaped.iter().filter(|reshaped| !reshaped.keeps_order()).map(ToString::to_string);
        let warnings = compiled.report.warnings.iter().cloned().chain(moved).collect();
        Ok((compiled.loadable, compiled.report.to_json(), warnings))
    })?;
    Ok((PyBytes::new(py, &loadable), report, warnings))
}

/// Compiles a network and runs it with labelled samples. Returns what was found in JSON, and warnings.
#[pyfunction]
pub(crate) fn evaluate(py: Python<'_>, arguments: Arguments, samples: Labelled) -> PyResult<(String, Vec<String>)> {
    interrupt::detached(py, move |cancel| {
        let Labelled { samples, labels, device } = &samples;
        let names = labels.as_ref().map(Labels::open).transpose()?;
        let list = classes::labelled(samples, names.as_ref())?;
        let selection = match device {
            Some(name) => name.parse::<Selection>().map_err(Failure::argument)?,
            None => Selection::Model(None),
        };
        let (compiler, model) = opened(&arguments, cancel)?;
        let compiler = compiler.batch(1);
        let Calibrated { model, ranges, .. } = compiler.calibrated(&model)?;
        let compiled = compiler.compile_with(&model, &ranges)?;
        let loadable = Loadable::from_bytes(compiled.loadable.clone())?;
        let device = device::open(&selection, &loadable)?.device;
        let found = classes::evaluate(&compiler, &model.graph, &compiled, device, &list, &mut |_| {})?;
        Ok((found.to_json(), compiled.report.warnings))
    })
}
