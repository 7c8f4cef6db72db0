// SPDX-License-Identifier: MIT OR Apache-2.0

//! The packages that users install: Debian's by cargo-deb, Python's wheel by maturin. All have the version of the workspace.
//!
//! What goes into a Debian package stands in the `[package.metadata.deb]` of a crate; this file builds what those tables name. The
//! wheel is linked by zig against the glibc of `manylinux_2_28`, so that it runs on distributions since 2018.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};
use clap::ValueEnum;

use crate::command::{output, run};

/// The version of cargo-deb that is installed if there is none.
const CARGO_DEB: &str = "3.8.0";
/// What builds the wheel, and what links it for other distributions.
const MATURIN: &str = "maturin>=1.16,<2";
const ZIG: &str = "ziglang>=0.13,<0.18";
/// The crates with a Debian package, and the variant of their table.
const DEBIAN: [(&str, Option<&str>); 5] = [
    ("nvdla-cli", None),
    ("nvdla-capi", None),
    ("nvdla-capi", Some("dev")),
    ("nvdla-python", None),
    ("nvdla-engine", None),
];
/// The programs beside `nvdla`, and the manual page of each.
const PAGES: [(&str, &str); 4] = [
    ("nvdla_runtime", "nvdla-run"),
    ("nvdla_compiler", "nvdla-compile"),
    ("nvdla_inspect", "nvdla-inspect"),
    ("nvdla_trace", "nvdla-trace"),
];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The folder for the packages
    #[arg(long, value_name = "DIR", default_value = "target/packages")]
    out: PathBuf,
    /// Only packages of this kind
    #[arg(long, value_enum)]
    only: Option<Kind>,
    /// Cargo's profile. Only with `release` the wheel is for other distributions than this machine's
    #[arg(long, default_value = "release")]
    profile: String,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The Python wheel
    Wheel,
    /// Debian packages. The wheel is built too: python3-nvdla has its files
    Deb,
}

/// Builds the packages.
pub(crate) fn build(arguments: &Arguments) -> Result<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    // The tables of cargo-deb name this folder.
    let stage = root.join("target/package-stage");
    let out = root.join(&arguments.out);
    fs::create_dir_all(&out)?;
    let profile = &arguments.profile;
    let wheel = wheel(&root, &stage, &out, profile)?;
    println!("{}", wheel.display());
    if arguments.only != Some(Kind::Wheel) {
        for package in debian(&root, &stage, &out, profile, &wheel)? {
            println!("{package}");
        }
    }
    Ok(0)
}

/// Builds the wheel in `out`.
fn wheel(root: &Path, stage: &Path, out: &Path, profile: &str) -> Result<PathBuf> {
    let tools = stage.join("venv");
    if !tools.join("bin/pip").exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&tools)).context("python3-venv is needed")?;
    }
    let zig = profile == "release";
    run(Command::new(tools.join("bin/pip")).args(["install", "--quiet", MATURIN]).args(zig.then_some(ZIG)))?;
    for old in files(out, "whl")? {
        fs::remove_file(old)?;
    }
    let mut path = vec![tools.join("bin")];
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    run(Command::new(tools.join("bin/maturin"))
        .args(["build", "--locked", "--strip", "--profile", profile])
        .args(if zig { &["--zig", "--compatibility", "manylinux_2_28"][..] } else { &[] })
        .arg("--manifest-path")
        .arg(root.join("umd/python/Cargo.toml"))
        .arg("--out")
        .arg(out)
        .env("PATH", env::join_paths(path)?))?;
    files(out, "whl")?.pop().context("maturin has written no wheel")
}

