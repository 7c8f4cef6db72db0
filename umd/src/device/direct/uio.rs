// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device without an IOMMU, through the kernel's UIO: drivers `uio_pci_generic` and `uio_pdrv_genirq`.
//!
//! The device reads and writes physical addresses, so buffers lie in memory that the system does not use. This is
//! either the second region of the device's node, which UIO maps, or memory that was reserved when the system was
//! started, mapped through `/dev/mem`. On most boards such a mapping is not cached. It needs no cache maintenance, but
//! it is slow to read and does not allow unaligned access. Therefore this process works on separate buffers, and copies
//! them there and back in whole aligned words.
//!
//! Only the engine isolates the device from the rest of the memory: it enables no operation that accesses bytes outside the
//! task's buffers.
//!
//! Source: the kernel's `Documentation/driver-api/uio-howto.rst`, `drivers/uio/uio_pci_generic.c` and
//! `uio_pdrv_genirq.c`, `Documentation/ABI/testing/sysfs-bus-pci`; PCI Local Bus Specification 3.0, chapter 6.2.2.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::store::Buffer;
use super::error::OpenError;
use super::selection::DirectSelection;
use super::transport::{OpenedTransport, Transport};
use super::vfio::{BUS_MASTER, COMMAND, MEMORY_SPACE};
use super::window::{self, page_size, Window};

/// The function does not raise its interrupt line. The kernel's handler sets this bit at each interrupt.
const INTERRUPT_DISABLE: u16 = 1 << 10;

struct Uio {
    node: File,
    window: Window,
    memory: Window,
    /// The physical address of the memory's first byte.
    start: u64,
    bus: Bus,
}

/// How the interrupt is unmasked and the device reset.
enum Bus {
    /// A PCI function: its folder and its configuration space.
    Pci(PathBuf, File),
    /// A platform device. The UIO driver unmasks its interrupt; it has no reset.
    Platform,
}

/// Opens a device by its node.
pub(super) fn open(
    selection: &DirectSelection,
    node: &Path,
    memory: Option<Range<u64>>,
) -> Result<OpenedTransport, OpenError> {
    let failed = |step: &str| OpenError::new(selection, step);
    let file = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(node).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::NotFound => {
                "bind the device to uio_pci_generic or uio_pdrv_genirq; ls /sys/class/uio lists the bound devices"
            }
            _ => "UIO needs root, because the device can reach all memory",
        };
        failed("cannot open the node").because(error).advise(advice)
    })?;
    // The kernel lets any number of processes open a node.
    file.try_lock().map_err(|error| failed("another process has the device").because(io::Error::from(error)))?;
    let class = node.file_name().map(|name| Path::new("/sys/class/uio").join(name)).filter(|path| path.exists());
    let class = class.ok_or_else(|| failed("the node is not a UIO device: it has no folder in /sys/class/uio"))?;
    let device = class.join("device");
    isolated(selection, &device)?;
    let bus = device.join("subsystem").canonicalize();
    let is_pci = bus.is_ok_and(|bus| bus.file_name().is_some_and(|name| name == "pci"));
    let (window, bus) = if is_pci {
        let config = window::open(device.join("config"))
            .map_err(|error| failed("cannot open the function's configuration space").because(error))?;
        let function = Function { config: &config };
        function
            .set(MEMORY_SPACE | BUS_MASTER, INTERRUPT_DISABLE)
            .map_err(|error| failed("cannot let the function answer and reach memory").because(error))?;
        let registers = device.join("resource0");
        let window = window::open(&registers).and_then(|file| Window::map(&file, 0, length(&file)?));
        let window = window.map_err(|error| failed("cannot map the register window (resource0)").because(error))?;
        (window, Bus::Pci(device, config))
    } else {
        let window = mapping(&class, 0).and_then(|map| map.window(&file));
        let window = window.map_err(|error| failed("cannot map the register window (map0)").because(error))?;
        (window, Bus::Platform)
    };
    let (memory, start) = if let Some(range) = memory {
        (physical(selection, &range)?, range.start)
    } else {
        let map = mapping(&class, 1).map_err(|error| {
            failed("the device has no reserved memory").because(error).advise(
                "name it as memory=SIZE@START, reserved at the start of the system (memmap=SIZE$START), or give the \
                 device's node a second region",
            )
        })?;
        let memory = map.window(&file);
        (memory.map_err(|error| failed("cannot map the reserved memory (map1)").because(error))?, map.address)
    };
    tracing::warn!(
        "{selection}: no IOMMU isolates the device; only the checks of this program keep it from the rest of the memory"
    );
    let ranges = vec![start..start + memory.len() as u64];
    let transport = Box::new(Uio { node: file, window, memory, start, bus });
    Ok(OpenedTransport { transport, ranges, files: false, simulated: false })
}

/// Fails if an IOMMU translates the device's addresses, because they must be physical.
fn isolated(selection: &DirectSelection, device: &Path) -> Result<(), OpenError> {
    let Ok(kind) = fs::read_to_string(device.join("iommu_group/type")) else { return Ok(()) };
    if kind.trim() == "identity" {
        return Ok(());
    }
    let step = format!("an IOMMU translates the device's addresses ({})", kind.trim());
    Err(OpenError::new(selection, step).advise("use vfio:, which works with the IOMMU and isolates the device"))
}

/// A PCI function's command register.
struct Function<'a> {
    config: &'a File,
}

impl Function<'_> {
    fn set(&self, on: u16, off: u16) -> io::Result<()> {
        let mut command = [0; 2];
        self.config.read_exact_at(&mut command, COMMAND)?;
        let command = u16::from_le_bytes(command) & !off | on;
        self.config.write_all_at(&command.to_le_bytes(), COMMAND)
    }
}

