// SPDX-License-Identifier: MIT OR Apache-2.0

//! From a model to a loadable: the program `nvdla_compiler` as a library.
//!
//! ```no_run
//! use std::path::Path;
//! use nvdla_compiler::compiler::Compiler;
//! use nvdla_compiler::import::model::{Model, Options};
//! use nvdla_compiler::ir::Preprocess;
//! use nvdla_uapi::config::Config;
//!
//! let model = Model::open(Path::new("model.onnx"), &Options::default())?;
//! let config = Config::by_name("nv_small").ok_or("no such configuration")?;
//! let preprocess = Preprocess { mean: vec![127.0], std: vec![128.0], ..Preprocess::default() };
//! let compiled = Compiler::new(config).preprocess(preprocess).calibrate("photos").compile(&model)?;
//! std::fs::write("model.nvdla", compiled.loadable)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::iter;
use std::ops;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;

use nvdla_estimate::Conditions;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;

use crate::bounds::{self, Bounds};
use crate::build::nodes;
use crate::calibrate::{self, samples, table, Measured, Method};
use crate::evaluate::choice::{self, Form, Network};
use crate::evaluate::judge::Judge;
use crate::evaluate::{budget, mixed};
use crate::import::model::Model;
use crate::ir::{Graph, Node, Preprocess, Range, Ranges, Refusal, Unreadable};
use crate::net::dump;
use crate::net::step::Net;
use crate::numbers::doubts::{unknown_arguments, unknown_squares};
use crate::numbers::fp16;
use crate::options::{Bytes, Optimize, Options, Shares, Winograd};
use crate::output::compiled::Compiled;
use crate::pipeline;
use crate::quantize::Granularity;
use crate::target;

/// The number of samples on which the losses of layers are measured.
pub const FEW_SAMPLES: usize = 4;
/// The greatest number of samples of each half on which calibration methods are compared.
const HELD_OUT: usize = 4;
/// The largest share of the layers that has int16 in mixed precision, if none is given.
pub const MIXED_SHARE: f64 = 0.25;

/// Why a model cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// int8 without a source for the ranges of the activations.
    #[error(
        "int8 needs the range of each activation: give samples (option calibrate), a table of scales (option calibtable), or a \
         quantized model"
    )]
    NoScales,
    /// Mixed precision, or a budget for the loss by Winograd's mode, without samples.
    #[error(
        "mixed precision and a budget for the loss by Winograd's mode need samples, on which the losses of the layers are measured \
         (option calibrate)"
    )]
    NoSamples,
    /// The convolutions in Winograd's mode cannot be chosen.
    #[error("the budget for the loss by Winograd's mode: {0}")]
    Budget(mixed::Failure),
    /// No network in mixed precision is chosen.
    #[error("mixed precision: {0}")]
    Mixed(#[from] mixed::Failure),
    /// Calibration failed.
    #[error(transparent)]
    Calibration(#[from] calibrate::Error),
    /// The network cannot be compiled for the configuration.
    #[error(transparent)]
    Lowering(#[from] crate::error::Error),
    /// The preprocessing does not fit an input.
    #[error("the preprocessing of the input {0:?}: {1}")]
    Preprocess(String, String),
}

/// The refusal of a node.
fn refusal(node: &Node, operator: &str, reason: String) -> Refusal {
    Refusal { node: node.name.clone(), operator: operator.to_owned(), shapes: Vec::new(), reason }
}

/// The functions that are steep everywhere, of whose arguments nothing is known.
fn steep(graph: &Graph, ranges: &Ranges, bounds: &[Bounds]) -> Vec<Refusal> {
    let refused = unknown_arguments(graph, ranges, bounds).map(|(node, unary)| {
        let reason = format!("nothing is known of the arguments of {}, so no lookup table covers them", unary.name());
        refusal(node, unary.name(), reason)
    });
    refused.collect()
}

/// A network with the ranges of its activations.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// The network that is compiled: the model, or the model equalised.
    pub model: Model,
    /// The ranges of its activations.
    pub ranges: Ranges,
    /// The ranges of the activations of the model itself.
    pub own: Ranges,
}

/// What to compile for, and how: the options of a compilation, and where the ranges of activations come from.
#[derive(Clone, Debug)]
pub struct Compiler {
    options: Options,
    /// In mixed precision, the largest share of the layers that has int16.
    mixed: Option<f64>,
    /// The most that Winograd's mode may lower an output's ratio of signal to noise, in decibels.
    budget: Option<f64>,
    preprocess: Option<Preprocess>,
    samples: Option<PathBuf>,
    table: Option<String>,
    method: Option<Method>,
    progress: Progress,
}

/// Told what is being computed, and how much of it is done, from 0 to 1.
type Tell = dyn Fn(&str, f64) + Send + Sync;

/// Who is told.
#[derive(Clone, Default)]
struct Progress(Option<Arc<Tell>>);

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").field(&self.0.is_some()).finish()
    }
}

