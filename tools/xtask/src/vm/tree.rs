// SPDX-License-Identifier: MIT OR Apache-2.0

//! The device tree of the Arm machine: QEMU's own, with a node for each NVDLA and for the parts of its board.
//!
//! QEMU presents the device on PCI, and the tree presents it to the guest as a platform device: its registers are where the
//! guest's kernel maps the function's window, and its interrupt is where QEMU's bridge routes the function's pin. Clock, reset
//! line and supply are words of the control window (`tools/vp/src/control.rs`), driven by the kernel's own drivers. The bindings
//! are `nvidia,nvdla.yaml` in `kmd/Documentation`, and `gpio-mmio`, `gpio-gate-clock`, `gpio-mux-clock`, `gpio-regulator`,
//! `operating-points-v2`, `reserved-memory` and `snps,dw-reset` of the kernel.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{bail, ensure, Context, Result};

use crate::command;

/// The start of the memory of QEMU's `virt` machine.
const MEMORY: u64 = 0x4000_0000;
/// The start of its window of 32-bit PCI memory (`VIRT_PCIE_MMIO` in QEMU's `hw/arm/virt.c`), in which Linux assigns addresses,
/// large ranges first.
const WINDOW: u64 = 0x1000_0000;
/// The sizes of the register window and of the control window in bytes (`tools/vp/src/pci.rs`).
const REGISTERS: u64 = 0x2_0000;
const CONTROL: u64 = 0x1000;
/// The words of the control window that are the clock, the reset line and the supply.
const CLOCK: u64 = 0x60;
const RESET: u64 = 0x64;
const SUPPLY: u64 = 0x74;
/// The first shared interrupt of the PCI bridge. A function in slot n raises the n-th one after it, modulo 4.
const INTERRUPT: usize = 3;
/// The reserved memory of each device.
const POOL: u64 = 128 << 20;
/// What the first device's reserved memory has in addition, beyond the memory that the kernel knows. It is a section of the kernel's,
/// of which it has page descriptions or has none.
const UNKNOWN: u64 = 128 << 20;
/// Addresses that belong to nothing.
const NOTHING: u64 = 0x0b00_0000;

/// The PCI slot of a device. The host bridge has slot 0.
pub(super) fn slot(device: usize) -> usize {
    device + 1
}

/// The kernel's option that hides the end of the reserved memory, on a machine with that memory.
pub(super) fn limit(memory_mib: u32) -> String {
    format!(" mem={}M", u64::from(memory_mib) - (UNKNOWN >> 20))
}

/// Completes the device tree in the file `from`, which QEMU has written. The devices' addresses of the memory are `dma_offset` above
/// the processor's.
pub(super) fn complete(
    from: &Path,
    config: &[String],
    memory_mib: u32,
    iommu: bool,
    dma_offset: u64,
) -> Result<PathBuf> {
    let end = MEMORY + (u64::from(memory_mib) << 20);
    ensure!(
        MEMORY + UNKNOWN + 2 * POOL * config.len() as u64 <= end,
        "{} devices with {} MiB of reserved memory each need more than --memory {memory_mib}",
        config.len(),
        POOL >> 20
    );
    let plain = decompile(from)?;
    let iommu = iommu.then(|| iommu_node(&plain)).transpose()?;
    let nodes = nodes(config, end, iommu.as_deref(), dma_offset);
    compile(from, plain + &nodes)
}

