// SPDX-License-Identifier: MIT OR Apache-2.0

//! Divides convolutions into bands of lines, so that CDMA fetches for one band while CSC works on the band before it.
//!
//! CSC begins when the whole input of an operation is in the convolution buffer. A layer in one operation therefore first waits for
//! its input, and then computes while memory is idle. The bands of a layer share its weights: the buffer keeps them until the last
//! band. The first band of the next layer may need only lines that are complete before the last band of this layer, so it is
//! fetched during that last band.
//!
//! CDMA fetches ahead only for an operation that waits for none of the running ones, and that divides the buffer's banks as the
//! running one does (`nvdla_estimate::schedule`). So the best division of a layer depends on that of the layers beside it. The
//! search goes through the layers in their order. For each it tries all divisions, after each of the best divisions of the layers
//! before, and keeps those that end first by that estimate.
//!
//! Convolutions that follow one another and read the same tensor read it once, if the buffer holds all of it.
//!
//! A layer that lowering has cut by lines, because its input does not fit beside one kernel group, is divided as a whole: bands that
//! leave space for all weights read these once. Weights of operations that stay as they are get the banks that are free, or those
//! that the operations before have.

use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{ConvOp, DataFormat};
use nvdla_uapi::reg::values::ConvMode;

use crate::codegen::cbuf::{self, Banks};
use crate::net::access::{slices, Axis, Span};
use crate::net::step::Mode;
use crate::schedule::cost::{groups, Cost};
use crate::schedule::program::{Cube, Operation, Program, Task, Unit};
use crate::target::TILE;

/// The greatest number of bands of an operation.
const BANDS: u32 = 4;
/// The number of divisions of the layers so far that the search keeps.
const KEPT: usize = 16;
/// The number of the last groups of operations that run together on which the time of the next ones depends: how much of the start of the
/// last one runs beside the one before it decides how much of the next one's start runs beside the last one.
const TAIL: usize = 2;

/// How many bands are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bands {
    /// Those that take the least time.
    Fastest,
    /// As many as possible.
    Most,
}

/// Operations of a layer, after those of another node.
struct Node {
    before: Option<usize>,
    operations: Vec<Operation>,
    /// The operations of the last [`TAIL`] groups so far.
    tail: Vec<Operation>,
    /// Estimated cycles until they end. For [`Bands::Most`], less the more bands there are.
    cost: i64,
}

impl Node {
    /// Those of its operations that run last, together.
    fn last(&self) -> &[Operation] {
        groups(&self.tail).last().unwrap_or_default()
    }
}

/// Divides the convolutions of a program for that many pictures.
pub(crate) fn divide(program: &mut Program, cost: &Cost, bands: Bands, pictures: u32) {
    let config = program.config;
    let inside: Vec<bool> = (0..program.buffers.len()).map(|id| program.in_sram(id)).collect();
    let end = |operations: &[Operation]| cost.end(operations, |id| inside[id]) as i64;
    let price = match bands {
        Bands::Fastest => 0,
        Bands::Most => -i64::from(u32::MAX),
    };
    for task in &mut program.tasks {
        let Task::Dla(list) = task else { continue };
        let mut nodes: Vec<Node> = Vec::new();
        let mut kept = 0..0;
        let runs: Vec<_> = runs(list, pictures).collect();
        for (at, run) in runs.iter().enumerate() {
            let stays = pictures == 1 && runs.get(at + 1).is_some_and(|next| same_input(run, next));
            let mut next = Vec::new();
            for before in kept.clone().map(Some).chain(kept.is_empty().then_some(None)) {
                let node = before.map(|at: usize| &nodes[at]);
                let last = node.map_or(&[][..], Node::last);
                let tail = node.map_or(&[][..], |node| &node.tail);
                let ended = end(tail);
                let ways = divisions(config, run, last, pictures).into_iter().filter_map(|way| reusing(way, last));
                for operations in ways.flat_map(|way| [stays.then(|| keeping(&way)).flatten(), Some(way)]).flatten() {
                    let mut all = [tail, &operations].concat();
                    let took = end(&all) - ended;
                    let price = price * operations.len() as i64 / 2;
                    let lengths: Vec<usize> = groups(&all).map(<[Operation]>::len).collect();
                    let tail = all.split_off(lengths.iter().rev().skip(TAIL).sum());
                    let cost = node.map_or(0, |node| node.cost) + took + price;
                    next.push(Node { before, operations, tail, cost });
                }
            }
            next.sort_by_key(|node| (node.cost, node.operations.len()));
            kept = nodes.len()..nodes.len();
            for node in next {
                // What follows depends on the last operations alone.
                let same = |kept: &Node| kept.last() == node.last();
                if kept.len() < KEPT && !nodes[kept.clone()].iter().any(same) {
                    nodes.push(node);
                    kept.end += 1;
                }
            }
        }
        let mut chosen = Vec::new();
        let mut at = (!kept.is_empty()).then_some(kept.start);
        while let Some(node) = at.map(|at| &mut nodes[at]) {
            chosen.push(std::mem::take(&mut node.operations));
            at = node.before;
        }
        *list = chosen.into_iter().rev().flatten().collect();
    }
}

