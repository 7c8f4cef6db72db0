// SPDX-License-Identifier: MIT OR Apache-2.0

//! Networks on the built-in model, without the runtime library: the project's LeNet, the reference data's loadables against their
//! golden outputs, a device that hangs, and broken files.

use std::path::Path;
use std::time::{Duration, Instant};

use nvdla_embedded::{Board, Device, Error, Network, Requirements, Slot};
use nvdla_engine::Hardware;
use nvdla_model::device::Model;
use nvdla_model::memory::{Memory, Port};
use nvdla_runtime::loadable::Loadable;
use nvdla_tests::case::{self, Expected};
use nvdla_tests::random::Random;
use nvdla_tests::reference;
use nvdla_uapi::config::{Config, NV_LARGE, NV_SMALL};

/// The device's address of the arena.
const BASE: u64 = 0x8000_0000;
const LIMIT: Duration = Duration::from_secs(60);

/// The model, and the memory that it sees: the arena, which the network owns between the runs.
struct Host {
    model: Model,
    arena: *mut u8,
    size: usize,
    started: Instant,
    mute: bool,
}

// SAFETY: the pointer is used by the thread of the test only.
unsafe impl Sync for View {}

/// The arena for the model.
struct View {
    arena: *mut u8,
    size: usize,
}

impl View {
    fn start(&self, address: u64, length: usize) -> Option<usize> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        (start.checked_add(length)? <= self.size).then_some(start)
    }
}

impl Memory for View {
    fn read(&self, port: Port, address: u64, length: usize) -> Option<&[u8]> {
        let start = self.start(address, length).filter(|_| port == Port::Primary)?;
        // SAFETY: inside the arena, and the network has no slice of it while a task runs.
        Some(unsafe { std::slice::from_raw_parts(self.arena.add(start), length) })
    }

    fn write(&mut self, port: Port, address: u64, length: usize) -> Option<&mut [u8]> {
        let start = self.start(address, length).filter(|_| port == Port::Primary)?;
        // SAFETY: as above.
        Some(unsafe { std::slice::from_raw_parts_mut(self.arena.add(start), length) })
    }
}

impl Hardware for Host {
    fn read(&mut self, offset: u32) -> u32 {
        self.model.read(offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.model.write(offset, value);
    }
}

impl Board for Host {
    fn now(&mut self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    fn wait(&mut self) {
        if !self.mute {
            self.model.run(&mut View { arena: self.arena, size: self.size });
            assert_eq!(self.model.take_stop().map(|stop| stop.to_string()), None);
        }
    }

    fn reset(&mut self) -> bool {
        self.model.reset();
        true
    }
}

/// Memory for a network. It is leaked, so that networks and devices may live as long as they like.
struct Room {
    arena: &'static mut [u8],
    slots: &'static mut [Slot],
}

impl Room {
    fn new(needs: Requirements) -> Self {
        Self { arena: vec![0xaa; needs.arena as usize].leak(), slots: vec![Slot::default(); needs.slots].leak() }
    }
}

/// Loads a network, and opens the model that it runs on.
fn load(
    bytes: &'static [u8],
    config: &'static Config,
) -> Result<(Network<'static>, Device<'static, Host>, Requirements), Error> {
    let needs = Requirements::of(bytes, config)?;
    let room = Room::new(needs);
    let (arena, size) = (room.arena.as_mut_ptr(), room.arena.len());
    let host = Host { model: Model::new(config), arena, size, started: Instant::now(), mute: false };
    // SAFETY: the model sees the arena at this address, and ends with the test.
    let network = unsafe { Network::load(bytes, config, room.arena, BASE, room.slots) }?;
    Ok((network, Device::open(host)?, needs))
}

fn lenet(config: &str) -> &'static [u8] {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/lenet/lenet.{config}.nvdla"));
    std::fs::read(path).unwrap().leak()
}

/// Writes a digit into the input, and returns the class with the greatest output.
fn classify(network: &mut Network<'static>, device: &mut Device<'static, Host>, digit: &str) -> (usize, i8) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/lenet/images/{digit}.pgm"));
    let picture = std::fs::read(path).unwrap();
    let pixels = &picture[picture.len() - 28 * 28..];
    let input = network.input(0).unwrap();
    assert_eq!(input.shape(), [1, 1, 28, 28]);
    for (pixel, &value) in pixels.iter().enumerate() {
        let at = input.offset([0, 0, pixel as u32 / 28, pixel as u32 % 28]).unwrap();
        // The network takes signed values: half of the grey value.
        network.bytes_mut(&input)[at] = value / 2;
    }
    device.run(network, LIMIT).unwrap();
    let output = network.output(0).unwrap();
    let score = |class| network.bytes(&output)[output.offset([0, class, 0, 0]).unwrap()] as i8;
    let best = (0..output.shape()[1]).max_by_key(|&class| score(class)).unwrap();
    (best as usize, score(best))
}

