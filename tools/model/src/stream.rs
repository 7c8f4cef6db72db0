// SPDX-License-Identifier: MIT OR Apache-2.0

//! The data that a unit passes to the next one without memory between them: CACC to SDP, SDP to PDP.

use nvdla_uapi::layout::feature::View;
use nvdla_uapi::reg::{Block, Register};

/// A cube of samples, in the order of a packed feature cube: surface of `lanes` channels, line, column, lane.
///
/// Lanes after `channels` in the last surface hold the values that the producing unit computed there (zero for CACC).
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Elements per line.
    pub width: usize,
    /// Lines.
    pub height: usize,
    /// Channels.
    pub channels: usize,
    /// Channels of a surface.
    pub lanes: usize,
    /// Cubes one after another (a hardware batch), 1 otherwise.
    pub batch: usize,
    /// `batch * surfaces * height * width * lanes` samples.
    pub samples: Samples,
}

/// The shape of a [`Stream`]. Its samples need not exist all at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Elements per line.
    pub width: usize,
    /// Lines.
    pub height: usize,
    /// Channels.
    pub channels: usize,
    /// Channels of a surface.
    pub lanes: usize,
    /// Cubes.
    pub batch: usize,
    /// Whether the samples are fp32 values.
    pub is_float: bool,
    /// No integer sample has a larger magnitude.
    pub largest: u32,
}

/// The samples of a [`Stream`].
#[derive(Clone, Debug, PartialEq)]
pub enum Samples {
    /// Integer processing: accumulators, or int8 and int16 values widened.
    Int(Vec<i32>),
    /// fp16 processing: fp32 values.
    Float(Vec<f32>),
}

impl Form {
    /// Surfaces of a cube.
    pub const fn surfaces(&self) -> usize {
        self.channels.div_ceil(self.lanes)
    }
}

impl Stream {
    /// Surfaces of a cube.
    pub const fn surfaces(&self) -> usize {
        self.form().surfaces()
    }

    /// The stream's shape.
    pub const fn form(&self) -> Form {
        let Self { width, height, channels, lanes, batch, .. } = *self;
        Form {
            width,
            height,
            channels,
            lanes,
            batch,
            is_float: matches!(self.samples, Samples::Float(_)),
            largest: 1 << 31,
        }
    }

    /// Channels for which there are samples: all lanes of all surfaces.
    pub const fn available(&self) -> usize {
        self.surfaces() * self.lanes
    }

    /// Index in `samples` of the element, in cube `batch`.
    pub const fn index(&self, batch: usize, channel: usize, y: usize, x: usize) -> usize {
        View::packed(self.surfaces(), self.height, self.width, self.lanes).offset(batch, y, x, channel)
    }
}

/// The results of a unit: its output, and its status registers' new values.
#[derive(Clone, Debug, PartialEq)]
pub struct Done<T> {
    /// The output.
    pub output: T,
    /// Status registers (saturation, NaN and lookup-table counters) with their block and value, for the register group of the
    /// operation.
    pub status: Status,
}

/// A status register's new value: its block, its offset there and the value.
pub type Report = (Block, u16, u32);

/// The greatest number of status registers that an operation sets.
const REPORTS: usize = 12;

/// The new values of status registers. They are stored inline, so that an operation allocates nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Status {
    reports: [Option<Report>; REPORTS],
    count: usize,
}

impl Status {
    /// No register is set.
    pub const EMPTY: Self = Self { reports: [None; REPORTS], count: 0 };

    /// Sets a register.
    pub fn push(&mut self, block: Block, register: Register, value: u32) {
        debug_assert!(self.count < REPORTS, "an operation sets {REPORTS} status registers at most");
        if let Some(place) = self.reports.get_mut(self.count) {
            *place = Some((block, register.offset, value));
            self.count += 1;
        }
    }

    /// The registers in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = &Report> {
        self.reports.iter().flatten()
    }
}

impl<const N: usize> From<[(Block, Register, u32); N]> for Status {
    fn from(reports: [(Block, Register, u32); N]) -> Self {
        let mut status = Self::EMPTY;
        for (block, register, value) in reports {
            status.push(block, register, value);
        }
        status
    }
}

impl IntoIterator for Status {
    type Item = Report;
    type IntoIter = std::iter::Flatten<std::array::IntoIter<Option<Report>, REPORTS>>;

    fn into_iter(self) -> Self::IntoIter {
        self.reports.into_iter().flatten()
    }
}
