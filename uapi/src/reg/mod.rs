// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The register map of NVDLA: blocks, registers and typed fields, under the names of the hardware manual.
//!
//! Two families exist. They share every register's offset within its block and differ in where the blocks lie
//! ([`Block::base`]), in the configuration ROM (later family only), and in the low bits of address, stride and
//! byte-count registers, which the first family does not implement ([`Register::writable_nv_full`]). A register's
//! value means the same in both: an address register holds the byte address with its low bits clear.
//!
//! Source: the public register specification of the hardware (`spec/manual`), one module per block.
//!
//! ```
//! use nvdla_uapi::reg::{cdma::D_MISC_CFG, values::Precision, Word};
//! let misc = Word::new(D_MISC_CFG.reset).with(D_MISC_CFG::IN_PRECISION, Precision::Fp16);
//! assert_eq!(misc.get(D_MISC_CFG::IN_PRECISION), Some(Precision::Fp16));
//! ```
//!
//! Only the fields of a register can be read from its value:
//!
//! ```compile_fail,E0308
//! use nvdla_uapi::reg::{cdma, Word};
//! let padding = Word::new(0).with(cdma::D_ZERO_PADDING::PAD_LEFT, 1);
//! padding.value(cdma::D_CONV_STRIDE::CONV_X_STRIDE);
//! ```

pub mod bdma;
pub mod cacc;
pub mod cdma;
pub mod cdp;
pub mod cdp_rdma;
pub mod cfgrom;
pub mod cmac_a;
pub mod cmac_b;
pub mod csc;
pub mod cvif;
pub mod glb;
pub mod mcif;
pub mod pdp;
pub mod pdp_rdma;
pub mod rbk;
mod register;
pub mod sdp;
pub mod sdp_rdma;
pub mod values;

pub(super) use register::encodings;
pub use register::{Described, Field, FieldValue, Register, Tied, Word};

/// The two register maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The first release ("os_initial").
    NvFull,
    /// nv_small and every later configuration.
    NvSmall,
}

/// A block of the register window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Block {
    /// Configuration ROM (later family only).
    Cfgrom,
    /// Version and interrupts.
    Glb,
    /// Primary memory interface.
    Mcif,
    /// Secondary memory interface.
    Cvif,
    /// Bridge DMA.
    Bdma,
    /// Convolution DMA.
    Cdma,
    /// Convolution sequence controller.
    Csc,
    /// First half of the multiply-accumulate array.
    CmacA,
    /// Second half of the multiply-accumulate array.
    CmacB,
    /// Convolution accumulator.
    Cacc,
    /// SDP's read DMA.
    SdpRdma,
    /// Single data point processor.
    Sdp,
    /// PDP's read DMA.
    PdpRdma,
    /// Planar data processor.
    Pdp,
    /// CDP's read DMA.
    CdpRdma,
    /// Cross-channel data processor.
    Cdp,
    /// Rubik.
    Rbk,
}

/// A block's table of this name.
macro_rules! table_of {
    ($block:expr, $table:ident) => {
        match $block {
            Block::Cfgrom => cfgrom::$table,
            Block::Glb => glb::$table,
            Block::Mcif => mcif::$table,
            Block::Cvif => cvif::$table,
            Block::Bdma => bdma::$table,
            Block::Cdma => cdma::$table,
            Block::Csc => csc::$table,
            Block::CmacA => cmac_a::$table,
            Block::CmacB => cmac_b::$table,
            Block::Cacc => cacc::$table,
            Block::SdpRdma => sdp_rdma::$table,
            Block::Sdp => sdp::$table,
            Block::PdpRdma => pdp_rdma::$table,
            Block::Pdp => pdp::$table,
            Block::CdpRdma => cdp_rdma::$table,
            Block::Cdp => cdp::$table,
            Block::Rbk => rbk::$table,
        }
    };
}

impl Block {
    /// Every block.
    pub const ALL: [Self; 17] = [
        Self::Cfgrom,
        Self::Glb,
        Self::Mcif,
        Self::Cvif,
        Self::Bdma,
        Self::Cdma,
        Self::Csc,
        Self::CmacA,
        Self::CmacB,
        Self::Cacc,
        Self::SdpRdma,
        Self::Sdp,
        Self::PdpRdma,
        Self::Pdp,
        Self::CdpRdma,
        Self::Cdp,
        Self::Rbk,
    ];

    /// Bytes of the window that each block takes.
    pub const SIZE: u32 = 0x1000;