#[test]
fn lenet_classifies_digits() {
    for (name, config) in [("nv_small", &NV_SMALL), ("nv_large", &NV_LARGE)] {
        let (mut network, mut device, needs) = load(lenet(name), config).unwrap();
        println!("{name}: {needs:?}");
        assert_eq!(device.config().name, name);
        assert!(network.input(1).is_none() && network.output(1).is_none());
        for (class, digit) in ["zero", "one", "two", "three"].into_iter().enumerate() {
            assert_eq!(classify(&mut network, &mut device, digit).0, class, "{digit} on {name}");
        }
    }
}

#[test]
fn a_device_that_hangs_ends_the_run_and_the_next_run_is_right() {
    let (mut network, mut device, _) = load(lenet("nv_small"), &NV_SMALL).unwrap();
    device.board().mute = true;
    let error = device.run(&mut network, Duration::from_millis(20)).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains("was running, and its interrupt did not come"), "{error}");
    device.board().mute = false;
    assert_eq!(classify(&mut network, &mut device, "seven").0, 7);
}

#[test]
fn memory_that_is_too_small_or_not_aligned_is_refused() {
    let bytes = lenet("nv_small");
    let needs = Requirements::of(bytes, &NV_SMALL).unwrap();
    let load = |arena: u64, slots: usize, address: u64| {
        let room = Room::new(Requirements { arena, slots, ..needs });
        // SAFETY: no device runs.
        unsafe { Network::load(bytes, &NV_SMALL, room.arena, address, room.slots) }.map(drop)
    };
    assert!(load(needs.arena, needs.slots, BASE).is_ok());
    let error = load(needs.arena - 1, needs.slots, BASE).unwrap_err();
    assert!(matches!(error, Error::Arena { needed, size } if needed == needs.arena && size == needed - 1));
    let error = load(needs.arena, needs.slots - 1, BASE).unwrap_err();
    assert!(matches!(error, Error::Slots { needed, available } if needed == needs.slots && available == needed - 1));
    assert!(matches!(load(needs.arena, needs.slots, BASE + 32), Err(Error::Alignment { .. })));
    let error = Requirements::of(bytes, &NV_LARGE).and_then(|_| {
        let room = Room::new(needs);
        // SAFETY: no device runs.
        unsafe { Network::load(bytes, &NV_LARGE, room.arena, BASE, room.slots) }.map(drop)
    });
    assert!(matches!(error, Err(Error::Refused { .. })), "a loadable for another configuration: {error:?}");
}

/// The case whose outputs depend on memory that the reference has not initialised.
const UNINITIALISED: &str = "loadables-2/m_conv3x3_relu.nv_full.fp16.in-R8";

/// The element of a tensor's bytes at that place.
fn element(bytes: &[u8], at: usize, size: usize) -> &[u8] {
    bytes.get(at..at + size).unwrap_or_default()
}

