// SPDX-License-Identifier: MIT OR Apache-2.0

//! Convolution: CDMA fills the buffer, CSC sequences stripes, CACC passes sums to SDP.
//!
//! **Filling.** The sequencer starts when the whole input and the weights of the first kernel group are in the buffer
//! (`NV_NVDLA_CSC_sg.v`: `dat_cbuf_ready`, `wt_cbuf_ready`). While both readers of CDMA request data, they alternate at
//! the interface, and each gets every second beat. Weights stop when their banks are full. Input alone takes more than
//! a cycle per beat: CDMA takes an extra cycle at the end of each line of a surface, and three cycles per two atoms of
//! the surfaces whose number has bit 1 set (`NV_NVDLA_CDMA_dc.v`: `is_blocking`, `rsp_ch0_rd_one`).
//!
//! **Stripes.** A kernel group (atomic-K kernels) computes its outputs in stripes of 2 x atomic-K positions. The last 2 to 4 x
//! atomic-K positions are divided into stripes of atomic-K and a remainder (`stripe_up_cnt_w`). A stripe of an image stays within
//! a line. A stripe has one package per block of atomic-C channels and kernel element. A package takes as many cycles as the
//! stripe has positions, at least atomic-K (`dat_max_cycles`).
//!
//! **Credits.** The last package of a stripe waits until the accumulator can take all its positions. It has credits for 2 x
//! atomic-K positions (`credit_cnt`), and returns one per position that SDP took (`NV_NVDLA_CACC_delivery_buffer.v`:
//! `accu2sc_credit_vld`). A position is atomic-K channels. SDP takes them at its throughput, and the delivery buffer needs one
//! more cycle per position. Full stripes use all credits, so computing and delivering alternate if SDP is the slower of the two.
//!
//! **Weights.** Later kernel groups stream in while earlier ones compute. The entries of a group are free at its end.
//!
//! nv_full is of an earlier release. Its stripes have 32 positions, then 16; a package takes at least 10 cycles; and there are
//! 256 credits, one per 16 sums (`NV_NVDLA_CSC_sg.v` of that release: `dat_impact_cnt`, `credit_cnt`).

use crate::estimate::bus;
use crate::memory::{interface, Bytes, Cube, Interface, Memory};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{ConvOp, ConvSurface, DataFormat, MemoryType};
use nvdla_uapi::layout::{self, pixel::Format};
use nvdla_uapi::reg::values::{ConvMode, Precision, WeightFormat};
use nvdla_uapi::reg::Family;

/// Cycles from enabling to the first package, without reading. Fitted on the convolutions of nv_small and nv_large.
const START: u64 = 72;
/// Cycles from the last package of a stripe until its first position is at SDP. The sum with [`CREDIT`] was fitted on
/// convolutions that SDP limits; only the sum has an effect.
const PIPE: u64 = 22;
/// Cycles from a position at SDP until its credit is returned.
const CREDIT: u64 = 16;
/// Cycles from the last position at SDP to the done interrupt, without the write's latency. Fitted.
const END: u64 = 16;
/// Cycles from the release of a kernel group's entries to the request and use of the next weights. Fitted.
const REFILL: u64 = 40;

/// The input of a convolution, if it is an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    /// Bytes of a pixel in each of the planes; 0 for a plane that does not exist.
    pub pixel_bytes: [u32; 2],
    /// Kernel lines that are processed together (post-extension): 1, 2 or 4.
    pub lines: u32,
}

/// A convolution with the parameters that CDMA and the sequencer get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvShape {
    /// The input.
    pub input: Cube,
    /// The input's pixels, if it is an image.
    pub image: Option<Image>,
    /// The output of the kernels: their number is its channels.
    pub output: Cube,
    /// Channels of a kernel, as the sequencer gets them. For an image a kernel's columns become channels.
    pub channels: u32,
    /// Lines of a kernel.
    pub kernel_height: u32,
    /// Columns of a kernel.
    pub kernel_width: u32,
    /// Horizontal stride.
    pub stride_x: u32,
    /// Vertical stride.
    pub stride_y: u32,
    /// Bytes of weights in memory, with the mask and the group sizes of compressed ones.
    pub weight_bytes: u64,
    /// The memory that holds the weights.
    pub weight_memory: MemoryType,
    /// Whether the input is already in the convolution buffer.
    pub data_reuse: bool,
    /// Whether the weights are already in the convolution buffer.
    pub weight_reuse: bool,
    /// Buffer banks for data.
    pub data_banks: u32,
    /// Buffer banks for weights; 0 for as many as the weights need.
    pub weight_banks: u32,
    /// Inputs that are convolved with the same weights.
    pub batch: u32,
    /// Whether it runs in Winograd's mode: kernels of 3 x 3 as 4 x 4 on tiles of 2 x 2 outputs.
    pub winograd: bool,
}

