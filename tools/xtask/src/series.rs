// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask series`: the driver of this checkout as a series of patches for Linux.
//!
//! The checkout stays the source of truth. Its files are put where they belong in the kernel's tree, without the parts that only
//! user space needs and without NVIDIA's first ioctl, and are formatted to the kernel's width. Git makes the patches. An edit that
//! does not match the source exactly once is an error, and a test applies all of them.

mod edits;
mod files;
mod source;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{ensure, Context, Result};

use crate::cache::checkout;
use crate::{command, vm};
use edits::{edit, Edit};
use files::{write, Files, DRIVER};

/// Options of `cargo xtask series`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The kernel's source tree, of Linux 7.3
    #[arg(long, value_name = "TREE")]
    kernel_source: PathBuf,
    /// The folder for the patches, which is made, or must be empty
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The author, who signs the patches; without it Git's user.name and user.email
    #[arg(long, value_name = "NAME <MAIL>")]
    author: Option<String>,
    /// Also apply the patches to a copy of the tree, one after another, and build the driver after each
    #[arg(long)]
    build: bool,
}

/// The kernel's files that patches change.
const CHANGED: [&str; 8] = [
    "Documentation/accel/index.rst",
    "Documentation/gpu/drm-usage-stats.rst",
    "MAINTAINERS",
    "drivers/accel/Kconfig",
    "drivers/accel/Makefile",
    "rust/bindings/bindings_helper.h",
    "rust/kernel/drm/device.rs",
    "rust/kernel/drm/driver.rs",
];

/// A patch: its subject, its message, and the files as they are after it.
struct Patch {
    subject: &'static str,
    message: &'static str,
    files: Files,
}

/// Writes the series.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let tree = fs::canonicalize(&arguments.kernel_source)
        .with_context(|| format!("--kernel-source: cannot open {}", arguments.kernel_source.display()))?;
    ensure!(tree.join("scripts/checkpatch.pl").exists(), "--kernel-source: {} is no kernel's source", tree.display());
    fs::create_dir_all(&arguments.out)?;
    ensure!(fs::read_dir(&arguments.out)?.next().is_none(), "--out: {} is not empty", arguments.out.display());
    let out = fs::canonicalize(&arguments.out)?;
    let author = match &arguments.author {
        Some(author) => author.clone(),
        None => command::output(Command::new("git").args(["var", "GIT_AUTHOR_IDENT"]))?
            .split_inclusive('>')
            .next()
            .context("Git knows no author: --author")?
            .to_owned(),
    };
    let (name, mail) = author
        .strip_suffix('>')
        .and_then(|author| author.split_once(" <"))
        .with_context(|| format!("--author: \"{author}\" is not of the form Name <mail>"))?;
    let work = checkout()?.join("target/series");
    let _ = fs::remove_dir_all(&work);
    let original = CHANGED
        .iter()
        .map(|&path| {
            let text =
                fs::read_to_string(tree.join(path)).with_context(|| format!("the kernel's source has no {path}"))?;
            Ok((path.to_owned(), text))
        })
        .collect::<Result<Files>>()?;
    let driver = source::driver(checkout()?, &tree, &work.join("format"))?;
    let patches = patches(checkout()?, &original, &driver, &author)?;
    let repository = work.join("repository");
    write(&repository, &Files::new(), &original)?;
    let git = |words: &[&str]| {
        let mut git = Command::new("git");
        git.arg("-C").arg(&repository);
        for (key, value) in [("user.name", name), ("user.email", mail), ("commit.gpgsign", "false")] {
            git.arg("-c").arg(format!("{key}={value}"));
        }
        command::run(git.args(words))
    };
    git(&["init", "--quiet", "--initial-branch=nvdla"])?;
    git(&["add", "--all"])?;
    git(&["commit", "--quiet", "--message=Linux"])?;
    git(&["tag", "linux"])?;
    let mut before = original;
    for patch in &patches {
        write(&repository, &before, &patch.files)?;
        git(&["add", "--all"])?;
        let message = format!("--message={}\n\n{}", patch.subject, patch.message.trim());
        git(&["commit", "--quiet", "--signoff", &message])?;
        before.clone_from(&patch.files);
    }
    let output = format!("--output-directory={}", out.display());
    git(&["format-patch", "--quiet", "--cover-letter", &output, "linux.."])?;
    let cover = out.join("0000-cover-letter.patch");
    let text = fs::read_to_string(&cover)?
        .replace("*** SUBJECT HERE ***", "accel/nvdla: Add a driver for NVDLA")
        .replace("*** BLURB HERE ***", include_str!("../series/cover").trim());
    fs::write(cover, text)?;
    println!("{} patches in {}", patches.len(), out.display());
    check(&tree, &out)?;
    if arguments.build {
        build(&tree, &work, &patches)?;
    }
    Ok(0)
}

