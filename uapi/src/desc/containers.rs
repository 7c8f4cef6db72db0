// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The containers of a task's lists, which hold the descriptor of one of the six units.

use super::bdma::{BdmaOp, BdmaStat, BdmaSurface};
use super::cdp::{CdpOp, CdpStat, CdpSurface};
use super::conv::{ConvOp, ConvStat, ConvSurface};
use super::pdp::{PdpOp, PdpStat, PdpSurface};
use super::rubik::{RubikOp, RubikStat, RubikSurface};
use super::sdp::{SdpOp, SdpStat, SdpSurface};
use super::types::OpType;
use super::wire::{Descriptor, Error, Wire};

/// The containers. An operation's type says what a container holds.
macro_rules! containers {
    ($(
        $(#[$attribute:meta])*
        $name:ident ($title:literal, $size:literal) { $($variant:ident($kind:ty)),* $(,)? }
    )*) => {$(
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(clippy::large_enum_variant)]
        pub enum $name {
            $(#[doc = concat!("For [`OpType::", stringify!($variant), "`].")] $variant($kind),)*
        }

        $(const _: () = assert!(<$kind as Wire>::SIZE <= $size);)*

        impl $name {
            /// Bytes of the container, for every content: the stride of the list.
            pub const SIZE: usize = $size;

            /// Reads the container of an operation of type `op_type` at the start of `bytes`.
            pub fn parse(op_type: OpType, bytes: &[u8]) -> Result<Self, Error> {
                if bytes.len() < Self::SIZE {
                    return Err(Error::Short { descriptor: $title, needed: Self::SIZE, available: bytes.len() });
                }
                match op_type {
                    $(OpType::$variant => <$kind as Descriptor>::parse(bytes).map(Self::$variant),)*
                }
            }

            /// Writes the whole container at the start of `bytes`.
            pub fn write(&self, bytes: &mut [u8]) -> Result<(), Error> {
                let available = bytes.len();
                let bytes = bytes.get_mut(..Self::SIZE).ok_or(Error::Short {
                    descriptor: $title,
                    needed: Self::SIZE,
                    available,
                })?;
                bytes.fill(0);
                match self {
                    $(Self::$variant(descriptor) => descriptor.write(bytes),)*
                }
            }

            /// The operation's type.
            pub const fn op_type(&self) -> OpType {
                match self {
                    $(Self::$variant(_) => OpType::$variant,)*
                }
            }
        }
    )*};
}

containers! {
    /// An entry of the operation list: how a unit works.
    Operation ("operation descriptor", 116) {
        Bdma(BdmaOp), Conv(ConvOp), Sdp(SdpOp), Pdp(PdpOp), Cdp(CdpOp), Rubik(RubikOp),
    }
    /// An entry of the surface list: the cubes that an operation reads and writes.
    Surface ("surface descriptor", 644) {
        Bdma(BdmaSurface), Conv(ConvSurface), Sdp(SdpSurface), Pdp(PdpSurface), Cdp(CdpSurface), Rubik(RubikSurface),
    }
    /// An entry of the statistics list: the counters of a unit.
    Stat ("statistics descriptor", 44) {
        Bdma(BdmaStat), Conv(ConvStat), Sdp(SdpStat), Pdp(PdpStat), Cdp(CdpStat), Rubik(RubikStat),
    }
}