impl ConvShape {
    /// A direct convolution of a feature cube with stride 1 and kernels of (lines, columns). Its weights are packed in DRAM, and
    /// the buffer holds all of them.
    pub fn direct(input: Cube, kernels: u32, kernel: (u32, u32), output: Cube) -> Self {
        let (kernel_height, kernel_width) = kernel;
        let elements =
            u64::from(input.channels) * u64::from(kernels) * u64::from(kernel_height) * u64::from(kernel_width);
        Self {
            input,
            image: None,
            output: Cube { channels: kernels, ..output }.on_the_fly(),
            channels: input.channels,
            kernel_height,
            kernel_width,
            stride_x: 1,
            stride_y: 1,
            weight_bytes: elements * u64::from(layout::bytes(input.precision)),
            weight_memory: MemoryType::Mc,
            data_reuse: false,
            weight_reuse: false,
            data_banks: 0,
            weight_banks: 0,
            batch: 1,
            winograd: false,
        }
    }

    /// The shape of an operation's descriptors.
    pub fn from_descriptors(operation: &ConvOp, surface: &ConvSurface) -> Self {
        let winograd = operation.conv_mode == ConvMode::Winograd;
        let side = |field: u16| if winograd { 3 } else { u32::from(field) };
        let image = match operation.data_format {
            DataFormat::Feature => None,
            DataFormat::Pixel(format) => {
                let pixel_bytes = Format::new(format).bytes_per_pixel;
                Some(Image { pixel_bytes, lines: 1 << operation.post_extension.min(2) })
            }
        };
        let mask = match operation.weight_format {
            WeightFormat::Uncompressed => 0,
            WeightFormat::Compressed => u64::from(surface.wmb_data.size) + u64::from(surface.wgs_data.size),
        };
        Self {
            input: Cube::from_descriptor(&surface.src_data, operation.in_precision),
            image,
            output: Cube::from_descriptor(&surface.dst_data, operation.out_precision).on_the_fly(),
            channels: operation.kernel_channel_csc.into(),
            kernel_height: side(operation.kernel_height_csc),
            kernel_width: side(operation.kernel_width_csc),
            stride_x: operation.conv_stride_x.into(),
            stride_y: operation.conv_stride_y.into(),
            weight_bytes: u64::from(surface.weight_data.size) + mask,
            weight_memory: surface.weight_data.mem_type,
            data_reuse: operation.data_reuse,
            weight_reuse: operation.weight_reuse,
            data_banks: operation.data_bank.into(),
            weight_banks: operation.weight_bank.into(),
            batch: u32::from(operation.batch.max(1)),
            winograd,
        }
    }

    /// Outputs of one kernel.
    fn outputs(&self) -> u64 {
        self.output.pixels() * u64::from(self.batch)
    }

    /// Multiply-accumulate steps of the algorithm.
    pub fn macs(&self) -> u64 {
        let kernel = u64::from(self.channels) * u64::from(self.kernel_height) * u64::from(self.kernel_width);
        kernel * u64::from(self.output.channels) * self.outputs()
    }

    /// Kernels of a kernel group.
    pub(crate) fn group(&self, config: &Config) -> u64 {
        let kernels = match self.input.precision {
            Precision::Int8 => config.mac_atomic_k,
            Precision::Int16 | Precision::Fp16 => config.mac_atomic_k / 2,
        };
        kernels.max(1).into()
    }

    /// Kernel groups.
    fn groups(&self, config: &Config) -> u64 {
        u64::from(self.output.channels).div_ceil(self.group(config)).max(1)
    }

    /// Packages of a stripe.
    fn packages(&self, config: &Config) -> u64 {
        let steps = match self.image {
            _ if self.winograd => 4,
            Some(image) => u64::from(self.kernel_height.div_ceil(image.lines.max(1))) * u64::from(self.kernel_width),
            None => u64::from(self.kernel_height) * u64::from(self.kernel_width),
        };
        u64::from(self.channels.div_ceil(config.mac_atomic_c.max(1))) * steps
    }

