// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lowers a convolution to the convolution pipeline, with SDP connected to it.
//!
//! The output is computed in parts: by blocks of output channels (for groups, whose weights are zero between them, and for kernel
//! groups that are too large), by columns if a line of output needs more input than the convolution buffer holds, and by bands of
//! lines. Each part is a pair of operations.
//!
//! In Winograd mode the sequencer takes tiles of 4 x 4 inputs for 2 x 2 outputs. Its output is whole tiles of 4 x 4, and the
//! padding behind its input fills the last tiles (register manual; the hardware project's `NV_NVDLA_CDMA_wg.v`).

use std::borrow::Cow;

use nvdla_estimate::{ConvShape, Cube as Volume, SdpShape};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{self, DataFormat, MemoryType, PixelOverride};
use nvdla_uapi::layout::align::Data;
use nvdla_uapi::layout::weight::{Compressed, Direct, Geometry, Groups, Image, PostExtension, Surfaces, Winograd};
use nvdla_uapi::layout::{self, bytes, Element, Extents, Layout as _, Order};
use nvdla_uapi::reg::values::{ConvMode, Precision, WeightFormat};
use nvdla_uapi::reg::{cdma, csc};

use super::average::{self, Form};
use super::cbuf::{self, Banks, WeightSize};
use crate::codegen::lowering::Lowering;
use crate::codegen::sdp::{self, SdpSetup};
use crate::codegen::view::{Region, View};
use crate::error::Error;
use crate::net::access::{slices, Axis, Span};
use crate::net::step::{Convolution, Kind, Mode, Step};
use crate::numbers::quantizer::Numbers;
use crate::schedule::pictures;
use crate::schedule::prefetch::{self, Bands};
use crate::schedule::program::{Base, Cube, Format, Program, Unit};
use crate::target::{
    LARGEST_DILATION, LARGEST_EXTENT, LARGEST_KERNEL, LARGEST_PADDING_AFTER, LARGEST_PADDING_BEFORE, LARGEST_STRIDE,
    PRA_TRUNCATE, TILE,
};

/// The number of sizes of blocks that are tried so that several pictures share the weights of each.
const SHARED_BLOCKS: usize = 3;

/// The elements of an input from which on bands of lines gain more than compression that saves little.
const FOR_BANDS: u64 = 1 << 16;
/// Beside such an input, compression must save a byte per this number of its elements.
const LEAST_SAVED: u64 = 4;

/// A convolution's windows along both axes: lines, columns.
fn axes(conv: &Convolution, input: &View, output: &View) -> [Axis; 2] {
    let planes = [input, output].map(|view| [view.height, view.width]);
    Axis::both(planes, conv.op.window(), conv.op.stride, conv.op.padding)
}

/// A convolution whose windows have one line reads only the lines that its vertical stride leaves: CDMA reads any distance between
/// lines (`D_LINE_STRIDE`). The input then has these lines, and the stride is 1.
fn skipping<'a>(conv: &'a Convolution, source: &mut View, target: &View) -> Cow<'a, Convolution> {
    let [stride, _] = conv.op.stride;
    let alone = conv.op.kernel[0] == 1 && conv.op.padding.top == 0 && conv.op.padding.bottom == 0;
    if !alone || stride == 1 || target.height == 1 || source.format != Format::Feature {
        return Cow::Borrowed(conv);
    }
    let Ok(line_stride) = u32::try_from(source.layout().line_offset(stride)) else { return Cow::Borrowed(conv) };
    (source.line_stride, source.height) = (line_stride, target.height);
    let mut conv = conv.clone();
    conv.op.stride[0] = 1;
    Cow::Owned(conv)
}

/// The order of a block's weights in memory.
enum Weights {
    Direct(Direct),
    Image(Image),
    Winograd(Winograd),
}

impl Weights {
    fn size(&self) -> u64 {
        match self {
            Self::Direct(layout) => layout.size(),
            Self::Image(layout) => layout.size(),
            Self::Winograd(layout) => layout.size(),
        }
    }

    /// Kernels, channels, lines and columns in memory.
    fn extents(&self) -> Extents {
        match self {
            Self::Direct(layout) => layout.extents(),
            Self::Image(layout) => layout.extents(),
            Self::Winograd(layout) => layout.extents(),
        }
    }

