// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The moves of bytes that instruction sets provide, which the conversions choose among.

use core::ops::Range;

/// Permutes one register of 64 bytes per position of a kernel: the same channels of each position become these
/// channels' positions, one channel after another, or back. The code is for one number of positions. Registers are
/// `from` and `to` bytes apart, those of channels' positions 64.
///
/// # Safety
/// The source's registers can be read, and the target's written.
pub(super) type Permute = unsafe fn(source: *const u8, from: usize, target: *mut u8, to: usize);

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

/// The reverse: copies the elements of `count` positions, whose 64 bytes are `step` bytes apart at `source`, to `count`
/// elements of each channel of `rows` at `target`, in the order of lanes and rows. Unless each channel stands `alone`,
/// 16 bytes are stored for those of the first three lanes. Therefore the data behind a channel must be written after
/// it.
///
/// # Safety
/// 64 bytes of each position can be read; `count` elements of each channel can be written, of which there are 1 to 16
/// bytes, and 16 bytes of those that do not stand alone.
pub(super) type Channels =
    unsafe fn(rows: &Rows, source: *const u8, step: usize, count: usize, target: *mut u8, alone: bool);

/// Blocks of K x K units of 64 / K bytes, transposed: rows `strides[0]` apart become rows `strides[1]` apart, and a block
/// follows the last at `steps`.
///
/// # Safety
/// Both sides hold 64 bytes in each of K rows of each of `blocks`.
pub(super) type Squares =
    unsafe fn(source: *const u8, target: *mut u8, strides: [usize; 2], steps: [usize; 2], blocks: usize);

/// Copies chunks of an atom's size, `stride` apart, to `blocks` blocks of 64 bytes.
///
/// # Safety
/// Both sides hold them.
pub(super) type Collect = unsafe fn(source: *const u8, stride: usize, target: *mut u8, blocks: usize);

/// Pixels of a block.
pub(super) const PIXELS: usize = 16;

/// Bytes of a block's RGB.
pub(super) const SOURCE: usize = PIXELS * 3;

/// How permuted bytes, in which every source byte occurs twice, become components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// Nothing.
    Bytes,
    /// 16-bit lanes are shifted right by this number of bits.
    Shift(u32),
    /// The low byte of 16-bit lanes becomes a number in fp16.
    Half,
    /// Four 16-bit lanes become one number of 32 bits. Each lane is shifted right. Then the first and second lane are added,
    /// as are the third and fourth, each with its factor. Last, the upper pair is shifted and added to the lower pair.
    Join {
        /// Bits that each lane loses.
        shift: [u16; 4],
        /// The factors of the lanes, which are powers of two.
        scale: [i16; 4],
        /// The right shift of the upper pair, from the upper 32 bits.
        back: u32,
    },
}

/// Where each byte of a plane's block comes from.
pub(super) struct Block {
    /// Bytes: 16, 32, 64 or 128.
    pub(super) len: usize,
    /// The operation on them.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only vector code asks
    pub(super) finish: Finish,
    /// For each byte, the source byte.
    pub(super) index: [[u8; 64]; 2],
    /// Which bytes hold alpha.
    pub(super) alpha: [u64; 2],
}

/// Permutes blocks of 16 pixels into one plane.
///
/// # Safety
/// `source` has `blocks` blocks of RGB and 16 bytes more, `target` has `blocks` blocks of the plane.
pub(super) type Shuffle = unsafe fn(block: &Block, alpha: u8, source: *const u8, target: *mut u8, blocks: usize);

/// How runs of one shape are transposed on this machine.
#[derive(Clone, Copy)]
pub(super) struct Transpose {
    /// Elements of an atom.
    pub(super) rows: usize,
    /// Bytes of an element.
    pub(super) bytes: usize,
    pub(super) pack: PackTiles,
    pub(super) unpack: UnpackTiles,
    pub(super) copy: CopyRows,
}

/// Bytes of a row in a tile.
pub(super) const TILE: usize = 64;

/// Rows of a tile at most: 32 int8 channels in a 32-byte atom.
pub(super) const MAX_ROWS: usize = 32;

/// Copies `length` bytes of each of `rows`: rows `strides[0]` apart become rows `strides[1]` apart.
///
/// # Safety
/// Both sides hold the rows; `length` is at least `TILE`.
pub(super) type CopyRows =
    unsafe fn(source: *const u8, target: *mut u8, strides: [usize; 2], rows: usize, length: usize);

/// [`CopyRows`] in plain code, for instruction sets without code of their own.
///
/// # Safety
/// As there.
pub(super) unsafe fn copy_rows(source: *const u8, target: *mut u8, strides: [usize; 2], rows: usize, length: usize) {
    for row in 0..rows {
        // SAFETY: the caller's rows have `length` bytes.
        unsafe {
            core::ptr::copy_nonoverlapping(source.add(row * strides[0]), target.add(row * strides[1]), length);
        }
    }
}

/// Transposes `tiles` whole tiles: rows at `source`, `stride` bytes apart, to atoms at `target`.
///
/// # Safety
/// Each row has `tiles` x `TILE` bytes; the target has as many bytes as all rows together.
pub(super) type PackTiles = unsafe fn(source: *const u8, stride: usize, target: *mut u8, tiles: usize);

/// The reverse: atoms at `source` to rows at `target`, `stride` bytes apart.
///
/// # Safety
/// As for [`PackTiles`].
pub(super) type UnpackTiles = unsafe fn(source: *const u8, target: *mut u8, stride: usize, tiles: usize);
