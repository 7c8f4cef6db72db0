// SPDX-License-Identifier: MIT OR Apache-2.0

//! Assigns each tensor a channel map (the physical channel of each channel) and the buffer that it is a view of.
//!
//! A channel map may have gaps: a concatenation stores each part in its own atoms, and a part of a tensor begins at its first
//! channel, which may be inside an atom. A convolution can read and write any map, because its weights are permuted and are zero
//! in gaps. SDP and PDP do not move channels. If a map other than the tensor's is needed, a convolution with one weight per
//! channel makes a copy.
//!
//! In mixed precision the atoms are those of 8 bits. A tensor of 16 bits has two surfaces where they have one, because SDP writes
//! both when it makes 16 bits of 8.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::bytes;
use nvdla_uapi::layout::feature::Atoms;
use nvdla_uapi::layout::weight::Geometry;
use nvdla_uapi::reg::values::Precision;

use crate::error::Error;
use crate::ir;
use crate::net::step::{Convolution, Kind, Net, PostOp, Step, TensorId};
use crate::target::{HALVED_ATOM, LARGEST_EXTENT, LARGEST_KERNEL};

/// The physical channels of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// The physical channel of each channel, counted from the first of the tensor's view.
    pub of: Rc<[u32]>,
    /// Physical channels of the view.
    pub extent: u32,
}

impl Map {
    /// Channel k is physical channel k.
    pub fn dense(channels: u32) -> Self {
        Self { of: (0..channels).collect(), extent: channels }
    }

    /// Whether it is [`Self::dense`].
    pub fn is_dense(&self) -> bool {
        self.extent == self.of.len() as u32 && self.of.iter().enumerate().all(|(k, &at)| k as u32 == at)
    }

    /// Whether two channels are one physical channel, as those of a value that is broadcast to channels are.
    fn repeats(&self) -> bool {
        let mut seen = HashSet::new();
        !self.of.iter().all(|at| seen.insert(at))
    }

    fn new(of: Vec<u32>) -> Self {
        let extent = of.iter().max().map_or(0, |last| last + 1);
        Self { of: of.into(), extent }
    }
}

/// The position of a tensor in another one that it is a view of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Alias {
    of: TensorId,
    /// Surfaces, lines and columns from the other tensor's start.
    start: [u32; 3],
    /// The distance of its lines, in lines of the other tensor.
    step: u32,
}

impl Alias {
    /// Whether it starts where the other tensor does and has all of its lines.
    fn starts_at_origin(&self) -> bool {
        self.start == [0; 3] && self.step == 1
    }
}

/// The tensor at the end of the aliases that are followed.
fn follow(
    aliases: &HashMap<TensorId, Alias>,
    mut tensor: TensorId,
    follows: impl Fn(&Alias, TensorId) -> bool,
) -> TensorId {
    while let Some(alias) = aliases.get(&tensor).filter(|alias| follows(alias, tensor)) {
        tensor = alias.of;
    }
    tensor
}

/// The position of a tensor in its buffer.
#[derive(Clone, Debug)]
pub struct Position {
    /// The tensor that owns the buffer.
    pub root: TensorId,
    /// Surfaces, lines and columns from the buffer's start.
    pub start: [u32; 3],
    /// The distance of its lines, in lines of the buffer.
    pub step: u32,
}

/// The network with the necessary copies, and every tensor's position.
pub struct Placed {
    /// The network.
    pub net: Net,
    /// The channel map of each tensor.
    pub maps: HashMap<TensorId, Map>,
    /// The position of each tensor.
    pub positions: HashMap<TensorId, Position>,
    /// Number of physical channels of each buffer, by its root.
    pub extents: HashMap<TensorId, u32>,
}

