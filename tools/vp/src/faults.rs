// SPDX-License-Identifier: MIT OR Apache-2.0

//! Injected faults, to test that a driver survives them. They are chosen on the command line by number, or armed by a
//! test in the guest through the control window.

use std::time::Duration;

/// Which events go wrong, counted from 1. A start is that of one operation.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Faults {
    /// Do not deliver these interrupts
    #[arg(long, value_name = "N", value_delimiter = ',')]
    lose_interrupt: Vec<u64>,
    /// Never finish these starts, nor any other before a reset
    #[arg(long, value_name = "N", value_delimiter = ',')]
    hang: Vec<u64>,
    /// Refuse every memory access of these starts
    #[arg(long, value_name = "N", value_delimiter = ',')]
    refuse_memory: Vec<u64>,
    /// Raise an interrupt without a cause after these starts
    #[arg(long, value_name = "N", value_delimiter = ',')]
    spurious_interrupt: Vec<u64>,
    /// Let each start take at least this many microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    delay: u32,
}

/// What a start is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) delay: Duration,
    pub(crate) hang: bool,
    pub(crate) refuse: bool,
    pub(crate) spurious: bool,
    /// Resets before it.
    pub(crate) resets: u64,
}

/// The faults that are to come, and how far events have been counted.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    chosen: Faults,
    starts: u64,
    interrupts: u64,
    /// How many of the next starts hang, how many have their memory refused, how many interrupts are lost: armed by the
    /// guest.
    pub(crate) armed: Armed,
    pub(crate) lines: Lines,
    /// Times that the clock has stopped.
    stops: u64,
    resets: u64,
    /// Register accesses that no device could answer.
    dark: u64,
}

/// What a board has around the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    /// The clock runs. Without it no register answers and nothing starts; an operation under way ends.
    pub(crate) clock: bool,
    /// The reset line is held.
    pub(crate) reset: bool,
}

impl Default for Lines {
    /// A device on a board without lines.
    fn default() -> Self {
        Self { clock: true, reset: false }
    }
}

impl Lines {
    /// Before a driver has asked for anything.
    pub(crate) const OFF: Self = Self { clock: false, reset: true };

    /// Whether the device works.
    pub(crate) fn is_up(self) -> bool {
        self.clock && !self.reset
    }
}

/// What a guest has asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Armed {
    pub(crate) hang: u32,
    pub(crate) refuse: u32,
    pub(crate) lose: u32,
    /// Microseconds that each start takes at least.
    pub(crate) delay: u32,
    /// Every register of the window reads all ones, as where no device answers.
    pub(crate) mute: bool,
}

/// Counts down an armed fault, and returns whether it was armed.
fn take(armed: &mut u32) -> bool {
    let was = *armed > 0;
    *armed = armed.saturating_sub(1);
    was
}

impl Schedule {
    pub(crate) fn new(chosen: Faults, lines: Lines) -> Self {
        let armed = Armed { delay: chosen.delay, ..Armed::default() };
        Self { chosen, armed, lines, ..Self::default() }
    }

    /// The board changes its lines; how they were.
    pub(crate) fn set_lines(&mut self, lines: Lines) -> Lines {
        self.stops += u64::from(self.lines.clock && !lines.clock);
        std::mem::replace(&mut self.lines, lines)
    }

    /// Times that the clock has stopped.
    pub(crate) fn stops(&self) -> u64 {
        self.stops
    }

    /// A register access. Counts those that come while the device has no clock or is held in reset; whether it answers.
    pub(crate) fn answers(&mut self) -> bool {
        self.dark += u64::from(!self.lines.is_up());
        self.lines.is_up() && !self.armed.mute
    }

    /// A start. Counts it.
    pub(crate) fn start(&mut self) -> Plan {
        self.starts += 1;
        let number = self.starts;
        Plan {
            delay: Duration::from_micros(self.armed.delay.into()),
            hang: self.chosen.hang.contains(&number) | take(&mut self.armed.hang),
            refuse: self.chosen.refuse_memory.contains(&number) | take(&mut self.armed.refuse),
            spurious: self.chosen.spurious_interrupt.contains(&number),
            resets: self.resets,
        }
    }

    /// An interrupt. Counts it; whether it is delivered.
    pub(crate) fn interrupt(&mut self) -> bool {
        self.interrupts += 1;
        let lost = self.chosen.lose_interrupt.contains(&self.interrupts) | take(&mut self.armed.lose);
        if lost {
            log::info!("interrupt {} is lost, as asked", self.interrupts);
        }
        !lost
    }

    /// The device was reset: running operations are forgotten.
    pub(crate) fn reset(&mut self) {
        self.resets += 1;
    }

    /// Resets so far.
    pub(crate) fn resets(&self) -> u64 {
        self.resets
    }

    /// Starts, interrupts and register accesses without an answer so far.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (self.starts, self.interrupts, self.dark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_hang_by_number_or_when_armed() {
        let mut schedule = Schedule::new(Faults { hang: vec![2], ..Faults::default() }, Lines::default());
        assert!(!schedule.start().hang);
        assert!(schedule.start().hang);
        schedule.armed.hang = 1;
        assert!(schedule.start().hang);
        assert!(!schedule.start().hang);
        schedule.reset();
        assert_eq!((schedule.start().resets, schedule.counts()), (1, (5, 0, 0)));
    }

    #[test]
    fn interrupts_are_lost_by_number_or_when_armed() {
        let mut schedule = Schedule::new(Faults { lose_interrupt: vec![1], ..Faults::default() }, Lines::default());
        assert!(!schedule.interrupt());
        schedule.armed.lose = 1;
        assert!(!schedule.interrupt());
        assert!(schedule.interrupt());
        assert_eq!(schedule.counts(), (0, 3, 0));
    }

    #[test]
    fn a_device_answers_with_its_clock_and_out_of_reset() {
        let mut schedule = Schedule::new(Faults::default(), Lines::OFF);
        assert!(!schedule.answers());
        assert_eq!(schedule.set_lines(Lines { clock: true, reset: true }), Lines::OFF);
        assert!(!schedule.answers());
        schedule.set_lines(Lines::default());
        assert!(schedule.answers());
        // One that is mute on purpose is not in the dark.
        schedule.armed.mute = true;
        assert!(!schedule.answers());
        schedule.set_lines(Lines { clock: false, reset: false });
        assert_eq!((schedule.counts().2, schedule.stops()), (2, 1));
    }
}
