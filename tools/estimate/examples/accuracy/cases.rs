// SPDX-License-Identifier: MIT OR Apache-2.0

//! The measurements on the RTL: operations with their cycles, from the reference folder's `rtl/cycles.json` or from a file in the
//! same format.
//!
//! A row names a hardware trace or operations of a loadable. The shapes come from the trace's registers or from the loadable's
//! descriptors. Operations are named by a text, or by the number of their group.

use nvdla_estimate::{schedule, CdpShape, ConvShape, Cube, Host, Image, Interface, Memory, PdpShape, SdpOperand};
use nvdla_estimate::{SdpShape, Shape, Step, Writes};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::operations;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{MemoryType, SdpOperandMode};
use nvdla_uapi::layout::pixel::Format;
use nvdla_uapi::reg::values::{PixelFormat, Precision};
use nvdla_uapi::reg::FieldValue;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Operations that ran together on the RTL.
pub(crate) struct Case {
    /// The trace's or the loadable's name.
    pub(crate) name: String,
    /// The description of the operations in `cycles.json`.
    pub(crate) text: String,
    /// The kind of operation, for a table.
    pub(crate) kind: &'static str,
    /// The hardware configuration.
    pub(crate) config: &'static Config,
    /// The memory of the measurement.
    pub(crate) memory: Memory,
    /// The convolution, if there was one.
    pub(crate) conv: Option<ConvShape>,
    /// The SDP operation.
    pub(crate) sdp: Option<SdpShape>,
    /// The pooling.
    pub(crate) pdp: Option<PdpShape>,
    /// The normalisation.
    pub(crate) cdp: Option<CdpShape>,
    /// Cycles from enabling to the done interrupt.
    pub(crate) cycles: u64,
}

impl Case {
    /// The estimate of its time.
    pub(crate) fn estimate(&self) -> nvdla_estimate::Estimate {
        match &self.cdp {
            Some(cdp) => nvdla_estimate::cdp(cdp, self.config, &self.memory),
            None => nvdla_estimate::pipeline(
                self.conv.as_ref(),
                self.sdp.as_ref(),
                self.pdp.as_ref(),
                self.config,
                &self.memory,
            ),
        }
    }

    /// Which of two fixed sets the case is in, by a hash (FNV-1a) of its description. All measurements of one shape are in the
    /// same set. The constants were derived from both sets.
    pub(crate) fn fitted(&self) -> bool {
        let text = self
            .text
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        (text ^ (text >> 32)) & 1 == 0
    }
}

/// The accuracy of the estimates of several cases.
pub(crate) struct Summary {
    /// Cycles on the RTL.
    pub(crate) cycles: u64,
    /// Sum of the estimates / sum of the RTL's cycles.
    pub(crate) sum: f64,
    /// Median of estimate / RTL.
    pub(crate) median: f64,
    /// The ratio that is farthest from 1.
    pub(crate) worst: f64,
    /// The number of cases above 500 cycles whose estimate is off by more than 15 %.
    pub(crate) off: usize,
}

