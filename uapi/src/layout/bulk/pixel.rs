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

/// Converts with vector code as much of each line as possible: returns how many pixels of each line are done.
pub(in super::super) fn rgb(image: &Image, rgb: &[u8], alpha: u8, planes: [&mut [u8]; 2]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    let shuffle = super::x86::shuffle();
    #[cfg(not(target_arch = "x86_64"))]
    let shuffle: Option<Shuffle> = None;
    let Some(shuffle) = shuffle else { return 0 };
    let extents = image.extents();
    let (width, height) = (extents.w as usize, extents.h as usize);
    assert!(rgb.len() >= width * height * 3);
    let mut blocks = [None, None];
    for plane in 0..image.format().planes {
        let Some(block) = Block::new(image, plane) else { return 0 };
        blocks[plane as usize] = Some(block);
    }
    // The last block reads 16 bytes past its pixels.
    let whole = (width * 3).saturating_sub(16) / SOURCE;
    for (plane, memory) in planes.into_iter().enumerate() {
        let Some(block) = &blocks[plane] else { continue };
        assert!(memory.len() as u64 >= image.span(plane as u32));
        let target = Destination(memory.as_mut_ptr());
        in_parallel(height, memory.len(), |lines| {
            for line in lines {
                let to = image.pixel_offset(plane as u32, line as u32, 0) as usize;
                // SAFETY: the line's blocks and 16 bytes more lie in the source's line, and its pixels in the plane;
                // parts write different lines.
                unsafe { shuffle(block, alpha, rgb.as_ptr().add(line * width * 3), target.at(to), whole) };
            }
        });
    }
    (whole * PIXELS) as u32
}