    /// Cycles that the multiply-accumulate cells are busy: one per position, package and kernel group.
    pub fn mac_cycles(&self, config: &Config) -> u64 {
        self.groups(config) * self.packages(config) * self.outputs()
    }

    /// Cycles that the multiply-accumulate cells are busy, or the accumulator if it is busy for longer: it hands over the sums of a
    /// kernel group position by position.
    pub fn busy_cycles(&self, config: &Config) -> u64 {
        let position = self.group(config).div_ceil(config.sdp_bs_throughput.max(1).into()) + delivery(config);
        self.mac_cycles(config).max(self.groups(config) * self.outputs() * position)
    }

    /// Bytes of the input that CDMA reads.
    fn input_bytes(&self, config: &Config) -> u64 {
        match self.image {
            _ if self.data_reuse => 0,
            Some(image) => {
                let line = |bytes: u32| {
                    let bytes = u64::from(bytes) * u64::from(self.input.width);
                    bytes.next_multiple_of(u64::from(config.memory_atomic))
                };
                u64::from(self.input.height) * image.pixel_bytes.map(line).iter().sum::<u64>()
            }
            None => self.input.volume(config) * u64::from(self.batch),
        }
    }

    /// Bytes that CDMA reads.
    pub fn bytes(&self, config: &Config) -> Bytes {
        let weights = if self.weight_reuse { 0 } else { self.weight_bytes };
        Bytes::of(self.input.memory, self.input_bytes(config)) + Bytes::of(self.weight_memory, weights)
    }

    /// The number of interface beats that are needed to fill the buffer with the input if nothing else is read, times two.
    fn input_half_beats(&self, config: &Config) -> u64 {
        let beats = self.input_bytes(config).div_ceil(bus(config));
        if self.image.is_some() || self.data_reuse || config.family == Family::NvFull {
            return 2 * beats;
        }
        let (mut surfaces, mut width) = (self.input.surfaces(config), u64::from(self.input.width));
        if self.input.pixels() == 1 {
            // A packed vector is read as one line.
            (width, surfaces) = (surfaces, 1);
        }
        let slow = surfaces / 4 * 2 + (surfaces % 4).saturating_sub(2);
        u64::from(self.input.height) * u64::from(self.batch) * ((surfaces - slow) * 2 * (width + 1) + slow * 3 * width)
    }
}

/// Cycles per position in which the accumulator hands nothing to SDP (`NV_NVDLA_CACC_delivery_buffer.v`). An entry of its buffer holds
/// the sums of a kernel group, and SDP takes a part of it per cycle. The later releases read the next entry when all parts are taken, and
/// have none to hand over in that cycle (`dbuf_rd_en_new`, `cacc2sdp_valid`). That of nv_full has entries of 16 sums, and reads one
/// per cycle (`dbuf_rd_ready`).
pub(crate) fn delivery(config: &Config) -> u64 {
    match config.family {
        Family::NvSmall => 1,
        Family::NvFull => 0,
    }
}

/// The times at which input and weights are in the buffer, in cycles from the first request's data.
struct Filling {
    /// Cycles per beat.
    slow: f64,
    /// Beats of the weights that arrive together with the input.
    together: f64,
    /// The time at which the input has arrived.
    input: f64,
}

impl Filling {
    fn new(shape: &ConvShape, room: u64, config: &Config, memory: &Memory) -> Self {
        let beat = bus(config);
        let beats = shape.input_bytes(config).div_ceil(beat) as f64;
        let alone = shape.input_half_beats(config) as f64 / 2.0;
        let slow = slow(interface(shape.input.memory, memory), beat);
        if shape.input.memory != shape.weight_memory || shape.weight_reuse {
            return Self { slow, together: 0.0, input: alone.max(beats * slow) };
        }
        let weights = room.min(shape.weight_bytes.div_ceil(beat)) as f64;
        let together = weights.min(beats);
        let per_beat = (alone / beats.max(1.0)).max(slow);
        Self { slow, together, input: (2.0 * together * slow + (beats - together) * per_beat) }
    }

