// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs of steps that are computed in bands of lines, so that the tensors between them take the memory of a band.
//!
//! A band computes some lines of the run's outputs, and of each tensor before them the lines that they take. A tensor that only
//! the run accesses is inside: its buffer holds the lines of one band, so lines that two bands need are computed twice. All other
//! tensors are whole, and each band adds lines to them.
//!
//! `choose` finds the runs. At a step, the pool holds the whole tensors that are made before or at the step and read at
//! it or later. In a run it also holds the bands of the tensors inside. Both depend on the run alone, so dynamic programming over
//! all runs finds those of the least time for a given pool. With [`Optimize::Memory`] the size of the pool is the one with the
//! least product of size and squared time: a pool that is 2% smaller is chosen if the time grows by less than 1%.
//!
//! `flights` finds poolings whose input a convolution makes in several parts. In bands, each part of the convolution passes the lines
//! of one band to the pooling on the fly.
//!
//! With SRAM (`InSram`) and [`Optimize::Time`] the runs are those of the least time whose bands inside fit there together. The times
//! of a run are those with its tensors inside in SRAM, and all others in DRAM.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use nvdla_uapi::desc::OpType;

use super::cost::{Cost, Sram, StepTime};
use super::program::{Buffer, Program, Task};
use crate::net::access::{lines, span, Access};
use crate::net::step::{Kind, Net, Step, TensorId};
use crate::numbers::quantizer::Numbers;
use crate::options::Optimize;
use crate::passes::place::Placed;
use crate::target::TILE;

/// The numbers of bands that are tried.
const BANDS: [u32; 12] = [2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 28];
/// The greatest number of steps of a run. It limits the compile time.
const LONGEST: usize = 48;

/// A run of steps that is computed in bands.
#[derive(Clone, Debug)]
pub(crate) struct Stripe {
    /// The steps.
    pub(crate) steps: Range<usize>,
    /// The bands, in order.
    pub(crate) bands: Vec<Band>,
}

impl Stripe {
    /// Whether poolings take all tensors inside on the fly. `flying` are the roots of the buffers that they take.
    pub(crate) fn flies(&self, flying: &HashSet<TensorId>) -> bool {
        self.bands.iter().flat_map(|band| band.inside.keys()).all(|root| flying.contains(root))
    }

    /// The greatest number of lines that a band has of a buffer inside the run.
    pub(crate) fn height(&self, root: TensorId) -> u32 {
        let lines = self.bands.iter().filter_map(|band| band.inside.get(&root));
        lines.map(|lines| lines.end - lines.start).max().unwrap_or(0)
    }
}

/// A band of a run.
#[derive(Clone, Debug)]
pub(crate) struct Band {
    /// The lines that each step computes; none if the range is empty.
    pub(crate) lines: Vec<Range<u32>>,
    /// The lines of each buffer inside the run that it computes, by the buffer's root.
    pub(crate) inside: BTreeMap<TensorId, Range<u32>>,
}

/// The accesses to a buffer.
#[derive(Clone, Copy, Debug)]
struct Use {
    /// The first and the last step.
    first: usize,
    last: usize,
    /// Bytes, and lines.
    size: u64,
    height: u32,
    /// Whether it can be inside a run: all of its tensors begin at its first line and have all of its lines.
    whole: bool,
}

impl Use {
    /// Whether only these steps access the buffer, so that it needs only the lines of a band.
    fn is_inside(&self, steps: &Range<usize>) -> bool {
        self.whole && steps.contains(&self.first) && steps.contains(&self.last)
    }
}

/// A lowered network whose tensors may lie in SRAM.
struct InSram<'a> {
    program: &'a Program,
    sram: &'a Sram,
    /// The root of each buffer.
    roots: HashMap<usize, TensorId>,
}

/// The properties of a lowered network that the choice needs.
struct Search<'a> {
    placed: &'a Placed,
    numbers: &'a [Numbers],
    cost: &'a Cost,
    /// Bytes and lines of each buffer in the pool, by its root. A buffer that a pooling takes on the fly has no bytes.
    buffers: BTreeMap<TensorId, (u64, u32)>,
    /// The time of each step.
    times: Vec<StepTime>,
    /// With SRAM: the choice is for less time, and tensors inside a run lie there.
    in_sram: Option<InSram<'a>>,
}