    /// The block's byte offset in the register window, `None` where the family has no such block.
    pub const fn base(self, family: Family) -> Option<u32> {
        let page = match (family, self) {
            (Family::NvFull, Self::Cfgrom) => return None,
            (Family::NvFull, Self::Glb) | (Family::NvSmall, Self::Cfgrom) => 0x0,
            (Family::NvSmall, Self::Glb) => 0x1,
            (_, Self::Mcif) => 0x2,
            (Family::NvFull, Self::Cvif) | (Family::NvSmall, Self::Cdma) => 0x3,
            (Family::NvFull, Self::Bdma) | (Family::NvSmall, Self::Csc) => 0x4,
            (Family::NvFull, Self::Cdma) | (Family::NvSmall, Self::CmacA) => 0x5,
            (Family::NvFull, Self::Csc) | (Family::NvSmall, Self::CmacB) => 0x6,
            (Family::NvFull, Self::CmacA) | (Family::NvSmall, Self::Cacc) => 0x7,
            (Family::NvFull, Self::CmacB) | (Family::NvSmall, Self::SdpRdma) => 0x8,
            (Family::NvFull, Self::Cacc) | (Family::NvSmall, Self::Sdp) => 0x9,
            (Family::NvFull, Self::SdpRdma) | (Family::NvSmall, Self::PdpRdma) => 0xa,
            (Family::NvFull, Self::Sdp) | (Family::NvSmall, Self::Pdp) => 0xb,
            (Family::NvFull, Self::PdpRdma) | (Family::NvSmall, Self::CdpRdma) => 0xc,
            (Family::NvFull, Self::Pdp) | (Family::NvSmall, Self::Cdp) => 0xd,
            (Family::NvFull, Self::CdpRdma) => 0xe,
            (Family::NvFull, Self::Cdp) | (Family::NvSmall, Self::Cvif) => 0xf,
            (Family::NvFull, Self::Rbk) | (Family::NvSmall, Self::Bdma) => 0x10,
            (Family::NvSmall, Self::Rbk) => 0x11,
        };
        Some(page * Self::SIZE)
    }

    /// The block that holds byte `offset` of the register window.
    pub fn at(family: Family, offset: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|block| block.base(family) == Some(offset & !(Self::SIZE - 1)))
    }

    /// The block's name in the register specification.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cfgrom => "CFGROM",
            Self::Glb => "GLB",
            Self::Mcif => "MCIF",
            Self::Cvif => "CVIF",
            Self::Bdma => "BDMA",
            Self::Cdma => "CDMA",
            Self::Csc => "CSC",
            Self::CmacA => "CMAC_A",
            Self::CmacB => "CMAC_B",
            Self::Cacc => "CACC",
            Self::SdpRdma => "SDP_RDMA",
            Self::Sdp => "SDP",
            Self::PdpRdma => "PDP_RDMA",
            Self::Pdp => "PDP",
            Self::CdpRdma => "CDP_RDMA",
            Self::Cdp => "CDP",
            Self::Rbk => "RBK",
        }
    }

    /// The name of one of the block's registers in the specification, "register" for one that it does not have.
    pub fn register_name(self, register: Register) -> &'static str {
        let named = self.registers().iter().find(|described| described.register == register);
        named.map_or("register", |described| described.name)
    }

    /// The block's registers in address order.
    pub const fn registers(self) -> &'static [Described] {
        table_of!(self, ALL)
    }

    /// The block's registers in address order, without their names, which a program for a small memory leaves out.
    pub const fn plain_registers(self) -> &'static [Register] {
        table_of!(self, REGISTERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_found_at_its_base() {
        for family in [Family::NvFull, Family::NvSmall] {
            for block in Block::ALL {
                if let Some(base) = block.base(family) {
                    assert_eq!(Block::at(family, base + 0x10), Some(block));
                }
            }
        }
        assert_eq!(Block::at(Family::NvSmall, 0xe000), None);
    }

    #[test]
    fn registers_without_names_are_the_same() {
        for block in Block::ALL {
            let named = block.registers().iter().map(|described| &described.register);
            assert!(named.eq(block.plain_registers()), "{}", block.name());
        }
    }

    #[test]
    fn fields_lie_in_their_register_and_do_not_overlap() {
        for block in Block::ALL {
            for described in block.registers() {
                let mut seen = 0u64;
                for &(name, lsb, width) in described.fields {
                    let mask = ((1u64 << width) - 1) << lsb;
                    assert_eq!((described.name, name, u32::try_from(mask).is_ok()), (described.name, name, true));
                    assert_eq!((described.name, name, seen & mask), (described.name, name, 0));
                    seen |= mask;
                }
            }
        }
    }
}