/// Operations that are divided together: those of a layer that was cut by lines, or else those that run together, of all pictures.
pub(crate) fn runs(list: &[Operation], pictures: u32) -> impl Iterator<Item = &[Operation]> {
    let pairs = move |list: &[Operation]| -> usize {
        let mut groups = groups(list);
        let Some(first) = groups.next() else { return 0 };
        let mut last = first;
        let one = first.len()
            + groups
                .take_while(|next| {
                    let follows = last[0].picture == next[0].picture && follows(last, next);
                    last = next;
                    follows
                })
                .map(<[Operation]>::len)
                .sum::<usize>();
        one * pictures as usize
    };
    let mut rest = list;
    std::iter::from_fn(move || {
        let (run, after) = rest.split_at(pairs(rest));
        rest = after;
        (!run.is_empty()).then_some(run)
    })
}

/// Whether two runs are a convolution each, and the buffer can hold the same input for both.
fn same_input(first: &[Operation], second: &[Operation]) -> bool {
    let [Some((op, source)), Some((other, read))] = [first, second].map(whole_input) else { return false };
    let slices = |op: &ConvOp| (op.input_width_csc, op.input_height_csc, op.input_channel_csc, op.entry_per_slice);
    source == read
        && slices(op) == slices(other)
        && (op.in_precision, op.out_precision, op.in_cvt) == (other.in_precision, other.out_precision, other.in_cvt)
        && !second[0].alone
}

/// The convolution of operations that run together, with its input, all of which is in the buffer when it begins.
fn whole_input(run: &[Operation]) -> Option<(&ConvOp, &Cube)> {
    let Unit::Convolution { op, source, .. } = &run.first()?.unit else { return None };
    let direct = op.conv_mode == ConvMode::Direct && op.data_format == DataFormat::Feature && op.batch == 1;
    let one = run[1..].iter().all(|operation| operation.unit.takes_on_the_fly());
    (direct && one && op.input_height_csc == source.height).then_some((op, source))
}

/// A way to compute a run that leaves its input in the buffer; `None` if it has several convolutions.
fn keeping(way: &[Operation]) -> Option<Vec<Operation>> {
    whole_input(way)?;
    let mut way = way.to_vec();
    if let Unit::Convolution { op, .. } = &mut way[0].unit {
        op.skip_data_rls = true;
    }
    Some(way)
}

/// A way to compute a run after the operations `last`. If these leave their input in the buffer, it takes that; `None` if it cannot.
fn reusing(mut way: Vec<Operation>, last: &[Operation]) -> Option<Vec<Operation>> {
    let Some((before, _)) = whole_input(last).filter(|(op, _)| op.skip_data_rls) else { return Some(way) };
    whole_input(&way)?;
    let Unit::Convolution { op, .. } = &mut way[0].unit else { return None };
    op.data_reuse = true;
    ((op.data_bank, op.weight_bank) == (before.data_bank, before.weight_bank)).then_some(way)
}

