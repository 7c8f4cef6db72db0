// SPDX-License-Identifier: MIT OR Apache-2.0

//! Loads and runs many loadables of which a few bytes were changed, in processes with 4 GB of address space:
//! `cargo run --release -p nvdla-tests --example hostile_files -- 300000`.
//!
//! A file may be refused, run, or be stopped at its deadline of 2 s. A panic, an abort, a stop after acceptance and an
//! overrun of the deadline fail. `hostile_files 1 --from NUMBER` runs one file alone.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::panic::catch_unwind;
use std::process::{Command, ExitCode, Stdio};

use nvdla_tests::hostile::file::{corpus, make, run, File};
use nvdla_tests::reference::{find, Reference};

/// The greatest number of files that a process runs.
const MAX_FILES: u64 = 5000;
/// Kilobytes of address space.
const SPACE: u64 = 4 << 20;
const SEED: u64 = 1;
/// The option with which a process runs files.
const CHILD: &str = "--child";

fn files() -> Vec<File> {
    let mut given = Vec::new();
    if let Reference::Found(reference) = find() {
        for set in ["loadables", "loadables-bad"] {
            let Ok(folder) = std::fs::read_dir(reference.join(set)) else { continue };
            for path in folder.flatten().map(|entry| entry.path().join("net.nvdla")) {
                if let Ok(bytes) = std::fs::read(&path) {
                    given.push((path.display().to_string(), bytes));
                }
            }
        }
        given.sort();
    }
    corpus(given)
}

/// Runs files. Prints the number of each file before it runs, and its outcome afterwards.
fn child(from: u64, count: u64) {
    let corpus = files();
    for number in from..from + count {
        let (bytes, changes) = make(&corpus, SEED, number);
        print!("{number} ");
        let _ = std::io::stdout().flush();
        match catch_unwind(|| run(bytes)) {
            Ok(Ok(outcome)) => println!("{outcome:?}"),
            Ok(Err(what)) => println!("violation: {what} ({changes})"),
            Err(_) => println!("violation: panic ({changes})"),
        }
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse::<u64>().ok());
    if arguments.first().map(String::as_str) == Some(CHILD) {
        if let (Some(from), Some(count)) = (number(1), number(2)) {
            child(from, count);
        }
        return ExitCode::SUCCESS;
    }
    let Some(count) = number(0) else {
        eprintln!("usage: hostile_files COUNT [--from NUMBER]");
        return ExitCode::from(2);
    };
    let mut next = number(2).unwrap_or(0);
    let end = next + count;
    let (mut outcomes, mut violations) = (BTreeMap::<String, u64>::new(), 0);
    while next < end {
        let some = MAX_FILES.min(end - next);
        let program = match std::env::current_exe() {
            Ok(program) => program,
            Err(error) => {
                eprintln!("hostile_files: {error}");
                return ExitCode::from(2);
            }
        };
        let limited = format!("ulimit -v {SPACE}; exec \"$0\" \"$@\"");
        let spawned = Command::new("sh")
            .args(["-c", &limited])
            .arg(program)
            .args([CHILD.to_owned(), next.to_string(), some.to_string()])
            // With one thread the processor time of the process is the time that a file has taken.
            .env("RAYON_NUM_THREADS", "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut process) = spawned else {
            eprintln!("hostile_files: no process can be started");
            return ExitCode::from(2);
        };
        let Some(output) = process.stdout.take() else { return ExitCode::from(2) };
        let last = next + some;
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let Some((at, what)) = line.split_once(' ') else { continue };
            let Ok(at) = at.parse::<u64>() else { continue };
            next = at + 1;
            if what.is_empty() {
                violations += 1;
                println!("file {at}: the process ended");
            } else if let Some(what) = what.strip_prefix("violation: ") {
                violations += 1;
                println!("file {at}: {what}");
            } else {
                *outcomes.entry(what.to_owned()).or_default() += 1;
            }
        }
        let ended = process.wait();
        if next < last && !ended.is_ok_and(|status| !status.success()) {
            eprintln!("hostile_files: a process ended before file {next}");
            return ExitCode::from(2);
        }
    }
    println!("{count} files, 4 GB of address space, 2 s each");
    for (outcome, count) in &outcomes {
        println!("  {count:>9} {outcome}");
    }
    println!("{violations} violations");
    if violations == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
