// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_vp`: the NVDLA model, or a simulator of the RTL, behind a virtual machine's PCI bus.
//!
//! It listens on a UNIX socket for QEMU's `vfio-user-pci` device, or for the runtime (`--device vfio-user:SOCKET`), and ends
//! when the virtual machine or the program does.

mod control;
mod device;
mod faults;
mod guest;
mod pci;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use nvdla_model::device::Model;
use nvdla_model::simulation::Simulation;
use nvdla_uapi::config::Config;
use vfio_bindings::bindings::vfio::{
    vfio_region_info, VFIO_IRQ_INFO_AUTOMASKED, VFIO_IRQ_INFO_EVENTFD, VFIO_IRQ_INFO_MASKABLE,
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_BAR2_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_INTX_IRQ_INDEX,
    VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_NUM_IRQS, VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_READ,
    VFIO_REGION_INFO_FLAG_WRITE,
};
use vfio_user::{IrqInfo, Server, ServerRegion};

/// Puts the NVDLA model, or a simulator of the RTL, on a virtual machine's PCI bus
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// The hardware configuration
    #[arg(long, default_value = "nv_small")]
    config: String,
    /// A simulator that `cargo xtask rtl` has built, and its options, instead of the model: PROGRAM[,NAME=VALUE]...; faults of
    /// starts are not available with it
    #[arg(long, value_name = "PROGRAM")]
    rtl: Option<nvdla_rtl::Selection>,
    /// The UNIX socket to listen on
    #[arg(long)]
    socket: PathBuf,
    /// Serve one client after another, each with a newly reset device, until this program is ended
    #[arg(long)]
    persist: bool,
    /// Use only the interrupt line, without MSI
    #[arg(long)]
    no_msi: bool,
    /// Give the guest a second window, through which its tests inject faults
    #[arg(long)]
    control: bool,
    /// Also control the clock and the reset line through that window: at first the clock is off and the reset asserted
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    faults: faults::Faults,
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("nvdla_vp: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), String> {
    let config = Config::named(&arguments.config).map_err(|error| error.to_string())?;
    let control = arguments.control || arguments.lines;
    let lines = if arguments.lines { faults::Lines::OFF } else { faults::Lines::default() };
    let core = match &arguments.rtl {
        None => device::Core::Model(Box::new(Model::new(config))),
        Some(rtl) => {
            let simulator = nvdla_rtl::Simulator::start(rtl).map_err(|error| error.to_string())?;
            let simulated = simulator.config().name;
            if simulated != config.name {
                return Err(format!("{} simulates {simulated}, not {}", rtl.program.display(), config.name));
            }
            device::Core::Rtl(Box::new(simulator))
        }
    };
    let mut device = device::Device::new(core, arguments.faults, lines, control)
        .map_err(|error| format!("the model's thread did not start: {error}"))?;
    // A socket that an earlier run has left would prevent the bind.
    let _ = std::fs::remove_file(&arguments.socket);
    let server = Server::new(&arguments.socket, true, interrupts(!arguments.no_msi), regions(control))
        .map_err(|error| format!("cannot listen on {}: {error}", arguments.socket.display()))?;
    let ended = loop {
        let ended = server.run(&mut device);
        if !arguments.persist {
            break ended;
        }
        if let Err(error) = &ended {
            log::warn!("a client's connection failed: {error}");
        }
        device.disconnect();
    };
    let [reads, writes, interrupts, outside, ..] = device.counts();
    // A single write, because several servers share the terminal.
    let counts = format!(
        "nvdla_vp: {}: {reads} register reads, {writes} register writes, {interrupts} interrupts, {outside} accesses \
         outside\n",
        config.name
    );
    eprint!("{counts}");
    ended.map_err(|error| format!("the connection failed: {error}"))
}

fn regions(control: bool) -> Vec<ServerRegion> {
    (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let size = match index {
                VFIO_PCI_CONFIG_REGION_INDEX => pci::SIZE as u64,
                VFIO_PCI_BAR0_REGION_INDEX => u64::from(pci::BAR_SIZE),
                VFIO_PCI_BAR2_REGION_INDEX if control => u64::from(pci::CONTROL_SIZE),
                _ => 0,
            };
            let flags = if size > 0 { VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE } else { 0 };
            ServerRegion {
                region_info: vfio_region_info {
                    argsz: size_of::<vfio_region_info>() as u32,
                    index,
                    size,
                    flags,
                    ..Default::default()
                },
                sparse_areas: Vec::new(),
                mmap_fd: None,
            }
        })
        .collect()
}

fn interrupts(msi: bool) -> Vec<IrqInfo> {
    (0..VFIO_PCI_NUM_IRQS)
        .map(|index| match index {
            VFIO_PCI_INTX_IRQ_INDEX => IrqInfo {
                index,
                count: 1,
                flags: VFIO_IRQ_INFO_EVENTFD | VFIO_IRQ_INFO_MASKABLE | VFIO_IRQ_INFO_AUTOMASKED,
            },
            VFIO_PCI_MSI_IRQ_INDEX if msi => IrqInfo { index, count: 1, flags: VFIO_IRQ_INFO_EVENTFD },
            _ => IrqInfo { index, count: 0, flags: 0 },
        })
        .collect()
}
