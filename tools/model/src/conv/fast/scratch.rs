// SPDX-License-Identifier: MIT OR Apache-2.0

//! Buffers that are kept between operations.

use super::super::operation::Operation;
use super::direct::InputBuffers;
use super::fp16::shape::Buffers;
use crate::simd::aligned::Aligned;
use crate::stream::{Samples, Stream};
use nvdla_uapi::reg::values::Precision;

/// Buffers that are kept between operations.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(super) input: InputBuffers,
    pub(super) fp16: Buffers,
    pub(super) bytes: Aligned,
    pub(super) spare: Vec<i32>,
    pub(super) spare_floats: Vec<f32>,
}

impl Scratch {
    /// Takes back the stream of a finished operation, to reuse its memory.
    pub fn recycle(&mut self, stream: Stream) {
        match stream.samples {
            Samples::Int(samples) if samples.capacity() > self.spare.capacity() => self.spare = samples,
            Samples::Float(samples) if samples.capacity() > self.spare_floats.capacity() => self.spare_floats = samples,
            Samples::Int(_) | Samples::Float(_) => {}
        }
    }

    /// The output of [`bytes`](super::bytes) or [`fp16_bytes`](super::fp16_bytes), in the order of a packed cube.
    pub fn bytes(&mut self, operation: &Operation) -> &[u8] {
        match operation.precision {
            Precision::Fp16 => self.bytes.get::<[u8; 2]>(operation.sums()).as_flattened(),
            Precision::Int8 | Precision::Int16 => self.bytes.get::<u8>(operation.sums()),
        }
    }

    /// A vector of `count` floats, which the caller overwrites.
    pub(super) fn floats(&mut self, count: usize) -> Vec<f32> {
        let mut sums = std::mem::take(&mut self.spare_floats);
        sums.truncate(count);
        sums.resize(count, 0.0);
        sums
    }

    /// A vector of `count` sums, which the caller overwrites.
    pub(super) fn sums(&mut self, count: usize) -> Vec<i32> {
        let mut sums = std::mem::take(&mut self.spare);
        sums.truncate(count);
        sums.resize(count, 0);
        sums
    }
}
