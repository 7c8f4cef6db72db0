// SPDX-License-Identifier: MIT OR Apache-2.0

//! The convolution buffer: the data and weights that CDMA fetches, and those that stay for the next operation.
//!
//! A slice is one line of one cube. If CDMA does not change the input, it is read in place from memory. Otherwise the
//! slices are gathered in a buffer. Slices and weights that an operation does not release stay in [`State`]. The next
//! operation uses them under the hardware's conditions: it has the same mode and banks, and sets the reuse option.
//!
//! Source: the sequence threads of `cmod/cdma` and `cmod/csc`.

use std::borrow::Cow;
use std::collections::HashMap;

use nvdla_uapi::layout::feature::{Cells, Cube, View};
use nvdla_uapi::layout::pixel::{Format, Kind};
use nvdla_uapi::reg::values::Precision;

use super::fp16::{is_infinite, is_nan};
use super::operation::{Mode, Operation, Placement, WeightSurface};
use super::pixel;
use crate::memory::{self, Memory, Span, Stop};
use crate::simd::table::{self, Results};
use nvdla_uapi::isa::Isa;

/// The largest number of weight surfaces whose counters are kept: more than usual networks have.
const MOST_COUNTED: usize = 4096;

/// The contents of the convolution buffer between operations.
#[derive(Debug, Default)]
pub struct State {
    /// The last operation's placement.
    placement: Option<Placement>,
    /// Whether it keeps all data, by CDMA's and by CSC's registers.
    kept_data: [bool; 2],
    /// Whether it keeps all weights, by CDMA's and by CSC's registers.
    kept_weights: [bool; 2],
    /// The shape of the remaining slices.
    shape: Option<Shape>,
    /// The remaining slices, one after another.
    slices: Vec<u8>,
    /// The remaining weights, uncompressed.
    weights: Vec<u8>,
    /// Where the remaining weights were fetched, and [`Memory::version`] of the bytes at that time.
    fetched: Option<(WeightSurface, u64)>,
    /// The numbers of NaNs and infinities in fp16 weights that were fetched before, by address, with the version of the bytes.
    counted: HashMap<u64, (WeightSurface, u64, (u32, u32))>,
    /// The counters of the last fetches. An operation that fetches nothing reports them again.
    pub(super) counters: Counters,
}

/// The parameters that two operations must share for one to read the other's slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    bytes: usize,
    width: usize,
    channels: usize,
    precision: Precision,
}

impl Shape {
    fn of(operation: &Operation) -> Self {
        Self {
            bytes: operation.slice_bytes(),
            width: operation.input.width,
            channels: operation.input.channels,
            precision: operation.precision,
        }
    }
}

/// CDMA's counters of values that are not finite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// NaN in data.
    pub nan_data: u32,
    /// Infinity in data.
    pub infinite_data: u32,
    /// NaN in weights.
    pub nan_weights: u32,
    /// Infinity in weights.
    pub infinite_weights: u32,
}

/// CSC's input.
#[derive(Clone, Debug)]
pub struct Input<'m> {
    /// All bytes.
    pub bytes: Cow<'m, [u8]>,
    /// The position of each byte of an element's channels, by cube, line and column.
    pub view: View,
}

/// CSC's weights, uncompressed.
#[derive(Clone, Debug)]
pub struct Weights<'m> {
    /// All bytes.
    pub bytes: Cow<'m, [u8]>,
    /// [`Memory::version`] of the bytes in memory that they are, or of which they are a copy.
    pub version: Option<u64>,
}

