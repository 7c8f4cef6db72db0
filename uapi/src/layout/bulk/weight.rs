// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Direct weights to and from plain slices.
//!
//! A small cube is a run of channels of one kernel at one position. In KRSC they are contiguous on both sides. In KCRS a
//! kernel's block of channels is a matrix of channels x positions, which is transposed.

use super::super::contract::Layout;
use super::super::element::Element;
use super::super::extents::Order;
use super::super::weight::direct::Direct;
use super::contract::{Channels, Positions, Rows};
use super::parallel::{bytes_of, bytes_of_mut, in_parallel, Destination};
use core::ops::Range;

/// What all conversions of some weights share.
struct Plan {
    direct: Direct,
    kernels: usize,
    channels: usize,
    positions: usize,
    bytes: usize,
}

impl Plan {
    fn new(direct: &Direct) -> Self {
        let extents = direct.extents();
        Self {
            direct: *direct,
            kernels: extents.n as usize,
            channels: extents.c as usize,
            positions: extents.h as usize * extents.w as usize,
            bytes: direct.element_bytes() as usize,
        }
    }

    fn len(&self) -> usize {
        self.kernels * self.channels * self.positions * self.bytes
    }

    /// Calls `visit` for the blocks of small cubes of each group of kernels.
    fn each_block(&self, groups: Range<usize>, visit: impl Fn(Block)) {
        let geometry = self.direct.geometry();
        for group in groups {
            let kernels = self.direct.kernels_in(group as u32) as usize;
            let first_kernel = group * geometry.group_kernels as usize;
            for block in 0..self.channels.div_ceil(geometry.cube_channels as usize) {
                visit(Block {
                    first_kernel,
                    kernels,
                    first_channel: block * geometry.cube_channels as usize,
                    channels: self.direct.channels_in(block as u32) as usize,
                    at: self.direct.cube_offset(first_kernel as u32, block as u32, 0, 0) as usize,
                });
            }
        }
    }

    /// Kernel groups.
    fn groups(&self) -> usize {
        self.kernels.div_ceil(self.direct.geometry().group_kernels as usize)
    }

    /// The plain byte of a kernel's channel at position 0, in KCRS.
    fn kcrs(&self, kernel: usize, channel: usize) -> usize {
        (kernel * self.channels + channel) * self.positions * self.bytes
    }

    /// The plain byte of a kernel's channel at a position, in KRSC.
    fn krsc(&self, kernel: usize, position: usize, channel: usize) -> usize {
        ((kernel * self.positions + position) * self.channels + channel) * self.bytes
    }

    /// Where a block's first elements lie in KCRS, if they lie in the same way in all that follow.
    #[allow(clippy::manual_is_multiple_of)] // not in the oldest compiler supported
    fn rows(&self, block: &Block) -> Option<Rows> {
        let lane = 16 / self.bytes;
        if block.channels % lane != 0 && lane % block.channels != 0 {
            return None;
        }
        let mut rows = Rows { lanes: [0; 4], rows: [0; 16] };
        let place = |element| self.kcrs(element / block.channels, element % block.channels);
        for (index, row) in rows.rows[..lane].iter_mut().enumerate() {
            *row = place(index);
        }
        Some(rows)
    }

    /// Calls `visit` for each 64 bytes of a block, with the number of their first element and the plain byte of each lane.
    /// Ends when `visit` returns false. Returns the number of elements for which it returned true.
    fn each_lanes(&self, block: &Block, mut visit: impl FnMut(usize, [usize; 4]) -> bool) -> usize {
        let lane = 16 / self.bytes;
        let (mut done, mut k, mut c) = (0, 0, 0);
        while done + 4 * lane <= block.kernels * block.channels {
            let mut lanes = [0; 4];
            for lane_byte in &mut lanes {
                *lane_byte = self.kcrs(k, c);
                c += lane;
                while c >= block.channels {
                    c -= block.channels;
                    k += 1;
                }
            }
            if !visit(done, lanes) {
                break;
            }
            done += 4 * lane;
        }
        done
    }

    /// Calls `visit` for each 64 bytes of a block's channels, with their first byte in KCRS, their first byte in memory, and
    /// the bytes from a position to the next in memory. Returns the number of elements: 0 if the channels are no multiple of
    /// 64 bytes.
    #[allow(clippy::manual_is_multiple_of)] // not in the oldest compiler supported
    fn each_register(&self, block: &Block, visit: impl Fn(usize, usize, usize)) -> usize {
        let together = 64 / self.bytes;
        if block.channels % together != 0 {
            return 0;
        }
        let elements = block.kernels * block.channels;
        for k in 0..block.kernels {
            for channel in (0..block.channels).step_by(together) {
                let plain = self.kcrs(block.first_kernel + k, block.first_channel + channel);
                let memory = block.at + (k * block.channels + channel) * self.bytes;
                visit(plain, memory, elements * self.bytes);
            }
        }
        elements
    }

