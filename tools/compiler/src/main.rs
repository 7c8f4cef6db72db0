// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_compiler`: compiles a network to a loadable.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use clap::{Parser, ValueEnum};

use nvdla_compiler::calibrate::{table, Method};
use nvdla_compiler::compiler::{Calibrated, Compiler, FEW_SAMPLES, MIXED_SHARE};
use nvdla_compiler::evaluate::loss::Losses;
use nvdla_compiler::evaluate::measure::Measured;
use nvdla_compiler::import::model::{Model, Options};
use nvdla_compiler::ir::{Color, Fit, Preprocess};
use nvdla_compiler::npy;
use nvdla_compiler::options::{size, Bytes, Optimize, Winograd};
use nvdla_compiler::output::compiled::Compiled;
use nvdla_compiler::output::report::Division;
use nvdla_compiler::partition::{self, picture, Limits};
use nvdla_compiler::pipeline::PASSES;
use nvdla_compiler::quantize::Granularity;
use nvdla_uapi::config::Config;

/// Compiles a trained network to a loadable for one configuration of NVDLA.
#[derive(Parser)]
#[command(name = "nvdla_compiler", version)]
struct Arguments {
    /// The network: ONNX (.onnx), or NCNN (.param with .bin beside it)
    #[arg(value_name = "MODEL", required_unless_present = "model_option")]
    model: Option<PathBuf>,
    #[arg(long = "model", id = "model_option", hide = true, conflicts_with = "model")]
    model_option: Option<PathBuf>,
    /// The loadable to write
    #[arg(short, long, alias = "out", value_name = "FILE", required_unless_present = "check")]
    output: Option<PathBuf>,
    /// The configuration of the hardware
    #[arg(long, alias = "configtarget", value_name = "NAME", value_parser = configuration)]
    config: &'static Config,
    /// The precision of weights and activations
    #[arg(long, alias = "cprecision", value_enum, default_value_t = Precision::Int8)]
    precision: Precision,
    /// With --precision mixed, the largest share of the layers that has int16, in percent [default: 25]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    mixed_layers: Option<u32>,
    /// A folder of pictures or .npy files like those that the network will process, on which scales are measured
    #[arg(long, value_name = "DIR")]
    calibrate: Option<PathBuf>,
    /// A table of scales in JSON, in the format of NVIDIA's compiler; scales that it lacks are measured
    #[arg(long, value_name = "FILE")]
    calibtable: Option<PathBuf>,
    /// Write the scales as a table in the same format
    #[arg(long, value_name = "FILE")]
    save_calibration: Option<PathBuf>,
    /// How scales are chosen: max, percentile[=99.99], mse or entropy [default: the one that changes the outputs least]
    #[arg(long, value_name = "METHOD")]
    method: Option<Method>,
    /// The number that is subtracted from a picture's bytes, or one number per channel
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', allow_hyphen_values = true)]
    mean: Vec<f32>,
    /// The number by which the difference is divided, or one number per channel
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    std: Vec<f32>,
    /// The order of a picture's channels
    #[arg(long, value_enum)]
    color: Option<Colors>,
    /// How calibration pictures that do not have the input's size are fitted to it
    #[arg(long, value_enum, value_name = "HOW")]
    resize: Option<Resizing>,
    /// The values of pictures in an int8 network: 7 bits of each byte, as NVIDIA's runtime writes them, or all 8
    #[arg(long, value_enum, value_name = "BYTES", default_value_t = Input::I8)]
    input: Input,
    /// The shape of an input with dimensions that the model does not fix
    #[arg(long, value_name = "NAME=1x3x224x224", value_parser = shape)]
    shape: Vec<(String, Vec<usize>)>,
    /// The names of the tensors that become outputs; nodes after them are left out
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    outputs: Vec<String>,
    /// Only report which nodes the configuration cannot compute
    #[arg(long)]
    check: bool,
    /// Divide the network between NVDLA and the processor. The output is then a folder: one loadable per group of nodes
    /// (group_0.nvdla, ...), what each group reads and computes (partition.json), and a page that shows who runs what
    /// (partition.html)
    #[arg(long, conflicts_with_all = ["check", "calibrate", "save_calibration", "report", "mixed_layers"])]
    partition: bool,
    /// With --partition, the least number of nodes of a group; 0: also groups that the processor computes sooner
    #[arg(long, value_name = "COUNT", requires = "partition", default_value_t = 1)]
    min_nodes: usize,
    /// With --partition, the greatest number of groups
    #[arg(long, value_name = "COUNT", requires = "partition", default_value_t = 16)]
    max_partitions: usize,
    /// A folder for the report (report.html, report.json) and the scales (calibration.json)
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// A folder of samples. The loadable runs on the built-in model with each of them, its outputs (output_0.npy, ...) are
    /// written to the report's folder, and losses are measured on these samples instead of those of --calibrate
    #[arg(long, value_name = "DIR", requires = "report")]
    evaluate: Option<PathBuf>,
    /// Whether each kernel's weights have their own scale, or all weights of a layer share one
    #[arg(long, value_enum, default_value_t = Scaling::Kernel)]
    weights: Scaling,
    /// When 3x3 convolutions run in Winograd's mode, which nv_full has [default: in fp16 where it is faster; never in int8, where
    /// it reduces accuracy]
    #[arg(long, value_enum, value_name = "WHEN")]
    winograd: Option<Winograds>,
    /// What the loadable is optimized for
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Goal::Time)]
    optimize: Goal,
    /// The bytes of the device's SRAM, in which tensors then lie where that takes less time: a number, or one with K or M, as in
    /// 512K [default: 0, all tensors in DRAM]
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0", hide_default_value = true)]
    sram: u64,
    /// Write the network of steps as it is after this pass beside the loadable (FILE.PASS.dot), for Graphviz and Netron
    #[arg(long, value_name = "PASS", value_parser = PossibleValuesParser::new(PASSES))]
    dump: Option<String>,
    #[arg(long, hide = true, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1))]
    batch: u32,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Precision {
    Int8,
    Fp16,
    /// int8, and int16 in the layers that lose most (nv_full; needs --calibrate)
    Mixed,
}

