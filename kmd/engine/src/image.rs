// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! An operation as register values, the result of validating its descriptors.

use super::error::{Name, Reason, Why};
use super::footprint::{self, position, Access, Registers};
use super::memory::Buffer;
use crate::uapi::config::Config;
use crate::uapi::desc::{OpType, MAX_BDMA_TRANSFERS};
use crate::uapi::reg::values::RamType;
use crate::uapi::reg::{Block, Family, Field, FieldValue, Register, Tied, Word};

/// The largest number of registers of an operation, which is that of a convolution.
const REGISTERS: usize = 88;
/// The largest number of blocks of a unit, which is that of the convolution pipeline.
const BLOCKS: usize = 5;

/// The registers of one block in an [`RegisterImage`].
#[derive(Clone, Copy, Debug)]
struct Segment {
    block: Block,
    start: u8,
}

/// Register values, block by block.
///
/// Registers that an operation does not use are not in its image: they keep what they hold.
#[derive(Clone, Debug)]
pub(crate) struct RegisterImage {
    segments: [Segment; BLOCKS],
    blocks: u8,
    count: u8,
    /// Each register's word in its block.
    places: [u8; REGISTERS],
    values: [u32; REGISTERS],
}

impl RegisterImage {
    pub(crate) const EMPTY: Self = Self {
        segments: [Segment { block: Block::Cdma, start: 0 }; BLOCKS],
        blocks: 0,
        count: 0,
        places: [0; REGISTERS],
        values: [0; REGISTERS],
    };

    /// Each block with its registers' words and values.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (Block, impl Iterator<Item = (usize, u32)> + '_)> + '_ {
        let segments = self.segments.get(..usize::from(self.blocks)).unwrap_or_default();
        segments.iter().enumerate().map(move |(index, segment)| {
            let end = usize::from(segments.get(index + 1).map_or(self.count, |next| next.start)).min(REGISTERS);
            let range = usize::from(segment.start).min(end)..end;
            let places = &self.places[range.clone()];
            let values = &self.values[range];
            (segment.block, places.iter().zip(values).map(|(&place, &value)| (usize::from(place), value)))
        })
    }
}

/// BDMA's registers of one transfer, from `CFG_SRC_ADDR_LOW` to `CFG_DST_SURF`, in address order.
pub(crate) const TRANSFER_WORDS: usize = 12;

/// BDMA's transfers. The unit has no register groups: each transfer goes through the same registers into a queue.
#[derive(Clone, Debug)]
pub(crate) struct Transfers {
    pub(crate) count: u8,
    pub(crate) words: [[u32; TRANSFER_WORDS]; MAX_BDMA_TRANSFERS],
}

impl Transfers {
    /// The transfers in use.
    pub(crate) fn used(&self) -> &[[u32; TRANSFER_WORDS]] {
        &self.words[..usize::from(self.count).min(MAX_BDMA_TRANSFERS)]
    }
}

/// How an operation is programmed.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant)] // lies in a slot, which is as large
pub(crate) enum Program {
    /// Registers of a unit with register groups.
    Blocks(RegisterImage),
    /// BDMA's.
    Bdma(Transfers),
}

impl Program {
    /// Calls `visit` with each range that the registers make the unit access.
    pub(crate) fn accesses(&self, config: &Config, unit: OpType, rdma: bool, mut visit: impl FnMut(Access)) {
        let mut pass = |access| {
            visit(access);
            Ok::<(), footprint::Refusal>(())
        };
        let mut walk = |registers: &Registers| {
            // What was validated has a footprint, so there is no refusal.
            let _ = footprint::footprint(config, unit, rdma, registers, &mut pass);
        };
        match self {
            Self::Blocks(image) => {
                let mut all = Registers::EMPTY;
                for (block, registers) in image.blocks() {
                    for (word, value) in registers {
                        all.set(block, word, value);
                    }
                }
                walk(&all);
            }
            Self::Bdma(transfers) => {
                for words in transfers.used() {
                    let mut all = Registers::EMPTY;
                    for (word, &value) in words.iter().enumerate() {
                        all.set(Block::Bdma, word, value);
                    }
                    walk(&all);
                }
            }
        }
    }
}

/// A DMA address, and the buffer of the task in which it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferAddress {
    pub(crate) address: u64,
    /// The buffer's position in the address list.
    pub(crate) index: u16,
    pub(crate) buffer: Buffer,
}

impl BufferAddress {
    /// The memory interface through which a unit must access it.
    pub(crate) const fn ram(&self) -> RamType {
        self.buffer.memory
    }

    /// Whether a range lies in the buffer, and is accessed through the buffer's memory interface.
    #[inline]
    pub(crate) const fn holds(&self, access: &Access) -> bool {
        let Buffer { address, size, memory } = self.buffer;
        access.start >= address && access.end - address <= size && access.memory as u32 == memory as u32
    }

