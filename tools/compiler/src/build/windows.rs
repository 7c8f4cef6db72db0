// SPDX-License-Identifier: MIT OR Apache-2.0

//! Operators over windows that no unit computes directly: large poolings, deconvolutions, and resizing.

use nvdla_uapi::reg::values::Precision;

use crate::build::nodes::Builder;
use crate::codegen::average;
use crate::ir::{self, Pool};
use crate::net::step::{Convolution, Kind, Tensor, TensorId};
use crate::target::{LARGEST_EXTENT, LARGEST_KERNEL, LARGEST_POOL_STRIDE, LARGEST_WINDOW};

/// A resize along one axis, whose weights repeat: output `taps * m + j` is a sum of the elements from `stride * m` on.
pub(crate) struct Blocks {
    pub(crate) stride: usize,
    /// The elements of each output of a block, and their weights.
    pub(crate) taps: Vec<ir::Taps>,
    /// The number of blocks, of which the last may be beyond the output.
    pub(crate) count: usize,
}

impl Blocks {
    /// The blocks of an axis of `size` elements; `None` if the weights do not repeat.
    pub(crate) fn of(resize: &ir::Resize, axis: usize, taps: &[ir::Taps], size: u32) -> Option<Self> {
        let scale = match resize.coordinates {
            // The first and the last elements of both are at the same places.
            ir::Coordinates::AlignCorners if size > 1 && taps.len() > 1 => (taps.len() - 1) as f32 / (size - 1) as f32,
            ir::Coordinates::Linear { step, .. } => 1.0 / step[axis],
            _ => resize.scales[axis],
        };
        Self::new(taps, scale)
    }

    /// Each element stays.
    pub(crate) fn same(size: u32) -> Self {
        Self { stride: 1, taps: vec![ir::Taps { first: 0, weights: vec![1.0] }], count: size as usize }
    }

    /// One block, whose elements have weights of their own.
    pub(crate) fn one(taps: Vec<ir::Taps>) -> Self {
        Self { stride: 1, taps, count: 1 }
    }

    /// Where the elements begin that are read before the first block, and where those of a block end.
    pub(crate) fn ends(&self) -> (i64, i64) {
        let (first, end) = ir::Taps::ends(&self.taps);
        (first.min(0), end)
    }

    /// The multiplications per channel of a convolution with these blocks along both axes.
    pub(crate) fn multiplications(both: [&Self; 2]) -> usize {
        let along = |blocks: &Self| {
            let (first, end) = blocks.ends();
            blocks.taps.len() * blocks.count * (end - first) as usize
        };
        along(both[0]) * along(both[1])
    }

    /// `scale` is the distance of two elements of the input, in elements of the output.
    fn new(taps: &[ir::Taps], scale: f32) -> Option<Self> {
        let out = taps.len();
        let whole = |stride: &usize| {
            let count = f64::from(scale) * *stride as f64;
            (count.round() >= 1.0 && (count - count.round()).abs() < 1e-5 * count)
                .then_some((*stride, count.round() as usize))
        };
        let (stride, count) = if out == 1 { (1, 1) } else { (1..=LARGEST_RATIO).find_map(|stride| whole(&stride))? };
        let repeats = taps.iter().enumerate().all(|(at, taps_of)| {
            let base = &taps[at % count];
            let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-3;
            taps_of.first - base.first == (at / count * stride) as i64
                && taps_of.weights.len() == base.weights.len()
                && taps_of.weights.iter().zip(&base.weights).all(near)
        });
        repeats.then(|| Self { stride, taps: taps[..count.min(out)].to_vec(), count: out.div_ceil(count) })
    }
}

/// The windows of a dilated pooling along one axis. Window `phases * m + j` is window `m` of phase `j`.
struct Phases {
    /// The distance of the elements of a window.
    apart: usize,
    /// The distance of the windows of a phase, in such elements.
    stride: usize,
    /// The number of windows of each phase, of which the last may be beyond the output.
    windows: usize,
    all: Vec<Phase>,
}

/// Every n-th element of an axis.
struct Phase {
    first: usize,
    elements: usize,
    before: usize,
    after: usize,
    /// The windows that have an element.
    outputs: usize,
}

