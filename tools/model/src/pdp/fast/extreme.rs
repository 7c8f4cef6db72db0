// SPDX-License-Identifier: MIT OR Apache-2.0

//! The largest or smallest element.

#[cfg(target_arch = "x86_64")]
use super::avx2;
use super::lines::{LineBuffers, Lines, OutputLine};
use super::order::{Kind, Order};
use super::portable::{Method, Portable};
use crate::memory::Stop;
#[cfg(target_arch = "x86_64")]
use crate::pdp::setup::Axis;
use crate::pdp::setup::{nans, Setup};
#[cfg(target_arch = "x86_64")]
use nvdla_uapi::isa::Isa;

/// int8.
pub(super) struct Bytes;

impl Order for Bytes {
    type Key = i8;
    type Element = [u8; 1];
    const KIND: Kind = Kind::Bytes;

    #[inline(always)]
    fn key(&self, element: [u8; 1]) -> i8 {
        i8::from_le_bytes(element)
    }
    #[inline(always)]
    fn element(key: i8) -> [u8; 1] {
        key.to_le_bytes()
    }
}

/// int16.
pub(super) struct Shorts;

impl Order for Shorts {
    type Key = i16;
    type Element = [u8; 2];
    const KIND: Kind = Kind::Shorts;

    #[inline(always)]
    fn key(&self, element: [u8; 2]) -> i16 {
        i16::from_le_bytes(element)
    }
    #[inline(always)]
    fn element(key: i16) -> [u8; 2] {
        key.to_le_bytes()
    }
}

/// fp16 without NaN, or with those flushed.
struct Halves {
    flush: bool,
}

/// An fp16's magnitude, above [`INFINITE`] for a NaN.
#[inline(always)]
const fn magnitude(bits: u16) -> u16 {
    bits & 0x7fff
}

const INFINITE: u16 = 0x7c00;

/// An fp16 that is no NaN as an integer that is ordered like the numbers, and back.
#[inline(always)]
pub(super) const fn ordered(bits: u16) -> i16 {
    (bits ^ (((bits as i16) >> 15) as u16 & 0x7fff)) as i16
}

impl Order for Halves {
    type Key = i16;
    type Element = [u8; 2];
    const KIND: Kind = Kind::Halves;

    #[inline(always)]
    fn key(&self, element: [u8; 2]) -> i16 {
        let bits = u16::from_le_bytes(element);
        ordered(if self.flush && magnitude(bits) > INFINITE { 0 } else { bits })
    }
    #[inline(always)]
    fn element(key: i16) -> [u8; 2] {
        ordered(key as u16).to_le_bytes()
    }
    #[inline(always)]
    fn mark(element: [u8; 2]) -> u16 {
        magnitude(u16::from_le_bytes(element))
    }
}

/// The largest (or smallest) element in this order.
pub(super) struct Extreme<O, const MAX: bool>(pub(super) O);

impl<O: Order, const MAX: bool> Method for Extreme<O, MAX> {
    type Element = O::Element;
    type Value = O::Key;
    const ANY_ORDER: bool = true;

    #[inline(always)]
    fn load(&self, element: O::Element) -> O::Key {
        self.0.key(element)
    }
    #[inline(always)]
    fn mark(element: O::Element) -> u16 {
        O::mark(element)
    }
    #[inline(always)]
    fn along(&self, row: O::Key, next: O::Key) -> O::Key {
        if MAX {
            row.max(next)
        } else {
            row.min(next)
        }
    }
    #[inline(always)]
    fn store(&self, sum: O::Key, _: usize) -> O::Element {
        O::element(sum)
    }
    #[cfg(target_arch = "x86_64")]
    fn end(&self, isa: Isa, axis: &Axis, columns: &[O::Key], line: &mut [u8]) -> bool {
        let exists = isa.has_avx2();
        if exists {
            // SAFETY: the processor has AVX2.
            unsafe { avx2::across::<O, MAX>(axis, columns, line) };
        }
        exists
    }
}

/// The largest (or smallest) fp16, including NaNs, which requires the elements in order.
struct InOrder<const MAX: bool>;

impl<const MAX: bool> InOrder<MAX> {
    /// The result of two elements: a NaN has priority over any number, and the first NaN over the second.
    #[inline(always)]
    fn better(a: u16, b: u16) -> u16 {
        let nan = |bits: u16| magnitude(bits) > INFINITE;
        let second = if MAX { ordered(b) > ordered(a) } else { ordered(b) < ordered(a) };
        if !nan(a) & (nan(b) | second) {
            b
        } else {
            a
        }
    }
}

impl<const MAX: bool> Method for InOrder<MAX> {
    type Element = [u8; 2];
    type Value = u16;

    #[inline(always)]
    fn load(&self, element: [u8; 2]) -> u16 {
        u16::from_le_bytes(element)
    }
    #[inline(always)]
    fn along(&self, row: u16, next: u16) -> u16 {
        Self::better(row, next)
    }
    #[inline(always)]
    fn down(&self, sum: u16, row: u16) -> u16 {
        Self::better(row, sum)
    }
    #[inline(always)]
    fn store(&self, sum: u16, _: usize) -> [u8; 2] {
        sum.to_le_bytes()
    }
}

/// The largest (or smallest) fp16. Lines with windows that contain a NaN are computed again in order.
pub(super) struct HalfExtreme<const MAX: bool> {
    quick: Portable<Extreme<Halves, MAX>, 16>,
    in_order: Portable<InOrder<MAX>, 16>,
    flush: bool,
}

impl<const MAX: bool> HalfExtreme<MAX> {
    pub(super) fn new(setup: &Setup) -> Self {
        let flush = setup.flush_nan;
        Self { quick: Portable(Extreme(Halves { flush })), in_order: Portable(InOrder), flush }
    }
}

impl<const MAX: bool> Lines for HalfExtreme<MAX> {
    const PARALLEL: usize = <Portable<Extreme<Halves, MAX>, 16> as Lines>::PARALLEL;

    fn line(&self, buffers: &mut LineBuffers, at: OutputLine<'_>, line: &mut [u8]) -> Result<usize, Stop> {
        if self.quick.make(&mut buffers.first, at, line)? <= INFINITE || self.flush {
            return Ok(0);
        }
        self.in_order.make(&mut buffers.second, at, line)?;
        Ok(nans(line))
    }
}
