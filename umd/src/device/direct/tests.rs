// SPDX-License-Identifier: MIT OR Apache-2.0

//! `DirectDevice` over a model in this process, with faults of the transport.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use nvdla_model::device::Model;
use nvdla_model::memory::{Memory, Port, Span};
use nvdla_uapi::config::NV_SMALL;

use super::*;
use crate::loadable::Loadable;
use crate::session::{Error as SessionError, Session};

/// The address of the reserved memory.
const START: u64 = 0x4000_0000;
const LENGTH: usize = 8 << 20;

/// The faults of the transport.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    /// Interrupts do not arrive.
    deaf: bool,
    /// Operations do not end.
    hang: bool,
    /// No register answers.
    gone: bool,
    /// There is no reset.
    no_reset: bool,
    /// The reset has no effect.
    no_effect: bool,
    /// Bits of registers that read as ones.
    stuck: u32,
    /// Interrupts arrive all the time.
    noisy: bool,
    /// The interrupt is taken for one only when the line rises.
    edge: bool,
}

/// The model with memory of its own, into which buffers are copied, as through UIO.
struct Bench {
    model: Model,
    memory: Reserved,
    faults: Arc<Mutex<Faults>>,
    /// Bytes that were copied to the memory.
    copied: Arc<Mutex<usize>>,
    /// A register write has raised the interrupt's line.
    risen: bool,
}

struct Reserved(Vec<u8>);

impl Reserved {
    fn place(address: u64, length: usize) -> Option<Range<usize>> {
        let start = usize::try_from(address.checked_sub(START)?).ok()?;
        Some(start..start.checked_add(length)?)
    }
}

impl Memory for Reserved {
    fn read(&self, _port: Port, address: u64, length: usize) -> Option<&[u8]> {
        self.0.get(Self::place(address, length)?)
    }

    fn write(&mut self, _port: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        self.0.get_mut(Self::place(address, length)?)
    }

    fn both(&mut self, read: Span, write: Span) -> Option<(&[u8], &mut [u8])> {
        let (read, write) = (Self::place(read.address, read.length)?, Self::place(write.address, write.length)?);
        nvdla_model::memory::disjoint(&mut self.0, read, write)
    }
}

impl Bench {
    fn faults(&self) -> Faults {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Transport for Bench {
    fn read(&mut self, offset: u32) -> u32 {
        if self.faults().gone {
            window::NO_ANSWER
        } else {
            self.model.read(offset) | self.faults().stuck
        }
    }

    fn write(&mut self, offset: u32, value: u32) {
        let before = self.model.interrupt();
        self.model.write(offset, value);
        self.risen |= !before && self.model.interrupt();
    }

    fn window(&self) -> u32 {
        0x2_0000
    }

    fn has_line(&self) -> bool {
        true
    }

    fn wait(&mut self, limit: Duration) -> io::Result<bool> {
        if !self.faults().hang {
            self.model.run(&mut self.memory);
        }
        let risen = std::mem::take(&mut self.risen);
        let faults = self.faults();
        if faults.noisy || !faults.deaf && if faults.edge { risen } else { self.model.interrupt() } {
            return Ok(true);
        }
        std::thread::sleep(limit);
        Ok(false)
    }

    fn unmask(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn reset(&mut self) -> io::Result<bool> {
        if self.faults().no_reset {
            return Ok(false);
        }
        if self.faults().no_effect {
            return Ok(true);
        }
        self.model.reset();
        Ok(true)
    }

    fn map(&mut self, _buffer: &Buffer) -> io::Result<()> {
        Ok(())
    }

    fn unmap(&mut self, _buffer: &Buffer) -> io::Result<()> {
        Ok(())
    }

    fn copies(&self) -> bool {
        true
    }

    fn copy_to(&mut self, address: u64, bytes: &[u8]) {
        *self.copied.lock().unwrap() += bytes.len();
        self.memory.0[Reserved::place(address, bytes.len()).unwrap()].copy_from_slice(bytes);
    }

    fn copy_from(&mut self, address: u64, bytes: &mut [u8]) {
        bytes.copy_from_slice(&self.memory.0[Reserved::place(address, bytes.len()).unwrap()]);
    }
}

fn bench() -> (DirectDevice, Arc<Mutex<Faults>>, Arc<Mutex<usize>>) {
    let (faults, copied) = (Arc::<Mutex<Faults>>::default(), Arc::<Mutex<usize>>::default());
    // The memory has arbitrary contents at first.
    let memory = Reserved(vec![0xa5; LENGTH]);
    let transport = Bench {
        model: Model::new(&NV_SMALL),
        memory,
        faults: Arc::clone(&faults),
        copied: Arc::clone(&copied),
        risen: false,
    };
    let ranges = vec![START..START + LENGTH as u64];
    let selection = DirectSelection::Uio { node: "/dev/uio0".into(), memory: None };
    let opened = OpenedTransport { transport: Box::new(transport), ranges, files: false, simulated: false };
    (DirectDevice::over(&selection, opened).unwrap(), faults, copied)
}

fn session(device: &mut DirectDevice) -> Session<&mut DirectDevice> {
    let loadable = Loadable::open("../examples/lenet/lenet.nv_small.nvdla").unwrap();
    let mut session = Session::new(loadable, device).unwrap();
    let input = session.input_mut(0).unwrap();
    input.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 37 % 128) as u8);
    session
}

fn by_model() -> Vec<u8> {
    let loadable = Loadable::open("../examples/lenet/lenet.nv_small.nvdla").unwrap();
    let mut session = Session::new(loadable, crate::device::ModelDevice::new(&NV_SMALL)).unwrap();
    let input = session.input_mut(0).unwrap();
    input.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 37 % 128) as u8);
    session.run().unwrap();
    session.output(0).unwrap().to_vec()
}

