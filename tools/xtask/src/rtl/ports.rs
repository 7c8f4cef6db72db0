// SPDX-License-Identifier: MIT OR Apache-2.0

//! The ports of a design: their widths, and a module around the design with fixed ports.

use std::fs;
use std::path::Path;

use anyhow::{bail, ensure, Context, Result};

/// The done pulses that arrive at GLB, with the bits of its interrupt status (`NV_NVDLA_GLB_CSB_reg.v`).
pub(super) const DONE: [(&str, u32); 8] =
    [("sdp", 0), ("cdp", 2), ("pdp", 4), ("bdma", 6), ("rubik", 8), ("cdma_dat", 16), ("cdma_wt", 18), ("cacc", 20)];

/// The ports of `NV_nvdla`.
pub(super) struct Ports {
    /// For each port, whether it is an input, its width, and its name.
    list: Vec<(bool, u32, String)>,
    data: u32,
    pub(super) address: u32,
    pub(super) sram: Option<u32>,
}

impl Ports {
    /// Reads the ports from the file of `NV_nvdla`. A given width of DBB takes precedence over that of the ports.
    pub(super) fn read(path: &Path, data_width: Option<u32>, address_width: Option<u32>) -> Result<Self> {
        let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let text = String::from_utf8_lossy(&text).into_owned();
        let list = parse_ports(&text).with_context(|| format!("in {}", path.display()))?;
        let width = |name: &str| list.iter().find(|(_, _, port)| port == name).map(|&(_, width, _)| width);
        let lacks = |port: &str| format!("NV_nvdla in {} has no port {port}", path.display());
        for port in ["csb2nvdla_valid", "nvdla2csb_valid", "dla_intr", "dla_core_clk"] {
            width(port).with_context(|| lacks(port))?;
        }
        let data = "nvdla_core2dbb_w_wdata";
        let data = data_width.or_else(|| width(data)).with_context(|| lacks(data))?;
        let address = "nvdla_core2dbb_ar_araddr";
        let address = address_width.or_else(|| width(address)).with_context(|| lacks(address))?;
        let sram = width("nvdla_core2cvsram_w_wdata");
        for width in [Some(data), sram].into_iter().flatten() {
            ensure!(
                width.is_power_of_two() && (64..=512).contains(&width),
                "an interface of {width} data bits: 64, 128, 256 and 512 are served"
            );
        }
        ensure!((1..=64).contains(&address), "an address of {address} bits");
        Ok(Self { list, data, address, sram })
    }

    /// The module that gives the design's ports fixed names and widths, and taps the done pulses at GLB.
    pub(super) fn top(&self) -> String {
        let (address, mut wires, mut connections, mut ports) = (self.address - 1, Vec::new(), Vec::new(), Vec::new());
        for (number, interface, width) in [(0, "dbb", Some(self.data)), (1, "cvsram", self.sram)] {
            let (data, there) = (width.unwrap_or(64) - 1, width.is_some());
            let m = format!("m{number}_");
            let port = |direction: &str, high: u32, name: &str| format!("  {direction} [{high}:0] {m}{name},\n");
            for (name, high) in [("arid", 7), ("arlen", 7), ("araddr", 63), ("awid", 7), ("awlen", 7), ("awaddr", 63)] {
                ports.push(port("output", high, name));
            }
            ports.extend([port("output", data, "wdata"), port("output", 63, "wstrb"), port("input", data, "rdata")]);
            ports.extend([port("input", 7, "rid"), port("input", 7, "bid")]);
            for name in ["arvalid", "rready", "awvalid", "wvalid", "wlast", "bready"] {
                ports.push(format!("  output {m}{name},\n"));
            }
            for name in ["arready", "rvalid", "rlast", "awready", "wready", "bvalid"] {
                ports.push(format!("  input {m}{name},\n"));
            }
            let outputs = [
                ("araddr", address),
                ("awaddr", address),
                ("arid", 7),
                ("awid", 7),
                ("arlen", 3),
                ("awlen", 3),
                ("wstrb", width.unwrap_or(64) / 8 - 1),
            ];
            for (name, high) in outputs {
                if there {
                    // The wire has the design's own width. The assignment fills the remaining bits with zeros.
                    wires.push(format!("  wire [{high}:0] {m}{name}_w;\n  assign {m}{name} = {m}{name}_w;\n"));
                    connections.push((
                        format!("nvdla_core2{interface}_{}_{name}", &name[..channel(name)]),
                        format!("{m}{name}_w"),
                    ));
                } else {
                    wires.push(format!("  assign {m}{name} = '0;\n"));
                }
            }
            let direct = [
                "arvalid", "arready", "rvalid", "rready", "rid", "rlast", "rdata", "awvalid", "awready", "wvalid",
                "wready", "wlast", "wdata", "bvalid", "bready", "bid",
            ];
            for name in direct {
                if there {
                    connections.push((
                        format!("nvdla_core2{interface}_{}_{name}", &name[..channel(name)]),
                        format!("{m}{name}"),
                    ));
                } else if ["arvalid", "rready", "awvalid", "wvalid", "wlast", "wdata", "bready"].contains(&name) {
                    wires.push(format!("  assign {m}{name} = '0;\n"));
                }
            }
        }
        let fixed = [
            ("dla_core_clk", "clk"),
            ("dla_csb_clk", "clk"),
            ("dla_reset_rstn", "rstn"),
            ("direct_reset_", "rstn"),
            ("csb2nvdla_valid", "csb_valid"),
            ("csb2nvdla_ready", "csb_ready"),
            ("csb2nvdla_addr", "csb_addr"),
            ("csb2nvdla_wdat", "csb_wdat"),
            ("csb2nvdla_write", "csb_write"),
            ("csb2nvdla_nposted", "csb_nposted"),
            ("nvdla2csb_valid", "csb_data_valid"),
            ("nvdla2csb_data", "csb_data"),
            ("nvdla2csb_wr_complete", "csb_wr_complete"),
            ("dla_intr", "intr"),
        ];
        connections.extend(fixed.map(|(port, wire)| (port.to_owned(), wire.to_owned())));
        let mut instance = Vec::new();
        for (input, _, name) in &self.list {
            let wire = connections.iter().find(|(port, _)| port == name).map(|(_, wire)| wire.as_str());
            // Test and power pins are off. Other outputs are not used.
            let wire = wire.unwrap_or(if *input { "'0" } else { "" });
            instance.push(format!("    .{name}({wire})"));
        }
        let glb = "dut.u_partition_o.u_NV_NVDLA_glb";
        let mut done = Vec::new();
        for (unit, bit) in DONE {
            done.push(format!(
                "`ifdef DONE_{unit}\n  assign done[{}:{bit}] = {glb}.{unit}2glb_done_intr_pd;\n`else\n",
                bit + 1
            ));
            done.push(format!("  assign done[{}:{bit}] = '0;\n`endif\n", bit + 1));
        }
        format!(
            "module nvdla_top(\n  input clk, input rstn,\n  input csb_valid, output csb_ready, input [15:0] csb_addr,\n  \
             input [31:0] csb_wdat, input csb_write, input csb_nposted,\n  output csb_data_valid, output [31:0] csb_data, output \
             csb_wr_complete,\n{ports}  output intr, output [31:0] done);\n{wires}  NV_nvdla dut(\n{}\n  );\n  assign \
             done[15:10] = '0, done[31:22] = '0;\n{done}endmodule\n",
            instance.join(",\n"),
            ports = ports.concat(),
            wires = wires.concat(),
            done = done.concat()
        )
    }
}

