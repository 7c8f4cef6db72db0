// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Feature cubes to and from plain slices.

use super::super::contract::Layout;
use super::super::element::Element;
use super::super::extents::{Extents, Order};
use super::super::feature::Cube;
use super::contract::{Collect, Squares, Transpose};
use super::parallel::{bytes_of, bytes_of_mut, in_parallel, Destination};
use core::ops::Range;

/// Bytes of plain NHWC data that are moved to all surfaces before the next.
const BLOCK: usize = 16 << 10;

/// Pixels that are one piece of work: threads share pieces. Whole tiles of every element size.
const PIECE: usize = 8192;

/// A cube as runs of pixels that are contiguous both in a channel plane and in a surface.
#[allow(clippy::struct_field_names)] // the number of runs is what it is
struct Runs {
    extents: Extents,
    surfaces: usize,
    lanes: usize,
    bytes: usize,
    atom: usize,
    /// Runs of a surface: 1 where lines are packed, else the lines.
    runs: usize,
    /// Pixels of a run.
    pixels: usize,
    line_stride: usize,
    surface_stride: usize,
    cube_stride: usize,
}

impl Runs {
    fn new(cube: &Cube) -> Self {
        let extents = cube.extents();
        let (lines, width) = (extents.h as usize, extents.w as usize);
        let (runs, pixels) = if cube.is_line_packed() { (1, lines * width) } else { (lines, width) };
        Self {
            extents,
            surfaces: cube.surfaces() as usize,
            lanes: cube.atom_elements() as usize,
            bytes: cube.element_bytes() as usize,
            atom: cube.atom() as usize,
            runs,
            pixels,
            line_stride: cube.line_stride() as usize,
            surface_stride: cube.surface_stride() as usize,
            cube_stride: cube.cube_stride() as usize,
        }
    }

    /// Bytes of one channel plane.
    fn plane(&self) -> usize {
        self.runs * self.pixels * self.bytes
    }

    /// Channels of a surface.
    fn channels(&self, surface: usize) -> usize {
        self.lanes.min(self.extents.c as usize - surface * self.lanes)
    }

    fn plain_bytes(&self) -> usize {
        self.extents.elements() as usize * self.bytes
    }

    /// Pieces of a run.
    fn pieces(&self) -> usize {
        self.pixels.div_ceil(PIECE)
    }

    /// Calls `visit` for pieces of each surface's runs: channels, first byte of the piece's plain plane rows (NCHW), and
    /// of the piece in memory, pixels.
    fn each_surface_run(&self, units: Range<usize>, visit: impl Fn(usize, usize, usize, usize)) {
        for unit in units {
            let (first, unit) = (unit % self.pieces() * PIECE, unit / self.pieces());
            let (run, surface) = (unit % self.runs, unit / self.runs % self.surfaces);
            let n = unit / self.runs / self.surfaces;
            let channel = n * self.extents.c as usize + surface * self.lanes;
            let plain = channel * self.plane() + (run * self.pixels + first) * self.bytes;
            let memory = n * self.cube_stride + surface * self.surface_stride + run * self.line_stride;
            visit(self.channels(surface), plain, memory + first * self.atom, PIECE.min(self.pixels - first));
        }
    }

    /// Calls `visit` for blocks of pixels of all surfaces, and for `together` surfaces at once if that many are full:
    /// surfaces, first byte in plain NHWC data, first byte in memory, pixels.
    fn each_block(&self, units: Range<usize>, together: usize, visit: impl Fn(Range<usize>, usize, usize, usize)) {
        let full = self.extents.c as usize / self.lanes;
        let pixel = self.extents.c as usize * self.bytes;
        let block = (BLOCK / pixel).max(1);
        for unit in units {
            let (mut first, unit) = (unit % self.pieces() * PIECE, unit / self.pieces());
            let (n, run) = (unit / self.runs, unit % self.runs);
            let end = self.pixels.min(first + PIECE);
            while first < end {
                let pixels = block.min(end - first);
                let plain = (unit * self.pixels + first) * pixel;
                let mut surface = 0;
                while surface < self.surfaces {
                    // Where some full surfaces are left over, a few go a second time with them.
                    if together > 2 && full >= together && (full - together + 1..full).contains(&surface) {
                        surface = full - together;
                    }
                    let next = surface + if surface + together <= full { together } else { 1 };
                    let memory = n * self.cube_stride
                        + surface * self.surface_stride
                        + run * self.line_stride
                        + first * self.atom;
                    visit(surface..next, plain + surface * self.atom, memory, pixels);
                    surface = next;
                }
                first += pixels;
            }
        }
    }
}