    /// The refusal of a range that does not lie in the buffer, or is not accessed through its interface.
    pub(crate) fn outside(&self, access: &Access) -> Reason {
        Why::Footprint { access: *access, index: self.index, buffer: self.buffer }.reason()
    }
}

/// The largest number of surfaces of an operation in register groups, which is that of a convolution and of SDP.
const SURFACES: usize = 5;

/// No surface: 0 would be a register of the first block, which has no addresses.
const NO_SURFACE: u32 = 0;
/// A place in a buffer of no bytes, in which no range lies.
const NO_BUFFER_ADDRESS: BufferAddress =
    BufferAddress { address: 0, index: 0, buffer: Buffer { address: 0, size: 0, memory: RamType::Mcif } };

/// A surface as one number: its block, and the offset of its address's low register.
const fn surface(block: Block, low: Register) -> u32 {
    (block as u32) << 16 | low.offset as u32
}

/// Fills a [`RegisterImage`]. It checks that each value fits its field and register, and at the end which memory the
/// operation would access.
pub(crate) struct Builder<'a> {
    config: &'static Config,
    /// The operation's own.
    image: &'a mut RegisterImage,
    /// The block of the following registers, and its position among those that reach memory.
    block: Block,
    position: usize,
    /// A second copy of the registers that steer addresses, in the form in which the footprint reads them.
    registers: Registers,
    /// The surfaces: what [`surface`] makes of each, and where each lies.
    surfaces: [u32; SURFACES],
    places: [BufferAddress; SURFACES],
}

impl<'a> Builder<'a> {
    /// Fills the empty image of a new operation's program.
    pub(crate) fn new(config: &'static Config, program: &'a mut Program) -> Result<Self, Reason> {
        let Program::Blocks(image) = program else {
            let (value, why) = (OpType::Bdma as i64, "BDMA has no register groups");
            return Err(Why::Invalid { name: Name::new("op_type"), value, why }.reason());
        };
        let block = Block::Cdma;
        Ok(Self {
            config,
            image,
            block,
            position: position(block),
            registers: Registers::EMPTY,
            surfaces: [NO_SURFACE; SURFACES],
            places: [NO_BUFFER_ADDRESS; SURFACES],
        })
    }

    /// The following registers are of `block`.
    pub(crate) fn block(&mut self, block: Block) {
        (self.block, self.position) = (block, position(block));
        let start = self.image.count;
        if let Some(segment) = self.image.segments.get_mut(usize::from(self.image.blocks)) {
            *segment = Segment { block, start };
            self.image.blocks += 1;
        }
    }

    /// A register's value, put together of its fields.
    pub(crate) fn word<R: Tied>(&mut self, value: Word<R>) -> Result<(), Reason> {
        self.put(R::REGISTER, value.bits())
    }

    /// The value of a register that is one number.
    pub(crate) fn put(&mut self, register: Register, value: u32) -> Result<(), Reason> {
        let image = &mut *self.image;
        let count = usize::from(image.count);
        let fits = value & !writable(self.config, register) == 0;
        // Before the first call of `block` a register belongs to no block.
        if !fits || count >= REGISTERS || image.blocks == 0 {
            return Err(self.refuse(register, value));
        }
        let word = register.offset / 4;
        image.places[count] = word as u8;
        image.values[count] = value;
        image.count = count as u8 + 1;
        self.registers.set_at(self.position, word.into(), value);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self, register: Register, value: u32) -> Reason {
        let writable = writable(self.config, register);
        Why::Register { block: self.block, register, value, writable }.reason()
    }

    /// A surface's DMA address in its two registers.
    pub(crate) fn address(&mut self, low: Register, high: Register, place: &BufferAddress) -> Result<(), Reason> {
        let mut surfaces = self.surfaces.iter_mut().zip(&mut self.places);
        if let Some((entry, at)) = surfaces.find(|(entry, _)| **entry == NO_SURFACE) {
            (*entry, *at) = (surface(self.block, low), *place);
        }
        self.put(low, place.address as u32)?;
        self.put(high, (place.address >> 32) as u32)
    }

    /// The final check of memory, in addition to the checks of descriptors: everything that `unit` accesses with the image lies
    /// in the buffers of its surfaces. `rdma` says whether the unit's read DMA is enabled too.
    ///
    /// It is a separate function so that `examples/count.rs` can count its instructions.
    #[inline(never)]
    pub(crate) fn check_accesses(&self, unit: OpType, rdma: bool) -> Result<(), Reason> {
        footprint::footprint(self.config, unit, rdma, &self.registers, |access: Access| {
            let holds = self.surface_address(&access).is_some_and(|place| place.holds(&access));
            if holds {
                Ok(())
            } else {
                Err(self.outside(&access))
            }
        })
    }

    /// The place of the surface that an access belongs to.
    #[inline]
    fn surface_address(&self, access: &Access) -> Option<&BufferAddress> {
        let wanted = surface(access.block, access.register);
        let mut surfaces = self.surfaces.iter().zip(&self.places);
        surfaces.find(|(surface, _)| **surface == wanted).map(|(_, place)| place)
    }