    /// The bytes of weights in the order K, C, R, S.
    fn pack<T: Element>(&self, plain: &[T]) -> Result<Vec<u8>, layout::Error> {
        let mut packed = vec![0; self.size() as usize];
        match self {
            Self::Direct(layout) => layout.pack(Order::Nchw, plain, &mut packed),
            Self::Image(layout) => layout.pack(Order::Nchw, plain, &mut packed),
            Self::Winograd(layout) => layout.pack(Order::Nchw, plain, &mut packed),
        }
        .map(|()| packed)
    }
}

/// A block of output channels and the input channels that it needs: first and number of physical channels, starting at an atom.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(super) output: (u32, u32),
    pub(super) input: (u32, u32),
}

/// A pair of operations: columns and lines, convolution buffer entries per slice, and banks.
pub(crate) struct Tile {
    x: Span,
    y: Span,
    entries: u32,
    banks: Banks,
}

/// The properties that all operations of a block share.
pub(crate) struct Part {
    precision: Precision,
    block: Block,
    weights: Weights,
    /// A kernel's channels, lines and columns for CSC.
    kernel: [u32; 3],
    tiles: Vec<Tile>,
}

impl Part {
    /// The cube of its weights, or of what belongs to them.
    pub(super) fn cube(&self, base: Base, offset: u32, size: u32) -> Cube {
        let [channels, height, width] = self.kernel.map(|extent| extent as u16);
        Cube { base, offset, size, width, height, channels, line_stride: 0, surface_stride: 0, surfaces: 0 }
    }
}

/// A convolution: the number of its step, the name of its output, its numbers, and what it reads and writes.
#[derive(Clone, Copy)]
pub(crate) struct Layer<'a> {
    pub(super) number: usize,
    pub(super) name: &'a str,
    pub(super) conv: &'a Convolution,
    pub(super) numbers: &'a Numbers,
    pub(super) source: &'a View,
    /// The constant that its input is, if it is one.
    pub(super) constant: Option<usize>,
    pub(super) target: &'a View,
}

impl Layer<'_> {
    fn mode(&self) -> Mode {
        match self.source.format {
            Format::Pixel(_) => Mode::Image,
            Format::Feature if self.numbers.winograd => Mode::Winograd,
            Format::Feature => Mode::Direct,
        }
    }
}

