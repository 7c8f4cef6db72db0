// SPDX-License-Identifier: MIT OR Apache-2.0

//! The parts of a device's node in the device tree: its clock, its reset line, its supply, its reserved memory.
//!
//! Source: Devicetree Specification 0.4, section 3.5 (reserved memory); the kernel's `Documentation/ABI/testing/sysfs-kernel-mm-cma`.

use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Reserved memory that a device's node names.
#[derive(Debug)]
pub struct Reserved {
    /// Its addresses.
    pub range: Range<u64>,
    /// The kernel's information about it; `None` if only the device uses it.
    area: Option<PathBuf>,
}

impl Reserved {
    /// The number of free pages; `None` if the kernel does not report it.
    pub fn available(&self) -> Option<io::Result<u64>> {
        let read = |area: &PathBuf| {
            let text = fs::read_to_string(area.join("available_pages"))?;
            text.trim().parse().map_err(io::Error::other)
        };
        self.area.as_ref().map(read)
    }
}

/// Whether the device's node has that property.
pub fn names(device: &Path, property: &str) -> bool {
    device.join("of_node").join(property).exists()
}

/// The reserved memory of a device.
pub fn reserved(device: &Path) -> io::Result<Reserved> {
    let wanted = fs::read(device.join("of_node/memory-region"))?;
    for entry in fs::read_dir("/sys/firmware/devicetree/base/reserved-memory")? {
        let node = entry?.path();
        if fs::read(node.join("phandle")).is_ok_and(|phandle| phandle == wanted) {
            let place = fs::read(node.join("reg"))?;
            let cell = |at: usize| place.get(at..at + 8)?.first_chunk().map(|cell| u64::from_be_bytes(*cell));
            let (Some(start), Some(size)) = (cell(0), cell(8)) else { break };
            let area = Path::new("/sys/kernel/mm/cma").join(node.file_name().unwrap_or_default());
            return Ok(Reserved { range: start..start + size, area: area.exists().then_some(area) });
        }
    }
    Err(io::Error::other(format!("the tree has no memory for {}", device.display())))
}

/// What the device's addresses of the memory are above the processor's, by its bus's `dma-ranges` of two cells per number.
pub fn dma_offset(device: &Path) -> io::Result<u64> {
    let node = fs::canonicalize(device.join("of_node"))?;
    let Ok(ranges) = fs::read(node.join("../dma-ranges")) else { return Ok(0) };
    let cell = |at: usize| ranges.get(at..at + 8).and_then(<[u8]>::first_chunk).map(|cell| u64::from_be_bytes(*cell));
    Ok(cell(0).unwrap_or(0).wrapping_sub(cell(8).unwrap_or(0)))
}

/// The kernel's folder about the supply of a device.
pub fn supply(device: &Path) -> io::Result<PathBuf> {
    let wanted = fs::read(device.join("of_node/vdd-supply"))?;
    for entry in fs::read_dir("/sys/class/regulator")? {
        let regulator = entry?.path();
        if fs::read(regulator.join("of_node/phandle")).is_ok_and(|phandle| phandle == wanted) {
            return Ok(regulator);
        }
    }
    Err(io::Error::other(format!("the kernel has no supply for {}", device.display())))
}

/// How often the clock of a device is enabled, by the kernel's count.
pub fn clock_enables(device: &Path) -> io::Result<u32> {
    let wanted = fs::read(device.join("of_node/clocks"))?;
    for entry in fs::read_dir("/sys/firmware/devicetree/base")? {
        let node = entry?.path();
        if fs::read(node.join("phandle")).is_ok_and(|phandle| phandle == wanted) {
            let clock = Path::new("/sys/kernel/debug/clk").join(node.file_name().unwrap_or_default());
            let text = fs::read_to_string(clock.join("clk_enable_count"))?;
            return text.trim().parse().map_err(io::Error::other);
        }
    }
    Err(io::Error::other(format!("the tree has no clock for {}", device.display())))
}
