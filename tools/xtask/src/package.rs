// SPDX-License-Identifier: MIT OR Apache-2.0

//! The packages that users install: Debian's by cargo-deb, Python's wheels by maturin and the provider's own script. All have the
//! version of the workspace.
//!
//! What goes into a Debian package stands in the `[package.metadata.deb]` of a crate; this file builds what those tables name. The
//! wheels are linked by zig against the glibc of `manylinux_2_28`, so that they run on distributions since 2018.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};
use clap::ValueEnum;

use crate::cache;
use crate::command::{output, run};
use crate::vm::{self, Arch};

/// The version of cargo-deb, which is built once per machine.
const CARGO_DEB: &str = "3.8.0";
/// What builds the wheel, and what links it for other distributions.
const MATURIN: &str = "maturin>=1.16,<2";
const ZIG: [&str; 2] = ["ziglang>=0.13,<0.18", "cargo-zigbuild>=0.20"];
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
    /// The folder for the packages, by default target/packages, and below it a folder for each other architecture
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only packages of this kind
    #[arg(long, value_enum)]
    only: Option<Kind>,
    /// Cargo's profile. Only with `release` the wheels are for other distributions than this machine's
    #[arg(long, default_value = "release")]
    profile: String,
    /// The architecture of the packages; by default this machine's
    #[arg(long, value_enum)]
    arch: Option<Arch>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// The Python wheels
    Wheel,
    /// Debian packages. The wheel of the runtime is built for python3-nvdla, which has its files, and is no package
    Deb,
}

/// Builds the packages.
pub(crate) fn build(arguments: &Arguments) -> Result<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let here = Arch::of_this_machine();
    let arch = arguments.arch.or(here).context("name the architecture of the packages with --arch")?;
    ensure!(arch != Arch::Arm, "no packages are made for 32-bit Arm");
    let cross = here != Some(arch);
    // `apt install DIR/*.deb` fails if the folder also has packages of other architectures.
    let own = Path::new("target/packages").join(if cross { arch.debian() } else { "" });
    let build = Build {
        // The tables of cargo-deb name this folder.
        stage: root.join("target/package-stage"),
        out: root.join(arguments.out.as_ref().unwrap_or(&own)),
        profile: &arguments.profile,
        zig: arguments.profile == "release" && arch != Arch::Riscv && arguments.only != Some(Kind::Deb),
        arch,
        cross,
        root,
    };
    if build.cross {
        vm::require_cross(arch)?;
    }
    fs::create_dir_all(&build.out)?;
    build.remove_old(arguments.only)?;
    build.tools()?;
    let wheel = build.wheel()?;
    let mut packages = Vec::new();
    if arguments.only != Some(Kind::Deb) {
        let place = build.out.join(wheel.file_name().context("a wheel has a name")?);
        fs::copy(&wheel, &place)?;
        packages.extend([place, build.provider()?.trim().into()]);
    }
    if arguments.only != Some(Kind::Wheel) {
        packages.extend(build.debian(&wheel)?.into_iter().map(PathBuf::from));
    }
    for package in packages {
        let megabytes = fs::metadata(&package)?.len() as f64 / 1e6;
        println!("{megabytes:6.2} MB  {}", package.display());
    }
    Ok(0)
}

struct Build<'a> {
    root: PathBuf,
    stage: PathBuf,
    out: PathBuf,
    profile: &'a str,
    /// Whether zig links the wheels, against an old C library. It has no such library for RISC-V, which is younger.
    zig: bool,
    arch: Arch,
    /// Whether the architecture is another than this machine's.
    cross: bool,
}

