// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lowers a graph to a loadable of one configuration.
//!
//! ```text
//!   nodes     converts nodes to steps, with arithmetic, windows, moves, and linear (products with a matrix)
//!   fuse      joins steps (step defines them)
//!   crop      removes lines and columns that no step reads
//!   mixed     which tensors have 16 bits, and copies that convert
//!   place     channel maps, views of buffers
//!   scales    the scale of every tensor
//!   winograd  which convolutions run in Winograd's mode
//!   numbers   weights, operands and tables of every step: int8, fp16; tails (beyond a table's arguments)
//!   stripes   which steps are computed in bands of lines
//!   convolution, sdp, pool   the operations of a step
//!   prefetch  which convolutions are divided, so that CDMA fetches for one part while another is computed
//! ```

mod arithmetic;
mod convolution;
mod crop;
mod fp16;
mod fuse;
mod int8;
mod linear;
pub(crate) mod mixed;
mod moves;
pub(crate) mod nodes;
pub mod numbers;
pub mod place;
mod pool;
mod prefetch;
pub mod scales;
mod sdp;
pub mod step;
mod stripes;
mod tails;
mod view;
mod windows;
mod winograd;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{self, Lut};
use nvdla_uapi::layout::align::{Alignment, Data};
use nvdla_uapi::layout::feature::{self, Atoms};
use nvdla_uapi::layout::pixel::Image;
use nvdla_uapi::reg::csc;
use nvdla_uapi::reg::values::{PixelFormat, Precision};

use crate::assemble::memory::Plan;
use crate::assemble::program::{Buffer, Cube, Emulated, Format, Program, StepInfo, Storage, TensorScale, Unit};
use crate::assemble::report::{Division, Report};
use crate::assemble::sram::Sram;
use crate::assemble::{check, emit, fly, memory, report};
use crate::error::Error;
use crate::ir::{self, Color, Graph, Preprocess, Ranges};
use crate::measure::{Layout, Stored};
use crate::quantize::Granularity;
use convolution::{Mode, REGISTER_WRITE};
use numbers::{Numbers, Quantizer, Scale};
use place::Placed;
use prefetch::Bands;
use step::{Kind, Lrn, Net, PostOp, Step, TensorId};
use stripes::{InSram, Stripe};
use view::{Region, View};
pub use winograd::Winograd;

/// Bytes of SRAM per cycle for time estimates: the default of `nvdla_runtime --profile`.
const SRAM_BYTES_PER_CYCLE: f64 = 25.0;
/// Bits of half precision after the first bit of a number.
const HALF_FRACTION_BITS: f64 = 10.0;

/// The options of a compilation.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration.
    pub config: &'static Config,
    /// int8, or fp16 where the configuration has it.
    pub precision: Precision,
    /// With int8: the tensors of the graph whose layers compute in int16, where the configuration has it. Tensors that no layer
    /// of convolution or SDP makes do not count.
    pub wide: HashSet<ir::TensorId>,
    /// Whether each kernel's weights have a scale of their own.
    pub granularity: Granularity,
    /// For each input of the graph that is given as bytes, its preprocessing. None for an input that is given as integers with a
    /// scale, which the loadable names (`nvdla_runtime::session::Session::set_input_f32`).
    pub inputs: Vec<Option<Preprocess>>,
    /// In int8, how many bits of a picture's bytes are used.
    pub bytes: Bytes,
    /// When convolutions run in Winograd's mode. None: in fp16 if it takes less time, and never in int8, where it reduces
    /// accuracy.
    pub winograd: Option<Winograd>,
    /// What the order of operations is chosen for.
    pub optimize: Optimize,
    /// Bytes of the device's SRAM in which tensors may lie, where the configuration has a memory interface for it; 0 for none.
    pub sram: u64,
}

/// What the order of operations is chosen for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Optimize {
    /// Time: a convolution is divided into bands of lines, whose input is fetched during the band before, where the relative
    /// gain in time is at least four times the relative growth of the loadable. With SRAM, runs of steps are computed in bands, too,
    /// where that takes less time.
    #[default]
    Time,
    /// The loadable's size: each step is computed as a whole.
    Size,
    /// The same bands as for time, but as many as possible. For tests.
    Prefetch,
    /// The memory of activations: runs of steps are computed in bands of lines, as long as the pool's relative reduction is at
    /// least twice the relative increase of the time.
    Memory,
    /// The least time with a pool of at most this many bytes, else the smallest pool.
    Pool(u64),
}

