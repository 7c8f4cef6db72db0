// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device behind an IOMMU, through the kernel's VFIO: drivers `vfio-pci` and `vfio-platform`.
//!
//! The IOMMU limits the device to the buffers of this process that are mapped here. Any other access fails, whatever the device's
//! registers contain. When the device is closed, or the process ends, the kernel resets it and removes the mappings.
//!
//! Source: the kernel's `Documentation/driver-api/vfio.rst`, `include/uapi/linux/vfio.h` and
//! `Documentation/ABI/testing/sysfs-kernel-iommu_groups`; PCI Local Bus Specification 3.0, chapter 6.2.2 (command register).

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vfio_bindings::bindings::vfio::{
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX,
};
use vfio_ioctls::{VfioContainer, VfioDevice, VfioError};
use vmm_sys_util::eventfd::{EventFd, EFD_CLOEXEC, EFD_NONBLOCK};

use super::super::store::Buffer;
use super::error::OpenError;
use super::selection::DirectSelection;
use super::transport::{OpenedTransport, Transport};
use super::window::{self, Window};

/// The command register of a PCI function.
pub(super) const COMMAND: u64 = 4;
/// The function answers accesses to its memory windows.
pub(super) const MEMORY_SPACE: u16 = 1 << 1;
/// The function may read and write memory.
pub(super) const BUS_MASTER: u16 = 1 << 2;

/// Buses with VFIO devices, and the driver that each needs.
const BUSES: [(&str, &str); 2] = [("pci", "vfio-pci"), ("platform", "vfio-platform")];

struct Vfio {
    // The window's mapping ends before the device is closed, because otherwise the kernel does not release the group. The
    // device is closed before the container, which holds the mappings of buffers.
    window: Window,
    device: VfioDevice,
    container: Arc<VfioContainer>,
    event: EventFd,
    /// The interrupt is a line, which the kernel masks at each interrupt.
    line: bool,
    pci: bool,
    /// Whether the kernel can reset the device. It does not report this for a platform device; there a reset is tried
    /// and its effect checked.
    resets: bool,
}

/// Opens a device by its name on its bus.
pub(super) fn open(selection: &DirectSelection, name: &str) -> Result<OpenedTransport, OpenError> {
    let failed = |step: String| OpenError::new(selection, step);
    let found = BUSES.iter().find_map(|&(bus, driver)| {
        let path = PathBuf::from(format!("/sys/bus/{bus}/devices/{name}"));
        path.exists().then_some((bus, driver, path))
    });
    let Some((bus, driver, path)) = found else {
        return Err(failed("no device of the bus PCI or platform has that name".into())
            .advise("lspci -Dd 10de:4e56 lists NVDLA's PCI functions, ls /sys/bus/platform/devices platform devices"));
    };
    let bound = path.join("driver").read_link().ok().and_then(|link| Some(link.file_name()?.to_str()?.to_owned()));
    if bound.as_deref() != Some(driver) {
        let step = match bound {
            Some(other) => format!("the device belongs to the driver {other}, not to {driver}"),
            None => format!("the device is not bound to the driver {driver}"),
        };
        return Err(failed(step).advise(format!(
            "as root: modprobe {driver}; echo {driver} >{0}/driver_override; echo {name} >/sys/bus/{bus}/drivers_probe, \
             after echo {name} >{0}/driver/unbind where another driver has it",
            path.display()
        )));
    }
    let Ok(group) = path.join("iommu_group").canonicalize() else {
        return Err(failed("the device is in no IOMMU group: no IOMMU limits its accesses to memory".into())
            .advise("boot with the IOMMU enabled (intel_iommu=on or amd_iommu=on), or use uio: with reserved memory"));
    };
    let device = Vfio::open(selection, &path, &group, bus == "pci")?;
    let ranges =
        allowed(&group).map_err(|error| failed("cannot read the IOMMU's reserved regions".into()).because(error))?;
    Ok(OpenedTransport { transport: Box::new(device), ranges, files: false, simulated: false })
}