impl Progress {
    fn tell(&self, what: &str, done: usize, of: usize) {
        if let Some(tell) = &self.0 {
            tell(what, done as f64 / of.max(1) as f64);
        }
    }
}

impl Compiler {
    /// For a configuration, in int8, with a scale per kernel.
    pub fn new(config: &'static Config) -> Self {
        let options = Options::new(config);
        let progress = Progress::default();
        Self {
            options,
            mixed: None,
            budget: None,
            preprocess: None,
            samples: None,
            table: None,
            method: None,
            progress,
        }
    }

    /// Calls a function with what is being computed and how much of it is done, from 0 to 1, during work that may take long.
    #[must_use]
    pub fn progress(self, tell: impl Fn(&str, f64) + Send + Sync + 'static) -> Self {
        Self { progress: Progress(Some(Arc::new(tell))), ..self }
    }

    /// int8 or fp16.
    #[must_use]
    pub fn precision(mut self, precision: Precision) -> Self {
        self.options.precision = precision;
        self
    }

    /// Mixed precision: int8, and int16 in at most the given share (from 0 to 1) of the layers, which are those that lose most
    /// ([`mixed`]). It needs samples, and a configuration with int16.
    #[must_use]
    pub fn mixed(mut self, share: f64) -> Self {
        (self.options.precision, self.mixed) = (Precision::Int8, Some(share));
        self
    }

    /// Whether each kernel's weights have a scale of their own.
    #[must_use]
    pub fn granularity(mut self, granularity: Granularity) -> Self {
        self.options.granularity = granularity;
        self
    }

    /// How the bytes of pictures become the values of inputs. Inputs of one, three or four channels are then given as bytes when
    /// the loadable runs.
    #[must_use]
    pub fn preprocess(self, preprocess: Preprocess) -> Self {
        Self { preprocess: Some(preprocess), ..self }
    }

    /// Measures ranges on the samples of a folder ([`samples::list`]).
    #[must_use]
    pub fn calibrate(self, folder: impl Into<PathBuf>) -> Self {
        Self { samples: Some(folder.into()), ..self }
    }

    /// Uses the scales of a table ([`table::read`]); scales that it lacks are measured.
    #[must_use]
    pub fn table(self, text: impl Into<String>) -> Self {
        Self { table: Some(text.into()), ..self }
    }

    /// The number of bits of a picture's bytes that an int8 network reads. Eight are used only if a convolution reads the
    /// picture.
    #[must_use]
    pub fn bytes(mut self, bytes: Bytes) -> Self {
        self.options.bytes = bytes;
        self
    }

    /// What the results of a softmax are that are outputs of an int8 network.
    #[must_use]
    pub fn shares(mut self, shares: Shares) -> Self {
        self.options.shares = shares;
        self
    }

    /// When convolutions run in Winograd's mode. By default in fp16 where it takes less time, and never in int8.
    #[must_use]
    pub fn winograd(mut self, winograd: Winograd) -> Self {
        self.options.winograd = Some(winograd);
        self
    }