/// The runs of steps that shrink the pool of a program without runs, or take less time with SRAM, and the roots of buffers that
/// poolings take on the fly. `numbers_of` has the number of each root's buffer.
pub(crate) fn choose(
    placed: &Placed,
    numbers: &[Numbers],
    numbers_of: &HashMap<TensorId, usize>,
    program: &Program,
    (cost, sram): (&Cost, Option<&Sram>),
    goal: Optimize,
) -> (Vec<Stripe>, HashSet<TensorId>) {
    let mut touched = HashSet::new();
    for cube in program.written().iter().flatten() {
        touched.extend(cube.buffer());
    }
    let (mut buffers, mut flying) = (BTreeMap::new(), HashSet::new());
    let mut roots = HashMap::new();
    for (&root, &number) in numbers_of {
        let Buffer { size, height, place, .. } = program.buffers[number];
        if place.is_pool() {
            let flies = !touched.contains(&number);
            buffers.insert(root, (if flies { 0 } else { size.into() }, height));
            roots.insert(number, root);
            if flies {
                flying.insert(root);
            }
        }
    }
    let with = sram.map_or(cost, |sram| &sram.cost);
    let times = with.times(program, 0..program.steps.len(), |id| program.in_sram(id));
    let in_sram = sram.filter(|_| goal == Optimize::Time).map(|sram| InSram { program, sram, roots });
    (Search { placed, numbers, cost, buffers, times, in_sram }.choose(goal), flying)
}

/// For each pooling whose input one convolution makes in more than one operation, and nothing else reads: the two steps in bands, with
/// different numbers of bands, and the root of the buffer between them.
pub(crate) fn flights(
    placed: &Placed,
    numbers: &[Numbers],
    numbers_of: &HashMap<TensorId, usize>,
    program: &Program,
    cost: &Cost,
) -> Vec<(TensorId, Vec<Stripe>)> {
    let in_pool = |number: usize| program.buffers[number].place.is_pool();
    let buffers = numbers_of.iter().filter(|(_, &number)| in_pool(number));
    let buffers = buffers
        .map(|(&root, &number)| (root, (u64::from(program.buffers[number].size), program.buffers[number].height)));
    let search = Search { placed, numbers, cost, buffers: buffers.collect(), times: Vec::new(), in_sram: None };
    let uses = search.uses();
    let mut operations = vec![0; program.steps.len()];
    for task in &program.tasks {
        let Task::Dla(list) = task else { continue };
        list.iter()
            .filter(|operation| operation.unit.op_type() == OpType::Conv)
            .for_each(|conv| operations[conv.step] += 1);
    }
    let mut all = Vec::new();
    for (&root, used) in &uses {
        let (steps, parts) = (used.first..used.last + 1, operations[used.first]);
        let [first, between @ .., last] = &placed.net.steps[steps.clone()] else { continue };
        let alone = used.whole && !between.iter().any(|step| !step.kind.is_view()) && search.root(last.output) != root;
        let pair = matches!((&first.kind, &last.kind), (Kind::Convolution(_), Kind::Pool(_)));
        if !alone || !pair || parts < 2 || ![first, last].iter().all(|step| divisible(&placed.net, step)) {
            continue;
        }
        let counts = [parts, parts + 1, parts + 2, 2 * parts].into_iter();
        all.push((root, counts.filter_map(|count| search.divide(&steps, count, &uses)).collect()));
    }
    all
}

/// The first and the last line that a step computes are multiples of this number.
fn granularity(net: &Net, step: &Step, numbers: &Numbers) -> u32 {
    match lines(net, step) {
        Access::Blocks(lines) => lines,
        _ if numbers.winograd => TILE,
        _ => 1,
    }
}

/// Whether a step can compute some lines of its output. SDP ignores the strides of tensors of one pixel, so their lines are not
/// divided.
fn divisible(net: &Net, step: &Step) -> bool {
    let shape = |id: TensorId| net.tensors[id].shape;
    let [_, height, width] = shape(step.output);
    let same = |id: TensorId| shape(id)[1..] == [height, width];
    let access = match lines(net, step) {
        Access::Same | Access::Blocks(_) => true,
        // A window that lies in the padding has no line of the input.
        Access::Windows(axis, _) => {
            axis.pad < axis.window && !axis.ends_behind() && !(step.kind.is_view() && axis.stride > 1)
        }
        Access::Whole => false,
    };
    access
        && width > 1
        && step.inputs.iter().all(|&id| shape(id)[2] > 1)
        && step.operands().all(|id| same(id) || shape(id)[1..] == [1, 1])
}

/// The lines of two ranges and those between them.
fn join(lines: &mut Range<u32>, other: Range<u32>) {
    *lines = match (lines.end, other.end) {
        (0, _) => other,
        (_, 0) => return,
        _ => lines.start.min(other.start)..lines.end.max(other.end),
    }
}

/// A run that may be chosen.
struct Candidate {
    units: Range<usize>,
    stripe: Option<Stripe>,
    pool: u64,
    cycles: u64,
}

