// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Transposing runs of pixels: `lanes` rows of elements (channel planes) to and from atoms.
//!
//! A run is cut into tiles of [`TILE`] bytes of each row. Vector code converts whole tiles of whole atoms. If the last
//! atom is not full, or rows share too few sets of the cache, a few tiles are staged in a buffer. The run's last,
//! partial tile uses a separate buffer.

#[cfg(any(target_arch = "aarch64", test))]
use super::super::super::isa::Isa;
use super::contract::{copy_rows, PackTiles, Transpose, UnpackTiles, MAX_ROWS, TILE};

impl Transpose {
    /// The fastest code for atoms of that many elements of that many bytes.
    pub(super) fn new(rows: usize, bytes: usize) -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(transpose) = super::x86::transpose(rows, bytes) {
            return transpose;
        }
        #[cfg(target_arch = "aarch64")]
        if Isa::in_use_or_portable() != Isa::Portable {
            if let Some(transpose) = super::neon::transpose(rows, bytes) {
                return transpose;
            }
        }
        Self::portable(rows, bytes)
    }

    /// Plain code.
    pub(super) fn portable(rows: usize, bytes: usize) -> Self {
        let (pack, unpack): (PackTiles, UnpackTiles) = match (rows, bytes) {
            (32, 1) => (pack_tiles::<32, 1>, unpack_tiles::<32, 1>),
            (16, 1) => (pack_tiles::<16, 1>, unpack_tiles::<16, 1>),
            (8, 1) => (pack_tiles::<8, 1>, unpack_tiles::<8, 1>),
            (16, _) => (pack_tiles::<16, 2>, unpack_tiles::<16, 2>),
            (8, _) => (pack_tiles::<8, 2>, unpack_tiles::<8, 2>),
            _ => (pack_tiles::<4, 2>, unpack_tiles::<4, 2>),
        };
        Self { rows, bytes, pack, unpack, copy: copy_rows }
    }

    /// Packs a run of `pixels`. Only the first `channels` elements of its atoms have a row; the rest becomes zero.
    ///
    /// # Safety
    /// `source` has `channels` rows of `pixels` elements, `stride` bytes apart; `target` has `pixels` atoms.
    pub(super) unsafe fn pack_run(
        self,
        source: *const u8,
        stride: usize,
        channels: usize,
        target: *mut u8,
        pixels: usize,
    ) {
        let row = pixels * self.bytes;
        let whole = if channels == self.rows && !share_sets(self.rows, stride) { row / TILE } else { 0 };
        // SAFETY: whole tiles lie inside the rows and the target.
        unsafe { (self.pack)(source, stride, target, whole) };
        let mut done = whole * TILE;
        if whole > 0 && done < row {
            // The last tile is a whole one too, so some pixels are packed twice.
            let last = row - TILE;
            // SAFETY: as above.
            unsafe { (self.pack)(source.add(last), stride, target.add(last * self.rows), 1) };
            return;
        }
        if row - done >= TILE {
            let mut stage = Stage([0; MAX_ROWS * PITCH]);
            while row - done >= TILE {
                let tiles = ((row - done) / TILE).min(STAGE);
                // SAFETY: the tiles lie inside the rows, the stage and the target.
                unsafe {
                    let from = source.add(done);
                    (self.copy)(from, stage.0.as_mut_ptr(), [stride, PITCH], channels, tiles * TILE);
                    (self.pack)(stage.0.as_ptr(), PITCH, target.add(done * self.rows), tiles);
                }
                done += tiles * TILE;
            }
        }
        if done < row {
            let part = row - done;
            let mut rows = [0u8; MAX_ROWS * TILE];
            let mut atoms = [0u8; MAX_ROWS * TILE];
            // SAFETY: `part` bytes from `done` lie inside each of the rows; both scratch tiles are large enough for all
            // rows; `part` of the row's bytes make `part` x rows bytes of atoms, which lie inside the target.
            unsafe {
                for channel in 0..channels {
                    let from = source.add(channel * stride + done);
                    core::ptr::copy_nonoverlapping(from, rows.as_mut_ptr().add(channel * TILE), part);
                }
                (self.pack)(rows.as_ptr(), TILE, atoms.as_mut_ptr(), 1);
                let to = target.add(done * self.rows);
                core::ptr::copy_nonoverlapping(atoms.as_ptr(), to, part * self.rows);
            }
        }
    }

    /// Unpacks a run of `pixels` into `channels` rows.
    ///
    /// # Safety
    /// `source` has `pixels` atoms; `target` has `channels` rows of `pixels` elements, `stride` bytes apart.
    pub(super) unsafe fn unpack_run(
        self,
        source: *const u8,
        target: *mut u8,
        stride: usize,
        channels: usize,
        pixels: usize,
    ) {
        let row = pixels * self.bytes;
        let whole = if channels == self.rows && !share_sets(self.rows, stride) { row / TILE } else { 0 };
        // SAFETY: whole tiles lie inside the source and the rows.
        unsafe { (self.unpack)(source, target, stride, whole) };
        let mut done = whole * TILE;
        if whole > 0 && done < row {
            let last = row - TILE;
            // SAFETY: as above.
            unsafe { (self.unpack)(source.add(last * self.rows), target.add(last), stride, 1) };
            return;
        }
        if row - done >= TILE {
            let mut stage = Stage([0; MAX_ROWS * PITCH]);
            while row - done >= TILE {
                let tiles = ((row - done) / TILE).min(STAGE);
                // SAFETY: the tiles lie inside the source, the stage and the rows.
                unsafe {
                    (self.unpack)(source.add(done * self.rows), stage.0.as_mut_ptr(), PITCH, tiles);
                    let to = target.add(done);
                    (self.copy)(stage.0.as_ptr(), to, [PITCH, stride], channels, tiles * TILE);
                }
                done += tiles * TILE;
            }
        }
        if done < row {
            let part = row - done;
            let mut rows = [0u8; MAX_ROWS * TILE];
            let mut atoms = [0u8; MAX_ROWS * TILE];
            // SAFETY: as in `pack_run`, with source and target exchanged.
            unsafe {
                let from = source.add(done * self.rows);
                core::ptr::copy_nonoverlapping(from, atoms.as_mut_ptr(), part * self.rows);
                (self.unpack)(atoms.as_ptr(), rows.as_mut_ptr(), TILE, 1);
                for channel in 0..channels {
                    let to = target.add(channel * stride + done);
                    core::ptr::copy_nonoverlapping(rows.as_ptr().add(channel * TILE), to, part);
                }
            }
        }
    }
}