    /// With int8 and [`Winograd::Faster`]: convolutions run in Winograd's mode only while no output's ratio of signal to noise falls
    /// by more than this number of decibels ([`budget`]). It needs samples.
    #[must_use]
    pub fn winograd_loss(mut self, decibels: f64) -> Self {
        self.budget = Some(decibels);
        self
    }

    /// The goal for which the order of operations is chosen. By default, time.
    #[must_use]
    pub fn optimize(mut self, optimize: Optimize) -> Self {
        self.options.optimize = optimize;
        self
    }

    /// Lets tensors lie in SRAM, which the device has that many bytes of. By default, and with 0 bytes, all are in DRAM. The
    /// configuration needs a secondary memory interface.
    #[must_use]
    pub fn sram(mut self, bytes: u64) -> Self {
        self.options.sram = bytes;
        self
    }

    /// The clock, the memories and the bus of the board, by which times are estimated.
    #[must_use]
    pub fn conditions(mut self, conditions: Conditions) -> Self {
        self.options.conditions = conditions;
        self
    }

    /// The number of pictures that a run computes. Inputs and outputs of the loadable have that many, and the weights are there once.
    /// By default 1, with which alone losses can be measured.
    #[must_use]
    pub fn batch(mut self, pictures: u32) -> Self {
        self.options.pictures = pictures;
        self
    }

    /// How scales are chosen from the measured values. By default, by the method of
    /// [`crate::evaluate::choice`].
    #[must_use]
    pub fn method(self, method: Method) -> Self {
        Self { method: Some(method), ..self }
    }

    /// The preprocessing of each input. None: the input is not given as a picture.
    pub fn inputs(&self, graph: &Graph) -> Result<Vec<Option<Preprocess>>, Error> {
        let Some(preprocess) = &self.preprocess else { return Ok(vec![None; graph.inputs.len()]) };
        let of = |tensor: &crate::ir::Tensor| match tensor.shape[..] {
            [1, channels @ (1 | 3 | 4), _, _] => match preprocess.check(channels) {
                Ok(()) => Ok(Some(preprocess.clone())),
                Err(reason) => Err(Error::Preprocess(tensor.name.clone(), reason)),
            },
            _ => Ok(None),
        };
        graph.inputs.iter().map(|&id| of(graph.tensor(id))).collect()
    }