    /// Unpacks elements of a block, 64 bytes of all positions at a time, and returns how many are done.
    ///
    /// # Safety
    /// `memory` and `target` have the sizes of the whole weights.
    #[allow(clippy::manual_is_multiple_of)] // not in the oldest compiler supported
    unsafe fn by_channels(&self, code: Channels, block: &Block, memory: &[u8], target: Destination) -> usize {
        let Self { bytes, positions, .. } = *self;
        let lane = 16 / bytes;
        let Some(mut rows) = self.rows(block) else { return 0 };
        let first = self.kcrs(block.first_kernel, block.first_channel);
        let step = block.kernels * block.channels * bytes;
        // Channels of one kernel are adjacent, and the last of them are in the last lane, which is stored exactly. In
        // the other lanes, bytes behind a channel may have been written already.
        let alone = positions < lane && block.channels % (4 * lane) != 0;
        self.each_lanes(block, |done, lanes| {
            rows.lanes = lanes;
            let mut position = 0;
            while position < positions {
                // The last positions are as many as fit; some of them may have been converted already.
                let from = position.min(positions.saturating_sub(lane));
                let count = lane.min(positions);
                // SAFETY: the block has as many elements at each position, and each of them its positions in the target;
                // the last lane's lie behind the others'.
                unsafe {
                    let source = memory.as_ptr().add(block.at + done * bytes + from * step);
                    code(&rows, source, step, count, target.at(first + from * bytes), alone);
                }
                position = from + count;
            }
            true
        })
    }

    /// Packs elements of a block, 64 bytes of all positions at a time, and returns how many are done.
    ///
    /// # Safety
    /// `plain` and `target` have the sizes of the whole weights.
    unsafe fn by_positions(&self, code: Positions, block: &Block, plain: &[u8], target: Destination) -> usize {
        let Self { bytes, positions, .. } = *self;
        let lane = 16 / bytes;
        let Some(mut rows) = self.rows(block) else { return 0 };
        let first = self.kcrs(block.first_kernel, block.first_channel);
        let step = block.kernels * block.channels * bytes;
        self.each_lanes(block, |done, lanes| {
            rows.lanes = lanes;
            let (lowest, highest) = (first + rows.lanes[0], first + rows.lanes[3] + rows.rows[lane - 1]);
            let mut position = 0;
            while position < positions {
                // The positions that are loaded. The last load may begin before the positions that are missing. A load
                // of few positions may begin or end outside of the channel, but not outside of the weights.
                let mut from = position.min(positions.saturating_sub(lane)) as isize;
                if highest + (from as usize + lane) * bytes > plain.len() {
                    from -= (lane - positions.min(lane)) as isize;
                }
                let inside = |at: usize| at.checked_add_signed(from * bytes as isize);
                match (inside(lowest), inside(highest)) {
                    (Some(_), Some(last)) if last + 16 <= plain.len() => {}
                    _ => return false,
                }
                let skipped = (position as isize - from) as usize;
                let stored = skipped..lane.min(skipped + positions - position);
                let next = position + stored.len();
                // SAFETY: the lowest and the highest channel's bytes were checked to lie in the source; the positions'
                // elements lie in the block.
                unsafe {
                    let source = plain.as_ptr().offset(first as isize + from * bytes as isize);
                    let to = target.at(block.at + done * bytes + position * step);
                    code(&rows, source, to, step, stored);
                }
                position = next;
            }
            true
        })
    }
}

/// The small cubes of one block of channels of a kernel group.
struct Block {
    first_kernel: usize,
    kernels: usize,
    first_channel: usize,
    channels: usize,
    /// The first byte in memory.
    at: usize,
}