    /// The time at which `beats` beats of weights have arrived, if the buffer is large enough for all.
    fn weights(&self, beats: f64) -> f64 {
        if beats <= self.together {
            2.0 * beats * self.slow
        } else {
            // With a separate interface they do not wait for the input.
            let input = if self.together == 0.0 { 0.0 } else { self.input };
            input + (beats - self.together) * self.slow
        }
    }
}

/// Cycles per beat.
fn slow(interface: Interface, beat: u64) -> f64 {
    (beat as f64 / interface.bandwidth).max(1.0)
}

/// The sequencer, and the accumulator after it.
struct Flow {
    /// Positions of a full stripe and of the shorter ones at the end, and the least cycles of a package.
    full: u64,
    short: u64,
    least: u64,
    credits: u64,
    /// The positions of a stripe are rounded up to a multiple of this plus one, a power of two.
    round: u64,
    /// For a line or a kernel group: the number of full stripes, and the positions left for shorter ones.
    whole: u64,
    rest: u64,
    packages: u64,
    /// Cycles in which SDP takes a position.
    position: u64,
    /// The time at which the next package can start.
    next: u64,
    /// The time at which SDP has taken all positions.
    delivered: u64,
}

impl Flow {
    fn new(shape: &ConvShape, positions: u64, position: u64, config: &Config) -> Self {
        let group = u64::from(config.mac_atomic_k.max(1));
        let image = shape.image.is_some();
        let (full, short, least, credits) = match config.family {
            // `NV_NVDLA_CSC_sg.v`, `credit_cnt` after reset: 16 on nv_small, 32 on nv_small_256 and nv_medium_512, 64 on the others.
            Family::NvSmall => {
                let credits = (2 * group).max(config.mac_atomic_c.into());
                (2 * group, if image { 2 * group } else { group }, group, credits)
            }
            // 256 credits, one per 16 sums (`dat_impact_cnt`).
            Family::NvFull => {
                let credits = 256 * 16 / shape.group(config);
                let (full, short) = if image { (64, 64) } else { (32, 16) };
                (full, short, 10, credits)
            }
        };
        let whole = (positions / full).saturating_sub(1);
        Self {
            full,
            short,
            least,
            credits,
            round: shape.image.map_or(0, |image| u64::from(image.lines.max(1).next_power_of_two()) - 1),
            whole,
            rest: positions - whole * full,
            packages: shape.packages(config),
            position,
            next: 0,
            delivered: 0,
        }
    }

    /// Adds a stripe of `positions` positions.
    #[inline]
    fn stripe(&mut self, positions: u64) {
        let package = ((positions + self.round) & !self.round).max(self.least);
        let free = (self.delivered + CREDIT).saturating_sub(self.credits.saturating_sub(positions) * self.position);
        let last = (self.next + (self.packages - 1) * package).max(free);
        self.next = last + package;
        let first = (last + PIPE).max(self.delivered);
        self.delivered = (first + positions * self.position).max(last + PIPE + positions);
    }

    /// Repeats `once` `count` times. Once SDP's distance to the sequencer stays constant, each repetition takes as long as the
    /// last one.
    #[inline]
    fn repeat(&mut self, count: u64, mut once: impl FnMut(&mut Self)) {
        // If SDP falls further behind until credits run out, the two continue at their own rates.
        const SIMULATED: u64 = 4;
        for done in 1..=count {
            let (next, delivered) = (self.next, self.delivered);
            once(self);
            let (next, delivered) = (self.next - next, self.delivered - delivered);
            if next == delivered || done == SIMULATED {
                self.next += (count - done) * next;
                self.delivered += (count - done) * delivered;
                return;
            }
        }
    }

    /// Adds the stripes of a line or a kernel group.
    fn run(&mut self) {
        self.repeat(self.whole, |flow| flow.stripe(flow.full));
        let mut left = self.rest;
        while left > self.full {
            self.stripe(self.short);
            left -= self.short;
        }
        if left > 0 {
            self.stripe(left);
        }
    }
}

/// The part of a convolution before its first package, in which only memory works, and what it needs of the convolution buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begin {
    /// Cycles from enabling to the first package.
    pub(crate) cycles: u64,
    /// The part of them in which data arrives.
    pub(crate) filling: u64,
    /// Banks for data and for weights.
    banks: [u32; 2],
    /// Bytes in the banks for data and in those for weights, and the bytes that must be there before the first package.
    held: [u64; 2],
    first: [u64; 2],
}