/// Tiles that are staged together.
const STAGE: usize = 7;
/// Bytes from one staged row to the next: half a line more than the tiles, so that staged rows use different sets of the cache.
const PITCH: usize = STAGE * TILE + 32;

/// A few tiles' rows, where cache lines begin.
#[repr(align(64))]
struct Stage([u8; MAX_ROWS * PITCH]);

/// Whether rows that are `stride` bytes apart share too few sets of a first-level cache with 64 sets of 64 bytes and 8
/// ways. Then a row's cache line is evicted before its next 16 bytes are used, and staging the rows is faster.
#[allow(clippy::manual_is_multiple_of)] // not in the oldest compiler supported
fn share_sets(rows: usize, stride: usize) -> bool {
    let mut sets = [0u8; 64];
    // A row that does not begin a line touches two.
    let touched = if stride % TILE == 0 { 1 } else { 2 };
    (0..rows * touched).any(|line| {
        let set = &mut sets[(line / touched * stride / TILE + line % touched) % 64];
        *set += 1;
        *set > 8
    })
}

unsafe fn pack_tiles<const L: usize, const B: usize>(source: *const u8, stride: usize, target: *mut u8, tiles: usize) {
    for pixel in 0..tiles * TILE / B {
        for row in 0..L {
            // SAFETY: the caller's rows and target hold `tiles` tiles.
            unsafe {
                let from = source.add(row * stride + pixel * B);
                core::ptr::copy_nonoverlapping(from, target.add((pixel * L + row) * B), B);
            }
        }
    }
}

unsafe fn unpack_tiles<const L: usize, const B: usize>(
    source: *const u8,
    target: *mut u8,
    stride: usize,
    tiles: usize,
) {
    for pixel in 0..tiles * TILE / B {
        for row in 0..L {
            // SAFETY: the caller's source and rows hold `tiles` tiles.
            unsafe {
                let from = source.add((pixel * L + row) * B);
                core::ptr::copy_nonoverlapping(from, target.add(row * stride + pixel * B), B);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    /// Every code that this machine can run, for a shape.
    fn codes(rows: usize, bytes: usize) -> Vec<Transpose> {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
        let mut codes = vec![Transpose::portable(rows, bytes), Transpose::new(rows, bytes)];
        #[cfg(target_arch = "x86_64")]
        {
            if Isa::available().contains(&crate::isa::Isa::Avx2) {
                codes.extend(super::super::avx2::transpose(rows, bytes));
            }
        }
        codes
    }

    #[test]
    fn all_codes_transpose_all_shapes() {
        for (rows, bytes) in [(32, 1), (16, 1), (8, 1), (16, 2), (8, 2), (4, 2)] {
            for code in codes(rows, bytes) {
                for pixels in [1, 31, 32, 63, 64, 65, 128, 300] {
                    for (channels, gap) in [(1, 5), (rows - 1, 4), (rows, 5), (rows, 4), (rows, 64), (rows, 20)] {
                        // What lies between the rows and around them stays; rows begin at each place of a line.
                        let stride = (pixels * bytes).next_multiple_of(4) + gap;
                        let before = 64 + gap;
                        let plain: Vec<u8> =
                            (0..before + stride * channels + 64).map(|i| (i * 7 + i / 251 + 1) as u8).collect();
                        let mut atoms = vec![0xaa; pixels * rows * bytes];
                        // SAFETY: rows and atoms have the sizes that the run asks for.
                        unsafe {
                            code.pack_run(plain.as_ptr().add(before), stride, channels, atoms.as_mut_ptr(), pixels);
                        };
                        let mut back = plain.clone();
                        for channel in 0..rows {
                            for pixel in 0..pixels {
                                let atom = &atoms[(pixel * rows + channel) * bytes..][..bytes];
                                if channel < channels {
                                    let at = before + channel * stride + pixel * bytes;
                                    assert_eq!(atom, &plain[at..at + bytes], "{rows}x{bytes} {channel} {pixel}");
                                    back[at..at + bytes].fill(0);
                                } else {
                                    assert!(atom.iter().all(|byte| *byte == 0));
                                }
                            }
                        }
                        // SAFETY: as above.
                        unsafe {
                            code.unpack_run(atoms.as_ptr(), back.as_mut_ptr().add(before), stride, channels, pixels);
                        };
                        assert!(back == plain, "{rows}x{bytes} {channels} {pixels}");
                    }
                }
            }
        }
    }
}