impl Options {
    /// int8, a scale per kernel, no input given as bytes.
    pub fn new(config: &'static Config) -> Self {
        Self {
            config,
            precision: Precision::Int8,
            wide: HashSet::new(),
            granularity: Granularity::Kernel,
            inputs: Vec::new(),
            bytes: Bytes::default(),
            winograd: None,
            optimize: Optimize::default(),
            sram: 0,
        }
    }
}

/// A compiled network.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The loadable's bytes.
    pub loadable: Vec<u8>,
    /// The report of the compilation.
    pub report: Report,
    /// The steps with their numbers, for [`crate::integers`].
    pub steps: Lowered,
    /// The configuration.
    pub config: &'static Config,
    /// For each input that is given as bytes, the conversion from bytes to elements.
    pub bytes: Vec<Bytes>,
    /// The places of tensors in memory, for [`crate::measure`].
    pub layout: Layout,
}

/// The conversion from a picture's byte to an element of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bytes {
    /// Integers from 0 to 127, as NVIDIA's runtime writes them.
    #[default]
    Seven,
    /// The byte itself.
    Eight,
    /// The byte in half precision.
    Half,
}

impl Bytes {
    fn per_byte(self) -> f64 {
        match self {
            Self::Seven => 127.0 / 255.0,
            Self::Eight | Self::Half => 1.0,
        }
    }

    /// The element's value.
    pub fn element(self, byte: u8) -> f32 {
        match self {
            Self::Seven => f32::from(crate::quantize::image_value(byte)),
            Self::Eight | Self::Half => f32::from(byte),
        }
    }
}

/// The steps of a network with their numbers.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The steps.
    pub net: Net,
    /// The numbers of each step.
    pub numbers: Vec<Numbers>,
    /// Lookup tables.
    pub tables: Vec<Lut>,
    /// The scale of each tensor.
    pub scales: Vec<Scale>,
}

/// An input that is given as bytes: value = (integer - zero) * scale, per channel.
#[derive(Clone, Debug)]
pub struct ByteInput {
    preprocess: Preprocess,
    bytes: Bytes,
}

impl ByteInput {
    /// The scale of a channel.
    pub fn scale(&self, channel: usize) -> f64 {
        1.0 / self.bytes.per_byte() / f64::from(self.preprocess.channel(channel).1)
    }

    /// The integer that represents zero.
    pub fn zero(&self, channel: usize) -> f64 {
        f64::from(self.preprocess.channel(channel).0) * self.bytes.per_byte()
    }
}

/// The preprocessing of the inputs that are given as bytes.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// The configuration.
    pub config: &'static Config,
    known: HashMap<TensorId, ByteInput>,
}

impl Inputs {
    /// An input that is given as bytes.
    pub fn of(&self, tensor: TensorId) -> Option<&ByteInput> {
        self.known.get(&tensor)
    }

    /// Its scale: the greatest of its channels' scales.
    pub fn fixed(&self, tensor: TensorId) -> Option<f64> {
        let known = self.known.get(&tensor)?;
        (0..known.preprocess.std.len().max(1)).map(|c| known.scale(c)).reduce(f64::max)
    }

    fn uniform(&self, tensor: TensorId) -> bool {
        self.of(tensor).is_none_or(|known| {
            let count = known.preprocess.mean.len().max(known.preprocess.std.len());
            (0..count).all(|c| known.preprocess.channel(c) == known.preprocess.channel(0))
        })
    }
}

