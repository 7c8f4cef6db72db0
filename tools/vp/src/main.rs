// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla_vp`: the NVDLA model, or a simulator of the RTL, behind a virtual machine's PCI bus.
//!
//! It listens on a UNIX socket for QEMU's `vfio-user-pci` device, or for the runtime (`--device vfio-user:SOCKET`), and ends
//! when the virtual machine or the program does.

mod board;
mod control;
mod device;
mod faults;
mod guest;
mod pci;
mod socket;
mod space;
mod sram;
mod stale;

use std::io::Write as _;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use nvdla_model::device::Model;
use nvdla_model::simulation::Simulation;
use nvdla_uapi::config::Config;
use vfio_bindings::bindings::vfio::{
    vfio_region_info, vfio_region_sparse_mmap_area, VFIO_IRQ_INFO_AUTOMASKED, VFIO_IRQ_INFO_EVENTFD,
    VFIO_IRQ_INFO_MASKABLE, VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_BAR2_REGION_INDEX, VFIO_PCI_BAR4_REGION_INDEX,
    VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX, VFIO_PCI_NUM_IRQS,
    VFIO_PCI_NUM_REGIONS, VFIO_REGION_INFO_FLAG_MMAP, VFIO_REGION_INFO_FLAG_READ, VFIO_REGION_INFO_FLAG_WRITE,
};
use vfio_user::{IrqInfo, Server, ServerRegion, SparseArea};

use socket::Socket;
use sram::Sram;

/// The smallest BAR that a guest can map alone.
const PAGE: u32 = 4096;

/// Puts the NVDLA model, or a simulator of the RTL, on a virtual machine's PCI bus
#[derive(Parser)]
#[command(name = "nvdla_vp", version)]
struct Arguments {
    /// The hardware configuration
    #[arg(long, default_value = "nv_small", value_parser = configuration)]
    config: &'static Config,
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
    /// Also control clock, reset line and supply through that window: at first clock and supply are off and the reset asserted
    #[arg(long)]
    lines: bool,
    /// KiB of the SRAM behind the secondary memory interface, a power of two from 4 on, or 0 for no SRAM; a configuration without
    /// that interface has none
    #[arg(long, value_name = "KIB", default_value_t = 2048)]
    sram: u32,
    /// Fail if the client leaves while an operation of the model runs
    #[arg(long, conflicts_with_all = ["persist", "rtl"])]
    stopped: bool,
    #[command(flatten)]
    board: board::Board,
    #[command(flatten)]
    faults: faults::Faults,
}

/// The exit status if the socket or another file cannot be used.
const FILE: u8 = 3;
/// The exit status if the device, or the connection to its client, has failed.
const DEVICE: u8 = 5;

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("warn")).init();
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err((status, message)) => {
            say(&message);
            ExitCode::from(status)
        }
    }
}

/// Writes a line to the standard error, in a single write, because several servers share the terminal.
fn say(message: &str) {
    // If nobody reads it, nothing else can be told.
    let _ = std::io::stderr().write_all(format!("nvdla_vp: {message}\n").as_bytes());
}

/// A configuration of the hardware by its name.
fn configuration(name: &str) -> Result<&'static Config, String> {
    Config::named(name).map_err(|error| error.to_string())
}

