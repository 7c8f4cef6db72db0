// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask vm --test doctor`: a machine for each fault that `nvdla doctor` must name, and one without a fault.

use super::arguments::Arguments;
use super::direct::Access;

/// The test: a script for the guest's shell.
const SCRIPT: &str = include_str!("../../../../tests/guest/doctor.sh");
/// The exit status of a device that does not work.
const DEVICE: &str = "5";

/// A fault: its name, the options of the model's server, the options of the command, and what the command must say.
type Fault = (&'static str, &'static [&'static str], &'static [&'static str], &'static str);

/// The faults of every way of access, on a device of nv_small.
const FAULTS: [Fault; 6] = [
    ("window", &["--window-offset", "4096"], &[], "answers 0x1000 bytes further up: the window begins too low"),
    ("byte_order", &["--bridge", "swapped"], &[], "the bytes of each register are in the wrong order"),
    ("configuration", &[], &["--config", "nv_large"], "the hardware has the registers of nv_small, not of nv_large"),
    (
        "no_interrupt",
        &["--lose-interrupt", "1,2,3,4,5,6,7,8"],
        &[],
        "none arrives for a bit of the status that was set",
    ),
    ("caches", &["--incoherent"], &[], "Some lines of a cache are old"),
    ("reset", &["--deaf"], &[], "The reset does not reach the NVDLA"),
];
/// The IOMMU maps no memory at the addresses that a shifted device uses.
const VFIO: [Fault; 1] =
    [("shifted", &["--dma-offset", "1048576"], &[], "The device takes its registers and does not end the operation")];
/// The memory has ends. A line's trigger cannot be wrong: QEMU asserts the line from an event to the next access of a register.
const UIO: [Fault; 2] = [
    ("shifted", &["--dma-offset", "1048576"], &[], "the device writes elsewhere"),
    ("end_of_memory", &["--dma-end", "536866816"], &[], "at the last byte of the memory, 0x1fffffff"),
];

/// The machines of the test.
pub(super) fn machines(arguments: &Arguments) -> Vec<Arguments> {
    let own = if arguments.access == Access::Uio { &UIO[..] } else { &VFIO };
    let sound = ("sound", &[][..], &[][..], "ok    recovery: the device works after a task that was ended early");
    let faults = std::iter::once(("0", sound)).chain(FAULTS.iter().chain(own).map(|&fault| (DEVICE, fault)));
    let asked = &arguments.command;
    faults
        .filter(|(_, (name, ..))| asked.is_empty() || asked.iter().any(|asked| asked == name))
        .map(|(status, (name, server, options, says))| {
            let mut machine = arguments.clone();
            machine.server.extend(server.iter().map(|&option| option.into()));
            let test = ["sh", "-c", SCRIPT, "doctor", name, status, says];
            machine.command = test.iter().chain(options).map(|&word| word.into()).collect();
            machine
        })
        .collect()
}