/// Reserves a range of memory in the device tree in the file `from`.
pub(super) fn reserve(from: &Path, start: u64, length: u64) -> Result<PathBuf> {
    let plain = decompile(from)?;
    let node = format!(
        r"
/ {{
    reserved-memory {{
        #address-cells = <2>;
        #size-cells = <2>;
        ranges;

        nvdla@{start:x} {{
            reg = <0x0 {start:#x} 0x0 {length:#x}>;
            no-map;
        }};
    }};
}};
"
    );
    compile(from, plain + &node)
}

/// The source of the device tree that QEMU has written.
fn decompile(from: &Path) -> Result<String> {
    command::output(Command::new("dtc").args(["-q", "-I", "dtb", "-O", "dts"]).arg(from))
}

/// Compiles the tree's source, to a file in the same folder.
fn compile(from: &Path, text: String) -> Result<PathBuf> {
    let source = from.with_extension("dts");
    fs::write(&source, text).with_context(|| source.display().to_string())?;
    let tree = from.with_file_name("complete.dtb");
    command::run(Command::new("dtc").args(["-q", "-I", "dts", "-O", "dtb", "-o"]).arg(&tree).arg(&source))?;
    Ok(tree)
}

/// The path of the IOMMU's node, which is below the PCI bridge.
fn iommu_node(tree: &str) -> Result<String> {
    let name = |line: &str, start: &str| Some(line.trim().strip_prefix(start)?.strip_suffix(" {")?.to_string());
    let mut bridge = None;
    for line in tree.lines() {
        bridge = name(line, "pcie@").or(bridge);
        if let (Some(bridge), Some(iommu)) = (&bridge, name(line, "virtio_iommu@")) {
            return Ok(format!("/pcie@{bridge}/virtio_iommu@{iommu}"));
        }
    }
    bail!("QEMU's device tree has no IOMMU")
}

/// A GPIO controller whose two lines are the low bits of a word.
fn gpios(label: &str, word: u64) -> String {
    format!(
        r#"
    {label}: gpio@{word:x} {{
        compatible = "opencores,gpio";
        reg = <0x0 {word:#x} 0x0 0x4>;
        reg-names = "dat";
        ngpios = <2>;
        gpio-controller;
        #gpio-cells = <2>;
    }};
"#
    )
}

/// The nodes of the devices on a machine with memory up to `end`.
///
/// The devices alternate between exclusively reserved memory and reserved memory that the kernel may also use. Behind an IOMMU,
/// given by its node's path, they need none. A `dma_offset` other than 0 puts them on a bus of their own.
fn nodes(configs: &[String], end: u64, iommu: Option<&str>, dma_offset: u64) -> String {
    let (mut board, mut devices, mut pools) = (String::new(), String::new(), String::new());
    let controls = WINDOW + configs.len() as u64 * REGISTERS;
    for (number, config) in configs.iter().enumerate() {
        let index = number as u64;
        let (registers, control) = (WINDOW + index * REGISTERS, controls + index * CONTROL);
        let (clock, reset, supply) = (control + CLOCK, control + RESET, control + SUPPLY);
        let pool = end - UNKNOWN - (index + 1) * POOL;
        let size = if number == 0 { POOL + UNKNOWN } else { POOL };
        let interrupt = INTERRUPT + slot(number) % 4;
        let kind = if number % 2 == 0 { "no-map" } else { "reusable" };
        let memory = match iommu {
            // The IOMMU identifies the function by its number on the bus.
            Some(path) => format!("iommus = <&{{{path}}} {:#x}>;", slot(number) << 3),
            None => format!("memory-region = <&nvdla_memory{number}>;"),
        };
        board += &gpios(&format!("nvdla_gpio{number}"), clock);
        board += &gpios(&format!("nvdla_power{number}"), supply);
        let _ = write!(
            board,
            r#"
    nvdla_rate{number}: nvdla-rate{number} {{
        compatible = "gpio-mux-clock";
        clocks = <&nvdla_slow>, <&nvdla_fast>;
        #clock-cells = <0>;
        select-gpios = <&nvdla_gpio{number} 1 0>;
    }};

    nvdla_clock{number}: nvdla-clock{number} {{
        compatible = "gpio-gate-clock";
        clocks = <&nvdla_rate{number}>;
        #clock-cells = <0>;
        enable-gpios = <&nvdla_gpio{number} 0 0>;
    }};

    nvdla_reset{number}: reset-controller@{reset:x} {{
        compatible = "snps,dw-high-reset";
        reg = <0x0 {reset:#x} 0x0 0x4>;
        #reset-cells = <1>;
    }};

    nvdla_supply{number}: regulator-nvdla{number} {{
        compatible = "regulator-gpio";
        regulator-name = "nvdla{number}";
        regulator-min-microvolt = <800000>;
        regulator-max-microvolt = <900000>;
        enable-gpios = <&nvdla_power{number} 0 0>;
        enable-active-high;
        gpios = <&nvdla_power{number} 1 0>;
        gpios-states = <0>;
        states = <800000 0>, <900000 1>;
    }};

"#
        );
        let _ = write!(
            devices,
            r#"
    npu@{registers:x} {{
        compatible = "nvidia,{config}";
        reg = <0x0 {registers:#x} 0x0 {REGISTERS:#x}>;
        interrupts = <0 {interrupt} 4>;
        clocks = <&nvdla_clock{number}>;
        clock-names = "core";
        resets = <&nvdla_reset{number} 0>;
        reset-names = "core";
        vdd-supply = <&nvdla_supply{number}>;
        operating-points-v2 = <&nvdla_points>;
        {memory}
    }};
"#
        );
        if iommu.is_some() {
            continue;
        }
        let _ = write!(
            pools,
            r#"
        nvdla_memory{number}: nvdla-memory@{pool:x} {{
            compatible = "shared-dma-pool";
            reg = <0x0 {pool:#x} 0x0 {size:#x}>;
            {kind};
        }};
"#
        );
    }
    if iommu.is_none() {
        // The probe must refuse it.
        let _ = write!(
            board,
            r#"
    npu@{NOTHING:x} {{
        compatible = "nvidia,nv_full";
        reg = <0x0 {NOTHING:#x} 0x0 {REGISTERS:#x}>;
        interrupts = <0 100 4>;
        iommus;
        memory-region = <&nvdla_memory0>;
    }};
"#
        );
    }
    // The IOMMU has one owner per function: the node here, and not the function that PCI finds.
    let bridge = iommu
        .and_then(|path| path.rsplit_once('/'))
        .map_or(String::new(), |(bridge, _)| format!("\n&{{{bridge}}} {{\n    /delete-property/ iommu-map;\n}};\n"));
    let devices = if dma_offset == 0 {
        devices
    } else {
        let (start, size) = (MEMORY + dma_offset, end - MEMORY);
        format!(
            r#"
    npu-bus {{
        compatible = "simple-bus";
        #address-cells = <2>;
        #size-cells = <2>;
        ranges;
        dma-ranges = <{:#x} {:#x} 0x0 {MEMORY:#x} 0x0 {size:#x}>;
{devices}    }};
"#,
            start >> 32,
            start as u32
        )
    };
    format!(
        r#"{bridge}
/ {{
    reserved-memory {{
        #address-cells = <2>;
        #size-cells = <2>;
        ranges;
{pools}    }};

    nvdla_slow: nvdla-slow {{
        compatible = "fixed-clock";
        #clock-cells = <0>;
        clock-frequency = <500000000>;
    }};

    nvdla_fast: nvdla-fast {{
        compatible = "fixed-clock";
        #clock-cells = <0>;
        clock-frequency = <1000000000>;
    }};

    nvdla_points: opp-table {{
        compatible = "operating-points-v2";

        opp-500000000 {{
            opp-hz = /bits/ 64 <500000000>;
            opp-microvolt = <800000>;
        }};

        opp-1000000000 {{
            opp-hz = /bits/ 64 <1000000000>;
            opp-microvolt = <900000>;
        }};
    }};
{board}{devices}}};
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_device_has_its_own_windows_interrupt_and_memory() {
        let text = nodes(&["nv_small".to_string(), "nv_large".to_string()], 0x8000_0000, None, 0);
        for line in [
            "compatible = \"nvidia,nv_small\";",
            "reg = <0x0 0x10000000 0x0 0x20000>;",
            "interrupts = <0 4 4>;",
            "reg = <0x0 0x10040060 0x0 0x4>;",
            "reg = <0x0 0x70000000 0x0 0x10000000>;",
            "compatible = \"nvidia,nv_large\";",
            "reg = <0x0 0x10020000 0x0 0x20000>;",
            "interrupts = <0 5 4>;",
            "reg = <0x0 0x10041064 0x0 0x4>;",
            "reg = <0x0 0x68000000 0x0 0x8000000>;",
        ] {
            assert_eq!(text.matches(line).count(), 1, "{line} in:\n{text}");
        }
        assert!(text.find("no-map").unwrap() < text.find("reusable").unwrap());
    }

    #[test]
    fn a_bus_translates_the_devices_addresses() {
        let text = nodes(&["nv_small".to_string()], 0x8000_0000, None, 0x4000_0000);
        assert!(text.contains("dma-ranges = <0x0 0x80000000 0x0 0x40000000 0x0 0x40000000>;"), "{text}");
        assert!(text.find("npu-bus {").unwrap() < text.find("npu@10000000 {").unwrap(), "{text}");
    }

    #[test]
    fn behind_an_iommu_a_device_is_named_by_its_slot() {
        let tree = "\tpcie@10000000 {\n\t\tvirtio_iommu@f800 {\n\t\t};\n\t};\n";
        let path = iommu_node(tree).unwrap();
        assert_eq!(path, "/pcie@10000000/virtio_iommu@f800");
        assert!(iommu_node("pcie@1 {").is_err());
        let text = nodes(&["nv_small".to_string()], 0x8000_0000, Some(&path), 0);
        assert!(text.contains("iommus = <&{/pcie@10000000/virtio_iommu@f800} 0x8>;"), "{text}");
        assert!(text.contains("&{/pcie@10000000} {\n    /delete-property/ iommu-map;\n};"), "{text}");
        assert!(!text.contains("memory-region"), "{text}");
    }
}
