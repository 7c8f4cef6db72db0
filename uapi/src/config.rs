// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The hardware configurations: everything that differs between one synthesised NVDLA and another, as data.
//!
//! Source: the hardware project's configuration files (`spec/defs/*.spec`). Sizes are in bytes where a field's doc says
//! so and in elements of int8 otherwise; widths of memory interfaces are in bits, latencies in cycles.

use core::fmt;

use super::reg::values::Precision;
use super::reg::Family;

/// The version register (GLB `S_NVDLA_HW_VERSION`) of the first release.
pub const NV_FULL_VERSION: u32 = 0x30_3031;
/// The first word of the configuration ROM (`CFGROM_HW_VERSION`) of the later releases.
pub const NV_SMALL_VERSION: u32 = 0x1_0001;

/// A memory interface of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInterface {
    /// Read latency in cycles.
    pub latency: u32,
    /// Longest burst, in beats.
    pub max_burst_length: u32,
    /// Width of the data bus in bits.
    pub width: u32,
}

/// The parameters of one hardware configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The configuration's name.
    pub name: &'static str,
    /// The register map it has.
    pub family: Family,
    /// Precisions of feature data.
    pub feature_types: &'static [Precision],
    /// Precisions of weights.
    pub weight_types: &'static [Precision],
    /// Weights may be compressed.
    pub weight_compression: bool,
    /// Winograd convolution exists.
    pub winograd: bool,
    /// Hardware batches exist.
    pub batch: bool,
    /// A secondary memory interface (SRAM) exists.
    pub secondary_memif: bool,
    /// SDP has lookup tables.
    pub sdp_lut: bool,
    /// SDP has sub-unit X1 (bias).
    pub sdp_bs: bool,
    /// SDP has sub-unit X2 (batch normalisation).
    pub sdp_bn: bool,
    /// SDP has sub-unit Y (element-wise).
    pub sdp_ew: bool,
    /// BDMA exists.
    pub bdma: bool,
    /// Rubik exists.
    pub rubik: bool,
    /// Rubik can contract.
    pub rubik_contract: bool,
    /// Rubik can split and merge.
    pub rubik_reshape: bool,
    /// PDP exists.
    pub pdp: bool,
    /// CDP exists.
    pub cdp: bool,
    /// Channels that a multiply-accumulate step takes (atomic-C).
    pub mac_atomic_c: u32,
    /// Kernels that a multiply-accumulate step computes (atomic-K).
    pub mac_atomic_k: u32,
    /// Bytes of a memory atom (1x1xn bytes of a feature cube).
    pub memory_atomic: u32,
    /// Largest hardware batch.
    pub max_batch: Option<u32>,
    /// Banks of the convolution buffer.
    pub cbuf_banks: u32,
    /// Bytes of an entry of a convolution buffer bank.
    pub cbuf_bank_width: u32,
    /// Entries of a convolution buffer bank.
    pub cbuf_bank_depth: u32,
    /// Elements per cycle of SDP X1.
    pub sdp_bs_throughput: u32,
    /// Elements per cycle of SDP X2.
    pub sdp_bn_throughput: u32,
    /// Elements per cycle of SDP Y.
    pub sdp_ew_throughput: Option<u32>,
    /// Elements per cycle of PDP.
    pub pdp_throughput: u32,
    /// Output atoms of a line that PDP's line buffer holds where no two windows share an input line; see [`Self::pdp_columns`].
    pub pdp_line_atoms: u32,
    /// Elements per cycle of CDP.
    pub cdp_throughput: u32,
    /// The primary memory interface (DRAM).
    pub primary: MemoryInterface,
    /// The secondary memory interface (SRAM).
    pub secondary: Option<MemoryInterface>,
    /// Width of a memory address in bits, where the configuration states it.
    pub address_width: Option<u32>,
    /// DMA read clients, where the configuration states it.
    pub read_clients: Option<u32>,
    /// DMA write clients, where the configuration states it.
    pub write_clients: Option<u32>,
}

/// The name is not that of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownName<'a>(pub &'a str);