fn length(file: &File) -> io::Result<usize> {
    usize::try_from(file.metadata()?.len()).map_err(io::Error::other)
}

/// One of a UIO device's mappings.
struct Mapping {
    number: u64,
    address: u64,
    length: u64,
}

/// The kernel's description of a mapping.
fn mapping(class: &Path, number: u64) -> io::Result<Mapping> {
    let folder = class.join(format!("maps/map{number}"));
    let value = |name: &str| {
        let text = fs::read_to_string(folder.join(name))?;
        let digits = text.trim().trim_start_matches("0x");
        u64::from_str_radix(digits, 16).map_err(io::Error::other)
    };
    Ok(Mapping { number, address: value("addr")?, length: value("size")? })
}

impl Mapping {
    fn window(&self, node: &File) -> io::Result<Window> {
        if !self.address.is_multiple_of(page_size()) {
            return Err(io::Error::other(format!("it begins at {:#x}, inside a page", self.address)));
        }
        // The kernel expects the mapping's number as an offset in pages.
        Window::map(node, self.number * page_size(), usize::try_from(self.length).map_err(io::Error::other)?)
    }
}

/// Maps reserved memory.
fn physical(selection: &DirectSelection, range: &Range<u64>) -> Result<Window, OpenError> {
    let iomem = fs::read_to_string("/proc/iomem").unwrap_or_default();
    if let Some(used) = system(&iomem, range) {
        let step = format!("the system uses {:#x}..{:#x} of this memory", used.start, used.end);
        return Err(
            OpenError::new(selection, step).advise("reserve it at the start of the system, as memmap=64M$0x30000000")
        );
    }
    let mut options = File::options();
    // On x86 the processor's caches are coherent with the device. Elsewhere the mapping must not be cached.
    if cfg!(not(any(target_arch = "x86", target_arch = "x86_64"))) {
        options.custom_flags(libc::O_SYNC);
    }
    let map = |file: File| Window::map(&file, range.start, usize::try_from(range.end - range.start).unwrap_or(0));
    options.read(true).write(true).open("/dev/mem").and_then(map).map_err(|error| {
        OpenError::new(selection, format!("cannot map the memory at {:#x} through /dev/mem", range.start))
            .because(error)
            .advise("it needs root, a kernel that is not locked down, and memory that was reserved")
    })
}

/// The part of a range that is the system's own memory, from the text of `/proc/iomem`.
fn system(iomem: &str, range: &Range<u64>) -> Option<Range<u64>> {
    iomem.lines().find_map(|line| {
        let (addresses, name) = line.split_once(" : ")?;
        let (first, last) = addresses.trim().split_once('-')?;
        let first = u64::from_str_radix(first, 16).ok()?;
        let end = u64::from_str_radix(last, 16).ok()?.checked_add(1)?;
        let used = first.max(range.start)..end.min(range.end);
        (name == "System RAM" && used.start < used.end).then_some(used)
    })
}

impl Uio {
    /// The offset of a buffer's address in the memory.
    fn offset(&self, address: u64) -> usize {
        usize::try_from(address.saturating_sub(self.start)).unwrap_or(usize::MAX)
    }
}

impl Transport for Uio {
    fn read(&mut self, offset: u32) -> u32 {
        self.window.read(offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        self.window.write(offset, value);
    }

    fn window(&self) -> u32 {
        self.window.size()
    }

    fn has_line(&self) -> bool {
        true
    }

    fn wait(&mut self, limit: Duration) -> io::Result<bool> {
        if !window::wait(&self.node, limit)? {
            return Ok(false);
        }
        // The number of interrupts so far.
        self.node.read_exact(&mut [0; 4])?;
        Ok(true)
    }

    fn unmask(&mut self) -> io::Result<()> {
        match &self.bus {
            Bus::Pci(_, config) => Function { config }.set(0, INTERRUPT_DISABLE),
            Bus::Platform => self.node.write_all(&1_u32.to_ne_bytes()),
        }
    }

    fn reset(&mut self) -> io::Result<bool> {
        let resets = match &self.bus {
            Bus::Pci(folder, config) if folder.join("reset").exists() => {
                fs::write(folder.join("reset"), "1")?;
                Function { config }.set(MEMORY_SPACE | BUS_MASTER, INTERRUPT_DISABLE)?;
                true
            }
            _ => false,
        };
        // An earlier interrupt does not belong to this task, and its handler may have left the line disabled.
        let _ = self.node.read(&mut [0; 4]);
        self.unmask()?;
        Ok(resets)
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
        self.memory.copy_in(self.offset(address), bytes);
    }

    fn copy_from(&mut self, address: u64, bytes: &mut [u8]) {
        self.memory.copy_out(self.offset(address), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_memory_is_not_the_devices() {
        let text =
            "00001000-0009fbff : System RAM\n00100000-2fffffff : System RAM\n  01000000-01ffffff : Kernel code\n\
                    30000000-33ffffff : Reserved\n34000000-3fffffff : System RAM\n";
        assert_eq!(system(text, &(0x3000_0000..0x3400_0000)), None);
        assert_eq!(system(text, &(0x2fff_f000..0x3100_0000)), Some(0x2fff_f000..0x3000_0000));
        assert_eq!(system(text, &(0x3300_0000..0x3500_0000)), Some(0x3400_0000..0x3500_0000));
    }

    #[test]
    fn what_is_no_uio_device_is_refused() {
        for (path, why) in
            [("/dev/uio999", "cannot open the node"), ("/dev/null", "it has no folder in /sys/class/uio")]
        {
            let selection = DirectSelection::Uio { node: path.into(), memory: None };
            let error = open(&selection, Path::new(path), None).map(drop).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
