// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! 8-bit RGB to pixel formats: 16 pixels at a time by one byte permutation for each 64 bytes of a plane, and a shift, a
//! conversion or a joining of lanes where components are not whole bytes.

use super::super::pixel::{format::Kind, image::Image};
use super::contract::{Block, Finish, PIXELS, SOURCE};
use super::parallel::{in_parallel, Destination};

/// Pixels of a line that are one piece of work.
const PIECE: usize = 16 << 10;
/// Marks a byte that holds alpha's value instead of a source byte.
const ALPHA: u8 = 0x40;

impl Block {
    /// A plane's block.
    fn new(image: &Image, plane: u32) -> Self {
        let format = image.format();
        let first = format.components()[0];
        if format.is_packed() {
            return Self::joined(image);
        }
        let finish = match (format.kind, first.stored - first.bits) {
            (Kind::Float, _) => Finish::Half,
            (_, 0) => Finish::Bytes,
            (_, unused) => Finish::Shift(unused.into()),
        };
        let pixel = format.bytes_per_pixel[plane as usize] as usize;
        let mut block = Self { len: pixel * PIXELS, finish, index: [[0; 64]; 2], alpha: [0; 2] };
        for (channel, component) in format.components().iter().enumerate() {
            if u32::from(component.plane) == plane {
                block.place(channel, pixel, usize::from(component.lsb) / 8, usize::from(component.stored) / 8);
            }
        }
        block
    }

    /// A block of 10-bit components: 16-bit lanes from the lowest component up, to be joined.
    fn joined(image: &Image) -> Self {
        let components = image.format().components();
        let mut order = [0, 1, 2, 3];
        order.sort_unstable_by_key(|channel: &usize| components[*channel].lsb);
        let bits = order.map(|channel| u32::from(components[channel].bits));
        let finish = Finish::Join {
            shift: bits.map(|bits| 16 - bits as u16),
            scale: [1, 1 << bits[0], 1, 1 << bits[2]],
            back: 32 - bits[0] - bits[1],
        };
        let mut block = Self { len: 4 * PIXELS, finish, index: [[0; 64]; 2], alpha: [0; 2] };
        for (lane, channel) in order.into_iter().enumerate() {
            block.place(channel, 8, lane * 2, 2);
        }
        block
    }

    /// Puts a channel's byte to `count` bytes from `first` on of each pixel.
    fn place(&mut self, channel: usize, pixel: usize, first: usize, count: usize) {
        for index in 0..PIXELS {
            for byte in first..first + count {
                let at = index * pixel + byte;
                self.index[at / 64][at % 64] = if channel == 3 { ALPHA } else { (index * 3 + channel) as u8 };
                self.alpha[at / 64] |= u64::from(channel == 3) << (at % 64);
            }
        }
    }
}

/// Converts lines that are wide enough with vector code. Returns how many pixels of each line are done, all or none.
pub(in super::super) fn rgb(image: &Image, rgb: &[u8], alpha: u8, planes: [&mut [u8]; 2]) -> u32 {
    let extents = image.extents();
    let (width, height) = (extents.w as usize, extents.h as usize);
    if width < PIXELS {
        return 0;
    }
    assert!(rgb.len() >= width * height * 3);
    let blocks = [0, 1].map(|plane| (plane < image.format().planes).then(|| Block::new(image, plane)));
    #[cfg(target_arch = "x86_64")]
    let shuffle = blocks[0].as_ref().and_then(|block| super::x86::shuffle(block.finish));
    #[cfg(not(target_arch = "x86_64"))]
    let shuffle: Option<super::contract::Shuffle> = None;
    let Some(shuffle) = shuffle else { return 0 };
    // Where no line of any plane has padding, they are one line.
    let is_packed = (0..image.format().planes).all(|plane| image.line_stride(plane) == image.line_bytes(plane));
    let (width, height) = if is_packed { (width * height, 1) } else { (width, height) };
    // Threads share a line in whole blocks, except for the last block.
    let (pieces, width_of_line) = (width.div_ceil(PIECE), width);
    for (plane, memory) in planes.into_iter().enumerate() {
        let Some(block) = &blocks[plane] else { continue };
        assert!(memory.len() as u64 >= image.span(plane as u32));
        let target = Destination(memory.as_mut_ptr());
        let pixel = block.len / PIXELS;
        in_parallel(height * pieces, memory.len(), |parts| {
            for part in parts {
                let (line, first) = (part / pieces, part % pieces * PIECE);
                let width = PIECE.min(width - first);
                let start = line * width_of_line + first;
                let to = image.pixel_offset(plane as u32, line as u32, 0) as usize + first * pixel;
                // In the last line, the last block would read behind the end of the source.
                let readable = (rgb.len() - start * 3).saturating_sub(16) / SOURCE;
                let whole = readable.min(width / PIXELS);
                // SAFETY: the piece's whole blocks and 16 bytes more lie in the source, and its pixels in the plane. Parts
                // write different pieces.
                unsafe { shuffle(block, alpha, rgb.as_ptr().add(start * 3), target.at(to), whole) };
                // The rest is converted from a copy with 16 bytes more; the last block may overlap the one before.
                let mut done = whole * PIXELS;
                while done < width {
                    let first = done.min(width.saturating_sub(PIXELS));
                    let pixels = PIXELS.min(width);
                    let mut copy = [0; SOURCE + 16];
                    copy[..pixels * 3].copy_from_slice(&rgb[(start + first) * 3..][..pixels * 3]);
                    let mut made = [0; 8 * PIXELS];
                    // SAFETY: a block and 16 bytes more lie in the copy, and a block's bytes in what it makes; its pixels
                    // lie in the plane.
                    unsafe {
                        shuffle(block, alpha, copy.as_ptr(), made.as_mut_ptr(), 1);
                        let to = target.at(to + first * pixel);
                        core::ptr::copy_nonoverlapping(made.as_ptr(), to, pixels * pixel);
                    }
                    done = first + pixels;
                }
            }
        });
    }
    extents.w
}
