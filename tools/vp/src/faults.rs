// SPDX-License-Identifier: MIT OR Apache-2.0

//! Injected faults, which test that a driver handles them. They are selected by number on the command line, or by a test in the
//! guest through the control window.

use std::time::Duration;

/// The events that fail, counted from 1. A start is the start of one operation.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Faults {
    /// Do not deliver these interrupts
    #[arg(long, value_name = "N", value_delimiter = ',')]
    lose_interrupt: Vec<u64>,
    /// Never finish these starts, nor any later ones before a reset
    #[arg(long, value_name = "N", value_delimiter = ',')]
    hang: Vec<u64>,
    /// Refuse every memory access of these starts
    #[arg(long, value_name = "N", value_delimiter = ',')]
    refuse_memory: Vec<u64>,
    /// Raise an interrupt without a cause after these starts
    #[arg(long, value_name = "N", value_delimiter = ',')]
    spurious_interrupt: Vec<u64>,
    /// The least time of each start in microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    delay: u32,
    /// Let resets have no effect on the device, as those of a bus's endpoint that do not reach it
    #[arg(long)]
    deaf: bool,
}

/// The faults of one start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) delay: Duration,
    pub(crate) hang: bool,
    pub(crate) refuse: bool,
    pub(crate) spurious: bool,
    /// The number of resets before it.
    pub(crate) resets: u64,
}

/// The faults that have not happened yet, and the counters of events.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    chosen: Faults,
    starts: u64,
    /// Operations that have started and not ended.
    unended: u64,
    interrupts: u64,
    /// Faults of the next events, which the guest has requested.
    pub(crate) armed: Armed,
    pub(crate) lines: Lines,
    /// The number of times that the clock has stopped.
    stops: u64,
    resets: u64,
    /// Operations without bus mastering.
    pub(crate) blocked: u64,
    /// Register accesses while the device could not answer, and changes of the lines that hardware does not survive.
    unanswered: u64,
    /// The supply was off after the last reset.
    undefined: bool,
}

/// The clock, the reset line and the supply of the board around the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    /// Whether the clock runs. Without it no register answers and no operation starts; a running operation ends.
    pub(crate) clock: bool,
    /// Whether the clock has the higher of its two rates, which needs the higher voltage.
    pub(crate) fast: bool,
    /// Whether the reset line is asserted.
    pub(crate) reset: bool,
    /// Whether the supply is on. A device whose supply was off needs a reset before it answers.
    pub(crate) supply: bool,
    /// Whether the supply has the higher of its two voltages.
    pub(crate) high: bool,
}

impl Default for Lines {
    /// The lines of a board that does not control them.
    fn default() -> Self {
        Self { clock: true, fast: false, reset: false, supply: true, high: false }
    }
}

impl Lines {
    /// The state before a driver has changed a line.
    pub(crate) const OFF: Self = Self { clock: false, fast: false, reset: true, supply: false, high: false };

    /// Whether the device has what it needs to work.
    fn is_up(self) -> bool {
        self.clock && !self.reset && self.supply
    }

    /// Whether the voltage is too low for the clock that runs.
    fn is_overclocked(self) -> bool {
        self.clock && self.fast && !(self.supply && self.high)
    }
}

/// The faults that the guest has requested.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Armed {
    pub(crate) hang: u32,
    pub(crate) refuse: u32,
    pub(crate) lose: u32,
    /// The least time of each start in microseconds.
    pub(crate) delay: u32,
    /// Whether every register reads all ones, as if no device answered.
    pub(crate) mute: bool,
    /// Whether resets have no effect.
    pub(crate) deaf: bool,
    /// Whether the convolution buffer reads as not clear.
    pub(crate) unclear: bool,
}

/// Counts down the number of a fault's events, and returns whether this event has the fault.
fn take(armed: &mut u32) -> bool {
    let was = *armed > 0;
    *armed = armed.saturating_sub(1);
    was
}

impl Schedule {
    pub(crate) fn new(chosen: Faults, lines: Lines) -> Self {
        let armed = Armed { delay: chosen.delay, deaf: chosen.deaf, ..Armed::default() };
        Self { chosen, armed, lines, undefined: !lines.supply, ..Self::default() }
    }