fn run(arguments: Arguments) -> Result<(), (u8, String)> {
    let failed = |message: String| (DEVICE, message);
    let config = arguments.config;
    let control = arguments.control || arguments.lines;
    let lines = if arguments.lines { faults::Lines::OFF } else { faults::Lines::default() };
    let core = match &arguments.rtl {
        None => device::Core::Model(Box::new(Model::new(config))),
        Some(rtl) => {
            let simulator = nvdla_rtl::Simulator::start(rtl).map_err(|error| failed(error.to_string()))?;
            let simulated = simulator.config().name;
            if simulated != config.name {
                return Err(failed(format!("{} simulates {simulated}, not {}", rtl.program.display(), config.name)));
            }
            device::Core::Rtl(Box::new(simulator))
        }
    };
    let sram = sram_of(config, arguments.sram).map_err(|message| (2, message))?;
    let regions = regions(control, sram.as_ref());
    let mut device = device::Device::new(core, arguments.board, arguments.faults, lines, control, sram)
        .map_err(|error| failed(format!("the model's thread did not start: {error}")))?;
    let cannot = |error| (FILE, format!("cannot listen on {}: {error}", arguments.socket.display()));
    let (_socket, listener) = Socket::listen(&arguments.socket).map_err(cannot)?;
    socket::watch(listener.try_clone().map_err(cannot)?, device.used()).map_err(cannot)?;
    let server = Server::from_owned_fd(listener.into(), true, interrupts(!arguments.no_msi), regions);
    let ended = loop {
        say(&format!("{} waits for a client on {}", config.name, arguments.socket.display()));
        let ended = serve(&server, &mut device);
        if !arguments.persist {
            break ended;
        }
        if let Err(error) = &ended {
            log::warn!("a client's connection failed: {error}");
        }
        device.disconnect();
    };
    let [reads, writes, interrupts, outside, ..] = device.counts();
    say(&format!(
        "{}: {reads} register reads, {writes} register writes, {interrupts} interrupts, {outside} accesses outside",
        config.name
    ));
    ended.map_err(|error| failed(format!("the connection failed: {error}")))?;
    match device.unended() {
        unended @ 1.. if arguments.stopped => {
            Err(failed(format!("{}: the client has left, and {unended} operations run", config.name)))
        }
        _ => Ok(()),
    }
}

/// Serves a client until it disconnects. The crate panics at some messages that no client should send, so a panic is an error here
/// and ends only this connection.
fn serve(server: &Server, device: &mut device::Device) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(|| server.run(device))) {
        Ok(ended) => ended.map_err(|error| error.to_string()),
        Err(_) => Err("the client sent a message that is not valid".into()),
    }
}

/// The SRAM of a device of that configuration.
fn sram_of(config: &Config, kib: u32) -> Result<Option<Sram>, String> {
    if kib == 0 || !config.secondary_memif {
        return Ok(None);
    }
    let size = kib.checked_mul(1024).filter(|size| size.is_power_of_two() && *size >= PAGE);
    let size = size.ok_or_else(|| format!("--sram {kib}: the size is not a power of two from 4 to 2097152"))?;
    Sram::new(size).map(Some).map_err(|error| format!("the SRAM of {kib} KiB cannot be made: {error}"))
}

fn regions(control: bool, sram: Option<&Sram>) -> Vec<ServerRegion> {
    (0..VFIO_PCI_NUM_REGIONS)
        .map(|index| {
            let size = match index {
                VFIO_PCI_CONFIG_REGION_INDEX => pci::SIZE as u64,
                VFIO_PCI_BAR0_REGION_INDEX => u64::from(pci::BAR_SIZE),
                VFIO_PCI_BAR2_REGION_INDEX if control => u64::from(pci::CONTROL_SIZE),
                VFIO_PCI_BAR4_REGION_INDEX => sram.map_or(0, |sram| sram.size().into()),
                _ => 0,
            };
            // The SRAM is mapped into the virtual machine. Registers are accessed by messages.
            let mmap_fd = sram.filter(|_| index == VFIO_PCI_BAR4_REGION_INDEX).map(Sram::descriptor);
            let mut flags = if size > 0 { VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE } else { 0 };
            let mut whole = Vec::new();
            if mmap_fd.is_some() {
                flags |= VFIO_REGION_INFO_FLAG_MMAP;
                // The server sends the descriptor only with a list of the areas that can be mapped.
                whole.push(SparseArea { area: vfio_region_sparse_mmap_area { offset: 0, size } });
            }
            ServerRegion {
                region_info: vfio_region_info {
                    argsz: size_of::<vfio_region_info>() as u32,
                    index,
                    size,
                    flags,
                    ..Default::default()
                },
                sparse_areas: whole,
                mmap_fd,
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
