// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask vm`: the kernel module in a virtual machine.
//!
//! What it needs it finds or builds, each part once per machine: Debian's kernel source, the library source of this
//! machine's rustc, bindgen, the kernel, QEMU. Then it builds the module and the programs of this checkout, starts the
//! model's server and the machine, and runs the command there. With `--kernel` the kernel is one that Debian has built, and
//! the NVDLA is reached without the module.

mod arch;
mod cross;
mod debian;
mod direct;
mod emulated;
mod guest;
mod kernel;
mod machine;
mod test;
mod tree;

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure, Result};

use crate::cache::checkout;
use arch::Arch;
pub(crate) use emulated::{run as test, Arguments as TestArguments};

/// Options of `cargo xtask vm`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The machine; on an Arm one the device tree gives the NVDLA a clock, a reset line and reserved memory
    #[arg(long, value_enum, default_value = "x86-64")]
    arch: Arch,
    /// The hardware configuration of the machine's NVDLA; several for several devices
    #[arg(long, default_value = "nv_small", value_delimiter = ',')]
    config: Vec<String>,
    /// Run tests of this checkout instead of a command; what follows `--` are their options
    #[arg(long, value_enum)]
    test: Option<test::Suite>,
    /// A kernel source tree to build instead of Debian's
    #[arg(long)]
    kernel_source: Option<PathBuf>,
    /// A kernel as Debian ships it instead of one that is built here, for --access vfio or uio: debian:6.12
    #[arg(long, value_name = "debian:SERIES", conflicts_with = "kernel_source")]
    kernel: Option<String>,
    /// How programs reach the NVDLA; without the module `nvdla_runtime` is given its --device, and every command finds it
    /// in the variable NVDLA_DEVICE
    #[arg(long, value_enum, default_value = "module")]
    access: direct::Access,
    /// A folder of the host that the guest sees read-only under its own path
    #[arg(long = "share")]
    shares: Vec<PathBuf>,
    /// Memory of the guest in MiB
    #[arg(long, default_value_t = 1024)]
    memory: u32,
    /// Give a prompt instead of running a command
    #[arg(long)]
    shell: bool,
    /// Show the kernel's messages while it runs
    #[arg(long)]
    console: bool,
    /// Seconds after which the machine is ended
    #[arg(long, default_value_t = 600)]
    timeout: u64,
    /// Put an IOMMU between the NVDLA and memory
    #[arg(long)]
    iommu: bool,
    /// Interrupts by lines that other devices share, without MSI
    #[arg(long)]
    intx: bool,
    /// Make a platform device of the NVDLA on PCI, through the bridge in tests/bridge
    #[arg(long)]
    platform: bool,
    /// Build with KASAN, lockdep, kmemleak and the other checks
    #[arg(long)]
    checked: bool,
    /// Let the guest's clock count instructions, one per nanosecond: times that do not depend on the load of this machine
    #[arg(long)]
    instructions: bool,
    /// A simulator of the RTL in the model's place: a program that `cargo xtask rtl` has built, and its options
    #[arg(long, value_name = "PROGRAM[,NAME=VALUE]...")]
    rtl: Option<String>,
    /// Options of the model's server (faults on purpose)
    #[arg(long, allow_hyphen_values = true)]
    server: Vec<String>,
    /// Variables of the command's environment
    #[arg(skip)]
    environment: Vec<(String, String)>,
    /// The command and its arguments; files are looked for in the checkout and the shares
    #[arg(last = true)]
    command: Vec<String>,
}

/// Options of `cargo xtask module`.
#[derive(clap::Args)]
pub(crate) struct ModuleArguments {
    /// The architecture
    #[arg(long, value_enum)]
    arch: Arch,
    /// A kernel source tree to prepare instead of Debian's
    #[arg(long)]
    kernel_source: Option<PathBuf>,
}

