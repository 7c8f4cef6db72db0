// SPDX-License-Identifier: MIT OR Apache-2.0

//! The device of the virtual machine, between its register accesses and interrupts on one side, and the model on the other.
//!
//! The server thread answers accesses. A worker thread performs operations, because one may take longer than the virtual machine
//! waits for an answer. Interrupts are delivered as events: INTx while the line is up and neither masked nor disabled by the
//! command register; MSI when the line rises, or is still up after software has acknowledged a part of it.
//!
//! A simulator of the RTL may replace the model. The worker then clocks it for short times, and accesses are answered in between.

use std::fs::File;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::fcntl::{fcntl, FcntlArg, SealFlag};
use nvdla_model::device::Model;
use nvdla_model::memory::Stop;
use nvdla_model::simulation::Simulation;
use nvdla_rtl::Simulator;
use nvdla_uapi::reg::{cdma, glb, Block};
use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_ACTION_UNMASK, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_PCI_BAR0_REGION_INDEX,
    VFIO_PCI_BAR2_REGION_INDEX, VFIO_PCI_BAR4_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_INTX_IRQ_INDEX,
    VFIO_PCI_MSI_IRQ_INDEX,
};
use vfio_user::{DmaMapFlags, DmaUnmapFlags, ServerBackend};

use crate::board::Board;
use crate::control::{self, Action, Counts, Ranges, Search};
use crate::faults::{Faults, Lines, Schedule};
use crate::guest::Guest;
use crate::pci::Configuration;
use crate::sram::Sram;
use crate::stale::Stale;

/// How long a simulator of the RTL runs before a register access is answered.
const SLICE: Duration = Duration::from_millis(2);
/// The primary memory interface, which accesses the guest's memory.
const PRIMARY: u32 = 0b01;
/// The secondary memory interface, which accesses the SRAM.
const SECONDARY: u32 = 0b10;

/// The most bytes that one message reads, which the version message tells the client (`max_data_xfer_size`).
const MAX_ACCESS: usize = 1 << 20;

/// The simulation behind the device.
pub(crate) enum Core {
    /// The model.
    Model(Box<Model>),
    /// A simulator of the RTL.
    Rtl(Box<Simulator>),
}

impl Core {
    fn device(&mut self) -> &mut dyn Simulation {
        match self {
            Self::Model(model) => &mut **model,
            Self::Rtl(simulator) => &mut **simulator,
        }
    }
}

/// The receivers of interrupts.
#[derive(Default)]
struct Interrupts {
    intx: Option<File>,
    msi: Option<File>,
    /// The command register disables INTx. An event would then be wrong: QEMU asserts the line at each event and keeps it
    /// asserted until the next register access, and a driver that finds no cause makes no access.
    intx_disabled: bool,
}

/// State that the server and the worker share. Locks are taken in the order of the fields. An operation runs under the guest's
/// lock.
struct Shared {
    guest: Mutex<Guest>,
    /// Held by an access that waits for the device, so that the worker does not lock the device again first.
    turn: Mutex<()>,
    core: Mutex<Core>,
    interrupts: Mutex<Interrupts>,
    /// Whether software has written a register since the worker last checked, and whether the worker must end.
    pending: Mutex<(bool, bool)>,
    wake: Condvar,
    schedule: Mutex<Schedule>,
    board: Board,
    /// Whether operations may access memory.
    masters: AtomicBool,
}

/// Whether nobody can shorten the file. Only a memory file can be sealed.
fn keeps_its_length(file: &File) -> bool {
    fcntl(file, FcntlArg::F_GET_SEALS).is_ok_and(|seals| seals & SealFlag::F_SEAL_SHRINK.bits() != 0)
}

