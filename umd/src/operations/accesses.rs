// SPDX-License-Identifier: MIT OR Apache-2.0

//! The bytes of a loadable's memories that an operation reads and writes according to its descriptors.

use nvdla_uapi::desc::{
    BdmaTransfer, ConvOp, ConvSurface, DataCube, DataFormat, MemoryType, Operation, SdpOp, SdpSubUnit, Surface,
};
use nvdla_uapi::layout::feature::Cube;
use nvdla_uapi::layout::operand::Operands;
use nvdla_uapi::layout::{pixel, precision, Extents};
use nvdla_uapi::reg::values::{OperandMode, Precision, RubikMode};

use super::list::NetworkOperation;
use super::lists::Slot;
use super::timeline::Step;

/// The greatest number of pieces of a surface. A surface with more pieces counts as one, from its first to its last byte.
const MAX_PIECES: usize = 1 << 12;

/// Bytes that an operation reads or writes.
#[derive(Clone, Debug)]
pub(super) struct Access {
    /// The operation, by its position in the task's list.
    pub(super) operation: usize,
    /// The surface's name.
    pub(super) surface: &'static str,
    pub(super) writes: bool,
    /// Position in the loadable's list of memories.
    pub(super) memory: usize,
    /// For each piece the first byte and the byte after the last, in order.
    pieces: Vec<(u64, u64)>,
    /// The first and the last step at which the operation accesses them.
    pub(super) begins: Step,
    pub(super) ends: Step,
}

impl Access {
    /// The first byte.
    pub(super) fn start(&self) -> u64 {
        self.pieces.first().map_or(0, |piece| piece.0)
    }

    /// The byte after the last.
    pub(super) fn end(&self) -> u64 {
        self.pieces.last().map_or(0, |piece| piece.1)
    }

    /// The first bytes that both access.
    pub(super) fn shared(&self, other: &Self) -> Option<(u64, u64)> {
        let (mut mine, mut its) = (self.pieces.iter().peekable(), other.pieces.iter().peekable());
        while let (Some(&&(a, a_end)), Some(&&(b, b_end))) = (mine.peek(), its.peek()) {
            let (start, end) = (a.max(b), a_end.min(b_end));
            if start < end {
                return Some((start, end));
            }
            if a_end <= b_end {
                mine.next();
            } else {
                its.next();
            }
        }
        None
    }
}

/// A surface as pieces: bytes of a piece, and from the innermost level on the number and the distance of repetitions.
struct Pieces {
    start: u64,
    bytes: u64,
    levels: [(u64, u64); 3],
}

impl Pieces {
    fn plain(start: u64, bytes: u64) -> Self {
        Self { start, bytes, levels: [(1, 0); 3] }
    }

    /// All pieces, with adjacent pieces merged.
    fn list(self) -> Vec<(u64, u64)> {
        let Self { start, mut bytes, mut levels } = self;
        let mut count = 1u64;
        for (repeat, stride) in &mut levels {
            if count == 1 && *stride == bytes {
                // The repetitions are adjacent.
                bytes = bytes.saturating_mul(*repeat);
                *repeat = 1;
            }
            count = count.saturating_mul(*repeat);
        }
        if bytes == 0 || count == 0 {
            return Vec::new();
        }
        if count > MAX_PIECES as u64 {
            let last = levels
                .iter()
                .fold(start, |at, &(repeat, stride)| at.saturating_add((repeat - 1).saturating_mul(stride)));
            return vec![(start, last.saturating_add(bytes))];
        }
        let [(inner, a), (middle, b), (outer, c)] = levels;
        let mut all = Vec::with_capacity(count as usize);
        for z in 0..outer {
            for y in 0..middle {
                for x in 0..inner {
                    let offset =
                        x.saturating_mul(a).saturating_add(y.saturating_mul(b)).saturating_add(z.saturating_mul(c));
                    let at = start.saturating_add(offset);
                    all.push((at, at.saturating_add(bytes)));
                }
            }
        }
        all.sort_unstable();
        all.dedup_by(|next, last| {
            let touches = next.0 <= last.1;
            if touches {
                last.1 = last.1.max(next.1);
            }
            touches
        });
        all
    }
}

/// Collects an operation's accesses.
pub(super) struct Collector<'a> {
    slots: &'a [Slot],
    atom: u32,
    all: Vec<Access>,
}

impl<'a> Collector<'a> {
    /// For a task with these addresses, on a device with atoms of `atom` bytes.
    pub(super) fn new(slots: &'a [Slot], atom: u32) -> Self {
        Self { slots, atom, all: Vec::new() }
    }

    pub(super) fn finish(self) -> Vec<Access> {
        self.all
    }

