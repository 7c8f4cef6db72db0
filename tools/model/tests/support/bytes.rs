// SPDX-License-Identifier: MIT OR Apache-2.0

//! Memory, registers and bytes that tests of several units need.

use std::ops::Range;

use nvdla_uapi::config::{Config, NV_FULL, NV_MEDIUM_512, NV_SMALL};
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::Register;
use proptest::prelude::*;

use nvdla_model::memory::{disjoint, Memory, Port, Span};
use nvdla_model::registers::Registers;
use nvdla_model::stream::{Samples, Stream};

use super::random::Random;

/// Bytes of primary memory at an address; the secondary memory has none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bytes {
    pub(crate) base: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Bytes {
    fn range(&self, port: Port, address: u64, length: usize) -> Option<Range<usize>> {
        let start = usize::try_from(address.checked_sub(self.base)?).ok()?;
        let end = start.checked_add(length)?;
        (port == Port::Primary && end <= self.bytes.len()).then_some(start..end)
    }
}

impl Memory for Bytes {
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]> {
        self.bytes.get(self.range(port, address, length)?)
    }

    fn write(&mut self, port: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        let range = self.range(port, address, length)?;
        self.bytes.get_mut(range)
    }

    fn both(&mut self, read: Span, write: Span) -> Option<(&[u8], &mut [u8])> {
        let [read, write] = [read, write].map(|span| self.range(span.port, span.address, span.length));
        disjoint(&mut self.bytes, read?, write?)
    }
}

/// A configuration and a precision that it has.
pub(crate) fn formats() -> impl Strategy<Value = (&'static Config, Precision)> {
    prop::sample::select(vec![
        (&NV_FULL, Precision::Int8),
        (&NV_FULL, Precision::Int16),
        (&NV_FULL, Precision::Fp16),
        (&NV_SMALL, Precision::Int8),
        (&NV_MEDIUM_512, Precision::Int8),
    ])
}

/// Pseudo-random bytes, the same for the same seed.
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    (0..length).map(|_| random.next() as u8).collect()
}

/// Sets several registers.
pub(crate) fn set(registers: &mut Registers, values: &[(Register, u32)]) {
    for &(register, value) in values {
        registers.set(register, value);
    }
}

/// A stream's samples as bits, so that a NaN equals itself.
pub(crate) fn bits(stream: &Stream) -> Vec<u32> {
    match &stream.samples {
        Samples::Int(samples) => samples.iter().map(|&sample| sample as u32).collect(),
        Samples::Float(samples) => samples.iter().map(|sample| sample.to_bits()).collect(),
    }
}