impl fmt::Display for UnknownName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no configuration \"{}\"; there are ", self.0)?;
        for (number, config) in Config::ALL.iter().enumerate() {
            write!(f, "{}{}", if number == 0 { "" } else { ", " }, config.name)?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownName<'_> {}

impl Config {
    /// Every configuration.
    pub const ALL: [&'static Self; 7] =
        [&NV_FULL, &NV_LARGE, &NV_MEDIUM_1024_FULL, &NV_MEDIUM_512, &NV_SMALL_256_FULL, &NV_SMALL_256, &NV_SMALL];

    /// The configuration of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|config| config.name == name)
    }

    /// The configuration that a user names.
    ///
    /// # Errors
    ///
    /// If there is none of that name; the text lists the configurations.
    pub fn named(name: &str) -> Result<&'static Self, UnknownName<'_>> {
        Self::by_name(name).ok_or(UnknownName(name))
    }

    /// Whether feature data of that precision is supported.
    pub fn has_feature_type(&self, precision: Precision) -> bool {
        self.feature_types.contains(&precision)
    }

    /// The largest number of columns of PDP's output (of each part, if the width is split) for a window of that height, with that
    /// vertical stride. Wider poolings never end, or write wrong bytes.
    ///
    /// The line buffer has eight banks. It keeps a line per window that contains an input line, `ceil(height / stride)`, and gives
    /// each of them 8, 4, 2 or 1 banks. Sources: `NV_NVDLA_PDP_CORE_cal2d.v`, `BANK_DEPTH`, `buffer_lines_num`,
    /// `bank_merge_num`, and the assertions "PDP cube_out_width setting out of range" (lines 653 to 656 of nv_small, 989 to 1124
    /// of nv_full's release). A bank holds 16 atoms in all configurations, of every precision.
    ///
    /// ```
    /// use nvdla_uapi::config::NV_SMALL;
    ///
    /// assert_eq!([(2, 2), (3, 2), (3, 1), (8, 1)].map(|(height, stride)| NV_SMALL.pdp_columns(height, stride)), [128, 64, 32, 16]);
    /// ```
    pub const fn pdp_columns(&self, window_height: u32, stride_y: u32) -> u32 {
        let stride = if stride_y == 0 { 1 } else { stride_y };
        let lines = window_height.div_ceil(stride);
        self.pdp_line_atoms / if lines == 0 { 1 } else { lines.next_power_of_two() }
    }

    /// Bytes of a bank of the convolution buffer.
    pub const fn cbuf_bank_bytes(&self) -> u32 {
        self.cbuf_bank_width * self.cbuf_bank_depth
    }
}

const INT8: &[Precision] = &[Precision::Int8];
const INT8_INT16_FP16: &[Precision] = &[Precision::Int8, Precision::Int16, Precision::Fp16];

/// `nv_full`, the first release. The other configurations are its differences, each from one that it has much in common with.
pub static NV_FULL: Config = Config {
    name: "nv_full",
    family: Family::NvFull,
    feature_types: INT8_INT16_FP16,
    weight_types: INT8_INT16_FP16,
    weight_compression: true,
    winograd: true,
    batch: true,
    secondary_memif: true,
    sdp_lut: true,
    sdp_bs: true,
    sdp_bn: true,
    sdp_ew: true,
    bdma: true,
    rubik: true,
    rubik_contract: true,
    rubik_reshape: true,
    pdp: true,
    cdp: true,
    mac_atomic_c: 64,
    mac_atomic_k: 32,
    memory_atomic: 32,
    max_batch: Some(32),
    cbuf_banks: 16,
    cbuf_bank_width: 64,
    cbuf_bank_depth: 512,
    sdp_bs_throughput: 16,
    sdp_bn_throughput: 16,
    sdp_ew_throughput: Some(4),
    pdp_throughput: 8,
    pdp_line_atoms: 128,
    cdp_throughput: 8,
    primary: MemoryInterface { latency: 1200, max_burst_length: 1, width: 512 },
    secondary: Some(MemoryInterface { latency: 128, max_burst_length: 4, width: 512 }),
    address_width: None,
    read_clients: None,
    write_clients: None,
};

/// `nv_large`, of the later releases: int8 only, without BDMA and Rubik.
pub static NV_LARGE: Config = Config {
    name: "nv_large",
    family: Family::NvSmall,
    feature_types: INT8,
    weight_types: INT8,
    weight_compression: false,
    winograd: false,
    batch: false,
    bdma: false,
    rubik: false,
    rubik_contract: false,
    rubik_reshape: false,
    primary: MemoryInterface { latency: 1024, max_burst_length: 1, width: 256 },
    secondary: Some(MemoryInterface { latency: 1024, max_burst_length: 1, width: 256 }),
    address_width: Some(64),
    read_clients: Some(8),
    write_clients: Some(3),
    ..NV_FULL
};

/// `nv_medium_1024_full`.
pub static NV_MEDIUM_1024_FULL: Config = Config {
    name: "nv_medium_1024_full",
    mac_atomic_c: 32,
    max_batch: None,
    cbuf_banks: 32,
    cbuf_bank_width: 32,
    sdp_bs_throughput: 8,
    sdp_bn_throughput: 8,
    sdp_ew_throughput: Some(2),
    pdp_throughput: 4,
    cdp_throughput: 4,
    primary: MemoryInterface { latency: 1024, max_burst_length: 4, width: 256 },
    secondary: Some(MemoryInterface { latency: 1024, max_burst_length: 4, width: 256 }),
    ..NV_LARGE
};

/// `nv_small_256_full`.
pub static NV_SMALL_256_FULL: Config = Config {
    name: "nv_small_256_full",
    mac_atomic_k: 8,
    memory_atomic: 8,
    cbuf_bank_depth: 128,
    sdp_bs_throughput: 2,
    sdp_bn_throughput: 2,
    sdp_ew_throughput: Some(1),
    pdp_throughput: 1,
    cdp_throughput: 1,
    primary: MemoryInterface { latency: 64, max_burst_length: 4, width: 64 },
    secondary: Some(MemoryInterface { latency: 64, max_burst_length: 4, width: 64 }),
    address_width: Some(32),
    ..NV_MEDIUM_1024_FULL
};

/// `nv_small_256`.
pub static NV_SMALL_256: Config = Config {
    name: "nv_small_256",
    secondary_memif: false,
    sdp_lut: false,
    sdp_ew: false,
    sdp_bs_throughput: 1,
    sdp_bn_throughput: 1,
    sdp_ew_throughput: None,
    primary: MemoryInterface { latency: 64, max_burst_length: 1, width: 64 },
    secondary: None,
    read_clients: Some(7),
    ..NV_SMALL_256_FULL
};

/// `nv_medium_512`.
pub static NV_MEDIUM_512: Config = Config {
    name: "nv_medium_512",
    mac_atomic_k: 16,
    memory_atomic: 16,
    cbuf_bank_depth: 512,
    sdp_bs_throughput: 4,
    sdp_bn_throughput: 4,
    pdp_throughput: 2,
    cdp_throughput: 2,
    primary: MemoryInterface { latency: 256, max_burst_length: 4, width: 128 },
    address_width: Some(64),
    ..NV_SMALL_256
};

/// `nv_small`.
pub static NV_SMALL: Config =
    Config { name: "nv_small", mac_atomic_c: 8, cbuf_bank_width: 8, cbuf_bank_depth: 512, ..NV_SMALL_256 };
