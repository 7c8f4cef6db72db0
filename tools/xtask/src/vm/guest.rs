// SPDX-License-Identifier: MIT OR Apache-2.0

//! The guest's file system: busybox, the module, the programs of this checkout, and shared folders of the host.

use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::arch::Arch;
use super::arguments::{Arguments, Suite};
use super::cross;
use crate::command;

/// The programs that the guest's command may begin with. With any other command the guest gets the first one.
const PROGRAMS: [&str; 2] = ["nvdla_runtime", "nvdla"];

/// The module's parameters for a simulator of the RTL, which at 23,000 cycles per second is too slow for the usual time limits of
/// tasks.
const SIMULATED: &str = "timeout_ms=3600000 max_timeout_ms=0";

/// The modules of the virtual camera, each behind those that it needs.
pub(super) const CAMERA: [&str; 8] = [
    "lib/fonts/font",
    "drivers/media/common/videobuf2/videobuf2-common",
    "drivers/media/common/videobuf2/videobuf2-v4l2",
    "drivers/media/common/videobuf2/videobuf2-memops",
    "drivers/media/common/videobuf2/videobuf2-vmalloc",
    "drivers/media/common/videobuf2/videobuf2-dma-contig",
    "drivers/media/common/v4l2-tpg/v4l2-tpg",
    "drivers/media/test-drivers/vivid/vivid",
];

/// Its parameters: buffers in one piece, one camera with an HDMI input, and one output.
const VIVID: &str = "n_devs=1 node_types=0x101 allocators=1 num_inputs=1 input_types=3 num_outputs=1 output_types=1";

/// The script of the first process. The command's output goes to the second serial line, its status to the first.
const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /tmp
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mount -t debugfs debug /sys/kernel/debug
/bin/busybox --install -s /bin
/bin/busybox mkdir -p /dev/shm
export PATH=/bin HOME=/ CI=true
read line </line
stty -F $line raw -echo
[ ! -e /board ] || . /board
[ ! -e /nvdla_bridge.ko ] || insmod /nvdla_bridge.ko
[ ! -e /nvdla.ko ] || insmod /nvdla.ko $(cat /parameters) || echo 'nvdla-exit: 125'
[ ! -e /direct ] || . /direct
[ ! -e /camera ] || . /camera
# A device whose clock has only just come is tried again.
read devices </devices
while [ $devices -gt 0 ] && [ $(ls /dev/dri /dev/accel 2>/dev/null | grep -c -e renderD -e accel[0-9]) -lt $devices ] && [ $((waited += 1)) -lt 100 ]; do sleep 0.05; done
cd "$(cat /directory)"
if [ -e /interactive ]; then
    stty -F $line sane
    setsid sh -c "exec sh -i <$line >$line 2>&1"
else
    sh /command </dev/null >$line 2>&1
fi
echo "nvdla-exit: $?"
poweroff -f
"#;

/// Commands that run first on a machine whose device tree assigns the devices to the platform driver: PCI only enables the
/// devices' windows, as a board's firmware would, and then the drivers of their clocks are loaded.
///
/// The registers and lines of a device in the tree are windows of a PCI function, and the kernel does not know that. It would
/// resume the function in a thread of its own while it resumes the device. The function's windows are disabled for a while in
/// its resume, so the device's driver would write to its lines without an effect. Without such threads the function is suspended
/// after the device and resumed before it, because the device was bound later.
const BOARD: &str = r"for device in /sys/bus/pci/devices/*; do
    read vendor <$device/vendor
    read number <$device/device
    [ $vendor = 0x10de ] && [ $number = 0x4e56 ] || continue
    echo the-tree >$device/driver_override
    echo 1 >$device/enable
done
echo 0 >/sys/power/pm_async
insmod /gpio-generic.ko
";

/// The programs of this checkout for the guest, and the model's server for the host.
///
/// A guest of this machine's architecture gets the programs that other commands build too, and this machine's libraries for them. For
/// another architecture they are statically linked.
pub(super) struct Programs {
    guest: Vec<PathBuf>,
    /// The model's server.
    pub(super) server: PathBuf,
}

/// Builds the programs, and those that the suite needs.
pub(super) fn programs(checkout: &Path, arch: Arch, suite: Option<Suite>, command: &[String]) -> Result<Programs> {
    let asked = PROGRAMS.iter().find(|program| command.first().is_some_and(|first| first == *program));
    let program = asked.unwrap_or(&PROGRAMS[0]);
    let target = checkout.join("target");
    let cargo = |what: &str| {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(checkout).args([what, "--release", "--locked", "--workspace"]);
        cargo
    };
    // The whole workspace is named, so that all programs have the same libraries, with the same features.
    let mut server = cargo("build");
    server.env_remove("CARGO_TARGET_DIR").arg("--target-dir").arg(&target);
    command::run(server.args(["--bin", "nvdla_vp"]))?;
    let for_guest = |what: &str| -> Result<Command> {
        let mut cargo = cargo(what);
        cross::target(&mut cargo, checkout, arch)?;
        Ok(cargo)
    };
    let start = std::time::Instant::now();
    let mut build = for_guest("build")?;
    build.args(["--bin", program]);
    command::run(&mut build)?;
    let folder = cross::programs(checkout, arch);
    let mut guest = vec![folder.join(program)];
    if let Some(suite) = suite {
        guest.extend(suite.build(for_guest)?);
    }
    eprintln!("vm: building the programs: {:.1} s", start.elapsed().as_secs_f64());
    Ok(Programs { guest, server: target.join("release/nvdla_vp") })
}

