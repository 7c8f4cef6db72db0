// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask vm --kernel debian:SERIES --access vfio|uio`: the NVDLA without its module, on a kernel that Debian ships.
//!
//! The guest's first process inserts that kernel's modules for VFIO or UIO and binds the devices to them. For VFIO the machine
//! has an IOMMU. For UIO the kernel's command line reserves a part of the memory.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};

use super::arch::Arch;
use super::debian;
use super::tree;
use crate::cache;
use crate::command;

/// How programs in the guest access the NVDLA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Access {
    /// Through the kernel module of this checkout
    Module,
    /// Through the kernel's VFIO, behind an IOMMU
    Vfio,
    /// Through the kernel's UIO, with reserved memory
    Uio,
}

/// An option of a module. The machine's IOMMU does not remap interrupts, because otherwise the kernel finds no timer on
/// QEMU's emulated processor. Without remapping VFIO needs this option to trust devices with their interrupts.
const OPTION: (&str, &str) = ("vfio_iommu_type1", "allow_unsafe_interrupts=1");

/// The memory that is reserved for devices without an IOMMU: mebibytes and start. QEMU loads the kernel of an x86 at 16 MiB and
/// the initial file system below 896 MiB. On a RISC-V machine the memory begins at 2 GiB with the kernel, the initial file system
/// begins in its middle, and the device tree is at its end.
const RESERVED: [(Arch, u64, u64); 2] = [(Arch::X86, 256, 0x1000_0000), (Arch::Riscv, 256, 0x9000_0000)];

impl Access {
    /// The driver that the device is bound to.
    fn driver(self) -> &'static str {
        match self {
            Self::Module => "nvdla",
            Self::Vfio => "vfio-pci",
            Self::Uio => "uio_pci_generic",
        }
    }

    /// The kernel's modules that it needs, in the order in which they are inserted.
    fn modules(self) -> &'static [&'static str] {
        match self {
            Self::Module => &[],
            Self::Vfio => &["irqbypass", "vfio", "vfio_iommu_type1", "vfio-pci-core", "vfio-pci"],
            Self::Uio => &["uio", "uio_pci_generic"],
        }
    }

    /// The memory that is reserved: mebibytes and start.
    pub(super) fn reserved(self, arch: Arch) -> Option<(u64, u64)> {
        let found = RESERVED.iter().find(|(of, ..)| self == Self::Uio && *of == arch);
        found.map(|&(_, mebibytes, start)| (mebibytes, start))
    }

    /// The first device, as an argument of `--device`.
    pub(super) fn device(self, arch: Arch) -> String {
        match (self, self.reserved(arch)) {
            (Self::Module, _) => "/dev/dri/renderD128".into(),
            (Self::Vfio, _) => format!("vfio:0000:00:{:02x}.0", tree::slot(0)),
            (Self::Uio, None) => "uio:/dev/uio0".into(),
            (Self::Uio, Some((mebibytes, start))) => format!("uio:/dev/uio0,memory={mebibytes}M@{start:#x}"),
        }
    }

    /// Additional options of the kernel's command line. On machines other than x86 the device tree reserves memory.
    pub(super) fn boot(self, arch: Arch) -> String {
        match (self, self.reserved(arch)) {
            (Self::Vfio, _) => " intel_iommu=on".into(),
            (Self::Uio, Some((mebibytes, start))) if arch == Arch::X86 => format!(" memmap={mebibytes}M${start:#x}"),
            _ => String::new(),
        }
    }

    /// The commands of the guest's first process instead of inserting the module.
    pub(super) fn setup(self) -> Option<String> {
        let driver = self.driver();
        let modules = self.modules().join(" ");
        let (module, option) = OPTION;
        (self != Self::Module).then(|| {
            format!(
                r"for module in {modules}; do
    option=
    [ $module != {module} ] || option={option}
    [ ! -e /$module.ko ] || insmod /$module.ko $option || echo 'nvdla-exit: 125'
done
for device in /sys/bus/pci/devices/*; do
    read vendor <$device/vendor
    read number <$device/device
    [ $vendor = 0x10de ] && [ $number = 0x4e56 ] || continue
    echo {driver} >$device/driver_override
    echo ${{device##*/}} >/sys/bus/pci/drivers_probe
done
"
            )
        })
    }
}

