// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The engine of one device. It runs one task at a time.
//!
//! The caller serialises the calls under its own lock, and drives them: [`Engine::submit`] programs and starts the
//! first operations. On each interrupt [`Engine::interrupt`] reads and clears the device's status.
//! [`Engine::process_events`] then handles the completions; the caller repeats it until there is nothing more to
//! report.

use super::device::Device;
use super::device::CDMA_DONE;
use super::dump;
use super::failure::{Cause, Failure, Running, DONE};
use super::hardware::Hardware;
use super::image::Program;
use super::schedule::{Enabled, Executor, GroupIndices, GroupState, Schedule, GROUPS};
use super::slot::{operation, operation_mut, MemoryRange, Operation, Slot};
use super::statistics;
use super::task::Task;
use crate::uapi::config::Config;
use crate::uapi::desc::{Event, OpType, PROCESSORS};
use crate::uapi::dump::{kind, Writer};
use crate::uapi::reg::glb;
use core::fmt;

/// How often the interrupt status is read in one interrupt. A device that still raises bits after that is broken. These bits are
/// handled with the next interrupt.
const STATUS_ROUNDS: u32 = 16;

/// The event and the group of each of CDMA's interrupt bits.
const CDMA_EVENTS: [(u32, usize, Event); 4] = {
    use glb::S_INTR_STATUS as status;
    [
        (status::CDMA_WT_DONE_STATUS0.mask(), 0, Event::CdmaWeightDone),
        (status::CDMA_WT_DONE_STATUS1.mask(), 1, Event::CdmaWeightDone),
        (status::CDMA_DAT_DONE_STATUS0.mask(), 0, Event::CdmaDataDone),
        (status::CDMA_DAT_DONE_STATUS1.mask(), 1, Event::CdmaDataDone),
    ]
};

/// The result of [`Engine::process_events`].
#[derive(Debug)]
pub enum Progress<S> {
    /// An operation has completed. Call again.
    Completed {
        /// The operation's index.
        operation: u32,
        /// Its region of interest.
        roi: u32,
        /// The unit that ran it.
        unit: OpType,
        /// Where its output lies.
        output: Option<MemoryRange>,
    },
    /// The task has ended, all its operations complete. The engine is free.
    Ended(Task<S>),
    /// The task runs. When `poll` is set the device was not ready for an operation, and no interrupt will say when it is:
    /// call again shortly.
    Waiting {
        /// Whether to call again without an interrupt.
        poll: bool,
    },
    /// There is no task.
    Idle,
}

/// Why a task is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubmitError {
    /// Another task runs.
    Busy,
    /// The last one was ended while the device ran; [`Engine::reset`] or [`Engine::adopt`] has not been called since.
    NeedsReset,
    /// The task was validated for another hardware configuration.
    WrongConfig {
        /// The task's.
        task: &'static str,
        /// The device's.
        device: &'static str,
    },
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("another task runs"),
            Self::NeedsReset => f.write_str("the device needs a reset"),
            Self::WrongConfig { task, device } => write!(f, "the task is for {task}, the device is {device}"),
        }
    }
}

impl core::error::Error for SubmitError {}

/// A task that was not accepted, and why.
#[derive(Debug)]
pub struct Submission<S> {
    /// Why.
    pub error: SubmitError,
    /// The task.
    pub task: Task<S>,
}

/// The state of a device's scheduler.
#[derive(Debug)]
pub struct Engine<S> {
    device: Device,
    schedule: Schedule,
    task: Option<Task<S>>,
    deadline_ns: u64,
    /// Interrupt status that was taken and not processed.
    pending: u32,
    /// The interrupts that the task uses.
    wanted: u32,
    last_status: u32,
    interrupts: u32,
    needs_reset: bool,
    /// Registers read as all ones.
    gone: bool,
}

impl<S: AsRef<[Slot]> + AsMut<[Slot]>> Engine<S> {
    /// The engine of a device of that configuration, which has just been reset.
    pub fn new(config: &'static Config) -> Self {
        Self {
            device: Device::new(config),
            schedule: Schedule::new([(0, 0); PROCESSORS]),
            task: None,
            deadline_ns: 0,
            pending: 0,
            wanted: 0,
            last_status: 0,
            interrupts: 0,
            needs_reset: false,
            gone: false,
        }
    }