impl std::ops::Deref for Weights<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl State {
    /// Fetches the input that CSC reads for this operation.
    pub(super) fn input<'m>(
        &mut self,
        isa: Isa,
        operation: &Operation,
        memory: &'m dyn Memory,
    ) -> Result<Input<'m>, Stop> {
        let placed = self.placement == Some(operation.placement);
        let [cdma, csc] = operation.data_reuse;
        let fetches = !(placed && self.kept_data[0] && cdma.reuse);
        let keeps = placed && csc.reuse;
        let slice = operation.slice_bytes();
        if !keeps {
            self.slices.clear();
        } else if !self.slices.is_empty() && self.shape != Some(Shape::of(operation)) {
            return Err(Stop::unsupported(
                "CSC",
                format!(
                    "DATA_REUSE over slices of {:?} by an operation with slices of {:?}",
                    self.shape,
                    Shape::of(operation)
                ),
            ));
        }
        let kept = self.slices.len() / slice.max(1);
        let fetched = if fetches { operation.fetched_slices() } else { 0 };
        if kept + fetched != operation.slices {
            return Err(Stop::unsupported(
                "CSC",
                format!("CSC takes {} slices, the buffer holds {kept} and CDMA fetches {fetched}", operation.slices),
            ));
        }
        let counters = &mut self.counters;
        if fetches {
            (counters.nan_data, counters.infinite_data) = (0, 0);
        }
        if kept == 0 {
            if let Some(input) = in_place(operation, memory) {
                return Ok(input);
            }
        }
        let mut bytes = std::mem::take(&mut self.slices);
        if fetches {
            bytes.reserve_exact(fetched * slice);
            match operation.placement.mode {
                Mode::Feature => gather_feature(operation, memory, counters, &mut bytes)?,
                Mode::Pixel => gather_pixel(isa, operation, memory, counters, &mut bytes)?,
                Mode::Winograd => gather_winograd(operation, memory, counters, &mut bytes)?,
            }
        }
        let (surfaces, width, atom) = match operation.placement.mode {
            Mode::Feature => (operation.fetch_surfaces(), operation.fetch.width, operation.atoms.bytes()),
            Mode::Pixel | Mode::Winograd => (1, 0, operation.input.channels * operation.element()),
        };
        let view = View { cube: slice, line: slice * operation.batch, ..View::by_lines(1, surfaces, width, atom) };
        Ok(Input { bytes: Cow::Owned(bytes), view })
    }

    /// Fetches the weights. They are uncompressed, in the order of the hardware's steps.
    pub(super) fn weights<'m>(&mut self, operation: &Operation, memory: &'m dyn Memory) -> Result<Weights<'m>, Stop> {
        let changed = |bytes| Weights { bytes: Cow::Owned(bytes), version: None };
        let placed = self.placement == Some(operation.placement);
        let [cdma, csc] = operation.weight_reuse;
        let fetches = !(placed && self.kept_weights[0] && cdma.reuse);
        let keeps = placed && self.kept_weights[1] && csc.reuse;
        let needed = operation.kernel_bytes() * operation.kernels;
        if fetches == keeps {
            return Err(Stop::unsupported(
                "CSC",
                format!("WEIGHT_REUSE is {} in CDMA and {} in CSC", cdma.reuse, csc.reuse),
            ));
        }
        if keeps {
            let weights = std::mem::take(&mut self.weights);
            if weights.len() < needed {
                return Err(Stop::unsupported(
                    "CSC",
                    format!("{needed} bytes of weights are to be reused, {} are there", weights.len()),
                ));
            }
            let fetched = self.fetched.filter(|(surface, _)| *surface == operation.weights);
            return Ok(Weights { bytes: Cow::Owned(weights), version: fetched.map(|(_, version)| version) });
        }
        let surface = &operation.weights;
        let stored = memory::read(memory, "CDMA", surface.port, surface.address, surface.bytes)?;
        let version = memory.version(Span { port: surface.port, address: surface.address, length: surface.bytes });
        (self.counters.nan_weights, self.counters.infinite_weights) = match operation.precision {
            Precision::Fp16 => self.special(surface, version, stored),
            Precision::Int8 | Precision::Int16 => (0, 0),
        };
        let Some((address, bytes)) = surface.mask else {
            return Ok(Weights { bytes: Cow::Borrowed(&stored[..needed]), version });
        };
        let groups = operation.kernels.div_ceil(operation.atomic_k);
        memory::read(memory, "CDMA", surface.port, surface.sizes, groups * 4)?;
        let mask = memory::read(memory, "CDMA", surface.port, address, bytes)?;
        Ok(changed(decompress(mask, stored, needed / operation.element(), operation.element())))
    }

    /// Counts NaNs and infinities of weights, unless this version of them was counted before.
    fn special(&mut self, surface: &WeightSurface, version: Option<u64>, stored: &[u8]) -> (u32, u32) {
        let Some(version) = version else { return count(stored) };
        match self.counted.get(&surface.address) {
            Some((counted, of, result)) if (counted, *of) == (surface, version) => *result,
            _ => {
                if self.counted.len() >= MOST_COUNTED {
                    self.counted.clear();
                }
                let result = count(stored);
                self.counted.insert(surface.address, (*surface, version, result));
                result
            }
        }
    }

    /// Releases the slices and weights that the operation does not keep.
    pub(super) fn release(&mut self, operation: &Operation, input: Input<'_>, weights: Weights<'_>) {
        self.placement = Some(operation.placement);
        self.kept_data = operation.data_reuse.map(|options| options.keep);
        self.kept_weights = operation.weight_reuse.map(|options| options.keep);
        self.shape = Some(Shape::of(operation));
        let slice = operation.slice_bytes();
        let released = if self.kept_data[1] { 0 } else { operation.release.min(operation.slices) };
        self.slices = match input.bytes {
            // The next operation reuses this allocation.
            Cow::Owned(mut bytes) if released == operation.slices => {
                bytes.clear();
                bytes
            }
            Cow::Borrowed(_) if released == operation.slices => {
                self.slices.clear();
                std::mem::take(&mut self.slices)
            }
            Cow::Owned(mut bytes) => {
                bytes.drain(..released * slice);
                bytes
            }
            Cow::Borrowed(bytes) => {
                let Operation { fetch, batch, .. } = operation;
                let view = input.view;
                let mut slices = Vec::with_capacity((operation.slices - released) * slice);
                for index in released..operation.slices {
                    let (y, cube) = (index / batch, index % batch);
                    for surface in 0..operation.fetch_surfaces() {
                        slices.extend_from_slice(&bytes[view.atoms(cube, surface, [y, 0], fetch.width)]);
                    }
                }
                slices
            }
        };
        self.fetched = weights.version.map(|version| (operation.weights, version));
        match weights.bytes {
            Cow::Owned(bytes) if self.kept_weights[1] => self.weights = bytes,
            // The allocation of the weights before is used again.
            Cow::Borrowed(bytes) if self.kept_weights[1] => bytes.clone_into(&mut self.weights),
            _ => self.weights.clear(),
        }
    }
}