    /// The refusal of an access. It is a separate function so that the check is small enough to be inlined.
    #[cold]
    #[inline(never)]
    fn outside(&self, access: &Access) -> Reason {
        // If the access has an address of the image, it left that address's buffer.
        self.surface_address(access).map_or(Why::NoBuffer(*access).reason(), |place| place.outside(access))
    }
}

/// The bits of a register that a write changes.
const fn writable(config: &Config, register: Register) -> u32 {
    match config.family {
        Family::NvFull => register.writable_nv_full,
        Family::NvSmall => register.writable,
    }
}

/// The word whose `field` holds `value`, if `value` fits.
pub(crate) fn fit<R: Tied>(field: Field<u32, R>, name: Name, value: u32) -> Result<Word<R>, Reason> {
    if value > field.max() {
        return Err(Why::Range { name, value: i64::from(value), minimum: 0, maximum: i64::from(field.max()) }.reason());
    }
    Ok(code(field, value))
}

/// The word whose `field` holds `value - 1`, the form in which registers hold sizes and counts.
pub(crate) fn minus_one<R: Tied>(field: Field<u32, R>, name: Name, value: u32) -> Result<Word<R>, Reason> {
    match value.checked_sub(1) {
        Some(less) if less <= field.max() => Ok(code(field, less)),
        _ => {
            let maximum = i64::from(field.max()) + 1;
            Err(Why::Range { name, value: i64::from(value), minimum: 1, maximum }.reason())
        }
    }
}

/// The word whose `field` holds `value` in two's complement. Values that fit the field as unsigned numbers are accepted
/// too, because compilers write half precision and unsigned numbers into signed fields.
pub(crate) fn signed<R: Tied>(field: Field<u32, R>, name: Name, value: i32) -> Result<Word<R>, Reason> {
    let maximum = i64::from(field.max());
    let minimum = -(maximum + 1) / 2;
    let wide = i64::from(value);
    if wide < minimum || wide > maximum {
        return Err(Why::Range { name, value: wide, minimum, maximum }.reason());
    }
    Ok(code(field, value as u32 & field.max()))
}

/// Checks that a number fits so many bits in two's complement, where a unit uses fewer than its register has.
pub(crate) fn bits(name: Name, value: i64, bits: u32) -> Result<(), Reason> {
    let maximum = (1 << (bits - 1)) - 1;
    if value < -maximum - 1 || value > maximum {
        return Err(Why::Range { name, value, minimum: -maximum - 1, maximum }.reason());
    }
    Ok(())
}

/// The word with an enumerated field.
pub(crate) fn code<T: FieldValue, R: Tied>(field: Field<T, R>, value: T) -> Word<R> {
    Word::new(0).with(field, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uapi::config::{NV_FULL, NV_SMALL};
    use crate::uapi::reg::{cdma, sdp};

    const NAME: Name = Name::new("field");

    #[test]
    fn fields_hold_what_fits() {
        let width = cdma::D_DATAIN_SIZE_0::DATAIN_WIDTH;
        assert_eq!(minus_one(width, NAME, 8192).map(Word::bits), Ok(8191));
        let refused = Reason::Range { name: NAME, value: 0, minimum: 1, maximum: 8192 };
        assert_eq!(minus_one(width, NAME, 0).map(Word::bits), Err(refused));
        assert!(minus_one(width, NAME, 8193).is_err());
        let scale = sdp::D_CVT_SCALE::CVT_SCALE;
        assert_eq!(signed(scale, NAME, -1).map(Word::bits), Ok(0xffff));
        assert_eq!(signed(scale, NAME, 0xffff).map(Word::bits), Ok(0xffff));
        assert!(signed(scale, NAME, 0x10000).is_err());
        assert!(signed(scale, NAME, -32769).is_err());
    }

    #[test]
    fn a_register_keeps_only_its_familys_bits() {
        let mut program = Program::Blocks(RegisterImage::EMPTY);
        let mut builder = Builder::new(&NV_FULL, &mut program).unwrap();
        builder.block(Block::Cdma);
        assert!(matches!(
            builder.put(cdma::D_WEIGHT_BYTES, 8),
            Err(Reason::Register { block: Block::Cdma, register: cdma::D_WEIGHT_BYTES, value: 8, .. })
        ));
        let mut program = Program::Blocks(RegisterImage::EMPTY);
        let mut builder = Builder::new(&NV_SMALL, &mut program).unwrap();
        builder.block(Block::Cdma);
        builder.put(cdma::D_WEIGHT_BYTES, 8).unwrap();
        builder.block(Block::Sdp);
        builder.put(sdp::D_CVT_SCALE, 3).unwrap();
        let mut all = builder.image.blocks().flat_map(|(block, registers)| registers.map(move |one| (block, one)));
        assert_eq!(all.next(), Some((Block::Cdma, (32, 8))));
        assert_eq!(all.next(), Some((Block::Sdp, (49, 3))));
        assert_eq!(all.next(), None);
    }
}