/// The number of letters at the start of a signal's name that name its channel: `ar`, `aw`, `r`, `w` or `b`.
fn channel(signal: &str) -> usize {
    if signal.starts_with("ar") || signal.starts_with("aw") {
        2
    } else {
        1
    }
}

/// The ports of a module that declares directions in its body, as the generator writes them.
fn parse_ports(text: &str) -> Result<Vec<(bool, u32, String)>> {
    let mut ports = Vec::new();
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        let (input, rest) = match (line.strip_prefix("input "), line.strip_prefix("output ")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => continue,
        };
        let Some((rest, _)) = rest.split_once(';') else { continue };
        let (width, names) = match rest.trim().strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((range, names)) => {
                let (high, low) = range.split_once(':').with_context(|| format!("not a range: {line}"))?;
                let bounds = (value(high), value(low));
                let (Some(high), Some(low)) = bounds else { bail!("the width is not a number: {line}") };
                (high.checked_sub(low).with_context(|| format!("the range ends before it begins: {line}"))? + 1, names)
            }
            None => (1, rest),
        };
        ports.extend(names.split(',').map(|name| (input, width, name.trim().to_owned())));
    }
    ensure!(!ports.is_empty(), "the module declares no ports");
    Ok(ports)
}

/// The value of an expression of numbers, `+`, `-`, `*` and `/`.
fn value(text: &str) -> Option<u32> {
    if let Some(at) = text.rfind(['+', '-']) {
        let (left, right) = (value(&text[..at])?, value(&text[at + 1..])?);
        return if text[at..].starts_with('+') { left.checked_add(right) } else { left.checked_sub(right) };
    }
    if let Some(at) = text.rfind(['*', '/']) {
        let (left, right) = (value(&text[..at])?, value(&text[at + 1..])?);
        return if text[at..].starts_with('*') { left.checked_mul(right) } else { left.checked_div(right) };
    }
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_expressions() {
        let all = ["31", " 64 -1", "64/8-1", "3+2*8 - 1", "", "x", "1-2"].map(value);
        assert_eq!(all, [Some(31), Some(63), Some(7), Some(18), None, None, None]);
    }

    #[test]
    fn ports_are_declared_in_the_body() {
        let text = "module m (\n a //|< i\n);\ninput a; // clock\noutput [64/8-1:0] b;\nwire c;\ninput [3:0] d, e;\n";
        let port = |input, width, name: &str| (input, width, name.to_owned());
        let all = [port(true, 1, "a"), port(false, 8, "b"), port(true, 4, "d"), port(true, 4, "e")];
        assert_eq!(parse_ports(text).unwrap(), all);
        assert!(parse_ports("input [WIDTH-1:0] a;").is_err());
        assert!(parse_ports("module m; endmodule").is_err());
    }
}
