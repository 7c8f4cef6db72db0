// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_compiler`: compiles a network to a loadable.

mod command;
mod evaluation;
mod memory;
mod progress;

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;

use nvdla_compiler::arguments::{Arguments, EvaluateArguments, Precision};
use nvdla_compiler::calibrate::{samples, table};
use nvdla_compiler::compiler::{self, Calibrated, Compiler, FEW_SAMPLES};
use nvdla_compiler::evaluate::loss::Losses;
use nvdla_compiler::evaluate::measure::Measured;
use nvdla_compiler::import::model::{self, Model, Options};
use nvdla_compiler::kind_of;
use nvdla_compiler::npy;
use nvdla_compiler::output::compiled::Compiled;
use nvdla_compiler::output::report::{Division, WinogradReport};
use nvdla_compiler::partition::{self, picture, Limits};
use nvdla_compiler::suggest::tried;
use nvdla_runtime::files::{self, Clash, Names};
use nvdla_runtime::{program, ErrorKind};

use command::{argument, cannot, compiler, print, write, Problem};
use evaluation::TooFew;

/// The files of the report's folder, without the outputs of --evaluate.
const REPORT: [&str; 3] = ["report.json", "report.html", "calibration.json"];
/// The files of --partition's folder, without the groups.
const DIVISION: [&str; 2] = ["partition.json", "partition.html"];

/// The files that are read.
fn model_names(arguments: &Arguments, model: &Path) -> Result<Names, Box<dyn Error>> {
    let mut names = Names::default();
    names.reads("the model", model)?;
    for other in model::others(model) {
        names.reads("a file of the model", other)?;
    }
    if let Some(table) = &arguments.calibtable {
        names.reads("--calibtable", table)?;
    }
    for folder in [&arguments.calibrate, &arguments.evaluate].into_iter().flatten() {
        // A folder that cannot be read is an error later.
        for sample in samples::list(folder).unwrap_or_default() {
            names.reads("a sample", sample)?;
        }
    }
    Ok(names)
}

/// Checks that the files can be written and are not those that are read, which are also `others`.
fn names(arguments: &Arguments, model: &Path, others: &[PathBuf]) -> Result<Names, Box<dyn Error>> {
    let mut names = model_names(arguments, model)?;
    for other in others {
        names.reads("a file that is read", other)?;
    }
    let mut written = Vec::new();
    for (what, path) in [("--output", &arguments.output), ("--save-calibration", &arguments.save_calibration)] {
        if let Some(path) = path {
            names.writes(what, path)?;
            written.push(path.clone());
        }
    }
    if let (Some(output), Some(pass)) = (&arguments.output, &arguments.dump) {
        let path = dump_file(output, pass);
        names.writes("--dump", &path)?;
        written.push(path);
    }
    if let Some(folder) = &arguments.report {
        for file in REPORT {
            names.writes("a file of --report", folder.join(file))?;
            written.push(folder.join(file));
        }
        fs::create_dir_all(folder).map_err(cannot("make the folder", folder))?;
    }
    for path in written {
        files::check_writable(&path).map_err(cannot("write", &path))?;
    }
    Ok(names)
}

/// The file with the network of steps after a pass.
fn dump_file(output: &Path, pass: &str) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(format!(".{pass}.dot"));
    name.into()
}

/// The file with the values of an output.
fn output_file(k: usize) -> String {
    format!("output_{k}.npy")
}