/// Builds the Debian packages in `out`, and returns their names.
fn debian(root: &Path, stage: &Path, out: &Path, profile: &str, wheel: &Path) -> Result<Vec<String>> {
    let version = env!("CARGO_PKG_VERSION");
    let cargo = || {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(root);
        cargo
    };
    let packages = ["nvdla-cli", "nvdla-compiler", "nvdla-inspect", "nvdla-trace", "nvdla-vp", "nvdla-capi"];
    let build = ["build", "--locked", "--profile", profile, "--bins", "--lib"];
    run(cargo().args(build).args(packages.iter().flat_map(|name| ["-p", *name])))?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), |target| root.join(target));
    let built = target.join(if profile == "dev" { "debug" } else { profile });

    // Programs, manual pages, completions, the change log, the tree of the C library, and the files of the wheel.
    for folder in ["bin", "man", "completions", "c", "python"] {
        let folder = stage.join(folder);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
    }
    for program in PAGES.iter().map(|(program, _)| *program).chain(["nvdla", "nvdla_vp"]) {
        let staged = stage.join("bin").join(program);
        fs::copy(built.join(program), &staged)?;
        run(Command::new("strip").arg(&staged))?;
    }
    let nvdla = built.join("nvdla");
    run(Command::new(&nvdla).arg("man").arg(stage.join("man")))?;
    for (program, page) in PAGES {
        let page = format!("man1/{page}.1");
        ensure!(stage.join("man").join(&page[5..]).exists(), "`nvdla man` has written no {page}");
        fs::write(stage.join(format!("man/{program}.1")), format!(".so {page}\n"))?;
    }
    for (shell, file) in [("bash", "nvdla"), ("zsh", "_nvdla"), ("fish", "nvdla.fish")] {
        fs::write(stage.join("completions").join(file), output(Command::new(&nvdla).args(["completions", shell]))?)?;
    }
    let date = output(Command::new("date").args(["-R", "-r"]).arg(root.join("umd/CHANGELOG.md")))?;
    let maintainer = "NVDLA driver stack <maintainers@nvdla.invalid>";
    let entry = "  * Release of this version. umd/CHANGELOG.md in the source lists the changes.";
    let changelog = format!("nvdla ({version}-1) unstable; urgency=medium\n\n{entry}\n\n -- {maintainer}  {date}");
    fs::write(stage.join("changelog"), changelog)?;
    run(Command::new(root.join("umd/capi/install"))
        .arg("/usr")
        .arg(&built)
        .env("DESTDIR", stage.join("c"))
        .env("LIBDIR", format!("lib/{}", triple()?)))?;
    let library = stage.join("c/usr/lib").join(triple()?).join(format!("libnvdla.so.{version}"));
    run(Command::new("strip").arg("--strip-unneeded").arg(library))?;
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(stage.join("python")))?;

    let tools = stage.join("tools");
    let cargo_deb = tools.join("bin/cargo-deb");
    if !cargo_deb.exists() {
        run(cargo()
            .args(["install", "--locked", "--quiet", "cargo-deb", "--version", CARGO_DEB, "--root"])
            .arg(&tools))?;
    }
    for old in files(out, "deb")? {
        fs::remove_file(old)?;
    }
    let mut packages = Vec::new();
    for (name, variant) in DEBIAN {
        let mut command = Command::new(&cargo_deb);
        command.current_dir(root).args(["--no-build", "--locked", "-p", name, "--output"]).arg(out);
        command.args(variant.iter().flat_map(|variant| ["--variant", variant]));
        let path = output(&mut command)?;
        packages.push(path.trim().to_owned());
    }
    // The exact version on which libnvdla-dev depends stands in a table that cannot compute it.
    let dev = packages.iter().find(|path| path.contains("libnvdla-dev")).context("there is no libnvdla-dev")?;
    let depends = output(Command::new("dpkg-deb").args(["-f", dev, "Depends"]))?;
    if !depends.contains(&format!("libnvdla0 (= {version}-1)")) {
        bail!("libnvdla-dev depends on {}: umd/capi/Cargo.toml names another version than {version}", depends.trim());
    }
    Ok(packages)
}

/// The folder of Debian's libraries for this architecture.
fn triple() -> Result<&'static str> {
    match env::consts::ARCH {
        "x86_64" => Ok("x86_64-linux-gnu"),
        "aarch64" => Ok("aarch64-linux-gnu"),
        "riscv64" => Ok("riscv64-linux-gnu"),
        other => bail!("no packages are made for {other}"),
    }
}

/// The files of a folder with an extension.
fn files(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