/// The patches, from the kernel's files and the driver's as they are in the end.
fn patches(checkout: &Path, original: &Files, driver: &Files, author: &str) -> Result<Vec<Patch>> {
    let mut files = original.clone();
    let mut patches = Vec::new();
    let mut add = |files: &Files, subject, message| patches.push(Patch { subject, message, files: files.clone() });
    let of = |wanted: &dyn Fn(&str) -> bool| {
        let some =
            driver.iter().filter(|(path, _)| wanted(path.strip_prefix(DRIVER).unwrap_or(path).trim_matches('/')));
        some.map(|(path, text)| (path.clone(), text.clone())).collect::<Files>()
    };
    let read = |path: &str| fs::read_to_string(checkout.join(path)).with_context(|| format!("there is no {path}"));

    let binding = read("kmd/Documentation/nvidia,nvdla.yaml")?
        .replace("The NVDLA driver stack's authors <nvdla@example.org>", author);
    files.insert("Documentation/devicetree/bindings/npu/nvidia,nvdla.yaml".into(), binding);
    let maintainers = include_str!("../series/maintainers").replace("@AUTHOR@", author);
    edit(&mut files, &[Edit::before("MAINTAINERS", "DRM ACCEL DRIVER FOR ROCKCHIP NPU\n", &maintainers)])?;
    add(&files, "dt-bindings: npu: Add NVDLA", edits::BINDING);

    files.insert("include/uapi/drm/nvdla_accel.h".into(), source::header(&read("uapi/include/nvdla_drm.h")?)?);
    add(&files, "drm/nvdla: Add the header of the ioctls", edits::HEADER);

    edit(&mut files, &edits::accel_node())?;
    add(&files, "rust: drm: Add accel nodes", edits::NODE);

    files.extend(of(&|path| path.starts_with("uapi/")));
    files.insert(format!("{DRIVER}/main.rs"), include_str!("../series/main.rs").into());
    files.insert(format!("{DRIVER}/Kconfig"), include_str!("../series/Kconfig").into());
    files.insert(format!("{DRIVER}/Makefile"), makefile(&files));
    edit(
        &mut files,
        &[
            Edit::before(
                "drivers/accel/Kconfig",
                "source \"drivers/accel/qaic/Kconfig\"\n",
                "source \"drivers/accel/nvdla/Kconfig\"\n",
            ),
            Edit::before(
                "drivers/accel/Makefile",
                "obj-$(CONFIG_DRM_ACCEL_QAIC)",
                "obj-$(CONFIG_DRM_ACCEL_NVDLA)\t\t+= nvdla/\n",
            ),
        ],
    )?;
    add(&files, "accel/nvdla: Add the hardware's definitions", edits::DEFINITIONS);

    files.extend(of(&|path| path.starts_with("engine/")));
    let module = "#[allow(dead_code, unused_imports, unreachable_pub)]\n#[path = \"engine/lib.rs\"]\nmod engine;\n\n";
    edit(&mut files, &[Edit::before("drivers/accel/nvdla/main.rs", "use kernel::prelude::*;\n", module)])?;
    add(&files, "accel/nvdla: Add the engine", edits::ENGINE);

    files.extend(of(&|path| path != "pci.rs"));
    edit(&mut files, &edits::without_pci())?;
    files.insert(format!("{DRIVER}/Makefile"), makefile(&files));
    add(&files, "accel/nvdla: Add the driver", edits::WHOLE);

    files.insert("Documentation/accel/nvdla/index.rst".into(), include_str!("../series/index.rst").into());
    edit(
        &mut files,
        &[
            Edit::before("Documentation/accel/index.rst", "   qaic/index\n", "   nvdla/index\n"),
            Edit::before(
                "Documentation/gpu/drm-usage-stats.rst",
                "* :ref:`panfrost-usage-stats`\n",
                "* :doc:`/accel/nvdla/index`\n",
            ),
        ],
    )?;
    add(&files, "Documentation: accel: Add NVDLA", edits::DOCUMENTATION);

    files.extend(of(&|_| true));
    files.insert(format!("{DRIVER}/Makefile"), makefile(&files));
    add(&files, "accel/nvdla: Add devices on PCI", edits::PCI);
    Ok(patches)
}