/// Divides the network between NVDLA and the processor, and writes the groups.
fn divide(arguments: &Arguments, path: &Path, options: &Options) -> Result<(), Box<dyn Error>> {
    if arguments.precision == Precision::Mixed {
        return Err(argument("--partition goes with --precision int8 and fp16").into());
    }
    let folder = arguments.output.as_deref().ok_or(argument("no output is given"))?;
    let mut names = model_names(arguments, path)?;
    fs::create_dir_all(folder).map_err(cannot("make the folder", folder))?;
    for file in DIVISION.map(|file| folder.join(file)) {
        names.writes("a file of --output", &file)?;
        files::check_writable(&file).map_err(cannot("write", &file))?;
    }
    let survey = partition::survey(path, options)?;
    let limits =
        Limits { min_nodes: arguments.min_nodes, max_partitions: arguments.max_partitions, ..Limits::default() };
    let divided = partition::partition(&survey, &compiler(arguments)?, &limits);
    for k in 0..divided.groups.len() {
        names.writes("a file of --output", folder.join(picture::file(k)))?;
    }
    for (k, group) in divided.groups.iter().enumerate() {
        write(&folder.join(picture::file(k)), &group.loadable)?;
    }
    let [json, page] = DIVISION.map(|file| folder.join(file));
    write(&json, picture::json(&survey, &divided))?;
    write(&page, picture::page(&survey, &divided))?;
    for warning in &divided.warnings {
        program::say(&format!("nvdla_compiler: warning: {warning}"));
    }
    for (node, reason) in survey.nodes.iter().zip(&divided.reasons) {
        if let Some(reason) = reason {
            let (name, operator) = (&node.name, &node.operator);
            program::say(&format!("nvdla_compiler: the processor runs {name:?} ({operator}): {reason}"));
        }
    }
    let inside: usize = divided.groups.iter().map(|group| group.nodes.len()).sum();
    let (groups, cycles): (_, u64) =
        (divided.groups.len(), divided.groups.iter().map(|group| group.report.cycles).sum());
    let (config, nodes) = (arguments.config.config.name, survey.nodes.len());
    print(&if arguments.json {
        let divided = serde_json::json!({
            "folder": folder.display().to_string(),
            "configuration": config,
            "nodes": nodes,
            "nodes_in_groups": inside,
            "groups": groups,
            "estimated_cycles": cycles,
            "warnings": divided.warnings,
        });
        format!("{:#}\n", serde_json::json!({"version": program::JSON_VERSION, "divided": divided}))
    } else {
        let folder = folder.display();
        format!("{folder}: {inside} of {nodes} nodes in {groups} groups for {config}; {cycles} estimated cycles\n")
    })
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let path = arguments.model.as_ref().or(arguments.model_option.as_ref()).ok_or(argument("no model is given"))?;
    let shapes = arguments.shape.iter().cloned().collect();
    let options =
        Options { shapes, inputs: arguments.inputs.clone(), outputs: arguments.outputs.clone(), ..Options::default() };
    if arguments.output.is_none() && !arguments.check {
        return Err(argument("no output is given (--output)").into());
    }
    if arguments.output.as_deref().is_some_and(|output| output.as_os_str() == "-") {
        return Err(argument("--output - is no file, and the loadable is not written to the standard output").into());
    }
    if arguments.partition {
        return divide(arguments, path, &options);
    }
    let mut names = names(arguments, path, &[])?;
    // The time that it shows begins with the reading of the model.
    let progress = Arc::new(progress::Progress::new());
    let model = match Model::open(path, &options) {
        Err(model::Error::Nodes(file, unreadable)) => {
            return Err(model::Error::Nodes(file, tried(path, &options, &compiler(arguments)?, unreadable)).into());
        }
        other => other?,
    };
    if let (Some(folder), Some(_)) = (&arguments.report, &arguments.evaluate) {
        for k in 0..model.graph.outputs.len() {
            names.writes("a file of --report", folder.join(output_file(k)))?;
        }
    }
    for reshaped in &model.reshaped {
        program::say(&format!("nvdla_compiler: {reshaped}"));
    }
    let shown = Arc::clone(&progress);
    let mut compiler = compiler(arguments)?.progress(move |what, done| shown.tell(what, done));
    if arguments.check {
        compiler.check(&model).map_err(|error| proposing(error, path, &options, &compiler))?;
        let (config, nodes) = (arguments.config.config.name, model.graph.nodes.len());
        return print(&if arguments.json {
            let checked =
                serde_json::json!({"model": path.display().to_string(), "configuration": config, "nodes": nodes});
            format!("{:#}\n", serde_json::json!({"version": program::JSON_VERSION, "checked": checked}))
        } else {
            format!("{}: {config} maps all {nodes} nodes\n", path.display())
        });
    }
    if let Some(folder) = &arguments.calibrate {
        compiler = compiler.calibrate(folder);
    }
    let Calibrated { model: calibrated, ranges, own } = compiler.calibrated(&model)?;
    let scales = table::write(&model.graph, &own);
    // Its weights may be others.
    drop(model);
    let model = calibrated;
    if let Some(path) = &arguments.save_calibration {
        write(path, &scales)?;
    }
    let output = arguments.output.as_deref().ok_or(argument("no output is given"))?;
    if let Some(pass) = &arguments.dump {
        write(&dump_file(output, pass), compiler.dump(&model, &ranges, pass)?)?;
    }
    let compiled = compiler.compile_with(&model, &ranges);
    let mut compiled = compiled.map_err(|error| proposing(error, path, &options, &compiler))?;
    progress.finish();
    write(output, &compiled.loadable)?;
    if let Some(folder) = &arguments.report {
        if let Some(samples) = arguments.evaluate.as_ref().or(arguments.calibrate.as_ref()) {
            let outputs = arguments.evaluate.is_some().then_some(folder.as_path());
            let one = match arguments.batch {
                1 => compiled.clone(),
                _ => compiler.clone().batch(1).compile_with(&model, &ranges)?,
            };
            let losses = evaluate(&compiler, &model, &one, samples, outputs)?;
            compiled.report.add_losses(&losses);
        }
        write(&folder.join("report.json"), compiled.report.to_json() + "\n")?;
        write(&folder.join("report.html"), compiled.report.to_html())?;
        write(&folder.join("calibration.json"), scales)?;
    }
    let report = &compiled.report;
    for warning in &report.warnings {
        program::say(&format!("nvdla_compiler: warning: {warning}"));
    }
    if arguments.json {
        let compiled = serde_json::json!({
            "loadable": output.display().to_string(),
            "network": report.network,
            "configuration": report.configuration,
            "precision": report.precision,
            "bytes": compiled.loadable.len(),
            "pictures": report.pictures,
            "operations": report.operations.len(),
            "activation_bytes": report.pool,
            "estimated_cycles": report.cycles,
            "warnings": report.warnings,
            "reshaped": report.reshaped,
        });
        return print(&format!("{:#}\n", serde_json::json!({"version": program::JSON_VERSION, "compiled": compiled})));
    }
    let mut text = format!(
        "{}: {} for {}, {}, {} bytes; {} operations, {} bytes of activations, {} estimated cycles{}\n",
        output.display(),
        report.network,
        report.configuration,
        report.precision,
        compiled.loadable.len(),
        report.operations.len(),
        report.pool,
        report.cycles,
        match report.pictures {
            1 => String::new(),
            pictures => format!(" for {pictures} pictures"),
        }
    );
    if let Some(WinogradReport { budget, loss, layers }) = &report.winograd {
        let (count, of) = (layers.iter().filter(|layer| layer.taken).count(), layers.len());
        writeln!(text, "Winograd's mode: {count} of {of} convolutions that it makes faster; an output loses {loss:.2} of {budget} dB")?;
    }
    if let Some(sram) = &report.sram {
        let count = report.buffers.iter().filter(|buffer| buffer.sram).count();
        writeln!(
            text,
            "SRAM: {} of {} bytes, {count} tensors; {} estimated cycles, {} with all in DRAM",
            sram.pool, sram.limit, sram.cycles, sram.cycles_in_dram
        )?;
    }
    if let Some(division) = &report.division {
        let (runs, Division { pool, cycles, .. }) = (division.runs.len(), division);
        writeln!(
            text,
            "layers in bands of lines: {runs} runs; without them {pool} bytes of activations, {cycles} estimated cycles"
        )?;
    }
    print(&text)
}

