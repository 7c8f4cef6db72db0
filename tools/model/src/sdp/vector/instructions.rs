// SPDX-License-Identifier: MIT OR Apache-2.0

//! The instruction sets that chunks are processed with.

/// The instruction set that a chunk is processed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    /// What the program was compiled for.
    Portable,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// AVX-512 with its byte, word and quadword instructions.
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Instructions {
    /// The widest that this machine has.
    pub(in super::super) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        for instructions in [Self::Avx512, Self::Avx2] {
            if instructions.exist() {
                return instructions;
            }
        }
        Self::Portable
    }

    /// Whether this machine has them.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only tests ask
    pub(in super::super) fn exist(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512cd")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
        }
    }
}
