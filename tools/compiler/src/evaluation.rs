// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_compiler evaluate`: how well a compiled network does on labelled samples.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use nvdla_compiler::arguments::{Arguments, EvaluateArguments};
use nvdla_compiler::compiler::Calibrated;
use nvdla_compiler::evaluate::classes::{evaluate, labelled};
use nvdla_compiler::import::model::{Model, Options};
use nvdla_runtime::device::{self, Selection};
use nvdla_runtime::files::Names;
use nvdla_runtime::labels::Labels;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::program;

use crate::command::{argument, compiler, print, write};
use crate::progress::Progress;

/// Fewer samples than the user wants are classified as their labels say. The results are printed already.
#[derive(Debug)]
pub(crate) struct TooFew {
    top1: f64,
    least: f64,
}

impl fmt::Display for TooFew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "top-1 is {:.2} %, less than {} %", self.top1, self.least)
    }
}

impl Error for TooFew {}

/// Evaluates. `check` checks the files that are written, and gets the samples and their labels.
pub(crate) fn run(
    arguments: &EvaluateArguments,
    check: impl Fn(&Arguments, &Path, &[PathBuf]) -> Result<Names, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let EvaluateArguments { compile, labels_dir, labels: label_names, device, min_top1 } = arguments;
    let path = compile.model.as_ref().or(compile.model_option.as_ref()).ok_or(argument("no model is given"))?;
    let labels = label_names.as_ref().map(Labels::open).transpose()?;
    let list = labelled(labels_dir, labels.as_ref())?;
    let mut others: Vec<_> = list.iter().map(|sample| sample.path.clone()).chain(label_names.clone()).collect();
    if labels_dir.is_file() {
        others.push(labels_dir.clone());
    }
    check(compile, path, &others)?;
    let shapes = compile.shape.iter().cloned().collect();
    let options =
        Options { shapes, inputs: compile.inputs.clone(), outputs: compile.outputs.clone(), ..Options::default() };
    let model = Model::open(path, &options)?;
    let mut compiler = compiler(compile)?;
    if let Some(folder) = &compile.calibrate {
        compiler = compiler.calibrate(folder);
    }
    let Calibrated { model, ranges, .. } = compiler.calibrated(&model)?;
    let compiled = compiler.compile_with(&model, &ranges)?;
    if let Some(output) = &compile.output {
        write(output, &compiled.loadable)?;
    }
    let loadable = Loadable::from_bytes(compiled.loadable.clone())?;
    let selection = device.clone().unwrap_or(Selection::Model(None));
    let device = device::open(&selection, &loadable)?.device;
    let progress = Progress::new();
    let mut told = |done: usize| progress.tell("samples", done as f64 / list.len() as f64);
    let found = evaluate(&compiler, &model.graph, &compiled, device, &list, &mut told)?;
    progress.finish();
    print(&if compile.json {
        format!("{:#}\n", serde_json::json!({"version": program::JSON_VERSION, "evaluated": found}))
    } else {
        found.to_text()
    })?;
    match min_top1 {
        Some(least) if 100.0 * found.top1() < *least => {
            Err(TooFew { top1: 100.0 * found.top1(), least: *least }.into())
        }
        _ => Ok(()),
    }
}
