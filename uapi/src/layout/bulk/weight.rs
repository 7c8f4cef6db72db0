// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Direct weights to and from plain slices.
//!
//! A small cube is a run of channels of one kernel at one position. In KRSC they are contiguous on both sides. In KCRS a
//! kernel's block of channels is a matrix of channels x positions, which is transposed.

use super::super::weight::Direct;
use super::super::{Element, Layout, Order};
use super::{bytes_of, bytes_of_mut, in_parallel, Destination};
use core::ops::Range;

/// Permutes the bytes of a block of registers; see [`Permutation`].
///
/// # Safety
/// Both sides hold the permutation's registers, `from` and `to` bytes apart.
pub(super) type Permute = unsafe fn(plan: &Permutation, source: *const u8, from: usize, target: *mut u8, to: usize);

/// Registers at most.
pub(super) const MAX_REGISTERS: usize = 32;

/// A permutation of the elements of `count` registers of 64 bytes into as many others.
pub(super) struct Permutation {
    /// Registers.
    pub(super) count: usize,
    /// For each target register, each byte's (or 16-bit element's) place within its pair of source registers.
    pub(super) index: [[u8; 64]; MAX_REGISTERS],
    /// For each target register and pair of source registers, which elements come from that pair.
    pub(super) mask: [[u64; MAX_REGISTERS / 2]; MAX_REGISTERS],
}

impl Permutation {
    /// The transposition of `positions` x channels elements, where the channels of `bytes` each fill a register.
    const fn new(positions: usize, bytes: usize) -> Self {
        let lanes = 64 / bytes;
        let mut plan =
            Self { count: positions, index: [[0; 64]; MAX_REGISTERS], mask: [[0; MAX_REGISTERS / 2]; MAX_REGISTERS] };
        let mut at = 0;
        while at < positions * lanes {
            let from = at % positions * lanes + at / positions;
            let (register, lane) = (at / lanes, at % lanes);
            plan.index[register][lane * bytes] = (from % (2 * lanes)) as u8;
            plan.mask[register][from / (2 * lanes)] |= 1 << lane;
            at += 1;
        }
        plan
    }

    /// The tables of the usual kernels, 2x2, 3x3 and 5x5.
    fn usual(positions: usize, bytes: usize) -> Option<&'static Self> {
        static TABLES: [[Permutation; 2]; 3] = {
            const fn both(positions: usize) -> [Permutation; 2] {
                [Permutation::new(positions, 1), Permutation::new(positions, 2)]
            }
            [both(4), both(9), both(25)]
        };
        let which = match positions {
            4 => 0,
            9 => 1,
            25 => 2,
            _ => return None,
        };
        Some(&TABLES[which][bytes - 1])
    }
}

/// Where 64 bytes of the elements of a position come from: element `i` of lane `l` of 16 bytes from the kernel's channel
/// that starts at `lanes[l] + rows[i]`.
pub(super) struct Rows {
    pub(super) lanes: [usize; 4],
    pub(super) rows: [usize; 16],
}

