// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Interface versions, and the conversion of older versions' surfaces to version 0.12.
//!
//! Versions 0.10 and 0.11 differ from 0.12 in one thing: their data cubes have no `offset`, so that they are 28 bytes
//! and what follows a cube in a surface descriptor lies 4 bytes per cube earlier. The containers kept their size, which
//! BDMA's surface sets. Source: the history of `dla_interface.h` ("Re-design of address list usage", April 2019).

use super::bdma::BdmaSurface;
use super::cdp::CdpSurface;
use super::containers::Surface;
use super::conv::ConvSurface;
use super::cube::{data_cube, DataCube};
use super::pdp::PdpSurface;
use super::rubik::RubikSurface;
use super::sdp::SdpSurface;
use super::types::OpType;
use super::wire::{Error, Wire};
use core::fmt;

/// A version of the descriptor interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Major number.
    pub major: u8,
    /// Minor number.
    pub minor: u8,
}

impl Version {
    /// The version that this module describes.
    pub const CURRENT: Self = Self { major: 0, minor: 12 };

    /// Whether surfaces must go through [`upgrade_surface`].
    pub const fn needs_upgrade(self) -> bool {
        self.major == 0 && (self.minor == 10 || self.minor == 11)
    }

    /// Whether the project can run descriptors of this version.
    pub const fn is_supported(self) -> bool {
        self.needs_upgrade() || (self.major == Self::CURRENT.major && self.minor == Self::CURRENT.minor)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Bytes of a data cube in versions 0.10 and 0.11.
const OLD_CUBE: usize = DataCube::SIZE - 4;

/// Writes to `new` the surface descriptor of versions 0.10 and 0.11 in `old`, an operation's of type `op_type`, in the
/// form of 0.12. Both are [`Surface::SIZE`] bytes.
pub fn upgrade_surface(op_type: OpType, old: &[u8], new: &mut [u8]) -> Result<(), Error> {
    let short = |available| Error::Short { descriptor: "surface descriptor", needed: Surface::SIZE, available };
    let old = old.get(..Surface::SIZE).ok_or(short(old.len()))?;
    let available = new.len();
    let new = new.get_mut(..Surface::SIZE).ok_or(short(available))?;
    let (cubes, size) = match op_type {
        OpType::Bdma => (0, BdmaSurface::SIZE),
        OpType::Conv => (5, ConvSurface::SIZE),
        OpType::Sdp => (5, SdpSurface::SIZE),
        OpType::Pdp => (2, PdpSurface::SIZE),
        OpType::Cdp => (2, CdpSurface::SIZE),
        OpType::Rubik => (2, RubikSurface::SIZE),
    };
    new.fill(0);
    for cube in 0..cubes {
        let from = &old[cube * OLD_CUBE..][..OLD_CUBE];
        let to = &mut new[cube * DataCube::SIZE..][..DataCube::SIZE];
        to[..data_cube::offset].copy_from_slice(&from[..data_cube::offset]);
        to[data_cube::size..].copy_from_slice(&from[data_cube::offset..]);
    }
    let rest = size - cubes * DataCube::SIZE;
    new[cubes * DataCube::SIZE..][..rest].copy_from_slice(&old[cubes * OLD_CUBE..][..rest]);
    Ok(())
}

/// The list form of [`upgrade_surface`], in place: one descriptor per entry of `op_types`.
pub fn upgrade_surfaces(op_types: impl IntoIterator<Item = OpType>, list: &mut [u8]) -> Result<(), Error> {
    let available = list.len();
    let mut entries = list.chunks_exact_mut(Surface::SIZE);
    for op_type in op_types {
        let needed = Surface::SIZE;
        let entry = entries.next().ok_or(Error::Short { descriptor: "surface list", needed, available })?;
        let mut new = [0; Surface::SIZE];
        upgrade_surface(op_type, entry, &mut new)?;
        entry.copy_from_slice(&new);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Descriptor;
    use super::*;

    #[test]
    fn an_old_convolution_surface_keeps_every_field() {
        let mut old = [0u8; Surface::SIZE];
        for (index, byte) in old.iter_mut().enumerate() {
            *byte = index as u8;
        }
        for cube in 0..5 {
            old[cube * OLD_CUBE..][..2].copy_from_slice(&[1, 0]);
        }
        let mut new = [0xaa; Surface::SIZE];
        upgrade_surface(OpType::Conv, &old, &mut new).unwrap();
        let surface = ConvSurface::parse(&new).unwrap();
        assert_eq!(surface.wmb_data.offset, 0);
        assert_eq!(surface.wmb_data.size, u32::from_le_bytes([32, 33, 34, 35]));
        assert_eq!(surface.dst_data.plane_stride, u32::from_le_bytes([136, 137, 138, 139]));
        assert_eq!(surface.offset_u, i64::from_le_bytes([140, 141, 142, 143, 144, 145, 146, 147]));
        assert_eq!(surface.in_line_uv_stride, u32::from_le_bytes([148, 149, 150, 151]));
        assert!(new[ConvSurface::SIZE..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn bdma_has_no_cubes() {
        let old = [1u8; Surface::SIZE];
        let mut new = [0; Surface::SIZE];
        upgrade_surface(OpType::Bdma, &old, &mut new).unwrap();
        assert_eq!(old, new);
    }

    #[test]
    fn a_list_that_is_too_short_is_refused() {
        let mut list = [0; 2 * Surface::SIZE - 1];
        assert!(upgrade_surfaces([OpType::Sdp; 2], &mut list).is_err());
    }
}