impl Build<'_> {
    /// Removes the packages of an earlier build that this build makes anew, which are those of one kind with `--only`.
    fn remove_old(&self, only: Option<Kind>) -> Result<()> {
        let old = files(&self.out, "deb")?.into_iter().chain(files(&self.out, "whl")?);
        for package in old.filter(|path| is_made_anew(path, only, self.arch)) {
            fs::remove_file(package)?;
        }
        Ok(())
    }

    /// Installs what builds and links the wheels.
    fn tools(&self) -> Result<()> {
        let tools = self.stage.join("venv");
        if !tools.join("bin/pip").exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&tools)).context("python3-venv is needed")?;
        }
        let zig = if self.zig { &ZIG[..] } else { &[] };
        run(Command::new(tools.join("bin/pip")).args(["install", "--quiet", MATURIN]).args(zig))
    }

    /// A command that runs Cargo for a wheel. Where zig links, no other linker is named, because that one would be used instead.
    fn wheel_command(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let mut command = self.command(program)?;
        if self.zig {
            command.env_remove(vm::linker_variable(self.arch));
        }
        Ok(command)
    }

    /// A command that may run Cargo for the architecture, with the tools of [`Build::tools`].
    fn command(&self, program: impl AsRef<OsStr>) -> Result<Command> {
        let mut command = Command::new(program);
        let mut path = vec![self.stage.join("venv/bin")];
        path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
        command.current_dir(&self.root).env("PATH", env::join_paths(path)?);
        if self.cross {
            vm::cross_environment(&mut command, self.arch)?;
        }
        Ok(command)
    }

    /// The options that name the architecture.
    fn target(&self) -> Vec<&'static str> {
        if self.cross {
            vec!["--target", self.arch.triple()]
        } else {
            Vec::new()
        }
    }

    /// The folder with what Cargo has built, for the architecture or for this machine.
    fn built(&self, cross: bool) -> PathBuf {
        let target = env::var_os("CARGO_TARGET_DIR").map_or(self.root.join("target"), |target| self.root.join(target));
        let target = if cross { target.join(self.arch.triple()) } else { target };
        target.join(if self.profile == "dev" { "debug" } else { self.profile })
    }

    /// Builds the wheel of the runtime and the compiler in the folder of the stage.
    fn wheel(&self) -> Result<PathBuf> {
        let folder = self.stage.join("wheel");
        let _ = fs::remove_dir_all(&folder);
        let zig = ["--zig", "--compatibility", "manylinux_2_28"];
        let plain = ["--compatibility", "linux"];
        let linked = if self.zig {
            &zig[..]
        } else if self.cross {
            &plain[..]
        } else {
            &[]
        };
        run(self
            .wheel_command(self.stage.join("venv/bin/maturin"))?
            .args(["build", "--locked", "--strip", "--profile", self.profile])
            .args(linked)
            .args(self.target())
            .arg("--manifest-path")
            .arg(self.root.join("umd/python/Cargo.toml"))
            .arg("--out")
            .arg(&folder))?;
        files(&folder, "whl")?.pop().context("maturin has written no wheel")
    }

    /// Builds the wheel of ONNX Runtime's provider, and returns its name.
    fn provider(&self) -> Result<String> {
        let mut command = self.wheel_command(self.root.join("umd/onnxruntime/wheel"))?;
        command.args(["--profile", self.profile, "--out"]).arg(&self.out).args(self.target());
        output(command.args(self.zig.then_some("--zig")))
    }

    /// Builds the Debian packages, and returns their names.
    fn debian(&self, wheel: &Path) -> Result<Vec<String>> {
        let Self { root, stage, out, profile, arch, cross, .. } = self;
        let version = env!("CARGO_PKG_VERSION");
        let packages = ["nvdla-cli", "nvdla-compiler", "nvdla-inspect", "nvdla-trace", "nvdla-vp", "nvdla-capi"];
        let build = ["build", "--locked", "--profile", profile, "--bins", "--lib"];
        let packages = packages.iter().flat_map(|name| ["-p", *name]);
        run(self.command("cargo")?.args(build).args(self.target()).args(packages))?;
        if *cross {
            // The pages and completions are written by a program of this machine.
            run(Command::new("cargo").current_dir(root).args(build).args(["-p", "nvdla-cli"]))?;
        }
        let (built, nvdla) = (self.built(*cross), self.built(false).join("nvdla"));
        let strip = if *cross { format!("{}-strip", arch.libraries()) } else { "strip".to_owned() };

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
            run(Command::new(&strip).arg(&staged))?;
        }
        run(Command::new(&nvdla).arg("man").arg(stage.join("man")))?;
        for (program, page) in PAGES {
            let page = format!("man1/{page}.1");
            ensure!(stage.join("man").join(&page[5..]).exists(), "`nvdla man` has written no {page}");
            fs::write(stage.join(format!("man/{program}.1")), format!(".so {page}\n"))?;
        }
        for (shell, file) in [("bash", "nvdla"), ("zsh", "_nvdla"), ("fish", "nvdla.fish")] {
            fs::write(
                stage.join("completions").join(file),
                output(Command::new(&nvdla).args(["completions", shell]))?,
            )?;
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
            .env("LIBDIR", format!("lib/{}", arch.libraries())))?;
        let library = stage.join("c/usr/lib").join(arch.libraries()).join(format!("libnvdla.so.{version}"));
        run(Command::new(&strip).arg("--strip-unneeded").arg(library))?;
        run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(stage.join("python")))?;

        // Below a folder of its own, because a step waits for others in its folder, such as the build of a kernel.
        let cargo_deb = cache::step(&format!("tools/cargo-deb-{CARGO_DEB}"), "building cargo-deb", |path| {
            let install = ["install", "--locked", "--quiet", "cargo-deb", "--version", CARGO_DEB, "--root"];
            run(Command::new("cargo").current_dir(root).args(install).arg(path).env_remove("CARGO_TARGET_DIR"))
        })?
        .join("bin/cargo-deb");
        let mut packages = Vec::new();
        for (name, variant) in DEBIAN {
            let mut command = Command::new(&cargo_deb);
            command.current_dir(root).args(["--no-build", "--locked", "-p", name, "--output"]).arg(out);
            command.args(self.target()).args(variant.iter().flat_map(|variant| ["--variant", variant]));
            let path = output(&mut command)?.trim().to_owned();
            if *cross {
                self.plain_dependencies(&path)?;
            }
            packages.push(path);
        }
        // The exact version on which libnvdla-dev depends stands in a table that cannot compute it.
        let dev = packages.iter().find(|path| path.contains("libnvdla-dev")).context("there is no libnvdla-dev")?;
        let depends = output(Command::new("dpkg-deb").args(["-f", dev, "Depends"]))?;
        if !depends.contains(&format!("libnvdla0 (= {version}-1)")) {
            bail!(
                "libnvdla-dev depends on {}: umd/capi/Cargo.toml names another version than {version}",
                depends.trim()
            );
        }
        Ok(packages)
    }

    /// Names the libraries on which a package depends without their architecture: those of a cross compiler have it in their names.
    fn plain_dependencies(&self, package: &str) -> Result<()> {
        let tree = self.stage.join("tree");
        let _ = fs::remove_dir_all(&tree);
        run(Command::new("dpkg-deb").args(["-R", package]).arg(&tree))?;
        let control = tree.join("DEBIAN/control");
        let text = fs::read_to_string(&control)?;
        let plain = text.replace(&format!(":{} (", self.arch.debian()), " (");
        if plain != text {
            fs::write(&control, plain)?;
            output(Command::new("dpkg-deb").arg("--root-owner-group").arg("-b").arg(&tree).arg(package))?;
        }
        Ok(())
    }
}