/// Windows along one axis that have equally many elements of the input.
struct Part {
    /// The first element that they read, and how many.
    first: usize,
    elements: usize,
    /// The elements of a window.
    kernel: usize,
    /// The number of windows.
    outputs: usize,
}

/// The windows of a pooling along an axis of `size` elements: those that reach into the padding alone, the others together.
fn parts(pool: &Pool, axis: usize, size: usize, outputs: usize) -> Vec<Part> {
    let (kernel, stride, before) = (pool.kernel[axis], pool.stride[axis], [pool.padding.top, pool.padding.left][axis]);
    let mut parts: Vec<Part> = Vec::new();
    for at in 0..outputs {
        let first = (at * stride).saturating_sub(before);
        let end = (at * stride + kernel).saturating_sub(before).min(size);
        match parts.last_mut() {
            Some(last) if end == first + kernel && last.kernel == kernel => {
                (last.elements, last.outputs) = (end - last.first, last.outputs + 1);
            }
            _ => {
                let elements = end.saturating_sub(first);
                parts.push(Part { first, elements, kernel: elements, outputs: 1 });
            }
        }
    }
    parts
}

/// The most convolutions of an average that does not count its padding.
const MOST_PARTS: usize = 25;

/// How much smaller the measured step of an average is than that of its input, if a convolution computes it.
const MUCH_FINER: f32 = 4.0;

/// How many times the multiplications of two resizes, along one axis each, one resize may take. A second one rounds once more and moves
/// all elements once more.
const MUCH_DEARER: usize = 4;

/// The greatest number of elements after which the weights of a resize repeat.
pub(crate) const LARGEST_RATIO: usize = 32;

impl Phases {
    fn new(kernel: usize, stride: usize, apart: usize, padding: usize, [size, outputs]: [usize; 2]) -> Self {
        let common = (1..=apart).rev().find(|by| apart.is_multiple_of(*by) && stride.is_multiple_of(*by)).unwrap_or(1);
        let count = (apart / common).min(outputs);
        let (windows, by) = (outputs.div_ceil(count), stride / common);
        let phase = |j: usize| {
            let start = j * stride;
            let before = padding.saturating_sub(start).div_ceil(apart);
            let first = start + before * apart - padding;
            let elements = size.saturating_sub(first).div_ceil(apart);
            let outputs = windows.min((elements + before).saturating_sub(1) / by + 1);
            let end = by * (outputs - 1) + kernel;
            let after = end.saturating_sub(before + elements);
            Phase { first, elements: elements.min(end - before), before, after, outputs }
        };
        Self { apart, stride: by, windows, all: (0..count).map(phase).collect() }
    }
}

