// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line of `nvdla_compiler`. It is a part of the library because `nvdla man` and `nvdla completions` describe it too.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Parser, ValueEnum};
use nvdla_runtime::configuration::{self, Board};
use nvdla_runtime::device::Selection;
use nvdla_runtime::profile::Conditions;

use crate::calibrate::Method;
use crate::options::size;
use crate::pipeline::PASSES;

/// Compiles a trained network, runs it with labelled samples, and shows how many it classifies as their labels say, and as the
/// float network does.
#[derive(Parser)]
#[command(name = "nvdla_compiler evaluate", version)]
pub struct EvaluateArguments {
    /// The options of the compilation; --output is not needed.
    #[command(flatten)]
    pub compile: Arguments,
    /// The samples: a folder with one folder per class, or a CSV file with a path and a class per line
    #[arg(long, value_name = "DIR|CSV", conflicts_with_all = ["check", "partition", "save_calibration", "report", "dump", "batch"])]
    pub labels_dir: PathBuf,
    /// A file with the names of the classes, one per line; without it, classes are numbers, or the folders in the order of their
    /// names
    #[arg(long, value_name = "FILE")]
    pub labels: Option<PathBuf>,
    /// The device that runs the loadable, as for nvdla run [default: model]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<Selection>,
    /// Fail if fewer samples, in percent, are classified as their labels say
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub min_top1: Option<f64>,
}

/// The options for the conditions of estimates.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct BoardArguments {
    /// The hardware's clock in MHz, for estimates of time [default: 1000, or as the configuration's file or the loadable says]
    #[arg(long, value_name = "MHZ", value_parser = positive)]
    pub clock: Option<f64>,
    /// DRAM's bandwidth in GB/s, reads and writes together [default: 10, or as above]
    #[arg(long, value_name = "GB/S", value_parser = positive)]
    pub bandwidth: Option<f64>,
    /// SRAM's bandwidth in GB/s [default: 25, or as above]
    #[arg(long, value_name = "GB/S", value_parser = positive)]
    pub sram_bandwidth: Option<f64>,
    /// Cycles from a read request to its first data, of DRAM and SRAM [default: 100, or as above]
    #[arg(long, value_name = "CYCLES")]
    pub latency: Option<u32>,
    /// Time of a register write in ns [default: 100, or as above]
    #[arg(long, value_name = "NS", value_parser = positive)]
    pub register_write: Option<f64>,
}

impl BoardArguments {
    /// The conditions; `usual` are those that the options leave out.
    pub fn conditions(&self, usual: Conditions) -> Conditions {
        Conditions {
            clock: self.clock.unwrap_or(usual.clock),
            dram: self.bandwidth.unwrap_or(usual.dram),
            sram: self.sram_bandwidth.unwrap_or(usual.sram),
            latency: self.latency.unwrap_or(usual.latency),
            register_write: self.register_write.unwrap_or(usual.register_write),
        }
    }
}