#[derive(Clone, Copy, ValueEnum)]
enum Input {
    /// 0 to 127
    I8,
    /// 0 to 255
    U8,
}

#[derive(Clone, Copy, ValueEnum)]
enum Scaling {
    Kernel,
    Layer,
}

#[derive(Clone, Copy, ValueEnum)]
enum Winograds {
    Never,
    /// Where the estimated time is shorter
    Faster,
    /// Wherever it is possible
    Always,
}

#[derive(Clone, Copy, ValueEnum)]
enum Goal {
    /// Less time: a convolution is computed in bands of lines where that lets its input be fetched ahead, if the time that this
    /// saves is worth the bytes in the loadable
    Time,
    /// A smaller loadable: each layer is computed as a whole
    Size,
    /// Less memory for activations: consecutive layers are computed in bands of lines, which takes more time
    Memory,
}

#[derive(Clone, Copy, ValueEnum)]
enum Colors {
    Rgb,
    Bgr,
    Gray,
}

#[derive(Clone, Copy, ValueEnum)]
enum Resizing {
    /// Scale to the input's size; proportions may change
    Stretch,
    /// Scale by the shorter side, and use the middle
    Crop,
}

fn configuration(name: &str) -> Result<&'static Config, String> {
    nvdla_runtime::configuration::find(name).map_err(|error| error.to_string())
}

fn shape(text: &str) -> Result<(String, Vec<usize>), String> {
    let (name, extents) = text.rsplit_once('=').ok_or("a shape is given as NAME=1x3x224x224")?;
    let extent =
        |text: &str| text.parse().ok().filter(|&extent| extent > 0).ok_or_else(|| format!("the size \"{text}\""));
    Ok((name.to_owned(), extents.split('x').map(extent).collect::<Result<_, _>>()?))
}

