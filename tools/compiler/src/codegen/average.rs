// SPDX-License-Identifier: MIT OR Apache-2.0

//! Averages over all lines and columns, as one convolution for all channels.
//!
//! A convolution of groups has a block of weights per atom of channels, and here all of these blocks are equal. So the surfaces are
//! read as lines, which share weights. A kernel has at most `LARGEST_KERNEL` columns, so a plane is read in parts that lie one
//! after another in memory: each is a surface of the cube that the convolution reads.
//!
//! ```text
//! tensor             C channels, H lines, W columns
//! read as            parts * atom channels, one line per surface, H * W / parts columns
//! ```
//!
//! All elements of a plane are added in the accumulator, and the average is rounded once.

use std::collections::BTreeSet;
use std::sync::Arc;

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::feature::Atoms;
use nvdla_uapi::layout::weight::{Direct, Geometry};
use nvdla_uapi::layout::Extents;
use nvdla_uapi::reg::values::Precision;

use super::view::View;
use crate::ir;
use crate::net::step::Convolution;
use crate::numbers::quantizer::{Numbers, Operand, Stages, Weights, X, Y};
use crate::passes::place::Map;
use crate::schedule::program::Format;
use crate::target::LARGEST_KERNEL;

/// A convolution of a layer: its parameters, its numbers, and what it reads and writes.
pub(crate) struct Form {
    pub(crate) conv: Convolution,
    pub(crate) numbers: Numbers,
    pub(crate) source: View,
    pub(crate) target: View,
}

/// The elements of each part of a plane: the most that divide it and that a kernel has columns for.
fn part(elements: usize) -> usize {
    (1..=LARGEST_KERNEL).rev().find(|part| elements.is_multiple_of(*part)).unwrap_or(1)
}

/// The convolutions that compute an average: one, and another one for each change of the channels that atoms have, as in the last
/// atom. `None` if the layer is something else, or if channels have different numbers.
pub(crate) fn forms(conv: &Convolution, numbers: &Numbers, source: &View, target: &View) -> Option<Vec<Form>> {
    let [rows, columns] = conv.op.kernel;
    let plane = rows * columns;
    let whole = [rows, columns] == [source.height, source.width].map(|extent| extent as usize)
        && (target.height, target.width) == (1, 1)
        && conv.op.padding == ir::Padding::default();
    let feature = [source, target].iter().all(|view| view.format == Format::Feature);
    let alike = source.map.of == target.map.of && source.precision == target.precision;
    if plane == 1 || conv.op.group != conv.kernels || numbers.winograd || !(whole && feature && alike) {
        return None;
    }
    let mut weights = vec![0; conv.kernels * plane];
    numbers.weights.copy(0..weights.len(), &mut weights, |weight| weight);
    let first = weights.get(..plane)?;
    if weights.chunks_exact(plane).any(|kernel| kernel != first) {
        return None;
    }
    let stages = shared(&numbers.stages)?;
    let atoms = source.atoms;
    // Lines with gaps between them are parts.
    let packed = u64::from(source.line_stride) == atoms.packed_strides(source.width, 1)[0] || rows == 1;
    let (taps, stride) = if packed {
        let taps = part(plane);
        (taps, atoms.span(taps) as u32)
    } else {
        (columns, source.line_stride)
    };
    let count = plane / taps;
    if taps > LARGEST_KERNEL {
        return None;
    }
    let mut surfaces = vec![BTreeSet::new(); atoms.surfaces(source.map.extent as usize)];
    for &channel in source.map.of.iter() {
        let (surface, lane) = atoms.place(channel as usize);
        surfaces[surface].insert(lane as u32);
    }
    let (mut forms, mut at) = (Vec::new(), 0);
    for run in surfaces.chunk_by(|a, b| a == b) {
        let (lanes, lines, surface) = (&run[0], run.len() as u32, at);
        at += run.len();
        if lanes.is_empty() {
            continue;
        }
        let mut of_lanes = Vec::with_capacity(lanes.len() * lanes.len() * count * taps);
        for kernel in lanes {
            for part in first.chunks_exact(taps) {
                for lane in lanes {
                    of_lanes.extend(part.iter().map(|&weight| if lane == kernel { weight } else { 0 }));
                }
            }
        }
        let map = |parts: usize| {
            let of: Vec<u32> = (0..parts)
                .flat_map(|part| lanes.iter().map(move |&lane| atoms.channel(part, lane as usize) as u32))
                .collect();
            Map { extent: of.iter().max().map_or(0, |last| last + 1), of: of.into() }
        };
        let lined = |view: &View, width: u32, surface_stride: u32, map: Map| {
            let line_stride = if lines == 1 { view.line_stride } else { view.surface_stride };
            let offset = view.offset + view.layout().atom_offset(0, surface, 0, 0) as u32;
            View { offset, line_stride, surface_stride, height: lines, width, map, ..view.clone() }
        };
        let op = ir::Convolution { group: 1, kernel: [1, taps], stride: [1; 2], dilation: [1; 2], ..conv.op };
        forms.push(Form {
            conv: Convolution { op, kernels: lanes.len(), weights: Arc::from([]), bias: Vec::new() },
            numbers: Numbers { weights: Weights::Wide(of_lanes), stages: stages.clone(), ..numbers.clone() },
            source: lined(source, taps as u32, stride, map(count)),
            target: lined(target, 1, target.surface_stride, map(1)),
        });
    }
    Some(forms)
}

/// The functions of SDP with one value for all channels. `None` if channels have different values.
fn shared(stages: &Stages) -> Option<Stages> {
    let one = |operand: &mut Operand| match operand {
        Operand::Layer(_) => true,
        Operand::Kernel(values) => {
            values.dedup();
            values.len() == 1
        }
        Operand::Element(_) | Operand::Elements(_) | Operand::Gate(_) => false,
    };
    let mut stages = stages.clone();
    let x = [&mut stages.x1, &mut stages.x2].into_iter().flatten().flat_map(|X { alu, mul, .. }| {
        let alu = alu.as_mut().map(|(_, operand)| operand);
        alu.into_iter().chain(mul)
    });
    let y = stages.y.iter_mut().flat_map(|Y { alu, mul, .. }| {
        let alu = alu.as_mut().map(|(_, operand, _)| operand);
        alu.into_iter().chain(mul)
    });
    let all = x.chain(y).all(one);
    all.then_some(stages)
}

/// The bytes of the weights of an average over so many elements.
pub(crate) fn weight_bytes(config: &Config, elements: u32, precision: Precision) -> u64 {
    let lanes = Atoms::of(config, precision).elements() as u32;
    let extents = Extents::new(lanes, lanes, 1, elements);
    Direct::new(extents, Geometry::of(config, precision)).map_or(u64::MAX, |weights| weights.size())
}
