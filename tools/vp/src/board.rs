// SPDX-License-Identifier: MIT OR Apache-2.0

//! The board around the device, as far as it is wired in another way than software expects: faults that last, and that
//! `nvdla doctor` names.

/// How the device is connected.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Board {
    /// What the device's addresses of the guest's memory are above the guest's own, as behind a bus with dma-ranges
    #[arg(long, value_name = "BYTES", default_value_t = 0, conflicts_with = "rtl")]
    pub(crate) dma_offset: u64,
    /// The first address that the device does not reach
    #[arg(long, value_name = "ADDRESS", conflicts_with = "rtl")]
    pub(crate) dma_end: Option<u64>,
    /// Let every second cache line that the device reads be as old as its last access: a device without coherence
    #[arg(long, conflicts_with = "rtl")]
    pub(crate) incoherent: bool,
    /// Where the device's registers begin in BAR 0
    #[arg(long, value_name = "BYTES", default_value_t = 0, allow_negative_numbers = true)]
    window_offset: i64,
    /// The bridge between the bus and the registers
    #[arg(long, value_enum, default_value_t)]
    pub(crate) bridge: Bridge,
    /// What the interrupt controller takes for an interrupt of the line
    #[arg(long, value_enum, default_value_t)]
    pub(crate) trigger: Trigger,
}

/// A bridge to the registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Bridge {
    /// As the hardware needs it
    #[default]
    Plain,
    /// The bytes of each register in the other order
    Swapped,
    /// The bytes' addresses where the registers' words are counted
    Words,
}

/// When an interrupt controller sees an interrupt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Trigger {
    /// While the line is high, as the hardware needs it
    #[default]
    High,
    /// While the line is low
    Low,
    /// When the line rises
    Edge,
}

impl Board {
    /// The register behind an offset in BAR 0; none if the device has none there.
    pub(crate) fn register(&self, offset: u64) -> Option<u32> {
        let offset = offset.checked_add_signed(self.window_offset.checked_neg()?)?;
        let offset = if self.bridge == Bridge::Words { offset.checked_mul(4)? } else { offset };
        u32::try_from(offset).ok()
    }

    /// A register's value as software sees it, and the other way round.
    pub(crate) fn value(&self, value: u32) -> u32 {
        if self.bridge == Bridge::Swapped {
            value.swap_bytes()
        } else {
            value
        }
    }

    /// Whether the interrupt controller sees a line that is up or down as asserted.
    pub(crate) fn asserts(&self, up: bool) -> bool {
        up != (self.trigger == Trigger::Low)
    }

    /// Whether a line that stays asserted gives another interrupt when it is unmasked.
    pub(crate) fn repeats(&self) -> bool {
        self.trigger != Trigger::Edge
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_are_where_the_window_and_the_bridge_put_them() {
        let board = Board { window_offset: 0x1000, ..Board::default() };
        assert_eq!([0xffc, 0x1000, 0x1004].map(|offset| board.register(offset)), [None, Some(0), Some(4)]);
        let board = Board { window_offset: -4, ..Board::default() };
        assert_eq!(board.register(0), Some(4));
        let board = Board { bridge: Bridge::Words, ..Board::default() };
        assert_eq!([board.register(0x400), board.register(u64::MAX)], [Some(0x1000), None]);
        assert_eq!((board.value(1), board.register(1 << 40)), (1, None));
        assert_eq!(Board { bridge: Bridge::Swapped, ..board }.value(1), 1 << 24);
    }
}