/// Compiles a graph.
pub fn compile(graph: &Graph, ranges: &Ranges, options: &Options) -> Result<Compiled, Error> {
    let Options { config, precision, granularity, .. } = *options;
    if !config.has_feature_type(precision) {
        return Err(Error::Network(format!("{} has no {precision:?}", config.name)));
    }
    if !options.wide.is_empty() {
        if precision != Precision::Int8 {
            return Err(Error::Network(format!("layers in int16 go with int8, not with {precision:?}")));
        }
        mixed::supported(config)?;
    }
    if options.sram > 0 && !config.secondary_memif {
        return Err(Error::Network(format!("{} has no memory interface for SRAM", config.name)));
    }
    if graph.outputs.is_empty() {
        return Err(Error::Network("the network has no output".to_owned()));
    }
    let mut net = nodes::build(graph, ranges, config).map_err(Error::Refused)?;
    let mut inputs = Inputs { config, known: HashMap::new() };
    for (&tensor, preprocess) in net.inputs.iter().zip(&options.inputs) {
        if let Some(preprocess) = preprocess {
            let bytes = if precision == Precision::Int8 { Bytes::Seven } else { Bytes::Half };
            inputs.known.insert(tensor, ByteInput { preprocess: preprocess.clone(), bytes });
        }
    }
    let mut given = inputs.clone();
    let images = images(&mut net, &mut inputs, precision);
    let mut bytes = vec![if precision == Precision::Int8 { Bytes::Seven } else { Bytes::Half }; net.inputs.len()];
    if options.bytes == Bytes::Eight {
        // Only CDMA's converter can read eight bits, and it works on images.
        for (index, tensor) in net.inputs.iter().enumerate() {
            if let Some(known) = inputs.known.get_mut(tensor).filter(|_| images.contains_key(tensor)) {
                (known.bytes, bytes[index]) = (Bytes::Eight, Bytes::Eight);
                given.known.insert(*tensor, known.clone());
            }
        }
    }
    let chosen = options.wide.iter().map(|id| id.0).collect();
    let copies = mixed::widen(&mut net, &chosen, |id| images.contains_key(&id), &inputs);
    let placed = place::place(net, config, precision, &images)?;
    let scales = scales::scales(&placed.net, &inputs, precision)?;
    let mut lowering = Lowering {
        config,
        precision,
        program: Program::new(graph.name.clone(), config, precision),
        placed: &placed,
        scales: &scales,
        buffers: HashMap::new(),
        band: None,
        inside: HashMap::new(),
        sram: None,
        bands: match options.optimize {
            Optimize::Time => Some(Bands::Worth),
            Optimize::Prefetch => Some(Bands::Most),
            _ => None,
        },
        warnings: Vec::new(),
    };
    lowering.sram = (options.sram > 0).then(|| lowering.sram(options.sram));
    lowering.buffers(&images)?;
    let faster = if precision == Precision::Fp16 { Winograd::Faster } else { Winograd::Never };
    let wanted = options.winograd.unwrap_or(faster);
    let mut quantizer = Quantizer {
        net: &placed.net,
        inputs: &inputs,
        scales: &scales,
        ranges,
        copies: &copies,
        precision,
        granularity,
        tables: Vec::new(),
        errors: Vec::new(),
    };
    let mut numbers = Vec::with_capacity(placed.net.steps.len());
    for step in &placed.net.steps {
        numbers.push(match step.kind {
            Kind::Convolution(_) | Kind::Copy => {
                let mode = if images.contains_key(&step.inputs[0]) {
                    Mode::Image
                } else if lowering.winograd(step, wanted) {
                    Mode::Winograd
                } else {
                    Mode::Direct
                };
                quantizer.step(step, mode)?
            }
            Kind::Lrn(ref lrn) => quantizer.normalisation(step, lrn)?,
            _ => Numbers::default(),
        });
    }
    let Quantizer { tables, errors, .. } = quantizer;
    lowering.program.tables.clone_from(&tables);
    let end = |&id: &TensorId| {
        let tensor = placed.net.tensors[id].name.clone();
        let Some(known) = given.of(id) else {
            let Scale { scale, zero } = scales[id];
            return TensorScale { tensor, scale: vec![scale], zero_point: vec![f64::from(zero)], unsigned: false };
        };
        // The runtime writes the channels of a picture in its own order.
        let channels = placed.net.tensors[id].shape[0] as usize;
        let order = component_order(channels as u32, known.preprocess.color);
        let in_memory = |of: &dyn Fn(usize) -> f64| {
            let mut values = vec![0.0; channels];
            order.iter().enumerate().for_each(|(channel, &at)| values[at as usize] = of(channel));
            values
        };
        let (scale, zero_point) =
            (in_memory(&|channel| known.scale(channel)), in_memory(&|channel| known.zero(channel)));
        TensorScale { tensor, scale, zero_point, unsigned: known.bytes == Bytes::Eight }
    };
    lowering.program.inputs = placed.net.inputs.iter().map(end).collect();
    lowering.program.outputs = placed.net.outputs.iter().map(end).collect();
    let mut best = lowering.clone().finished(&numbers, &[], &HashSet::new())?;
    let mut division = None;
    let in_time = options.optimize == Optimize::Time;
    let for_memory = matches!(options.optimize, Optimize::Memory | Optimize::Pool(_));
    if for_memory || in_time && lowering.sram.is_some() {
        let pool = best.1.activations();
        let cycles = match &lowering.sram {
            Some(sram) => sram.cycles(&best.0),
            None => report::report(&best.0, &best.1, None, Vec::new()).cycles,
        };
        let (mut stripes, flying) = lowering.stripes(&best.0, &numbers, options.optimize);
        let striped = lowering.clone().finished(&numbers, &stripes, &flying)?;
        let better = match &lowering.sram {
            // The bands also move fewer bytes in DRAM, which may be slower than assumed.
            Some(sram) if in_time => sram.cycles(&striped.0) < cycles + cycles / 50,
            _ => striped.1.activations() < pool,
        };
        if better {
            best = striped;
        } else {
            stripes.clear();
        }
        division = Some(Division { pool, cycles, runs: stripes.iter().map(Stripe::describe).collect() });
        division = division.filter(|division| !(in_time && division.runs.is_empty()));
    }
    let (program, plan, warnings) = best;
    let tensors: Vec<Stored> = placed.net.steps.iter().map(|step| lowering.stored(step.output)).collect();
    let written = Layout::written(&program.tasks);
    let touched: HashSet<usize> = written.iter().flatten().filter_map(Cube::buffer).collect();
    let layout = Layout {
        atom: config.memory_atomic as usize,
        written,
        buffers: program.buffers.iter().map(|buffer| buffer.size).collect(),
        tensors: tensors.into_iter().filter(|stored| touched.contains(&stored.buffer)).collect(),
    };
    check::check(&program, &plan)?;
    let loadable = emit::emit(&program, &plan)?;
    let mut report = report::report(&program, &plan, lowering.sram.as_ref(), errors);
    report.describe(graph, &placed.net, &scales, precision);
    report.warnings = warnings;
    report.division = division;
    let steps = Lowered { net: placed.net, numbers, tables, scales };
    Ok(Compiled { loadable, report, steps, config, bytes, layout })
}

