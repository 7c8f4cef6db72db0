// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask vm`: the kernel module in a virtual machine.
//!
//! It finds or builds what it needs, once per machine: Debian's kernel source, the library source of this machine's rustc,
//! bindgen, the kernel, QEMU. Then it builds the module and the programs of this checkout, starts the model's server and the
//! machine, and runs the command there. With `--kernel` the kernel is one that Debian has built, and the NVDLA is used without
//! the module.

mod arch;
mod arguments;
mod bare;
mod bindings;
mod cross;
mod debian;
mod direct;
mod doctor;
mod emulated;
mod guest;
mod halt;
mod kernel;
mod machine;
mod test;
mod tree;

use std::path::{Path, PathBuf};

use anyhow::{ensure, Result};

use crate::cache::checkout;
pub(crate) use arch::Arch;
use arguments::Suite;
pub(crate) use arguments::{Arguments, ModuleArguments};
pub(crate) use bare::run as embedded;
pub(crate) use cross::{environment as cross_environment, linker_variable};
pub(crate) use debian::require_cross;
pub(crate) use emulated::{run as test, Arguments as TestArguments};

/// Compiles the module for another architecture and prints its path.
pub(crate) fn module(arguments: &ModuleArguments) -> Result<u8> {
    debian::require_tools(None)?;
    let toolchain = kernel::Toolchain::find()?;
    let kernel = kernel::prepare(&toolchain, arguments.kernel_source.as_deref(), arguments.arch)?;
    let module = kernel::module(&toolchain, &kernel, checkout()?, "", "nvdla", arguments.arch, false)?;
    println!("{}", module.display());
    Ok(0)
}

/// Builds the driver in a kernel's tree, with the options of the virtual machine.
pub(crate) fn build_driver(source: &Path, build: &Path) -> Result<()> {
    debian::require_tools(None)?;
    kernel::driver(&kernel::Toolchain::find()?, source, build)
}

/// Runs the command in the guest and returns its exit status.
pub(crate) fn run(mut arguments: Arguments) -> Result<u8> {
    let checkout = checkout()?;
    let arch = arguments.arch;
    ensure!(arch != Arch::Arm, "--arch arm: cargo xtask module builds the module, and there is no machine for it");
    ensure!(arch != Arch::Riscv || !arguments.iommu, "--iommu: the RISC-V machine has none");
    ensure!(
        arch == Arch::X86 || !arguments.platform,
        "--platform works only on x86-64, whose machine has no device tree"
    );
    ensure!(
        !(arguments.platform && arguments.test == Some(Suite::Driver)),
        "--platform: the tests of the driver let the device hang, and the platform device of tests/bridge has no reset line; \
         --arch arm64 has one"
    );
    ensure!(arch == Arch::X86 || !arguments.intx, "--intx works only on x86-64, where devices have MSI by default");
    if let Some(suite) = arguments.test {
        if let Some(why) = suite.prepare(&mut arguments, checkout)? {
            println!("skipped: {why}");
            return Ok(0);
        }
    }
    let (kernel, modules) = match &arguments.kernel {
        Some(name) => {
            ensure!(!arguments.camera, "--camera needs a kernel that is built here");
            ensure!(!arguments.platform, "--kernel works only without --platform");
            ensure!(!arguments.checked && !arguments.races, "--checked and --races need a kernel that is built here");
            let access = arguments.access;
            ensure!(
                arch == Arch::X86 || access.reserved(arch).is_some(),
                "--kernel works on x86-64, and on riscv with --access uio"
            );
            debian::require_guest_tools(arch)?;
            let direct::Kernel { image, modules } = direct::kernel(name, access, arch)?;
            prepare_direct(&mut arguments);
            (image, modules)
        }
        None => built(checkout, &arguments)?,
    };
    let qemu = debian::qemu(arch)?;
    let busybox = debian::busybox(arch)?;
    let programs = guest::programs(checkout, arch, arguments.test, &arguments.command)?;
    let machines = if arguments.test == Some(Suite::Doctor) { doctor::machines(&arguments) } else { vec![arguments] };
    let mut status = 0;
    for arguments in &machines {
        let image = guest::initramfs(&modules, &programs, &busybox, checkout, arguments)?;
        let ended = machine::run(&qemu, &kernel, &image, &programs, arguments);
        // With the reference's loadables the image is large, so it is removed.
        if let Some(work) = image.parent() {
            let _ = std::fs::remove_dir_all(work);
        }
        status = status.max(ended?);
    }
    Ok(status)
}

/// A kernel that is built here, and the modules that are inserted.
fn built(checkout: &Path, arguments: &Arguments) -> Result<(PathBuf, Vec<PathBuf>)> {
    let arch = arguments.arch;
    ensure!(
        arguments.dma_offset == 0 || arch == Arch::Arm64 && !arguments.iommu,
        "--dma-offset works on arm64, without --iommu"
    );
    ensure!(
        arguments.access == direct::Access::Module,
        "--access needs a kernel with VFIO and UIO: --kernel debian:6.12"
    );
    debian::require_tools(Some(arch))?;
    let toolchain = kernel::Toolchain::find()?;
    let checks = kernel::checks(arguments.checked, arguments.races).to_owned();
    let options = checks + if arguments.in_tree { kernel::IN_TREE } else { "" };
    let kernel = kernel::build(&toolchain, arguments.kernel_source.as_deref(), arch, &options)?;
    let mut modules = if arguments.in_tree {
        vec![kernel.join("drivers/accel/nvdla/nvdla.ko")]
    } else {
        vec![kernel::module(&toolchain, &kernel, checkout, "", "nvdla", arch, true)?]
    };
    modules.extend(arch.modules().iter().map(|module| kernel.join(module)));
    if arguments.platform {
        modules.push(kernel::module(&toolchain, &kernel, checkout, "tests/bridge", "nvdla_bridge", arch, true)?);
    }
    if arguments.camera {
        modules.extend(guest::CAMERA.iter().map(|module| kernel.join(module).with_extension("ko")));
    }
    Ok((kernel.join(arch.image().1), modules))
}

/// Adds the options of a machine without the module.
fn prepare_direct(arguments: &mut Arguments) {
    let device = arguments.access.device(arguments.arch);
    if arguments.command.first().is_some_and(|program| program == "nvdla_runtime")
        && !arguments.command.iter().any(|word| word.starts_with("--device"))
    {
        arguments.command.push(format!("--device={device}"));
    }
    if arguments.test == Some(Suite::Conformance) {
        // Only one program at a time can use the device.
        arguments.command.push("--test-threads=1".into());
    }
    arguments.environment.retain(|(name, _)| name != "NVDLA_DEVICE");
    arguments.environment.push(("NVDLA_DEVICE".into(), device));
    arguments.iommu = arguments.access == direct::Access::Vfio;
}