    /// The device's configuration.
    pub fn config(&self) -> &'static Config {
        self.device.config()
    }

    /// Whether a task runs.
    pub fn is_busy(&self) -> bool {
        self.task.is_some()
    }

    /// When the running task, or the last one, must have ended.
    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// Whether the device did not answer the last interrupt: its registers read as all ones, as they do behind a link
    /// that is down. [`Engine::check_deadline`] then reports this, whatever the time.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// Whether no unit of the device runs anything, so that it touches no memory any more. Not before the device's power
    /// is on.
    pub fn is_idle(&self, hw: &mut impl Hardware) -> bool {
        self.device.is_idle(hw)
    }

    /// Whether the device must be reset before the next task.
    pub fn needs_reset(&self) -> bool {
        self.needs_reset
    }

    /// The device has been reset. A task that was running is handed back.
    pub fn reset(&mut self) -> Option<Task<S>> {
        self.device.reset();
        self.schedule = Schedule::new([(0, 0); PROCESSORS]);
        self.pending = 0;
        (self.needs_reset, self.gone) = (false, false);
        self.task.take()
    }

    /// Takes over a device that is idle but was not reset: another driver used it, or its power was kept. Brings its
    /// registers to their values after reset. A task that was running is handed back.
    pub fn adopt(&mut self, hw: &mut impl Hardware) -> Option<Task<S>> {
        let pointers = self.device.adopt(hw);
        self.schedule = Schedule::new(pointers);
        self.pending = 0;
        (self.needs_reset, self.gone) = (false, false);
        self.task.take()
    }

    /// Starts a task, which must end before `deadline_ns` (in the clock of `now_ns`; `u64::MAX` for no deadline).
    pub fn submit(
        &mut self,
        hw: &mut impl Hardware,
        mut task: Task<S>,
        now_ns: u64,
        deadline_ns: u64,
    ) -> Result<(), Submission<S>> {
        let config = self.device.config();
        let error = if self.task.is_some() {
            Some(SubmitError::Busy)
        } else if self.needs_reset {
            Some(SubmitError::NeedsReset)
        } else if task.config().name != config.name {
            Some(SubmitError::WrongConfig { task: task.config().name, device: config.name })
        } else {
            None
        };
        if let Some(error) = error {
            return Err(Submission { error, task });
        }
        self.deadline_ns = deadline_ns;
        (self.pending, self.last_status, self.interrupts) = (0, 0, 0);
        task.rewind();
        self.wanted = if task.waits_for_cdma() { u32::MAX } else { !CDMA_DONE };
        self.device.set_mask(hw, task.waits_for_cdma());
        self.schedule.start(task.heads(), task.operations());
        self.task = Some(task);
        self.advance(hw, now_ns, true);
        Ok(())
    }

    /// Takes the device's interrupt status and clears it. False when the interrupt was not this device's.
    ///
    /// Reads until nothing is left, so that an interrupt that is signalled once for several causes is not lost.
    pub fn interrupt(&mut self, hw: &mut impl Hardware) -> bool {
        let mut read = 0;
        for _ in 0..STATUS_ROUNDS {
            let Some(status) = self.device.status(hw) else {
                // Bits that were read before cannot be trusted either, so they are not handled.
                self.gone = true;
                return self.task.is_some();
            };
            if status == 0 {
                break;
            }
            self.device.clear(hw, status);
            read |= status;
        }
        if read == 0 {
            return false;
        }
        self.pending |= read & self.wanted;
        self.last_status = read;
        self.interrupts = self.interrupts.saturating_add(1);
        true
    }

    /// Handles the interrupts so far, and returns after one step. Call it until the answer is [`Progress::Waiting`],
    /// [`Progress::Ended`] or [`Progress::Idle`].
    pub fn process_events(&mut self, hw: &mut impl Hardware, now_ns: u64) -> Progress<S> {
        if self.task.is_none() {
            self.pending = 0;
            return Progress::Idle;
        }
        loop {
            if let Some(completed) = self.next_event(hw, now_ns) {
                return completed;
            }
            if self.pending != 0 {
                continue;
            }
            self.schedule.retry();
            self.advance(hw, now_ns, true);
            if self.schedule.has_finished() {
                continue;
            }
            if self.schedule.is_complete() {
                return self.task.take().map_or(Progress::Idle, Progress::Ended);
            }
            return Progress::Waiting { poll: self.schedule.is_deferred() };
        }
    }

    /// Handles one pending event, and returns it if an operation completed.
    fn next_event(&mut self, hw: &mut impl Hardware, now_ns: u64) -> Option<Progress<S>> {
        let (unit, group, event) = match self.schedule.take_finished() {
            Some((unit, group)) => (unit, group, Event::OpCompleted),
            None => self.take_pending()?,
        };
        let slots = self.task.as_mut()?.slots_mut();
        if event != Event::OpCompleted {
            self.schedule.event(slots, unit, group, event);
            self.advance(hw, now_ns, false);
            return None;
        }
        let (_, rdma) = self.schedule.group(unit, group).holds()?;
        // An interrupt of a group that runs nothing means nothing.
        let index = self.schedule.complete(slots, unit, group)?;
        let groups = GroupIndices { group: group as u8, rdma };
        self.count(hw, index, groups, now_ns);
        self.advance(hw, now_ns, false);
        let operation = operation(self.task.as_mut()?.slots_mut(), index)?;
        Some(Progress::Completed {
            operation: operation.index,
            roi: operation.roi,
            unit: operation.op_type,
            output: operation.output,
        })
    }

    /// The next event in the pending interrupt status. One interrupt may have several events. They are handled in the
    /// order in which they happened: CDMA's before completions, and a producer's completion before its consumer's.
    fn take_pending(&mut self) -> Option<(usize, usize, Event)> {
        if self.pending & CDMA_DONE != 0 {
            for (bit, group, event) in CDMA_EVENTS {
                if self.pending & bit != 0 {
                    self.pending &= !bit;
                    return Some((OpType::Conv as usize, group, event));
                }
            }
        }
        for (unit, [first, second]) in DONE.into_iter().enumerate() {
            let group = match (self.pending & first != 0, self.pending & second != 0) {
                (false, false) => continue,
                (true, false) => 0,
                (false, true) => 1,
                // The older operation's first.
                (true, true) => self.schedule.oldest(unit).unwrap_or(0),
            };
            self.pending &= !DONE[unit][group];
            return Some((unit, group, Event::OpCompleted));
        }
        self.pending = 0;
        None
    }

    /// Reads what the unit counted, if the task asks for it.
    fn count(&mut self, hw: &mut impl Hardware, index: u32, groups: GroupIndices, now_ns: u64) {
        let Some(task) = &mut self.task else { return };
        if !task.is_counted() {
            return;
        }
        if let Some(operation) = operation_mut(task.slots_mut(), index) {
            let runtime = now_ns.saturating_sub(operation.started_ns) / 1000;
            let runtime = u32::try_from(runtime).unwrap_or(u32::MAX);
            let (unit, rdma) = (operation.op_type, operation.rdma);
            operation.statistics = Some(statistics::read(&mut self.device, hw, unit, rdma, groups, runtime));
        }
    }

    /// Enables all operations that can be enabled. With `ahead` it also programs the next operations, which must wait
    /// until all completions are known.
    fn advance(&mut self, hw: &mut impl Hardware, now_ns: u64, ahead: bool) {
        if let Some(task) = &mut self.task {
            let counted = task.is_counted();
            let mut driver = DeviceExecutor { hw, device: &mut self.device, counted, now_ns };
            if ahead {
                self.schedule.advance(task.slots_mut(), &mut driver);
            } else {
                self.schedule.enable_ready(task.slots_mut(), &mut driver);
            }
        }
    }

    /// The reason why the running task must end: its deadline has passed, or the device is gone. The caller then calls
    /// [`Engine::abort`].
    pub fn check_deadline(&mut self, hw: &mut impl Hardware, now_ns: u64) -> Option<Failure> {
        if self.task.is_none() || now_ns < self.deadline_ns && !self.gone {
            return None;
        }
        self.failure(hw, Cause::Deadline)
    }

    /// What the running task is doing; `None` without one, and then no register is read: the device may sleep. Changes
    /// nothing.
    pub fn observe(&mut self, hw: &mut impl Hardware) -> Option<Failure> {
        self.task.as_ref()?;
        self.failure(hw, Cause::Observed)
    }

    /// Writes what is known of the running task: the operations that run, with the register values that they are programmed with,
    /// and what all registers hold; no registers of a device that does not answer. `aborted` is the task that [`Engine::abort`] has
    /// handed back, if there is one. The device must be reset after that.
    pub fn dump(&mut self, hw: &mut impl Hardware, aborted: &mut Option<Task<S>>, out: &mut Writer<'_>) {
        let config = self.device.config();
        let was_aborted = self.task.is_none();
        if was_aborted {
            // The schedule is that of this task until the device has been reset.
            core::mem::swap(&mut self.task, aborted);
        }
        let failure = self.failure(hw, Cause::Observed);
        for running in failure.iter().flat_map(|failure| failure.running.iter().flatten()) {
            out.section(kind::OPERATION);
            let flags = [running.unit as u32, running.group.into(), running.enabled.into(), running.waits.into()];
            [running.operation, running.roi].into_iter().chain(flags).for_each(|word| out.put(word));
            let held = self.schedule.group(running.unit as usize, running.group.into()).holds();
            let slots = self.task.as_mut().map(Task::slots_mut);
            if let (Some((index, _)), Some(slots)) = (held, slots) {
                if let Some(operation) = operation(slots, index) {
                    dump::programmed(config, operation, out);
                }
            }
        }
        if was_aborted {
            core::mem::swap(&mut self.task, aborted);
        }
        if self.device.status(hw).is_some() {
            dump::registers(hw, config, out);
        }
    }

    /// Ends the running task and hands it back with what it was doing. The device keeps running what it was given: reset
    /// it, and then call [`Engine::reset`].
    pub fn abort(&mut self, hw: &mut impl Hardware) -> Option<(Task<S>, Failure)> {
        let failure = self.failure(hw, Cause::Aborted)?;
        self.device.mask_interrupts(hw);
        self.needs_reset = true;
        self.pending = 0;
        self.task.take().map(|task| (task, failure))
    }

    /// What the task is doing.
    fn failure(&mut self, hw: &mut impl Hardware, cause: Cause) -> Option<Failure> {
        let answer = self.device.status(hw);
        let (cause, status) = match answer {
            _ if cause == Cause::Deadline && (self.gone || answer.is_none()) => (Cause::Gone, 0),
            _ => (cause, answer.unwrap_or(0)),
        };
        let slots = self.task.as_mut()?.slots_mut();
        let mut running = [None; PROCESSORS * GROUPS];
        for (number, running) in running.iter_mut().enumerate() {
            let (unit, group) = (number / GROUPS, number % GROUPS);
            let held = self.schedule.group(unit, group);
            let operation: Option<&Operation> = held.holds().and_then(|(index, _)| operation(slots, index));
            *running = operation.map(|operation| Running {
                operation: operation.index,
                roi: operation.roi,
                unit: operation.op_type,
                group: group as u8,
                enabled: matches!(held, GroupState::Enabled(..)),
                waits: operation.left,
                interrupt: (status | self.pending) & DONE[unit][group] != 0,
            });
        }
        Some(Failure {
            cause,
            completed: self.schedule.completed(),
            total: self.schedule.total(),
            running,
            status: answer.unwrap_or(u32::MAX),
            last_status: self.last_status,
            interrupts: self.interrupts,
        })
    }
}

/// Carries out the schedule's decisions on the device.
struct DeviceExecutor<'a, H> {
    hw: &'a mut H,
    device: &'a mut Device,
    counted: bool,
    now_ns: u64,
}

impl<H: Hardware> Executor for DeviceExecutor<'_, H> {
    fn program(&mut self, slots: &[Slot], index: u32, groups: GroupIndices) {
        let Some(operation) = operation(slots, index) else { return };
        let table = operation.lut.and_then(|slot| slots.get(slot as usize)).and_then(Slot::table);
        if let Some(table) = table {
            self.device.load_table(self.hw, operation.op_type, table);
        }
        self.device.program(self.hw, &operation.program, groups);
    }

    fn enable(&mut self, operation: &mut Operation, groups: GroupIndices) -> Enabled {
        if operation.op_type == OpType::Conv && !self.device.is_flushed(self.hw) {
            return Enabled::NotYet;
        }
        if matches!(&operation.program, Program::Bdma(transfers) if transfers.count == 0) {
            return Enabled::Complete;
        }
        operation.started_ns = self.now_ns;
        self.device.enable(self.hw, operation.op_type, operation.rdma, groups, self.counted);
        Enabled::Yes
    }
}
