// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Direct weights to and from plain slices.
//!
//! A small cube is a run of channels of one kernel at one position. In KRSC they are contiguous on both sides. In KCRS a
//! kernel's block of channels is a matrix of channels x positions, which is transposed.

use super::super::weight::Direct;
use super::super::{Element, Layout, Order};
use super::{bytes_of, bytes_of_mut, in_parallel, Destination};
use core::ops::Range;
use std::vec::Vec;

/// Permutes the bytes of a block of registers; see [`Permutation`].
///
/// # Safety
/// Both sides hold the permutation's registers, `from` and `to` bytes apart.
pub(super) type Permute = unsafe fn(plan: &Permutation, source: *const u8, from: usize, target: *mut u8, to: usize);

/// A permutation of the elements of `count` registers of 64 bytes into as many others.
pub(super) struct Permutation {
    /// Registers.
    pub(super) count: usize,
    /// For each target register, each byte's (or 16-bit element's) place within its pair of source registers.
    pub(super) index: Vec<[u8; 64]>,
    /// For each target register and pair of source registers, which elements come from that pair.
    pub(super) mask: Vec<u64>,
}

impl Permutation {
    /// The permutation that takes element `at` of all from `source(at)`.
    fn new(count: usize, bytes: usize, source: impl Fn(usize) -> usize) -> Self {
        let lanes = 64 / bytes;
        let pairs = count.div_ceil(2);
        let mut plan = Self { count, index: std::vec![[0; 64]; count], mask: std::vec![0; count * pairs] };
        for at in 0..count * lanes {
            let from = source(at);
            let (register, lane) = (at / lanes, at % lanes);
            let place = from % (2 * lanes);
            plan.index[register][lane * bytes] = place as u8;
            plan.mask[register * pairs + from / (2 * lanes)] |= 1 << lane;
        }
        plan
    }

    /// From channels x positions to positions x channels.
    fn to_positions(positions: usize, bytes: usize) -> Self {
        let channels = 64 / bytes;
        Self::new(positions, bytes, |at| at % channels * positions + at / channels)
    }

    /// The reverse.
    fn to_channels(positions: usize, bytes: usize) -> Self {
        let channels = 64 / bytes;
        Self::new(positions, bytes, |at| at % positions * channels + at / positions)
    }
}

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

    /// Calls `visit` for each kernel's blocks: kernel, first channel, channels, first byte of position 0 in memory,
    /// bytes from one position to the next there.
    fn each_block(&self, kernels: Range<usize>, visit: impl Fn(usize, usize, usize, usize, usize)) {
        let geometry = self.direct.geometry();
        for k in kernels {
            let group = k as u32 / geometry.group_kernels;
            let in_group = self.direct.kernels_in(group) as usize;
            for block in 0..self.channels.div_ceil(geometry.cube_channels as usize) {
                let channels = self.direct.channels_in(block as u32) as usize;
                let at = self.direct.cube_offset(k as u32, block as u32, 0, 0) as usize;
                let first = block * geometry.cube_channels as usize;
                visit(k, first, channels, at, in_group * channels * self.bytes);
            }
        }
    }

    /// Channels that one permutation takes.
    fn step(&self) -> usize {
        64 / self.bytes
    }
}

/// The permutation code and table for blocks of this shape, where this machine has it and it pays.
fn permutation(
    positions: usize,
    bytes: usize,
    table: impl Fn(usize, usize) -> Permutation,
) -> Option<(Permutation, Permute)> {
    #[cfg(target_arch = "x86_64")]
    if (2..=32).contains(&positions) {
        return super::x86::permute(positions, bytes).map(|permute| (table(positions, bytes), permute));
    }
    let _ = (positions, bytes, table);
    None
}

/// Packs; sizes were checked.
pub(in super::super) fn pack<T: Element>(direct: &Direct, order: Order, plain: &[T], memory: &mut [u8]) {
    let plain = bytes_of(plain);
    let plan = Plan::new(direct);
    assert!(plain.len() == plan.len() && memory.len() as u64 >= direct.size());
    memory[plain.len()..direct.size() as usize].fill(0);
    let target = Destination(memory.as_mut_ptr());
    let permutation = match order {
        Order::Nchw => permutation(plan.positions, plan.bytes, Permutation::to_positions),
        Order::Nhwc => None,
    };
    in_parallel(plan.kernels, plain.len(), |part| {
        plan.each_block(part, |k, first, channels, at, step| {
            // SAFETY: offsets are those of the block's weights in both slices, whose sizes were asserted; parts write
            // different kernels.
            unsafe {
                match order {
                    Order::Nhwc => {
                        let from = plain.as_ptr().add((k * plan.positions * plan.channels + first) * plan.bytes);
                        let (stride, len) = (plan.channels * plan.bytes, channels * plan.bytes);
                        copies(from, stride, target.at(at), step, len, plan.positions);
                    }
                    Order::Nchw => {
                        let from = plain.as_ptr().add((k * plan.channels + first) * plan.positions * plan.bytes);
                        let mut done = 0;
                        if let Some((table, permute)) = &permutation {
                            while done + plan.step() <= channels {
                                let from = from.add(done * plan.positions * plan.bytes);
                                permute(table, from, 64, target.at(at + done * plan.bytes), step);
                                done += plan.step();
                            }
                        }
                        for channel in done..channels {
                            let from = from.add(channel * plan.positions * plan.bytes);
                            let to = target.at(at + channel * plan.bytes);
                            copies(from, plan.bytes, to, step, plan.bytes, plan.positions);
                        }
                    }
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
    let permutation = match order {
        Order::Nchw => permutation(plan.positions, plan.bytes, Permutation::to_channels),
        Order::Nhwc => None,
    };
    in_parallel(plan.kernels, bytes, |part| {
        plan.each_block(part, |k, first, channels, at, step| {
            // SAFETY: as in `pack`, with the slices changed about.
            unsafe {
                let from = memory.as_ptr().add(at);
                match order {
                    Order::Nhwc => {
                        let to = target.at((k * plan.positions * plan.channels + first) * plan.bytes);
                        copies(from, step, to, plan.channels * plan.bytes, channels * plan.bytes, plan.positions);
                    }
                    Order::Nchw => {
                        let to =
                            |channel| target.at((k * plan.channels + first + channel) * plan.positions * plan.bytes);
                        let mut done = 0;
                        if let Some((table, permute)) = &permutation {
                            while done + plan.step() <= channels {
                                permute(table, from.add(done * plan.bytes), step, to(done), 64);
                                done += plan.step();
                            }
                        }
                        for channel in done..channels {
                            let from = from.add(channel * plan.bytes);
                            copies(from, step, to(channel), plan.bytes, plan.bytes, plan.positions);
                        }
                    }
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
    for index in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let (source, target) = (source.add(index * from), target.add(index * to));
            match len {
                1 => *target = *source,
                2 => core::ptr::copy_nonoverlapping(source, target, 2),
                8 => core::ptr::copy_nonoverlapping(source, target, 8),
                64 => core::ptr::copy_nonoverlapping(source, target, 64),
                128 => core::ptr::copy_nonoverlapping(source, target, 128),
                _ => core::ptr::copy_nonoverlapping(source, target, len),
            }
        }
    }
}
