// SPDX-License-Identifier: MIT OR Apache-2.0

//! The program of a network: the buffers of its tensors, and the operations of each step. Each unit's operations are in a file of
//! their own, as methods of `Lowering`.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use nvdla_uapi::config::Config;
use nvdla_uapi::desc::Lut;
use nvdla_uapi::emu;
use nvdla_uapi::layout::align::{Alignment, Data};
use nvdla_uapi::layout::pixel::Image;
use nvdla_uapi::layout::{
    self,
    feature::{self, Atoms},
    Extents,
};
use nvdla_uapi::reg::values::{PixelFormat, Precision};

use super::view::View;
use crate::error::Error;
use crate::net::access;
use crate::net::step::{Kind, Mode, Power, Step, TensorId};
use crate::numbers::quantizer::{Numbers, Scale};
use crate::options::{Bytes, Winograd};
use crate::output::layout::Stored;
use crate::passes::inputs::{component_order, Given};
use crate::passes::place::Placed;
use crate::schedule::cost::Cost;
use crate::schedule::program::{Buffer, Cube, Emulated, Format, Program, StepInfo, Storage, TensorScale};
use crate::schedule::stripes::Stripe;
use crate::target::{Target, LARGEST_EXTENT};

/// Bits of half precision after the first bit of a number.
const HALF_FRACTION_BITS: f64 = 10.0;

/// The atoms of half precision as the emulator writes them in an int8 network, on every configuration.
const HALF_ATOMS: Atoms = match Atoms::new(32, Precision::Fp16) {
    Ok(atoms) => atoms,
    Err(_) => unreachable!(),
};

/// The state of a lowering.
#[derive(Clone)]
pub(crate) struct Lowering<'a> {
    pub(crate) config: &'static Config,
    pub(crate) precision: Precision,
    pub(crate) program: Program,
    pub(crate) placed: &'a Placed,
    scales: &'a [Scale],
    /// The conditions under which ways to compute a step are compared.
    pub(crate) cost: Cost,
    /// Pictures per run.
    pub(crate) pictures: u32,
    /// The buffer of each tensor that owns one.
    pub(crate) buffers: HashMap<TensorId, usize>,
    /// The lines of a step's input and output, if it is computed in bands.
    pub(crate) band: Option<[Range<u32>; 2]>,
    /// In a band, the buffer of each root that holds only lines of the band, and the first of them.
    inside: HashMap<TensorId, (usize, u32)>,
    /// Warnings for the user.
    pub(crate) warnings: Vec<String>,
}