impl Builder<'_> {
    /// A pooling, whose window may be larger than PDP's. Fails only for averages.
    pub(crate) fn pool(
        &mut self,
        node: &ir::Node,
        mut pool: Pool,
        mut input: TensorId,
        output: TensorId,
    ) -> Result<(), String> {
        let most = LARGEST_WINDOW;
        let Tensor { name, shape, range, .. } = self.net.tensors[input].clone();
        let channels = shape[0] as usize;
        let op = |kernel, stride, padding| {
            let [rows, columns]: [usize; 2] = kernel;
            let weights = vec![1.0 / (rows * columns) as f32; channels * rows * columns];
            (ir::Convolution { group: channels, kernel, stride, dilation: [1; 2], padding }, weights)
        };
        let large = pool.kernel.iter().any(|&side| side > most);
        if (large || self.rounds_better(node)) && self.is_convolution(&pool, shape) {
            let (op, weights) = op(pool.kernel, [1; 2], pool.padding);
            return self.depthwise(node, op, weights, input, output);
        }
        if !large && !self.is_finer(node, &pool, input) {
            self.step(node, Kind::Pool(pool), &[input], Vec::new(), output);
            return Ok(());
        }
        if let ir::PoolKind::Average { count_include_pad } = pool.kind {
            if !count_include_pad && pool.padding != ir::Padding::default() {
                if !large {
                    return self.uncounted(node, &pool, input, output);
                }
                let reason = format!("an average over windows of {:?} that does not count padding", pool.kernel);
                return Err(reason);
            }
            let [tall, wide] = pool.kernel;
            if !large || tall == 1 || wide == 1 {
                let (op, weights) = op(pool.kernel, pool.stride, pool.padding);
                return self.depthwise(node, op, weights, input, output);
            }
            // The means of columns, and the means of these. A single convolution would have as many weights as the window has
            // elements.
            let ir::Padding { top, left, bottom, right } = pool.padding;
            let [_, height, _] = self.net.tensors[output].shape;
            let means = self.net.tensor(format!("{name} columns"), [shape[0], height, shape[2]], range);
            let none = ir::Padding::default();
            let (down, weights) = op([tall, 1], [pool.stride[0], 1], ir::Padding { top, bottom, ..none });
            self.depthwise(node, down, weights, input, means)?;
            let (along, weights) = op([1, wide], [1, pool.stride[1]], ir::Padding { left, right, ..none });
            return self.depthwise(node, along, weights, means, output);
        }
        // The maximum over a window is the maximum over the maxima of smaller windows in it.
        let mut size = [shape[1] as usize, shape[2] as usize];
        let ir::Padding { top, left, bottom, right } = pool.padding;
        let [_, rows, columns] = self.net.tensors[output].shape;
        let windows = [rows, columns];
        for (axis, padding) in [top + bottom, left + right].into_iter().enumerate() {
            if windows[axis] == 1 && pool.kernel[axis] > most && padding == 0 {
                pool.stride[axis] = pool.kernel[axis];
            }
        }
        while pool.kernel.iter().any(|&side| side > most) {
            let ir::Padding { top, left, bottom, right } = pool.padding;
            // Windows that consist of equal blocks, which lie at the same places in each of them.
            let blocks = [(0, top + bottom), (1, left + right)].map(|(axis, padding)| {
                let (side, stride) = (pool.kernel[axis], pool.stride[axis]);
                let fits = |block: &usize| side.is_multiple_of(*block) && stride.is_multiple_of(*block);
                (2..=most).rev().find(|block| side > most && padding == 0 && fits(block)).unwrap_or(1)
            });
            if blocks != [1; 2] {
                let each = |sides: [usize; 2]| [sides[0] / blocks[0], sides[1] / blocks[1]];
                (size, pool.kernel, pool.stride) = (each(size), each(pool.kernel), each(pool.stride));
                let maxima =
                    self.net.tensor(format!("{name} maxima"), [shape[0], size[0] as u32, size[1] as u32], range);
                let inner = Pool { stride: blocks, ..Pool::new(pool.kind, blocks) };
                self.step(node, Kind::Pool(inner), &[input], Vec::new(), maxima);
                input = maxima;
                continue;
            }
            let part = |axis: usize, before: usize, after: usize| {
                if pool.kernel[axis] > most {
                    (most, before.min(most - 1), after.min(most - 1))
                } else {
                    (1, 0, 0)
                }
            };
            let (rows, columns) = (part(0, top, bottom), part(1, left, right));
            let padding = ir::Padding { top: rows.1, left: columns.1, bottom: rows.2, right: columns.2 };
            let kernel = [rows.0, columns.0];
            for (size, (kernel, before, after)) in size.iter_mut().zip([rows, columns]) {
                *size = *size + before + after + 1 - kernel;
            }
            let inner = Pool { padding, ..Pool::new(pool.kind, kernel) };
            let maxima = self.net.tensor(format!("{name} maxima"), [shape[0], size[0] as u32, size[1] as u32], range);
            self.step(node, Kind::Pool(inner), &[input], Vec::new(), maxima);
            input = maxima;
            pool.kernel = [pool.kernel[0] + 1 - rows.0, pool.kernel[1] + 1 - columns.0];
            pool.padding = ir::Padding {
                top: top - rows.1,
                left: left - columns.1,
                bottom: bottom - rows.2,
                right: right - columns.2,
            };
        }
        for (stride, windows) in pool.stride.iter_mut().zip(windows) {
            // The stride of one window has no meaning.
            if windows == 1 && *stride > LARGEST_POOL_STRIDE {
                *stride = 1;
            }
        }
        self.step(node, Kind::Pool(pool), &[input], Vec::new(), output);
        Ok(())
    }

    /// A pooling of elements that are apart. The windows of a phase begin at elements of one grid, so poolings of the elements of the
    /// grids, which copies put next to one another, compute them. The results of the phases are then interleaved.
    pub(crate) fn dilated_pool(&mut self, node: &ir::Node, pool: Pool, x: TensorId) -> Result<(), String> {
        let dilation = pool.dilation;
        let out = node.output.0;
        let Tensor { name, shape: [channels, height, width], range, .. } = self.net.tensors[x].clone();
        let Tensor { shape: [_, rows, columns], range: own, .. } = self.net.tensors[out];
        let range = if self.is_finer(node, &pool, x) { own } else { range };
        let of = |axis: usize, size: u32, outputs: u32, before: usize| {
            let apart = if pool.kernel[axis] == 1 { 1 } else { dilation[axis] };
            Phases::new(pool.kernel[axis], pool.stride[axis], apart, before, [size as usize, outputs as usize])
        };
        let [down, along] = [of(0, height, rows, pool.padding.top), of(1, width, columns, pool.padding.left)];
        let count = down.all.len() * along.all.len();
        if count * self.filled(channels) > LARGEST_EXTENT as usize {
            return Err(format!(
                "dilation {dilation:?} over {channels} channels, which need {count} times as many channels"
            ));
        }
        if down.all.iter().chain(&along.all).any(|phase| phase.elements == 0) {
            return Err("a window that has no element".to_owned());
        }
        let whole = [channels, down.windows as u32, along.windows as u32];
        let mut parts = Vec::new();
        for y in &down.all {
            for x_phase in &along.all {
                let first = [y.first as u32, x_phase.first as u32];
                let apart = [down.apart as u32, along.apart as u32];
                let grid = self.every(node, x, first, apart, [y.elements as u32, x_phase.elements as u32]);
                let padding =
                    ir::Padding { top: y.before, left: x_phase.before, bottom: y.after, right: x_phase.after };
                let inner = Pool { stride: [down.stride, along.stride], dilation: [1; 2], padding, ..pool };
                let shape = [channels, y.outputs as u32, x_phase.outputs as u32];
                let mut made = if count == 1 { out } else { self.net.tensor(format!("{name} phase"), shape, range) };
                self.pool(node, inner, grid, made)?;
                if shape != whole {
                    // Windows behind the last one of the output.
                    let after = [down.windows - y.outputs, along.windows - x_phase.outputs];
                    let filled = self.net.tensor(format!("{name} filled"), whole, range);
                    self.surrounded_by_zeros(node, made, [0; 2], after, filled)?;
                    made = filled;
                }
                parts.push(made);
            }
        }
        if count == 1 {
            return Ok(());
        }
        let all = self.net.tensor(format!("{name} phases"), [channels * count as u32, whole[1], whole[2]], range);
        self.step(node, Kind::Concat(0), &parts, Vec::new(), all);
        let block = [down.all.len() as u32, along.all.len() as u32];
        self.spread(node, Kind::Spread(block), all, [whole[1] * block[0], whole[2] * block[1]], out);
        Ok(())
    }

    /// Whether an average is one convolution ([`average`]): it is over all lines and columns, and the convolution buffer holds the
    /// weights beside data.
    fn is_convolution(&self, pool: &Pool, [_, height, width]: [u32; 3]) -> bool {
        let precision = if self.net.integers { Precision::Int8 } else { Precision::Fp16 };
        let few = height.max(width) as usize <= LARGEST_KERNEL && height.max(width) > 1;
        matches!(pool.kind, ir::PoolKind::Average { .. })
            && pool.kernel == [height, width].map(|extent| extent as usize)
            && pool.padding == ir::Padding::default()
            && few
            && average::weight_bytes(self.config, height * width, precision)
                <= u64::from(self.config.cbuf_banks / 2 * self.config.cbuf_bank_bytes())
    }

    /// Whether an average that PDP could compute is a convolution: in int8, of a quantized model. PDP rounds the mean of the lines
    /// and the mean of these, halves away from zero, and its output has the scale of its input, whose values reach farther than
    /// their means. A convolution rounds once to a scale of its own.
    fn rounds_better(&self, node: &ir::Node) -> bool {
        self.net.integers && self.graph.tensor(node.output).quantization.is_some()
    }

    /// An average that does not count its padding: one convolution for all windows inside the input, and one for each line or column of
    /// windows that reach into the padding.
    fn uncounted(&mut self, node: &ir::Node, pool: &Pool, input: TensorId, output: TensorId) -> Result<(), String> {
        let Tensor { name, shape: [channels, height, width], .. } = self.net.tensors[input].clone();
        let Tensor { shape: [_, lines, columns], range, .. } = self.net.tensors[output].clone();
        let down = parts(pool, 0, height as usize, lines as usize);
        let along = parts(pool, 1, width as usize, columns as usize);
        let mut bands = Vec::new();
        for y in &down {
            let mut row = Vec::new();
            for x in &along {
                let from = self.window(node, input, [y.first, x.first], [y.elements, x.elements]);
                let size = [channels, y.outputs as u32, x.outputs as u32];
                let made = self.net.tensor(format!("{name} means"), size, range);
                let kernel = [y.kernel, x.kernel];
                let weight = 1.0 / (kernel[0] * kernel[1]) as f32;
                let weights = vec![weight; channels as usize * kernel[0] * kernel[1]];
                let group = channels as usize;
                let padding = ir::Padding::default();
                let op = ir::Convolution { group, kernel, stride: pool.stride, dilation: [1; 2], padding };
                self.depthwise(node, op, weights, from, made)?;
                row.push(made);
            }
            let band = self.net.tensor(format!("{name} lines"), [channels, y.outputs as u32, columns], range);
            self.step(node, Kind::Concat(2), &row, Vec::new(), band);
            bands.push(band);
        }
        self.step(node, Kind::Concat(1), &bands, Vec::new(), output);
        Ok(())
    }

    /// Whether a convolution computes an average in int8: in a quantized model, because PDP rounds twice and its output has the scale
    /// of its input, or where values reach much farther than the means of a part of the picture.
    fn is_finer(&self, node: &ir::Node, pool: &Pool, input: TensorId) -> bool {
        let ([Some(from), Some(to)], true) =
            ([input, node.output.0].map(|id| self.net.tensors[id].range), self.net.integers)
        else {
            return false;
        };
        let [_, height, width] = self.net.tensors[input].shape.map(|extent| extent as usize);
        // PDP's output shares the zero of its input, which is 0 for outputs and where padding counts. Without negative values that
        // takes half of the integers.
        let (includes, padded) =
            (pool.kind == ir::PoolKind::Average { count_include_pad: true }, pool.padding != ir::Padding::default());
        let one_sided = from.min >= 0.0 && !from.given;
        let apart = one_sided && (includes && padded || self.graph.outputs.contains(&node.output));
        let finer = pool.kernel != [height, width] && (apart || to.scale * MUCH_FINER < from.scale);
        let [_, lines, columns] = self.net.tensors[node.output.0].shape.map(|extent| extent as usize);
        let few = || parts(pool, 0, height, lines).len() * parts(pool, 1, width, columns).len() <= MOST_PARTS;
        (to.given || finer)
            && matches!(pool.kind, ir::PoolKind::Average { .. })
            && (includes || !padded || pool.dilation == [1; 2] && few())
    }

    /// A deconvolution of stride s is s x s convolutions, each with every s-th weight, whose outputs are interleaved.
    /// The images of a batch are groups.
    pub(crate) fn deconvolution(&mut self, node: &ir::Node, op: &ir::Convolution, batch: usize) -> Result<(), String> {
        let graph = self.graph;
        let weights = graph.constant(node.inputs[1]).ok_or("its weights are not constant")?;
        let [c, per_group, mut r, mut s] =
            graph.shape(node.inputs[1]).try_into().map_err(|_| "its weights do not have four dimensions")?;
        let bias = node.inputs.get(2).and_then(|&id| graph.constant(id));
        let bias = bias.map_or(vec![0.0; per_group * op.group], |bias| bias.to_vec()).repeat(batch);
        let mut weights = weights.to_vec();
        if op.dilation != [1, 1] {
            // Zeros between the weights.
            let [tall, wide] = op.window();
            let mut apart = vec![0.0; c * per_group * tall * wide];
            for (at, weight) in weights.iter().enumerate() {
                let (plane, line, column) = (at / (r * s), at / s % r * op.dilation[0], at % s * op.dilation[1]);
                apart[(plane * tall + line) * wide + column] = *weight;
            }
            (weights, r, s) = (apart, tall, wide);
        }
        let (weights, c) = (weights.repeat(batch), c * batch);
        let op = &ir::Convolution { group: op.group * batch, ..*op };
        let kernels = per_group * op.group;
        let (x, out) = (node.inputs[0].0, node.output.0);
        let ([_, h, w], [_, out_h, out_w]) = (self.net.tensors[x].shape, self.net.tensors[out].shape);
        let before = [op.padding.top, op.padding.left];
        // Along one axis: output line `o` reads input line `i` with weight `o + pad - i * stride`. The lines of one phase, o = q
        // * stride + p, use the weights with one remainder: a convolution with taps in reverse order. All phases get the kernel
        // size of the largest, so that they are one convolution.
        let axis = |size: u32, out: u32, kernel: usize, stride: usize, pad: usize| {
            let taps = |p: usize| (0..kernel).filter(move |t| (p + pad) % stride == t % stride);
            // Tap t of phase p reads line q + (p + pad - t) / stride.
            let shift = |p: usize, t: usize| (p as i64 + pad as i64 - t as i64).div_euclid(stride as i64);
            let all = (0..stride).flat_map(|p| taps(p).map(move |t| shift(p, t)));
            let (first, last) = (all.clone().min().unwrap_or(0), all.max().unwrap_or(0));
            let lines = (out as usize).div_ceil(stride);
            let before = -first;
            let after = lines as i64 - 1 + last - (i64::from(size) - 1);
            (first, (last - first + 1) as usize, before, after, lines)
        };
        let (first_y, tall, top, bottom, lines) = axis(h, out_h, r, op.stride[0], before[0]);
        let (first_x, wide, left, right, columns) = axis(w, out_w, s, op.stride[1], before[1]);
        let (bottom, right) = (bottom.max(0), right.max(0));
        if [top, left].iter().any(|&pad| pad < 0) {
            return Err("a deconvolution whose padding cuts off whole input lines".to_owned());
        }
        let phases = op.stride[0] * op.stride[1];
        let from_group = c / op.group;
        // Kernel = group, then phase, then the group's kernel, so that groups stay contiguous.
        let mut all = vec![0f32; phases * kernels * from_group * tall * wide];
        for group in 0..op.group {
            for py in 0..op.stride[0] {
                for px in 0..op.stride[1] {
                    let phase = py * op.stride[1] + px;
                    for k in 0..per_group {
                        let row = (group * phases + phase) * per_group + k;
                        for ci in 0..from_group {
                            for ty in (0..r).filter(|t| (py + before[0]) % op.stride[0] == t % op.stride[0]) {
                                for tx in (0..s).filter(|t| (px + before[1]) % op.stride[1] == t % op.stride[1]) {
                                    let at = |p: usize, pad: usize, t: usize, stride: usize, first: i64| {
                                        ((p as i64 + pad as i64 - t as i64).div_euclid(stride as i64) - first) as usize
                                    };
                                    let y = at(py, before[0], ty, op.stride[0], first_y);
                                    let x = at(px, before[1], tx, op.stride[1], first_x);
                                    let from = ((group * from_group + ci) * per_group + k) * r * s + ty * s + tx;
                                    all[((row * from_group + ci) * tall + y) * wide + x] = weights[from];
                                }
                            }
                        }
                    }
                }
            }
        }
        let padding =
            ir::Padding { top: top as usize, left: left as usize, bottom: bottom as usize, right: right as usize };
        let conv = ir::Convolution { group: op.group, kernel: [tall, wide], stride: [1, 1], dilation: [1, 1], padding };
        let bias =
            (0..phases * kernels).map(|row| bias[row / (phases * per_group) * per_group + row % per_group]).collect();
        let kernels_all = phases * kernels;
        let kind = Convolution { op: conv, kernels: kernels_all, weights: all.into(), bias };
        let range = self.net.tensors[out].range;
        let name = self.net.tensors[out].name.clone();
        let size = [kernels_all as u32, lines as u32, columns as u32];
        let parts = self.net.tensor(format!("{name} phases"), size, range);
        self.convolve(node, kind, x, parts)?;
        if phases == 1 && size == self.net.tensors[out].shape {
            self.net.steps.last_mut().into_iter().for_each(|step| step.output = out);
            return Ok(());
        }
        // The inputs of the interleaving, by phase, then by group.
        let order = |at: usize| {
            let (phase, k) = (at / kernels, at % kernels);
            ((k / per_group * phases + phase) * per_group + k % per_group) as u32
        };
        let sorted = self.net.tensor(format!("{name} sorted"), size, range);
        self.step(node, Kind::Channels((0..kernels_all).map(order).collect()), &[parts], Vec::new(), sorted);
        let stride = [op.stride[0] as u32, op.stride[1] as u32];
        self.spread(node, Kind::Spread(stride), sorted, [lines as u32 * stride[0], columns as u32 * stride[1]], out);
        Ok(())
    }

    /// Adds a step that makes blocks, and a view of the needed part of its output.
    pub(super) fn spread(&mut self, node: &ir::Node, kind: Kind, from: TensorId, [h, w]: [u32; 2], out: TensorId) {
        let Tensor { name, shape, range, .. } = self.net.tensors[out].clone();
        if shape[1..] == [h, w] {
            self.step(node, kind, &[from], Vec::new(), out);
            return;
        }
        let whole = self.net.tensor(format!("{name} whole"), [shape[0], h, w], range);
        self.step(node, kind, &[from], Vec::new(), whole);
        self.step(node, Kind::Slice { start: [0; 3], step: [1; 2] }, &[whole], Vec::new(), out);
    }

    pub(crate) fn resize(&mut self, node: &ir::Node, resize: &ir::Resize) -> Result<(), String> {
        let (x, out) = (node.inputs[0].0, node.output.0);
        let ([_, h, w], [_, out_h, out_w]) = (self.net.tensors[x].shape, self.net.tensors[out].shape);
        let moved = matches!(resize.coordinates, ir::Coordinates::Linear { .. });
        let same = !moved && resize.scales.iter().all(|scale| (scale - 1.0).abs() < f32::EPSILON);
        if [out_h, out_w] == [h, w] && same || [h, w] == [1, 1] {
            if [out_h, out_w] == [h, w] {
                self.simple(node, Kind::Same, Vec::new());
            } else {
                self.repeat(node, x, out);
            }
            return Ok(());
        }
        let taps = [resize.taps(0, h as usize), resize.taps(1, w as usize)];
        if out_h % h == 0 && out_w % w == 0 {
            let factors = [out_h / h, out_w / w];
            let blocks = |axis: usize, size: u32| {
                let last = i64::from(size) - 1;
                let of = |(at, taps): (usize, &ir::Taps)| {
                    taps.weights.len() == 1 && taps.first.clamp(0, last) == at as i64 / i64::from(factors[axis])
                };
                taps[axis].iter().enumerate().all(of)
            };
            if blocks(0, h) && blocks(1, w) {
                self.simple(node, Kind::Repeat(factors), Vec::new());
                return Ok(());
            }
        }
        let [Some(down), Some(along)] = [0, 1].map(|axis| Blocks::of(resize, axis, &taps[axis], [h, w][axis])) else {
            return Err(format!("from {h} x {w} to {out_h} x {out_w}, with other weights for each element"));
        };
        let apart = Blocks::multiplications([&down, &Blocks::same(w)])
            + Blocks::multiplications([&Blocks::same(out_h), &along]);
        if Blocks::multiplications([&down, &along]) > MUCH_DEARER * apart {
            return self.resize_along_axes(node, resize);
        }
        self.resampled(node, x, out, &[down, along])
    }
}
