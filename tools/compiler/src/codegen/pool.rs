// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lowers a pooling to PDP from memory to memory. If PDP's line buffer is too short, it is divided into parts of columns. An
//! average that does not count padding is divided into parts with equal windows.

use nvdla_uapi::desc;
use nvdla_uapi::reg::pdp::D_POOLING_PADDING_CFG;
use nvdla_uapi::reg::values::PoolingMethod;

use crate::codegen::lowering::Lowering;
use crate::codegen::view::Region;
use crate::error::Error;
use crate::ir::PoolKind;
use crate::net::access::{Axis, Span};
use crate::net::step::{Kind, Step};
use crate::schedule::program::Unit;
use crate::target::{LARGEST_POOL_STRIDE, LARGEST_WINDOW};

/// Windows of one size along one axis.
#[derive(Clone, Copy, Debug)]
struct Windows {
    span: Span,
    window: u32,
}

impl Lowering<'_> {
    pub(crate) fn pool(&mut self, number: usize, step: &Step) -> Result<(), Error> {
        let Kind::Pool(pool) = step.kind else { return Ok(()) };
        let name = self.placed.net.tensors[step.output].name.clone();
        if !self.config.pdp {
            return Err(Error::unsupported(&name, format!("{} has no PDP", self.config.name)));
        }
        let (source, target) = self.ends(step);
        let checks = [
            ("pooling height", pool.kernel[0], LARGEST_WINDOW as u32),
            ("pooling width", pool.kernel[1], LARGEST_WINDOW as u32),
            ("vertical stride", pool.stride[0], LARGEST_POOL_STRIDE as u32),
            ("horizontal stride", pool.stride[1], LARGEST_POOL_STRIDE as u32),
            ("padding on the left", pool.padding.left, D_POOLING_PADDING_CFG::PAD_LEFT.max()),
            ("padding at the top", pool.padding.top, D_POOLING_PADDING_CFG::PAD_TOP.max()),
        ];
        if let Some((what, value, most)) = checks.into_iter().find(|(_, value, most)| *value > *most as usize) {
            return Err(Error::unsupported(&name, format!("{what} {value} is more than the hardware's {most}")));
        }
        let exclusive = matches!(pool.kind, PoolKind::Average { count_include_pad: false });
        let planes = [&source, &target].map(|view| [view.height, view.width]);
        let [lines, columns] = Axis::both(planes, pool.kernel, pool.stride, pool.padding);
        let lines = windows(&lines, exclusive, u32::MAX);
        let most = self.config.pdp_columns(pool.kernel[0] as u32, pool.stride[0] as u32);
        let columns = windows(&columns, exclusive, most);
        for y in &lines {
            for x in &columns {
                let op = desc::PdpOp {
                    split_num: 1,
                    pool_mode: match pool.kind {
                        PoolKind::Max => PoolingMethod::Max,
                        PoolKind::Average { .. } => PoolingMethod::Average,
                    },
                    pool_width: (x.window - 1) as u8,
                    pool_height: (y.window - 1) as u8,
                    stride_x: pool.stride[1] as u8,
                    stride_y: pool.stride[0] as u8,
                    pad_left: x.span.before as u8,
                    pad_right: x.span.after as u8,
                    pad_top: y.span.before as u8,
                    pad_bottom: y.span.after as u8,
                    precision: source.precision,
                    ..Default::default()
                };
                let channels = (0, target.map.extent);
                let from = Region {
                    channels,
                    lines: (y.span.input_first, y.span.input_count),
                    columns: (x.span.input_first, x.span.input_count),
                };
                let into =
                    Region { channels, lines: (y.span.first, y.span.count), columns: (x.span.first, x.span.count) };
                let (source, target) = (source.cube(&from, source.atoms), target.cube(&into, target.atoms));
                self.program.push(number, Unit::Pdp { op: Box::new(op), source, target });
            }
        }
        Ok(())
    }
}

/// The parts of an axis: at most `most` outputs each, and windows of one size each if padding does not count.
fn windows(axis: &Axis, exclusive: bool, most: u32) -> Vec<Windows> {
    let mut parts = Vec::new();
    let mut first = 0;
    let inside = |at: u32| {
        let begin = (at * axis.stride).saturating_sub(axis.pad);
        let end = (at * axis.stride + axis.window - axis.pad.min(at * axis.stride + axis.window)).min(axis.input);
        (begin, end - begin)
    };
    while first < axis.output {
        let mut count = (axis.output - first).min(most);
        if exclusive {
            let (begin, window) = inside(first);
            let same = |at: &u32| inside(first + at) == (begin + at * axis.stride, window);
            count = (0..count).take_while(same).count() as u32;
            let narrow = Axis { input: axis.input, output: axis.output, window, stride: axis.stride, pad: 0 };
            let input_count = (count - 1) * narrow.stride + window;
            let span = Span { first, count, input_first: begin, input_count, before: 0, after: 0 };
            parts.push(Windows { span, window });
        } else {
            parts.push(Windows { span: axis.span(first, count), window: axis.window });
        }
        first += count;
    }
    parts
}
