// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Compressed weights of hardware traces, which the reference model took: their mask and group sizes must agree as
//! `Compressed` reads them, and compressing what it reads must give the same bytes.

use nvdla_uapi::layout::weight::{Compressed, Direct, Geometry, Surfaces};
use nvdla_uapi::layout::Extents;
use nvdla_uapi::reg::values::Precision;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of reference data, or why there is none.
fn reference() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/nvdla");
    let folder = std::env::var_os("NVDLA_REFERENCE").map_or(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "no reference data in {}", folder.display());
    eprintln!("skipped: no reference data in {} (set NVDLA_REFERENCE)", folder.display());
    None
}

fn number(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap()
}

/// A trace's memory contents and the last value of each register, where each of CSC's is written once.
struct Trace {
    loads: Vec<(u64, Vec<u8>)>,
    registers: HashMap<String, u64>,
}

impl Trace {
    fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join("trace.txt")).ok()?;
        let mut trace = Self { loads: Vec::new(), registers: HashMap::new() };
        for line in text.lines() {
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["load", _, address, file, offset, len] => {
                    let bytes = fs::read(folder.join(file)).unwrap();
                    let (offset, len) = (number(offset) as usize, number(len) as usize);
                    trace.loads.push((number(address), bytes[offset..offset + len].to_vec()));
                }
                ["write", register, value] => {
                    let before = trace.registers.insert(register.into(), number(value));
                    if before.is_some() && register == "CSC.D_WEIGHT_FORMAT" {
                        return None;
                    }
                }
                _ => {}
            }
        }
        Some(trace)
    }

    fn get(&self, register: &str) -> u64 {
        self.registers.get(register).copied().unwrap_or(0)
    }

    fn address(&self, register: &str) -> u64 {
        self.get(&format!("{register}_HIGH")) << 32 | self.get(&format!("{register}_LOW"))
    }

    fn memory(&self, address: u64, len: u64) -> Vec<u8> {
        let mut memory = vec![0; len as usize];
        for (start, bytes) in &self.loads {
            for (at, byte) in bytes.iter().enumerate() {
                if let Some(to) = (start + at as u64).checked_sub(address).filter(|to| *to < len) {
                    memory[to as usize] = *byte;
                }
            }
        }
        memory
    }
}

#[test]
fn compressed_weights_of_hardware_traces() {
    let Some(reference) = reference() else { return };
    let mut checked = 0;
    for entry in fs::read_dir(reference.join("hw-traces/nv_full_random")).unwrap() {
        let folder = entry.unwrap().path();
        let Some(trace) = Trace::read(&folder) else { continue };
        if trace.get("CSC.D_WEIGHT_FORMAT") & 1 == 0 {
            continue;
        }
        let precision = match trace.get("CSC.D_MISC_CFG") >> 12 & 3 {
            0 => Precision::Int8,
            1 => Precision::Int16,
            _ => Precision::Fp16,
        };
        let (size, count) = (trace.get("CSC.D_WEIGHT_SIZE_EXT_0"), trace.get("CSC.D_WEIGHT_SIZE_EXT_1"));
        let field = |value: u64, lsb: u32, width: u32| (value >> lsb & ((1 << width) - 1)) as u32 + 1;
        let extents = Extents::new(field(count, 16, 13), field(count, 0, 13), field(size, 16, 5), field(size, 0, 5));
        // A group holds the same number of elements in every mapping.
        let mapping = Direct::new(extents, Geometry::documented(precision)).unwrap();
        let compressed = Compressed::new(mapping);
        let name = folder.file_name().unwrap().to_string_lossy();
        let (bytes, mask) = (trace.get("CDMA.D_WEIGHT_BYTES"), trace.get("CDMA.D_WMB_BYTES"));
        assert_eq!(mask, compressed.wmb_size(), "{name}");
        let weights = trace.memory(trace.address("CDMA.D_WEIGHT_ADDR"), bytes);
        let wmb = trace.memory(trace.address("CDMA.D_WMB_ADDR"), mask);
        let mut wgs = trace.memory(trace.address("CDMA.D_WGS_ADDR"), compressed.wgs_size());
        // What lies behind the group sizes is not theirs.
        wgs[extents.n.div_ceil(mapping.geometry().group_kernels) as usize * 4..].fill(0);
        let mut mapped = vec![0; mapping.size() as usize];
        let surfaces = Surfaces { weights: &weights[..], wmb: &wmb[..], wgs: &wgs[..] };
        compressed.decompress(surfaces, &mut mapped).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut again = [compressed.max_size(), mask, compressed.wgs_size()].map(|size| vec![0; size as usize]);
        let [data, again_wmb, again_wgs] = &mut again;
        let sizes = compressed.compress(&mapped, Surfaces { weights: data, wmb: again_wmb, wgs: again_wgs }).unwrap();
        assert_eq!(sizes.weights, bytes, "{name}");
        assert!(data[..bytes as usize] == weights && *again_wmb == wmb && *again_wgs == wgs, "{name}");
        checked += 1;
    }
    println!("{checked} traces with compressed weights");
    assert!(checked > 20, "{checked}");
}
