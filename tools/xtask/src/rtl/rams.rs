// SPDX-License-Identifier: MIT OR Apache-2.0

//! Plain models of the RAMs that a design instantiates.
//!
//! Every RAM has one write port and one read port with a registered address. Its name `nv_ram_KIND_DEPTHxWIDTH` gives the other
//! properties. The kind is `rws` or `rwst` (no output register), `rwsp` (an output register with the enable `ore`) or `rwsthp`
//! (`dbyp` replaces the data while `byp_sel`, before the output register). Source: `rams/synth/nv_ram_*.v` of the hardware
//! project's branch nvdlav1.

/// The name and the text of a RAM's module; `None` if the name is not that of a RAM.
pub(super) fn plain(name: &str) -> Option<(&str, String)> {
    let (kind, size) = name.strip_prefix("nv_ram_")?.split_once('_')?;
    let (depth, width) = size.split_once('x')?;
    let (depth, width): (u32, u32) = (depth.parse().ok()?, width.parse().ok()?);
    let (registered, bypass) = match kind {
        "rws" | "rwst" => (false, false),
        "rwsp" => (true, false),
        "rwsthp" => (true, true),
        _ => return None,
    };
    let (row, bit) = ((depth.max(2) - 1).ilog2(), width.checked_sub(1)?);
    let ore = if registered { "  input ore,\n" } else { "" };
    let bypass_ports = if bypass { format!("  input byp_sel, input [{bit}:0] dbyp,\n") } else { String::new() };
    let read = if bypass { "byp_sel ? dbyp : memory[address]" } else { "memory[address]" };
    let output = if registered {
        format!("  reg [{bit}:0] held;\n  always @(posedge clk) if (ore) held <= {read};\n  assign dout = held;\n")
    } else {
        format!("  assign dout = {read};\n")
    };
    let text = format!(
        "module {name} (\n  input clk,\n  input [{row}:0] ra, input re,\n{ore}  output [{bit}:0] dout,\n  \
         input [{row}:0] wa, input we, input [{bit}:0] di,\n{bypass_ports}  input [31:0] pwrbus_ram_pd);\n  \
         parameter FORCE_CONTENTION_ASSERTION_RESET_ACTIVE = 1'b0;\n  reg [{bit}:0] memory [{last}:0];\n  \
         reg [{row}:0] address;\n  always @(posedge clk) if (we) memory[wa] <= di;\n  \
         always @(posedge clk) if (re) address <= ra;\n{output}endmodule\n",
        last = depth.checked_sub(1)?,
    );
    Some((name, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_what_a_ram_is() {
        let (_, text) = plain("nv_ram_rwsthp_80x72").unwrap();
        for part in ["[6:0] ra", "[71:0] dbyp", "input ore", "memory [79:0]", "byp_sel ? dbyp"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let (_, text) = plain("nv_ram_rws_256x3").unwrap();
        assert!(text.contains("[7:0] wa") && !text.contains("ore") && text.contains("assign dout = memory[address];"));
        for other in ["nv_ram_rws_256x3_logic", "nv_ram_rws_0x3", "nv_ram_xyz_2x3", "RAMDP_128X11_GL_M2_E2"] {
            assert!(plain(other).is_none(), "{other}");
        }
    }
}
