// SPDX-License-Identifier: MIT OR Apache-2.0

//! A softmax: an emulated operation, since the hardware has none.

use super::Lowering;
use crate::error::Error;
use crate::graph::NodeId;
use crate::program::Softmax;

impl Lowering<'_> {
    pub(super) fn softmax(&mut self, id: NodeId) -> Result<(), Error> {
        let layer = self.graph.node(id).name.clone();
        let (from, source) = self.feature_source(id)?;
        let source = self.program.whole(source);
        let target = self.output(id)?;
        let target = self.program.whole(target);
        // A constant added to every input changes nothing, so that the input's zero need not be known.
        let input_scale = self.scales.of(from).scale as f32;
        let output_scale = self.scales.of(id).scale as f32;
        self.program.push_emulated(Softmax { layer, source, target, input_scale, output_scale });
        Ok(())
    }
}