/// A kernel that Debian ships.
pub(super) struct Kernel {
    /// The image for QEMU.
    pub(super) image: PathBuf,
    /// The modules that are inserted.
    pub(super) modules: Vec<PathBuf>,
}

/// Fetches the kernel that the user names, with the modules for `access`.
pub(super) fn kernel(name: &str, access: Access, arch: Arch) -> Result<Kernel> {
    let series = name.strip_prefix("debian:").with_context(|| {
        format!("--kernel {name}: give debian:SERIES, such as debian:6.12; --kernel-source takes a source tree")
    })?;
    if access == Access::Module {
        bail!("the module is not built for Debian's kernels: --kernel needs --access vfio or --access uio");
    }
    let other = if arch == Arch::X86 { String::new() } else { format!("-{}", arch.debian()) };
    let step = format!("debian-kernel-{series}{other}");
    let folder =
        cache::step(&step, &format!("fetching Debian's kernel {series}"), |path| debian::kernel(series, arch, path))?;
    let release = only(&folder.join("usr/lib/modules"))?;
    let version = release.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // Newer packages have the kernel image in the modules' folder.
    let boot = folder.join("boot");
    let images =
        [boot.join(format!("vmlinuz-{version}")), boot.join(format!("vmlinux-{version}")), release.join("vmlinuz")];
    let image = images.into_iter().find(|image| image.exists()).context("the packages have no kernel")?;
    let modules = access.modules().iter().filter_map(|name| module(&release, name).transpose());
    Ok(Kernel { image, modules: modules.collect::<Result<_>>()? })
}

/// The only entry of a folder.
fn only(folder: &Path) -> Result<PathBuf> {
    let mut entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let first = entries.next().with_context(|| format!("{} is empty", folder.display()))??;
    Ok(first.path())
}

/// The unpacked file of a module; none if the module is built in.
fn module(release: &Path, name: &str) -> Result<Option<PathBuf>> {
    let find = |file: &str| -> Result<Option<PathBuf>> {
        let found = command::output(Command::new("find").arg(release).args(["-name", file]))?;
        Ok(found.lines().next().map(PathBuf::from))
    };
    if let Some(file) = find(&format!("{name}.ko"))? {
        return Ok(Some(file));
    }
    let Some(packed) = find(&format!("{name}.ko.xz"))? else { return Ok(None) };
    command::run(Command::new("xz").args(["--decompress", "--keep"]).arg(&packed))?;
    Ok(Some(packed.with_extension("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_of_debians_has_no_module() {
        assert!(kernel("6.12", Access::Vfio, Arch::X86).is_err());
        assert!(kernel("debian:6.12", Access::Module, Arch::X86).is_err());
    }

    #[test]
    fn the_setup_binds_devices_to_the_driver() {
        let setup = Access::Uio.setup().unwrap();
        assert!(setup.contains("for module in uio uio_pci_generic; do"), "{setup}");
        assert!(setup.contains("echo uio_pci_generic >$device/driver_override"), "{setup}");
        assert!(setup.contains("echo ${device##*/} >/sys/bus/pci/drivers_probe"), "{setup}");
        assert_eq!(Access::Vfio.device(Arch::X86), "vfio:0000:00:01.0");
        for (arch, device, boot) in [
            (Arch::X86, "uio:/dev/uio0,memory=256M@0x10000000", " memmap=256M$0x10000000"),
            (Arch::Riscv, "uio:/dev/uio0,memory=256M@0x90000000", ""),
        ] {
            assert_eq!((Access::Uio.device(arch).as_str(), Access::Uio.boot(arch).as_str()), (device, boot));
        }
        assert!(Access::Module.setup().is_none());
    }
}
