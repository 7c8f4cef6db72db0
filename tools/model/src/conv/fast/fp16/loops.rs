// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inner loops of fp16 and the choice of an instruction set for them.

use super::super::super::fp16::Accumulators;
#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::panel::{Active, Lane, KERNELS};
use super::plain;
use nvdla_uapi::isa::Isa;

/// How much longer a multiplication of fp16 takes than one of int8, about.
pub(super) const SLOWER: usize = 32;

/// Sums the products of the first kernels (the fourth argument is their number) at their largest exponents.
pub(super) type Sum = fn(&[Lane], &[Active], &[i8; KERNELS], usize, &mut [i64; KERNELS]);

/// The inner loops.
#[derive(Clone, Copy)]
pub(super) struct Loops {
    pub(super) largest: fn(&[Lane], &[Active]) -> [i8; KERNELS],
    pub(super) sum: Sum,
    pub(super) accumulate: fn(&mut Accumulators<KERNELS>, &[i8; KERNELS], &[i64; KERNELS], usize),
    pub(super) deliver: fn(&Accumulators<KERNELS>) -> [u32; KERNELS],
    pub(super) fill: fn(&mut Lane, &[u16; KERNELS]),
}

impl Loops {
    pub(super) fn new(isa: Isa) -> Self {
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx512Vbmi => Self {
                // SAFETY: the caller of `run` says that the machine has AVX-512.
                largest: |lanes, active| unsafe { avx512::largest(lanes, active) },
                sum: if isa == Isa::Avx512Vbmi {
                    // SAFETY: as above, with VBMI and VBMI2.
                    |lanes, active, largest, kernels, sums| unsafe {
                        avx512::sum(lanes, active, largest, kernels, sums);
                    }
                } else {
                    // SAFETY: a machine with AVX-512 has AVX2.
                    |lanes, active, largest, kernels, sums| unsafe {
                        avx2_sum(lanes, active, largest, kernels, sums);
                    }
                },
                // SAFETY: as above.
                accumulate: |accumulators, largest, sums, kernels| unsafe {
                    avx512::accumulate(accumulators, largest, sums, kernels);
                },
                // SAFETY: as above.
                deliver: |accumulators| unsafe { avx512::deliver(accumulators) },
                // SAFETY: as above.
                fill: |lane, weights| unsafe { avx512::fill(lane, weights) },
            },
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 | Isa::AvxVnni => Self {
                // SAFETY: the caller of `run` says that the machine has AVX2.
                largest: |lanes, active| unsafe { avx2_largest(lanes, active) },
                // SAFETY: as above.
                sum: |lanes, active, largest, kernels, sums| unsafe {
                    avx2_sum(lanes, active, largest, kernels, sums);
                },
                // SAFETY: as above.
                accumulate: |accumulators, largest, sums, kernels| unsafe {
                    avx2_accumulate(accumulators, largest, sums, kernels);
                },
                // SAFETY: as above.
                deliver: |accumulators| unsafe { avx2_deliver(accumulators) },
                // SAFETY: as above.
                fill: |lane, weights| unsafe { avx2_fill(lane, weights) },
            },
            _ => Self {
                largest: plain::largest,
                sum: plain::sum,
                accumulate: Accumulators::add_first,
                deliver: Accumulators::to_fp32,
                fill: Lane::set_all,
            },
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(super) fn avx2_largest(lanes: &[Lane], active: &[Active]) -> [i8; KERNELS] {
    plain::largest(lanes, active)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(super) fn avx2_sum(
    lanes: &[Lane],
    active: &[Active],
    largest: &[i8; KERNELS],
    kernels: usize,
    sums: &mut [i64; KERNELS],
) {
    plain::sum(lanes, active, largest, kernels, sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,lzcnt")]
pub(super) fn avx2_accumulate(
    accumulators: &mut Accumulators<KERNELS>,
    largest: &[i8; KERNELS],
    sums: &[i64; KERNELS],
    kernels: usize,
) {
    accumulators.add_first(largest, sums, kernels);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(super) fn avx2_deliver(accumulators: &Accumulators<KERNELS>) -> [u32; KERNELS] {
    accumulators.to_fp32()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(super) fn avx2_fill(lane: &mut Lane, weights: &[u16; KERNELS]) {
    lane.set_all(weights);
}
