// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tests that run in the guest: their programs, and the machine's devices and options for them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};

use super::arguments::{Arguments, Suite};
use super::direct::Access;
use crate::command;

/// The tests of devices that the process drives directly: a script for the guest's shell.
const DIRECT: &str = include_str!("../../../../tests/guest/direct.sh");
/// The faults that it expects, as options of the model's server.
const FAULTS: [&str; 6] = ["--lose-interrupt", "1", "--hang", "6", "--delay", "100000"];

/// The path of the first node.
const NODE: &str = "/dev/dri/renderD128";

impl Suite {
    /// The program's name in the guest.
    fn program(self) -> &'static str {
        match self {
            Self::Driver => "nvdla_driver_test",
            Self::Conformance => "conformance",
            Self::Fuzz => "nvdla_driver_fuzz",
            Self::Direct => "sh",
            Self::Doctor => "nvdla",
        }
    }

    /// Builds the program with options for `cargo build`. Returns its file, if the suite has a program besides the runtime.
    pub(super) fn build(self, cargo: impl Fn(&str) -> Result<Command>) -> Result<Option<PathBuf>> {
        let mut build = match self {
            Self::Direct => return Ok(None),
            Self::Driver | Self::Fuzz | Self::Doctor => {
                let mut build = cargo("build")?;
                build.args(["--bin", self.program()]);
                build
            }
            Self::Conformance => {
                let mut build = cargo("test")?;
                build.args(["--no-run", "--test", self.program()]);
                build
            }
        };
        let messages = command::output(build.arg("--message-format=json-render-diagnostics"))?;
        let executable = messages.lines().rev().find_map(|line| {
            let message: serde_json::Value = serde_json::from_str(line).ok()?;
            message["executable"].as_str().map(PathBuf::from)
        });
        executable.map(Some).with_context(|| format!("cargo built no {}", self.program()))
    }

    /// Adds the options that the tests need. Returns why they are skipped, if they may be.
    pub(super) fn prepare(self, arguments: &mut Arguments, checkout: &Path) -> Result<Option<String>> {
        let mut command = vec![self.program().to_string()];
        match self {
            Self::Doctor => {
                ensure!(arguments.config == ["nv_small"], "--test doctor runs on one device of nv_small");
                ensure!(arguments.access != Access::Module, "--test doctor needs --access vfio or uio");
                // The machines have commands of their own.
                return Ok(None);
            }
            Self::Driver => {
                // Two devices, because buffers are shared between them and each client must get its own device.
                if let [one] = arguments.config.as_slice() {
                    let other = if one == "nv_large" { "nv_small" } else { "nv_large" };
                    arguments.config.push(other.to_string());
                }
                arguments.server.push("--control".to_string());
                if arguments.instructions {
                    arguments.environment.push(("NVDLA_CLOCK".into(), "instructions".into()));
                }
                let reference = reference(checkout);
                if reference.is_dir() {
                    share(arguments, &reference.canonicalize()?, &["loadables-hostile"]);
                } else {
                    // Missing data is a failure in the guest if it is one on this machine.
                    arguments.environment.push(("CI".into(), std::env::var("CI").unwrap_or_default()));
                }
            }
            Self::Fuzz => arguments.server.push("--control".to_string()),
            Self::Direct => {
                let [config] = arguments.config.as_slice() else { bail!("--test direct runs on one device") };
                ensure!(arguments.access != Access::Module, "--test direct needs --access vfio or uio");
                let example = checkout.join("examples/lenet");
                let loadable = example.join(format!("lenet.{config}.nvdla"));
                ensure!(loadable.exists(), "--test direct has no LeNet for {config}: {}", loadable.display());
                let files = [loadable, example.join("images/seven.pgm")].map(|file| file.display().to_string());
                command.extend(["-c".to_string(), DIRECT.to_string(), "direct".to_string()]);
                command.extend(files);
                arguments.server.extend(FAULTS.map(String::from));
            }
            Self::Conformance => {
                let [config] = arguments.config.as_slice() else { bail!("conformance runs on one device") };
                let reference = reference(checkout);
                if !reference.is_dir() {
                    let why = format!("the reference data is not at {} (set NVDLA_REFERENCE)", reference.display());
                    if std::env::var("CI").as_deref() == Ok("true") {
                        bail!(why);
                    }
                    return Ok(Some(why));
                }
                let reference = reference.canonicalize()?;
                command.push(format!("{config}::"));
                arguments.environment.push(("NVDLA_DEVICE".into(), NODE.into()));
                share(arguments, &reference, &["loadables", "loadables-2", "loadables-bad", "regression"]);
            }
        }
        command.append(&mut arguments.command);
        arguments.command = command;
        Ok(None)
    }
}

/// Shares folders of the reference data with the guest, and sets the variable that names them.
fn share(arguments: &mut Arguments, reference: &Path, folders: &[&str]) {
    arguments.environment.push(("NVDLA_REFERENCE".into(), reference.display().to_string()));
    arguments.shares.extend(folders.iter().map(|folder| reference.join(folder)));
}

/// Where the reference data is.
fn reference(checkout: &Path) -> PathBuf {
    std::env::var_os("NVDLA_REFERENCE").map_or_else(|| checkout.join("../shared/nvdla"), PathBuf::from)
}
