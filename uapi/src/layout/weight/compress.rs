// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Sparse compression of mapped weights into three surfaces: the weights that are not zero, the mask (WMB) and the
//! group sizes (WGS).
//!
//! The mask has one bit for each element, least significant first, 0 for a zero weight. The elements that are not zero
//! follow one another through all groups. WGS holds, for each kernel group, how many bytes of it remain, in 32 bits.
//! Each surface is padded with zeros to 128 bytes.
//!
//! Source: "In-memory data formats", section "Sparse Compression option" and table 35.

use super::super::error::{Error, Rule};
use super::super::extents::round_up;
use super::geometry::{Groups, WGS_ENTRY};

/// The bytes to which each surface is padded.
const ALIGNMENT: u64 = 128;

/// The compressed form of mapped weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compressed<G> {
    weights: G,
}

/// The three surfaces of compressed weights.
#[derive(Clone, Copy, Debug)]
pub struct Surfaces<T> {
    /// The elements that are not zero.
    pub weights: T,
    /// The mask.
    pub wmb: T,
    /// The group sizes.
    pub wgs: T,
}

impl<G: Groups> Compressed<G> {
    /// The compressed form of weights with that mapping.
    pub const fn new(weights: G) -> Self {
        Self { weights }
    }

    /// Elements of all groups.
    fn elements(&self) -> u64 {
        (0..self.weights.groups()).map(|group| self.weights.group_elements(group)).sum()
    }

    /// Bytes of the mask surface.
    pub fn wmb_size(&self) -> u64 {
        round_up(self.elements().div_ceil(8), ALIGNMENT)
    }

    /// Bytes of the group-size surface.
    pub fn wgs_size(&self) -> u64 {
        round_up(u64::from(self.weights.groups()) * WGS_ENTRY, ALIGNMENT)
    }

    /// Bytes of the weight surface where no weight is zero.
    pub fn max_size(&self) -> u64 {
        round_up(self.elements() * u64::from(self.weights.element_bytes()), ALIGNMENT)
    }

    /// The mask bit of the element at a byte offset of the mapped weights: byte of the mask surface and bit.
    pub fn mask_bit(&self, offset: u64) -> (u64, u32) {
        let element = offset / u64::from(self.weights.element_bytes());
        (element / 8, (element % 8) as u32)
    }

    /// Compresses `mapped`. Returns the bytes of each surface, padding included. Of a weight surface that is longer than
    /// that, up to 64 bytes more may be overwritten.
    pub fn compress(&self, mapped: &[u8], surfaces: Surfaces<&mut [u8]>) -> Result<Surfaces<u64>, Error> {
        let Surfaces { weights, wmb, wgs } = surfaces;
        let (wmb_size, wgs_size) = self.check(mapped.len(), wmb.len(), wgs.len())?;
        wmb[..wmb_size].fill(0);
        wgs[..wgs_size].fill(0);
        let bytes = self.weights.element_bytes() as usize;
        let (mut from, mut to) = (0, 0);
        for group in 0..self.weights.groups() {
            let elements = self.weights.group_elements(group) as usize;
            let source = &mapped[from * bytes..][..elements * bytes];
            let rest = &mut weights[to.min(mapped.len())..];
            let kept =
                if bytes == 1 { compact::<1>(source, from, rest, wmb) } else { compact::<2>(source, from, rest, wmb) };
            let Some(kept) = kept else {
                let needed = to + count(mapped, from * bytes, bytes);
                return Err(Error::new(Rule::CompressedLength, weights.len() as u64, needed as u64));
            };
            wgs[group as usize * 4..][..4].copy_from_slice(&(kept as u32).to_le_bytes());
            from += elements;
            to += kept;
        }
        let size = round_up(to as u64, ALIGNMENT);
        Error::unless_at_least(Rule::CompressedLength, weights.len() as u64, size)?;
        weights[to..size as usize].fill(0);
        Ok(Surfaces { weights: size, wmb: wmb_size as u64, wgs: wgs_size as u64 })
    }