impl Summary {
    /// The accuracy of one or more cases.
    pub(crate) fn new(cases: &[&Case]) -> Self {
        let pairs: Vec<_> = cases.iter().map(|case| (case.cycles, case.estimate().cycles)).collect();
        let (cycles, estimates) = pairs.iter().fold((0, 0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
        let ratio = |pair: &(u64, u64)| pair.1 as f64 / pair.0 as f64;
        let mut ratios: Vec<_> = pairs.iter().map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let worst = *ratios.iter().max_by(|a, b| a.ln().abs().total_cmp(&b.ln().abs())).expect("a case");
        let off = pairs.iter().filter(|pair| pair.0 > 500 && (ratio(pair) - 1.0).abs() > 0.15).count();
        let middle = ratios.len() / 2;
        let median =
            if ratios.len() % 2 == 1 { ratios[middle] } else { f64::midpoint(ratios[middle - 1], ratios[middle]) };
        Self { cycles, sum: estimates as f64 / cycles as f64, median, worst, off }
    }
}

/// A whole network.
pub(crate) struct Network {
    /// The loadable's name.
    pub(crate) name: String,
    /// The hardware configuration.
    pub(crate) config: &'static Config,
    /// The memory of the measurement.
    pub(crate) memory: Memory,
    /// Cycles from enabling its first operation to its last interrupt.
    pub(crate) cycles: u64,
}

/// Reads a file of measurements: the cases that can be estimated, and the whole networks.
pub(crate) fn read(reference: &Path, file: &Path) -> (Vec<Case>, Vec<Network>) {
    let text = std::fs::read_to_string(file).expect("measurements");
    let rows: Vec<Value> = serde_json::from_str(&text).expect("measurements are JSON");
    let (mut cases, mut networks) = (Vec::new(), Vec::new());
    let mut loadables: BTreeMap<String, Vec<Option<Case>>> = BTreeMap::new();
    for row in &rows {
        let string = |key: &str| row[key].as_str().unwrap_or_default().to_string();
        let config = Config::by_name(&string("config")).expect("a configuration");
        let memory = memory(
            config,
            row["memory_latency"].as_u64().expect("a latency") as u32,
            row["bandwidth_limit"].as_f64().unwrap_or(0.0),
        );
        let cycles = row["cycles"].as_u64().expect("cycles");
        // The measurements of this loadable overlap, because its operations do not wait for one another.
        if string("loadable") == "lenet.nv_small.int8.b2" {
            continue;
        }
        if row["unit"] == "whole" {
            networks.push(Network { name: string("loadable"), config, memory, cycles });
            continue;
        }
        let case = if let Some(name) = row["trace"].as_str() {
            Some(of_trace(&reference.join("hw-traces").join(config.name).join(name).join("trace.txt"), config))
        } else {
            let name = string("loadable");
            if let Some(group) = row["group"].as_u64() {
                let groups = of_loadable(reference, &name, config);
                groups.into_iter().nth(group as usize).map(|(case, _)| case)
            } else {
                let all = || of_loadable(reference, &name, config).into_iter().map(|(case, _)| Some(case)).collect();
                let operations = loadables.entry(name.clone()).or_insert_with(all);
                // Operations that ran at the same time as others were measured too; their rows have separate descriptions.
                let place =
                    operations.iter().position(|case| case.as_ref().is_some_and(|case| row["text"] == case.text));
                place.and_then(|place| operations[place].take())
            }
        };
        // SDP operations that pass their output to PDP were measured at SDP's done interrupt.
        let Some(case) = case.filter(|case| row["unit"] != "SDP alone" || case.pdp.is_none()) else { continue };
        cases.push(Case {
            name: row["trace"].as_str().or(row["loadable"].as_str()).unwrap_or_default().to_string(),
            text: format!("{} {} {}", string("config"), string("unit"), string("text")),
            cycles,
            memory,
            ..case
        });
    }
    (cases, networks)
}

/// The estimate of a whole network. In the measurements the driver takes no time except for the accesses between operations.
pub(crate) fn network(reference: &Path, network: &Network) -> u64 {
    let loadable =
        Loadable::open(reference.join("loadables").join(&network.name).join("net.nvdla")).expect("a loadable");
    let mut steps: Vec<Step> = Vec::new();
    for operation in operations::operations(&loadable).expect("its operations") {
        let Some(shape) = Shape::from_descriptors(&operation.operation, &operation.surface) else { continue };
        let flying = matches!(&shape, Shape::Sdp(sdp) if sdp.input.memory == MemoryType::Hw);
        let source = if flying { steps.len().checked_sub(1) } else { None };
        steps.push(Step { shape, writes: Writes::default(), source, waits: true });
    }
    let host = Host { register_write: 0.0, hand_over: 64 };
    let slots = schedule(&steps, network.config, &network.memory, host);
    slots.iter().map(|slot| slot.start + slot.cycles).max().unwrap_or(0)
}

/// The memory of the measurements: a limit of 0 is the interface's width for reads and for writes.
pub(crate) fn memory(config: &Config, latency: u32, limit: f64) -> Memory {
    let bandwidth = if limit > 0.0 { limit } else { 2.0 * f64::from(config.primary.width / 8) };
    let interface = Interface { latency, bandwidth };
    Memory { dram: interface, sram: interface }
}

fn kind(conv: Option<&ConvShape>, sdp: Option<&SdpShape>, pdp: Option<&PdpShape>) -> &'static str {
    match (conv, sdp, pdp) {
        (Some(conv), _, _) if conv.image.is_some() => "image",
        (Some(conv), _, _) if conv.output.pixels() == 1 => "fully connected",
        (Some(conv), _, _) if conv.kernel_height * conv.kernel_width == 1 => "1x1",
        (Some(_), _, _) => "direct",
        (None, _, Some(_)) => "PDP",
        (None, Some(_), None) => "SDP",
        _ => "CDP",
    }
}

/// The groups of a loadable's operations that run together, each with the (task, operation) of its members.
pub(crate) fn of_loadable(reference: &Path, name: &str, config: &'static Config) -> Vec<(Case, Vec<(u16, usize)>)> {
    let loadable = Loadable::open(reference.join("loadables").join(name).join("net.nvdla")).expect("a loadable");
    let mut cases: Vec<(Case, Vec<(u16, usize)>)> = Vec::new();
    for operation in operations::operations(&loadable).expect("its operations") {
        let Some(shape) = Shape::from_descriptors(&operation.operation, &operation.surface) else { continue };
        let cube = |cube: &Cube| format!("{}x{}x{}", cube.channels, cube.height, cube.width);
        let mut case = Case {
            name: name.to_string(),
            text: String::new(),
            kind: "",
            config,
            memory: memory(config, 0, 0.0),
            conv: None,
            sdp: None,
            pdp: None,
            cdp: None,
            cycles: 0,
        };
        match shape {
            Shape::Conv(conv) => {
                let kernel = format!("{}x{}", conv.kernel_height, conv.kernel_width);
                case.text = format!("CONV {} * {kernel} > {}", cube(&conv.input), cube(&conv.output));
                case.conv = Some(conv);
            }
            Shape::Sdp(sdp) => {
                let text = format!("SDP {} > {}", cube(&sdp.input), cube(&sdp.output));
                if sdp.input.memory == MemoryType::Hw {
                    let (before, members) = cases.last_mut().expect("a convolution in front");
                    before.text = format!("{} + {text}", before.text);
                    before.sdp = Some(sdp);
                    members.push((operation.task, operation.index));
                    continue;
                }
                case.text = text;
                case.sdp = Some(sdp);
            }
            Shape::Pdp(pdp) => {
                let window = format!("{}x{}", pdp.kernel_height, pdp.kernel_width);
                case.text = format!("PDP {} / {window} > {}", cube(&pdp.input), cube(&pdp.output));
                case.pdp = Some(pdp);
            }
            Shape::Cdp(cdp) => {
                case.text = format!("CDP {} lrn {}", cube(&cdp.input), cdp.window);
                case.cdp = Some(cdp);
            }
            _ => continue,
        }
        cases.push((case, vec![(operation.task, operation.index)]));
    }
    for (case, _) in &mut cases {
        case.kind = kind(case.conv.as_ref(), case.sdp.as_ref(), case.pdp.as_ref());
    }
    cases
}

/// The operation of a trace, from its registers.
pub(crate) fn of_trace(path: &Path, config: &'static Config) -> Case {
    let text = std::fs::read_to_string(path).expect("a trace");
    let mut registers: HashMap<&str, u32> = HashMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("write") {
            let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
            registers.insert(name, u32::from_str_radix(value.trim_start_matches("0x"), 16).expect("a value"));
        }
    }
    let mut case = of_registers(&|name| registers.get(name).copied().unwrap_or(0), config);
    case.name = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    case
}

