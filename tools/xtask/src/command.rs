// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs other programs. Their output is shown only if they fail, and then only the last lines.

use std::process::{Command, Stdio};

use anyhow::{bail, Context, Result};

/// The number of lines of a failed program's output that are shown.
const LAST_LINES: usize = 30;

/// Runs the command and returns its output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let mut all = printed;
        all.push_str(&String::from_utf8_lossy(&output.stderr));
        let lines: Vec<_> = all.lines().collect();
        let last = lines[lines.len().saturating_sub(LAST_LINES)..].join("\n");
        bail!("{name} ended with {}:\n{last}", output.status);
    }
    Ok(printed)
}

/// Runs the command and ignores its output.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    output(command).map(drop)
}
