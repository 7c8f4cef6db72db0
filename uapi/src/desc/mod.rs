// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The descriptors of a task, interface version 0.12. A compiler writes them into a loadable, and the scheduler reads
//! them.
//!
//! A task is a network descriptor ([`Network`]) and the lists that it points to through the task's address list: the
//! dependency graph ([`CommonOp`], 36 bytes per entry), the operations ([`Operation`], 116), their surfaces
//! ([`Surface`], 644), lookup tables ([`Lut`], 700), regions of interest ([`Roi`]) and statistics ([`Stat`]).
//!
//! Every type here is plain values. [`Descriptor::parse`] reads one from untrusted bytes and refuses encodings that the
//! interface does not name; [`Descriptor::write`] is its inverse. Reserved bytes are ignored when read and written as
//! zero. Numbers are little-endian. The constants of a descriptor's own module (`data_cube::line_stride`) are the byte
//! offsets of its fields.
//!
//! Source: `kmd/firmware/include/dla_interface.h` of the software project, whose names the fields keep.

mod bdma;
mod cdp;
mod containers;
mod conv;
mod cube;
mod graph;
mod pdp;
mod rubik;
mod sdp;
mod tables;
mod task;
mod types;
mod upgrade;
mod wire;

pub use bdma::*;
pub use cdp::*;
pub use containers::{Operation, Stat, Surface};
pub use conv::*;
pub use cube::*;
pub use graph::*;
pub use pdp::*;
pub use rubik::*;
pub use sdp::*;
pub use tables::*;
pub use task::*;
pub use types::*;
pub use upgrade::*;
pub use wire::{Descriptor, Error, Part, Path, Wire, PROCESSORS};

#[cfg(test)]
mod tests {
    use core::fmt;

    use super::*;

    /// Parsing a written value gives the same value, and writing a parsed one gives the same bytes, except between
    /// fields.
    fn round_trip<T: Descriptor + PartialEq + fmt::Debug>(fill: u8) {
        let mut bytes = [fill; 2048];
        bytes[T::SIZE..].fill(0xee);
        if let Ok(value) = T::parse(&bytes) {
            let mut again = [0; 2048];
            value.write(&mut again).unwrap();
            assert_eq!(T::parse(&again), Ok(value));
        }
        assert!(matches!(T::parse(&bytes[..T::SIZE - 1]), Err(Error::Short { .. })));
    }

    #[test]
    fn round_trips() {
        for fill in [0, 1, 2, 5, 0x7f, 0xff] {
            round_trip::<Network>(fill);
            round_trip::<CommonOp>(fill);
            round_trip::<Roi>(fill);
            round_trip::<RoiArray>(fill);
            round_trip::<DataCube>(fill);
            round_trip::<Lut>(fill);
            round_trip::<BdmaOp>(fill);
            round_trip::<BdmaSurface>(fill);
            round_trip::<ConvOp>(fill);
            round_trip::<ConvSurface>(fill);
            round_trip::<SdpOp>(fill);
            round_trip::<SdpSurface>(fill);
            round_trip::<PdpOp>(fill);
            round_trip::<PdpSurface>(fill);
            round_trip::<CdpOp>(fill);
            round_trip::<CdpSurface>(fill);
            round_trip::<RubikOp>(fill);
            round_trip::<RubikSurface>(fill);
            round_trip::<ConvStat>(fill);
            round_trip::<SdpStat>(fill);
        }
    }

    #[test]
    fn an_error_names_the_field_from_the_outside_in() {
        let mut bytes = [0; SdpOp::SIZE];
        bytes[sdp_op::x2_op + sdp_sub_unit::enable] = 1;
        bytes[sdp_op::x2_op + sdp_sub_unit::alu_type] = 9;
        let error = SdpOp::parse(&bytes).unwrap_err();
        assert_eq!(error, Error::Unknown { field: Path::new("alu_type").within("x2_op"), value: 9 });
        let mut text = Text::default();
        fmt::Write::write_fmt(&mut text, format_args!("{error}")).unwrap();
        assert_eq!(text.as_str(), "x2_op.alu_type is 9, which the interface does not name");
    }

    /// A small buffer to format into, since the crate has no allocator.
    #[derive(Default)]
    struct Text {
        bytes: [[u8; 32]; 2],
        length: usize,
    }

    impl Text {
        fn as_str(&self) -> &str {
            core::str::from_utf8(&self.bytes.as_flattened()[..self.length]).unwrap()
        }
    }

    impl fmt::Write for Text {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let place = self.bytes.as_flattened_mut().get_mut(self.length..).ok_or(fmt::Error)?;
            place.get_mut(..text.len()).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
            self.length += text.len();
            Ok(())
        }
    }
}