fn memory_type(ram: u32) -> MemoryType {
    if ram & 1 == 1 {
        MemoryType::Mc
    } else {
        MemoryType::Cv
    }
}

/// An int8 cube, from the size registers of a block.
fn cube(register: &dyn Fn(&str) -> u32, prefix: &str, memory: MemoryType) -> Cube {
    let size = |name: &str| (register(&format!("{prefix}{name}")) & 0x1fff) + 1;
    Cube { memory, ..Cube::int8(size("CHANNEL"), size("HEIGHT"), size("WIDTH")) }
}

/// The operation of registers, by their names.
pub(crate) fn of_registers(register: &dyn Fn(&str) -> u32, config: &'static Config) -> Case {
    let field = |name: &str, low: u32, bits: u32| (register(name) >> low) & ((1 << bits) - 1);
    let conv = (register("CDMA.D_OP_ENABLE") == 1).then(|| {
        let image = field("CDMA.D_DATAIN_FORMAT", 0, 1) == 1;
        let input = Cube {
            channels: field("CDMA.D_DATAIN_SIZE_1", 0, 13) + 1,
            height: field("CDMA.D_DATAIN_SIZE_0", 16, 13) + 1,
            width: field("CDMA.D_DATAIN_SIZE_0", 0, 13) + 1,
            precision: Precision::Int8,
            memory: memory_type(register("CDMA.D_DAIN_RAM_TYPE")),
        };
        let output = Cube::int8(
            field("CSC.D_DATAOUT_SIZE_1", 0, 13) + 1,
            field("CSC.D_DATAOUT_SIZE_0", 16, 13) + 1,
            field("CSC.D_DATAOUT_SIZE_0", 0, 13) + 1,
        );
        let format = PixelFormat::from_bits(field("CDMA.D_DATAIN_FORMAT", 8, 6));
        ConvShape {
            input,
            image: image.then(|| Image {
                pixel_bytes: format.map_or([0; 2], |format| Format::new(format).bytes_per_pixel),
                lines: 1 << field("CSC.D_POST_Y_EXTENSION", 0, 2),
            }),
            output: output.on_the_fly(),
            channels: field("CSC.D_WEIGHT_SIZE_EXT_1", 0, 13) + 1,
            kernel_height: field("CSC.D_WEIGHT_SIZE_EXT_0", 16, 5) + 1,
            kernel_width: field("CSC.D_WEIGHT_SIZE_EXT_0", 0, 5) + 1,
            stride_x: field("CSC.D_CONV_STRIDE_EXT", 0, 3) + 1,
            stride_y: field("CSC.D_CONV_STRIDE_EXT", 16, 3) + 1,
            weight_bytes: u64::from(register("CDMA.D_WEIGHT_BYTES")),
            weight_memory: memory_type(register("CDMA.D_WEIGHT_RAM_TYPE")),
            data_reuse: field("CDMA.D_MISC_CFG", 16, 1) == 1,
            weight_reuse: field("CDMA.D_MISC_CFG", 20, 1) == 1,
            data_banks: field("CDMA.D_BANK", 0, 5) + 1,
            weight_banks: field("CDMA.D_BANK", 16, 5) + 1,
            batch: 1,
            winograd: false,
        }
    });
    let sdp = (register("SDP.D_OP_ENABLE") == 1).then(|| {
        let flying = field("SDP.D_FEATURE_MODE_CFG", 0, 1) == 1;
        let to_pdp = field("SDP.D_FEATURE_MODE_CFG", 1, 1) == 1;
        let input = if flying { MemoryType::Hw } else { memory_type(register("SDP_RDMA.D_SRC_DMA_CFG")) };
        let output = if to_pdp { MemoryType::Hw } else { memory_type(register("SDP.D_DST_DMA_CFG")) };
        let operand = |unit: &str, rdma: &str| {
            // Bypassed as a whole, or both ALU and multiplier.
            let used = field(unit, 0, 1) == 0 && !(field(unit, 1, 1) == 1 && field(unit, 4, 1) == 1);
            let mode = match (field(rdma, 0, 1), field(rdma, 4, 1)) {
                (1, _) => SdpOperandMode::PerLayer,
                (0, 0) => SdpOperandMode::PerKernel,
                _ => SdpOperandMode::PerPoint,
            };
            let sides = if field(rdma, 1, 2) == 2 { 2 } else { 1 };
            let bytes = sides * if field(rdma, 3, 1) == 1 { 2 } else { 1 };
            used.then(|| SdpOperand { mode, bytes, memory: memory_type(field(rdma, 5, 1)) })
        };
        SdpShape {
            input: cube(register, "SDP.D_DATA_CUBE_", input),
            output: cube(register, "SDP.D_DATA_CUBE_", output),
            x1: operand("SDP.D_DP_BS_CFG", "SDP_RDMA.D_BRDMA_CFG"),
            x2: operand("SDP.D_DP_BN_CFG", "SDP_RDMA.D_NRDMA_CFG"),
            y: operand("SDP.D_DP_EW_CFG", "SDP_RDMA.D_ERDMA_CFG"),
        }
    });
    let pdp = (register("PDP.D_OP_ENABLE") == 1).then(|| {
        let flying = field("PDP.D_OPERATION_MODE_CFG", 4, 1) == 0;
        let input = if flying { MemoryType::Hw } else { memory_type(register("PDP_RDMA.D_SRC_RAM_CFG")) };
        PdpShape {
            input: cube(register, "PDP.D_DATA_CUBE_IN_", input),
            output: cube(register, "PDP.D_DATA_CUBE_OUT_", memory_type(register("PDP.D_DST_RAM_CFG"))),
            kernel_height: field("PDP.D_POOLING_KERNEL_CFG", 8, 4) + 1,
            kernel_width: field("PDP.D_POOLING_KERNEL_CFG", 0, 4) + 1,
            stride_x: field("PDP.D_POOLING_KERNEL_CFG", 16, 4) + 1,
            stride_y: field("PDP.D_POOLING_KERNEL_CFG", 20, 4) + 1,
            pad_left: field("PDP.D_POOLING_PADDING_CFG", 0, 3),
            pad_right: field("PDP.D_POOLING_PADDING_CFG", 8, 3),
            pad_top: field("PDP.D_POOLING_PADDING_CFG", 4, 3),
            pad_bottom: field("PDP.D_POOLING_PADDING_CFG", 12, 3),
            parts: field("PDP.D_OPERATION_MODE_CFG", 8, 8) + 1,
        }
    });
    let cdp = (register("CDP.D_OP_ENABLE") == 1).then(|| {
        let input = cube(register, "CDP_RDMA.D_DATA_CUBE_", memory_type(register("CDP_RDMA.D_SRC_DMA_CFG")));
        let output = Cube { memory: memory_type(register("CDP.D_DST_DMA_CFG")), ..input };
        CdpShape { input, output, window: 3 + 2 * field("CDP.D_LRN_CFG", 0, 2) }
    });
    Case {
        name: String::new(),
        text: String::new(),
        kind: if cdp.is_some() { "CDP" } else { kind(conv.as_ref(), sdp.as_ref(), pdp.as_ref()) },
        config,
        memory: memory(config, 0, 0.0),
        conv,
        sdp,
        pdp,
        cdp,
        cycles: 0,
    }
}