/// The preprocessing, if any of its options is given.
fn preprocess(arguments: &Arguments) -> Option<Preprocess> {
    let Arguments { mean, std, color, resize, .. } = arguments;
    if mean.is_empty() && std.is_empty() && color.is_none() && resize.is_none() {
        return None;
    }
    let given = |values: &[f32], default| if values.is_empty() { vec![default] } else { values.to_vec() };
    Some(Preprocess {
        mean: given(mean, 0.0),
        std: given(std, 1.0),
        color: match color {
            Some(Colors::Bgr) => Color::Bgr,
            Some(Colors::Gray) => Color::Gray,
            Some(Colors::Rgb) | None => Color::Rgb,
        },
        fit: match resize {
            Some(Resizing::Stretch) => Fit::Stretch,
            Some(Resizing::Crop) => Fit::Crop,
            None => Fit::Exact,
        },
    })
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), String> {
    fs::write(path, bytes).map_err(|error| format!("{}: {error}", path.display()))
}

fn granularity(arguments: &Arguments) -> Granularity {
    match arguments.weights {
        Scaling::Kernel => Granularity::Kernel,
        Scaling::Layer => Granularity::Layer,
    }
}

/// The compiler with the options that do not need samples.
fn compiler(arguments: &Arguments) -> Result<Compiler, Box<dyn Error>> {
    let precision = match arguments.precision {
        Precision::Int8 | Precision::Mixed => nvdla_uapi::reg::values::Precision::Int8,
        Precision::Fp16 => nvdla_uapi::reg::values::Precision::Fp16,
    };
    let mut compiler =
        Compiler::new(arguments.config).precision(precision).granularity(granularity(arguments)).bytes(match arguments
            .input
        {
            Input::I8 => Bytes::Seven,
            Input::U8 => Bytes::Eight,
        });
    match (arguments.precision, arguments.mixed_layers) {
        (Precision::Mixed, percent) => {
            compiler = compiler.mixed(percent.map_or(MIXED_SHARE, |percent| f64::from(percent) / 100.0));
        }
        (_, Some(_)) => return Err("--mixed-layers goes with --precision mixed".into()),
        _ => {}
    }
    if let Some(method) = arguments.method {
        compiler = compiler.method(method);
    }
    if let Some(winograd) = arguments.winograd {
        compiler = compiler.winograd(match winograd {
            Winograds::Never => Winograd::Never,
            Winograds::Faster => Winograd::Faster,
            Winograds::Always => Winograd::Always,
        });
    }
    compiler = compiler.optimize(match arguments.optimize {
        Goal::Time => Optimize::Time,
        Goal::Size => Optimize::Size,
        Goal::Memory => Optimize::Memory,
    });
    compiler = compiler.sram(arguments.sram);
    if let Some(preprocess) = preprocess(arguments) {
        compiler = compiler.preprocess(preprocess);
    }
    if let Some(path) = &arguments.calibtable {
        compiler = compiler.table(fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?);
    }
    Ok(compiler)
}

