// SPDX-License-Identifier: MIT OR Apache-2.0

//! The differences between processor architectures.

/// The processor of an x86 machine.
///
/// Without MONITOR an idle processor halts; with it QEMU lets it spin, which takes the host's time from the model. The other
/// features say that string instructions are fast for bytes. On a processor with them Linux copies and clears memory byte by
/// byte, and QEMU emulates each byte.
const X86: &str = "max,monitor=off,erms=off,fsrm=off,fzrm=off,fsrs=off,fsrc=off";

/// This machine's architecture, as it begins a target's name.
const HERE: &str = if cfg!(target_arch = "riscv64") { "riscv64gc" } else { std::env::consts::ARCH };

/// An architecture that the module is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Arch {
    /// A PC: the device is found on PCI
    #[value(name = "x86-64")]
    X86,
    /// 64-bit Arm: the device tree gives the device to the platform driver
    Arm64,
    /// 64-bit RISC-V: the device is found on PCI, and interrupts by a line
    Riscv,
    /// 32-bit Arm: the module can be built, and there is no machine
    Arm,
}

impl Arch {
    /// That of this machine, if it is one of these.
    pub(crate) fn of_this_machine() -> Option<Self> {
        let all = [Self::X86, Self::Arm64, Self::Riscv, Self::Arm];
        all.into_iter().find(|arch| arch.triple().split('-').next() == Some(HERE))
    }

    /// Its name in the kernel.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::X86 => "x86_64",
            Self::Arm64 => "arm64",
            Self::Riscv => "riscv",
            Self::Arm => "arm",
        }
    }

    /// Its kernel options in addition to the common ones.
    pub(super) fn options(self) -> &'static str {
        match self {
            Self::X86 => "",
            Self::Arm64 => include_str!("../../arm64.config"),
            Self::Riscv => include_str!("../../riscv.config"),
            Self::Arm => include_str!("../../arm.config"),
        }
    }

    /// The kernel image: the make target, and the file under `arch/`.
    pub(super) fn image(self) -> (&'static str, &'static str) {
        match self {
            Self::X86 => ("bzImage", "arch/x86/boot/bzImage"),
            Self::Arm64 => ("Image", "arch/arm64/boot/Image"),
            Self::Riscv => ("Image", "arch/riscv/boot/Image"),
            Self::Arm => ("zImage", "arch/arm/boot/zImage"),
        }
    }

    /// The kernel's own modules that a machine needs, as files of its build.
    pub(super) fn modules(self) -> &'static [&'static str] {
        match self {
            // Its registers answer only after the PCI function around them has been enabled, so it is inserted later.
            Self::Arm64 => &["drivers/gpio/gpio-generic.ko"],
            _ => &[],
        }
    }

    /// The first part of the serial lines' names.
    pub(super) fn serial(self) -> &'static str {
        match self {
            Self::Arm64 | Self::Arm => "ttyAMA",
            _ => "ttyS",
        }
    }

    /// QEMU's device for the machine's IOMMU. It reports each mapping to the model.
    pub(super) fn iommu(self) -> &'static str {
        match self {
            Self::X86 => "intel-iommu,caching-mode=on,intremap=off",
            Self::Arm64 | Self::Riscv | Self::Arm => "virtio-iommu-pci,addr=1f",
        }
    }

    /// Rust's target name for programs of the machine.
    pub(crate) fn triple(self) -> &'static str {
        match self {
            Self::X86 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
            Self::Riscv => "riscv64gc-unknown-linux-gnu",
            Self::Arm => "armv7-unknown-linux-gnueabihf",
        }
    }

    /// The linker for its programs on another machine.
    pub(super) fn linker(self) -> Option<&'static str> {
        match self {
            Self::Arm64 => Some("aarch64-linux-gnu-gcc"),
            Self::Riscv => Some("riscv64-linux-gnu-gcc"),
            Self::Arm => Some("arm-linux-gnueabihf-gcc"),
            Self::X86 => None,
        }
    }

    /// The folder of its libraries in Debian, which is also the start of the names of a cross compiler's programs.
    pub(crate) fn libraries(self) -> &'static str {
        match self {
            Self::X86 => "x86_64-linux-gnu",
            Self::Arm64 => "aarch64-linux-gnu",
            Self::Riscv => "riscv64-linux-gnu",
            Self::Arm => "arm-linux-gnueabihf",
        }
    }

    /// Debian's name for the architecture.
    pub(crate) fn debian(self) -> &'static str {
        match self {
            Self::X86 => "amd64",
            Self::Arm64 => "arm64",
            Self::Riscv => "riscv64",
            Self::Arm => "armhf",
        }
    }

    /// QEMU's program for the machine, the machine type and the processor.
    pub(super) fn machine(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::X86 => ("qemu-system-x86_64", "q35", X86),
            Self::Arm64 => ("qemu-system-aarch64", "virt", "cortex-a72"),
            Self::Riscv => ("qemu-system-riscv64", "virt", "rv64"),
            Self::Arm => ("qemu-system-arm", "virt", "cortex-a15"),
        }
    }

    /// QEMU's program for user emulation, and the processors to test: one with all extensions, and one without any.
    pub(super) fn emulation(self) -> Option<(&'static str, [&'static str; 2])> {
        match self {
            Self::Arm64 => Some(("qemu-aarch64", ["max", "cortex-a57"])),
            _ => None,
        }
    }
}
