// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a machine does that has not ended in time: where its processors are, and how long QEMU and the model's servers have computed.
//!
//! A QEMU that waits for an answer of a server does not answer on its monitor.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Clock ticks per second in `/proc` (Linux's USER_HZ), on every machine that this program runs on.
const TICKS: f64 = 100.0;
/// How long QEMU may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// What QEMU's monitor prints when it waits for a command.
const PROMPT: &str = "(qemu) ";

/// Prints it.
pub(super) fn explain(monitor: &Path, kernel: &Path, qemu: u32, servers: impl Iterator<Item = u32>) {
    for (name, process) in [("QEMU", qemu)].into_iter().chain(servers.map(|server| ("a model's server", server))) {
        if let Some(seconds) = computed(process) {
            eprintln!("vm: {name} has computed for {seconds:.1} s");
        }
    }
    let symbols = kernel.ancestors().find_map(|folder| fs::read_to_string(folder.join("System.map")).ok());
    match registers(monitor) {
        Ok(text) => {
            for line in places(&text, symbols.as_deref().unwrap_or_default()) {
                eprintln!("vm: {line}");
            }
        }
        Err(error) => eprintln!("vm: QEMU does not answer on its monitor: {error}"),
    }
}

/// The seconds for which a process has used a processor: the 14th and 15th field of its line in `/proc`.
fn computed(process: u32) -> Option<f64> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The second field is the name in parentheses, which may have spaces.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks as f64 / TICKS)
}

/// The registers of all processors, as QEMU's monitor prints them.
fn registers(monitor: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(monitor)?;
    stream.set_read_timeout(Some(ANSWER))?;
    until_prompt(&mut stream)?;
    stream.write_all(b"info registers -a\n")?;
    until_prompt(&mut stream)
}

fn until_prompt(stream: &mut UnixStream) -> io::Result<String> {
    let mut text = Vec::new();
    let mut part = [0; 4096];
    loop {
        let length = stream.read(&mut part)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        text.extend_from_slice(&part[..length]);
        if text.ends_with(PROMPT.as_bytes()) {
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
    }
}

/// For each processor, the function of the kernel that it is in.
fn places(registers: &str, symbols: &str) -> Vec<String> {
    let mut addresses: Vec<(u64, &str)> = symbols
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            words.next().filter(|kind| kind.eq_ignore_ascii_case("t"))?;
            Some((address, words.next()?))
        })
        .collect();
    addresses.sort_unstable();
    let mut places = Vec::new();
    let mut processor = "";
    for line in registers.lines() {
        processor = line.trim().strip_prefix("CPU#").unwrap_or(processor);
        // The names of the register on x86-64, on Arm and on RISC-V.
        let address = ["RIP=", " PC=", " pc "].iter().find_map(|name| {
            let word = line.split_once(name)?.1.split_whitespace().next()?;
            u64::from_str_radix(word, 16).ok()
        });
        let Some(address) = address else { continue };
        let after = addresses.partition_point(|&(start, _)| start <= address);
        let place = match after.checked_sub(1).map(|index| addresses[index]) {
            Some((start, name)) => format!("{name}+{:#x}", address - start),
            None => "no function of the kernel".into(),
        };
        places.push(format!("processor {processor} is at {address:#x}: {place}"));
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "ffffffff81000000 T _stext\nffffffff81000400 t delay_tsc\nffffffff81000300 D jiffies\n";

    #[test]
    fn a_processor_is_in_the_function_before_its_address() {
        let registers =
            "info registers -a\r\n\r\nCPU#0\r\nRAX=0 RBX=0\r\nRIP=ffffffff81000410 RFL=00000246\r\n\r\nCPU#1\r\n\
                         RIP=ffffffff810003ff RFL=0\r\n(qemu) ";
        let expected = [
            "processor 0 is at 0xffffffff81000410: delay_tsc+0x10",
            "processor 1 is at 0xffffffff810003ff: _stext+0x3ff",
        ];
        assert_eq!(places(registers, SYMBOLS), expected);
        let arm = "CPU#0\r\n PC=ffffffff81000001 X00=0000000000000000\r\n";
        assert_eq!(places(arm, SYMBOLS), ["processor 0 is at 0xffffffff81000001: _stext+0x1"]);
        let riscv = "CPU#0\r\n V      =   0\r\n pc       0000000000000010\r\n";
        assert_eq!(places(riscv, SYMBOLS), ["processor 0 is at 0x10: no function of the kernel"]);
    }

    #[test]
    fn a_process_has_computed() {
        assert!(computed(std::process::id()).is_some());
        assert!(computed(u32::MAX).is_none());
    }
}