impl Lowering<'_> {
    pub(crate) fn convolution(&mut self, number: usize, step: &Step, numbers: &Numbers) -> Result<(), Error> {
        let Kind::Convolution(conv) = &step.kind else { return Ok(()) };
        let name = self.placed.net.tensors[step.output].name.clone();
        let (mut source, target) = self.ends(step);
        if let Some(forms) = average::forms(conv, numbers, &source, &target) {
            return forms.iter().try_for_each(|Form { conv, numbers, source, target }| {
                self.computed(Layer { number, name: &name, conv, numbers, source, constant: None, target })
            });
        }
        limits(&name, conv)?;
        let conv = &skipping(conv, &mut source, &target);
        self.computed(Layer { number, name: &name, conv, numbers, source: &source, constant: None, target: &target })
    }

    /// Adds the operations of a convolution, with the blocks of channels that take the least time.
    fn computed(&mut self, layer: Layer<'_>) -> Result<(), Error> {
        let mut divisions = self.divisions(layer.conv, layer.source, layer.target, layer.mode());
        if divisions.len() > 1 {
            divisions.sort_by_cached_key(|blocks| {
                let mut program = Program::new(String::new(), self.config, self.precision);
                program.buffers.clone_from(&self.program.buffers);
                let mut trial = self.with(program);
                trial.in_blocks(layer, blocks).and_then(|()| trial.repeated_cycles()).unwrap_or(u64::MAX)
            });
        }
        let blocks = divisions.into_iter().next().unwrap_or_default();
        self.in_blocks(layer, &blocks)
    }

    /// Estimated cycles of the program for all pictures, with the weights that they share.
    fn repeated_cycles(mut self) -> Result<u64, Error> {
        pictures::repeat(&mut self.program, self.pictures)?;
        if self.pictures > 1 {
            prefetch::divide(&mut self.program, &self.cost, Bands::Fastest, self.pictures);
        }
        let cycles = self.cost.cycles(&self.program, |_| false);
        let for_two = prefetch::for_two(&self.program).map(|program| self.cost.cycles(&program, |_| false));
        Ok(for_two.map_or(cycles, |for_two| cycles.min(for_two)))
    }

    /// Adds the operations of a convolution in blocks of channels.
    fn in_blocks(&mut self, layer: Layer<'_>, blocks: &[Block]) -> Result<(), Error> {
        let Layer { name, conv, numbers, source, target, .. } = layer;
        let mode = layer.mode();
        let stages = self.stages(name, &numbers.stages, source.precision, target, mode)?;
        for mut part in self.parts(name, conv, source, target, mode, blocks)? {
            let packed = match part.precision {
                Precision::Int8 => {
                    part.weights.pack(&plain(conv, numbers, source, target, &part, |weight| weight as i8))
                }
                Precision::Int16 | Precision::Fp16 => {
                    part.weights.pack(&plain(conv, numbers, source, target, &part, |weight| weight))
                }
            };
            let mut packed = packed.map_err(|error| Error::unsupported(name, error.to_string()))?;
            let mut mask = None;
            if let Some((tiles, Surfaces { weights, wmb, wgs })) = self.compressed(&part, &packed) {
                (part.tiles, packed, mask) = (tiles, weights, Some([wmb, wgs]));
            }
            let mut constant = |data: Data, bytes: Vec<u8>| {
                let size = bytes.len() as u32;
                part.cube(Base::Constant(self.program.constant(data, bytes)), 0, size)
            };
            let weights = constant(Data::Weight, packed);
            let mask = mask.map(|[wmb, wgs]| [constant(Data::Wmb, wmb), constant(Data::Wgs, wgs)]);
            self.in_tiles(layer, &part, &stages, weights, mask)?;
        }
        Ok(())
    }

    /// Adds the operations of a block.
    pub(crate) fn in_tiles(
        &mut self,
        layer: Layer<'_>,
        part: &Part,
        stages: &SdpSetup,
        weights: Cube,
        mask: Option<[Cube; 2]>,
    ) -> Result<(), Error> {
        let Layer { number, name, conv, numbers, source, constant, target } = layer;
        let Part { block, kernel, tiles, .. } = part;
        for tile in tiles {
            let Tile { x, y, .. } = tile;
            // SDP writes the atoms of a 1x1 cube one after another and ignores the strides.
            let from = Region {
                channels: block.input,
                lines: (y.input_first, y.input_count),
                columns: (x.input_first, x.input_count),
            };
            let into = Region { channels: block.output, lines: (y.first, y.count), columns: (x.first, x.count) };
            let written = target.cube(&into, stages.atoms());
            let single = (x.count, y.count) == (1, 1) && (target.width, target.height) != (1, 1);
            if single && written.surfaces > 1 {
                let reason = "its parts would be of one element, which SDP cannot write with gaps between surfaces";
                return Err(Error::unsupported(name, reason));
            }
            let sums = written.sums();
            let mut read = source.cube(&from, source.atoms);
            read.base = constant.map_or(read.base, Base::Constant);
            let mut op = Box::new(self.descriptor(conv, numbers, source, *kernel, tile, layer.mode(), &read, &sums));
            if mask.is_some() {
                op.weight_format = WeightFormat::Compressed;
            }
            self.program.push(number, Unit::Convolution { op, source: read, weights, mask, target: sums });
            self.sdp(number, stages, None, target, &into);
        }
        Ok(())
    }

    /// The parts of a convolution in blocks of channels.
    pub(crate) fn parts(
        &self,
        name: &str,
        conv: &Convolution,
        source: &View,
        target: &View,
        mode: Mode,
        blocks: &[Block],
    ) -> Result<Vec<Part>, Error> {
        let axes = axes(conv, source, target);
        let mut parts = Vec::new();
        for &block in blocks {
            let (weights, kernel, size) = self.weights(name, conv, &block, source.precision, mode)?;
            let mut tiles = Vec::new();
            for (x, y, entries) in self.tiles(name, source, &block, size, axes, mode)? {
                let data = cbuf::data_banks(self.config, entries, slices(&y, mode));
                let banks = cbuf::weight_banks(self.config, size, data)
                    .ok_or_else(|| Error::unsupported(name, format!("{data} banks for data leave none for weights")))?;
                tiles.push(Tile { x, y, entries, banks });
            }
            parts.push(Part { precision: source.precision, block, weights, kernel, tiles });
        }
        Ok(parts)
    }

    /// The compressed weights of a part, and its tiles with the banks that these take. `None` if they take more time, or save few
    /// bytes beside those of the input: bands of lines share plain weights only ([`prefetch`]). Blocks of groups gain, because their
    /// weights are zero between the groups; other trained weights are seldom zero.
    ///
    /// The mask takes a bank of the convolution buffer, and the other banks hold the compressed weights (register manual,
    /// `D_WEIGHT_FORMAT`, `D_WMB_BYTES`).
    fn compressed(&self, part: &Part, packed: &[u8]) -> Option<(Vec<Tile>, Surfaces<Vec<u8>>)> {
        let Weights::Direct(layout) = part.weights else { return None };
        if !self.config.weight_compression {
            return None;
        }
        let compression = Compressed::new(layout);
        // Compression leaves out weights that are zero and adds a mask and the sizes of groups.
        let element = bytes(part.precision) as usize;
        let zeros: usize = match element {
            1 => packed.iter().map(|&byte| usize::from(byte == 0)).sum(),
            _ => packed.chunks_exact(element).filter(|weight| weight.iter().all(|&byte| byte == 0)).count(),
        };
        if (zeros * element) as u64 <= compression.wmb_size() + compression.wgs_size() {
            return None;
        }
        let mut weights = vec![0; compression.max_size() as usize];
        let mut wmb = vec![0; compression.wmb_size() as usize];
        let mut wgs = vec![0; compression.wgs_size() as usize];
        let surfaces = Surfaces { weights: &mut weights[..], wmb: &mut wmb[..], wgs: &mut wgs[..] };
        let sizes = compression.compress(packed, surfaces).ok()?;
        weights.truncate(sizes.weights as usize);
        let (plain_bytes, weight_bytes) = (packed.len() as u64, sizes.weights + sizes.wmb + sizes.wgs);
        if weight_bytes >= plain_bytes {
            return None;
        }
        let input = |tile: &Tile| u64::from(part.kernel[0] * tile.y.input_count * tile.x.input_count);
        let input: u64 = part.tiles.iter().map(input).sum();
        if input >= FOR_BANDS && plain_bytes - weight_bytes < input / LEAST_SAVED {
            return None;
        }
        let groups = wgs.chunks_exact(4).take(layout.groups() as usize);
        let groups = groups.map(|size| u32::from_le_bytes([size[0], size[1], size[2], size[3]]));
        // A kernel group whose weights are all zero would be of 0 bytes, and no reference shows that hardware reads such a group.
        if groups.clone().any(|bytes| bytes == 0) {
            return None;
        }
        let size = WeightSize { all: sizes.weights, group: groups.max().unwrap_or(0).into() };
        let tile = |tile: &Tile| {
            let banks = cbuf::weight_banks(self.config, size, tile.banks.data + 1)?;
            Some(Tile { banks: Banks { weights: banks.weights, ..tile.banks }, ..*tile })
        };
        let tiles: Vec<Tile> = part.tiles.iter().map(tile).collect::<Option<_>>()?;
        let cycles = |weight_bytes: u64, tiles: &[Tile]| -> u64 {
            let time = |tile: &Tile| {
                let shape = ConvShape { weight_bytes, ..Self::shape(part, tile, Mode::Direct) };
                let sdp = SdpShape::new(shape.output, Volume { memory: MemoryType::Mc, ..shape.output });
                self.cost.pipeline(&shape, &sdp, None)
            };
            tiles.iter().map(time).sum()
        };
        (cycles(weight_bytes, &tiles) <= cycles(plain_bytes, &part.tiles))
            .then_some((tiles, Surfaces { weights, wmb, wgs }))
    }

    /// The shapes with which the time of a convolution's operations is estimated.
    pub(crate) fn shapes(parts: &[Part], mode: Mode) -> Vec<ConvShape> {
        parts.iter().flat_map(|part| part.tiles.iter().map(|tile| Self::shape(part, tile, mode))).collect()
    }

    fn shape(part: &Part, tile: &Tile, mode: Mode) -> ConvShape {
        let cube = |channels: u32, y: u32, x: u32| Volume { precision: part.precision, ..Volume::int8(channels, y, x) };
        let winograd = mode == Mode::Winograd;
        let [channels, rows, columns] = part.kernel;
        let input = cube(part.block.input.1, tile.y.input_count, tile.x.input_count);
        let output = cube(part.block.output.1, tile.y.count, tile.x.count);
        let window = if winograd { (3, 3) } else { (rows, columns) };
        ConvShape {
            channels,
            weight_bytes: part.weights.size(),
            data_banks: tile.banks.data,
            weight_banks: tile.banks.weights,
            winograd,
            ..ConvShape::direct(input, part.block.output.1, window, output)
        }
    }

    /// The divisions of a convolution's output channels into blocks that are tried: all channels in one block, which is the only
    /// one unless there are groups or the convolution buffer does not hold a kernel group, and blocks of powers of two of atoms.
    /// The first one has the fewest blocks.
    pub(crate) fn divisions(&self, conv: &Convolution, source: &View, target: &View, mode: Mode) -> Vec<Vec<Block>> {
        let atoms = self.program.atoms();
        let groups = conv.op.group;
        let (per_group, kernels_per_group) = (source.map.of.len() / groups, conv.kernels / groups);
        let mut kernels: Vec<(u32, usize)> = target.map.of.iter().copied().zip(0..).collect();
        kernels.sort_unstable();
        let image = mode == Mode::Image;
        let window = if mode == Mode::Winograd { 16 } else { (conv.op.kernel[0] * conv.op.kernel[1]) as u64 };
        let (bank, banks) = (u64::from(self.config.cbuf_bank_bytes()), u64::from(self.config.cbuf_banks));
        let group_kernels = Geometry::of(self.config, source.precision).group_kernels;
        // Blocks of `size` channels, and whether all of them fit the convolution buffer.
        let cut = |size: u32| -> (Vec<Block>, bool) {
            let (mut blocks, mut fits) = (Vec::new(), true);
            for kernels in kernels.chunk_by(|a, b| a.0 / size == b.0 / size) {
                let first = kernels[0].0 / size * size;
                let count = kernels[kernels.len() - 1].0 + 1 - first;
                let channels =
                    kernels.iter().flat_map(|(_, k)| &source.map.of[k / kernels_per_group * per_group..][..per_group]);
                let (low, high) = channels.fold((u32::MAX, 0), |(low, high), &c| (low.min(c), high.max(c)));
                let low = if image { 0 } else { atoms.channels(atoms.place(low as usize).0) as u32 };
                let input = if image { source.map.extent } else { high + 1 - low };
                let kernel = u64::from(input) * window * u64::from(bytes(source.precision));
                fits &= (kernel * u64::from(group_kernels.min(count))).div_ceil(bank) < banks;
                blocks.push(Block { output: (first, count), input: (low, input) });
            }
            (blocks, fits)
        };
        let extent = atoms.filled(target.map.extent as usize) as u32;
        let (whole, whole_fits) = cut(extent);
        let sizes = std::iter::successors(Some(atoms.elements() as u32), |size| Some(size * 2));
        let sizes: Vec<u32> = sizes.take_while(|&size| size < extent && size <= LARGEST_EXTENT).collect();
        if extent > LARGEST_EXTENT {
            let cut: Vec<_> = sizes.into_iter().rev().map(cut).collect();
            let fitting = cut.iter().position(|(_, fits)| *fits).unwrap_or(0);
            return cut.into_iter().nth(fitting).map(|(blocks, _)| blocks).into_iter().collect();
        }
        if groups == 1 && whole_fits {
            // Of several pictures, each can use the weights of a block before the next block is fetched.
            let kernel = u64::from(source.map.extent) * window * u64::from(bytes(source.precision));
            let stays = |&size: &u32| (kernel * u64::from(size)).div_ceil(bank) < banks;
            let several = self.pictures > 1 && !image && !stays(&extent);
            let blocks = sizes.into_iter().rev().filter(|_| several).filter(stays).take(SHARED_BLOCKS);
            return std::iter::once(whole).chain(blocks.map(|size| cut(size).0)).collect();
        }
        let all = std::iter::once((whole, whole_fits)).chain(sizes.into_iter().rev().map(cut));
        let (fitting, larger): (Vec<_>, Vec<_>) = all.partition(|(_, fits)| *fits);
        let kept = if fitting.is_empty() { larger } else { fitting };
        kept.into_iter().map(|(blocks, _)| blocks).collect()
    }

    /// The parts of a block's output: columns, lines and buffer entries of a slice.
    fn tiles(
        &self,
        name: &str,
        source: &View,
        block: &Block,
        weights: WeightSize,
        [lines, columns]: [Axis; 2],
        mode: Mode,
    ) -> Result<Vec<(Span, Span, u32)>, Error> {
        let atoms = source.atoms;
        let surfaces = atoms.surfaces(block.input.1 as usize) as u32;
        let pixel = source.map.extent * bytes(source.precision);
        let entries = |x: &Span| match mode {
            Mode::Direct => cbuf::surface_entries(self.config, surfaces, x.input_count),
            Mode::Image => cbuf::image_entries(self.config, x.padded(), pixel),
            Mode::Winograd => cbuf::image_entries(self.config, x.padded(), atoms.span(surfaces as usize) as u32),
        };
        // The rounding of a part's outputs and input lines. Winograd's are whole tiles.
        let (round, behind) = if mode == Mode::Winograd { (TILE, TILE) } else { (1, 0) };
        let part = |span: Span| if mode == Mode::Winograd { span.tiled() } else { span };
        let most_entries = csc::D_ENTRY_PER_SLICE::ENTRIES.max() + 1;
        let most_atomics = csc::D_ATOMICS::ATOMICS.max() + 1;
        let pads = [cdma::D_ZERO_PADDING::PAD_LEFT.max(), cdma::D_ZERO_PADDING::PAD_RIGHT.max()];
        let mut parts = 1;
        loop {
            let each = columns.output.div_ceil(parts).next_multiple_of(round);
            let mut tiles = Vec::new();
            let spans = columns.split(columns.input, each);
            let mut fits = spans.is_some();
            for x in spans.unwrap_or_default() {
                let x = part(x);
                let entries = entries(&x);
                let most = cbuf::most_lines(self.config, entries, weights);
                let allowed = entries <= most_entries && x.before <= pads[0] && x.after <= pads[1];
                let outputs = (most_atomics / x.count).max(1);
                let bands = match mode {
                    Mode::Winograd => {
                        lines.split(lines.input, most.saturating_sub(behind).min(outputs) / round * round)
                    }
                    Mode::Direct | Mode::Image => lines.split(most, outputs),
                };
                match bands.filter(|_| allowed) {
                    Some(bands) => tiles.extend(bands.into_iter().map(|y| (x, part(y), entries))),
                    None => fits = false,
                }
            }
            if fits {
                return Ok(tiles);
            }
            if mode == Mode::Image || each <= round {
                if lines.ends_behind() || columns.ends_behind() {
                    let reason = "it must be computed in parts, of which one would have windows in the padding alone";
                    return Err(Error::unsupported(name, reason));
                }
                let bank = self.config.cbuf_bank_bytes();
                let reason = format!(
                    "the convolution buffer's {} banks of {bank} bytes cannot hold a kernel group of {} bytes and the {} \
                     input lines of {} bytes that a line of output takes",
                    self.config.cbuf_banks,
                    weights.group,
                    lines.window.min(lines.input),
                    cbuf::slice_bytes(self.config, entries(&columns.span(0, each))),
                );
                return Err(Error::unsupported(name, reason));
            }
            parts += 1;
        }
    }

    fn descriptor(
        &self,
        conv: &Convolution,
        numbers: &Numbers,
        source: &View,
        kernel: [u32; 3],
        &Tile { x, y, entries, banks }: &Tile,
        mode: Mode,
        read: &Cube,
        sums: &Cube,
    ) -> desc::ConvOp {
        let winograd = mode == Mode::Winograd;
        // Registers hold one offset per component. Components are the image's physical channels.
        let mut mean = [0; 4];
        for (&component, value) in source.map.of.iter().zip(numbers.converter.map_or([0; 4], |c| c.offsets)) {
            mean[component as usize % 4] = value;
        }
        let unsigned = numbers.converter.is_some_and(|converter| converter.unsigned);
        desc::ConvOp {
            entry_per_slice: entries as u16,
            data_format: match source.format {
                Format::Feature => DataFormat::Feature,
                Format::Pixel(format) => DataFormat::Pixel(format),
            },
            pixel_override: if unsigned { PixelOverride::Uint } else { PixelOverride::Int },
            fetch_grain: 1,
            batch: 1,
            data_bank: banks.data as u8,
            weight_bank: banks.weights as u8,
            conv_mode: if winograd { ConvMode::Winograd } else { ConvMode::Direct },
            release: slices(&y, mode) as u16,
            input_width_csc: if winograd { x.padded() as u16 } else { read.width },
            input_height_csc: slices(&y, mode) as u16,
            input_channel_csc: if winograd { kernel[0] as u16 } else { read.channels },
            kernel_width_csc: kernel[2] as u16,
            kernel_height_csc: kernel[1] as u16,
            kernel_channel_csc: kernel[0] as u16,
            post_extension: match source.format {
                Format::Feature => 0,
                Format::Pixel(_) => post_extension(self.config, conv, kernel).lines().ilog2() as u8,
            },
            input_width_cmac: sums.width,
            input_height_cmac: sums.height,
            bytes_per_kernel: kernel.iter().product::<u32>() * bytes(source.precision),
            mean_format: numbers.converter.is_some(),
            mean_ry: mean[0],
            mean_gu: mean[1],
            mean_bv: mean[2],
            mean_ax: mean[3],
            conv_stride_x: conv.op.stride[1] as u8,
            conv_stride_y: conv.op.stride[0] as u8,
            pad_x_left: x.before as u8,
            pad_x_right: x.after as u8,
            pad_y_top: y.before as u8,
            pad_y_bottom: y.after as u8,
            dilation_x: conv.op.dilation[1] as u8,
            dilation_y: conv.op.dilation[0] as u8,
            pra_truncate: if winograd && source.precision == Precision::Int8 { PRA_TRUNCATE } else { 0 },
            in_precision: if mode == Mode::Image { Precision::Int8 } else { source.precision },
            out_precision: source.precision,
            pad_val: numbers.outside,
            in_cvt: numbers.converter.map_or_else(
                || desc::CvtParam { scale: 1, ..Default::default() },
                |converter| sdp::converter(converter.scale, converter.truncate),
            ),
            out_cvt: sdp::converter(1, numbers.truncate),
            ..Default::default()
        }
    }

    /// The layout of a block's weights, a kernel's channels, lines and columns for CSC, and the weights' sizes.
    fn weights(
        &self,
        name: &str,
        conv: &Convolution,
        block: &Block,
        precision: Precision,
        mode: Mode,
    ) -> Result<(Weights, [u32; 3], WeightSize), Error> {
        let geometry = Geometry::of(self.config, precision);
        let refuse = |error: layout::Error| Error::unsupported(name, error.to_string());
        let [rows, columns] = conv.op.kernel.map(|extent| extent as u32);
        let (kernels, channels) = (block.output.1, block.input.1);
        let extents = Extents::new(kernels, channels, rows, columns);
        let (weights, kernel) = match mode {
            Mode::Direct => {
                (Weights::Direct(Direct::new(extents, geometry).map_err(refuse)?), [channels, rows, columns])
            }
            Mode::Image => {
                // Pre-extension turns the columns into channels.
                let kernel = [channels * columns, rows, 1];
                let extension = post_extension(self.config, conv, kernel);
                (Weights::Image(Image::new(extents, geometry, extension).map_err(refuse)?), kernel)
            }
            Mode::Winograd => {
                let winograd = Winograd::new(extents, 1, 1, geometry).map_err(refuse)?;
                (Weights::Winograd(winograd), [winograd.extended_channels(), TILE, TILE])
            }
        };
        let most = cdma::D_WEIGHT_SIZE_0::BYTE_PER_KERNEL.max() + 1;
        let kernel_bytes = kernel.iter().product::<u32>() * bytes(precision);
        if kernel_bytes > most {
            let reason = format!("a kernel of {kernel_bytes} bytes is more than the hardware's {most}");
            return Err(Error::unsupported(name, reason));
        }
        let group = geometry.largest_group(kernels) * u64::from(kernel_bytes);
        let size = WeightSize { all: weights.size(), group };
        Ok((weights, kernel, size))
    }
}