/// Counts NaNs and infinities of fp16 data.
fn count(bytes: &[u8]) -> (u32, u32) {
    let halves = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
    halves
        .fold((0, 0), |(nan, infinite), half| (nan + u32::from(is_nan(half)), infinite + u32::from(is_infinite(half))))
}

/// The input in place, if CDMA does not change it and memory gives it as one slice.
fn in_place<'m>(operation: &Operation, memory: &'m dyn Memory) -> Option<Input<'m>> {
    let Operation { surface, fetch, .. } = operation;
    if operation.placement.mode != Mode::Feature
        || operation.converter.is_some()
        || operation.precision == Precision::Fp16
    {
        return None;
    }
    let cubes = operation.cubes().ok()?;
    let length = usize::try_from(cubes.span()).ok()?;
    let bytes = memory.view(Span { port: surface.port, address: surface.address[0], length })?;
    let stride = |count: usize, stride: u64| if count == 1 { Some(0) } else { usize::try_from(stride).ok() };
    let view = View {
        cube: stride(operation.batch, cubes.cube_stride())?,
        surface: stride(operation.fetch_surfaces(), cubes.surface_stride())?,
        line: stride(fetch.height, cubes.line_stride())?,
        atom: operation.atoms.bytes(),
    };
    Some(Input { bytes: Cow::Borrowed(bytes), view })
}