/// Copies positions `stored` of the 16 bytes that each channel of `rows` has at `source` to `target`, `to` bytes apart.
///
/// # Safety
/// 16 bytes of each channel can be read, and 64 bytes of each stored position written.
pub(super) type Positions = unsafe fn(rows: &Rows, source: *const u8, target: *mut u8, to: usize, stored: Range<usize>);

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

    /// Packs elements of a block, 64 bytes of all positions at a time, and returns how many are done.
    ///
    /// # Safety
    /// `plain` and `target` have the sizes of the whole weights.
    #[allow(clippy::manual_is_multiple_of)] // not in the oldest compiler supported
    unsafe fn by_positions(&self, code: Positions, block: &Block, plain: &[u8], target: Destination) -> usize {
        let Self { bytes, positions, .. } = *self;
        let lane = 16 / bytes;
        let together = block.channels % lane == 0;
        if !together && lane % block.channels != 0 {
            return 0;
        }
        let (channel, kernel) = (positions * bytes, self.channels * positions * bytes);
        let at = |element: usize| element / block.channels * kernel + element % block.channels * channel;
        let mut rows = Rows { lanes: [0; 4], rows: [0; 16] };
        for (index, row) in rows.rows[..lane].iter_mut().enumerate() {
            *row = if together { index * channel } else { at(index) };
        }
        let first = self.kcrs(block.first_kernel, block.first_channel);
        let step = block.kernels * block.channels * bytes;
        let mut done = 0;
        let (mut k, mut c) = (0, 0);
        while done + 4 * lane <= block.kernels * block.channels {
            for place in &mut rows.lanes {
                *place = k * kernel + c * channel;
                c += lane;
                while c >= block.channels {
                    c -= block.channels;
                    k += 1;
                }
            }
            let (lowest, highest) = (first + rows.lanes[0], first + rows.lanes[3] + rows.rows[lane - 1]);
            let mut position = 0;
            while position < positions {
                // The positions that are loaded: the last ones may begin before those that are missing, and what is loaded
                // of few may begin or end outside of the channel, but not of the weights.
                let mut from = position.min(positions.saturating_sub(lane)) as isize;
                if highest + (from as usize + lane) * bytes > plain.len() {
                    from -= (lane - positions.min(lane)) as isize;
                }
                let inside = |at: usize| at.checked_add_signed(from * bytes as isize);
                match (inside(lowest), inside(highest)) {
                    (Some(_), Some(last)) if last + 16 <= plain.len() => {}
                    _ => return done,
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
            done += 4 * lane;
        }
        done
    }

    /// Channels that one permutation takes.
    fn step(&self) -> usize {
        64 / self.bytes
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

/// A permutation's code and table.
struct Permuter {
    code: Permute,
    own: Option<std::boxed::Box<Permutation>>,
    usual: Option<&'static Permutation>,
}

impl Permuter {
    /// For blocks of this shape, where this machine has the code and it pays.
    fn new(positions: usize, bytes: usize) -> Option<Self> {
        if !(2..=MAX_REGISTERS).contains(&positions) {
            return None;
        }
        #[cfg(target_arch = "x86_64")]
        let code = super::x86::permute(positions, bytes);
        #[cfg(not(target_arch = "x86_64"))]
        let code: Option<Permute> = None;
        let usual = Permutation::usual(positions, bytes);
        let own = || std::boxed::Box::new(Permutation::new(positions, bytes));
        code.map(|code| Self { code, own: usual.is_none().then(own), usual })
    }

    fn table(&self) -> Option<&Permutation> {
        self.usual.or(self.own.as_deref())
    }
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
    let code = super::x86::positions(plan.bytes);
    #[cfg(not(target_arch = "x86_64"))]
    let code: Option<Positions> = None;
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
                let done = code.map_or(0, |code| plan.by_positions(code, &block, plain, target));
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
    let permuter = match order {
        Order::Nchw => Permuter::new(plan.positions, plan.bytes),
        Order::Nhwc => None,
    };
    let table = permuter.as_ref().and_then(|it| it.table().map(|table| (it.code, table)));
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
                for k in 0..block.kernels {
                    let from = memory.as_ptr().add(block.at + k * cube);
                    let to = plan.kcrs(block.first_kernel + k, block.first_channel);
                    let mut done = 0;
                    if let Some((code, table)) = table {
                        while done + plan.step() <= block.channels {
                            let to = target.at(to + done * plan.positions * plan.bytes);
                            code(table, from.add(done * plan.bytes), step, to, 64);
                            done += plan.step();
                        }
                    }
                    for channel in done..block.channels {
                        let from = from.add(channel * plan.bytes);
                        let to = target.at(to + channel * plan.positions * plan.bytes);
                        copies(from, step, to, plan.bytes, plan.bytes, plan.positions);
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

/// The same, for the compiler to make anew for each length.
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