impl<'a> Lowering<'a> {
    /// An empty program with the buffers of a network's tensors.
    pub(crate) fn new(
        name: &str,
        target: &Target,
        placed: &'a Placed,
        scales: &'a [Scale],
        given: &Given,
    ) -> Result<Self, Error> {
        let Target { config, precision, conditions, pictures, .. } = *target;
        let mut lowering = Self {
            config,
            precision,
            program: Program::new(name.to_owned(), config, precision),
            placed,
            scales,
            cost: Cost::new(config, &conditions),
            pictures,
            buffers: HashMap::new(),
            band: None,
            inside: HashMap::new(),
            warnings: Vec::new(),
        };
        lowering.buffers(&given.images)?;
        lowering.program.inputs = lowering.ends_of(&placed.net.inputs, given);
        lowering.program.outputs = lowering.ends_of(&placed.net.outputs, given);
        Ok(lowering)
    }
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
            // Operations of its parts may have fewer channels ([`Program::fits`]).
            let most = u16::MAX.into();
            for (what, value, most) in [
                ("width", width, LARGEST_EXTENT),
                ("height", height, LARGEST_EXTENT),
                ("number of channels", channels, most),
            ] {
                if value > most {
                    let reason = format!("{what} {value} is more than {most}");
                    return Err(Error::unsupported(&name, reason));
                }
            }
            let precision = net.precision(root, self.precision);
            let narrow = |bytes: u64| {
                u32::try_from(bytes)
                    .map_err(|_| Error::unsupported(&name, format!("{bytes} bytes exceed 32-bit sizes")))
            };
            let (format, channels, line_stride, surface_stride, size) = if let Some(order) = images.get(&root) {
                let format = if order.len() == 1 { PixelFormat::R8 } else { PixelFormat::A8B8G8R8 };
                let alignment = Alignment::documented(Data::Pixel).start;
                let image = Image::packed(format, width, height, 0, alignment)
                    .map_err(|error| Error::unsupported(&name, error.to_string()))?;
                let (line_stride, size) = (narrow(image.line_stride(0))?, narrow(image.span(0))?);
                (Format::Pixel(format), image.format().channels, line_stride, 0, size)
            } else {
                let (atoms, own) = (self.program.atoms(), self.atoms(root));
                let [line, surface] = own.packed_strides(width, height);
                let (line_stride, surface_stride) = (narrow(line)?, narrow(surface)?);
                let lines = feature::View { cube: 0, surface: surface as usize, ..Default::default() };
                let surfaces = own.surfaces(atoms.filled(channels as usize));
                let size = narrow(lines.atom_offset(0, surfaces, 0, 0) as u64)?;
                // What is joined into an output may have more channels in its last atom than the output takes of it.
                let own = if place == Storage::Pool { None } else { self.placed.maps.get(&root) };
                let channels = own.map_or(channels, |map| map.extent);
                (Format::Feature, channels, line_stride, surface_stride, size)
            };
            self.program.buffers.push(Buffer {
                name,
                channels,
                height,
                width,
                format,
                precision,
                line_stride,
                surface_stride,
                size,
                place,
                pictures: 1,
            });
            self.buffers.insert(root, self.program.buffers.len() - 1);
        }
        Ok(())
    }

    /// The same state with another program.
    pub(crate) fn with(&self, program: Program) -> Self {
        let Self { config, precision, placed, scales, pictures, .. } = *self;
        let (cost, buffers, band, inside) =
            (self.cost.clone(), self.buffers.clone(), self.band.clone(), self.inside.clone());
        Self { config, precision, program, placed, scales, cost, pictures, buffers, band, inside, warnings: Vec::new() }
    }

    /// The atoms of a tensor's precision.
    pub(crate) fn atoms(&self, tensor: TensorId) -> Atoms {
        let net = &self.placed.net;
        if net.tensors[tensor].half {
            HALF_ATOMS
        } else {
            Atoms::of(self.config, net.precision(tensor, self.precision))
        }
    }

    /// The scales of inputs or outputs, as the user gives and takes them.
    fn ends_of(&self, ids: &[TensorId], given: &Given) -> Vec<TensorScale> {
        let net = &self.placed.net;
        let end = |&id: &TensorId| {
            let tensor = net.tensors[id].name.clone();
            let Some(known) = given.outside.of(id) else {
                let Scale { scale, zero } = self.scales[id];
                return TensorScale {
                    tensor,
                    scale: vec![scale],
                    zero_point: vec![f64::from(zero)],
                    unsigned: false,
                    channels_last: false,
                    pictures: None,
                };
            };
            // The runtime writes the channels of a picture in its own order.
            let channels = net.tensors[id].shape[0] as usize;
            let order = component_order(channels as u32, known.preprocess.color);
            let in_memory = |of: &dyn Fn(usize) -> f64| {
                let mut values = vec![0.0; channels];
                order.iter().enumerate().for_each(|(channel, &at)| values[at as usize] = of(channel));
                values
            };
            let (scale, zero_point) =
                (in_memory(&|channel| known.scale(channel)), in_memory(&|channel| known.zero(channel)));
            let pictures = Some(known.preprocess.pictures(channels as u32).to_json());
            let unsigned = known.bytes == Bytes::Eight;
            TensorScale { tensor, scale, zero_point, unsigned, channels_last: false, pictures }
        };
        ids.iter().map(end).collect()
    }

    /// The mode of a convolution.
    pub(crate) fn mode(&self, step: &Step, images: &HashMap<TensorId, Vec<u32>>, wanted: Winograd) -> Mode {
        if images.contains_key(&step.inputs[0]) {
            Mode::Image
        } else if self.winograd(step, wanted) {
            Mode::Winograd
        } else {
            Mode::Direct
        }
    }

    /// The view of a tensor in its buffer.
    pub(crate) fn view(&self, tensor: TensorId) -> View {
        self.lines(tensor, 0..self.placed.net.tensors[tensor].shape[1])
    }

    /// The view of some lines of a tensor.
    pub(crate) fn lines(&self, tensor: TensorId, lines: Range<u32>) -> View {
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
    pub(crate) fn ends(&self, step: &Step) -> (View, View) {
        match &self.band {
            Some([read, written]) => {
                (self.lines(step.inputs[0], read.clone()), self.lines(step.output, written.clone()))
            }
            None => (self.view(step.inputs[0]), self.view(step.output)),
        }
    }

    /// The part of an operand that is combined with the output of a step.
    pub(crate) fn operand(&self, tensor: TensorId) -> View {
        match &self.band {
            Some([_, written]) => self.lines(tensor, written.clone()),
            None => self.view(tensor),
        }
    }

    /// The place of a tensor's elements.
    pub(crate) fn stored(&self, tensor: TensorId) -> Stored {
        let View { buffer, offset, line_stride, surface_stride, height, width, map, precision, atoms, .. } =
            self.view(tensor);
        let Scale { scale, zero } = self.scales[tensor];
        let (channels, size) = (map.of.to_vec(), [height, width]);
        Stored { tensor, size, buffer, offset, line_stride, surface_stride, channels, precision, atoms, scale, zero }
    }

    /// A function of the emulator, of so many groups of adjacent channels one after another.
    fn emulated(&mut self, number: usize, step: &Step, function: emu::Kind, groups: u32) {
        let (source, target) = (self.view(step.inputs[0]), self.view(step.output));
        let (source, target) = (source.cube(&source.all(), source.atoms), target.cube(&target.all(), target.atoms));
        let input_scale = self.scales[step.inputs[0]].scale as f32;
        let output_scale = self.scales[step.output].scale as f32;
        let channels = self.placed.net.tensors[step.output].shape[0] / groups;
        let (precision, atom) = (self.precision, self.config.memory_atomic);
        for group in 0..groups {
            let [source, target] = match groups {
                1 => [source, target],
                _ => [source, target].map(|cube| part(cube, channels, group, precision, atom)),
            };
            self.program.push_emulated(Emulated { step: number, function, source, target, input_scale, output_scale });
        }
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
                "{name:?}: softmax of values up to {largest} in steps of {size:.0}: the largest result is correct only \
                 if no other value is within one step, and ratios of results are wrong by factors of e or more"
            ));
        }
    }

    /// The program of all steps, with warnings for the user. The steps of `stripes` are computed in bands. `flying` are the roots
    /// of buffers that poolings take on the fly.
    pub(crate) fn program(
        mut self,
        numbers: &[Numbers],
        tables: &[Lut],
        stripes: &[Stripe],
        flying: &HashSet<TensorId>,
    ) -> Result<(Program, Vec<String>), Error> {
        let steps = &self.placed.net.steps;
        self.program.tables = tables.to_vec();
        self.program.steps = steps.iter().map(|step| self.described(step)).collect();
        let mut at = 0;
        // A step that needs no result of the previous one, or only a band of it, would run beside it and need its own memory.
        let pause = !stripes.iter().all(|stripe| stripe.flies(flying));
        while at < steps.len() {
            self.program.pause = pause;
            if let Some(stripe) = stripes.iter().find(|stripe| stripe.steps.start == at) {
                self.stripe(stripe, numbers, flying)?;
                at = stripe.steps.end;
            } else {
                self.step(at, &steps[at], &numbers[at])?;
                at += 1;
            }
        }
        self.program.fits()?;
        Ok((self.program, self.warnings))
    }

    /// The program of some steps alone.
    pub(crate) fn part(mut self, numbers: &[Numbers], steps: Range<usize>) -> Result<Program, Error> {
        for at in steps {
            self.step(at, &self.placed.net.steps[at], &numbers[at])?;
        }
        Ok(self.program)
    }

    /// The program of a run of steps in bands alone.
    pub(crate) fn bands(
        mut self,
        numbers: &[Numbers],
        stripe: &Stripe,
        flying: &HashSet<TensorId>,
    ) -> Result<Program, Error> {
        self.stripe(stripe, numbers, flying)?;
        Ok(self.program)
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
                let span = access::span(net, &step, lines);
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

    fn described(&self, step: &Step) -> StepInfo {
        let tensor = self.placed.net.tensors[step.output].name.clone();
        let scale = self.scales[step.output].scale;
        let precision = self.placed.net.computes(step, self.precision);
        StepInfo { nodes: step.nodes.clone(), tensor, scale, precision }
    }

    /// Adds the operations of a step.
    fn step(&mut self, number: usize, step: &Step, numbers: &Numbers) -> Result<(), Error> {
        match step.kind {
            Kind::Convolution(_) => self.convolution(number, step, numbers),
            Kind::Product => self.product(number, step, numbers),
            Kind::Turn => self.turn(number, step, numbers),
            Kind::Copy => self.copy(number, step, numbers),
            Kind::Pool(_) => self.pool(number, step),
            Kind::Spread(_) | Kind::Repeat(_) | Kind::Columns(_) | Kind::Transpose | Kind::Pixels => {
                self.spread(number, step)
            }
            Kind::Lrn(ref lrn) => {
                self.normalisation(number, step, lrn, numbers);
                Ok(())
            }
            Kind::Softmax(groups) => {
                self.coarse_softmax(step);
                self.emulated(number, step, emu::Kind::Softmax { axis: 1 }, groups);
                Ok(())
            }
            Kind::Power(Power { exponent, factor }) => {
                let Scale { scale, zero } = self.scales[step.inputs[0]];
                let shift = -(f64::from(factor) * scale * f64::from(zero)) as f32;
                let [power, scale, shift] = [exponent, factor, shift].map(|value| emu::Single(value.to_bits()));
                self.emulated(number, step, emu::Kind::Power { power, scale, shift }, 1);
                Ok(())
            }
            // Views need no operation.
            Kind::Concat(_) | Kind::Slice { .. } | Kind::Channels(_) | Kind::Same => Ok(()),
        }
    }
}

/// One of the groups of adjacent channels of a cube with atoms of that many bytes. A group does not cross atoms.
fn part(cube: Cube, channels: u32, group: u32, precision: Precision, atom: u32) -> Cube {
    let extents = Extents::new(1, cube.channels.into(), cube.height.into(), cube.width.into());
    let strides = [cube.line_stride, cube.surface_stride].map(u64::from);
    let whole = feature::Cube::as_programmed(extents, precision, atom, strides[0], strides[1], 0);
    let whole = whole.expect("a tensor has a place in memory");
    let first = group * channels;
    let start = whole.element_offset(first, 0, 0);
    let last = whole.element_offset(first + channels - 1, extents.h - 1, extents.w - 1);
    let size = last + u64::from(layout::bytes(precision)) - start;
    Cube { offset: cube.offset + start as u32, size: size as u32, channels: channels as u16, surfaces: 1, ..cube }
}
