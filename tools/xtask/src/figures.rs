// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs the commands that a document of figures names, and writes what they print, with the date, the processor and the commit.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{ensure, Context, Result};

use crate::command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The document whose commands are run, without those that start a virtual machine
    #[arg(long, value_name = "FILE", default_value = "docs/performance.md")]
    document: PathBuf,
    /// The file that is written
    #[arg(long, short, value_name = "FILE", default_value = "target/figures.md")]
    output: PathBuf,
    /// Only commands that contain this text
    filter: Option<String>,
}

/// Runs the commands one after another. What they have printed is written after each.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let Arguments { document, output, filter } = arguments;
    let text = fs::read_to_string(document).with_context(|| format!("cannot read {}", document.display()))?;
    let wanted = |command: &&str| filter.as_ref().is_none_or(|filter| command.contains(filter.as_str()));
    let commands: Vec<&str> = commands(&text).filter(wanted).collect();
    ensure!(!commands.is_empty(), "{} has no such command", document.display());
    let date = command::output(Command::new("date").args(["-u", "+%F"]))?;
    let commit = command::output(Command::new("git").args(["describe", "--always", "--dirty"]))?;
    let mut report = format!(
        "# What the commands of {} print\n\n{}, {}, commit {}\n",
        document.display(),
        date.trim(),
        processor(),
        commit.trim()
    );
    for each in commands {
        eprintln!("{each}");
        let printed = command::output(Command::new("sh").args(["-c", each]))?;
        report.extend(["\n    ", each, "\n\n", &printed]);
        fs::write(output, &report).with_context(|| format!("cannot write {}", output.display()))?;
    }
    println!("{}", output.display());
    Ok(0)
}

/// The commands of a document that measure on this machine: indented lines with Cargo, before which variables may stand.
fn commands(text: &str) -> impl Iterator<Item = &str> {
    let measures = |line: &&str| {
        let mut words = line.split(' ').skip_while(|word| word.contains('='));
        words.next() == Some("cargo") && words.next() != Some("xtask")
    };
    text.lines().filter_map(|line| line.strip_prefix("    ")).filter(measures)
}

/// The processor's name and the number of its threads.
fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{} with {threads} threads", name.map_or("an unknown processor", |(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::commands;

    #[test]
    fn commands_that_measure_here_are_found() {
        let text = "text\n\n    cargo bench --bench a\n    A=1 B=2 cargo bench -- x\n    cargo xtask vm\n    nvdla bench\n    # cargo\ncargo no\n";
        assert!(commands(text).eq(["cargo bench --bench a", "A=1 B=2 cargo bench -- x"]));
        assert!(commands(include_str!("../../../docs/performance.md")).count() > 5);
    }
}