/// Whether a file is a package of an architecture that a build makes, of one kind or of both.
fn is_made_anew(path: &Path, only: Option<Kind>, arch: Arch) -> bool {
    let machine = arch.triple().split('-').next().unwrap_or_default().trim_end_matches("gc");
    let endings = [(Kind::Deb, format!("_{}.deb", arch.debian())), (Kind::Wheel, format!("_{machine}.whl"))];
    let name = path.to_string_lossy();
    endings.iter().any(|(kind, ending)| only.is_none_or(|only| only == *kind) && name.ends_with(ending))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_of_one_kind_leaves_the_packages_of_the_other() {
        let wheel = Path::new("packages/nvdla-0.1.0-cp310-abi3-manylinux_2_28_x86_64.whl");
        let deb = Path::new("packages/nvdla_0.1.0-1_amd64.deb");
        let made = |only| [wheel, deb].map(|path| is_made_anew(path, only, Arch::X86));
        assert_eq!(made(Some(Kind::Wheel)), [true, false]);
        assert_eq!(made(Some(Kind::Deb)), [false, true]);
        assert_eq!(made(None), [true, true]);
        assert!(!is_made_anew(wheel, None, Arch::Arm64) && !is_made_anew(deb, None, Arch::Arm64));
        let other = Path::new("packages/nvdla-0.1.0-cp310-abi3-linux_riscv64.whl");
        assert!(is_made_anew(other, Some(Kind::Wheel), Arch::Riscv));
    }
}