/// Locks a mutex even if it is poisoned, because it guards plain data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Calls a function with the device, before the worker locks it again.
    fn with_device<T>(&self, work: impl FnOnce(&mut dyn Simulation) -> T) -> T {
        let _turn = lock(&self.turn);
        work(lock(&self.core).device())
    }

    /// Signals to the virtual machine that the line is up.
    fn raise(&self) {
        let mut interrupts = lock(&self.interrupts);
        let Interrupts { intx, msi, intx_disabled } = &mut *interrupts;
        if msi.is_none() && *intx_disabled || !lock(&self.schedule).interrupt() {
            return;
        }
        if let Some(event) = msi.as_mut().or(intx.as_mut()) {
            if let Err(error) = event.write_all(&1u64.to_ne_bytes()) {
                log::error!("an interrupt was not delivered: {error}");
            }
        }
    }

    /// Whether the interrupt controller sees a line that is asserted, and takes it for an interrupt whenever it looks.
    fn repeats(&self) -> bool {
        self.board.repeats() && self.board.asserts(self.with_device(|device| device.interrupt()))
    }

    /// Applies the command register's bit that disables INTx. Enabling it delivers a line that is up.
    fn disable_intx(&self, disable: bool) {
        let again = self.repeats();
        let mut interrupts = lock(&self.interrupts);
        let disabled = std::mem::replace(&mut interrupts.intx_disabled, disable);
        let again = disabled && !disable && again && interrupts.msi.is_none();
        drop(interrupts);
        if again {
            self.raise();
        }
    }

    /// Resets the device. A running operation ends first, so the device does not access memory afterwards.
    fn reset(&self) {
        if lock(&self.schedule).armed.deaf {
            log::info!("a reset has no effect, as requested");
            return;
        }
        let _quiet = lock(&self.guest);
        self.with_device(|device| device.reset());
        lock(&self.schedule).reset();
    }

    /// Maps the SRAM for a simulator of the RTL.
    fn map_sram(&self, guest: &Guest) -> io::Result<()> {
        let Some(sram) = &guest.sram else { return Ok(()) };
        self.with_device(|device| device.map(0, sram.size().into(), sram.file(), 0, SECONDARY, true))
    }

    /// Applies a change of the board's lines. A device loses what it holds without its supply.
    fn set_lines(&self, lines: Lines) {
        let before = lock(&self.schedule).set_lines(lines);
        if lines.reset && !before.reset {
            self.reset();
        }
        if before.supply && !lines.supply && !lock(&self.schedule).armed.deaf {
            let _quiet = lock(&self.guest);
            self.with_device(|device| device.reset());
        }
        if lock(&self.schedule).is_up() {
            self.kick();
        }
    }

    /// Wakes the worker, which then checks for operations.
    fn kick(&self) {
        lock(&self.pending).0 = true;
        self.wake.notify_one();
    }

    /// Performs operations until the worker is stopped.
    fn work(&self) {
        loop {
            let mut pending = lock(&self.pending);
            while !pending.0 && !pending.1 {
                pending = self.wake.wait(pending).unwrap_or_else(PoisonError::into_inner);
            }
            if pending.1 {
                return;
            }
            pending.0 = false;
            drop(pending);
            while self.perform() {}
        }
    }

    /// Performs the next operation, if there is one. Returns whether there was one.
    ///
    /// Registers can be accessed during the operation: only its start and its end lock the model.
    fn perform(&self) -> bool {
        let mut guest = lock(&self.guest);
        if !lock(&self.schedule).is_up() {
            return false;
        }
        let work = match &mut *lock(&self.core) {
            Core::Model(model) => model.start(),
            Core::Rtl(_) => None,
        };
        let Some(work) = work else {
            drop(guest);
            return self.clock();
        };
        let plan = lock(&self.schedule).start();
        if !plan.delay.is_zero() {
            // Released first, so that a reset does not have to wait.
            drop(guest);
            std::thread::sleep(plan.delay);
            guest = lock(&self.guest);
            if lock(&self.schedule).resets() != plan.resets {
                return true;
            }
        }
        if plan.spurious {
            self.raise();
        }
        if plan.hang {
            log::info!("an operation never ends, as requested");
            return true;
        }
        let blocked = !self.masters.load(Ordering::Relaxed);
        lock(&self.schedule).blocked += u64::from(blocked);
        let refuse = plan.refuse || blocked;
        guest.begin(refuse);
        let finished = work.run(&mut *guest);

        let mut core = lock(&self.core);
        let Core::Model(model) = &mut *core else { return false };
        let before = self.board.asserts(model.interrupt());
        model.finish(finished);
        lock(&self.schedule).finish();
        while let Some(stop) = model.take_stop() {
            if refuse {
                log::info!("{stop}, as requested");
            } else {
                log::error!("{stop}");
            }
        }
        let rises = !before && self.board.asserts(model.interrupt());
        drop((core, guest));
        if rises {
            self.raise();
        }
        true
    }

    /// Clocks a simulator of the RTL for a short time. Returns whether it has more to do.
    fn clock(&self) -> bool {
        drop(lock(&self.turn));
        let mut core = lock(&self.core);
        let Core::Rtl(simulator) = &mut *core else { return false };
        let before = self.board.asserts(simulator.interrupt());
        let more = simulator.run(SLICE);
        let mut outside = 0;
        while let Some(stop) = simulator.take_stop() {
            outside += u64::from(matches!(stop, Stop::Fault(_)));
            log::error!("{stop}");
        }
        let rises = !before && self.board.asserts(simulator.interrupt());
        drop(core);
        if outside > 0 {
            lock(&self.guest).outside.fetch_add(outside, Ordering::Relaxed);
        }
        if rises {
            self.raise();
        }
        more
    }
}

