// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tasks with a known result: SDP copies a cube from one place of a buffer to another.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nvdla_tests::build::{address, Net, Shape};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::Stat;
use nvdla_uapi::ioctl::MemHandle;
use nvdla_uapi::queue::Address;
use nvdla_uapi::reg::values::Precision;

use crate::node::{Buffer, Node, Options, Submitted};

/// Where the copied cube lies, where its copies begin.
const SOURCE: usize = 0x2000;
const TARGET: usize = 0x4000;
const PAGE: usize = 4096;

/// A task in buffers of a node.
#[derive(Debug)]
pub struct TestTask {
    /// Its address list.
    pub addresses: Vec<Address>,
    /// Its buffers, in the order of the list.
    pub buffers: Vec<Buffer>,
    copies: usize,
    bytes: usize,
}

impl TestTask {
    /// A task of `copies` operations. Each copies the cube to a different place.
    pub fn copies(node: &Node, copies: usize) -> io::Result<Self> {
        let (net, bytes) = copying(node, copies)?;
        Self::new(node, &net, copies, bytes)
    }

    /// The same, with statistics of its operations.
    pub fn counted(node: &Node, copies: usize) -> io::Result<Self> {
        let (mut net, bytes) = copying(node, copies)?;
        net.network.stat_list_index = address::STATISTICS;
        Self::new(node, &net, copies, bytes)
    }

    /// A task made by hand, in buffers of the node.
    pub fn new(node: &Node, net: &Net, copies: usize, bytes: usize) -> io::Result<Self> {
        let mut work = Self { addresses: Vec::new(), buffers: Vec::new(), copies, bytes };
        for content in net.buffers() {
            let mut buffer = node.buffer(content.len().next_multiple_of(PAGE).max(PAGE))?;
            buffer.map[..content.len()].copy_from_slice(&content);
            work.addresses.push(Address { handle: buffer.handle, flags: 0, offset: 0 });
            work.buffers.push(buffer);
        }
        Ok(work)
    }

    /// The buffer that holds the cubes.
    pub fn data(&mut self) -> &mut [u8] {
        &mut self.buffers[address::DATA as usize].map
    }

    /// Fills the source with a pattern that depends on `seed`, and clears the targets.
    pub fn fill(&mut self, seed: u8) {
        let bytes = self.bytes;
        let data = self.data();
        data[TARGET..].fill(0);
        for (index, byte) in data[SOURCE..SOURCE + bytes].iter_mut().enumerate() {
            *byte = (index as u8).wrapping_mul(31).wrapping_add(seed) & 0x7f;
        }
    }

    /// Checks that the copies hold what [`TestTask::fill`] put into the source.
    pub fn check(&mut self, seed: u8) -> Result<(), String> {
        let (copies, bytes) = (self.copies, self.bytes);
        let data = self.data();
        for copy in 0..copies {
            let target = &data[TARGET + copy * 0x1000..][..bytes];
            let wrong = target
                .iter()
                .enumerate()
                .find(|&(index, &byte)| byte != (index as u8).wrapping_mul(31).wrapping_add(seed) & 0x7f);
            if let Some((at, byte)) = wrong {
                return Err(format!("copy {copy} of pattern {seed} has {byte:#x} at {at}"));
            }
        }
        Ok(())
    }

    /// Whether the targets are as [`TestTask::fill`] left them: the task has not run.
    pub fn is_untouched(&mut self) -> bool {
        self.data()[TARGET..].iter().all(|&byte| byte == 0)
    }

    /// An operation's statistics.
    pub fn statistics(&self, operation: usize) -> Option<&[u8]> {
        self.buffers[address::STATISTICS as usize].map.get(operation * Stat::SIZE..)?.get(..Stat::SIZE)
    }

    /// Queues the task.
    pub fn submit(&self, node: &Node, options: Options<'_>) -> crate::drm::Result<Submitted> {
        node.submit(&[&self.addresses], options)
    }

    /// Runs the task and says how it ended.
    pub fn run(&self, node: &Node) -> crate::drm::Result<i32> {
        let submitted = self.submit(node, Options::default())?;
        node.wait(submitted.sequence, 60)
    }

    /// The address list for NVIDIA's submission, with the descriptors that it names.
    pub fn exported(&self, node: &Node) -> crate::drm::Result<(Vec<MemHandle>, Vec<OwnedFd>)> {
        node.needs_first()?;
        let fds = self.buffers.iter().map(|buffer| node.export(buffer.handle)).collect::<Result<Vec<_>, _>>()?;
        let list = fds.iter().map(|fd| MemHandle { handle: fd.as_raw_fd() as u32, reserved: 0, offset: 0 }).collect();
        Ok((list, fds))
    }
}

/// The descriptors of a task that copies a cube, and the cube's bytes.
pub fn copying(node: &Node, copies: usize) -> io::Result<(Net, usize)> {
    let shape = shape(node)?;
    let mut net = Net::new();
    for copy in 0..copies {
        net.copy(shape, (TARGET + copy * 0x1000) as u32);
    }
    net.data = (TARGET + copies * 0x1000).max(0x8000);
    Ok((net, shape.cube(0, 6, 6, 8).size as usize))
}

/// The shape of int8 cubes on the node's device.
pub fn shape(node: &Node) -> io::Result<Shape> {
    let name = node.config()?;
    let config = Config::by_name(&name).ok_or_else(|| io::Error::other(format!("there is no {name}")))?;
    Ok(Shape { config, precision: Precision::Int8 })
}