impl Search<'_> {
    fn net(&self) -> &Net {
        &self.placed.net
    }

    fn root(&self, tensor: TensorId) -> TensorId {
        self.placed.positions[&tensor].root
    }

    /// The accesses to each buffer of the pool.
    fn uses(&self) -> BTreeMap<TensorId, Use> {
        let mut uses: BTreeMap<TensorId, Use> = BTreeMap::new();
        for (at, step) in self.net().steps.iter().enumerate().filter(|(_, step)| !step.kind.is_view()) {
            for tensor in step.reads().chain([step.output]) {
                let root = self.root(tensor);
                let Some(&(size, height)) = self.buffers.get(&root) else { continue };
                uses.entry(root).or_insert(Use { first: at, last: at, size, height, whole: true }).last = at;
            }
        }
        for (tensor, position) in &self.placed.positions {
            if let Some(used) = uses.get_mut(&position.root) {
                let shape = self.net().tensors[*tensor].shape;
                used.whole &= position.start[1] == 0 && position.step == 1 && shape[1] == used.height;
            }
        }
        uses
    }

    /// Steps that stay together: those between the operations before a pooling on the fly and the pooling.
    fn units(&self, uses: &BTreeMap<TensorId, Use>) -> Vec<Range<usize>> {
        let mut units = Vec::new();
        let mut first = 0;
        for next in 1..=self.net().steps.len() {
            if uses.values().all(|used| used.size > 0 || used.first >= next || used.last < next) {
                units.push(first..next);
                first = next;
            }
        }
        units
    }

    /// The bands of a run; `None` if it cannot be divided into as many.
    fn divide(&self, steps: &Range<usize>, count: u32, uses: &BTreeMap<TensorId, Use>) -> Option<Stripe> {
        let net = self.net();
        let within = &net.steps[steps.clone()];
        let made =
            |id: TensorId| within.iter().any(|step| !step.kind.is_view() && self.root(step.output) == self.root(id));
        let is_inside = |id: TensorId| uses.get(&self.root(id)).is_some_and(|used| used.is_inside(steps));
        let height = |id: TensorId| net.tensors[id].shape[1];
        let gates = within.iter().flat_map(|step| step.operands().filter(|&id| height(id) < height(step.output)));
        let last = within.iter().rev().find(|step| !step.kind.is_view())?;
        if gates.into_iter().any(made) || height(last.output) < count {
            return None;
        }
        let mut done: HashMap<TensorId, u32> = HashMap::new();
        let mut bands = Vec::new();
        for number in 1..=count {
            let mut needs: HashMap<TensorId, Range<u32>> = HashMap::new();
            let mut band = Band { lines: vec![0..0; within.len()], inside: BTreeMap::new() };
            for (at, step) in within.iter().enumerate().rev() {
                let mut lines = needs.get(&step.output).cloned().unwrap_or(0..0);
                let inside = is_inside(step.output);
                if !step.kind.is_view() && !inside {
                    let share = height(step.output) * number / count;
                    let start = done.get(&step.output).copied().unwrap_or(0);
                    lines = start..start.max(lines.end).max(share);
                }
                let round = granularity(net, step, &self.numbers[steps.start + at]);
                lines = lines.start / round * round..lines.end.next_multiple_of(round);
                if lines.is_empty() {
                    continue;
                }
                if !step.kind.is_view() && !inside {
                    done.insert(step.output, lines.end);
                } else if !step.kind.is_view() {
                    join(band.inside.entry(self.root(step.output)).or_insert(0..0), lines.clone());
                }
                let span = span(net, step, &lines);
                let read = span.input_first..span.input_first + span.input_count;
                for &id in &step.inputs {
                    join(needs.entry(id).or_insert(0..0), read.clone());
                }
                for id in step.operands().filter(|&id| height(id) == height(step.output)) {
                    join(needs.entry(id).or_insert(0..0), lines.clone());
                }
                band.lines[at] = lines;
            }
            bands.push(band);
        }
        Some(Stripe { steps: steps.clone(), bands })
    }

    /// The times of a run's steps.
    fn times(&self, steps: &Range<usize>, uses: &BTreeMap<TensorId, Use>) -> Vec<StepTime> {
        let mut times = self.times[steps.clone()].to_vec();
        if let Some(InSram { program, sram, roots }) = &self.in_sram {
            let is_inside = |root| uses.get(root).is_some_and(|used| used.is_inside(steps));
            let inside = |buffer| roots.get(&buffer).is_some_and(is_inside);
            let faster = sram.cost.times(program, steps.clone(), inside);
            for (time, faster) in times.iter_mut().zip(faster) {
                time.cycles = faster.cycles;
            }
        }
        times
    }

    /// The bytes in the pool during a run, or those inside it in SRAM, and its estimated cycles from the times of its steps.
    fn measure(&self, stripe: &Stripe, uses: &BTreeMap<TensorId, Use>, times: &[StepTime]) -> (u64, u64) {
        let steps = &stripe.steps;
        let mut pool = 0;
        for (root, used) in uses.iter().filter(|(_, used)| used.first < steps.end && used.last >= steps.start) {
            let lines = stripe.height(*root);
            if lines > 0 {
                pool += used.size / u64::from(used.height) * u64::from(lines);
            } else if self.in_sram.is_none() {
                pool += used.size;
            }
        }
        let mut cycles = 0;
        for band in &stripe.bands {
            for ((at, time), lines) in steps.clone().zip(times).zip(&band.lines).filter(|(_, lines)| !lines.is_empty())
            {
                let height = self.net().tensors[self.net().steps[at].output].shape[1];
                let part = |whole: u64| whole * u64::from(lines.end - lines.start) / u64::from(height);
                let written = time.operations * self.cost.part_writes();
                let weights = self.cost.moving(time.weights);
                cycles += (part(time.cycles.saturating_sub(weights)) + weights).max(written);
                cycles += time.operations * self.cost.hand_over();
            }
        }
        (pool, cycles)
    }

    /// The steps alone, and all runs that need less memory than the step that needs most, or fit into SRAM.
    fn candidates(&self) -> Vec<Candidate> {
        let uses = self.uses();
        let units = self.units(&uses);
        let at =
            |at: usize| uses.values().filter(|used| (used.first..=used.last).contains(&at)).map(|used| used.size).sum();
        let mut all = Vec::new();
        for (number, steps) in units.iter().enumerate() {
            let pool = steps.clone().map(at).max().unwrap_or(0);
            let cycles = self.times[steps.clone()].iter().map(|time| time.cycles).sum();
            all.push(Candidate { units: number..number + 1, stripe: None, pool, cycles });
        }
        let mut most = all.iter().map(|candidate| candidate.pool).max().unwrap_or(0);
        if let Some(InSram { sram, .. }) = &self.in_sram {
            most = sram.size + 1;
            for candidate in &mut all {
                candidate.pool = 0;
            }
        }
        for first in 0..units.len() {
            for (last, unit) in units.iter().enumerate().skip(first) {
                let steps = units[first].start..unit.end;
                let net = self.net();
                if steps.len() > LONGEST || !net.steps[unit.clone()].iter().all(|step| divisible(net, step)) {
                    break;
                }
                let times = self.times(&steps, &uses);
                for count in BANDS {
                    let Some(stripe) = self.divide(&steps, count, &uses) else { break };
                    let (pool, cycles) = self.measure(&stripe, &uses, &times);
                    if pool < most {
                        all.push(Candidate { units: first..last + 1, stripe: Some(stripe), pool, cycles });
                    }
                }
            }
        }
        all
    }

    /// For each end, the least cycles with a pool of at most `most` bytes, and the last run.
    fn fastest(all: &[Candidate], count: usize, most: u64) -> Vec<Option<(u64, usize)>> {
        let mut best: Vec<Option<(u64, usize)>> = vec![None; count + 1];
        best[0] = Some((0, 0));
        for (number, candidate) in all.iter().enumerate().filter(|(_, candidate)| candidate.pool <= most) {
            let Some((before, _)) = best[candidate.units.start] else { continue };
            let cycles = before + candidate.cycles;
            if best[candidate.units.end].is_none_or(|(known, _)| cycles < known) {
                best[candidate.units.end] = Some((cycles, number));
            }
        }
        best
    }

    /// The runs for a goal. With SRAM they are the runs of least time among those whose bands fit there.
    fn choose(&self, goal: Optimize) -> Vec<Stripe> {
        let mut all = self.candidates();
        // Runs that end earlier come first.
        all.sort_by_key(|candidate| (candidate.units.end, candidate.units.start, candidate.cycles));
        let count = all.iter().map(|candidate| candidate.units.end).max().unwrap_or(0);
        let mut pools: Vec<u64> = all.iter().map(|candidate| candidate.pool).collect();
        pools.sort_unstable();
        pools.dedup();
        let possible = pools.into_iter().filter_map(|pool| {
            let (cycles, _) = Self::fastest(&all, count, pool)[count]?;
            let value = match goal {
                Optimize::Pool(most) if pool > most => (true, u128::from(pool)),
                Optimize::Memory => (false, u128::from(pool) * u128::from(cycles).pow(2)),
                _ => (false, u128::from(cycles)),
            };
            Some((value, pool))
        });
        let most = match &self.in_sram {
            Some(InSram { sram, .. }) => sram.size,
            None => possible.min().map_or(0, |(_, pool)| pool),
        };
        let best = Self::fastest(&all, count, most);
        let mut chosen = Vec::new();
        let mut end = count;
        while let Some((_, number)) = best[end].filter(|_| end > 0) {
            end = all[number].units.start;
            chosen.extend(all[number].stripe.clone());
        }
        chosen.reverse();
        chosen
    }
}