/// Divides the network between NVDLA and the processor, and writes the groups.
fn divide(arguments: &Arguments, path: &Path, options: &Options) -> Result<(), Box<dyn Error>> {
    if arguments.precision == Precision::Mixed {
        return Err("--partition goes with --precision int8 and fp16".into());
    }
    let folder = arguments.output.as_deref().ok_or("no output is given")?;
    let survey = partition::survey(path, options)?;
    let limits =
        Limits { min_nodes: arguments.min_nodes, max_partitions: arguments.max_partitions, ..Limits::default() };
    let divided = partition::partition(&survey, &compiler(arguments)?, &limits);
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for (k, group) in divided.groups.iter().enumerate() {
        write(&folder.join(picture::file(k)), &group.loadable)?;
    }
    write(&folder.join("partition.json"), picture::json(&survey, &divided))?;
    write(&folder.join("partition.html"), picture::page(&survey, &divided))?;
    for warning in &divided.warnings {
        eprintln!("nvdla_compiler: warning: {warning}");
    }
    for (node, reason) in survey.nodes.iter().zip(&divided.reasons) {
        if let Some(reason) = reason {
            eprintln!("nvdla_compiler: the processor runs \"{}\" ({}): {reason}", node.name, node.operator);
        }
    }
    let inside: usize = divided.groups.iter().map(|group| group.nodes.len()).sum();
    let (groups, cycles): (_, u64) =
        (divided.groups.len(), divided.groups.iter().map(|group| group.report.cycles).sum());
    println!(
        "{}: {inside} of {} nodes in {groups} groups for {}; {cycles} estimated cycles",
        folder.display(),
        survey.nodes.len(),
        arguments.config.name
    );
    Ok(())
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let path = arguments.model.as_ref().or(arguments.model_option.as_ref()).ok_or("no model is given")?;
    let options = Options { shapes: arguments.shape.iter().cloned().collect(), outputs: arguments.outputs.clone() };
    if arguments.partition {
        return divide(arguments, path, &options);
    }
    let model = Model::open(path, &options)?;
    for reshaped in &model.reshaped {
        eprintln!("nvdla_compiler: {reshaped}");
    }
    let mut compiler = compiler(arguments)?;
    if arguments.check {
        compiler.check(&model)?;
        println!("{}: {} maps all {} nodes", path.display(), arguments.config.name, model.graph.nodes.len());
        return Ok(());
    }
    if let Some(folder) = &arguments.calibrate {
        compiler = compiler.calibrate(folder);
    }
    let Calibrated { model: calibrated, ranges, own } = compiler.calibrated(&model)?;
    let scales = table::write(&model.graph, &own);
    let model = calibrated;
    if let Some(path) = &arguments.save_calibration {
        write(path, &scales)?;
    }
    let output = arguments.output.as_deref().ok_or("no output is given")?;
    if let Some(pass) = &arguments.dump {
        write(Path::new(&format!("{}.{pass}.dot", output.display())), compiler.dump(&model, &ranges, pass)?)?;
    }
    let mut compiled = compiler.compile_with(&model, &ranges)?;
    write(output, &compiled.loadable)?;
    if let Some(folder) = &arguments.report {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        if let Some(samples) = arguments.evaluate.as_ref().or(arguments.calibrate.as_ref()) {
            let outputs = arguments.evaluate.is_some().then_some(folder.as_path());
            let losses = evaluate(&compiler, &model, &compiled, samples, outputs)?;
            compiled.report.add_losses(&losses);
        }
        write(&folder.join("report.json"), serde_json::to_string_pretty(&compiled.report)? + "\n")?;
        write(&folder.join("report.html"), compiled.report.to_html())?;
        write(&folder.join("calibration.json"), scales)?;
    }
    let report = &compiled.report;
    for warning in &report.warnings {
        eprintln!("nvdla_compiler: warning: {warning}");
    }
    println!(
        "{}: {} for {}, {}, {} bytes; {} operations, {} bytes of activations, {} estimated cycles",
        output.display(),
        report.network,
        report.configuration,
        report.precision,
        compiled.loadable.len(),
        report.operations.len(),
        report.pool,
        report.cycles
    );
    if let Some(sram) = &report.sram {
        let count = report.buffers.iter().filter(|buffer| buffer.sram).count();
        println!(
            "SRAM: {} of {} bytes, {count} tensors; with the profile's defaults {} estimated cycles, {} with all in DRAM",
            sram.pool, sram.limit, sram.cycles, sram.cycles_in_dram
        );
    }
    if let Some(division) = &report.division {
        let (runs, Division { pool, cycles, .. }) = (division.runs.len(), division);
        println!("layers in bands of lines: {runs} runs; without them {pool} bytes of activations, {cycles} estimated cycles");
    }
    Ok(())
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
            write(&folder.join(format!("output_{k}.npy")), npy::bytes(&shape, values))?;
        }
    }
    Ok(measured.losses(graph, &samples[..samples.len().min(FEW_SAMPLES)])?)
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("nvdla_compiler: {error}");
            let mut cause = error.source();
            while let Some(inner) = cause {
                eprint!(": {inner}");
                cause = inner.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}