impl Vfio {
    fn open(selection: &DirectSelection, path: &Path, group: &Path, pci: bool) -> Result<Self, OpenError> {
        let group = group.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let container = VfioContainer::new(None).map_err(|error| explain(selection, &group, error))?;
        let container = Arc::new(container);
        let device =
            VfioDevice::new(path, container.clone(), false).map_err(|error| explain(selection, &group, error))?;
        let failed = |step: &str| OpenError::new(selection, step);
        let size = device.get_region_size(VFIO_PCI_BAR0_REGION_INDEX);
        let size = usize::try_from(size).unwrap_or(0);
        if size == 0 {
            return Err(failed("the device has no register window (region 0)"));
        }
        if pci {
            enable(&device);
        }
        let window = Window::map(&device, device.get_region_offset(VFIO_PCI_BAR0_REGION_INDEX), size)
            .map_err(|error| failed("cannot map the register window").because(error))?;
        let event = EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC)
            .map_err(|error| failed("cannot make an event for the interrupt").because(error))?;
        let has = |index| device.get_irq_info(index).is_some_and(|irq| irq.count > 0);
        // A platform device's first interrupt has the number of the line.
        let index = if pci && has(VFIO_PCI_MSI_IRQ_INDEX) { VFIO_PCI_MSI_IRQ_INDEX } else { VFIO_PCI_INTX_IRQ_INDEX };
        if !has(index) {
            return Err(failed("the device has no interrupt"));
        }
        device.enable_irq(index, vec![&event]).map_err(|error| failed("cannot enable its interrupt").because(error))?;
        let resets = !pci || path.join("reset").exists();
        Ok(Self { device, container, window, event, line: index == VFIO_PCI_INTX_IRQ_INDEX, pci, resets })
    }
}

/// Lets a PCI function answer register accesses and access memory.
fn enable(device: &VfioDevice) {
    let mut command = [0; 2];
    device.region_read(VFIO_PCI_CONFIG_REGION_INDEX, &mut command, COMMAND);
    let command = u16::from_le_bytes(command) | MEMORY_SPACE | BUS_MASTER;
    device.region_write(VFIO_PCI_CONFIG_REGION_INDEX, &command.to_le_bytes(), COMMAND);
}

/// Explains a failure to open to the user.
fn explain(selection: &DirectSelection, group: &str, error: VfioError) -> OpenError {
    let (step, advice) = match &error {
        VfioError::OpenContainer(source) if source.kind() == io::ErrorKind::NotFound => {
            ("/dev/vfio/vfio is missing: the kernel's VFIO is not loaded".into(), "as root: modprobe vfio-pci".into())
        }
        VfioError::OpenContainer(_) => {
            ("cannot open /dev/vfio/vfio".into(), "give this user permission to open it".into())
        }
        VfioError::OpenGroup(source, _) if source.raw_os_error() == Some(libc::EBUSY) => {
            (format!("another process has the IOMMU group {group}"), "only one process at a time can open a device".into())
        }
        VfioError::OpenGroup(..) => (
            format!("cannot open the IOMMU group /dev/vfio/{group}"),
            format!("as root: chown USER /dev/vfio/{group}, or a udev rule for the subsystem vfio"),
        ),
        VfioError::GroupViable => (
            format!("the IOMMU group {group} has other devices whose drivers use them"),
            format!("bind each device in /sys/kernel/iommu_groups/{group}/devices to vfio-pci, or to no driver"),
        ),
        VfioError::ContainerSetIOMMU(_) | VfioError::VfioExtension | VfioError::GroupSetContainer => (
            "the kernel's VFIO does not support the device's IOMMU".into(),
            "modprobe vfio_iommu_type1; since Linux 5.19, devices whose accesses are not coherent with the caches are refused"
                .into(),
        ),
        _ => ("VFIO refuses the device".into(), format!("dmesg may say more about the IOMMU group {group}")),
    };
    OpenError::new(selection, step).because(error).advise(advice)
}

