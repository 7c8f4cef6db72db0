// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel and the module.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};

use super::arch::Arch;
use super::cross;
use super::debian;
use crate::cache;
use crate::command;

/// bindgen's version, which must be new enough for the kernel.
const BINDGEN: &str = "0.73.2";
/// The folder of Debian's LLVM.
const LLVM: &str = "/usr/lib/llvm-19/bin";

/// The environment of every make of the kernel.
pub(super) struct Toolchain {
    path: OsString,
    library: PathBuf,
}

impl Toolchain {
    /// Finds or fetches bindgen and the library source.
    pub(super) fn find() -> Result<Self> {
        let bindgen = cache::step(&format!("bindgen-{BINDGEN}"), "building bindgen", |path| {
            command::run(
                Command::new("cargo")
                    .args(["install", "bindgen-cli", "--locked", "--version", BINDGEN, "--root"])
                    .arg(path)
                    .env_remove("CARGO_TARGET_DIR"),
            )
        })?;
        let mut folders = vec![PathBuf::from(LLVM), bindgen.join("bin")];
        folders.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        Ok(Self { path: env::join_paths(folders)?, library: cross::library()? })
    }

    /// `make` in `folder`.
    fn make(&self, folder: &Path, arch: Arch) -> Command {
        let mut make = Command::new("make");
        make.arg("-C").arg(folder).arg("LLVM=1").arg(format!("ARCH={}", arch.name()));
        make.env("PATH", &self.path).env("RUST_LIB_SRC", &self.library);
        // Cargo's settings for this program must not affect the kernel.
        for name in ["RUSTFLAGS", "CARGO_TARGET_DIR", "MAKEFLAGS"] {
            make.env_remove(name);
        }
        make
    }
}

/// The options of every kernel here.
const OPTIONS: &str = include_str!("../../kernel.config");

/// The options of a kernel whose source has the driver.
pub(super) const IN_TREE: &str = "CONFIG_DRM_ACCEL_NVDLA=m\nCONFIG_KUNIT=y\n";

/// The options of the kernel's own checks: most of them, or those that find data races.
pub(super) fn checks(checked: bool, races: bool) -> &'static str {
    match (checked, races) {
        (true, _) => include_str!("../../checked.config"),
        (_, true) => include_str!("../../races.config"),
        _ => "",
    }
}

/// Builds the virtual machine's kernel, once for each source and set of options.
pub(super) fn build(toolchain: &Toolchain, source: Option<&Path>, arch: Arch, checks: &str) -> Result<PathBuf> {
    let options = format!("{OPTIONS}{}{checks}", arch.options());
    make(toolchain, source, arch, "kernel", &options, &[arch.image().0, "modules"])
}

/// Prepares the kernel of another architecture for compiling a module, which does not need the whole kernel.
pub(super) fn prepare(toolchain: &Toolchain, source: Option<&Path>, arch: Arch) -> Result<PathBuf> {
    make(toolchain, source, arch, "prepared", &format!("{OPTIONS}{}", arch.options()), &["modules_prepare"])
}

fn make(
    toolchain: &Toolchain,
    source: Option<&Path>,
    arch: Arch,
    kind: &str,
    options: &str,
    targets: &[&str],
) -> Result<PathBuf> {
    let source = match source {
        Some(source) => source.to_path_buf(),
        None => cache::step(debian::KERNEL, "fetching the kernel's source", |path| {
            let package = path.with_extension("package");
            debian::unpack(debian::KERNEL, &package)?;
            let archive = package.join("usr/src").join(format!("{}.tar.xz", debian::KERNEL));
            fs::create_dir_all(path)?;
            command::run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(path).arg("--strip-components=1"))?;
            Ok(fs::remove_dir_all(package)?)
        })?,
    };
    let other = if arch == Arch::X86 { "" } else { arch.name() };
    // The name depends on the inputs, so a changed option builds a new kernel.
    let place = source.to_string_lossy();
    let name = format!("{kind}-{:016x}", fingerprint(&[place.as_bytes(), options.as_bytes(), other.as_bytes()]));
    cache::step(&name, "building the kernel", |build| make_in(toolchain, &source, build, arch, options, targets))
}

/// Builds targets of a kernel in the folder `build`.
fn make_in(
    toolchain: &Toolchain,
    source: &Path,
    build: &Path,
    arch: Arch,
    options: &str,
    targets: &[&str],
) -> Result<()> {
    fs::create_dir_all(build)?;
    let make =
        |target: &[&str]| command::run(toolchain.make(source, arch).arg(format!("O={}", build.display())).args(target));
    make(&["tinyconfig"])?;
    let config = build.join(".config");
    let tiny = fs::read_to_string(&config)?;
    fs::write(&config, tiny + options)?;
    make(&["olddefconfig"])?;
    make(&["rustavailable"])?;
    let jobs = format!("-j{}", std::thread::available_parallelism()?);
    let mut all = vec![jobs.as_str()];
    all.extend(targets);
    make(&all)
}

/// Builds the folder of accelerators in a kernel's tree.
pub(super) fn driver(toolchain: &Toolchain, source: &Path, build: &Path) -> Result<()> {
    let options = format!("{OPTIONS}{}{IN_TREE}", Arch::X86.options());
    make_in(toolchain, source, build, Arch::X86, &options, &["prepare", "drivers/accel/"])
}

/// Builds the module in `folder` of the checkout. Its name is given without the file extension.
///
/// Without a `whole` kernel, the symbols that the module uses are not resolved.
pub(super) fn module(
    toolchain: &Toolchain,
    kernel: &Path,
    checkout: &Path,
    folder: &str,
    name: &str,
    arch: Arch,
    whole: bool,
) -> Result<PathBuf> {
    let start = Instant::now();
    let output = checkout.join("target").join(name).join(kernel.file_name().unwrap_or_default());
    fs::create_dir_all(&output)?;
    let mut make = toolchain.make(kernel, arch);
    make.arg(format!("M={}", checkout.join(folder).display())).arg(format!("MO={}", output.display())).arg("modules");
    if !whole {
        make.arg("KBUILD_MODPOST_WARN=1");
    }
    command::run(&mut make).with_context(|| format!("building {name}.ko"))?;
    eprintln!("vm: building {name}.ko: {:.1} s", start.elapsed().as_secs_f64());
    Ok(output.join(name).with_extension("ko"))
}

/// FNV-1a over the parts, which is enough to distinguish sets of options.
fn fingerprint(parts: &[&[u8]]) -> u64 {
    parts
        .iter()
        .flat_map(|part| part.iter())
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