/// A part's weights in the order K, C, R, S. Channels that a kernel does not use have weight zero.
fn plain<T: Element>(
    conv: &Convolution,
    numbers: &Numbers,
    source: &View,
    target: &View,
    Part { block, weights, .. }: &Part,
    element: impl Fn(i16) -> T,
) -> Vec<T> {
    let extents = weights.extents();
    let (channels, window) = (extents.c as usize, extents.h as usize * extents.w as usize);
    let mut plain = vec![T::default(); extents.elements() as usize];
    let per_group = source.map.of.len() / conv.op.group;
    let kernels_per_group = conv.kernels / conv.op.group;
    for (k, &at) in target.map.of.iter().enumerate() {
        let Some(row) = at.checked_sub(block.output.0).filter(|&row| row < block.output.1) else { continue };
        let from = &source.map.of[k / kernels_per_group * per_group..][..per_group];
        let mut next = k * per_group * window;
        // Channels that follow one another are copied together.
        for run in from.chunk_by(|a, b| a + 1 == *b) {
            let to = (row as usize * channels + (run[0] - block.input.0) as usize) * window;
            let count = run.len() * window;
            numbers.weights.copy(next..next + count, &mut plain[to..][..count], &element);
            next += count;
        }
    }
    plain
}

/// The number of lines of an image's kernels that CSC processes at once: the least with which a kernel takes the fewest steps. `kernel`
/// has the channels after pre-extension, and the lines.
fn post_extension(config: &Config, conv: &Convolution, [kernel, rows, _]: [u32; 3]) -> PostExtension {
    let [columns, stride] = [conv.op.kernel[1], conv.op.stride[1]].map(|value| value as u32);
    let fits = |extension: &PostExtension| {
        kernel * extension.lines() <= config.mac_atomic_c
            && extension.reach(stride, kernel / columns, kernel) <= config.mac_atomic_c
    };
    let wider = [PostExtension::Two, PostExtension::Four].into_iter().filter(fits);
    std::iter::once(PostExtension::One)
        .chain(wider)
        .min_by_key(|extension| rows.div_ceil(extension.lines()))
        .unwrap_or(PostExtension::One)
}

/// Checks the limits of the hardware's register fields.
fn limits(name: &str, conv: &Convolution) -> Result<(), Error> {
    let pads = conv.op.padding;
    let checks = [
        ("kernel height", conv.op.kernel[0], LARGEST_KERNEL),
        ("kernel width", conv.op.kernel[1], LARGEST_KERNEL),
        ("vertical stride", conv.op.stride[0], LARGEST_STRIDE),
        ("horizontal stride", conv.op.stride[1], LARGEST_STRIDE),
        ("vertical dilation", conv.op.dilation[0], LARGEST_DILATION),
        ("horizontal dilation", conv.op.dilation[1], LARGEST_DILATION),
        ("padding on the left", pads.left, LARGEST_PADDING_BEFORE),
        ("padding on the right", pads.right, LARGEST_PADDING_AFTER),
        ("padding at the top", pads.top, LARGEST_PADDING_BEFORE),
        ("padding at the bottom", pads.bottom, LARGEST_PADDING_AFTER),
    ];
    match checks.iter().find(|(_, value, most)| value > most) {
        Some((what, value, most)) => {
            Err(Error::unsupported(name, format!("{what} {value} is more than the hardware's {most}")))
        }
        None => Ok(()),
    }
}
