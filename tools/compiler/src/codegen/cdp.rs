// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lowers a normalisation to CDP, from memory to memory.

use nvdla_uapi::desc;

use super::lowering::Lowering;
use super::sdp::converter;
use crate::net::step::{Lrn, Step};
use crate::numbers::quantizer::Numbers;
use crate::schedule::program::Unit;

impl Lowering<'_> {
    /// CDP, from memory to memory.
    pub(crate) fn normalisation(&mut self, number: usize, step: &Step, lrn: &Lrn, numbers: &Numbers) {
        let Some((table, out)) = numbers.normalisation else { return };
        let (source, target) = self.ends(step);
        let part = target.all();
        let op = desc::CdpOp {
            in_precision: self.precision,
            out_precision: self.precision,
            lut_index: table as i16,
            in_cvt: converter(1, 0),
            out_cvt: converter(out.scale, out.truncate),
            local_size: lrn.size as u8,
            ..Default::default()
        };
        let (source, target) = (source.cube(&part, source.atoms), target.cube(&part, target.atoms));
        self.program.push(number, Unit::Cdp { op: Box::new(op), source, target });
    }
}