    /// Adds the accesses of an operation.
    pub(super) fn add(&mut self, at: usize, operation: &NetworkOperation) {
        match (&operation.operation, &operation.surface) {
            (Operation::Conv(op), Surface::Conv(surface)) => self.convolution(at, op, surface),
            (Operation::Sdp(op), Surface::Sdp(surface)) => {
                let batches = (u64::from(op.batch_num.max(1)), u64::from(op.batch_stride));
                self.read_cube(at, "src_data", &surface.src_data, op.src_precision, batches);
                for (name, unit, cube) in [
                    ("x1_data", &op.x1_op, &surface.x1_data),
                    ("x2_data", &op.x2_op, &surface.x2_data),
                    ("y_data", &op.y_op, &surface.y_data),
                ] {
                    if let Some(pieces) =
                        unit.as_ref().and_then(|unit| self.operands(op, unit, cube, &surface.dst_data))
                    {
                        self.push(at, name, false, cube, pieces, Step::Completed);
                    }
                }
                self.write_cube(at, &surface.dst_data, op.dst_precision, batches);
            }
            (Operation::Pdp(op), Surface::Pdp(surface)) => {
                self.read_cube(at, "src_data", &surface.src_data, op.precision, (1, 0));
                self.write_cube(at, &surface.dst_data, op.precision, (1, 0));
            }
            (Operation::Cdp(op), Surface::Cdp(surface)) => {
                self.read_cube(at, "src_data", &surface.src_data, op.in_precision, (1, 0));
                self.write_cube(at, &surface.dst_data, op.out_precision, (1, 0));
            }
            (Operation::Rubik(op), Surface::Rubik(surface)) => {
                // A contraction writes a cube. Otherwise planes and cubes alternate; the descriptor gives their size.
                self.read(at, "src_data", &surface.src_data, u64::from(surface.src_data.size), Step::Completed);
                let (cube, size) = (&surface.dst_data, u64::from(surface.dst_data.size));
                if op.mode == RubikMode::Contract {
                    self.write_cube(at, cube, op.precision, (1, 0));
                } else {
                    self.push(at, "dst_data", true, cube, Pieces::plain(cube.offset.into(), size), Step::Completed);
                }
            }
            (Operation::Bdma(_), Surface::Bdma(surface)) => {
                for transfer in surface.transfers.iter().take(surface.num_transfers.into()) {
                    self.transfer(at, transfer);
                }
            }
            // The operation and its surface are always of the same unit.
            _ => {}
        }
    }

    fn convolution(&mut self, at: usize, op: &ConvOp, surface: &ConvSurface) {
        let src = &surface.src_data;
        match op.data_format {
            DataFormat::Feature => {
                let batches = (u64::from(op.batch.max(1)), u64::from(op.batch_stride));
                let pieces = self.cube(src, op.in_precision, batches);
                self.push(at, "src_data", false, src, pieces, Step::Data);
            }
            DataFormat::Pixel(format) => {
                let (bytes, lines) = (pixel::Format::new(format).bytes_of(src.width.into()), u64::from(src.height));
                let levels = [(lines, src.line_stride.into()), (1, 0), (1, 0)];
                self.push(at, "src_data", false, src, Pieces { start: src.offset.into(), bytes, levels }, Step::Data);
                if let Some(start) = u64::from(src.offset).checked_add_signed(surface.offset_u) {
                    if pixel::Format::new(format).planes == 2 {
                        // Its lines have the length of the first plane's lines. Their number is that of the first plane's lines,
                        // or half of it.
                        let levels = [(lines, surface.in_line_uv_stride.into()), (1, 0), (1, 0)];
                        self.push(at, "src_data", false, src, Pieces { start, bytes, levels }, Step::Data);
                    }
                }
            }
        }
        self.read(at, "weight_data", &surface.weight_data, surface.weight_data.size.into(), Step::Weights);
        for (name, cube) in [("wmb_data", &surface.wmb_data), ("wgs_data", &surface.wgs_data)] {
            if op.weight_format == nvdla_uapi::reg::values::WeightFormat::Compressed {
                self.read(at, name, cube, cube.size.into(), Step::Weights);
            }
        }
    }

    fn transfer(&mut self, at: usize, transfer: &BdmaTransfer) {
        let pieces = |line: u32, surface: u32| Pieces {
            start: 0,
            bytes: transfer.line_size.into(),
            levels: [
                (transfer.line_repeat.into(), line.into()),
                (transfer.surface_repeat.into(), surface.into()),
                (1, 0),
            ],
        };
        let (from, to) = (transfer.source_address, transfer.destination_address);
        let read = pieces(transfer.source_line, transfer.source_surface);
        self.push_at(at, "source", false, from, read, Step::Completed);
        let write = pieces(transfer.destination_line, transfer.destination_surface);
        self.push_at(at, "destination", true, to, write, Step::Completed);
    }

