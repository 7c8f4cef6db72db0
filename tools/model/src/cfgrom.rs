// SPDX-License-Identifier: MIT OR Apache-2.0

//! CFGROM: the hardware's parameters, which a driver can read (nv_small family only).
//!
//! The ROM is a list of sections, one per block. A section has a descriptor (the number of bytes that follow in the
//! upper half, the block's number in the lower half), two capability words, and the block's parameters.
//!
//! Source: `spec/manual/NVDLA_CFGROM.rdl` and `vmod/nvdla/cfgrom/NV_NVDLA_CFGROM_rom.v`, which have the words of
//! nv_small. The other configurations get the same encoding of their own parameters. The names of the capability bits
//! are derived from nv_small's values.

use nvdla_uapi::config::{Config, NV_SMALL, NV_SMALL_VERSION};
use nvdla_uapi::reg::cfgrom::CFGROM_END_OF_LIST;

/// Words of the ROM.
pub const WORDS: usize = CFGROM_END_OF_LIST.offset as usize / 4 + 1;

/// Data type: int8.
const INT8: u32 = 1 << 4;
/// Packed pixel formats, one bit per `PixelFormat` below 28: R8, and all with components of 8 or 10 bits.
const PACKED_FORMATS: u32 = 0x0cff_f001;
/// Pixel formats with two planes, one bit per `PixelFormat` from 28 on: the two with components of 8 bits.
const SEMI_PLANAR_FORMATS: u32 = 0x3;
/// Capability of CDMA, CSC, CMAC: image input.
const IMAGE_INPUT: u32 = 1 << 4;
/// Capabilities of SDP.
const SDP_LUT: u32 = 1 << 2;
const SDP_BS: u32 = 1 << 3;
const SDP_BN: u32 = 1 << 4;
const SDP_EW: u32 = 1 << 5;

/// The sections' descriptors, as nv_small's ROM has them. The descriptors of SDP and of the read DMAs give fewer bytes
/// than their sections have.
mod descriptor {
    pub(super) const GLB: u32 = 0x1;
    pub(super) const CIF: u32 = 0x18_0002;
    pub(super) const CDMA: u32 = 0x34_0003;
    pub(super) const CBUF: u32 = 0x18_0004;
    pub(super) const CSC: u32 = 0x30_0005;
    /// `CMAC_A` and `CMAC_B` have the same number.
    pub(super) const CMAC: u32 = 0x1c_0006;
    pub(super) const CACC: u32 = 0x20_0007;
    pub(super) const SDP_RDMA: u32 = 0xe_0008;
    pub(super) const SDP: u32 = 0x20_0009;
    pub(super) const PDP_RDMA: u32 = 0xe_000a;
    pub(super) const PDP: u32 = 0x10_000b;
    pub(super) const CDP_RDMA: u32 = 0xe_000c;
    pub(super) const CDP: u32 = 0x10_000d;
}

/// Block numbers with which sections refer to other blocks.
mod id {
    pub(super) const CDMA: u32 = 3;
    pub(super) const SDP: u32 = 9;
    pub(super) const PDP: u32 = 11;
    pub(super) const CDP: u32 = 13;
}

/// Returns the ROM's words for a configuration.
pub fn words(config: &Config) -> [u32; WORDS] {
    // nv_small's ROM has other values for latency and burst than its build parameters.
    let (latency, burst) =
        if config.name == NV_SMALL.name { (50, 4) } else { (config.primary.latency, config.primary.max_burst_length) };
    let batch = if config.batch { config.max_batch.unwrap_or(0) } else { 0 };
    let (c, k, m) = (config.mac_atomic_c, config.mac_atomic_k, config.memory_atomic);
    let (banks, width, depth) = (config.cbuf_banks, config.cbuf_bank_width, config.cbuf_bank_depth);
    let capabilities =
        [(config.sdp_lut, SDP_LUT), (config.sdp_bs, SDP_BS), (config.sdp_bn, SDP_BN), (config.sdp_ew, SDP_EW)]
            .into_iter()
            .fold(0, |sum, (has, bit)| if has { sum | bit } else { sum });
    let cmac: &[u32] = &[0, IMAGE_INPUT, INT8, INT8, c, k, id::CDMA];

    let sections: [(u32, &[u32]); 14] = [
        (descriptor::GLB, &[]),
        (
            descriptor::CIF,
            &[0, 0, config.primary.width / 8, latency, burst << 5, config.address_width.unwrap_or(0) << 5],
        ),
        (
            descriptor::CDMA,
            &[0, IMAGE_INPUT, INT8, INT8, c, k, m, banks, width, depth, batch, PACKED_FORMATS, SEMI_PLANAR_FORMATS],
        ),
        (descriptor::CBUF, &[0, 0, banks, width, depth, id::CDMA]),
        (descriptor::CSC, &[0, IMAGE_INPUT, INT8, INT8, c, k, m, banks, width, depth, id::CDMA, batch]),
        (descriptor::CMAC, cmac),
        (descriptor::CMAC, cmac),
        (descriptor::CACC, &[0, 0, INT8, INT8, c, k, id::CDMA, batch]),
        (descriptor::SDP_RDMA, &[0, 0, m, id::SDP]),
        (
            descriptor::SDP,
            &[
                0,
                capabilities,
                INT8,
                INT8,
                id::CDMA,
                batch,
                config.sdp_bs_throughput,
                config.sdp_bn_throughput,
                config.sdp_ew_throughput.unwrap_or(0),
            ],
        ),
        (descriptor::PDP_RDMA, &[0, 0, m, id::PDP]),
        (descriptor::PDP, &[0, 0, INT8, config.pdp_throughput]),
        (descriptor::CDP_RDMA, &[0, 0, m, id::CDP]),
        (descriptor::CDP, &[0, 0, INT8, config.cdp_throughput]),
    ];

    let mut words = [0; WORDS];
    words[0] = NV_SMALL_VERSION;
    let mut next = 1;
    for (descriptor, parameters) in sections {
        words[next] = descriptor;
        words[next + 1..][..parameters.len()].copy_from_slice(parameters);
        next += 1 + parameters.len();
    }
    words
}