/// The driver's Makefile: an object of each C file, and one of all Rust files.
fn makefile(files: &Files) -> String {
    let names: Vec<_> = files
        .keys()
        .filter_map(|path| path.strip_prefix(DRIVER)?.strip_prefix('/')?.strip_suffix(".c"))
        .chain(["main"])
        .collect();
    let objects: Vec<_> = names.iter().filter(|name| **name != "division").map(|name| format!("\t{name}.o")).collect();
    let mut text =
        "# SPDX-License-Identifier: GPL-2.0-only\n\nobj-$(CONFIG_DRM_ACCEL_NVDLA) := nvdla.o\n\nnvdla-y := \\\n"
            .to_owned();
    text += &objects.join(" \\\n");
    text += "\n";
    if names.contains(&"division") {
        text += "nvdla-$(CONFIG_ARM) += division.o\n";
    }
    if names.contains(&"trace") {
        text += "\n# The trace events' header includes itself again by this path.\nCFLAGS_trace.o := -I$(src)\n";
    }
    text
}

/// Runs the kernel's checkpatch.pl on each patch. The report lies beside the patches.
fn check(tree: &Path, out: &Path) -> Result<()> {
    let mut patches: Vec<_> = fs::read_dir(out)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    patches.sort();
    let mut report = String::new();
    for patch in patches {
        let mut program = Command::new("perl");
        program
            .arg(tree.join("scripts/checkpatch.pl"))
            .args(["--strict", "--no-color", "--show-types", "--root"])
            .arg(tree);
        let output = program.arg(&patch).output().context("cannot run perl")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let name = patch.file_name().unwrap_or_default().to_string_lossy();
        let total = text.lines().find(|line| line.starts_with("total:")).unwrap_or("no total");
        println!("{name}: {total}");
        report.extend(["=== ", &*name, "\n", &text, "\n"]);
    }
    let place = out.join("checkpatch.txt");
    fs::write(&place, report)?;
    println!("checkpatch.pl --strict: {}", place.display());
    Ok(())
}

/// Applies the patches to a copy of the tree, and builds after each.
fn build(tree: &Path, work: &Path, patches: &[Patch]) -> Result<()> {
    let copy = work.join("tree");
    // Hard links: `write` replaces files and does not change them.
    command::run(Command::new("cp").arg("--archive").arg("--link").arg(tree).arg(&copy))?;
    let mut before = Files::new();
    for patch in patches {
        write(&copy, &before, &patch.files)?;
        before.clone_from(&patch.files);
        vm::build_driver(&copy, &work.join("build"))
            .with_context(|| format!("after the patch \"{}\"", patch.subject))?;
        println!("builds: {}", patch.subject);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All edits of this checkout's files match. Those of the kernel's files need a kernel's source.
    #[test]
    fn edits_match_the_source() {
        let checkout = checkout().unwrap();
        let mut driver = source::collect(checkout).unwrap();
        source::adapt(&mut driver).unwrap();
        let files: Files = driver.into_iter().filter(|(path, _)| !path.ends_with("/pci.rs")).collect();
        let mut without = files.clone();
        edit(&mut without, &edits::without_pci()).unwrap();
        assert_ne!(without, files);
        assert!(files.values().all(|text| !text.contains("cfg(test)") && !text.contains("MODULE))")));
        let header = fs::read_to_string(checkout.join("uapi/include/nvdla_drm.h")).unwrap();
        assert!(!source::header(&header).unwrap().contains("NVDLA_SUBMIT,"));
    }
}
