// SPDX-License-Identifier: MIT OR Apache-2.0

//! A pooling: PDP, from memory to memory.

use nvdla_uapi::desc;
use nvdla_uapi::reg::values::PoolingMethod;

use super::{limits, Lowering};
use crate::error::Error;
use crate::graph::{NodeId, Padding, Pooling, PoolingMode};
use crate::program::{Kind, Operation};

impl Lowering<'_> {
    pub(super) fn pooling(&mut self, id: NodeId, op: &Pooling) -> Result<(), Error> {
        let layer = self.graph.node(id).name.clone();
        let into = self.graph.node(id).shape;
        if !self.config.pdp {
            return Err(Error::unsupported(&layer, format!("{} has no PDP", self.config.name)));
        }
        let (_, source) = self.feature_source(id)?;
        let mut source = self.program.whole(source);
        // PDP counts windows by its input's size and padding, which must therefore end where the last window ends.
        let end = |outputs: u32, stride: u32, window: u32, before: u32| (outputs - 1) * stride + window - before;
        let (wide, tall) = (
            end(into.width, op.stride.x, op.window.x, op.padding.left),
            end(into.height, op.stride.y, op.window.y, op.padding.top),
        );
        let padding = Padding {
            right: wide.saturating_sub(u32::from(source.width)),
            bottom: tall.saturating_sub(u32::from(source.height)),
            ..op.padding
        };
        source.width = source.width.min(wide as u16);
        source.height = source.height.min(tall as u16);
        limits::pooling(&layer, op, padding)?;
        limits::pdp_line_buffer(&layer, op, self.config.mac_atomic_k, into.width)?;
        let pdp = desc::PdpOp {
            split_num: 1,
            pool_mode: match op.mode {
                PoolingMode::Max => PoolingMethod::Max,
                PoolingMode::Average => PoolingMethod::Average,
            },
            pool_width: (op.window.x - 1) as u8,
            pool_height: (op.window.y - 1) as u8,
            stride_x: op.stride.x as u8,
            stride_y: op.stride.y as u8,
            pad_left: padding.left as u8,
            pad_right: padding.right as u8,
            pad_top: padding.top as u8,
            pad_bottom: padding.bottom as u8,
            ..Default::default()
        };
        let target = self.output(id)?;
        let target = self.program.whole(target);
        self.program.push(Operation { layer, kind: Kind::Pdp { op: Box::new(pdp), source, target } });
        Ok(())
    }
}
