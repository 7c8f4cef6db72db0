// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compares models with outputs that another program computed: their float evaluation, or with `--config` the loadable
//! that the compiler makes of them, run on the built-in model of that configuration.
//!
//!     cargo run --release -p nvdla-compiler --example compare -- [--config NAME [--precision int8|fp16]] FOLDER...
//!
//! Each folder has a model (`model.onnx`, or `model.param` and `model.bin`), its inputs `input_0.npy`, … and the
//! expected outputs `output_0.npy`, …; a folder without a model is searched for such folders. `scripts/node_cases.py`
//! and `scripts/networks.py` write them. The difference that is printed is the largest, relative to the output's largest
//! value, or to 0.01 if that is smaller. Results are equal if they differ by at most 1e-4 in float, 1e-2 in fp16, and 5e-2 in
//! int8, whose scales are measured on the inputs. At the end the refusals are counted by operator and reason, and
//! those that `Compiler::check` accepts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nvdla_compiler::calibrate::{self, Method};
use nvdla_compiler::compiler::Compiler;
use nvdla_compiler::import::model::{Model, Options};
use nvdla_compiler::ir::Tensor;
use nvdla_compiler::{float, npy};
use nvdla_compiler::{options, pipeline};
use nvdla_runtime::device::ModelDevice;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::Session;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;