/// A convolution without what a band of lines may have of its own.
fn unplaced(op: &ConvOp) -> ConvOp {
    ConvOp {
        data_bank: 0,
        weight_bank: 0,
        release: 0,
        input_height_csc: 0,
        input_height_cmac: 0,
        pad_y_top: 0,
        pad_y_bottom: 0,
        ..*op
    }
}

/// Whether the second of two pairs of operations computes the lines behind those of the first, with the same weights.
fn follows(first: &[Operation], second: &[Operation]) -> bool {
    let ([first, first_sdp], [second, second_sdp]) = (first, second) else { return false };
    let Unit::Convolution { op, source, weights, mask: None, target } = &first.unit else { return false };
    let Unit::Convolution { op: other, source: read, weights: same, mask: None, target: sums } = &second.unit else {
        return false;
    };
    let (Unit::Sdp { op: sdp, .. }, Unit::Sdp { op: other_sdp, .. }) = (&first_sdp.unit, &second_sdp.unit) else {
        return false;
    };
    let (written, next) = (first_sdp.unit.target(), second_sdp.unit.target());
    first.step == second.step
        && weights == same
        && unplaced(op) == unplaced(other)
        && sdp == other_sdp
        && !second.alone
        && source.is_beside(read)
        && target.is_beside(sums)
        && written.is_before(next)
        && op.batch == 1
        && op.data_format == DataFormat::Feature
}

/// The pair of operations that would compute all lines of a run.
fn whole(run: &[Operation]) -> Option<[Operation; 2]> {
    let [first, first_sdp, .., last, last_sdp] = run else {
        return run.to_vec().try_into().ok();
    };
    let (mut convolution, mut sdp) = (first.clone(), first_sdp.clone());
    let target = first_sdp.unit.target().through(last_sdp.unit.target());
    if let (Unit::Convolution { op, source, target: sums, .. }, Unit::Convolution { op: end, source: read, .. }) =
        (&mut convolution.unit, &last.unit)
    {
        *source = source.through(read);
        *sums = target.sums();
        (op.pad_y_bottom, op.input_height_csc, op.input_height_cmac) = (end.pad_y_bottom, source.height, target.height);
    }
    if let (Unit::Sdp { source, operands, target: written, .. }, Unit::Sdp { operands: end, .. }) =
        (&mut sdp.unit, &last_sdp.unit)
    {
        *source = target.sums();
        *written = target;
        // Operands per kernel are the same for all lines.
        for (operand, end) in operands.iter_mut().zip(end).filter_map(|(operand, end)| operand.as_mut().zip(*end)) {
            if operand.offset != end.offset {
                *operand = operand.through(&end);
            }
        }
    }
    Some([convolution, sdp])
}

/// The most banks of data, and of weights, that a convolution of a run has; `None` if it has none, or if its operations use what
/// others have left in the buffer.
fn needed(run: &[Operation]) -> Option<Banks> {
    let mut needed = None;
    for operation in run {
        if let Unit::Convolution { op, .. } = &operation.unit {
            if op.data_reuse || op.weight_reuse || op.skip_data_rls || op.skip_weight_rls {
                return None;
            }
            let Banks { data, weights } = needed.unwrap_or(Banks { data: 0, weights: 0 });
            needed = Some(Banks { data: data.max(op.data_bank.into()), weights: weights.max(op.weight_bank.into()) });
        }
    }
    needed
}

/// The convolutions of a run with other banks.
fn with_banks(run: &[Operation], banks: Banks) -> Vec<Operation> {
    let mut run = run.to_vec();
    for operation in &mut run {
        if let Unit::Convolution { op, .. } = &mut operation.unit {
            (op.data_bank, op.weight_bank) = (banks.data as u8, banks.weights as u8);
        }
    }
    run
}

/// A program of one layer whose operations all have [`Banks::for_two`]. `None` if they have no convolution, or the banks do not hold that.
pub(crate) fn for_two(program: &Program) -> Option<Program> {
    let mut program = program.clone();
    let [Task::Dla(list)] = &mut program.tasks[..] else { return None };
    let masks = list.iter().any(|operation| matches!(operation.unit, Unit::Convolution { mask: Some(_), .. }));
    let banks = needed(list)?.for_two(program.config.cbuf_banks - u32::from(masks))?;
    *list = with_banks(list, banks);
    Some(program)
}