/// The error of a compilation, in which the proposed outputs have been tried.
fn proposing(error: compiler::Error, path: &Path, options: &Options, compiler: &Compiler) -> compiler::Error {
    match error {
        compiler::Error::Lowering(nvdla_compiler::Error::Refused(unreadable)) => {
            nvdla_compiler::Error::Refused(tried(path, options, compiler, unreadable)).into()
        }
        other => other,
    }
}

/// Runs a loadable on the model with the samples of a folder, and returns the losses of tensors, measured on a few samples. With
/// a folder for outputs, writes the outputs of all samples there.
fn evaluate(
    compiler: &Compiler,
    model: &Model,
    compiled: &Compiled,
    samples: &Path,
    folder: Option<&Path>,
) -> Result<Losses, Box<dyn Error>> {
    let graph = &model.graph;
    let inputs = compiler.inputs(graph)?;
    let most = if folder.is_some() { usize::MAX } else { FEW_SAMPLES };
    let samples = compiler.samples(graph, samples, most)?;
    let mut measured = Measured::new(compiled, &inputs)?;
    if let Some(folder) = folder {
        let mut outputs = vec![Vec::new(); graph.outputs.len()];
        for sample in &samples {
            for (all, values) in outputs.iter_mut().zip(measured.run(sample)?) {
                all.extend(values);
            }
        }
        for (k, (values, &id)) in outputs.iter().zip(&graph.outputs).enumerate() {
            let shape = [&[samples.len()], graph.shape(id)].concat();
            write(&folder.join(output_file(k)), npy::bytes(&shape, values))?;
        }
    }
    Ok(measured.losses(graph, &samples[..samples.len().min(FEW_SAMPLES)])?)
}

fn main() -> ExitCode {
    memory::share();
    let evaluates = std::env::args_os().nth(1).is_some_and(|word| word == "evaluate");
    let words = std::env::args_os().enumerate().filter(|(k, _)| !evaluates || *k != 1).map(|(_, word)| word);
    let parsed = if evaluates {
        EvaluateArguments::try_parse_from(words)
            .map(|arguments| (arguments.compile.json, evaluation::run(&arguments, names)))
    } else {
        Arguments::try_parse_from(words).map(|arguments| (arguments.json, run(&arguments)))
    };
    let (json, result) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return program::usage(&error.to_string(), error.use_stderr()),
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    // The object of the results is printed already.
    let json = json && !error.is::<TooFew>();
    let kind = match error.downcast_ref() {
        Some(Problem(kind, _)) => Some(*kind),
        None if error.is::<Clash>() => Some(ErrorKind::Argument),
        None => kind_of(error.as_ref()),
    };
    let message = program::sentence(error.as_ref());
    program::fail("nvdla_compiler", &message, kind, program::status(kind), json)
}
