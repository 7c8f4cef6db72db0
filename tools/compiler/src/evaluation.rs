// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_compiler evaluate`: how well a compiled network does on labelled samples.

use std::error::Error;

use nvdla_compiler::arguments::EvaluateArguments;
use nvdla_compiler::compiler::Calibrated;
use nvdla_compiler::evaluate::classes::{evaluate, labelled};
use nvdla_compiler::import::model::{Model, Options};
use nvdla_runtime::device::{self, Selection};
use nvdla_runtime::labels::Labels;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::program;

use crate::command::{argument, compiler, print, write};
use crate::progress::Progress;

pub(crate) fn run(arguments: &EvaluateArguments) -> Result<(), Box<dyn Error>> {
    let EvaluateArguments { compile, labels_dir, labels, device, min_top1 } = arguments;
    let path = compile.model.as_ref().or(compile.model_option.as_ref()).ok_or(argument("no model is given"))?;
    let labels = labels.as_ref().map(Labels::open).transpose()?;
    let list = labelled(labels_dir, labels.as_ref())?;
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
            let text = format!("top-1 is {:.2} %, less than {least} %", 100.0 * found.top1());
            Err(text.into())
        }
        _ => Ok(()),
    }
}