/// The device that the server presents on the socket.
pub(crate) struct Device {
    configuration: Configuration,
    status: u32,
    /// The offset of the register that says whether the convolution buffer is clear.
    flush: u32,
    shared: Arc<Shared>,
    worker: Option<std::thread::JoinHandle<()>>,
    ranges: Ranges,
    search: Search,
    control: bool,
    /// Whether PCI's bus mastering matters, which it does not for a device that the guest has in a device tree.
    mastered: bool,
    /// Bytes of the SRAM.
    sram: u32,
    /// The address of the SRAM's BAR.
    sram_address: u64,
    reads: u64,
    writes: u64,
    /// Whether the client has used the device.
    used: Arc<AtomicBool>,
}

impl Device {
    /// Makes the device; with `control`, also the control window for tests in the guest.
    pub(crate) fn new(
        mut core: Core,
        board: Board,
        faults: Faults,
        lines: Lines,
        control: bool,
        sram: Option<Sram>,
    ) -> io::Result<Self> {
        let config = core.device().config();
        let base = |block: Block| block.base(config.family).unwrap_or(0);
        let status = base(Block::Glb) + u32::from(glb::S_INTR_STATUS.offset);
        let flush = base(Block::Cdma) + u32::from(cdma::S_CBUF_FLUSH_STATUS.offset);
        let mut guest = Guest::new(sram)?;
        guest.offset = board.dma_offset;
        guest.end = board.dma_end.unwrap_or(u64::MAX);
        guest.stale = board.incoherent.then(Stale::new).transpose()?;
        let shared = Arc::new(Shared {
            guest: Mutex::new(guest),
            turn: Mutex::default(),
            core: Mutex::new(core),
            interrupts: Mutex::default(),
            pending: Mutex::default(),
            wake: Condvar::new(),
            schedule: Mutex::new(Schedule::new(faults, lines)),
            board,
            masters: AtomicBool::new(true),
        });
        let sram = {
            let guest = lock(&shared.guest);
            shared.map_sram(&guest)?;
            guest.sram.as_ref().map_or(0, Sram::size)
        };
        let worker = {
            let shared = Arc::clone(&shared);
            std::thread::Builder::new().name("model".into()).spawn(move || shared.work())?
        };
        Ok(Self {
            configuration: Configuration::new(control, sram),
            status,
            flush,
            shared,
            worker: Some(worker),
            ranges: Ranges::default(),
            search: Search::default(),
            control,
            mastered: control && lines == Lines::default(),
            sram,
            sram_address: 0,
            reads: 0,
            writes: 0,
            used: Arc::default(),
        })
    }