/// The code that moves pixels' atoms of several surfaces, and how many surfaces.
fn squares(atom: usize) -> (Option<Squares>, usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(squares) = super::x86::squares(atom) {
        return (Some(squares), 64 / atom);
    }
    let _ = atom;
    (None, 1)
}

/// The code that brings atoms together.
fn collect(atom: usize) -> Option<Collect> {
    #[cfg(target_arch = "x86_64")]
    if let Some(collect) = super::x86::collect(atom) {
        return Some(collect);
    }
    let _ = atom;
    None
}

/// Clears the bytes to which no element or padding lane of a run is written.
fn clear_gaps(cube: &Cube, memory: &mut [u8]) {
    if !cube.is_packed() || (cube.extents().n > 1 && cube.cube_stride() * u64::from(cube.extents().n) != cube.size()) {
        memory[..cube.size() as usize].fill(0);
    }
}

/// Packs; sizes were checked.
pub(in super::super) fn pack<T: Element>(cube: &Cube, order: Order, plain: &[T], memory: &mut [u8]) {
    clear_gaps(cube, memory);
    let plain = bytes_of(plain);
    let runs = Runs::new(cube);
    assert!(plain.len() == runs.plain_bytes() && memory.len() as u64 >= cube.size());
    let target = Destination(memory.as_mut_ptr());
    let n = cube.extents().n as usize;
    match order {
        Order::Nchw => {
            let transpose = Transpose::new(runs.lanes, runs.bytes);
            in_parallel(n * runs.surfaces * runs.runs * runs.pieces(), plain.len(), |part| {
                runs.each_surface_run(part, |channels, from, to, pixels| {
                    // SAFETY: the offsets are those of a surface's run, inside both slices whose sizes were asserted;
                    // parts write different pieces.
                    unsafe {
                        let (from, to) = (plain.as_ptr().add(from), target.at(to));
                        transpose.pack_run(from, runs.plane(), channels, to, pixels);
                    }
                });
            });
        }
        Order::Nhwc => {
            let pixel = runs.extents.c as usize * runs.bytes;
            let collect = collect(runs.atom);
            in_parallel(n * runs.runs * runs.pieces(), plain.len(), |part| {
                runs.each_block(part, 1, |surfaces, from, to, pixels| {
                    let used = runs.channels(surfaces.start) * runs.bytes;
                    // SAFETY: the offsets are those of the block's pixels in this surface, inside both slices; parts
                    // write different pieces.
                    unsafe {
                        let (from, to) = (plain.as_ptr().add(from), target.at(to));
                        let mut done = 0;
                        if let (Some(collect), true) = (collect, used == runs.atom) {
                            done = pixels * runs.atom / 64 * 64 / runs.atom;
                            collect(from, pixel, to, done * runs.atom / 64);
                        }
                        let (from, to) = (from.add(done * pixel), to.add(done * runs.atom));
                        gather(from, pixel, used, to, runs.atom, pixels - done);
                    }
                });
            });
        }
    }
}