    /// Decompresses into `mapped`, after checking that the group sizes agree with the mask.
    pub fn decompress(&self, surfaces: Surfaces<&[u8]>, mapped: &mut [u8]) -> Result<(), Error> {
        let Surfaces { weights, wmb, wgs } = surfaces;
        self.check(mapped.len(), wmb.len(), wgs.len())?;
        let bytes = self.weights.element_bytes() as usize;
        mapped[..self.weights.size() as usize].fill(0);
        let (mut from, mut to) = (0, 0);
        for group in 0..self.weights.groups() {
            let elements = self.weights.group_elements(group) as usize;
            let target = &mut mapped[to * bytes..][..elements * bytes];
            let ones = count_ones(wmb, to, elements) * bytes;
            let mut stated = [0; 4];
            stated.copy_from_slice(&wgs[group as usize * 4..][..4]);
            let stated = u32::from_le_bytes(stated);
            if u64::from(stated) != ones as u64 {
                return Err(Error::new(Rule::WgsValue, u64::from(stated), ones as u64));
            }
            let Some(source) = weights.get(from..from + ones) else {
                return Err(Error::new(Rule::CompressedLength, weights.len() as u64, (from + ones) as u64));
            };
            if bytes == 1 {
                expand::<1>(source, wmb, to, target);
            } else {
                expand::<2>(source, wmb, to, target);
            }
            from += ones;
            to += elements;
        }
        Ok(())
    }

    fn check(&self, mapped: usize, wmb: usize, wgs: usize) -> Result<(usize, usize), Error> {
        Error::unless_at_least(Rule::MemoryLength, mapped as u64, self.weights.size())?;
        Error::unless_at_least(Rule::WmbLength, wmb as u64, self.wmb_size())?;
        Error::unless_at_least(Rule::WgsLength, wgs as u64, self.wgs_size())?;
        Ok((self.wmb_size() as usize, self.wgs_size() as usize))
    }
}

/// Bytes of the elements from `start` on that are not zero.
fn count(mapped: &[u8], start: usize, bytes: usize) -> usize {
    mapped[start..].chunks_exact(bytes).filter(|element| element.iter().any(|byte| *byte != 0)).count() * bytes
}

/// Moves the non-zero elements of `source` to the front of `target` and sets their bits in `wmb`. `bit` is the first bit
/// for `source`. Returns the bytes of the moved elements, or `None` if `target` is too short.
#[allow(clippy::manual_is_multiple_of)] // the kernel's oldest compiler does not have it
fn compact<const B: usize>(source: &[u8], bit: usize, target: &mut [u8], wmb: &mut [u8]) -> Option<usize> {
    let mut kept = 0;
    let mut bit = bit;
    let mut source = source;
    #[cfg(feature = "bulk")]
    if bit % 8 == 0 {
        let done = super::super::bulk::compact::<B>(source, target, &mut wmb[bit / 8..]);
        source = &source[done.elements * B..];
        bit += done.elements;
        kept = done.kept;
    }
    // Whole bytes of the mask, without branches: each element is written, and overwritten by the next if it is zero.
    while bit % 8 == 0 && source.len() >= 8 * B && target.len() >= kept + 8 * B {
        let (eight, tail) = source.split_at(8 * B);
        let mut mask = 0u8;
        for (index, element) in eight.chunks_exact(B).enumerate() {
            let set = element != [0; B];
            target[kept..kept + B].copy_from_slice(element);
            kept += B * usize::from(set);
            mask |= u8::from(set) << index;
        }
        wmb[bit / 8] = mask;
        bit += 8;
        source = tail;
    }
    for element in source.chunks_exact(B) {
        if element != [0; B] {
            target.get_mut(kept..kept + B)?.copy_from_slice(element);
            wmb[bit / 8] |= 1 << (bit % 8);
            kept += B;
        }
        bit += 1;
    }
    Some(kept)
}

/// The bits set among `count` bits from `bit` on.
fn count_ones(wmb: &[u8], bit: usize, count: usize) -> usize {
    let (first, last) = (bit / 8, (bit + count) / 8);
    let below = |byte: usize, bits: usize| match bits {
        0 => 0,
        bits => (wmb[byte] & ((1 << bits) - 1)).count_ones() as usize,
    };
    let whole: usize = wmb[first..last].iter().map(|byte| byte.count_ones() as usize).sum();
    whole + below(last, (bit + count) % 8) - below(first, bit % 8)
}

/// Puts the elements of `source` where the mask's bits from `bit` on are set; `target` is zero.
#[allow(clippy::manual_is_multiple_of)] // the kernel's oldest compiler does not have it
#[cfg_attr(not(feature = "bulk"), allow(unused_mut))]
fn expand<const B: usize>(source: &[u8], wmb: &[u8], bit: usize, target: &mut [u8]) {
    let (mut bit, mut target, mut next) = (bit, target, 0);
    #[cfg(feature = "bulk")]
    if bit % 8 == 0 {
        let done = super::super::bulk::expand::<B>(source, &wmb[bit / 8..], target);
        target = &mut target[done.elements * B..];
        bit += done.elements;
        next = done.kept;
    }
    for element in target.chunks_exact_mut(B) {
        if wmb[bit / 8] >> (bit % 8) & 1 == 1 {
            element.copy_from_slice(&source[next..next + B]);
            next += B;
        }
        bit += 1;
    }
}
