// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packages from Debian: tools, the sources of the kernel and of the Rust library, QEMU.
//!
//! Packages of a newer suite are fetched with a separate apt state, so the machine's own sources do not change. The mirror is the
//! one that the machine already uses.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, Context, Result};

use super::arch::Arch;
use crate::cache;
use crate::command;

/// The suite with a kernel and a QEMU that are new enough.
const SUITE: &str = "trixie-backports";
/// The stable release of that suite.
const RELEASE: &str = "trixie";
/// The kernel series that the module is written for.
pub(super) const KERNEL: &str = "linux-source-7.3";

/// The release's Python.
pub(super) const PYTHON: &str = "3.13";
/// The packages that the release's Python and NumPy's wheel need.
const PYTHON_NEEDS: [&str; 8] =
    ["libc6", "libgcc-s1", "libstdc++6", "libexpat1", "libffi8", "zlib1g", "libbz2-1.0", "liblzma5"];

/// Required files, with the package of each.
type Files = &'static [(&'static str, &'static str)];

/// Programs that the build needs, with the package of each.
const TOOLS: [(&str, &str); 10] = [
    ("/usr/lib/llvm-19/bin/clang", "clang-19"),
    ("/usr/lib/llvm-19/bin/ld.lld", "lld-19"),
    ("/usr/lib/llvm-19/bin/llvm-ar", "llvm-19"),
    ("/usr/bin/flex", "flex"),
    ("/usr/bin/bison", "bison"),
    ("/usr/bin/bc", "bc"),
    ("/usr/bin/cpio", "cpio"),
    ("/bin/busybox", "busybox-static"),
    ("/usr/sbin/debootstrap", "debootstrap"),
    ("/usr/bin/make", "make"),
];
/// Programs that a guest with Debian's kernel needs.
const GUEST_TOOLS: [(&str, &str); 4] = [
    ("/usr/bin/cpio", "cpio"),
    ("/bin/busybox", "busybox-static"),
    ("/usr/sbin/debootstrap", "debootstrap"),
    ("/usr/bin/xz", "xz-utils"),
];
/// Libraries that the build needs, each by one of its files.
const LIBRARIES: [(&str, &str); 3] = [
    ("/usr/lib/llvm-19/lib/libclang-19.so.1", "libclang1-19"),
    ("/usr/include/libelf.h", "libelf-dev"),
    ("/usr/include/openssl/ssl.h", "libssl-dev"),
];

/// The device tree compiler, for machines with a device tree.
const TREE_TOOLS: [(&str, &str); 1] = [("/usr/bin/dtc", "device-tree-compiler")];