/// A layer of a convolution and SDP, in one operation each.
struct Layer<'a> {
    config: &'static Config,
    convolution: &'a Operation,
    sdp: &'a Operation,
    op: &'a ConvOp,
    /// Its input, and its output in memory.
    source: &'a Cube,
    target: &'a Cube,
    /// Banks that its weights take.
    weights: u32,
}

/// The ways to compute a run of operations for several pictures. `last` are the operations before them.
///
/// A way for one picture becomes one for all, with and without weights that stay in the buffer from one picture to the next. If a
/// picture has the lines behind those of the picture before, they are also one high picture.
fn divisions(config: &'static Config, run: &[Operation], last: &[Operation], pictures: u32) -> Vec<Vec<Operation>> {
    if pictures == 1 {
        return divided(config, run, last, 1);
    }
    let (first, others) = run.split_at(run.len() / pictures as usize);
    let mut all = Vec::new();
    for (at, one) in divided(config, first, last, 1).into_iter().enumerate() {
        let moved = others.chunks(first.len()).flat_map(|other| moved(&one, first, other));
        let every: Vec<Operation> = one.iter().cloned().chain(moved).collect();
        if let Some(Banks { data, .. }) = needed(&one).filter(|_| at == 0) {
            let rest = |data: u32| config.cbuf_banks.checked_sub(data).map(|weights| Banks { data, weights });
            let ways = [data, 2 * data].into_iter().filter_map(rest).map(|banks| with_banks(&every, banks));
            all.extend(ways.filter_map(|way| sharing(config, &way)));
        }
        all.extend(sharing(config, &every));
        all.push(every);
    }
    let groups: Vec<_> = groups(run).collect();
    if groups.windows(2).all(|pair| follows(pair[0], pair[1])) {
        all.extend(divided(config, run, last, pictures));
    }
    all
}

/// The operations of a way to compute `first`, for another picture, whose operations are `other`.
fn moved<'a>(
    one: &'a [Operation],
    first: &'a [Operation],
    other: &'a [Operation],
) -> impl Iterator<Item = Operation> + 'a {
    let mut copies = [first, other].map(<[Operation]>::to_vec);
    let [from, to] = &mut copies;
    let cubes = |list: &mut [Operation]| -> Vec<Cube> {
        list.iter_mut().flat_map(|operation| operation.unit.cubes_mut()).map(|cube| *cube).collect()
    };
    let places: Vec<_> = cubes(from).into_iter().zip(cubes(to)).collect();
    one.iter().map(move |operation| {
        let mut operation = Operation { picture: other[0].picture, ..operation.clone() };
        for cube in operation.unit.cubes_mut() {
            if let Some((from, to)) = places.iter().find(|(from, _)| from.base == cube.base) {
                (cube.base, cube.offset) = (to.base, cube.offset + to.offset - from.offset);
            }
        }
        operation
    })
}

/// The operations of several pictures, of which each convolution but the last leaves its weights in the buffer for the next one. `None`
/// if they are no convolutions, have several weights, or the banks do not hold them.
fn sharing(config: &Config, run: &[Operation]) -> Option<Vec<Operation>> {
    let mut run = run.to_vec();
    let convolutions = run.iter_mut().filter_map(|operation| match &mut operation.unit {
        Unit::Convolution { op, weights, mask: None, .. } => Some((op, *weights)),
        _ => None,
    });
    let mut convolutions: Vec<_> = convolutions.collect();
    let count = convolutions.len();
    let (first, same) = convolutions.first().map(|(op, weights)| ((op.data_bank, op.weight_bank), *weights))?;
    let room = u32::from(first.1) * config.cbuf_bank_bytes();
    let stays = |op: &ConvOp, weights: &Cube| *weights == same && (op.data_bank, op.weight_bank) == first;
    if same.size > room || !convolutions.iter().all(|(op, weights)| stays(op, weights)) {
        return None;
    }
    for (at, (op, _)) in convolutions.iter_mut().enumerate() {
        (op.weight_reuse, op.skip_weight_rls) = (at > 0, at + 1 < count);
    }
    Some(run)
}

