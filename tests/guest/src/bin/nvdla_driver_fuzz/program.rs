// SPDX-License-Identifier: MIT OR Apache-2.0

//! State that the threads of a program share: a file of the driver, a valid task, and the task's buffers.

use nvdla_guest::control::Control;
use nvdla_guest::node::{nodes, Buffer, Node};
use nvdla_tests::build::{every_unit, Net};
use nvdla_tests::random::Random;
use nvdla_uapi::config::Config;
use nvdla_uapi::queue::Address;
use nvdla_uapi::reg::values::Precision;

use crate::arguments::RANGES;
use crate::tally::{Count, Tally};

/// A page.
const PAGE: usize = 4096;
/// Descriptors that may be changed: network, graph, operations, surfaces.
pub(crate) const LISTS: usize = 4;

/// The shared state of a program.
pub(crate) struct Program {
    pub(crate) node: Node,
    pub(crate) tally: Tally,
    /// A valid task's buffers, in the order of its address list. Their contents are changed and restored continually.
    pub(crate) addresses: Vec<Address>,
    pub(crate) good: Vec<Vec<u8>>,
    pub(crate) lists: Vec<Shared>,
    _maps: Vec<Buffer>,
}

/// Memory that several threads and the driver use at the same time.
pub(crate) struct Shared {
    start: *mut u8,
    length: usize,
}

// SAFETY: Bytes are only copied by volatile accesses.
unsafe impl Send for Shared {}
// SAFETY: As above; readers accept any bytes.
unsafe impl Sync for Shared {}

impl Shared {
    /// Writes bytes; those outside the buffer are ignored.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        for (at, &byte) in (offset..self.length).zip(bytes) {
            // SAFETY: `at` is inside the mapping, which lives as long as the program.
            unsafe { self.start.add(at).write_volatile(byte) };
        }
    }
}

impl Program {
    pub(crate) fn new(number: usize, random: &mut Random) -> Result<Self, Box<dyn std::error::Error>> {
        let path = nodes().into_iter().next().ok_or("there is no device")?;
        let node = Node::open(&path)?;
        let control = Control::open(&node.device()?)?;
        let name = node.config()?;
        let config = Config::by_name(&name).ok_or("an unknown configuration")?;
        let precision = if config.rubik && random.one_in(2) { Precision::Fp16 } else { Precision::Int8 };
        let net: Net = every_unit(config, precision);
        let good = net.buffers();
        let (mut addresses, mut lists, mut maps) = (Vec::new(), Vec::new(), Vec::new());
        for (entry, content) in good.iter().enumerate() {
            let mut buffer = node.buffer(content.len().next_multiple_of(PAGE).max(PAGE))?;
            control.allow_buffer(number * RANGES + entry, &mut buffer.map)?;
            buffer.map[..content.len()].copy_from_slice(content);
            addresses.push(Address { handle: buffer.handle, flags: 0, offset: 0 });
            lists.push(Shared { start: buffer.map.as_mut_ptr(), length: content.len() });
            maps.push(buffer);
        }
        // The supervisor uses the window's fault words, so dropping must not reset them.
        std::mem::forget(control);
        let tally = Tally::open()?;
        tally.add(Count::Opened);
        Ok(Self { node, tally, addresses, good, lists, _maps: maps })
    }
}