/// A linker and a C library for Arm programs.
const ARM_CROSS: [(&str, &str); 2] = [
    ("/usr/bin/aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
    ("/usr/aarch64-linux-gnu/lib/libc.a", "libc6-dev-arm64-cross"),
];

/// The same for RISC-V programs.
const RISCV_CROSS: [(&str, &str); 2] = [
    ("/usr/bin/riscv64-linux-gnu-gcc", "gcc-riscv64-linux-gnu"),
    ("/usr/riscv64-linux-gnu/lib/libc.a", "libc6-dev-riscv64-cross"),
];

/// Installs the packages that the kernel, the module and a machine need, or lists those to install.
pub(super) fn require_tools(machine: Option<Arch>) -> Result<()> {
    let (tools, cross) = machine.map_or((&[][..], &[][..]), of_machine);
    require([&TOOLS, &LIBRARIES, tools, cross])
}

/// Additional files that a machine needs, and files that building its programs needs.
fn of_machine(arch: Arch) -> (Files, Files) {
    match arch {
        Arch::X86 | Arch::Arm => (&[], &[]),
        Arch::Arm64 => (&TREE_TOOLS, &ARM_CROSS),
        Arch::Riscv => (&TREE_TOOLS, &RISCV_CROSS),
    }
}

/// As [`require_tools`], for building programs of another architecture.
pub(crate) fn require_cross(arch: Arch) -> Result<()> {
    require([of_machine(arch).1, &[], &[], &[]])
}

/// As [`require_tools`], for a program without an operating system.
pub(super) fn require_bare_tools() -> Result<()> {
    require([&TOOLS[..3], &GUEST_TOOLS[2..3], &[], &[]])
}

/// As [`require_tools`], for a guest with Debian's kernel.
pub(super) fn require_guest_tools(arch: Arch) -> Result<()> {
    let (tools, cross) = of_machine(arch);
    require([&GUEST_TOOLS, tools, cross, &[]])
}

fn require(all: [&[(&str, &'static str)]; 4]) -> Result<()> {
    let missing: Vec<_> =
        all.into_iter().flatten().filter(|(file, _)| !Path::new(file).exists()).map(|&(_, package)| package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if command::output(Command::new("id").arg("-u"))?.trim() != "0" {
        bail!("packages are missing; as root: apt-get install {}", missing.join(" "));
    }
    eprintln!("vm: installing {}", missing.join(", "));
    command::run(Command::new("apt-get").arg("update"))?;
    command::run(Command::new("apt-get").args(["install", "-y", "--no-install-recommends"]).args(missing))
}

/// The mirror that this machine's apt uses.
fn mirror() -> Result<String> {
    let sites = command::output(Command::new("apt-get").args(["indextargets", "--format", "$(CODENAME) $(SITE)"]))?;
    let release = fs::read_to_string("/etc/os-release").context("this is not a Debian machine")?;
    let codename = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release names no VERSION_CODENAME")?;
    sites
        .lines()
        .find_map(|line| line.strip_prefix(codename)?.strip_prefix(' '))
        .map(str::to_string)
        .with_context(|| format!("apt has no source for {codename}; run apt-get update"))
}

/// Fetches a package of the newer suite and unpacks it to `into`.
pub(super) fn unpack(package: &str, into: &Path) -> Result<()> {
    fetch(SUITE, package, into)
}

/// A busybox for that machine.
pub(super) fn busybox(arch: Arch) -> Result<PathBuf> {
    let folder = match arch {
        Arch::X86 => PathBuf::from("/"),
        _ => cache::step(&format!("busybox-{}", arch.debian()), "fetching the machine's busybox", |path| {
            fetch(RELEASE, &format!("busybox-static:{}", arch.debian()), path)
        })?,
    };
    let places = ["usr/bin/busybox", "bin/busybox"].map(|place| folder.join(place));
    places.into_iter().find(|place| place.exists()).context("busybox-static has no busybox")
}

/// QEMU's program `name`, which runs programs of another architecture.
pub(super) fn emulator(name: &str) -> Result<PathBuf> {
    let folder = cache::step("qemu-user", "fetching QEMU's user emulation", |path| fetch(RELEASE, "qemu-user", path))?;
    Ok(folder.join("usr/bin").join(name))
}

/// A folder with a root file system that has that architecture's C libraries and Python.
pub(super) fn python(arch: Arch) -> Result<PathBuf> {
    let name = arch.debian();
    cache::step(&format!("python-{name}"), "fetching the emulated processor's Python", |root| {
        fs::create_dir_all(root.join("usr/lib"))?;
        // The dynamic linker is under /lib, which Debian's packages expect to be this link.
        std::os::unix::fs::symlink("usr/lib", root.join("lib"))?;
        let of_python = ["python{}-minimal", "libpython{}-minimal", "libpython{}-stdlib"];
        let of_python = of_python.iter().map(|package| package.replace("{}", PYTHON));
        let packages = of_python.chain(PYTHON_NEEDS.map(String::from)).map(|package| format!("{package}:{name}"));
        let packages: Vec<_> = packages.collect();
        let packages: Vec<_> = packages.iter().map(String::as_str).collect();
        Apt::of(RELEASE, Some(name))?.unpack(&packages, root)
    })
}

/// The newest kernel of a series that Debian ships, with its modules.
pub(super) fn kernel(series: &str, arch: Arch, into: &Path) -> Result<()> {
    // The release has the kernel and its modules in one package; newer suites have separate packages.
    let name = arch.debian();
    let pattern = format!(r"^linux-(image|binary|modules)-{}\.[0-9.]+\+deb[0-9]+-{name}$", series.replace('.', r"\."));
    for suite in [RELEASE, SUITE] {
        let apt = Apt::of(suite, (arch != Arch::X86).then_some(name))?;
        let found = command::output(apt.command("apt-cache").args(["search", "--names-only", &pattern]))?;
        let names = found.lines().filter_map(|line| line.split_whitespace().next());
        let mut releases: Vec<(Vec<u32>, &str)> = names.map(|name| (numbers(name), name)).collect();
        releases.sort();
        let Some((newest, _)) = releases.last().cloned() else { continue };
        let packages: Vec<_> = releases
            .iter()
            .filter(|(release, _)| *release == newest)
            .map(|(_, name)| format!("{name}:{}", arch.debian()))
            .collect();
        let packages: Vec<_> = packages.iter().map(String::as_str).collect();
        return apt.unpack(&packages, into);
    }
    bail!("neither {RELEASE} nor {SUITE} has a kernel {series}")
}

/// The numbers in a package's name, which versions are sorted by.
fn numbers(name: &str) -> Vec<u32> {
    let version = name.split('-').nth(2).unwrap_or_default();
    version.split(|character: char| !character.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

/// Fetches a package of a suite and unpacks it into `into`.
fn fetch(suite: &str, package: &str, into: &Path) -> Result<()> {
    // A package of another architecture has a name with a colon.
    let apt = Apt::of(suite, package.split_once(':').map(|(_, arch)| arch))?;
    apt.unpack(&[package], into).with_context(|| format!("{suite} has no {package}"))
}

/// apt with a separate state.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    /// apt with the packages of a suite, for another architecture if one is given.
    fn of(suite: &str, arch: Option<&str>) -> Result<Self> {
        let apt = cache::root()?.join("apt");
        for folder in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(apt.join(folder))?;
        }
        fs::write(apt.join("sources.list"), format!("deb {} {suite} main\n", mirror()?))?;
        let settings = [
            ("Dir::State", apt.join("state")),
            ("Dir::State::status", PathBuf::from("/var/lib/dpkg/status")),
            ("Dir::Cache", apt.join("cache")),
            ("Dir::Etc::sourcelist", apt.join("sources.list")),
            ("Dir::Etc::sourceparts", PathBuf::from("/dev/null")),
            ("Dir::Etc::preferencesparts", PathBuf::from("/dev/null")),
        ];
        let mut options: Vec<_> = settings.iter().map(|(key, value)| format!("{key}={}", value.display())).collect();
        options.push("APT::Sandbox::User=root".into());
        options.extend(arch.map(|arch| format!("APT::Architectures::={arch}")));
        let apt = Self { options };
        command::run(apt.command("apt-get").arg("update"))?;
        Ok(apt)
    }

    /// A command for one of apt's programs.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(self.options.iter().flat_map(|option| ["-o", option]));
        command
    }

    /// Fetches packages and unpacks them into `into`.
    fn unpack(&self, packages: &[&str], into: &Path) -> Result<()> {
        let downloads = cache::root()?.join("apt/downloads");
        let _ = fs::remove_dir_all(&downloads);
        fs::create_dir_all(&downloads)?;
        command::run(self.command("apt-get").arg("download").args(packages).current_dir(&downloads))?;
        for file in fs::read_dir(&downloads)? {
            command::run(Command::new("dpkg").arg("-x").arg(file?.path()).arg(into))?;
        }
        Ok(fs::remove_dir_all(&downloads)?)
    }
}

/// A folder with a root file system that has a QEMU with `vfio-user-pci` for that machine.
pub(super) fn qemu(arch: Arch) -> Result<PathBuf> {
    let root = cache::step("qemu-root", "installing QEMU into a separate Debian folder", |root| {
        let _ = fs::remove_dir_all(root);
        let mirror = mirror()?;
        command::run(Command::new("debootstrap").args(["--variant=minbase", RELEASE]).arg(root).arg(&mirror))?;
        fs::write(root.join("etc/apt/sources.list.d/backports.list"), format!("deb {mirror} {SUITE} main\n"))?;
        install(root, "qemu-system-x86")
    })?;
    if arch == Arch::Arm64 {
        cache::step("qemu-root-arm", "installing QEMU for Arm beside it", |_| install(&root, "qemu-system-arm"))?;
    }
    if arch == Arch::Riscv {
        let packages = ["qemu-system-riscv", "opensbi"];
        cache::step("qemu-root-riscv", "installing QEMU for RISC-V beside it", |_| {
            packages.iter().try_for_each(|package| install(&root, package))
        })?;
    }
    Ok(root)
}

/// Installs a package of the newer suite into a Debian folder.
fn install(root: &Path, package: &str) -> Result<()> {
    let apt_get = |words: &[&str]| command::run(Command::new("chroot").arg(root).arg("apt-get").args(words));
    apt_get(&["update"])?;
    apt_get(&["install", "-y", "--no-install-recommends", "-t", SUITE, package])
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_are_sorted_by_number() {
        let [old, new] = ["linux-image-6.12.94+deb13-amd64", "linux-image-6.12.107+deb13-amd64"].map(numbers);
        assert_eq!(new, [6, 12, 107, 13]);
        assert!(old < new);
    }
}