impl Begin {
    pub(crate) fn new(shape: &ConvShape, config: &Config, memory: &Memory) -> Self {
        let run = run(shape, 1, config, memory);
        let input = shape.input.volume(config).max(shape.input_bytes(config));
        let group = shape.weight_bytes * shape.group(config) / u64::from(shape.output.channels.max(1));
        Self {
            cycles: run.around - END,
            filling: run.filling,
            banks: [shape.data_banks, shape.weight_banks],
            held: [input, shape.weight_bytes],
            first: [
                if shape.data_reuse { 0 } else { input },
                if shape.weight_reuse { 0 } else { group.min(shape.weight_bytes) },
            ],
        }
    }

    /// The cycles of the part that fit beside the convolution before: CDMA fetches for the next operation while CSC works on this
    /// one, if both divide the buffer in the same way (`NV_NVDLA_CDMA_dc.v`, `NV_NVDLA_CDMA_wt.v`: `need_pending`), as far as the
    /// buffer has space.
    pub(crate) fn beside(&self, before: &Self, config: &Config) -> u64 {
        if self.banks != before.banks || self.banks.contains(&0) {
            return 0;
        }
        let mut cycles = self.cycles;
        for at in 0..2 {
            let space = u64::from(self.banks[at]) * u64::from(config.cbuf_bank_bytes());
            let free = space.saturating_sub(before.held[at]);
            if free < self.first[at] {
                cycles = cycles.min(self.cycles * free / self.first[at]);
            }
        }
        cycles
    }
}

/// A convolution's times.
pub(crate) struct Run {
    /// From enabling to the done interrupt.
    pub(crate) cycles: u64,
    /// The part of `cycles` in which the cells or SDP are busy.
    pub(crate) compute: u64,
    /// From enabling to the first output, and from the last output to the done interrupt. The output is written between them.
    pub(crate) around: u64,
    /// The part of `around` in which data arrives.
    filling: u64,
}