/// Unpacks; sizes were checked.
pub(in super::super) fn unpack<T: Element>(cube: &Cube, order: Order, memory: &[u8], plain: &mut [T]) {
    let plain = bytes_of_mut(plain);
    let runs = Runs::new(cube);
    assert!(plain.len() == runs.plain_bytes() && memory.len() as u64 >= cube.size());
    let bytes = plain.len();
    let target = Destination(plain.as_mut_ptr());
    let n = cube.extents().n as usize;
    match order {
        Order::Nchw => {
            let transpose = Transpose::new(runs.lanes, runs.bytes);
            in_parallel(n * runs.surfaces * runs.runs * runs.pieces(), bytes, |part| {
                runs.each_surface_run(part, |channels, to, from, pixels| {
                    // SAFETY: as in `pack`, with the slices changed about.
                    unsafe {
                        let (from, to) = (memory.as_ptr().add(from), target.at(to));
                        transpose.unpack_run(from, to, runs.plane(), channels, pixels);
                    }
                });
            });
        }
        Order::Nhwc => {
            let pixel = runs.extents.c as usize * runs.bytes;
            let (squares, together) = squares(runs.atom);
            in_parallel(n * runs.runs * runs.pieces(), bytes, |part| {
                runs.each_block(part, together, |surfaces, to, from, pixels| {
                    // SAFETY: as in `pack`, with the slices changed about.
                    unsafe {
                        let (from, to) = (memory.as_ptr().add(from), target.at(to));
                        let mut done = 0;
                        if let (Some(squares), true) = (squares, surfaces.len() > 1) {
                            let steps = [together * runs.atom, together * pixel];
                            squares(from, to, [runs.surface_stride, pixel], steps, pixels / together);
                            done = pixels / together * together;
                        }
                        for (index, surface) in surfaces.enumerate() {
                            let used = runs.channels(surface) * runs.bytes;
                            let from = from.add(done * runs.atom + index * runs.surface_stride);
                            let to = to.add(done * pixel + index * runs.atom);
                            scatter(from, runs.atom, used, to, pixel, pixels - done);
                        }
                    }
                });
            });
        }
    }
}

/// Copies `used` bytes of each of `pixels` at `source`, `stride` apart, to atoms; fills them up with zeros.
///
/// # Safety
/// `source` and `target` hold the pixels and atoms; `used` is at most `atom`.
unsafe fn gather(source: *const u8, stride: usize, used: usize, target: *mut u8, atom: usize, pixels: usize) {
    // SAFETY: the caller's promise; each branch copies `used` bytes of each pixel.
    unsafe {
        match (atom, used == atom) {
            (32, true) => chunks::<32>(source, stride, target, 32, pixels),
            (16, true) => chunks::<16>(source, stride, target, 16, pixels),
            (8, true) => chunks::<8>(source, stride, target, 8, pixels),
            _ => {
                for index in 0..pixels {
                    let to = target.add(index * atom);
                    core::ptr::copy_nonoverlapping(source.add(index * stride), to, used);
                    core::ptr::write_bytes(to.add(used), 0, atom - used);
                }
            }
        }
    }
}

/// Copies `used` bytes of each atom to pixels at `target`, `stride` apart.
///
/// # Safety
/// As for [`gather`].
unsafe fn scatter(source: *const u8, atom: usize, used: usize, target: *mut u8, stride: usize, pixels: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match (atom, used == atom) {
            (32, true) => chunks::<32>(source, 32, target, stride, pixels),
            (16, true) => chunks::<16>(source, 16, target, stride, pixels),
            (8, true) => chunks::<8>(source, 8, target, stride, pixels),
            _ => {
                for index in 0..pixels {
                    let (from, to) = (source.add(index * atom), target.add(index * stride));
                    core::ptr::copy_nonoverlapping(from, to, used);
                }
            }
        }
    }
}

/// Copies `count` chunks of `A` bytes.
///
/// # Safety
/// Both sides hold the chunks at their strides.
unsafe fn chunks<const A: usize>(source: *const u8, from: usize, target: *mut u8, to: usize, count: usize) {
    for index in 0..count {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(source.add(index * from), target.add(index * to), A) };
    }
}
