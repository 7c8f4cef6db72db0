// SPDX-License-Identifier: MIT OR Apache-2.0

//! Instruction sets with their own inner loops, chosen at run time.

use std::sync::OnceLock;

/// An instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What the compiler makes of plain code for the target.
    Portable,
    /// NEON, which every aarch64 has.
    Neon,
    /// NEON with the dot products of FEAT_DotProd.
    Dotprod,
    /// NEON with the matrix products of FEAT_I8MM.
    I8mm,
    /// AVX2 and FMA, which come together.
    Avx2,
    /// AVX-512 F, BW, DQ, CD, VL, VBMI, VBMI2 and VNNI.
    Avx512,
}

impl Isa {
    /// The instruction sets that this machine has, the fastest last.
    pub fn available() -> Vec<Self> {
        #[cfg_attr(not(any(target_arch = "aarch64", target_arch = "x86_64")), allow(unused_mut))]
        let mut all = vec![Self::Portable];
        #[cfg(target_arch = "aarch64")]
        {
            use std::arch::is_aarch64_feature_detected;
            all.push(Self::Neon);
            if is_aarch64_feature_detected!("dotprod") {
                all.push(Self::Dotprod);
            }
            if is_aarch64_feature_detected!("i8mm") {
                all.push(Self::I8mm);
            }
        }
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                all.push(Self::Avx2);
            }
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512cd")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi")
                && is_x86_feature_detected!("avx512vbmi2")
                && is_x86_feature_detected!("avx512vnni")
            {
                all.push(Self::Avx512);
            }
        }
        all
    }

    /// The fastest instruction set of this machine.
    pub fn best() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().pop().unwrap_or(Self::Portable))
    }

    /// The instruction set's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Neon => "NEON",
            Self::Dotprod => "dotprod",
            Self::I8mm => "i8mm",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        }
    }
}