/// Packs; sizes were checked.
pub(in super::super) fn pack<T: Element>(direct: &Direct, order: Order, plain: &[T], memory: &mut [u8]) {
    let plain = bytes_of(plain);
    let plan = Plan::new(direct);
    assert!(plain.len() == plan.len() && memory.len() as u64 >= direct.size());
    memory[plain.len()..direct.size() as usize].fill(0);
    let target = Destination(memory.as_mut_ptr());
    let order = if plan.positions == 1 { Order::Nhwc } else { order };
    #[cfg(target_arch = "x86_64")]
    let (code, [_, permute]) = (super::x86::positions(plan.bytes), super::x86::permute(plan.positions, plan.bytes));
    #[cfg(not(target_arch = "x86_64"))]
    let (code, permute): (Option<Positions>, Option<super::contract::Permute>) = (None, None);
    in_parallel(plan.groups(), plain.len(), |part| {
        plan.each_block(part, |block| {
            let cube = block.channels * plan.bytes;
            let step = block.kernels * cube;
            // SAFETY: offsets are those of the block's weights in both slices, whose sizes were asserted; parts write
            // different groups.
            unsafe {
                if order == Order::Nhwc {
                    let stride = plan.positions * plan.channels * plan.bytes;
                    for position in 0..plan.positions {
                        let from = plain.as_ptr().add(plan.krsc(block.first_kernel, position, block.first_channel));
                        let to = target.at(block.at + position * step);
                        copies(from, stride, to, cube, cube, block.kernels);
                    }
                    return;
                }
                let mut done = permute.map_or(0, |code| {
                    plan.each_register(&block, |from, to, step| {
                        code(plain.as_ptr().add(from), 64, target.at(to), step);
                    })
                });
                if let (Some(code), 0) = (code, done) {
                    done = plan.by_positions(code, &block, plain, target);
                }
                for element in done..block.kernels * block.channels {
                    let (k, channel) = (element / block.channels, element % block.channels);
                    let from = plan.kcrs(block.first_kernel + k, block.first_channel + channel);
                    let to = target.at(block.at + element * plan.bytes);
                    copies(plain.as_ptr().add(from), plan.bytes, to, step, plan.bytes, plan.positions);
                }
            }
        });
    });
}

/// Unpacks; sizes were checked.
pub(in super::super) fn unpack<T: Element>(direct: &Direct, order: Order, memory: &[u8], plain: &mut [T]) {
    let plain = bytes_of_mut(plain);
    let plan = Plan::new(direct);
    assert!(plain.len() == plan.len() && memory.len() as u64 >= direct.size());
    let bytes = plain.len();
    let target = Destination(plain.as_mut_ptr());
    let order = if plan.positions == 1 { Order::Nhwc } else { order };
    #[cfg(target_arch = "x86_64")]
    let (code, [permute, _]) = (super::x86::channels(plan.bytes), super::x86::permute(plan.positions, plan.bytes));
    #[cfg(not(target_arch = "x86_64"))]
    let (code, permute): (Option<Channels>, Option<super::contract::Permute>) = (None, None);
    in_parallel(plan.groups(), bytes, |part| {
        plan.each_block(part, |block| {
            let cube = block.channels * plan.bytes;
            let step = block.kernels * cube;
            // SAFETY: as in `pack`, with the slices changed about.
            unsafe {
                if order == Order::Nhwc {
                    let stride = plan.positions * plan.channels * plan.bytes;
                    for position in 0..plan.positions {
                        let from = memory.as_ptr().add(block.at + position * step);
                        let to = target.at(plan.krsc(block.first_kernel, position, block.first_channel));
                        copies(from, cube, to, stride, cube, block.kernels);
                    }
                    return;
                }
                let mut done = permute.map_or(0, |code| {
                    plan.each_register(&block, |to, from, step| {
                        code(memory.as_ptr().add(from), step, target.at(to), 64);
                    })
                });
                if let (Some(code), 0) = (code, done) {
                    done = plan.by_channels(code, &block, memory, target);
                }
                for element in done..block.kernels * block.channels {
                    let (k, channel) = (element / block.channels, element % block.channels);
                    let from = memory.as_ptr().add(block.at + element * plan.bytes);
                    let to = target.at(plan.kcrs(block.first_kernel + k, block.first_channel + channel));
                    copies(from, step, to, plan.bytes, plan.bytes, plan.positions);
                }
            }
        });
    });
}

/// Copies `count` pieces of `len` bytes.
///
/// # Safety
/// Both sides hold the pieces at their strides.
#[inline]
unsafe fn copies(source: *const u8, from: usize, target: *mut u8, to: usize, len: usize, count: usize) {
    // SAFETY: the caller's promise; the usual lengths are known to the compiler.
    unsafe {
        match len {
            1 => pieces(source, from, target, to, 1, count),
            2 => pieces(source, from, target, to, 2, count),
            8 => pieces(source, from, target, to, 8, count),
            32 => pieces(source, from, target, to, 32, count),
            64 => pieces(source, from, target, to, 64, count),
            128 => pieces(source, from, target, to, 128, count),
            _ => pieces(source, from, target, to, len, count),
        }
    }
}

/// The same. The compiler inlines it once per length.
///
/// # Safety
/// As for [`copies`].
#[inline(always)]
#[allow(clippy::inline_always)]
unsafe fn pieces(source: *const u8, from: usize, target: *mut u8, to: usize, len: usize, count: usize) {
    for index in 0..count {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(source.add(index * from), target.add(index * to), len) };
    }
}