/// Simulates a convolution. SDP takes each position in `position` cycles.
pub(crate) fn run(shape: &ConvShape, position: u64, config: &Config, memory: &Memory) -> Run {
    let beat = bus(config);
    let groups = shape.groups(config);
    // A kernel group covers all outputs, for an image line by line.
    let (lines, positions) = match shape.image {
        Some(_) => (u64::from(shape.output.height) * u64::from(shape.batch), u64::from(shape.output.width)),
        None => (1, shape.outputs()),
    };
    let mut flow = Flow::new(shape, positions, position, config);
    let mut period = 0;
    flow.repeat(groups, |flow| {
        let before = flow.next;
        flow.repeat(lines, Flow::run);
        period = flow.next - before;
    });
    let compute = flow.delivered.max(flow.next);

    let latency = |of| u64::from(interface(of, memory).latency);
    let group = shape.group(config).min(shape.output.channels.into());
    let weights = if shape.weight_reuse { 0 } else { shape.weight_bytes };
    let group_beats = weights as f64 / beat as f64 * group as f64 / f64::from(shape.output.channels.max(1));
    let all_beats = weights.div_ceil(beat) as f64;
    let room = match shape.weight_banks {
        0 => u64::MAX,
        banks => u64::from(banks) * u64::from(config.cbuf_bank_bytes()) / beat,
    };
    let filling = Filling::new(shape, room, config, memory);
    let started = filling.input.max(filling.weights(group_beats));

    // The time that later kernel groups wait for their weights if the buffer is large enough. The arrival times are piecewise
    // linear with two pieces.
    let arrival = |at: u64| filling.weights((group_beats * (at + 1) as f64).min(all_beats));
    let kink = if group_beats > 0.0 { (filling.together / group_beats) as u64 } else { 0 };
    let stall = [kink.saturating_sub(1), kink, kink + 1, groups - 1]
        .into_iter()
        .filter(|&at| at < groups)
        .map(|at| arrival(at) - started - (at * period) as f64)
        .fold(0.0, f64::max);
    // The same wait if the buffer is too small, so that a group's weights replace the weights of an earlier group.
    let mut replaced = 0.0;
    if all_beats > room as f64 && group_beats > 0.0 {
        let held = (room as f64 / group_beats).floor().max(1.0);
        let missing = (group_beats * (held + 1.0) - room as f64).clamp(0.0, group_beats) * filling.slow;
        let latency = (latency(shape.weight_memory) + REFILL) as f64;
        let each = (period as f64 + latency + missing) / held - period as f64;
        // The last group may have fewer kernels.
        let last = (all_beats - group_beats * (groups - 1) as f64).max(0.0);
        let fewer = if held < 2.0 { (group_beats - last).min(missing / filling.slow) * filling.slow } else { 0.0 };
        replaced = (each * (groups as f64 - held).max(0.0) - fewer).max(0.0);
    }
    let kernels = group.min(config.mac_atomic_k.into());
    let read = latency(shape.input.memory).max(latency(shape.weight_memory));
    let filling = started.ceil() as u64;
    let around = START + kernels + read + filling + END;
    Run { cycles: around + compute + stall.max(replaced).ceil() as u64, compute, around, filling }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvdla_uapi::config::{NV_FULL, NV_SMALL};

    #[test]
    fn cycles_of_the_cells() {
        let direct = ConvShape::direct(Cube::int8(100, 12, 10), 33, (3, 3), Cube::int8(33, 10, 8));
        assert_eq!(direct.macs(), 100 * 33 * 9 * 80);
        assert_eq!(direct.mac_cycles(&NV_FULL), 2 * 2 * 9 * 80);
        assert_eq!(ConvShape { winograd: true, ..direct }.mac_cycles(&NV_FULL), 2 * 2 * 4 * 80);
        let fp16 = Cube { precision: Precision::Fp16, ..direct.input };
        assert_eq!(ConvShape { input: fp16, ..direct }.mac_cycles(&NV_FULL), 2 * 3 * 9 * 80);
        assert_eq!(direct.mac_cycles(&NV_SMALL), 100_u64.div_ceil(8) * 33_u64.div_ceil(8) * 9 * 80);
    }

    /// The accumulator hands over the sums of a kernel group in as many cycles as SDP needs for them, and one more.
    #[test]
    fn cycles_of_the_accumulator() {
        use nvdla_uapi::config::{NV_LARGE, NV_MEDIUM_512};
        let shape = ConvShape::direct(Cube::int8(8, 10, 10), 64, (1, 1), Cube::int8(64, 10, 10));
        let cycles = [&NV_SMALL, &NV_MEDIUM_512, &NV_LARGE, &NV_FULL].map(|config| shape.busy_cycles(config));
        assert_eq!(cycles, [8 * 100 * 9, 4 * 100 * 5, 2 * 100 * 3, 2 * 100 * 2]);
        let deep = ConvShape::direct(Cube::int8(256, 12, 12), 64, (3, 3), Cube::int8(64, 10, 10));
        assert_eq!(deep.busy_cycles(&NV_LARGE), deep.mac_cycles(&NV_LARGE));
    }

    /// The lengths of a run's stripes.
    fn stripes(shape: &ConvShape, positions: u64) -> Vec<u64> {
        let mut flow = Flow::new(shape, positions, 1, &NV_SMALL);
        (flow.packages, flow.credits) = (1, u64::MAX);
        let mut lengths = Vec::new();
        let mut left = positions;
        while left > 0 {
            let length = if left >= 2 * flow.full || left == flow.full {
                flow.full
            } else if left < flow.full {
                left
            } else {
                flow.short
            };
            lengths.push(length);
            left -= length;
        }
        let cycles: u64 = lengths.iter().map(|&length| length.max(flow.least)).sum();
        flow.run();
        assert_eq!(flow.next, cycles, "{positions} positions");
        lengths
    }

    #[test]
    fn a_run_of_positions_becomes_stripes() {
        let shape = ConvShape::direct(Cube::int8(8, 8, 8), 8, (1, 1), Cube::int8(8, 8, 8));
        assert_eq!(stripes(&shape, 3), [3]);
        assert_eq!(stripes(&shape, 16), [16]);
        assert_eq!(stripes(&shape, 17), [8, 9]);
        assert_eq!(stripes(&shape, 31), [8, 8, 15]);
        assert_eq!(stripes(&shape, 32), [16, 16]);
        assert_eq!(stripes(&shape, 49), [16, 16, 8, 9]);
        let image = ConvShape { image: Some(Image { pixel_bytes: [4, 0], lines: 1 }), ..shape };
        assert_eq!(stripes(&image, 36), [16, 16, 4]);
        for positions in 1..1000 {
            assert_eq!(stripes(&shape, positions).iter().sum::<u64>(), positions);
        }
    }
}