/// The addresses that buffers may have: all but those that the IOMMU reserves, for example for interrupts.
fn allowed(group: &Path) -> io::Result<Vec<Range<u64>>> {
    let text = std::fs::read_to_string(group.join("reserved_regions"))?;
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let mut reserved: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((number(words.next()?)?, number(words.next()?)?))
        })
        .collect();
    reserved.sort_unstable();
    let page = window::page_size();
    let (mut next, mut ranges) = (0x1000_0000, Vec::new());
    for (first, last) in reserved {
        let end = first / page * page;
        if next < end {
            ranges.push(next..end);
        }
        next = next.max((last | (page - 1)).saturating_add(1));
    }
    ranges.push(next..u64::MAX);
    Ok(ranges)
}

impl Transport for Vfio {
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
        self.line
    }

    fn wait(&mut self, limit: Duration) -> io::Result<bool> {
        Ok(window::wait(&self.event, limit)? && self.event.read().is_ok())
    }

    fn unmask(&mut self) -> io::Result<()> {
        if self.line {
            self.device.unmask_irq(VFIO_PCI_INTX_IRQ_INDEX).map_err(io::Error::other)?;
        }
        Ok(())
    }

    fn reset(&mut self) -> io::Result<bool> {
        if self.resets {
            self.device.reset();
            if self.pci {
                enable(&self.device);
            }
        }
        // An earlier interrupt does not belong to this task.
        let _ = self.event.read();
        self.unmask()?;
        Ok(self.resets)
    }

    fn map(&mut self, buffer: &Buffer) -> io::Result<()> {
        buffer.keep_from_children()?;
        let pages = buffer.pages();
        // SAFETY: The device accesses the pages until `unmap`, and the buffer lives until then or is leaked. Its owner has no
        // reference to its bytes while a task runs, except those that an observer gets to read.
        let mapped = unsafe { self.container.vfio_dma_map(buffer.address(), pages.len(), pages.as_ptr().cast_mut()) };
        mapped.map_err(|error| match error {
            VfioError::IommuDmaMap(error) if error.errno() == libc::ENOMEM => io::Error::other(
                "the IOMMU's mapping needs locked memory, and the limit is reached (ulimit -l, RLIMIT_MEMLOCK)",
            ),
            error => io::Error::other(error),
        })
    }

    fn unmap(&mut self, buffer: &Buffer) -> io::Result<()> {
        self.container.vfio_dma_unmap(buffer.address(), buffer.pages().len()).map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_stay_out_of_what_the_iommu_keeps() {
        let group = std::env::temp_dir().join(format!("nvdla-group-{}", std::process::id()));
        std::fs::create_dir(&group).unwrap();
        let write = |text: &str| std::fs::write(group.join("reserved_regions"), text).unwrap();
        write("0x00000000fee00000 0x00000000feefffff msi\n0x0000000000000000 0x0000000000ffffff direct\n");
        let ranges = allowed(&group).unwrap();
        assert_eq!(ranges, [0x1000_0000..0xfee0_0000, 0xfef0_0000..u64::MAX]);
        write("0x0000000010000000 0x0000000010000fff reserved\n");
        let ranges = allowed(&group).unwrap();
        std::fs::remove_dir_all(&group).unwrap();
        assert_eq!(ranges[0].start, 0x1000_0000 + window::page_size());
    }

    #[test]
    fn a_device_that_is_not_there_is_named() {
        let selection = DirectSelection::Vfio("ffff:ff:1f.7".into());
        let error = open(&selection, "ffff:ff:1f.7").map(drop).unwrap_err();
        assert!(error.to_string().starts_with("vfio:ffff:ff:1f.7: no device of the bus PCI or platform"), "{error}");
    }
}