/// The ways to compute a run of operations: as they are, with other banks, and in bands. `last` are the operations before them, and
/// `pictures` the number of pictures, of which all have the number of bands that one has.
fn divided(config: &'static Config, run: &[Operation], last: &[Operation], pictures: u32) -> Vec<Vec<Operation>> {
    let mut all = vec![run.to_vec()];
    let before = match last.first().map(|operation| &operation.unit) {
        Some(Unit::Convolution { op, .. }) => Some(Banks { data: op.data_bank.into(), weights: op.weight_bank.into() }),
        _ => None,
    };
    let Some(own) = needed(run) else { return all };
    let mask = u32::from(matches!(&run[0].unit, Unit::Convolution { mask: Some(_), .. }));
    // Each of the operations has space for its data, and at least as much as before for weights.
    let free = config.cbuf_banks - mask - own.data;
    let enough = |banks: &Banks| {
        banks.data >= own.data && banks.weights >= own.weights && banks.data + banks.weights + mask <= config.cbuf_banks
    };
    let two = own.for_two(config.cbuf_banks - mask);
    for banks in [Banks { weights: free, ..own }].into_iter().chain(two).chain(before).filter(enough) {
        all.push(with_banks(run, banks));
    }
    let Some(pair) = whole(run) else { return all };
    let Some(layer) = Layer::new(config, &pair).filter(|layer| layer.has(run)) else { return all };
    let pieces = run.len() as u32 / 2;
    let height = u32::from(layer.target.height);
    // The most lines of a first band that does not wait for the last operations.
    let ready = |lines: u32| {
        let first = layer.band(layer.span(0, lines), Banks { data: 0, weights: 0 }, [false; 2]);
        !first.iter().any(|operation| last.iter().any(|last| operation.waits_for(last, config.memory_atomic)))
    };
    let (mut free, mut most) = (0, height / layer.round());
    while free < most {
        let middle = (free + most).div_ceil(2);
        if ready(middle * layer.round()) {
            free = middle;
        } else {
            most = middle - 1;
        }
    }
    for count in 1..=BANDS * pieces / pictures {
        let equal = height.div_ceil(count).next_multiple_of(layer.round());
        let mut firsts = vec![equal, equal.min(free * layer.round())];
        firsts.dedup();
        for first in firsts.into_iter().filter(|&first| first > 0) {
            let spans = layer.spans(first, count);
            let data = spans.iter().map(|span| layer.data_banks(span)).max().unwrap_or(0);
            let fits = |banks: &Banks| {
                banks.data >= data && banks.weights >= layer.weights && (*banks != own || count > pieces)
            };
            // Space for the data of two bands, and the rest for the weights of two layers.
            let two = (config.cbuf_banks - layer.weights).min(2 * data);
            let two = Banks { data: two, weights: config.cbuf_banks - two };
            for banks in [two].into_iter().chain(before).filter(fits) {
                let end = spans.len() - 1;
                let bands =
                    spans.iter().enumerate().flat_map(|(at, &span)| layer.band(span, banks, [at > 0, at < end]));
                all.push(bands.collect());
            }
        }
    }
    all
}

impl<'a> Layer<'a> {
    /// The layer of operations that run together; `None` if it cannot be divided into bands that keep its weights.
    fn new(config: &'static Config, [convolution, sdp]: &'a [Operation; 2]) -> Option<Self> {
        let Unit::Convolution { op, source, weights, mask: None, .. } = &convolution.unit else { return None };
        let target = sdp.unit.target();
        let weights = weights.size.div_ceil(config.cbuf_bank_bytes());
        let layer = Self { config, convolution, sdp, op, source, target, weights };
        let shares = op.data_reuse || op.weight_reuse || op.skip_data_rls || op.skip_weight_rls;
        // CDMA and SDP ignore the strides of a cube of one element, which a band of one line could be. A window that lies in the
        // padding has no line of the input.
        let whole = layer.axis().span(0, target.height.into());
        let divisible = op.batch == 1
            && op.data_format == DataFormat::Feature
            && source.width.min(target.width) > 1
            && whole.before.max(whole.after) < layer.axis().window;
        (!shares && divisible && weights < config.cbuf_banks).then_some(layer)
    }