/// Reads one line of a surface.
fn feature_line<'m>(
    operation: &Operation,
    cubes: &Cube,
    memory: &'m dyn Memory,
    batch: usize,
    surface: usize,
    y: usize,
) -> Result<&'m [u8], Stop> {
    let from = &operation.surface;
    let address = from.address[0].wrapping_add(cubes.atom_offset_of(batch as u32, surface as u32, y as u32, 0));
    Ok(memory::read(memory, "CDMA", from.port, address, operation.atoms.span(operation.fetch.width))?)
}

/// Changes the elements of a line as CDMA does: flushes NaN, and converts.
fn adapt(operation: &Operation, table: Option<&[u16; 256]>, line: &mut [u8]) {
    match (operation.in_precision, operation.converter) {
        (Precision::Fp16, _) if operation.flush_nan => {
            for pair in line.chunks_exact_mut(2) {
                if is_nan(u16::from_le_bytes([pair[0], pair[1]])) {
                    pair.fill(0);
                }
            }
        }
        (Precision::Int8, Some(_)) => {
            if let Some(table) = table {
                for byte in line {
                    *byte = table[usize::from(*byte)] as u8;
                }
            }
        }
        (Precision::Int16, Some(converter)) => {
            for pair in line.chunks_exact_mut(2) {
                let value = i16::from_le_bytes([pair[0], pair[1]]);
                pair.copy_from_slice(&converter.convert(i32::from(value), 0, Precision::Int16).to_le_bytes());
            }
        }
        _ => {}
    }
}

fn gather_feature(
    operation: &Operation,
    memory: &dyn Memory,
    counters: &mut Counters,
    bytes: &mut Vec<u8>,
) -> Result<(), Stop> {
    let cubes = operation.cubes()?;
    let table = operation.converter.map(|converter| converter.table(0, true, Precision::Int8));
    for y in 0..operation.fetch.height {
        for batch in 0..operation.batch {
            for surface in 0..operation.fetch_surfaces() {
                let line = feature_line(operation, &cubes, memory, batch, surface, y)?;
                if operation.precision == Precision::Fp16 {
                    let (nan, infinite) = count(line);
                    counters.nan_data += nan;
                    counters.infinite_data += infinite;
                }
                let start = bytes.len();
                bytes.extend_from_slice(line);
                adapt(operation, table.as_ref(), &mut bytes[start..]);
            }
        }
    }
    Ok(())
}