#[test]
fn copied_buffers_give_the_models_results_and_weights_are_copied_once() {
    let (mut device, _, copied) = bench();
    let mut session = session(&mut device);
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), by_model());
    let first = *copied.lock().unwrap();
    session.input_mut(0).unwrap()[0] ^= 1;
    session.run().unwrap();
    let second = *copied.lock().unwrap() - first;
    assert!(0 < second && second < first / 10, "{first} bytes before the first run, {second} before the second");
    session.run().unwrap();
    assert!(*copied.lock().unwrap() - first - second < second, "an input that nobody has changed is not copied again");
}

#[test]
fn interrupts_that_do_not_arrive_delay_a_task_once() {
    let (mut device, faults, _) = bench();
    faults.lock().unwrap().deaf = true;
    let start = Instant::now();
    let mut session = session(&mut device);
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), by_model());
    assert!(start.elapsed() < 3 * INTERRUPT_TIMEOUT, "{:?}", start.elapsed());
}

#[test]
fn a_device_that_hangs_is_reset_and_runs_the_next_task() {
    let (mut device, faults, _) = bench();
    faults.lock().unwrap().hang = true;
    let mut session = session(&mut device);
    let options = |milliseconds| crate::session::RunOptions {
        timeout: Some(Duration::from_millis(milliseconds)),
        ..Default::default()
    };
    let failure = match session.run_with(options(50)).unwrap_err() {
        SessionError::Task { source: Error::Deadline { failure, .. }, .. } => failure,
        other => panic!("{other:?}"),
    };
    assert!(failure.to_string().contains("was running, and its interrupt did not come"), "{failure}");
    faults.lock().unwrap().hang = false;
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), by_model());
}

#[test]
fn a_device_that_hangs_and_has_no_reset_takes_no_more_tasks() {
    let (mut device, faults, _) = bench();
    *faults.lock().unwrap() = Faults { hang: true, no_reset: true, ..Faults::default() };
    let mut session = session(&mut device);
    let options = || crate::session::RunOptions { timeout: Some(Duration::from_millis(50)), ..Default::default() };
    session.run_with(options()).unwrap_err();
    let error = session.run_with(options()).unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("does not end its operation and has no reset"), "{text}");
}

#[test]
fn a_device_that_goes_away_is_lost() {
    let (mut device, faults, _) = bench();
    let mut session = session(&mut device);
    session.run().unwrap();
    faults.lock().unwrap().gone = true;
    let start = Instant::now();
    let error = format!("{:?}", session.run().unwrap_err());
    assert!(error.contains("its registers read as all ones"), "{error}");
    assert!(start.elapsed() < HARDWARE_LIMIT, "it is noticed before the task's limit");
}

#[test]
fn memory_that_the_device_cannot_reach_is_refused() {
    let transport = Bench {
        model: Model::new(&NV_SMALL),
        memory: Reserved(Vec::new()),
        faults: Arc::default(),
        copied: Arc::default(),
        risen: false,
    };
    let opened = OpenedTransport {
        transport: Box::new(transport),
        ranges: vec![1 << 32..2 << 32],
        files: false,
        simulated: false,
    };
    let error = DirectDevice::over(&DirectSelection::Vfio("x".into()), opened).map(drop).unwrap_err();
    assert!(error.to_string().contains("nv_small reaches addresses below 0x100000000"), "{error}");
}

#[test]
fn checks_of_a_sound_device_find_nothing_and_leave_it_usable() {
    let (mut device, _, _) = bench();
    assert_eq!(device.check_registers().unwrap(), None);
    assert!(matches!(device.check_interrupt().unwrap(), InterruptCheck::Arrives(_)));
    assert_eq!(device.check_reset().unwrap(), ResetCheck::Works);
    assert_eq!(device.reserved(), Some(START..START + LENGTH as u64));
    let mut session = session(&mut device);
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), by_model());
}

#[test]
fn a_reset_without_effect_is_found_and_the_device_stays_usable() {
    let (mut device, faults, _) = bench();
    faults.lock().unwrap().no_effect = true;
    let ResetCheck::WithoutEffect { kept, all, first } = device.check_reset().unwrap() else { panic!("not found") };
    assert_eq!((kept, all), (4, 4));
    assert_eq!(
        first.to_string(),
        "GLB S_INTR_MASK at 0x1004 reads 0x150155 after 0x150155 was written",
        "the register and its value"
    );
    let mut session = session(&mut device);
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), by_model());
    drop(session);
    faults.lock().unwrap().no_reset = true;
    assert_eq!(device.check_reset().unwrap(), ResetCheck::None);
}

#[test]
fn each_fault_of_the_interrupt_is_found() {
    for (fault, expected) in [
        (Faults { deaf: true, ..Faults::default() }, InterruptCheck::Missing),
        (Faults { edge: true, ..Faults::default() }, InterruptCheck::Once),
        (Faults { noisy: true, ..Faults::default() }, InterruptCheck::WithoutCause),
    ] {
        let (mut device, faults, _) = bench();
        *faults.lock().unwrap() = fault;
        assert_eq!(device.check_interrupt().unwrap(), expected);
    }
}

#[test]
fn a_register_that_does_not_hold_a_value_is_found() {
    let (mut device, faults, _) = bench();
    faults.lock().unwrap().stuck = 1;
    let found = device.check_registers().unwrap().unwrap();
    assert_eq!((found.written & 1, found.read), (0, found.written | 1));
    assert!(matches!(device.check_reset().unwrap(), ResetCheck::NotWritten(_)));
    assert!(matches!(device.check_interrupt().unwrap(), InterruptCheck::NotSet(_)));
}