    /// Whether the operations of a run are bands of this layer, line by line.
    fn has(&self, run: &[Operation]) -> bool {
        let mut first = 0;
        run.chunks(2).all(|pair| {
            let [Operation { unit: Unit::Convolution { op, .. }, .. }, sdp] = pair else { return false };
            let count = u32::from(sdp.unit.target().height);
            let banks = Banks { data: op.data_bank.into(), weights: op.weight_bank.into() };
            let mut band = self.band(self.span(first, count), banks, [false; 2]);
            band[0].alone = pair[0].alone;
            for operation in &mut band {
                operation.picture = pair[0].picture;
            }
            first += count;
            band == *pair
        })
    }

    fn mode(&self) -> Mode {
        if self.op.conv_mode == ConvMode::Winograd {
            Mode::Winograd
        } else {
            Mode::Direct
        }
    }

    /// The lines of a band are a multiple of this number, except in the last band.
    fn round(&self) -> u32 {
        if self.mode() == Mode::Winograd {
            TILE
        } else {
            1
        }
    }

    /// The lines of its windows.
    fn axis(&self) -> Axis {
        let window = match self.mode() {
            Mode::Winograd => 3,
            _ => (u32::from(self.op.kernel_height_csc) - 1) * u32::from(self.op.dilation_y) + 1,
        };
        let (input, output) = (self.source.height.into(), self.target.height.into());
        Axis { input, output, window, stride: self.op.conv_stride_y.into(), pad: self.op.pad_y_top.into() }
    }

    /// The input of some lines of output.
    fn span(&self, first: u32, count: u32) -> Span {
        let span = self.axis().span(first, count);
        if self.mode() == Mode::Winograd {
            span.tiled()
        } else {
            span
        }
    }

    /// Bands of which the first has `first` lines, and at most `count - 1` follow, but at least one if lines are left.
    fn spans(&self, first: u32, count: u32) -> Vec<Span> {
        let height = u32::from(self.target.height);
        let mut spans = vec![self.span(0, first.min(height))];
        let mut next = first;
        let each = height.saturating_sub(first).div_ceil((count - 1).max(1)).next_multiple_of(self.round());
        while next < height {
            spans.push(self.span(next, each.min(height - next)));
            next += each;
        }
        spans
    }

    fn data_banks(&self, span: &Span) -> u32 {
        cbuf::data_banks(self.config, self.op.entry_per_slice.into(), slices(span, self.mode()))
    }

    /// The operations of a band, which uses weights that are in the buffer, or leaves them there.
    fn band(&self, span: Span, banks: Banks, [reuse, keep]: [bool; 2]) -> [Operation; 2] {
        let (mut convolution, mut sdp) = (self.convolution.clone(), self.sdp.clone());
        if let Unit::Convolution { op, source, target, .. } = &mut convolution.unit {
            let slices = slices(&span, self.mode()) as u16;
            **op = ConvOp {
                data_bank: banks.data as u8,
                weight_bank: banks.weights as u8,
                weight_reuse: reuse,
                skip_weight_rls: keep,
                release: slices,
                input_height_csc: slices,
                input_height_cmac: span.count as u16,
                pad_y_top: span.before as u8,
                pad_y_bottom: span.after as u8,
                ..**op
            };
            *source = source.lines(span.input_first, span.input_count);
            *target = Cube { offset: 0, ..target.lines(span.first, span.count) };
        }
        if let Unit::Sdp { source, operands, target, .. } = &mut sdp.unit {
            let height = target.height;
            *target = target.lines(span.first, span.count);
            *source = target.sums();
            // Operands per kernel have one line for all.
            for operand in operands.iter_mut().flatten().filter(|operand| operand.height == height) {
                *operand = operand.lines(span.first, span.count);
            }
        }
        [convolution, sdp]
    }
}