/// The channel map of an output whose kernels are so large that the convolution buffer holds fewer than an atom's channels.
/// `precision` is that of the convolution, and `atoms` those of maps.
fn forced_map(
    config: &Config,
    precision: Precision,
    atoms: Atoms,
    conv: &Convolution,
    input: &Map,
    output: [u32; 3],
) -> Option<Vec<u32>> {
    if conv.op.group != 1 {
        return None;
    }
    let window = (conv.op.kernel[0] * conv.op.kernel[1]) as u64;
    let kernel = u64::from(input.extent) * window * u64::from(bytes(precision));
    let bank = u64::from(config.cbuf_bank_bytes());
    let group = u64::from(Geometry::of(config, precision).group_kernels).min(u64::from(output[0]));
    // The map if `data` banks are left for data; `None` if filled atoms leave them anyway.
    let map = |data: u64| -> Option<Vec<u32>> {
        let room = (u64::from(config.cbuf_banks) - data) * bank;
        if kernel * group <= room || kernel * atoms.elements() as u64 <= room {
            return None;
        }
        let chunk = (room / kernel) as u32;
        let of = |k: u32| atoms.channel((k / chunk) as usize, (k % chunk) as usize) as u32;
        (chunk > 0).then(|| (0..output[0]).map(of).collect())
    };
    let fits =
        |map: &Option<Vec<u32>>| map.as_ref().is_none_or(|map| map.last().is_none_or(|&last| last < LARGEST_EXTENT));
    // The elements of a window are in the buffer at the same time.
    let least = (atoms.filled(input.extent as usize) as u64 * window * u64::from(bytes(precision))).div_ceil(bank);
    if least >= u64::from(config.cbuf_banks) {
        return None;
    }
    // Two banks for data, if with four the atoms with fewer channels would be more than a cube has.
    Some(map(least.max(4))).filter(fits).unwrap_or_else(|| map(least.max(2)))
}

struct Placer<'a> {
    config: &'static Config,
    precision: Precision,
    atoms: Atoms,
    images: &'a HashMap<TensorId, Vec<u32>>,
    net: Net,
    maps: HashMap<TensorId, Map>,
    aliases: HashMap<TensorId, Alias>,
    wants: HashMap<TensorId, Map>,
    steps: Vec<Step>,
}

/// Places all tensors. `images` are the inputs that are images, with their components.
pub(crate) fn place(
    net: Net,
    config: &'static Config,
    precision: Precision,
    images: &HashMap<TensorId, Vec<u32>>,
) -> Result<Placed, Error> {
    let atoms = Atoms::of(config, precision);
    let (maps, aliases, wants) = (HashMap::new(), HashMap::new(), HashMap::new());
    let mut placer = Placer { config, precision, atoms, images, net, maps, aliases, wants, steps: Vec::new() };
    placer.needed_maps();
    placer.assign()?;
    placer.outputs();
    placer.net.steps = std::mem::take(&mut placer.steps);
    let positions = placer.positions();
    let mut extents: HashMap<TensorId, u32> = HashMap::new();
    for (tensor, position) in &positions {
        let end =
            atoms.channels(position.start[0] as usize) as u32 + placer.maps.get(tensor).map_or(1, |map| map.extent);
        let extent = extents.entry(position.root).or_insert(0);
        *extent = (*extent).max(end);
    }
    Ok(Placed { net: placer.net, maps: placer.maps, positions, extents })
}

