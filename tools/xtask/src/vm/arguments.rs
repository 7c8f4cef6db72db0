// SPDX-License-Identifier: MIT OR Apache-2.0

//! The options of `cargo xtask vm` and `cargo xtask module`.

use std::path::PathBuf;

use super::arch::Arch;
use super::direct::Access;

/// A set of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suite {
    /// The driver's interface: invalid arguments, several clients, faults, removal, leaks
    Driver,
    /// The loadables of the reference data, as on the model
    Conformance,
    /// Random ioctls and descriptors
    Fuzz,
    /// LeNet without the module: a lost interrupt, a device that hangs, a program that is killed
    Direct,
    /// `nvdla doctor` without the module, on a machine for each fault; arguments after `--` are names of faults
    Doctor,
}

/// Options of `cargo xtask vm`.
#[derive(Clone, clap::Args)]
pub(crate) struct Arguments {
    /// The machine; on Arm the device tree gives the NVDLA a clock, a reset line and reserved memory
    #[arg(long, value_enum, default_value = "x86-64")]
    pub(super) arch: Arch,
    /// The hardware configuration of the machine's NVDLA; several names for several devices
    #[arg(long, default_value = "nv_small", value_delimiter = ',')]
    pub(super) config: Vec<String>,
    /// Run tests of this checkout instead of a command; arguments after `--` are their options
    #[arg(long, value_enum)]
    pub(super) test: Option<Suite>,
    /// A kernel source tree to build instead of Debian's
    #[arg(long)]
    pub(super) kernel_source: Option<PathBuf>,
    /// Use the driver in the kernel's source tree instead of this checkout's: cargo xtask series writes patches with it
    #[arg(long, requires = "kernel_source")]
    pub(super) in_tree: bool,
    /// A kernel that Debian ships instead of one that is built here, for --access vfio or uio: debian:6.12
    #[arg(long, value_name = "debian:SERIES", conflicts_with = "kernel_source")]
    pub(super) kernel: Option<String>,
    /// How programs access the NVDLA; without the module `nvdla_runtime` gets the matching --device, and other commands get the
    /// environment variable NVDLA_DEVICE
    #[arg(long, value_enum, default_value = "module")]
    pub(super) access: Access,
    /// A folder of the host that is shared with the guest, read-only, at the same path
    #[arg(long = "share")]
    pub(super) shares: Vec<PathBuf>,
    /// A folder with a Debian that debootstrap or mmdebstrap has made: the guest's /debian, which the command may change
    #[arg(long, value_name = "DIR")]
    pub(super) debian: Option<PathBuf>,
    /// Memory of the guest in MiB
    #[arg(long, default_value_t = 1024)]
    pub(super) memory: u32,
    /// Start a shell instead of running a command
    #[arg(long)]
    pub(super) shell: bool,
    /// Show the kernel's messages while the machine runs
    #[arg(long)]
    pub(super) console: bool,
    /// Seconds after which the machine is stopped
    #[arg(long, default_value_t = 600)]
    pub(super) timeout: u64,
    /// Put an IOMMU between the NVDLA and the memory
    #[arg(long)]
    pub(super) iommu: bool,
    /// Put the NVDLA behind a bus that adds this number to the addresses of the memory (arm64, without --iommu)
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(super) dma_offset: u64,
    /// Use interrupt lines that other devices share, without MSI
    #[arg(long)]
    pub(super) intx: bool,
    /// Present the PCI NVDLA as a platform device, with the bridge in tests/bridge
    #[arg(long)]
    pub(super) platform: bool,
    /// Put the kernel's virtual camera into the guest: /dev/video0, and /dev/video1 for the picture that it shows
    #[arg(long)]
    pub(super) camera: bool,
    /// Build with KASAN, UBSAN, lockdep, kmemleak, the DMA API's checks and others
    #[arg(long)]
    pub(super) checked: bool,
    /// Build with KCSAN, which reports data races
    #[arg(long, conflicts_with = "checked")]
    pub(super) races: bool,
    /// Let the guest's clock count instructions, one per nanosecond, so that times do not depend on the load of this machine
    #[arg(long)]
    pub(super) instructions: bool,
    /// A simulator of the RTL instead of the model, for the first device: a program that `cargo xtask rtl` has built, and its
    /// options
    #[arg(long, value_name = "PROGRAM[,NAME=VALUE]...")]
    pub(super) rtl: Option<String>,
    /// A parameter of the kernel module; may be repeated
    #[arg(long = "parameter", value_name = "NAME=VALUE")]
    pub(super) parameters: Vec<String>,
    /// Options of the model's server (fault injection)
    #[arg(long, allow_hyphen_values = true)]
    pub(super) server: Vec<String>,
    /// Variables of the command's environment
    #[arg(skip)]
    pub(super) environment: Vec<(String, String)>,
    /// The command and its arguments; its file is searched for in the checkout and the shared folders
    #[arg(last = true)]
    pub(super) command: Vec<String>,
}

/// Options of `cargo xtask module`.
#[derive(clap::Args)]
pub(crate) struct ModuleArguments {
    /// The architecture
    #[arg(long, value_enum)]
    pub(super) arch: Arch,
    /// A kernel source tree to prepare instead of Debian's
    #[arg(long)]
    pub(super) kernel_source: Option<PathBuf>,
}
