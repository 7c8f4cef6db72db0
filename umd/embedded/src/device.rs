// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device, and the runs of networks on it.

use core::mem::MaybeUninit;
use core::sync::atomic::{fence, Ordering};
use core::time::Duration;

use nvdla_emulator::Stop;
use nvdla_engine::{identify, Engine, OutOfRange, Progress, Slot};
use nvdla_uapi::config::Config;

use super::board::Board;
use super::error::Error;
use super::functions::Libm;
use super::loadable::{Interface, Task};
use super::network::{InArena, Network, Ready};

/// An NVDLA that this processor drives.
pub struct Device<'a, B> {
    board: B,
    engine: Engine<&'a mut [Slot]>,
}

impl<B> core::fmt::Debug for Device<'_, B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Device").field("config", &self.engine.config().name).finish_non_exhaustive()
    }
}

/// The time of a run.
struct Clock {
    end: u64,
    limit: Duration,
}

impl<'a, B: Board> Device<'a, B> {
    /// Takes over the device of a board. Its configuration is read from its registers.
    ///
    /// # Errors
    ///
    /// When no NVDLA answers, and when it is busy and the board cannot reset it.
    pub fn open(mut board: B) -> Result<Self, Error> {
        let config = identify(&mut board).ok_or(Error::NoDevice)?.config;
        let mut device = Self { engine: Engine::new(config), board };
        device.take_over()?;
        Ok(device)
    }

    /// As [`Device::open`], but makes the device where it stays. It has 5 KB, of which `open` needs several copies on the stack.
    ///
    /// # Errors
    ///
    /// As [`Device::open`].
    pub fn open_in(place: &mut MaybeUninit<Self>, mut board: B) -> Result<&mut Self, Error> {
        let config = identify(&mut board).ok_or(Error::NoDevice)?.config;
        let device = place.write(Self { engine: Engine::new(config), board });
        device.take_over()?;
        Ok(device)
    }

    /// Its configuration.
    pub fn config(&self) -> &'static Config {
        self.engine.config()
    }

    /// Its board.
    pub fn board(&mut self) -> &mut B {
        &mut self.board
    }

    /// Brings the registers of an idle device to their values after reset.
    fn take_over(&mut self) -> Result<(), Error> {
        if !self.engine.is_idle(&mut self.board) {
            self.board.reset();
            if !self.engine.is_idle(&mut self.board) {
                return Err(Error::Busy);
            }
        }
        self.engine.adopt(&mut self.board);
        Ok(())
    }

    /// Runs a network: its tasks in order, within that time.
    ///
    /// # Errors
    ///
    /// When a task does not end in time. The network can run again afterwards, if the device can be reset.
    pub fn run(&mut self, network: &mut Network<'a>, limit: Duration) -> Result<(), Error> {
        if self.engine.needs_reset() {
            self.board.reset();
            self.take_over()?;
        }
        let nanoseconds = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let clock = Clock { end: self.board.now().saturating_add(nanoseconds), limit };
        let loadable = network.loadable;
        for task in loadable.order()? {
            let task = task?;
            match task.interface {
                Interface::Nvdla => self.run_on_device(network, task, &clock)?,
                Interface::Emulator => self.emulate(network, task, &clock)?,
            }
        }
        Ok(())
    }

    fn run_on_device(&mut self, network: &mut Network<'a>, task: Task<'a>, clock: &Clock) -> Result<(), Error> {
        let id = task.id;
        let place = network.tasks.iter_mut().find(|place| matches!(place, Some((other, _)) if *other == id));
        // Loading has validated every task, and a run puts each back.
        let Some((Some((_, ready)), place)) = place.map(|place| (place.take(), place)) else {
            return Err(Error::NotALoadable);
        };
        let bytes = network.arena.bytes();
        let (start, size) = (bytes.as_ptr(), bytes.len());
        fence(Ordering::SeqCst);
        self.board.clean(start, size);
        let (ready, result) = self.drive(id, ready, clock);
        fence(Ordering::SeqCst);
        self.board.invalidate(start, size);
        let mut memory = InArena { loadable: network.loadable, task, arena: &mut network.arena };
        let written = ready.as_ref().map_or(Ok(()), |ready| ready.write_statistics(&mut memory));
        *place = ready.map(|ready| (id, ready));
        result?;
        written.map_err(|OutOfRange| Error::Statistics { task: id })
    }

    /// Runs a task on the device, and returns it.
    fn drive(&mut self, id: u16, ready: Ready<'a>, clock: &Clock) -> (Option<Ready<'a>>, Result<(), Error>) {
        let now = self.board.now();
        if let Err(submission) = self.engine.submit(&mut self.board, ready, now, clock.end) {
            return (Some(submission.task), Err(Error::NotTaken { task: id, error: submission.error }));
        }
        loop {
            let now = self.board.now();
            match self.engine.process_events(&mut self.board, now) {
                Progress::Completed { .. } => {}
                Progress::Ended(ready) => return (Some(ready), Ok(())),
                Progress::Waiting { .. } => {
                    if let Some(failure) = self.engine.check_deadline(&mut self.board, now) {
                        let ready = self.engine.abort(&mut self.board).map(|(ready, _)| ready);
                        return (ready, Err(Error::TimedOut { task: id, limit: clock.limit, failure }));
                    }
                    self.board.wait();
                    self.engine.interrupt(&mut self.board);
                }
                // Not while a task runs.
                Progress::Idle => return (None, Err(Error::Busy)),
            }
        }
    }

    fn emulate(&mut self, network: &mut Network<'a>, task: Task<'a>, clock: &Clock) -> Result<(), Error> {
        let mut memory = InArena { loadable: network.loadable, task, arena: &mut network.arena };
        let board = &mut self.board;
        let watch = |_| if board.now() >= clock.end { Err(Stop::Late { limit: clock.limit }) } else { Ok(()) };
        nvdla_emulator::run::<Libm, _>(&mut memory, watch)
            .map(drop)
            .map_err(|error| Error::Emulated { task: task.id, error })
    }
}