fn gather_pixel(
    isa: Isa,
    operation: &Operation,
    memory: &dyn Memory,
    counters: &mut Counters,
    bytes: &mut Vec<u8>,
) -> Result<(), Stop> {
    let format = Format::new(operation.pixel);
    let plane_bytes = pixel::pixel_bytes(&format);
    let components = format.channels as usize;
    let Operation { surface, fetch, .. } = operation;
    let pad = operation.pad_value[0].to_le_bytes();
    let pad = &pad[..operation.element()];
    // Without the converter, 8-bit pixels are not widened to 16-bit elements. Element n of the line is byte n of the
    // line, so the first pixels overwrite the second half of the left padding. Bytes that neither covers are zero.
    let narrow = operation.converter.is_none() && operation.in_precision == Precision::Int8 && operation.element() == 2;
    let element_bytes = if narrow { 1 } else { operation.element() };
    let plain =
        format.component_bytes() == 1 && format.planes == 1 && operation.element() == 1 && matches!(components, 1 | 4);
    let mut order = [0; 4];
    for (byte, component) in order.iter_mut().zip(format.components()) {
        *byte = component.lsb / 8;
    }
    let tables = plain.then(|| tables(operation, components));
    let image = operation.image()?;
    for y in 0..fetch.height {
        let mut planes = [&[][..]; 2];
        for (plane, line) in planes.iter_mut().enumerate().take(format.planes as usize) {
            let address = surface.address[plane].wrapping_add(image.pixel_offset(plane as u32, y as u32, 0));
            let length = image.line_bytes(plane as u32) as usize;
            *line = memory::read(memory, "CDMA", surface.port, address, length)?;
        }
        let start = bytes.len();
        append(bytes, pad, operation.pads[0] * components);
        if narrow {
            bytes.truncate(start + operation.pads[0] * components);
        }
        if let Some(tables) = &tables {
            // One plane of 8-bit components and 8-bit elements.
            let from = bytes.len();
            bytes.resize(from + planes[0].len(), 0);
            match components {
                4 => table::look_up_pixels(isa, tables, order, planes[0], &mut bytes[from..]),
                _ => table::look_up(isa, &tables[0], planes[0], &mut bytes[from..]),
            }
        }
        let mut joined = [0; pixel::MAX_BYTES];
        for x in 0..if tables.is_some() { 0 } else { fetch.width } {
            let [p0, p1] = plane_bytes;
            joined[..p0].copy_from_slice(&planes[0][x * p0..][..p0]);
            joined[p0..p0 + p1].copy_from_slice(&planes[1][x * p1..][..p1]);
            let channels = pixel::channels(&format, &joined);
            for (channel, &bits) in channels[..components].iter().enumerate() {
                let element = pixel_element(operation, &format, counters, bits, channel).to_le_bytes();
                bytes.extend_from_slice(&element[..element_bytes]);
            }
        }
        if narrow {
            // The padding can reach beyond the pixels.
            let (end, padded) = (bytes.len() - start, 2 * operation.pads[0] * components);
            bytes.extend((end..padded).map(|at| pad[at % 2]));
        }
        bytes.resize(start + (operation.pads[0] + fetch.width) * components * operation.element(), 0);
        append(bytes, pad, operation.pads[1] * components);
    }
    Ok(())
}

/// Appends an element this many times.
fn append(bytes: &mut Vec<u8>, element: &[u8], count: usize) {
    match element {
        [byte] => bytes.resize(bytes.len() + count, *byte),
        _ => bytes.extend(element.iter().cycle().take(count * element.len())),
    }
}

/// The element for each byte of a component, by channel. Channels with the same offset share one computation.
fn tables(operation: &Operation, channels: usize) -> [Results; 4] {
    let mut tables = [[0; 256]; 4];
    for channel in 0..channels {
        let like = |other: &usize| operation.converter.is_none_or(|by| by.offsets[*other] == by.offsets[channel]);
        tables[channel] = match ((0..channel).find(like), operation.converter) {
            (Some(other), _) => tables[other],
            (None, Some(converter)) => {
                converter.table(channel, operation.pixel_signed, Precision::Int8).map(|element| element as u8)
            }
            (None, None) => std::array::from_fn(|byte| byte as u8),
        };
    }
    tables
}

/// Converts a pixel's component to CMAC's precision.
fn pixel_element(operation: &Operation, format: &Format, counters: &mut Counters, bits: u16, channel: usize) -> u16 {
    if format.kind == Kind::Float {
        counters.infinite_data += u32::from(is_infinite(bits));
        if is_nan(bits) {
            counters.nan_data += 1;
            if operation.flush_nan {
                return 0;
            }
        }
        return bits;
    }
    let Some(converter) = operation.converter else { return bits };
    let value = match (operation.in_precision, operation.pixel_signed) {
        (Precision::Int8, true) => i32::from(bits as u8 as i8),
        (_, true) => i32::from(bits as i16),
        (_, false) => i32::from(bits),
    };
    converter.convert(value, channel, operation.precision)
}