    /// Whether the client has used the device.
    pub(crate) fn used(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.used)
    }

    /// Ends the use of a disconnected client's memory.
    pub(crate) fn disconnect(&mut self) {
        *lock(&self.shared.interrupts) = Interrupts::default();
        self.shared.reset();
        if let Err(error) = self.dma_unmap(DmaUnmapFlags::UNMAP_ALL, 0, 0) {
            log::error!("the last client's memory stays mapped: {error}");
        }
        self.configuration = Configuration::new(self.control, self.sram);
        // Last, because the calls above are those of a client that uses the device.
        self.used.store(false, Ordering::Release);
    }

    /// Register reads, register writes, interrupts, accesses outside, starts, resets, register accesses that hardware could
    /// not answer, and stops of the clock so far.
    pub(crate) fn counts(&self) -> Counts {
        let outside = lock(&self.shared.guest).outside.load(Ordering::Relaxed);
        let schedule = lock(&self.shared.schedule);
        let (starts, interrupts, unanswered) = schedule.counts();
        [self.reads, self.writes, interrupts, outside, starts, schedule.resets(), unanswered, schedule.stops()]
    }

    /// The number of the model's operations that have started and not ended.
    pub(crate) fn unended(&self) -> u64 {
        lock(&self.shared.schedule).unended()
    }

    fn read_register(&mut self, offset: u64) -> u32 {
        self.reads += 1;
        let Some(register) = self.shared.board.register(offset) else { return u32::MAX };
        let mut schedule = lock(&self.shared.schedule);
        if !schedule.answers() {
            return u32::MAX;
        }
        if schedule.armed.unclear && register == self.flush {
            return 0;
        }
        drop(schedule);
        self.shared.board.value(self.shared.with_device(|device| device.read(register)))
    }

    fn read_control(&mut self, offset: u64) -> u32 {
        match offset {
            control::MAPPED => return (lock(&self.shared.guest).mapped() >> 10) as u32,
            control::BLOCKED => return lock(&self.shared.schedule).blocked as u32,
            _ => {}
        }
        // A read of a counter returns the value before this access.
        let counts = self.counts();
        let schedule = lock(&self.shared.schedule);
        control::read(offset, &schedule.armed, schedule.lines, &counts, &mut self.ranges, &self.search)
    }

    fn write_control(&mut self, offset: u64, value: u32) {
        let mut schedule = lock(&self.shared.schedule);
        let lines = schedule.lines;
        let action = control::write(offset, value, &mut schedule.armed, lines, &mut self.ranges, &mut self.search);
        drop(schedule);
        match action {
            Action::None => {}
            Action::Interrupt => self.shared.raise(),
            Action::Find => {
                self.search.found = lock(&self.shared.guest).find_page(&self.search.mark()).unwrap_or(u64::MAX);
            }
            Action::Ranges => {
                let list = self.ranges.list();
                let mut ranges: Vec<_> =
                    list.iter().map(|&(start, length)| start..start.saturating_add(length)).collect();
                // The list is for the guest's memory. A simulator's list is for both memories.
                if !ranges.is_empty() && self.sram > 0 {
                    ranges.push(0..u64::from(self.sram));
                }
                let ranges = (!ranges.is_empty()).then_some(&ranges[..]);
                if let Err(error) = self.shared.with_device(|device| device.allow(ranges)) {
                    log::error!("the list of memory ranges is refused: {error}");
                }
                lock(&self.shared.guest).allowed = list;
            }
            Action::Lines(now) => self.shared.set_lines(now),
        }
    }

    fn write_register(&mut self, offset: u64, value: u32) {
        self.writes += 1;
        let board = self.shared.board;
        let Some(register) = board.register(offset) else { return };
        if !lock(&self.shared.schedule).answers() {
            return;
        }
        let (before, after) = self.shared.with_device(|device| {
            let before = board.asserts(device.interrupt());
            device.write(register, board.value(value));
            (before, board.asserts(device.interrupt()))
        });
        if after && (!before || board.repeats() && register == self.status) {
            self.shared.raise();
        }
        self.shared.kick();
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        lock(&self.shared.pending).1 = true;
        self.shared.wake.notify_one();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

impl ServerBackend for Device {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.used.store(true, Ordering::Release);
        if data.len() > MAX_ACCESS {
            return Err(io::Error::other(format!("a read of {} bytes, and the limit is {MAX_ACCESS}", data.len())));
        }
        data.fill(0);
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => {
                self.configuration.set_interrupt(self.shared.with_device(|device| device.interrupt()));
                if let Some(bytes) =
                    usize::try_from(offset).ok().and_then(|offset| self.configuration.read(offset, data.len()))
                {
                    data.copy_from_slice(bytes);
                }
            }
            VFIO_PCI_BAR0_REGION_INDEX if data.len() == 4 => {
                data.copy_from_slice(&self.read_register(offset).to_le_bytes());
            }
            VFIO_PCI_BAR4_REGION_INDEX => {
                if let Some(bytes) = lock(&self.shared.guest).sram_mut(offset, data.len()) {
                    data.copy_from_slice(bytes);
                }
            }
            VFIO_PCI_BAR2_REGION_INDEX if data.len() == 4 && self.control => {
                data.copy_from_slice(&self.read_control(offset).to_le_bytes());
            }
            _ => {}
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        self.used.store(true, Ordering::Release);
        // Writes are posted. An error here would end the connection, so invalid writes are ignored.
        match region {
            VFIO_PCI_CONFIG_REGION_INDEX => {
                let reset = usize::try_from(offset).is_ok_and(|offset| self.configuration.write(offset, data));
                if reset {
                    self.shared.reset();
                }
                self.shared.masters.store(!self.mastered || self.configuration.masters(), Ordering::Relaxed);
                self.shared.disable_intx(self.configuration.disables_interrupt());
                // A running operation has the guest's lock, so it is taken only when the BAR moves.
                let address = self.configuration.sram_address();
                if std::mem::replace(&mut self.sram_address, address) != address {
                    if let Some(sram) = &mut lock(&self.shared.guest).sram {
                        sram.set_base(address);
                    }
                }
            }
            VFIO_PCI_BAR0_REGION_INDEX => match <[u8; 4]>::try_from(data) {
                Ok(bytes) => self.write_register(offset, u32::from_le_bytes(bytes)),
                Err(_) => log::warn!("a write of {} bytes at {offset:#x} of BAR 0 is ignored", data.len()),
            },
            VFIO_PCI_BAR4_REGION_INDEX => {
                if let Some(bytes) = lock(&self.shared.guest).sram_mut(offset, data.len()) {
                    bytes.copy_from_slice(data);
                }
            }
            VFIO_PCI_BAR2_REGION_INDEX if self.control => {
                if let Ok(bytes) = data.try_into() {
                    self.write_control(offset, u32::from_le_bytes(bytes));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        flags: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        self.used.store(true, Ordering::Release);
        // Ranges without a file (video memory, firmware) cannot be accessed by this device.
        let Some(file) = file else { return Ok(()) };
        log::debug!("guest memory {address:#x}, {size:#x} bytes");
        // An access beyond the end of a file is a signal that ends this process.
        let (regular, length) = file.metadata().map(|data| (data.is_file(), data.len()))?;
        if regular && offset.checked_add(size).is_none_or(|end| end > length) {
            return Err(io::Error::other(format!(
                "{size:#x} bytes from {offset:#x} are not in a file of {length:#x} bytes"
            )));
        }
        if regular && !keeps_its_length(&file) {
            return Err(io::Error::other(format!(
                "the memory at {address:#x} is in a file that can become shorter, which would end this process; \
                 memory-backend-memfd of QEMU seals its file (F_SEAL_SHRINK)"
            )));
        }
        let writable = flags.contains(DmaMapFlags::WRITE);
        lock(&self.shared.guest).map(address, size, &file, offset, writable)?;
        self.shared.with_device(|device| device.map(address, size, &file, offset, PRIMARY, writable))
    }

    fn dma_unmap(&mut self, flags: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        self.used.store(true, Ordering::Release);
        let mut guest = lock(&self.shared.guest);
        let (address, size) = if flags.contains(DmaUnmapFlags::UNMAP_ALL) {
            guest.clear()?;
            (0, u64::MAX)
        } else {
            guest.unmap(address, size)?;
            (address, size)
        };
        self.shared.with_device(|device| device.unmap(address, size))?;
        // A simulator unmaps the range from both memories.
        if address < u64::from(self.sram) {
            self.shared.map_sram(&guest)?;
        }
        Ok(())
    }

    fn reset(&mut self) -> io::Result<()> {
        self.used.store(true, Ordering::Release);
        self.shared.reset();
        Ok(())
    }

    fn set_irqs(&mut self, index: u32, flags: u32, _start: u32, count: u32, mut fds: Vec<File>) -> io::Result<()> {
        self.used.store(true, Ordering::Release);
        let up = self.shared.repeats();
        let mut interrupts = lock(&self.shared.interrupts);
        let slot = match index {
            VFIO_PCI_INTX_IRQ_INDEX => &mut interrupts.intx,
            VFIO_PCI_MSI_IRQ_INDEX => &mut interrupts.msi,
            _ => return Ok(()),
        };
        if flags & VFIO_IRQ_SET_ACTION_TRIGGER != 0 {
            if count == 0 {
                *slot = None;
            } else if flags & VFIO_IRQ_SET_DATA_EVENTFD != 0 {
                *slot = fds.pop();
            }
        }
        let unmasked = index == VFIO_PCI_INTX_IRQ_INDEX && flags & VFIO_IRQ_SET_ACTION_UNMASK != 0;
        let again = unmasked && up && interrupts.msi.is_none();
        drop(interrupts);
        if again {
            self.shared.raise();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use nvdla_uapi::config::NV_SMALL;

    use nix::sys::memfd::{memfd_create, MFdFlags};

    use super::*;
    use crate::pci::{COMMAND, INTERRUPT_DISABLE};

    /// A device whose interrupt line is a socket.
    fn device() -> (Device, UnixStream) {
        let core = Core::Model(Box::new(Model::new(&NV_SMALL)));
        let mut device = Device::new(core, Board::default(), Faults::default(), Lines::default(), false, None).unwrap();
        let (events, line) = UnixStream::pair().unwrap();
        events.set_nonblocking(true).unwrap();
        let flags = VFIO_IRQ_SET_ACTION_TRIGGER | VFIO_IRQ_SET_DATA_EVENTFD;
        let line = File::from(std::os::fd::OwnedFd::from(line));
        device.set_irqs(VFIO_PCI_INTX_IRQ_INDEX, flags, 0, 1, vec![line]).unwrap();
        (device, events)
    }

    fn events(events: &mut UnixStream) -> usize {
        let mut bytes = [0; 256];
        events.read(&mut bytes).map_or(0, |length| length / 8)
    }

    fn write(device: &mut Device, register: u16, value: u32) {
        let offset = u64::from(Block::Glb.base(NV_SMALL.family).unwrap() + u32::from(register));
        device.region_write(VFIO_PCI_BAR0_REGION_INDEX, offset, &value.to_le_bytes()).unwrap();
    }

    fn command(device: &mut Device, value: u16) {
        device.region_write(VFIO_PCI_CONFIG_REGION_INDEX, COMMAND as u64, &value.to_le_bytes()).unwrap();
    }

    fn unmask(device: &mut Device) {
        device.set_irqs(VFIO_PCI_INTX_IRQ_INDEX, VFIO_IRQ_SET_ACTION_UNMASK, 0, 1, Vec::new()).unwrap();
    }

    #[test]
    fn memory_beyond_the_end_of_its_file_is_refused() {
        let (mut device, _line) = device();
        let file = File::from(memfd_create(c"guest", MFdFlags::MFD_ALLOW_SEALING).unwrap());
        file.set_len(0x2000).unwrap();
        let mut map = |offset, size| {
            device.dma_map(DmaMapFlags::READ_WRITE, offset, 0x1000, size, Some(file.try_clone().unwrap()))
        };
        let error = map(0, 0x1000).unwrap_err();
        assert!(error.to_string().contains("can become shorter"), "{error}");
        fcntl(&file, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
        map(0x1000, 0x1000).unwrap();
        for (offset, size) in [(0, 0x3000), (0x1000, 0x2000), (u64::MAX - 0xfff, 0x1000), (u64::MAX, 1)] {
            assert!(map(offset, size).is_err(), "{offset:#x} {size:#x}");
        }
    }

    #[test]
    fn a_line_that_the_command_register_disables_makes_no_event() {
        let (mut device, mut line) = device();
        write(&mut device, glb::S_INTR_SET.offset, 1);
        assert_eq!(events(&mut line), 1, "the line rises");
        unmask(&mut device);
        assert_eq!(events(&mut line), 1, "it is up when it is unmasked");
        // The accesses of uio_pci_generic in its handler, and of QEMU at the next register access.
        command(&mut device, INTERRUPT_DISABLE);
        unmask(&mut device);
        write(&mut device, glb::S_INTR_SET.offset, 2);
        write(&mut device, glb::S_INTR_STATUS.offset, 1);
        assert_eq!(events(&mut line), 0, "the line is up, and disabled");
        command(&mut device, 0);
        assert_eq!(events(&mut line), 1, "it is up when it is enabled");
        command(&mut device, INTERRUPT_DISABLE);
        write(&mut device, glb::S_INTR_STATUS.offset, 2);
        command(&mut device, 0);
        assert_eq!(events(&mut line), 0, "the line is down");
    }
}