    /// The network that is compiled, and the range of each activation. fp16 does not need ranges, but uses those that are known.
    ///
    /// An int8 network with a scale per kernel, whose ranges are all measured, is equalised ([`crate::equalize`]) if that changes
    /// its outputs less on samples.
    pub fn calibrated(&self, model: &Model) -> Result<Calibrated, Error> {
        let graph = &model.graph;
        let same = |ranges: Ranges| Calibrated { model: model.clone(), own: ranges.clone(), ranges };
        let mut given = calibrate::of_model(graph);
        let quantized = graph.tensors.iter().any(|tensor| tensor.quantization.is_some());
        if let Some(text) = &self.table {
            let read = table::read(text, graph)?;
            given.doubts.clone_from(&read.doubts);
            graph.tensors.iter().enumerate().for_each(|(k, _)| {
                let id = crate::ir::TensorId(k);
                if let Some(range) = read.get(id) {
                    given.set(id, *range);
                }
                if let Some(means) = read.means(id) {
                    given.set_means(id, means.clone());
                }
            });
        }
        let Some(folder) = self.samples.as_deref() else {
            if self.options.precision == Precision::Fp16 {
                return Ok(same(given));
            }
            if self.table.is_none() && !quantized {
                return Err(Error::NoScales);
            }
            return Ok(same(calibrate::complete(graph, given, None)));
        };
        let inputs: Vec<Preprocess> = self.inputs(graph)?.into_iter().map(Option::unwrap_or_default).collect();
        let list = samples::list(folder)?;
        let read = |path: &PathBuf| samples::read(path, graph, &inputs);
        let begun = AtomicUsize::new(0);
        let told = |path: &PathBuf| {
            self.progress.tell("calibration", begun.fetch_add(1, Relaxed), list.len());
            read(path)
        };
        if self.options.precision == Precision::Fp16 {
            let measured = Measured::limits(graph).with(graph, list.iter().map(told))?;
            return Ok(same(measured.ranges(Method::Max)));
        }
        // Choices are made on samples that have not been measured: on those that have, no value is beyond a range. Each half of the
        // samples is measured, and shows what it is worth on the other half.
        let half = |k: usize| list.iter().skip(k).step_by(2).collect();
        let halves: [Vec<&PathBuf>; 2] = [half(0), half(1)];
        let complete = |graph: &Graph, given: &Ranges, measured: &Measured, method: Method| {
            calibrate::complete(graph, given.clone(), Some(&measured.ranges(method)))
        };
        let doubted = |mut ranges: Ranges, all: &Measured| {
            let order: Vec<_> = halves.iter().flatten().map(|path| path.as_path()).collect();
            ranges.doubts.extend(all.uncommon(graph).map(|found| found.text(graph, &order)));
            ranges
        };
        // Runs a part of a half, and keeps the samples on which the other half's scales are compared.
        let run = |half: &[&PathBuf], part: ops::Range<usize>, to: &mut Measured| {
            let held = HELD_OUT.min(half.len());
            let mut kept = Vec::with_capacity(held);
            for at in part {
                let sample = told(half[at])?;
                let outputs = calibrate::run(graph, &sample, to)?;
                if (0..held).any(|k| k * half.len() / held == at) {
                    kept.push((sample, outputs));
                }
            }
            Ok::<_, Error>(kept)
        };
        // The bins of both halves are as wide as the first sample says, so that the scales are those of all samples. A single sample is
        // both halves.
        let mut one = Measured::empty(graph);
        let mut first = run(&halves[0], 0..1, &mut one)?;
        let (other, second) = if list.len() == 1 {
            (None, first.clone())
        } else {
            let mut other = one.beside();
            let rest = || run(&halves[0], 1..halves[0].len(), &mut one);
            let others = || run(&halves[1], 0..halves[1].len(), &mut other);
            let (rest, second) = rayon::join(rest, others);
            first.extend(rest?);
            (Some(other), second?)
        };
        let joined = |mut one: Measured, other: Option<Measured>| {
            if let Some(other) = &other {
                one.join(other);
            }
            one
        };
        let even = self.table.is_none() && !quantized && self.options.granularity == Granularity::Kernel;
        let equalized = if even { one.even(graph) } else { None };
        if let Some(method) = self.method.filter(|_| equalized.is_none()) {
            let all = joined(one, other);
            return Ok(same(doubted(complete(graph, &given, &all, method), &all)));
        }
        let options = self.options(graph)?;
        let elements = graph.outputs.iter().map(|&id| graph.shape(id).iter().product::<usize>()).min().unwrap_or(1);
        let values = (first.len() + second.len()) * elements;
        let judges = [second, first].map(|samples| Judge::new(samples, &options));
        let methods = self.method.map_or(calibrate::METHODS.to_vec(), |method| vec![method]);
        let half = other.as_ref().unwrap_or(&one);
        let even = equalized.zip(half.even(graph)).map(|(one, other)| [one, other]);
        // The values of single channels are not needed for each half any more.
        let own = [one.whole(), half.whole()];
        let all = joined(one, other);
        let none = Ranges::new();
        let network = Network::Same(graph);
        let own = Form { name: "choice of scales", network, halves: own.each_ref(), given: &given, handicap: 1.0 };
        let make = |half: usize| even.as_ref().map_or_else(|| graph.clone(), |even| even[half].0.apply(graph));
        let equal = even.as_ref().map(|even| Form {
            name: "equalisation",
            network: Network::Own(&make),
            halves: even.each_ref().map(|(_, measured)| measured),
            given: &none,
            handicap: choice::equalised_noise(values),
        });
        let forms: Vec<Form<'_>> = iter::once(own).chain(equal).collect();
        let tell = |name: &str, at: usize| self.progress.tell(name, at, methods.len());
        let choice = choice::choose(&forms, &methods, &judges, &tell);
        let own = doubted(complete(graph, &given, &all, choice.own), &all);
        let equalised = choice.equalised.and_then(|method| Some((method, all.equalized(graph)?)));
        if let Some((method, (graph, equalized))) = equalised {
            let mut ranges = complete(&graph, &none, &equalized, method);
            ranges.doubts.clone_from(&own.doubts);
            return Ok(Calibrated { model: Model { graph, ..model.clone() }, ranges, own });
        }
        Ok(same(own))
    }

