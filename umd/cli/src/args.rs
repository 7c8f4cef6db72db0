// SPDX-License-Identifier: MIT OR Apache-2.0

//! The command line.

use clap::{ArgAction, Parser, ValueEnum};
use nvdla_compiler::arguments::BoardArguments;
use nvdla_runtime::device::Selection;
use std::path::PathBuf;
use std::time::Duration;

/// Runs an NVDLA loadable and shows the results
#[derive(Parser, Debug)]
#[command(name = "nvdla_runtime", version, max_term_width = 100)]
pub(crate) struct RuntimeArgs {
    #[command(flatten)]
    pub(crate) common: Args,

    /// Print more messages; repeat it for still more (-vv, -vvv)
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// Options of `nvdla run`.
#[derive(clap::Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) common: Args,
}

/// The options that `nvdla run` and `nvdla_runtime` have in common.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Args {
    /// The loadable: a network that was compiled for NVDLA; "-" is the standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) loadable: PathBuf,

    /// An image (pgm, ppm, png or jpeg) for the first input; repeat it for the further images of a batch
    ///
    /// With a folder, the loadable runs once for each picture in it, in the order of their names. The results of each are shown, with
    /// --json as one object per picture, and --output-dir gets a folder per picture. output.dimg (of nvdla_runtime) is not written.
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) image: Vec<PathBuf>,

    /// Divide each sample of the image by this, after the mean is subtracted; only for formats of more than 8 bits [default: 1]
    ///
    /// A loadable of this project's compiler has the divisor, the mean and the order of channels of its network. Options that
    /// repeat them change nothing, and options that contradict them are errors.
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub(crate) normalize: Option<f32>,

    /// Subtract these numbers, one per channel, from each sample of the image; only for formats of more than 8 bits
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',', allow_hyphen_values = true)]
    pub(crate) mean: Vec<f32>,

    /// Which colour of the image is channel 0 [default: bgr, or what the loadable says]
    #[arg(long, value_name = "ORDER", value_enum)]
    pub(crate) channel_order: Option<ChannelOrder>,

    /// Scale an image to the size of the input
    #[arg(long)]
    pub(crate) resize: bool,

    /// The colour behind transparent parts of an image: "white", "black" or "#rrggbb"
    #[arg(long, value_name = "COLOR", value_parser = color)]
    pub(crate) background: Option<[u8; 3]>,

    /// Write the elements of output.dimg (of nvdla_runtime) as text
    #[arg(long)]
    pub(crate) rawdump: bool,

    /// The device that runs the loadable [default: the environment variable NVDLA_DEVICE, else "auto"]
    ///
    /// "auto" is the first NVDLA device, else the model. "model" is the model of the configuration that the loadable was compiled
    /// for, "model:CONFIGURATION" is the model of another configuration (a name, or a file FILE.json). "rtl:PROGRAM" is a
    /// simulator that cargo xtask rtl has built, with its options as in "rtl:PROGRAM,latency=100,bandwidth=8". A path is a device
    /// node. "vfio:NAME", "uio:NODE[,memory=SIZE@START]" and "vfio-user:SOCKET" are devices without their driver.
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<Selection>,

    /// Fill an input tensor from a file: its bytes as they lie in memory, or (.npy) its numbers in NCHW order. Without NAME, the
    /// first input
    ///
    /// NAME is the tensor's name or its number. If names contain equals signs, the longest name that the argument begins with is
    /// used. Write a FILE with an equals sign in its name as 0=FILE. "-" is the standard input.
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) input: Vec<String>,

    /// Write an output tensor to a file: its bytes as they lie in memory, or (.npy) its numbers in NCHW order. Without NAME, the
    /// first output
    ///
    /// NAME is as for --input. "-" is the standard output; everything else is then printed to the standard error.
    #[arg(long, value_name = "[NAME=]FILE")]
    pub(crate) output: Vec<String>,

    /// Write every output to this folder, as NAME.npy with its numbers in NCHW order
    #[arg(long, value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,

    /// Write the surface that each operation made to this folder, as op_t<task>_<operation>_<UNIT>.bin, and the layer of
    /// each to layers.txt
    #[arg(long, value_name = "DIR")]
    pub(crate) dump: Option<PathBuf>,

    /// Record the run in this folder as a hardware trace (on the model or on rtl:PROGRAM), which nvdla_trace plays
    ///
    /// The trace has every register write, the contents of memory before each task, and what each operation must write.
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,

    /// Compare the surface that each operation made with the files of this folder, and show the first that differs
    #[arg(long, value_name = "DIR")]
    pub(crate) compare: Option<PathBuf>,

    /// The number of best classes to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) top: usize,

    /// A file with the names of the classes, one per line
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,

    /// Run this many times, and show the least, median and greatest time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) repeat: u32,

    /// The time limit of each task in milliseconds, also of emulated tasks [default: the device's limit]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) timeout: Option<Duration>,

    /// Run operations that race in the order of their list
    ///
    /// Some compilers omit dependencies between operations, so that the result depends on how long each operation
    /// takes. This option adds the missing dependencies before the tasks are submitted. nvdla_inspect --check lists
    /// such operations.
    #[arg(long)]
    pub(crate) order: bool,

    /// Change poolings that the device cannot compute to ones that it can
    ///
    /// NVIDIA's compiler makes wider parts than the small configurations have room for, which a device refuses. This option
    /// changes the number and the widths of the parts before the tasks are submitted. Lines and columns of a pooling's input that
    /// no window reads are left out. The output is the same.
    #[arg(long)]
    pub(crate) repair: bool,

    /// The time limit of a run of all tasks in milliseconds [default: ten minutes, or the limit of one task if that is longer]
    #[arg(long, value_name = "MS", value_parser = milliseconds)]
    pub(crate) run_timeout: Option<Duration>,

    /// Show an estimate of each operation's time on hardware, and the measured time if the device counts cycles; with a file,
    /// write it as a trace for Perfetto
    #[allow(clippy::option_option)] // the option without a value, and with one
    #[arg(long, value_name = "FILE.json", num_args = 0..=1, require_equals = true)]
    pub(crate) profile: Option<Option<PathBuf>>,

    /// What --profile leaves out of these is the simulator's on a simulator of the RTL, else the loadable's.
    #[command(flatten)]
    pub(crate) board: BoardArguments,

    /// Write a waveform of the design (with --device rtl:PROGRAM, built for it)
    #[arg(long, value_name = "FILE")]
    pub(crate) trace_fst: Option<PathBuf>,

    /// The number of operations that complete before the waveform begins
    #[arg(long, value_name = "N", default_value_t = 0, requires = "trace_fst")]
    pub(crate) trace_from: usize,

    /// Print the results as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// See [`nvdla_runtime::image::Order`].
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum ChannelOrder {
    /// Blue, green, red, as Caffe's networks have it
    Bgr,
    /// Red, green, blue
    Rgb,
}

fn color(text: &str) -> Result<[u8; 3], String> {
    match text {
        "white" => return Ok([255; 3]),
        "black" => return Ok([0; 3]),
        _ => {}
    }
    let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6);
    let number = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    number
        .map(|number| [(number >> 16) as u8, (number >> 8) as u8, number as u8])
        .ok_or_else(|| format!("{text:?} is not a colour: \"white\", \"black\" or \"#rrggbb\""))
}

fn milliseconds(text: &str) -> Result<Duration, String> {
    let number: u64 = text.parse().map_err(|error| format!("{error}"))?;
    if number == 0 {
        return Err("a task needs at least 1 ms".to_owned());
    }
    Ok(Duration::from_millis(number))
}