/// Gathers the input of Winograd convolution with its padding and stride extension: element (y, x) of extended channel
/// `(sy * stride_x + sx, c)` is element (y * stride_y + sy, x * stride_x + sx) of channel `c` of the padded input.
fn gather_winograd(
    operation: &Operation,
    memory: &dyn Memory,
    counters: &mut Counters,
    bytes: &mut Vec<u8>,
) -> Result<(), Stop> {
    let Operation { fetch, input, atoms, .. } = operation;
    // In a slice, the extended surfaces of a column are adjacent.
    let columns = View { surface: atoms.bytes(), atom: input.channels * operation.element(), ..View::default() };
    let [left, _, top, _] = operation.pads;
    let [stride_x, stride_y] = operation.extension;
    let surfaces = operation.fetch_surfaces();
    let cubes = operation.cubes()?;
    let pad: Vec<u8> = operation.pad_value[0].to_le_bytes()[..operation.element()]
        .iter()
        .copied()
        .cycle()
        .take(atoms.bytes())
        .collect();
    let start = bytes.len();
    bytes.resize(start + operation.fetched_slices() * operation.slice_bytes(), 0);
    for (y, slice) in bytes[start..].chunks_exact_mut(operation.slice_bytes()).enumerate() {
        for sy in 0..stride_y {
            let line_y = (y * stride_y + sy).checked_sub(top).filter(|&y| y < fetch.height);
            for surface in 0..surfaces {
                let line = match line_y {
                    Some(y) => Some(feature_line(operation, &cubes, memory, 0, surface, y)?),
                    None => None,
                };
                for x in 0..input.width {
                    for sx in 0..stride_x {
                        let line_x = (x * stride_x + sx).checked_sub(left).filter(|&x| x < fetch.width);
                        let from = match (line, line_x) {
                            (Some(line), Some(x)) => &line[atoms.span(x)..atoms.span(x + 1)],
                            _ => &pad,
                        };
                        let extended = Cells { stride_x, surfaces }.surface(surface, [sx, sy]);
                        let at = columns.atom_offset(0, extended, 0, x);
                        slice[at..at + atoms.bytes()].copy_from_slice(from);
                    }
                }
            }
        }
        if operation.precision == Precision::Fp16 {
            let (nan, infinite) = count(slice);
            counters.nan_data += nan;
            counters.infinite_data += infinite;
            adapt(operation, None, slice);
        }
    }
    Ok(())
}

/// Decompresses weights, given their mask (one bit per element, least significant first) and the nonzero elements.
///
/// If the mask or the stored elements are too short, the remaining elements are zero. In hardware, CSC reads as many
/// elements as the mask has bits, and gets the data of an earlier operation from the convolution buffer. Software
/// cannot check this, because mask and elements are data in memory.
fn decompress(mask: &[u8], stored: &[u8], elements: usize, element: usize) -> Vec<u8> {
    let bit = |index: usize| mask.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 != 0);
    let mut weights = vec![0; elements * element];
    let mut next = stored.chunks_exact(element);
    for (index, weight) in weights.chunks_exact_mut(element).enumerate() {
        if bit(index) {
            if let Some(stored) = next.next() {
                weight.copy_from_slice(stored);
            }
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_grow_back_between_their_zeros() {
        let weights = decompress(&[0b1010_0001, 0b1], &[1, 2, 3, 4, 9], 9, 1);
        assert_eq!(weights, [1, 0, 0, 0, 0, 2, 0, 3, 4]);
        let weights = decompress(&[0b110], &[1, 2, 3, 4], 3, 2);
        assert_eq!(weights, [0, 0, 1, 2, 3, 4]);
        // Missing elements are zero.
        assert_eq!(decompress(&[0b111], &[1, 2], 3, 1), [1, 2, 0]);
        assert_eq!(decompress(&[0b111], &[1, 2, 3], 9, 1), [1, 2, 3, 0, 0, 0, 0, 0, 0]);
    }
}