    /// The lines of a feature cube and of the cubes of a batch: their number and their distance in bytes.
    fn cube(&self, cube: &DataCube, precision: Precision, batches: (u64, u64)) -> Pieces {
        let extents = Extents::new(1, cube.channel.into(), cube.height.into(), cube.width.into());
        let start = u64::from(cube.offset);
        let strides = (u64::from(cube.line_stride), u64::from(cube.surf_stride));
        match Cube::as_programmed(extents, precision, self.atom, strides.0, strides.1, 0) {
            Ok(placed) => {
                let levels = [(u64::from(cube.height), strides.0), (placed.surfaces().into(), strides.1), batches];
                Pieces { start, bytes: placed.line_bytes(), levels }
            }
            Err(_) => Pieces::plain(start, cube.size.into()),
        }
    }

    /// The operands of a sub-unit for an output, if it reads them from memory.
    fn operands(&self, op: &SdpOp, unit: &SdpSubUnit, cube: &DataCube, output: &DataCube) -> Option<Pieces> {
        let format = unit.operands(precision::processing(op.src_precision, op.dst_precision), self.atom)?;
        let (start, size) = (u64::from(cube.offset), u64::from(cube.size));
        // SDP reads the operands of one element per channel one after another, whatever the strides are.
        if format.mode == OperandMode::PerKernel || (output.height, output.width) == (1, 1) {
            return Some(Pieces::plain(start, size));
        }
        let extents = Extents::new(1, output.channel.into(), output.height.into(), output.width.into());
        let (line, surface) = (u64::from(cube.line_stride), u64::from(cube.surf_stride));
        let Ok(operands) = Operands::as_programmed(extents, format, line, surface) else {
            return Some(Pieces::plain(start, size));
        };
        let levels = [(output.height.into(), line), (operands.surfaces().into(), surface), (1, 0)];
        Some(Pieces { start, bytes: operands.span_of(output.width.into()) as u64, levels })
    }

    fn read_cube(&mut self, at: usize, name: &'static str, cube: &DataCube, precision: Precision, batches: (u64, u64)) {
        let pieces = self.cube(cube, precision, batches);
        self.push(at, name, false, cube, pieces, Step::Completed);
    }

    fn write_cube(&mut self, at: usize, cube: &DataCube, precision: Precision, batches: (u64, u64)) {
        let pieces = self.cube(cube, precision, batches);
        self.push(at, "dst_data", true, cube, pieces, Step::Completed);
    }

    fn read(&mut self, at: usize, name: &'static str, cube: &DataCube, bytes: u64, ends: Step) {
        self.push(at, name, false, cube, Pieces::plain(cube.offset.into(), bytes), ends);
    }

    fn push(&mut self, at: usize, name: &'static str, writes: bool, cube: &DataCube, pieces: Pieces, ends: Step) {
        if cube.mem_type != MemoryType::Hw {
            self.push_at(at, name, writes, cube.address, pieces, ends);
        }
    }

    fn push_at(&mut self, at: usize, name: &'static str, writes: bool, address: i16, mut pieces: Pieces, ends: Step) {
        // An address without an entry is not examined: a region of interest has none.
        let Some(slot) = usize::try_from(address).ok().and_then(|address| self.slots.get(address)) else { return };
        pieces.start = pieces.start.saturating_add(slot.offset);
        let pieces = pieces.list();
        if pieces.is_empty() {
            return;
        }
        let begins = if writes { Step::Output } else { Step::Enabled };
        self.all.push(Access { operation: at, surface: name, writes, memory: slot.memory, pieces, begins, ends });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(start: u64, bytes: u64, levels: [(u64, u64); 3]) -> Vec<(u64, u64)> {
        Pieces { start, bytes, levels }.list()
    }

    #[test]
    fn pieces_that_touch_are_one() {
        assert_eq!(list(8, 4, [(3, 4), (2, 12), (1, 0)]), [(8, 32)]);
        assert_eq!(list(8, 4, [(2, 8), (2, 4), (1, 0)]), [(8, 24)], "surfaces between lines");
        assert_eq!(list(0, 4, [(2, 8), (2, 16), (1, 0)]), [(0, 4), (8, 12), (16, 20), (24, 28)]);
        assert_eq!(list(0, 0, [(2, 8), (2, 16), (1, 0)]), []);
        assert_eq!(list(0, 1, [(1 << 13, 2), (1, 0), (1, 0)]), [(0, (1 << 14) - 1)], "too many to tell apart");
        assert_eq!(list(u64::MAX, 9, [(u64::MAX, 3), (u64::MAX, 5), (1, 0)]), [(u64::MAX, u64::MAX)]);
    }

    #[test]
    fn gaps_between_pieces_are_not_shared() {
        let access = |start, levels| Access {
            operation: 0,
            surface: "src_data",
            writes: false,
            memory: 0,
            pieces: list(start, 8, levels),
            begins: Step::Enabled,
            ends: Step::Completed,
        };
        let even = access(0, [(4, 16), (1, 0), (1, 0)]);
        let odd = access(8, [(4, 16), (1, 0), (1, 0)]);
        assert_eq!(even.shared(&odd), None);
        assert_eq!(even.shared(&access(20, [(1, 0); 3])), Some((20, 24)));
        assert_eq!((even.start(), even.end()), (0, 56));
    }
}
