// SPDX-License-Identifier: MIT OR Apache-2.0

//! The compiler for Python: a trained network in, the bytes of a loadable out.

use std::collections::HashMap;
use std::path::PathBuf;

use nvdla_compiler::compiler::{Compiler, MIXED_SHARE};
use nvdla_compiler::import::model::{Model, Options};
use nvdla_compiler::ir::{Color, Fit, Preprocess};
use nvdla_compiler::options::Optimize;
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
    calibrate: Option<PathBuf>,
    mean: Vec<f32>,
    std: Vec<f32>,
    color: Option<String>,
    resize: Option<String>,
    optimize: String,
    sram: u64,
    shapes: HashMap<String, Vec<usize>>,
    outputs: Vec<String>,
}

/// The loadable, and warnings.
fn compiled(arguments: Arguments, cancel: &Cancel) -> Result<(Vec<u8>, Vec<String>), Failure> {
    let Arguments { model, config, precision, calibrate, mean, std, color, resize, optimize, sram, shapes, outputs } =
        arguments;
    let config = configuration::find(&config).map_err(|error| Failure::argument(error.to_string()))?;
    let compiler = Compiler::new(config);
    let optimize = choice("goal", &optimize, &[("time", Optimize::Time), ("memory", Optimize::Memory)])?;
    let compiler = compiler.optimize(optimize).sram(sram);
    let mut compiler = match choice("precision", &precision, &[("int8", 0), ("fp16", 1), ("mixed", 2)])? {
        1 => compiler.precision(Precision::Fp16),
        2 => compiler.mixed(MIXED_SHARE),
        _ => compiler,
    };
    let colors = [("rgb", Color::Rgb), ("bgr", Color::Bgr), ("gray", Color::Gray)];
    let color = color.map(|color| choice("colour order", &color, &colors)).transpose()?;
    let fits = [("stretch", Fit::Stretch), ("crop", Fit::Crop)];
    let fit = resize.map(|resize| choice("resize mode", &resize, &fits)).transpose()?.unwrap_or(Fit::Exact);
    let model = Model::open(&model, &Options { shapes, outputs, cancel: cancel.clone(), ..Options::default() })?;
    if let Some(color) = color {
        compiler = compiler.preprocess(Preprocess { mean, std, color, fit });
    }
    if let Some(folder) = calibrate {
        compiler = compiler.calibrate(folder);
    }
    let compiled = compiler.compile(&model)?;
    Ok((compiled.loadable, compiled.report.warnings))
}

/// Compiles a network. Returns the loadable and warnings.
#[pyfunction]
pub(crate) fn compile(py: Python<'_>, arguments: Arguments) -> PyResult<(Bound<'_, PyBytes>, Vec<String>)> {
    // A step of a compilation may be long, so an interrupted call does not wait for it.
    let (loadable, warnings) = interrupt::detached(py, move |cancel| compiled(arguments, cancel))?;
    Ok((PyBytes::new(py, &loadable), warnings))
}