/// What a model is compiled for. None: it is computed in float.
type Target = Option<(&'static Config, Precision)>;

/// The largest difference that counts as equal.
fn limit(target: Target) -> f32 {
    match target {
        None => 1e-4,
        Some((_, Precision::Fp16)) => 1e-2,
        Some(_) => 5e-2,
    }
}

/// Begins the reason of a model that the check accepts.
const UNCHECKED: &str = "the check accepts it: ";

/// The outputs of the loadable.
fn compiled(
    model: &Model,
    inputs: &[Vec<f32>],
    config: &'static Config,
    precision: Precision,
) -> Result<Vec<Vec<f32>>, String> {
    let graph = &model.graph;
    let ranges = calibrate::measure(graph, [Ok(inputs.to_vec())], Method::Max).map_err(|error| error.to_string())?;
    let options = options::Options { precision, ..options::Options::new(config) };
    // What compiles without samples has to compile with them.
    let checked = Compiler::new(config).precision(precision).check(model).is_ok();
    let compiled = pipeline::compile(graph, &ranges, &options)
        .map_err(|error| format!("{}{error}", if checked { UNCHECKED } else { "" }))?;
    if let Some(warning) = compiled.report.warnings.first() {
        return Err(format!("compiled, with a warning: {warning}"));
    }
    let loadable = Loadable::from_bytes(compiled.loadable).map_err(|error| error.to_string())?;
    let mut session = Session::new(loadable, ModelDevice::new(config)).map_err(|error| error.to_string())?;
    for (index, values) in inputs.iter().enumerate() {
        session.set_input_f32(index, values).map_err(|error| error.to_string())?;
    }
    session.run().map_err(|error| error.to_string())?;
    let outputs = (0..session.outputs().len()).map(|index| session.output_f32(index));
    outputs.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

fn arrays(folder: &Path, name: &str) -> Result<Vec<npy::Array>, String> {
    let path = |k: usize| folder.join(format!("{name}_{k}.npy"));
    (0..).map(path).take_while(|path| path.exists()).map(|path| npy::read(&path, u64::MAX)).collect()
}

/// The elements of an array of the model in the order of an input or output of the loadable; `None` if it has others.
fn in_loadable(model: &Model, tensor: &Tensor, array: &npy::Array) -> Option<Vec<f32>> {
    match model.reshaped.iter().find(|change| change.name == tensor.name) {
        Some(change) if change.model == array.shape && change.moves.is_empty() && change.part.is_none() => {
            if !change.channels_last {
                return Some(array.values.clone());
            }
            let &[pictures, channels, ref pixels @ ..] = &change.graph[..] else { return None };
            let pixels: usize = pixels.iter().product();
            let place = |at: usize| (at / pixels / channels * pixels + at % pixels) * channels + at / pixels % channels;
            Some((0..pictures * channels * pixels).map(|at| array.values[place(at)]).collect())
        }
        None if array.shape == tensor.shape => Some(array.values.clone()),
        _ => None,
    }
}

/// The largest difference of an output, relative to its largest value.
fn compare(folder: &Path, model: &Path, target: Target) -> Result<(f32, String), String> {
    let model = Model::open(model, &Options::default()).map_err(|error| error.to_string())?;
    let given = arrays(folder, "input")?.into_iter().enumerate().map(|(k, array)| {
        // Inputs that the graph does not have are constants.
        let Some(&id) = model.graph.inputs.get(k) else { return Ok(array.values) };
        let tensor = model.graph.tensor(id);
        in_loadable(&model, tensor, &array)
            .ok_or_else(|| format!("input {k} is {:?}, not {:?}", tensor.shape, array.shape))
    });
    let inputs = given.collect::<Result<Vec<_>, String>>()?;
    let start = Instant::now();
    let outputs = match target {
        None => float::run(&model.graph, &inputs, &mut |_, _| {})?,
        Some((config, precision)) => compiled(&model, &inputs, config, precision)?,
    };
    let time = start.elapsed();
    let mut worst = 0.0f32;
    for (k, (expected, &id)) in arrays(folder, "output")?.iter().zip(&model.graph.outputs).enumerate() {
        let tensor = model.graph.tensor(id);
        let expected = in_loadable(&model, tensor, expected)
            .ok_or_else(|| format!("output {k} is {:?}, not {:?}", tensor.shape, expected.shape))?;
        let largest = expected.iter().filter(|x| x.is_finite()).fold(0.0f32, |max, x| max.max(x.abs()));
        for (a, b) in outputs[k].iter().zip(&expected) {
            // Infinities are the same when their bits are.
            let same = a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            let difference = if same { 0.0 } else { (a - b).abs() / largest.max(1e-2) };
            worst = if difference.is_nan() { f32::INFINITY } else { worst.max(difference) };
        }
    }
    Ok((worst, format!("{} nodes, {:.1} ms", model.graph.nodes.len(), time.as_secs_f64() * 1e3)))
}

fn cases(folder: &Path, found: &mut Vec<(PathBuf, PathBuf)>) {
    if let Some(model) =
        ["model.onnx", "model.param"].map(|name| folder.join(name)).into_iter().find(|path| path.exists())
    {
        found.push((folder.to_owned(), model));
        return;
    }
    let Ok(entries) = folder.read_dir() else { return };
    let mut entries: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    entries.sort();
    for folder in entries {
        cases(&folder, found);
    }
}

/// The operator of the first node that is refused, and why; the whole reason where it names no node.
fn operator_and_reason(reason: &str) -> String {
    let node = reason.lines().find(|line| line.trim_start().starts_with("node "));
    let parts = node.and_then(|line| {
        let (operator, why) = line.split_once(" (")?.1.split_once("): ")?;
        Some(format!("{}: {why}", operator.split(' ').next().unwrap_or(operator)))
    });
    parts.unwrap_or_else(|| reason.replace('\n', "; "))
}

fn main() -> Result<(), String> {
    let (mut found, mut config, mut precision) = (Vec::new(), None, Precision::Fp16);
    let mut arguments = std::env::args();
    arguments.next();
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--config" => config = Some(Config::by_name(&value()?).ok_or("no such configuration")?),
            "--precision" if value()? == "int8" => precision = Precision::Int8,
            "--precision" => precision = Precision::Fp16,
            folder => cases(Path::new(folder), &mut found),
        }
    }
    let target = config.map(|config| (config, precision));
    let (mut equal, mut different, mut refused, mut unchecked) = (0, 0, 0, 0);
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (folder, model) in found {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match compare(&folder, &model, target) {
            Ok((difference, what)) if difference <= limit(target) => {
                equal += 1;
                println!("equal      {name}: {difference:.1e}, {what}");
            }
            Ok((difference, what)) => {
                different += 1;
                println!("DIFFERENT  {name}: {difference:.1e}, {what}");
            }
            Err(reason) => {
                refused += 1;
                unchecked += usize::from(reason.starts_with(UNCHECKED));
                *reasons.entry(operator_and_reason(&reason)).or_default() += 1;
                println!("refused    {name}: {}", reason.replace('\n', ";"));
            }
        }
    }
    let mut reasons: Vec<(String, usize)> = reasons.into_iter().collect();
    reasons.sort_by_key(|(reason, count)| (std::cmp::Reverse(*count), reason.clone()));
    for (reason, count) in reasons {
        println!("{count:>4} refused: {reason}");
    }
    println!("{equal} equal, {different} different, {refused} refused, {unchecked} of these accepted by the check");
    Ok(())
}