/// Packs the guest's first file system.
pub(super) fn initramfs(
    modules: &[PathBuf],
    programs: &Programs,
    busybox: &Path,
    checkout: &Path,
    arguments: &Arguments,
) -> Result<PathBuf> {
    // Several machines of one checkout may run at the same time.
    let work = checkout.join("target/vm").join(std::process::id().to_string());
    let root = work.join("root");
    let _ = fs::remove_dir_all(&root);
    for folder in ["bin", "sys/kernel/debug"] {
        fs::create_dir_all(root.join(folder))?;
    }
    fs::copy(busybox, root.join("bin/busybox")).context("busybox-static")?;
    for module in modules {
        fs::copy(module, root.join(module.file_name().unwrap_or_default()))
            .with_context(|| module.display().to_string())?;
    }
    for program in &programs.guest {
        fs::copy(program, root.join("bin").join(name(program))).with_context(|| program.display().to_string())?;
        if arguments.arch.linker().is_none() {
            for library in libraries(program)? {
                let inside = root.join(library.strip_prefix("/")?);
                fs::create_dir_all(inside.parent().context("a library has a folder")?)?;
                fs::copy(&library, inside).with_context(|| library.display().to_string())?;
            }
        }
    }
    write(&root.join("init"), INIT)?;
    write(&root.join("line"), &format!("/dev/{}1\n", arguments.arch.serial()))?;
    let simulated = arguments.rtl.is_some().then_some(SIMULATED).into_iter();
    let parameters: Vec<_> = simulated.chain(arguments.parameters.iter().map(String::as_str)).collect();
    write(&root.join("parameters"), &format!("{}\n", parameters.join(" ")))?;
    let setup = arguments.access.setup();
    // The number of the module's nodes, which the guest waits for.
    let nodes = if setup.is_some() { 0 } else { arguments.config.len() };
    write(&root.join("devices"), &format!("{nodes}\n"))?;
    if let Some(setup) = setup {
        write(&root.join("direct"), &setup)?;
    }
    if arguments.camera {
        let name = |module: &str| module.rsplit('/').next().unwrap_or_default().to_owned();
        let lines = CAMERA.map(|module| format!("insmod /{}.ko", name(module))).join("\n");
        write(&root.join("camera"), &format!("{lines} {VIVID}\n"))?;
    }
    if arguments.arch == Arch::Arm64 {
        write(&root.join("board"), BOARD)?;
    }
    let variables: Vec<_> =
        arguments.environment.iter().map(|(name, value)| format!("export {name}='{value}'")).collect();
    write(&root.join("command"), &format!("{}\n{}\n", variables.join("\n"), quoted(&arguments.command)))?;
    let here = std::env::current_dir()?;
    write(&root.join("directory"), &here.to_string_lossy())?;
    if arguments.shell {
        write(&root.join("interactive"), "")?;
    }
    for share in arguments.shares.iter().map(PathBuf::as_path).chain([checkout.join("examples").as_path()]) {
        let share = share.canonicalize().with_context(|| format!("--share {}", share.display()))?;
        let inside = root.join(share.strip_prefix("/")?);
        fs::create_dir_all(inside.parent().context("the root folder cannot be shared")?)?;
        // cpio follows the link below, so nothing is copied twice.
        symlink(&share, &inside)?;
    }
    fs::create_dir_all(root.join(here.strip_prefix("/")?))?;

    let image = work.join("initramfs.cpio");
    command::run(Command::new("sh").current_dir(&root).arg("-c").arg(format!(
        "find -L . -print0 | cpio --quiet --null --create --dereference --format=newc --file='{}'",
        image.display()
    )))?;
    if let Some(debian) = &arguments.debian {
        // The kernel unpacks one archive after another. Here links stay links.
        symlink(debian.canonicalize().with_context(|| format!("--debian {}", debian.display()))?, work.join("debian"))?;
        command::run(Command::new("sh").current_dir(&work).arg("-c").arg(format!(
            "find debian/ -xdev -print0 | cpio --quiet --null --create --format=newc >>'{}'",
            image.display()
        )))?;
    }
    Ok(image)
}

/// The files of the libraries that a program of this machine needs, and its loader.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let list = command::output(Command::new("ldd").arg(program))?;
    let paths = list.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    Ok(paths.map(PathBuf::from).collect())
}

/// A program's name in the guest, without the number that Cargo appends to test programs.
fn name(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match name.rsplit_once('-') {
        Some((name, number)) if number.len() == 16 => name.to_string(),
        _ => name,
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o755))?)
}

/// The command as one line for a shell.
fn quoted(words: &[String]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    quoted.join(" ")
}