/// Compiles the module for another architecture and says where it is.
pub(crate) fn module(arguments: &ModuleArguments) -> Result<u8> {
    debian::require_tools(None)?;
    let toolchain = kernel::Toolchain::find()?;
    let kernel = kernel::prepare(&toolchain, arguments.kernel_source.as_deref(), arguments.arch)?;
    let module = kernel::module(&toolchain, &kernel, checkout()?, "", "nvdla", arguments.arch, false)?;
    println!("{}", module.display());
    Ok(0)
}

/// Runs the command in the guest and gives its exit status.
pub(crate) fn run(mut arguments: Arguments) -> Result<u8> {
    let checkout = checkout()?;
    let arch = arguments.arch;
    if arch == Arch::Riscv {
        bail!("there is no RISC-V machine; `cargo xtask module` compiles the module for it");
    }
    ensure!(arch == Arch::X86 || !arguments.platform, "--platform is for a machine without a device tree");
    ensure!(arch == Arch::X86 || !arguments.intx, "--intx is for a machine whose devices have MSI otherwise");
    if let Some(suite) = arguments.test {
        if let Some(why) = suite.prepare(&mut arguments, checkout)? {
            println!("skipped: {why}");
            return Ok(0);
        }
    }
    let (kernel, modules) = match &arguments.kernel {
        Some(name) => {
            ensure!(arch == Arch::X86 && !arguments.platform, "--kernel is for a machine whose NVDLA is on PCI");
            ensure!(!arguments.checked, "--checked is for a kernel that is built here");
            debian::require_guest_tools()?;
            let direct::Kernel { image, modules } = direct::kernel(name, arguments.access)?;
            prepare_direct(&mut arguments);
            (image, modules)
        }
        None => built(checkout, &arguments)?,
    };
    let qemu = debian::qemu(arch)?;
    let busybox = debian::busybox(arch)?;
    let programs = guest::programs(checkout, arch, arguments.test)?;
    let image = guest::initramfs(&modules, &programs, &busybox, checkout, &arguments)?;
    let status = machine::run(&qemu, &kernel, &image, &programs, &arguments);
    // With the reference's loadables in it the image is large.
    if let Some(work) = image.parent() {
        let _ = std::fs::remove_dir_all(work);
    }
    status
}

/// A kernel that is built here, and the modules that are inserted.
fn built(checkout: &Path, arguments: &Arguments) -> Result<(PathBuf, Vec<PathBuf>)> {
    let arch = arguments.arch;
    ensure!(
        arguments.access == direct::Access::Module,
        "--access needs a kernel with VFIO and UIO: --kernel debian:6.12"
    );
    debian::require_tools(Some(arch))?;
    let toolchain = kernel::Toolchain::find()?;
    let kernel = kernel::build(&toolchain, arguments.kernel_source.as_deref(), arch, arguments.checked)?;
    let mut modules = vec![kernel::module(&toolchain, &kernel, checkout, "", "nvdla", arch, true)?];
    modules.extend(arch.modules().iter().map(|module| kernel.join(module)));
    if arguments.platform {
        modules.push(kernel::module(&toolchain, &kernel, checkout, "tests/bridge", "nvdla_bridge", arch, true)?);
    }
    Ok((kernel.join(arch.image().1), modules))
}

/// Fills in what a machine without the module needs.
fn prepare_direct(arguments: &mut Arguments) {
    let device = arguments.access.device();
    if arguments.command.first().is_some_and(|program| program == "nvdla_runtime")
        && !arguments.command.iter().any(|word| word.starts_with("--device"))
    {
        arguments.command.push(format!("--device={device}"));
    }
    if arguments.test == Some(test::Suite::Conformance) {
        // One program at a time has the device.
        arguments.command.push("--test-threads=1".into());
    }
    arguments.environment.retain(|(name, _)| name != "NVDLA_DEVICE");
    arguments.environment.push(("NVDLA_DEVICE".into(), device));
    arguments.iommu = arguments.access == direct::Access::Vfio;
}