    /// The first samples of a folder, at most `most`: the values of the graph's inputs.
    pub fn samples(&self, graph: &Graph, folder: &Path, most: usize) -> Result<Vec<Vec<Vec<f32>>>, Error> {
        let inputs: Vec<Preprocess> = self.inputs(graph)?.into_iter().map(Option::unwrap_or_default).collect();
        let list = samples::list(folder)?;
        let read = list.iter().take(most).map(|path| samples::read(path, graph, &inputs));
        Ok(read.collect::<Result<_, _>>()?)
    }

    /// Compiles a model.
    pub fn compile(&self, model: &Model) -> Result<Compiled, Error> {
        let Calibrated { model, ranges, .. } = self.calibrated(model)?;
        self.compile_with(&model, &ranges)
    }

    /// Compiles a model with ranges that are known.
    pub fn compile_with(&self, model: &Model, ranges: &Ranges) -> Result<Compiled, Error> {
        let graph = &model.graph;
        self.progress.tell("compilation", 0, 1);
        let options = self.options(graph)?;
        let told = |mut compiled: Compiled| {
            compiled.report.reshaped = model.reshaped.iter().map(ToString::to_string).collect();
            compiled
        };
        let samples = || self.samples(graph, self.samples.as_deref().ok_or(Error::NoSamples)?, FEW_SAMPLES);
        if let Some(budget) = self.budget {
            budget::check(&options, self.mixed.is_some())?;
            let tell = |done, of| self.progress.tell("Winograd's mode", done, of);
            let chosen = budget::choose(graph, ranges, &options, &samples()?, budget, &tell);
            return Ok(told(chosen.map_err(Error::Budget)?));
        }
        if let Some(share) = self.mixed {
            target::mixed(options.config)?;
            return Ok(told(mixed::choose(graph, ranges, &options, &samples()?, share)?));
        }
        Ok(told(pipeline::compile(graph, ranges, &options)?))
    }

    /// The network of steps of a model after one of [`pipeline::PASSES`], for a person: see [`dump::dot`]. In mixed precision it is
    /// that of the network in int8.
    pub fn dump(&self, model: &Model, ranges: &Ranges, pass: &str) -> Result<String, Error> {
        let mut text = String::new();
        let mut look = |name: &str, net: &Net| {
            if name == pass {
                text = dump::dot(net);
            }
        };
        pipeline::observed(&model.graph, ranges, &self.options(&model.graph)?, &mut look)?;
        Ok(text)
    }

    fn options(&self, graph: &Graph) -> Result<Options, Error> {
        Ok(Options { inputs: self.inputs(graph)?, ..self.options.clone() })
    }

    /// Whether a model that is not quantized lacks the ranges of its activations: in int8 without samples and without a table.
    pub fn lacks_scales(&self) -> bool {
        self.options.precision == Precision::Int8 && self.samples.is_none() && self.table.is_none()
    }

    /// Whether activations have scales: their numbers are integers.
    pub(crate) fn has_scales(&self) -> bool {
        self.options.precision != Precision::Fp16
    }

