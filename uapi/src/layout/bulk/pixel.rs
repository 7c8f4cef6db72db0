// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! 8-bit RGB to pixel formats whose bytes are copies of the source's: 16 pixels at a time by one byte permutation for
//! each 64 bytes of a plane.

use super::super::pixel::Image;
use super::{in_parallel, Destination};

/// Pixels of a block.
pub(super) const PIXELS: usize = 16;
/// Bytes of a block's RGB.
pub(super) const SOURCE: usize = PIXELS * 3;
/// Marks a byte that holds alpha's value instead of a source byte.
const ALPHA: u8 = 0x40;

/// Where each byte of a plane's block comes from.
pub(super) struct Block {
    /// Bytes: 16, 32, 64 or 128.
    pub(super) len: usize,
    /// For each byte, the source byte.
    pub(super) index: [[u8; 64]; 2],
    /// Which bytes hold alpha.
    pub(super) alpha: [u64; 2],
}

/// Permutes blocks of 16 pixels into one plane.
///
/// # Safety
/// `source` has `blocks` blocks of RGB and 16 bytes more, `target` as many of the plane.
pub(super) type Shuffle = unsafe fn(block: &Block, alpha: u8, source: *const u8, target: *mut u8, blocks: usize);

impl Block {
    /// A plane's block, or `None` where components are not made of source bytes.
    fn new(image: &Image, plane: u32) -> Option<Self> {
        let format = image.format();
        let pixel = format.bytes_per_pixel[plane as usize] as usize;
        let mut block = Self { len: pixel * PIXELS, index: [[0; 64]; 2], alpha: [0; 2] };
        for (channel, component) in format.components().iter().enumerate() {
            if u32::from(component.plane) != plane {
                continue;
            }
            if !image.widens_by_bytes() {
                return None;
            }
            for index in 0..PIXELS {
                for byte in 0..usize::from(component.stored) / 8 {
                    let at = index * pixel + usize::from(component.lsb) / 8 + byte;
                    block.index[at / 64][at % 64] = if channel == 3 { ALPHA } else { (index * 3 + channel) as u8 };
                    block.alpha[at / 64] |= u64::from(channel == 3) << (at % 64);
                }
            }
        }
        Some(block)
    }
}

/// Converts with vector code what is wide enough: returns how many pixels of each line are done, all or none.
pub(in super::super) fn rgb(image: &Image, rgb: &[u8], alpha: u8, planes: [&mut [u8]; 2]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    let shuffle = super::x86::shuffle();
    #[cfg(not(target_arch = "x86_64"))]
    let shuffle: Option<Shuffle> = None;
    let extents = image.extents();
    let (width, height) = (extents.w as usize, extents.h as usize);
    let Some(shuffle) = shuffle.filter(|_| width >= PIXELS) else { return 0 };
    assert!(rgb.len() >= width * height * 3);
    let mut blocks = [None, None];
    for plane in 0..image.format().planes {
        let Some(block) = Block::new(image, plane) else { return 0 };
        blocks[plane as usize] = Some(block);
    }
    for (plane, memory) in planes.into_iter().enumerate() {
        let Some(block) = &blocks[plane] else { continue };
        assert!(memory.len() as u64 >= image.span(plane as u32));
        let target = Destination(memory.as_mut_ptr());
        let pixel = block.len / PIXELS;
        in_parallel(height, memory.len(), |lines| {
            for line in lines {
                let to = image.pixel_offset(plane as u32, line as u32, 0) as usize;
                // Of the last line, the last block would read past the source.
                let readable = (rgb.len() - line * width * 3).saturating_sub(16) / SOURCE;
                let whole = readable.min(width / PIXELS);
                // SAFETY: the line's whole blocks and 16 bytes more lie in the source, and its pixels in the plane. Parts
                // write different lines.
                unsafe { shuffle(block, alpha, rgb.as_ptr().add(line * width * 3), target.at(to), whole) };
                // What is left goes through a copy with 16 bytes more; the last block may overlap the one before.
                let mut done = whole * PIXELS;
                while done < width {
                    let first = done.min(width - PIXELS);
                    let mut copy = [0; SOURCE + 16];
                    copy[..SOURCE].copy_from_slice(&rgb[(line * width + first) * 3..][..SOURCE]);
                    // SAFETY: a block and 16 bytes more lie in the copy, and its pixels in the plane.
                    unsafe { shuffle(block, alpha, copy.as_ptr(), target.at(to + first * pixel), 1) };
                    done = first + PIXELS;
                }
            }
        });
    }
    width as u32
}