impl Placer<'_> {
    fn filled(&self, channels: u32) -> u32 {
        self.atoms.filled(channels as usize) as u32
    }

    /// The map of a tensor whose channels become blocks: each phase in its own atoms.
    fn phases(&self, channels: u32, phases: u32) -> Map {
        let each = channels / phases;
        Map::new((0..channels).map(|k| k / each * self.filled(each) + k % each).collect())
    }

    /// Determines the maps that later steps need.
    fn needed_maps(&mut self) {
        for index in (0..self.net.steps.len()).rev() {
            let step = &self.net.steps[index];
            match &step.kind {
                Kind::Spread([y, x]) => {
                    let channels = self.net.tensors[step.inputs[0]].shape[0];
                    let map = self.phases(channels, y * x);
                    self.wants.insert(step.inputs[0], map);
                }
                Kind::Channels(from) => {
                    if let Some(map) = self.wants.get(&step.output) {
                        let mut of = vec![u32::MAX; from.len()];
                        if self.net.tensors[step.inputs[0]].shape[0] as usize == from.len() {
                            from.iter().zip(map.of.iter()).for_each(|(&from, &at)| of[from as usize] = at);
                        }
                        if !of.contains(&u32::MAX) {
                            self.wants.insert(step.inputs[0], Map::new(of));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn map(&self, tensor: TensorId) -> Map {
        self.maps.get(&tensor).cloned().unwrap_or_else(|| Map::dense(self.net.tensors[tensor].shape[0]))
    }

    /// Whether a tensor of one line and column is a part of a larger one whose surfaces are not adjacent. SDP reads the atoms of
    /// such a tensor one after another and ignores the strides.
    fn is_spread_out(&self, tensor: TensorId) -> bool {
        let root = follow(&self.aliases, tensor, |_, _| true);
        let one = |id: TensorId| self.net.tensors[id].shape[1..] == [1, 1];
        let elements = self.atoms.elements() as u32 / if self.net.tensors[tensor].wide { 2 } else { 1 };
        one(tensor) && !one(root) && self.map(tensor).extent > elements
    }

    /// Whether the lines of a tensor are not adjacent, on a configuration where the emulator reads the pixels of a tensor as lines.
    fn is_apart(&self, tensor: TensorId) -> bool {
        let root = follow(&self.aliases, tensor, |_, _| true);
        let [own, whole] = [tensor, root].map(|id| self.net.tensors[id].shape);
        self.config.memory_atomic == HALVED_ATOM && own[1] > 1 && own[2] > 1 && own[1..] != whole[1..]
    }

    /// A copy of a tensor with another map.
    fn remapped(&mut self, tensor: TensorId, map: Map) -> TensorId {
        let copy = self.net.like(tensor);
        let channels = self.net.tensors[tensor].shape[0];
        self.steps.push(identity(tensor, copy, channels, String::new()));
        self.maps.insert(copy, map);
        copy
    }

    /// Assigns a map to every tensor, in order.
    fn assign(&mut self) -> Result<(), Error> {
        for (&tensor, components) in self.images {
            let extent = components.len().max(1) as u32;
            let extent = if extent == 1 { 1 } else { 4 };
            self.maps.insert(tensor, Map { of: components.clone().into(), extent });
        }
        for &tensor in &self.net.inputs {
            let channels = self.net.tensors[tensor].shape[0];
            self.maps.entry(tensor).or_insert_with(|| Map::dense(channels));
        }
        for mut step in std::mem::take(&mut self.net.steps) {
            // Channels that are one physical channel would share their weights, and their results.
            let apart = match &step.kind {
                Kind::Convolution(_) => true,
                // A convolution moves the elements.
                Kind::Same => self.net.tensors[step.inputs[0]].shape != self.net.tensors[step.output].shape,
                Kind::Copy | Kind::Pool(_) => !step.post_ops.iter().all(PostOp::is_shared),
                _ => false,
            };
            if apart && self.map(step.inputs[0]).repeats() {
                let channels = self.net.tensors[step.inputs[0]].shape[0];
                step.inputs[0] = self.remapped(step.inputs[0], Map::dense(channels));
            }
            let map = match &step.kind {
                Kind::Convolution(conv) => self.convolution(&step, conv),
                Kind::Copy | Kind::Pool(_) => {
                    let map = self.map(step.inputs[0]);
                    if step.kind == Kind::Copy && self.is_spread_out(step.inputs[0]) {
                        step.inputs[0] = self.remapped(step.inputs[0], map.clone());
                    }
                    map
                }
                // The pixels of both are the rows of matrices with one element per channel.
                Kind::Product | Kind::Turn => {
                    for at in 0..step.inputs.len() {
                        if !self.map(step.inputs[at]).is_dense() || self.is_spread_out(step.inputs[at]) {
                            let channels = self.net.tensors[step.inputs[at]].shape[0];
                            step.inputs[at] = self.remapped(step.inputs[at], Map::dense(channels));
                        }
                    }
                    Map::dense(self.net.tensors[step.output].shape[0])
                }
                Kind::Softmax(_) | Kind::Power(_) => {
                    if !self.map(step.inputs[0]).is_dense() || self.is_apart(step.inputs[0]) {
                        let channels = self.net.tensors[step.inputs[0]].shape[0];
                        step.inputs[0] = self.remapped(step.inputs[0], Map::dense(channels));
                    }
                    self.map(step.inputs[0])
                }
                Kind::Lrn(_) => {
                    // Windows also read the channels after the last one in its atom, which must be zero.
                    let channels = self.net.tensors[step.inputs[0]].shape[0];
                    let wanted = Map { of: (0..channels).collect(), extent: self.filled(channels) };
                    let own = self.map(step.inputs[0]);
                    if own != wanted || self.is_spread_out(step.inputs[0]) {
                        step.inputs[0] = self.remapped(step.inputs[0], wanted);
                    }
                    Map::dense(channels)
                }
                Kind::Concat(1..) => {
                    let mut map = self.map(step.inputs[0]);
                    // Another part may have different values where the first one has the same.
                    if map.repeats() && step.inputs.iter().any(|&part| self.map(part) != map) {
                        map = Map::dense(map.of.len() as u32);
                    }
                    for at in 0..step.inputs.len() {
                        if self.map(step.inputs[at]) != map {
                            step.inputs[at] = self.remapped(step.inputs[at], map.clone());
                        }
                    }
                    map
                }
                Kind::Concat(_) => {
                    let (mut of, mut extent) = (Vec::new(), 0);
                    for &input in &step.inputs {
                        let (map, base) = (self.map(input), self.filled(extent));
                        of.extend(map.of.iter().map(|at| base + at));
                        extent = base + map.extent;
                    }
                    Map { of: of.into(), extent }
                }
                Kind::Slice { start, step: by } => {
                    let map = self.map(step.inputs[0]);
                    let channels = self.net.tensors[step.output].shape[0];
                    let of: Vec<u32> = (0..channels).map(|k| map.of[(start[0] + k * by[0]) as usize]).collect();
                    let (first, _) = self.atoms.place(of.iter().min().copied().unwrap_or(0) as usize);
                    let start = [first as u32, start[1], start[2]];
                    self.aliases.insert(step.output, Alias { of: step.inputs[0], start, step: by[1] });
                    Map::new(of.iter().map(|at| at - self.atoms.channels(first) as u32).collect())
                }
                Kind::Channels(from) => {
                    let map = self.map(step.inputs[0]);
                    self.aliases.insert(step.output, Alias { of: step.inputs[0], start: [0; 3], step: 1 });
                    Map { of: from.iter().map(|&from| map.of[from as usize]).collect(), extent: map.extent }
                }
                Kind::Same => {
                    let [before, after] = [step.inputs[0], step.output].map(|id| self.net.tensors[id].shape);
                    if before == after {
                        self.aliases.insert(step.output, Alias { of: step.inputs[0], start: [0; 3], step: 1 });
                        self.map(step.inputs[0])
                    } else {
                        self.steps.push(self.reshaped(&step)?);
                        Map::dense(after[0])
                    }
                }
                Kind::Spread([y, x]) => {
                    let channels = self.net.tensors[step.inputs[0]].shape[0];
                    let wanted = self.phases(channels, y * x);
                    if self.map(step.inputs[0]) != wanted {
                        step.inputs[0] = self.remapped(step.inputs[0], wanted);
                    }
                    Map::dense(channels / (y * x))
                }
                Kind::Repeat(_) | Kind::Columns(_) | Kind::Transpose | Kind::Pixels => self.map(step.inputs[0]),
            };
            for at in 0..step.post_ops.len() {
                if let PostOp::With(_, other) = step.post_ops[at] {
                    if self.map(other) != map || self.is_spread_out(other) {
                        let copy = self.remapped(other, map.clone());
                        if let PostOp::With(_, other) = &mut step.post_ops[at] {
                            *other = copy;
                        }
                    }
                }
            }
            self.maps.insert(step.output, map);
            if step.kind != Kind::Same || self.aliases.contains_key(&step.output) {
                self.steps.push(step);
            }
        }
        Ok(())
    }

    /// The map of a convolution's output: that of a tensor that is combined with it, or the one that a later step needs, or a
    /// dense map.
    fn convolution(&self, step: &Step, conv: &Convolution) -> Map {
        let shape = self.net.tensors[step.output].shape;
        let input = self.map(step.inputs[0]);
        let precision = self.net.precision(step.inputs[0], self.precision);
        if let Some(map) = forced_map(self.config, precision, self.atoms, conv, &input, shape) {
            return Map::new(map);
        }
        let other = step.post_ops.iter().find_map(|post| match post {
            // The kernels of channels that are one physical channel have different results.
            PostOp::With(_, other) if self.net.tensors[*other].shape == shape && !self.map(*other).repeats() => {
                Some(self.map(*other))
            }
            _ => None,
        });
        // An average over all lines and columns is one convolution where both maps are the same (`codegen::average`).
        let own = (shape[1..] == [1, 1] && conv.is_average()).then_some(input);
        self.wants.get(&step.output).cloned().or(other).or(own).unwrap_or_else(|| Map::dense(shape[0]))
    }

    /// Moves elements of several lines to channels: a convolution with kernels that each read one element.
    fn reshaped(&self, step: &Step) -> Result<Step, Error> {
        let [before, after] = [step.inputs[0], step.output].map(|id| self.net.tensors[id].shape);
        let name = &self.net.tensors[step.output].name;
        let count: u32 = before.iter().product();
        if after != [count, 1, 1] || count > 2048 || before[1].max(before[2]) > LARGEST_KERNEL as u32 {
            let show = |[c, h, w]: [u32; 3]| format!("{c}x{h}x{w}");
            let reason = format!(
                "{} as {}: only up to 2048 elements of up to {LARGEST_KERNEL} lines and columns become channels",
                show(before),
                show(after)
            );
            return Err(Error::unsupported(name, reason));
        }
        let conv = Convolution::element_each(before);
        Ok(Step { kind: Kind::Convolution(Box::new(conv)), ..step.clone() })
    }

    /// The tensor that has all elements of a tensor in the same places: itself, or what it is only another name for.
    fn renamed(&self, tensor: TensorId) -> TensorId {
        follow(&self.aliases, tensor, |alias, tensor| {
            let same = self.net.tensors[alias.of].shape == self.net.tensors[tensor].shape;
            same && alias.starts_at_origin() && self.map(alias.of) == self.map(tensor)
        })
    }

    /// Gives outputs dense maps and separate memories.
    fn outputs(&mut self) {
        let made: HashSet<TensorId> = self
            .steps
            .iter()
            .filter(|step| !step.kind.is_view() || matches!(step.kind, Kind::Concat(_)))
            .map(|step| step.output)
            .collect();
        let mut seen = HashSet::new();
        for at in 0..self.net.outputs.len() {
            let tensor = self.net.outputs[at];
            let whole = self.renamed(tensor);
            let in_concat =
                self.steps.iter().any(|step| matches!(step.kind, Kind::Concat(_)) && step.inputs.contains(&whole));
            if made.contains(&whole) && self.map(whole).is_dense() && !in_concat && seen.insert(whole) {
                if whole != tensor {
                    let name = std::mem::take(&mut self.net.tensors[tensor].name);
                    self.net.tensors[tensor].name = std::mem::replace(&mut self.net.tensors[whole].name, name);
                    self.net.outputs[at] = whole;
                }
                continue;
            }
            let channels = self.net.tensors[tensor].shape[0];
            self.net.outputs[at] = self.remapped(tensor, Map::dense(channels));
            seen.insert(self.net.outputs[at]);
        }
    }

    /// The buffer of each tensor. Parts of a concatenation are in its buffer if possible.
    fn positions(&mut self) -> HashMap<TensorId, Position> {
        let mut fixed: HashMap<TensorId, (TensorId, [u32; 3])> = HashMap::new();
        let tensors: Vec<[u32; 3]> = self.net.tensors.iter().map(|tensor| tensor.shape).collect();
        let behind = |at: [u32; 3], offset: [u32; 3]| [0, 1, 2].map(|axis| at[axis] + offset[axis]);
        // The tensor that has the elements of another one, and where they begin in it.
        let resolve = |aliases: &HashMap<TensorId, Alias>, mut tensor: TensorId| {
            let mut start = [0; 3];
            while let Some(alias) = aliases.get(&tensor).filter(|alias| alias.step == 1) {
                (tensor, start) = (alias.of, behind(start, alias.start));
            }
            (tensor, start)
        };
        let mut copies: Vec<(usize, Step)> = Vec::new();
        let own: HashSet<TensorId> = self.net.inputs.iter().chain(&self.net.outputs).copied().collect();
        for index in (0..self.net.steps.len()).rev() {
            let Kind::Concat(axis) = self.net.steps[index].kind else { continue };
            let step = self.net.steps[index].clone();
            let offsets: Vec<[u32; 3]> = step
                .inputs
                .iter()
                .scan([0; 3], |base, &input| {
                    let at = *base;
                    base[axis] += match axis {
                        0 => self.atoms.surfaces(self.map(input).extent as usize) as u32,
                        _ => tensors[input][axis],
                    };
                    Some(at)
                })
                .collect();
            let placed = |input: TensorId| {
                let (tensor, start) = resolve(&self.aliases, input);
                fixed.get(&tensor).map(|&(root, at)| (root, behind(at, start)))
            };
            // All parts are already in the buffer of a later concatenation, at the same relative positions.
            let first = placed(step.inputs[0]);
            let together = first.is_some_and(|(root, at)| {
                let mut parts = step.inputs.iter().zip(&offsets);
                parts.all(|(&input, offset)| placed(input) == Some((root, behind(at, *offset))))
            });
            let (root, at) = match (fixed.get(&step.output), first) {
                (Some(&position), _) => position,
                (None, Some(position)) if together && !own.contains(&step.output) => position,
                _ => (step.output, [0; 3]),
            };
            fixed.insert(step.output, (root, at));
            // The tensor of each part, and where it begins if the part is in its place. All parts of a tensor together are as large
            // as it is, or some are elsewhere.
            let size = |id: TensorId| -> u64 {
                let [_, height, width] = tensors[id];
                let surfaces = self.atoms.surfaces(self.map(id).extent as usize) as u32;
                [surfaces, height, width].map(u64::from).iter().product()
            };
            let mut homes = Vec::new();
            let mut sizes: HashMap<(TensorId, [u32; 3]), u64> = HashMap::new();
            for (&input, offset) in step.inputs.iter().zip(&offsets) {
                let ((tensor, start), here) = (resolve(&self.aliases, input), behind(at, *offset));
                let home = (tensor, [0, 1, 2].map(|axis| here[axis].wrapping_sub(start[axis])));
                *sizes.entry(home).or_default() += size(input);
                homes.push(home);
            }
            let whole: Vec<bool> = homes.iter().map(|home| sizes[home] == size(home.0)).collect();
            for (part, &input) in step.inputs.iter().enumerate() {
                let here = (root, behind(at, offsets[part]));
                let (tensor, home) = homes[part];
                // Only copies can write one pixel whose atoms are not adjacent.
                let apart = tensors[input][1..] == [1, 1] && tensors[root][1..] != [1, 1];
                let movable = !own.contains(&tensor) && !self.aliases.contains_key(&tensor) && !apart;
                match fixed.get(&tensor) {
                    Some(&position) if position == (root, home) => {}
                    None if movable && whole[part] => {
                        fixed.insert(tensor, (root, home));
                    }
                    _ => {
                        let copy = self.net.like(input);
                        self.maps.insert(copy, self.map(input));
                        self.net.steps[index].inputs[part] = copy;
                        let channels = self.net.tensors[input].shape[0];
                        let copied = if self.is_spread_out(input) && !apart {
                            identity(input, copy, channels, String::new())
                        } else {
                            let (nodes, inputs, post_ops) = (step.nodes.clone(), vec![input], Vec::new());
                            Step { nodes, kind: Kind::Copy, inputs, post_ops, output: copy }
                        };
                        copies.push((index, copied));
                        fixed.insert(copy, here);
                    }
                }
            }
        }
        copies.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        for (index, step) in copies {
            self.net.steps.insert(index, step);
        }
        let mut positions: HashMap<TensorId, Position> = HashMap::new();
        let made: Vec<TensorId> =
            self.net.inputs.iter().copied().chain(self.net.steps.iter().map(|step| step.output)).collect();
        for tensor in made {
            let position = match (self.aliases.get(&tensor), fixed.get(&tensor)) {
                (Some(alias), _) => {
                    let Position { root, start, step } = positions[&alias.of].clone();
                    let [s, y, x] = alias.start;
                    Position { root, start: [start[0] + s, start[1] + y * step, start[2] + x], step: step * alias.step }
                }
                (None, Some(&(root, start))) => Position { root, start, step: 1 },
                (None, None) => Position { root: tensor, start: [0; 3], step: 1 },
            };
            positions.insert(tensor, position);
        }
        positions
    }
}

/// Whether a step is a copy as [`identity`] makes it.
#[allow(clippy::float_cmp)] // Any other weight changes values.
pub(crate) fn is_identity(step: &Step) -> bool {
    let Kind::Convolution(conv) = &step.kind else { return false };
    let plain = conv.op.kernel == [1; 2] && conv.op.stride == [1; 2] && conv.op.group == conv.kernels;
    let unchanged = conv.bias.iter().all(|&bias| bias == 0.0) && conv.weights.iter().all(|&weight| weight == 1.0);
    plain && unchanged && conv.weights.len() == conv.kernels && step.post_ops.is_empty()
}

/// A step that copies every channel.
pub fn identity(from: TensorId, to: TensorId, channels: u32, node: String) -> Step {
    let conv = Convolution::copy(channels as usize, ir::Padding::default());
    let nodes = if node.is_empty() { Vec::new() } else { vec![node] };
    Step { nodes, kind: Kind::Convolution(Box::new(conv)), inputs: vec![from], post_ops: Vec::new(), output: to }
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::config::NV_SMALL;

    use super::*;
    use crate::net::example::{joined, net, step};

    /// Each part of a concatenation is in atoms of its own, and all parts are in one buffer.
    #[test]
    fn parts_of_a_concatenation_share_a_buffer() {
        let placed = place(joined(), &NV_SMALL, Precision::Int8, &HashMap::new()).unwrap();
        assert_eq!(*placed.maps[&3].of, [0, 1, 2, 3, 4, 8, 9, 10]);
        let places = [1, 2, 3].map(|id| (placed.positions[&id].root, placed.positions[&id].start));
        assert_eq!(places, [(3, [0; 3]), (3, [1, 0, 0]), (3, [0; 3])]);
    }

    /// A channel that the network repeats is one physical channel until a convolution reads it, whose kernels would share its weights.
    #[test]
    fn repeated_channels_are_apart_before_their_elements_become_channels() {
        let steps = vec![step(Kind::Channels(vec![2, 2, 0, 1]), &[0], vec![], 1), step(Kind::Same, &[1], vec![], 2)];
        let placed =
            place(net(&[[3, 2, 2], [4, 2, 2], [16, 1, 1]], steps), &NV_SMALL, Precision::Int8, &HashMap::new());
        let Placed { net, maps, .. } = placed.unwrap();
        let moved = net.steps.iter().find(|step| step.output == 2).unwrap();
        assert!(matches!(moved.kind, Kind::Convolution(_)));
        assert!(!maps[&moved.inputs[0]].repeats());
    }
}