    /// The steep functions of whose arguments neither a table of scales nor the model gives the range. In int8 the range would follow
    /// from those of other tensors, and its steps would be far too large.
    pub(crate) fn unknown(&self, graph: &Graph) -> Vec<Refusal> {
        let none = vec![bounds::UNKNOWN; graph.tensors.len()];
        steep(graph, &self.known(graph), &none)
    }

    /// The ranges that a table or the model gives.
    fn known(&self, graph: &Graph) -> Ranges {
        let given = self.table.as_deref().and_then(|text| table::read(text, graph).ok());
        given.unwrap_or_else(|| calibrate::of_model(graph))
    }

    /// Finds all nodes that have no steps in the configuration, steep functions of whose arguments nothing is known, and factors beyond
    /// half precision. Compiling may still refuse a layer; see [`Self::check`].
    ///
    /// # Errors
    ///
    /// The nodes.
    pub fn maps(&self, model: &Model) -> Result<(), Unreadable> {
        let graph = &model.graph;
        let bounds = crate::bounds::bounds(graph, &[]);
        let integers = self.options.precision == Precision::Int8;
        let known = nodes::Known { bounds: &bounds, limited: None, integers, halves: true };
        nodes::build(graph, &Ranges::new(), &known, self.options.config)?;
        // Int8 has a range of each tensor, and its own scale of each constant.
        if integers {
            return Ok(());
        }
        let ranges = self.known(graph);
        let unknown = steep(graph, &ranges, &bounds);
        let large = fp16::large_factors(graph).map(|(node, factor)| {
            let greatest = fp16::GREATEST;
            refusal(
                node,
                node.op.name(),
                format!("its factor {factor} is beyond half precision, which ends at {greatest}"),
            )
        });
        let squares = unknown_squares(graph, &ranges, &bounds).map(|(node, _)| {
            refusal(node, "LRN", "nothing is known of its values, so no lookup table covers their squares".to_owned())
        });
        let refused: Vec<Refusal> = unknown.into_iter().chain(large).chain(squares).collect();
        if refused.is_empty() {
            return Ok(());
        }
        Err(Unreadable(refused, Vec::new()))
    }

    /// Compiles a model without calibration: its loadable takes as long as with calibration, and computes other values. In int8,
    /// tensors whose range is not known have one that their operators allow. What is computed with other ranges compiles, too: they
    /// change numbers alone.
    ///
    /// # Errors
    ///
    /// As [`Self::compile_with`], with all nodes that the configuration cannot compute.
    pub fn uncalibrated(&self, model: &Model) -> Result<Compiled, Error> {
        let graph = &model.graph;
        if self.mixed.is_some() {
            target::mixed(self.options.config)?;
        }
        let options = self.options(graph)?;
        let mut ranges = calibrate::of_model(graph);
        if self.options.precision == Precision::Int8 {
            ranges = calibrate::complete(graph, ranges, None);
            let bounds = crate::bounds::bounds(graph, &options.inputs);
            for (k, tensor) in graph.tensors.iter().enumerate() {
                let id = crate::ir::TensorId(k);
                if tensor.constant.is_none() && ranges.get(id).is_none() {
                    ranges.set(id, possible(bounds[k]));
                }
            }
        }
        Ok(pipeline::compile(graph, &ranges, &options)?)
    }

    /// Finds out whether a model can be compiled, which does not need calibration.
    ///
    /// # Errors
    ///
    /// As [`Self::uncalibrated`].
    pub fn check(&self, model: &Model) -> Result<(), Error> {
        self.uncalibrated(model).map(drop)
    }
}

/// A range within bounds.
fn possible((low, high): crate::bounds::Bounds) -> Range {
    let end = |value: f32, default: f32| if value.is_finite() { value } else { default };
    let (least, most) = (end(low, end(high, 1.0).min(0.0) - 1.0), end(high, end(low, -1.0).max(0.0) + 1.0));
    Range::of(least, most.max(least))
}