/// Compiles a trained network to a loadable for one configuration of NVDLA.
#[derive(Parser)]
#[command(name = "nvdla_compiler", version)]
pub struct Arguments {
    /// The network: ONNX (.onnx), TFLite (.tflite), or NCNN (.param with .bin beside it)
    #[arg(value_name = "MODEL", required_unless_present = "model_option")]
    pub model: Option<PathBuf>,
    #[arg(long = "model", id = "model_option", hide = true, conflicts_with = "model")]
    pub model_option: Option<PathBuf>,
    /// The loadable to write
    #[arg(short, long, alias = "out", value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The configuration of the hardware
    #[arg(long, alias = "configtarget", value_name = "NAME", value_parser = configuration)]
    pub config: Board,
    #[command(flatten)]
    pub board: BoardArguments,
    /// The precision of weights and activations
    #[arg(long, alias = "cprecision", value_enum, default_value_t = Precision::Int8)]
    pub precision: Precision,
    /// With --precision mixed, the largest share of the layers that has int16, in percent [default: 25]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub mixed_layers: Option<u32>,
    /// A folder of pictures or .npy files like those that the network will process, on which scales are measured
    #[arg(long, value_name = "DIR")]
    pub calibrate: Option<PathBuf>,
    /// A table of scales in JSON, in the format of NVIDIA's compiler; scales that it lacks are measured
    #[arg(long, value_name = "FILE")]
    pub calibtable: Option<PathBuf>,
    /// Write the scales as a table in the same format
    #[arg(long, value_name = "FILE")]
    pub save_calibration: Option<PathBuf>,
    /// How scales are chosen: max, percentile[=99.99], mse or entropy [default: the one that changes the outputs least]
    #[arg(long, value_name = "METHOD")]
    pub method: Option<Method>,
    /// The number that is subtracted from a picture's bytes, or one number per channel
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', allow_hyphen_values = true)]
    pub mean: Vec<f32>,
    /// The number by which the difference is divided, or one number per channel
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    pub std: Vec<f32>,
    /// The order of a picture's channels
    #[arg(long, value_enum)]
    pub color: Option<Colors>,
    /// How calibration pictures that do not have the input's size are fitted to it
    #[arg(long, value_enum, value_name = "HOW")]
    pub resize: Option<Resizing>,
    /// The values of pictures in an int8 network: 7 bits of each byte, as NVIDIA's runtime writes them, or all 8
    #[arg(long, value_enum, value_name = "BYTES", default_value_t = Input::I8)]
    pub input: Input,
    /// The shape of an input with dimensions that the model does not fix
    #[arg(long, value_name = "NAME=1x3x224x224", value_parser = shape)]
    pub shape: Vec<(String, Vec<usize>)>,
    /// The names of the tensors that become inputs; nodes before them are left out (ONNX)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub inputs: Vec<String>,
    /// The names of the tensors that become outputs; nodes after them are left out
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub outputs: Vec<String>,
    /// Only report which nodes the configuration cannot compute
    #[arg(long)]
    pub check: bool,
    /// Divide the network between NVDLA and the processor. The output is then a folder: one loadable per group of nodes
    /// (group_0.nvdla, ...), what each group reads and computes (partition.json), and a page that shows who runs what
    /// (partition.html)
    #[arg(long, conflicts_with_all = ["check", "calibrate", "save_calibration", "report", "mixed_layers", "batch"])]
    pub partition: bool,
    /// With --partition, the least number of nodes of a group; 0: also groups that the processor computes sooner
    #[arg(long, value_name = "COUNT", requires = "partition", default_value_t = 1)]
    pub min_nodes: usize,
    /// With --partition, the greatest number of groups
    #[arg(long, value_name = "COUNT", requires = "partition", default_value_t = 16)]
    pub max_partitions: usize,
    /// A folder for the report (report.html, report.json) and the scales (calibration.json)
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// A folder of samples. The loadable runs on the built-in model with each of them, its outputs (output_0.npy, ...) are
    /// written to the report's folder, and losses are measured on these samples instead of those of --calibrate
    #[arg(long, value_name = "DIR", requires = "report")]
    pub evaluate: Option<PathBuf>,
    /// Whether each kernel's weights have their own scale, or all weights of a layer share one
    #[arg(long, value_enum, default_value_t = Scaling::Kernel)]
    pub weights: Scaling,
    /// When 3x3 convolutions run in Winograd's mode, which nv_full has [default: in fp16 where it is faster; never in int8, where
    /// it reduces accuracy]
    #[arg(long, value_enum, value_name = "WHEN")]
    pub winograd: Option<Winograds>,
    /// With --winograd faster in int8, the most that Winograd's mode may lower the ratio of signal to noise of an output, in
    /// decibels. It is measured on the samples of --calibrate
    #[arg(long, value_name = "DB", requires_all = ["winograd", "calibrate"], value_parser = positive)]
    pub winograd_loss: Option<f64>,
    /// What the results of a softmax are that are outputs of an int8 network
    #[arg(long, value_enum, value_name = "AS", default_value_t = Softmax::Half)]
    pub softmax: Softmax,
    /// What the loadable is optimized for
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Goal::Time)]
    pub optimize: Goal,
    /// The bytes of the device's SRAM, in which tensors then lie where that takes less time: a number, or one with K or M, as in
    /// 512K [default: 0, all tensors in DRAM]
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0", hide_default_value = true)]
    pub sram: u64,
    /// Write the network of steps as it is after this pass beside the loadable (FILE.PASS.dot), for Graphviz and Netron
    #[arg(long, value_name = "PASS", value_parser = PossibleValuesParser::new(PASSES))]
    pub dump: Option<String>,
    /// Print what was made as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Pictures per run. The inputs and outputs of the loadable have that many, and the weights are read once for several
    #[arg(long, value_name = "COUNT", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub batch: u32,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Precision {
    Int8,
    Fp16,
    /// int8, and int16 in the layers that lose most (nv_full; needs --calibrate)
    Mixed,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Input {
    /// 0 to 127
    I8,
    /// 0 to 255
    U8,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Scaling {
    Kernel,
    Layer,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub enum Winograds {
    Never,
    /// Where the estimated time is shorter
    Faster,
    /// Wherever it is possible
    Always,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Softmax {
    /// Numbers in half precision
    Half,
    /// Integers in steps of 1/127, which NVIDIA's runtime computes too
    Int8,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Goal {
    /// Less time: a convolution is computed in bands of lines where that lets its input be fetched ahead
    Time,
    /// A smaller loadable: each layer is computed as a whole
    Size,
    /// Less memory for activations: consecutive layers are computed in bands of lines, which takes more time
    Memory,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Colors {
    Rgb,
    Bgr,
    Gray,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Resizing {
    /// Scale to the input's size; proportions may change
    Stretch,
    /// Scale by the shorter side, and use the middle
    Crop,
}

/// A configuration of the hardware: its name, or a file.
///
/// # Errors
///
/// If there is none of that name.
pub fn configuration(name: &str) -> Result<Board, String> {
    configuration::board(name).map_err(|error| error.to_string())
}

/// A number above 0.
///
/// # Errors
///
/// If the text is something else.
pub fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(number),
        Ok(_) => Err("it must be above 0".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "it is not a number from 0 to 100".to_owned())
}

/// A shape of an input, as in `NAME=1x3x224x224`.
///
/// # Errors
///
/// If the text is something else.
pub fn shape(text: &str) -> Result<(String, Vec<usize>), String> {
    let (name, extents) = text.rsplit_once('=').ok_or("a shape is given as NAME=1x3x224x224")?;
    let extent =
        |text: &str| text.parse().ok().filter(|&extent| extent > 0).ok_or_else(|| format!("the size {text:?}"));
    Ok((name.to_owned(), extents.split('x').map(extent).collect::<Result<_, _>>()?))
}
