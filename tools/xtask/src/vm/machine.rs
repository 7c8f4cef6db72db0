// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs the virtual machine: QEMU and the model's server, until the guest powers off.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};

use super::arch::Arch;
use super::arguments::{Arguments, Suite};
use super::direct::Access;
use super::guest::Programs;
use super::halt;
use super::tree;
use crate::command;

/// The text that the guest prints on its console when the command has ended.
const EXIT: &str = "nvdla-exit: ";
/// The name of the socket of QEMU's monitor in the machine's folder.
const MONITOR: &str = "monitor";
/// How long the server may take to listen.
const SERVER_START: Duration = Duration::from_secs(10);

/// How long the servers may take to end after the machine has.
const SERVER_END: Duration = Duration::from_secs(2);

/// A process that is ended when this value is dropped.
pub(super) struct Process(pub(super) Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the machine and returns the command's exit status.
pub(super) fn run(qemu: &Path, kernel: &Path, image: &Path, programs: &Programs, arguments: &Arguments) -> Result<u8> {
    let work = image.parent().context("the image has no folder")?;
    let console = work.join("console.log");
    let start = Instant::now();
    let mut sockets = Vec::new();
    let mut servers = Vec::new();
    for (number, config) in arguments.config.iter().enumerate() {
        let socket = work.join(format!("{}.{number}.socket", std::process::id()));
        let rtl = arguments.rtl.as_deref().filter(|_| number == 0);
        servers.push(server(programs, config, &socket, rtl, arguments)?);
        sockets.push(socket);
    }
    let mut running = Process(
        machine(qemu, kernel, image, &sockets, &console, arguments)?
            .stdin(if arguments.shell { Stdio::inherit() } else { Stdio::null() })
            .stdout(Stdio::inherit())
            .spawn()
            .context("cannot start QEMU")?,
    );
    let limit = Duration::from_secs(arguments.timeout);
    let ended = loop {
        if let Some(status) = running.0.try_wait()? {
            break status;
        }
        if !arguments.shell && start.elapsed() > limit {
            show(&console)?;
            let servers = servers.iter().map(|server| server.0.id());
            halt::explain(&work.join(MONITOR), kernel, running.0.id(), servers);
            bail!("the machine did not end within {} s", arguments.timeout);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    for socket in sockets {
        let _ = fs::remove_file(socket);
    }
    // The servers end with the machine, and print their counters.
    let end = Instant::now() + SERVER_END;
    for server in &mut servers {
        while server.0.try_wait()?.is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    if arguments.console {
        show(&console)?;
    }
    eprintln!("vm: the machine ran for {:.1} s", start.elapsed().as_secs_f64());
    let mut log = String::new();
    BufReader::new(fs::File::open(&console)?).read_to_string(&mut log).context("the console's output is not text")?;
    let status = log.lines().rev().find_map(|line| line.split_once(EXIT)?.1.trim().parse().ok());
    if let Some(status) = status {
        for (server, config) in servers.iter_mut().zip(&arguments.config) {
            match server.0.try_wait()? {
                Some(ended) if !ended.success() && status == 0 => bail!("the server of {config} failed ({ended})"),
                _ => {}
            }
        }
        return Ok(status);
    }
    show(&console)?;
    bail!("the guest ended before the command did (QEMU: {ended})")
}

/// Starts the model's server and waits until it listens.
fn server(
    programs: &Programs,
    config: &str,
    socket: &Path,
    rtl: Option<&str>,
    arguments: &Arguments,
) -> Result<Process> {
    let mut command = Command::new(&programs.server);
    command
        .args(["--config", config])
        .args(server_options(arguments))
        .args((arguments.dma_offset != 0).then(|| format!("--dma-offset={}", arguments.dma_offset)))
        .args(rtl.into_iter().flat_map(|rtl| ["--rtl", rtl]))
        // The module stops the device before the machine is switched off.
        .args((arguments.access == Access::Module && rtl.is_none()).then_some("--stopped"))
        .args(&arguments.server);
    serve(&mut command, socket)
}

/// Starts the model's server with a socket and waits until it listens.
pub(super) fn serve(command: &mut Command, socket: &Path) -> Result<Process> {
    let mut server = Process(
        command.arg("--socket").arg(socket).stdin(Stdio::null()).spawn().context("cannot start the model's server")?,
    );
    let start = Instant::now();
    while !socket.exists() {
        if let Some(status) = server.0.try_wait()? {
            bail!("the model's server ended with {status}");
        }
        if start.elapsed() > SERVER_START {
            bail!("the model's server does not listen");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(server)
}

/// The options of the model's server that follow from the machine.
fn server_options(arguments: &Arguments) -> &'static [&'static str] {
    let by_line = arguments.intx || arguments.arch == Arch::Riscv;
    match arguments.arch {
        // The device tree's addresses are those of a device without SRAM.
        Arch::Arm64 => &["--lines", "--sram=0"],
        // After the first interrupt by a line QEMU does not map the device's memory into the guest any more, and vfio-user-pci has
        // no option to change that. Each access to the SRAM is then a message to the server, and the tests access all of it.
        _ if by_line && arguments.test == Some(Suite::Driver) => &["--sram=256"],
        _ => &[],
    }
}

/// A program of QEMU, run from its own Debian folder with that folder's libraries.
pub(super) fn program(qemu: &Path, name: &str) -> Command {
    let libraries = qemu.join("usr/lib/x86_64-linux-gnu");
    let mut command = Command::new(qemu.join("usr/lib64/ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(&libraries).arg(qemu.join("usr/bin").join(name));
    command.env("QEMU_MODULE_DIR", libraries.join("qemu"));
    command.arg("-L").arg(qemu.join("usr/share/qemu"));
    command
}

/// The name of the machine's bus.
pub(super) const BUS: &str = "pcie.0";

/// QEMU's option for the device behind a socket, in a slot of a bus.
pub(super) fn device(bus: &str, slot: usize, socket: &Path) -> String {
    format!(
        r#"{{"driver":"vfio-user-pci","bus":"{bus}","addr":"{slot:x}","socket":{{"type":"unix","path":"{}"}},"x-msg-timeout":600000}}"#,
        socket.display()
    )
}

/// QEMU without devices.
///
/// `options` are added to the kernel's command line; `serial` are the backends of its two lines.
fn emulator(qemu: &Path, arguments: &Arguments, options: &str, serial: [&str; 2]) -> Command {
    let (name, machine, processor) = arguments.arch.machine();
    let mut command = program(qemu, name);
    command.arg("-L").arg(qemu.join("usr/share/seabios"));
    command.args(["-machine", &format!("{machine},memory-backend=mem{options}"), "-cpu", processor]);
    // QEMU can count instructions only with one thread for all processors.
    let threads = if arguments.instructions { "single" } else { "multi" };
    command.args(["-accel", &format!("tcg,thread={threads}"), "-smp", "2"]);
    if arguments.instructions {
        command.args(["-icount", "shift=0"]);
    }
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    command.args(["-m", &format!("{}M", arguments.memory)]);
    command.args(["-object", &format!("memory-backend-memfd,id=mem,size={}M,share=on", arguments.memory)]);
    command.args(["-serial", serial[0]]);
    if arguments.arch == Arch::Riscv {
        // The machine has only one serial line of its own.
        command.args(["-chardev", &format!("{},id=line", serial[1]), "-device", "pci-serial,chardev=line,addr=1e"]);
    } else {
        command.args(["-serial", serial[1]]);
    }
    if arguments.iommu {
        command.args(["-device", arguments.arch.iommu()]);
    }
    command
}

/// The device tree of a machine that needs a modified one: with the board's nodes on an Arm machine, with reserved memory on a
/// RISC-V machine without the module.
fn device_tree(qemu: &Path, work: &Path, arguments: &Arguments) -> Result<Option<PathBuf>> {
    let reserved = arguments.access.reserved(arguments.arch);
    if arguments.arch != Arch::Arm64 && (arguments.arch != Arch::Riscv || reserved.is_none()) {
        return Ok(None);
    }
    let plain = work.join("qemu.dtb");
    let dump = format!(",dumpdtb={}", plain.display());
    command::run(&mut emulator(qemu, arguments, &dump, ["null", "null"]))?;
    match reserved {
        Some((mebibytes, start)) => tree::reserve(&plain, start, mebibytes << 20),
        None => tree::complete(&plain, &arguments.config, arguments.memory, arguments.iommu, arguments.dma_offset),
    }
    .map(Some)
}

/// The command of the whole machine.
fn machine(
    qemu: &Path,
    kernel: &Path,
    image: &Path,
    sockets: &[PathBuf],
    console: &Path,
    arguments: &Arguments,
) -> Result<Command> {
    let log = format!("file:{}", console.display());
    let mut command = emulator(qemu, arguments, "", [&log, "stdio"]);
    let work = image.parent().context("the image has no folder")?;
    command.arg("-monitor").arg(format!("unix:{},server=on,wait=off", work.join(MONITOR).display()));
    if let Some(tree) = device_tree(qemu, work, arguments)? {
        command.arg("-dtb").arg(tree);
    }
    // The driver's tests inject errors at the ports above the devices. A port with INTx would share the devices' lines.
    let ports = arguments.arch == Arch::X86 && arguments.test == Some(Suite::Driver) && !arguments.intx;
    for (device, socket) in sockets.iter().enumerate() {
        let slot = tree::slot(device);
        if ports {
            let port = format!("port{slot}");
            command.arg("-device").arg(format!("pcie-root-port,id={port},chassis={slot},addr={slot:x}"));
            command.arg("-device").arg(self::device(&port, 0, socket));
        } else {
            command.arg("-device").arg(self::device(BUS, slot, socket));
        }
    }
    if arguments.intx {
        // Another device with an ordinary handler shares each interrupt line: lines repeat every four slots.
        command.arg("-fsdev").arg(format!("local,id=line,path={},security_model=none,readonly=on", work.display()));
        for device in 0..sockets.len() {
            let slot = tree::slot(device) + 4 * sockets.len().div_ceil(4);
            let tag = format!("virtio-9p-pci,fsdev=line,mount_tag=line{device},vectors=0,addr={slot:x}");
            command.arg("-device").arg(tag);
        }
    }
    let line = arguments.arch.serial();
    let iommu = match arguments.access {
        Access::Module if arguments.iommu && arguments.arch == Arch::X86 => " intel_iommu=on".into(),
        access => access.boot(arguments.arch),
    };
    let lines = if arguments.intx { " pci=nomsi" } else { "" };
    // The firmware is not asked whether the kernel may handle errors.
    let ports = if ports { " pcie_ports=native" } else { "" };
    // If this machine is loaded, the timer's first ticks come late, and Linux would consider the timer broken.
    let timer = if arguments.arch == Arch::X86 { " no_timer_check" } else { "" };
    let memory =
        if arguments.arch == Arch::Arm64 && !arguments.iommu { tree::limit(arguments.memory) } else { String::new() };
    // While the kernel identifies the processor, it clears the list of the processor's features for a moment, and interrupts are
    // enabled. KASAN then does not know of the fifth level of page tables, and reports the address of an interrupt's structure.
    let checks = match (arguments.checked, arguments.arch) {
        (true, Arch::X86) => " page_poison=1 no5lvl",
        (true, _) => " page_poison=1",
        (false, _) => "",
    };
    let options = format!(
        "console={line}0 panic=-1 oops=panic cma=256M quiet loglevel=6{iommu}{lines}{ports}{timer}{memory}{checks}"
    );
    command.arg("-append").arg(options);
    command.arg("-kernel").arg(kernel).arg("-initrd").arg(image);
    Ok(command)
}

/// Shows the messages of the guest's kernel.
fn show(console: &PathBuf) -> Result<()> {
    let mut to = io::stderr().lock();
    for line in BufReader::new(fs::File::open(console)?).lines() {
        writeln!(to, "guest: {}", line?)?;
    }
    Ok(())
}
