// SPDX-License-Identifier: MIT OR Apache-2.0

//! PDP one line at a time, in vector instructions.
//!
//! [`portable`] has loops for every method and precision that compile to vector instructions. [`avx512`] has faster
//! code for averages. [`job`] walks the lines, on several threads where there are many.

// A loop is compiled for an instruction set only with what is inlined into it.
#![allow(clippy::inline_always)]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod extreme;
mod half;
mod integer;
mod job;
mod portable;

use std::ops::Range;

use nvdla_uapi::reg::values::{PoolingMethod, Precision};

use super::{reference, Emit, Part, Setup, Source, KERNEL_MAX};
use crate::conv::fast::aligned::Aligned;
use crate::memory::{Memory, Stop};
use extreme::{Bytes, Extreme, HalfExtreme, Shorts};
use half::HalfAverage;
use integer::{Average16, Average8, Integer};
use job::Job;
use portable::Portable;

/// Pools one part; the answer is the number of NaNs.
pub(super) fn pool(
    setup: &Setup,
    part: &Part,
    source: &Source,
    memory: &mut dyn Memory,
    emit: &mut Emit,
) -> Result<usize, Stop> {
    let mut job = Job { task: Task { setup, part, source }, memory, emit };
    match (setup.precision, setup.method) {
        (Precision::Int8, PoolingMethod::Max) => bytes(&mut job, || Extreme::<_, true>(Bytes)),
        (Precision::Int8, PoolingMethod::Min) => bytes(&mut job, || Extreme::<_, false>(Bytes)),
        (Precision::Int8, PoolingMethod::Average) => match setup.atoms.bytes() {
            32 => job.run(&Integer::new(setup.isa, Portable::<_, 32>(Average8::new(setup, part)))),
            _ => bytes(&mut job, || Average8::new(setup, part)),
        },
        (Precision::Int16, PoolingMethod::Max) => job.run(&Portable::<_, 16>(Extreme::<_, true>(Shorts))),
        (Precision::Int16, PoolingMethod::Min) => job.run(&Portable::<_, 16>(Extreme::<_, false>(Shorts))),
        (Precision::Int16, PoolingMethod::Average) => {
            job.run(&Integer::new(setup.isa, Portable::<_, 16>(Average16::new(setup, part))))
        }
        (Precision::Fp16, PoolingMethod::Max) => job.run(&HalfExtreme::<true>::new(setup)),
        (Precision::Fp16, PoolingMethod::Min) => job.run(&HalfExtreme::<false>::new(setup)),
        (Precision::Fp16, PoolingMethod::Average) => match HalfAverage::new(setup, part) {
            Some(method) => job.run(&method),
            None => reference::pool(setup, part, source, job.memory, job.emit),
        },
    }
}

/// Pools int8 in atoms of any size.
fn bytes<M: portable::Method>(job: &mut Job, method: impl Fn() -> M) -> Result<usize, Stop> {
    match job.task.setup.atoms.bytes() {
        8 => job.run(&Portable::<_, 8>(method())),
        16 => job.run(&Portable::<_, 16>(method())),
        _ => job.run(&Portable::<_, 32>(method())),
    }
}

/// A way to make lines of the output.
trait Lines: Sync {
    /// Elements of the input from which a second thread pays.
    const PARALLEL: usize;
    /// Makes a line; the answer is how many NaNs it has.
    fn line(&self, rooms: &mut Rooms, at: At<'_>, line: &mut [u8]) -> Result<usize, Stop>;
}

/// What is pooled.
#[derive(Clone, Copy)]
struct Task<'t> {
    setup: &'t Setup,
    part: &'t Part,
    source: &'t Source,
}

/// A line of the output.
#[derive(Clone, Copy)]
struct At<'t> {
    task: Task<'t>,
    memory: &'t dyn Memory,
    surface: usize,
    y: usize,
}

impl<'t> At<'t> {
    /// The input lines that the line's windows cover.
    fn rows(&self) -> Range<usize> {
        let (top, bottom) = self.task.setup.vertical.window(self.y);
        top..bottom
    }

    /// An input line.
    fn row(&self, row: usize) -> Result<&'t [u8], Stop> {
        let Task { part, source, .. } = self.task;
        source.line(self.memory, [self.surface, row, part.input, part.axis.input])
    }

    /// Lines of the windows that lie outside.
    fn outside(&self) -> usize {
        self.task.setup.vertical.kernel - self.rows().len()
    }
}

/// A thread's rooms: for the way that suits most lines, and those in which other lines are made again.
#[derive(Default)]
struct Rooms {
    first: Rows,
    second: Rows,
}

impl Rooms {
    /// What comes next are other lines than those that follow the last.
    fn forget(&mut self) {
        for rows in [&mut self.first, &mut self.second] {
            rows.held = 0..0;
        }
    }
}

/// What stays of input lines until the windows that cover them have passed.
#[derive(Default)]
struct Rows {
    /// A line's results along its windows, for as many lines as a window has.
    reduced: Aligned,
    loaded: Aligned,
    sums: Aligned,
    /// The input lines whose results are here.
    held: Range<usize>,
    /// Of each line in `reduced`: the largest mark of its elements, and the lanes that have a negative one.
    marks: [u16; KERNEL_MAX],
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only its vector code asks
    signs: [u16; KERNEL_MAX],
}

/// Where the results of an input line are.
fn slot(at: &At<'_>, row: usize) -> usize {
    let vertical = at.task.setup.vertical;
    row % vertical.kernel.min(vertical.input)
}