/// The position of each channel of a picture in memory: the runtime writes blue first.
fn component_order(channels: u32, color: Color) -> Vec<u32> {
    match (channels, color) {
        (3, Color::Rgb) => vec![2, 1, 0],
        (4, Color::Rgb) => vec![2, 1, 0, 3],
        _ => (0..channels).collect(),
    }
}

/// The inputs that are read as images, with the component of each channel. Other inputs that are bytes with a mean, or with
/// several scales, are converted in a separate step.
fn images(net: &mut Net, inputs: &mut Inputs, precision: Precision) -> HashMap<TensorId, Vec<u32>> {
    let mut images = HashMap::new();
    for input in net.inputs.clone() {
        let channels = net.tensors[input].shape[0];
        let Some(known) = inputs.of(input).cloned() else { continue };
        let components = if channels == 1 { 1 } else { 4 };
        let readers = || net.steps.iter().filter(|step| step.reads().any(|read| read == input));
        // Read once, by the convolution that a step begins with.
        let begins = |step: &Step| step.inputs[0] == input && step.reads().filter(|&read| read == input).count() == 1;
        let convolved = readers().all(|step| match &step.kind {
            Kind::Convolution(conv) => begins(step) && convolution::reads_images(conv, components),
            _ => false,
        });
        let order = component_order(channels, known.preprocess.color);
        if precision == Precision::Int8 && matches!(channels, 1 | 3 | 4) && convolved {
            images.insert(input, order);
            continue;
        }
        let sorted = order.iter().zip(0..).all(|(&at, k)| at == k);
        let zero = known.preprocess.mean.iter().all(|&mean| mean == 0.0);
        let plain = readers().all(|step| match step.kind {
            Kind::Convolution(_) => zero || begins(step),
            Kind::Copy => zero,
            _ => false,
        });
        if precision == Precision::Int8 && sorted && inputs.uniform(input) && plain {
            continue;
        }
        let tensor = net.tensors[input].clone();
        let values = net.tensor(format!("{} values", tensor.name), tensor.shape, tensor.range);
        let replace = |id: &mut TensorId| *id = if *id == input { values } else { *id };
        for step in &mut net.steps {
            step.inputs.iter_mut().for_each(replace);
            for post in &mut step.post_ops {
                if let PostOp::With(_, other) = post {
                    replace(other);
                }
            }
        }
        net.outputs.iter_mut().for_each(replace);
        // Values per channel of the network, in the order of the copy's channels in memory.
        let in_memory = |values: Vec<f32>| {
            let mut sorted = vec![0.0; values.len()];
            order.iter().zip(values).for_each(|(&at, value)| sorted[at as usize] = value);
            sorted
        };
        let each = || 0..channels as usize;
        let mut post_ops = Vec::new();
        if precision == Precision::Fp16 {
            let scale = each().map(|c| known.scale(c) as f32).collect();
            let shift = each().map(|c| (-known.scale(c) * known.zero(c)) as f32).collect();
            post_ops.push(PostOp::Affine(in_memory(scale), in_memory(shift)));
            inputs.known.remove(&input);
        } else {
            // The quantizer knows the values of an input's integers. Here only their order in memory matters, and whether there
            // is an addend.
            if !zero {
                post_ops.push(PostOp::Affine(vec![1.0], vec![f32::MIN_POSITIVE]));
            }
            let mut preprocess = known.preprocess.clone();
            preprocess.mean = in_memory(each().map(|c| known.preprocess.channel(c).0).collect());
            preprocess.std = in_memory(each().map(|c| known.preprocess.channel(c).1).collect());
            inputs.known.insert(input, ByteInput { preprocess, ..known });
        }
        let copied =
            if sorted { values } else { net.tensor(format!("{} values", tensor.name), tensor.shape, tensor.range) };
        let (nodes, inputs) = (Vec::new(), vec![copied]);
        if !sorted {
            let kind = Kind::Channels(order);
            net.steps.insert(0, Step { nodes: Vec::new(), kind, inputs, post_ops: Vec::new(), output: values });
        }
        net.steps.insert(0, Step { nodes, kind: Kind::Copy, inputs: vec![input], post_ops, output: copied });
    }
    images
}