#[test]
fn the_loadables_of_the_reference_give_their_golden_outputs() {
    let Some(folder) = reference::folder() else { return };
    let (mut equal, mut older, mut others) = (0, 0, Vec::new());
    for case in case::all(&folder).unwrap() {
        let size = std::fs::metadata(&case.loadable).map_or(0, |data| data.len());
        // Larger networks take long on the model, and are not different for this crate.
        if !matches!(case.expected, Expected::Golden)
            || size > 2 << 20
            || case.inputs.is_empty()
            || case.name == UNINITIALISED
        {
            continue;
        }
        let bytes: &'static [u8] = std::fs::read(&case.loadable).unwrap().leak();
        let (mut network, mut device, _) = match load(bytes, case.config) {
            Ok(loaded) => loaded,
            Err(Error::Descriptors { .. }) => {
                older += 1;
                continue;
            }
            Err(error) => {
                others.push(format!("{}: {error}", case.name));
                continue;
            }
        };
        for (position, file) in &case.inputs {
            let input = network.input(*position).unwrap();
            let from = std::fs::read(file).unwrap();
            network.bytes_mut(&input)[..from.len()].copy_from_slice(&from);
        }
        device.run(&mut network, LIMIT).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        for (position, file) in &case.outputs {
            let (golden, output) = (std::fs::read(file).unwrap(), network.output(*position).unwrap());
            let bytes = network.bytes(&output);
            let width = if matches!(output.element(), nvdla_embedded::Element::Int8) { 1 } else { 2 };
            let [batch, channels, lines, columns] = output.shape();
            for n in 0..batch * channels * lines * columns {
                let plane = lines * columns;
                let place = [n / (channels * plane), n / plane % channels, n / columns % lines, n % columns];
                let at = output.offset(place).unwrap();
                let (got, expected) = (element(bytes, at, width), element(&golden, at, width));
                assert_eq!(got, expected, "{}: output {position} at {place:?}", case.name);
            }
        }
        equal += 1;
    }
    println!("{equal} equal, {older} of an older interface, {} refused: {others:#?}", others.len());
    assert!(equal > 250, "{equal} equal");
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn a_loadable_is_read_as_the_runtime_reads_it() {
    for name in ["nv_small", "nv_large"] {
        let bytes = lenet(name);
        let loadable = Loadable::from_bytes(bytes).unwrap();
        let (network, ..) = load(bytes, Config::by_name(name).unwrap()).unwrap();
        let input = loadable.inputs().next().and_then(|memory| loadable.tensor(memory.tensor_desc_id())).unwrap();
        let read = network.input(0).unwrap();
        assert_eq!((read.name(), read.size() as u64), (input.name(), input.size()));
    }
}

#[test]
fn broken_loadables_are_refused_without_a_panic() {
    let whole = lenet("nv_small");
    let mut random = Random::new(7);
    let mut accepted = 0;
    // The tables lie behind the blobs' data, at the end or the start of the file: positions near both are changed most.
    let place = |random: &mut Random| match random.below(3) {
        0 => random.below(2048),
        1 => whole.len() - 1 - random.below(4096),
        _ => random.below(whole.len()),
    };
    for round in 0..1500 {
        let mut bytes = whole.to_vec();
        if round % 10 == 0 {
            bytes.truncate(random.below(whole.len()));
        } else {
            for _ in 0..=random.below(3) {
                let at = place(&mut random);
                bytes[at] = *random.pick(&[&0, &1, &0x7f, &0x80, &0xff, &bytes[at].wrapping_add(1)]);
            }
        }
        let Ok(needs) = Requirements::of(&bytes, &NV_SMALL) else { continue };
        if needs.arena > 64 << 20 || needs.slots > 1000 {
            continue;
        }
        let (mut arena, mut slots) = (vec![0; needs.arena as usize], vec![Slot::default(); needs.slots]);
        // SAFETY: no device runs.
        let network = unsafe { Network::load(&bytes, &NV_SMALL, &mut arena, BASE, &mut slots) };
        if let Ok(mut network) = network {
            accepted += 1;
            for position in 0..3 {
                for tensor in [network.input(position), network.output(position)].into_iter().flatten() {
                    let last = tensor.offset(tensor.shape().map(|extent| extent - 1)).unwrap();
                    network.bytes_mut(&tensor)[last] = 1;
                }
            }
        }
    }
    assert!(accepted > 500, "{accepted} accepted");
    println!("{accepted} of 1500 accepted");
}