    /// Sets the board's lines. Returns their previous state.
    pub(crate) fn set_lines(&mut self, lines: Lines) -> Lines {
        self.stops += u64::from(self.lines.clock && !lines.clock);
        self.unanswered += u64::from(lines.is_overclocked());
        // A reset takes effect with the supply and the clock only.
        self.undefined &= !(lines.supply && lines.clock && lines.reset);
        self.undefined |= !lines.supply;
        std::mem::replace(&mut self.lines, lines)
    }

    /// Whether the device can work.
    pub(crate) fn is_up(&self) -> bool {
        self.lines.is_up() && !self.undefined
    }

    /// The number of times that the clock has stopped.
    pub(crate) fn stops(&self) -> u64 {
        self.stops
    }

    /// Returns whether the device answers a register access, and counts the access if the device cannot.
    pub(crate) fn answers(&mut self) -> bool {
        self.unanswered += u64::from(!self.is_up());
        self.is_up() && !self.armed.mute
    }

    /// Counts a start, and returns its faults.
    pub(crate) fn start(&mut self) -> Plan {
        self.starts += 1;
        self.unended += 1;
        let number = self.starts;
        Plan {
            delay: Duration::from_micros(self.armed.delay.into()),
            hang: self.chosen.hang.contains(&number) | take(&mut self.armed.hang),
            refuse: self.chosen.refuse_memory.contains(&number) | take(&mut self.armed.refuse),
            spurious: self.chosen.spurious_interrupt.contains(&number),
            resets: self.resets,
        }
    }

    /// Counts an interrupt, and returns whether it is delivered.
    pub(crate) fn interrupt(&mut self) -> bool {
        self.interrupts += 1;
        let lost = self.chosen.lose_interrupt.contains(&self.interrupts) | take(&mut self.armed.lose);
        if lost {
            log::info!("interrupt {} is lost, as requested", self.interrupts);
        }
        !lost
    }

    /// An operation has ended.
    pub(crate) fn finish(&mut self) {
        self.unended = self.unended.saturating_sub(1);
    }

    /// Applies a reset, after which no operation runs.
    pub(crate) fn reset(&mut self) {
        self.resets += 1;
        self.unended = 0;
    }

    /// The number of operations that have started and not ended.
    pub(crate) fn unended(&self) -> u64 {
        self.unended
    }

    /// The number of resets so far.
    pub(crate) fn resets(&self) -> u64 {
        self.resets
    }

    /// The numbers of starts, interrupts and register accesses without an answer so far.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        (self.starts, self.interrupts, self.unanswered)
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
        schedule.finish();
        assert_eq!(schedule.unended(), 3);
        schedule.reset();
        assert_eq!(schedule.unended(), 0);
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
        let in_reset = Lines { reset: true, ..Lines::default() };
        assert_eq!(schedule.set_lines(in_reset), Lines::OFF);
        assert!(!schedule.answers());
        schedule.set_lines(Lines::default());
        assert!(schedule.answers());
        // An access to a device that is mute on purpose is not counted.
        schedule.armed.mute = true;
        assert!(!schedule.answers());
        schedule.set_lines(Lines { clock: false, ..Lines::default() });
        assert_eq!((schedule.counts().2, schedule.stops()), (2, 1));
    }

    #[test]
    fn a_device_whose_supply_was_off_answers_after_a_reset() {
        let mut schedule = Schedule::new(Faults::default(), Lines::default());
        let on = Lines::default();
        schedule.set_lines(Lines { supply: false, ..on });
        assert!(!schedule.answers());
        // A reset line that is asserted while the supply is off has no effect.
        schedule.set_lines(Lines { supply: false, reset: true, ..on });
        schedule.set_lines(on);
        assert!(!schedule.answers());
        schedule.set_lines(Lines { reset: true, ..on });
        schedule.set_lines(on);
        assert!(schedule.answers());
        assert_eq!(schedule.counts().2, 2);
    }

    #[test]
    fn a_fast_clock_at_the_low_voltage_is_counted() {
        let mut schedule = Schedule::new(Faults::default(), Lines::default());
        schedule.set_lines(Lines { high: true, ..Lines::default() });
        schedule.set_lines(Lines { high: true, fast: true, ..Lines::default() });
        schedule.set_lines(Lines { clock: false, fast: true, ..Lines::default() });
        assert_eq!(schedule.counts().2, 0);
        schedule.set_lines(Lines { fast: true, ..Lines::default() });
        assert_eq!(schedule.counts().2, 1);
    }
}