/// The state of a lowering.
#[derive(Clone)]
struct Lowering<'a> {
    config: &'static Config,
    precision: Precision,
    program: Program,
    placed: &'a Placed,
    scales: &'a [Scale],
    /// The buffer of each tensor that owns one.
    buffers: HashMap<TensorId, usize>,
    /// The lines of a step's input and output, if it is computed in bands.
    band: Option<[Range<u32>; 2]>,
    /// In a band, the buffer of each root that holds only lines of the band, and the first of them.
    inside: HashMap<TensorId, (usize, u32)>,
    /// The SRAM in which buffers may lie.
    sram: Option<Sram>,
    /// The bands of layers for prefetching, if layers are divided for it.
    bands: Option<Bands>,
    /// Warnings for the user.
    warnings: Vec<String>,
}

impl Lowering<'_> {
    /// Creates the buffers.
    fn buffers(&mut self, images: &HashMap<TensorId, Vec<u32>>) -> Result<(), Error> {
        let net = &self.placed.net;
        let mut roots: Vec<TensorId> = self.placed.positions.values().map(|position| position.root).collect();
        roots.sort_unstable();
        roots.dedup();
        for root in roots {
            let tensor = &net.tensors[root];
            let number = |ids: &[TensorId]| ids.iter().position(|&id| id == root).map(|at| at as u16);
            let place = match (number(&net.inputs), number(&net.outputs)) {
                (Some(number), _) => Storage::Input(number),
                (_, Some(number)) => Storage::Output(number),
                _ => Storage::Pool,
            };
            let channels = self.placed.extents[&root];
            let [_, height, width] = tensor.shape;
            let name = tensor.name.clone();
            let most = csc::D_DATAIN_SIZE_EXT_0::DATAIN_WIDTH_EXT.max() + 1;
            for (what, value) in [("width", width), ("height", height), ("number of channels", channels)] {
                if value > most {
                    let reason = format!("{what} {value} is more than the hardware's {most}");
                    return Err(Error::unsupported(&name, reason));
                }
            }
            let precision = net.precision(root, self.precision);
            let narrow = |bytes: u64| {
                u32::try_from(bytes)
                    .map_err(|_| Error::unsupported(&name, format!("{bytes} bytes exceed 32-bit sizes")))
            };
            let buffer = if let Some(order) = images.get(&root) {
                let format = if order.len() == 1 { PixelFormat::R8 } else { PixelFormat::A8B8G8R8 };
                let alignment = Alignment::documented(Data::Pixel).start;
                let image = Image::packed(format, width, height, 0, alignment)
                    .map_err(|error| Error::unsupported(&name, error.to_string()))?;
                let (line_stride, size) = (narrow(image.line_stride(0))?, narrow(image.span(0))?);
                let channels = image.format().channels;
                let format = Format::Pixel(format);
                let surface_stride = 0;
                Buffer { name, channels, height, width, format, precision, line_stride, surface_stride, size, place }
            } else {
                let (atoms, own) = (self.program.atoms(), self.atoms(root));
                let [line, surface] = atoms.packed_strides(width, height);
                let (line_stride, surface_stride) = (narrow(line)?, narrow(surface)?);
                let lines = feature::View { cube: 0, surface: surface as usize, ..Default::default() };
                let surfaces = own.surfaces(atoms.filled(channels as usize));
                let size = narrow(lines.atom_offset(0, surfaces, 0, 0) as u64)?;
                let format = Format::Feature;
                Buffer { name, channels, height, width, format, precision, line_stride, surface_stride, size, place }
            };
            self.program.buffers.push(buffer);
            self.buffers.insert(root, self.program.buffers.len() - 1);
        }
        Ok(())
    }

    /// The atoms of a tensor's precision.
    fn atoms(&self, tensor: TensorId) -> Atoms {
        Atoms::of(self.config, self.placed.net.precision(tensor, self.precision))
    }

    /// SRAM of that many bytes.
    fn sram(&self, size: u64) -> Sram {
        let mut memory = self.memory();
        memory.sram.bandwidth = SRAM_BYTES_PER_CYCLE.min(memory.sram.bandwidth);
        Sram { size, memory, register_write: REGISTER_WRITE }
    }

    /// The view of a tensor in its buffer.
    fn view(&self, tensor: TensorId) -> View {
        self.lines(tensor, 0..self.placed.net.tensors[tensor].shape[1])
    }

    /// The view of some lines of a tensor.
    fn lines(&self, tensor: TensorId, lines: Range<u32>) -> View {
        let position = &self.placed.positions[&tensor];
        let (number, above) = self.inside.get(&position.root).copied().unwrap_or((self.buffers[&position.root], 0));
        let buffer = &self.program.buffers[number];
        let [surface, line, column] = position.start;
        let whole = View {
            buffer: number,
            format: buffer.format,
            offset: 0,
            line_stride: buffer.line_stride,
            surface_stride: buffer.surface_stride,
            height: lines.end - lines.start,
            width: self.placed.net.tensors[tensor].shape[2],
            map: self.placed.maps[&tensor].clone(),
            precision: self.placed.net.precision(tensor, self.precision),
            atoms: self.atoms(tensor),
        };
        let layout = whole.layout();
        let surface = whole.atoms.surfaces(self.program.atoms().channels(surface as usize));
        let line = line + lines.start * position.step - above;
        View {
            offset: layout.atom_offset(0, surface, line as usize, column as usize) as u32,
            line_stride: layout.line_offset(position.step as usize) as u32,
            ..whole
        }
    }

    /// The input and the output of a step, or the lines of the current band.
    fn ends(&self, step: &Step) -> (View, View) {
        match &self.band {
            Some([read, written]) => {
                (self.lines(step.inputs[0], read.clone()), self.lines(step.output, written.clone()))
            }
            None => (self.view(step.inputs[0]), self.view(step.output)),
        }
    }

    /// The part of an operand that is combined with the output of a step.
    fn operand(&self, tensor: TensorId) -> View {
        match &self.band {
            Some([_, written]) => self.lines(tensor, written.clone()),
            None => self.view(tensor),
        }
    }

    /// The place of a tensor's elements.
    fn stored(&self, tensor: TensorId) -> Stored {
        let View { buffer, offset, line_stride, surface_stride, height, width, map, precision, atoms, .. } =
            self.view(tensor);
        let Scale { scale, zero } = self.scales[tensor];
        let (channels, size) = (map.of.to_vec(), [height, width]);
        Stored { tensor, size, buffer, offset, line_stride, surface_stride, channels, precision, atoms, scale, zero }
    }

    /// CDP, from memory to memory.
    fn normalisation(&mut self, number: usize, step: &Step, lrn: &Lrn, numbers: &Numbers) {
        let Some((table, out)) = numbers.normalisation else { return };
        let (source, target) = self.ends(step);
        let part = target.all();
        let op = desc::CdpOp {
            in_precision: self.precision,
            out_precision: self.precision,
            lut_index: table as i16,
            in_cvt: sdp::converter(1, 0),
            out_cvt: sdp::converter(out.scale, out.truncate),
            local_size: lrn.size as u8,
            ..Default::default()
        };
        let (source, target) = (source.cube(&part, source.atoms), target.cube(&part, target.atoms));
        self.program.push(number, Unit::Cdp { op: Box::new(op), source, target });
    }

    /// Warns of a softmax whose input has steps of 1 or more: one step is then a factor of e or more between two results.
    fn coarse_softmax(&mut self, step: &Step) {
        let id = step.inputs[0];
        let range = self.placed.net.tensors[id].range;
        let largest = range.map_or(0.0, |range| f64::from(range.max.abs().max(range.min.abs())));
        let size = match self.precision {
            Precision::Fp16 => (largest.max(1.0).log2().floor() - HALF_FRACTION_BITS).exp2(),
            _ => self.scales[id].scale,
        };
        if size >= 1.0 {
            let name = &self.placed.net.tensors[step.output].name;
            self.warnings.push(format!(
                "\"{name}\": softmax of values up to {largest} in steps of {size:.0}: the largest result is correct only \
                 if no other value is within one step, and ratios of results are wrong by factors of e or more"
            ));
        }
    }

    /// Lowers all steps, and plans the memory. `flying` are the roots of buffers that poolings take on the fly.
    fn finished(
        mut self,
        numbers: &[Numbers],
        stripes: &[Stripe],
        flying: &HashSet<TensorId>,
    ) -> Result<(Program, Plan, Vec<String>), Error> {
        let steps = &self.placed.net.steps;
        self.program.steps = steps.iter().map(|step| self.described(step)).collect();
        let mut at = 0;
        while at < steps.len() {
            // A step that needs no result of the previous one, or only a band of it, would run beside it and need its own memory.
            self.program.pause = !stripes.is_empty();
            if let Some(stripe) = stripes.iter().find(|stripe| stripe.steps.start == at) {
                self.stripe(stripe, numbers, flying)?;
                at = stripe.steps.end;
            } else {
                self.step(at, &steps[at], &numbers[at])?;
                at += 1;
            }
        }
        fly::join(&mut self.program);
        let Some(bands) = self.bands else {
            let plan = memory::plan(&mut self.program, self.sram.as_ref())?;
            return Ok((self.program, plan, self.warnings));
        };
        let Some(sram) = &self.sram else {
            let memory = self.memory();
            prefetch::divide(&mut self.program, &memory, bands);
            let plan = memory::plan(&mut self.program, None)?;
            return Ok((self.program, plan, self.warnings));
        };
        // How long a layer's input is fetched depends on the memory in which it lies, and the choice of buffers for SRAM depends
        // on the bands.
        let plan = memory::plan(&mut self.program, Some(sram))?;
        let mut divided = self.program.clone();
        prefetch::divide(&mut divided, &sram.memory, bands);
        let new_plan = memory::plan(&mut divided, Some(sram))?;
        if bands == Bands::Most || sram.cycles(&divided) < sram.cycles(&self.program) {
            return Ok((divided, new_plan, self.warnings));
        }
        Ok((self.program, plan, self.warnings))
    }

    /// Lowers a run of steps in bands.
    fn stripe(&mut self, stripe: &Stripe, numbers: &[Numbers], flying: &HashSet<TensorId>) -> Result<(), Error> {
        let net = &self.placed.net;
        for band in &stripe.bands {
            for (&root, lines) in &band.inside {
                // A pooling takes a buffer on the fly only if it reads all of it, so each band has its own.
                let alone = flying.contains(&root);
                let height = if alone { lines.end - lines.start } else { stripe.height(root) };
                let number = match self.inside.get(&root) {
                    Some(&(number, _)) if !alone => number,
                    _ => {
                        let whole = &self.program.buffers[self.buffers[&root]];
                        self.program.buffers.push(whole.with_height(height));
                        self.program.buffers.len() - 1
                    }
                };
                self.inside.insert(root, (number, lines.start));
            }
            for (at, lines) in stripe.steps.clone().zip(&band.lines).filter(|(_, lines)| !lines.is_empty()) {
                let mut step = net.steps[at].clone();
                let span = stripes::span(net, &step, lines);
                match &mut step.kind {
                    Kind::Convolution(conv) => conv.op.padding.top = span.before as usize,
                    Kind::Pool(pool) => pool.padding.top = span.before as usize,
                    _ => {}
                }
                self.band = Some([span.input_first..span.input_first + span.input_count, lines.clone()]);
                self.step(at, &step, &numbers[at])?;
            }
        }
        self.band = None;
        self.inside.clear();
        Ok(())
    }

    /// The runs of steps that shrink the pool of a program without runs, or take less time with SRAM, and the roots of buffers that
    /// poolings take on the fly.
    fn stripes(&self, program: &Program, numbers: &[Numbers], goal: Optimize) -> (Vec<Stripe>, HashSet<TensorId>) {
        let mut touched = HashSet::new();
        for cube in Layout::written(&program.tasks).iter().flatten() {
            touched.extend(cube.buffer());
        }
        let (mut buffers, mut flying) = (BTreeMap::new(), HashSet::new());
        let mut roots = HashMap::new();
        for (&root, &number) in &self.buffers {
            let Buffer { size, height, place, .. } = program.buffers[number];
            if place.is_pool() {
                let flies = !touched.contains(&number);
                buffers.insert(root, (if flies { 0 } else { size.into() }, height));
                roots.insert(number, root);
                if flies {
                    flying.insert(root);
                }
            }
        }
        let all = 0..program.steps.len();
        let in_sram = |id| program.in_sram(id);
        let memory = self.sram.as_ref().map_or_else(|| self.memory(), |sram| sram.memory);
        let times = report::times(program, all, &memory, REGISTER_WRITE, in_sram);
        let sram = self.sram.as_ref().filter(|_| goal == Optimize::Time);
        let in_sram = sram.map(|sram| InSram { program, sram, roots });
        (stripes::Lowered { placed: self.placed, numbers, buffers, times, in_sram }.choose(goal), flying)
    }

    fn described(&self, step: &Step) -> StepInfo {
        let tensor = self.placed.net.tensors[step.output].name.clone();
        let scale = self.scales[step.output].scale;
        let precision = self.placed.net.computes(step, self.precision);
        StepInfo { nodes: step.nodes.clone(), tensor, scale, precision }
    }

    fn step(&mut self, number: usize, step: &Step, numbers: &Numbers) -> Result<(), Error> {
        match step.kind {
            Kind::Convolution(_) => self.convolution(number, step, numbers),
            Kind::Copy => self.copy(number, step, numbers),
            Kind::Pool(_) => self.pool(number, step),
            Kind::Spread(_) | Kind::Repeat(_) | Kind::Columns(_) | Kind::Transpose => self.spread(number, step),
            Kind::Lrn(ref lrn) => {
                self.normalisation(number, step, lrn, numbers);
                Ok(())
            }
            Kind::Softmax => {
                let (source, target) = (self.view(step.inputs[0]), self.view(step.output));
                let (source, target) =
                    (source.cube(&source.all(), source.atoms), target.cube(&target.all(), target.atoms));
                self.coarse_softmax(step);
                let input_scale = self.scales[step.inputs[0]].scale as f32;
                let output_scale = self.scales[step.output].scale as f32;
                self.program.push_emulated(Emulated { step: number, source, target, input_scale, output_scale });
                Ok(())
            }
            // Views need no operation.
            Kind::Concat(_) | Kind::Slice { .. } | Kind::Channels(_) | Kind::Same => Ok(()),
        }
    }
}
