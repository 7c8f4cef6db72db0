// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The instruction sets for which the layouts and the model have vector code, and the one that a process uses.
//!
//! A tier is a set of features that many processors have together. Vector code may use all features of its tier. The environment
//! variable `NVDLA_ISA` forces a tier.

use core::fmt;
use std::string::String;
use std::sync::OnceLock;
use std::vec;
use std::vec::Vec;

/// The environment variable that forces a tier.
pub const VARIABLE: &str = "NVDLA_ISA";

/// An instruction set. Code for a value of it runs only where [`Isa::available`] has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// The code that the compiler generates for the target.
    Portable,
    /// NEON, which every aarch64 has.
    Neon,
    /// NEON with the dot products of FEAT_DotProd.
    Dotprod,
    /// NEON with the matrix products of FEAT_I8MM.
    I8mm,
    /// AVX2 with FMA, F16C, LZCNT, POPCNT, BMI1 and BMI2, as in every processor since Intel's Haswell and AMD's Excavator.
    Avx2,
    /// The same with the dot products of VNNI on 256 bits, as since Intel's Alder Lake and AMD's Zen 5 (AVX-VNNI). A processor
    /// with AVX-512 VL and VNNI has the same instructions in another encoding.
    AvxVnni,
    /// AVX-512 F, BW, CD, DQ, VL and VNNI, as since Intel's Cascade Lake.
    Avx512,
    /// The same with VBMI and VBMI2, as since Intel's Ice Lake and AMD's Zen 4.
    Avx512Vbmi,
}

/// `NVDLA_ISA` names a tier that does not exist or that this machine does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownIsa {
    /// The variable's value.
    pub wanted: String,
}

impl fmt::Display for UnknownIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Isa::available().iter().map(|isa| isa.name()).collect();
        write!(f, "{:?} is no instruction set of this machine, which has {}", self.wanted, names.join(", "))
    }
}

impl std::error::Error for UnknownIsa {}

impl Isa {
    /// The instruction sets that this machine has, the fastest last.
    pub fn available() -> Vec<Self> {
        #[cfg_attr(not(any(target_arch = "aarch64", target_arch = "x86_64")), allow(unused_mut))]
        let mut all = vec![Self::Portable];
        #[cfg(target_arch = "aarch64")]
        {
            use std::arch::is_aarch64_feature_detected as has;
            all.push(Self::Neon);
            if has!("dotprod") {
                all.push(Self::Dotprod);
            }
            if has!("i8mm") {
                all.push(Self::I8mm);
            }
        }
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let bits = has!("lzcnt") && has!("popcnt") && has!("bmi1") && has!("bmi2");
            let avx2 = has!("avx2") && has!("fma") && has!("f16c") && bits;
            let avx512 = avx2
                && has!("avx512f")
                && has!("avx512bw")
                && has!("avx512cd")
                && has!("avx512dq")
                && has!("avx512vl")
                && has!("avx512vnni");
            let vbmi = avx512 && has!("avx512vbmi") && has!("avx512vbmi2");
            let vnni = avx512 || avx2 && has!("avxvnni");
            let tiers = [(Self::Avx2, avx2), (Self::AvxVnni, vnni), (Self::Avx512, avx512), (Self::Avx512Vbmi, vbmi)];
            all.extend(tiers.into_iter().filter_map(|(isa, exists)| exists.then_some(isa)));
        }
        all
    }

    /// The instruction set of this process: the one that `NVDLA_ISA` names, otherwise the fastest of this machine.
    /// The variable is read once.
    ///
    /// # Errors
    /// If `NVDLA_ISA` names none of [`Isa::available`].
    pub fn in_use() -> Result<Self, UnknownIsa> {
        static IN_USE: OnceLock<Result<Isa, UnknownIsa>> = OnceLock::new();
        IN_USE
            .get_or_init(|| Self::choose(std::env::var_os(VARIABLE).map(|wanted| wanted.to_string_lossy().into())))
            .clone()
    }

    /// The same for code that cannot fail: [`Isa::Portable`] in place of the error.
    pub fn in_use_or_portable() -> Self {
        Self::in_use().unwrap_or(Self::Portable)
    }

    /// The instruction set of that name, otherwise the fastest.
    fn choose(wanted: Option<String>) -> Result<Self, UnknownIsa> {
        let available = Self::available();
        match wanted.filter(|wanted| !wanted.is_empty()) {
            None => Ok(*available.last().unwrap_or(&Self::Portable)),
            Some(wanted) => available.into_iter().find(|isa| isa.name() == wanted).ok_or(UnknownIsa { wanted }),
        }
    }

    /// The instruction set's name, as in `NVDLA_ISA`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Neon => "neon",
            Self::Dotprod => "dotprod",
            Self::I8mm => "i8mm",
            Self::Avx2 => "avx2",
            Self::AvxVnni => "avx-vnni",
            Self::Avx512 => "avx512-vnni",
            Self::Avx512Vbmi => "avx512-vbmi",
        }
    }

    /// Whether it contains [`Isa::Avx2`].
    pub const fn has_avx2(self) -> bool {
        matches!(self, Self::Avx2 | Self::AvxVnni | Self::Avx512 | Self::Avx512Vbmi)
    }

    /// Whether it contains [`Isa::Avx512`].
    pub const fn has_avx512(self) -> bool {
        matches!(self, Self::Avx512 | Self::Avx512Vbmi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_tier_is_chosen_by_its_name() {
        let available = Isa::available();
        for &isa in &available {
            assert_eq!(Isa::choose(Some(isa.name().into())), Ok(isa));
        }
        for none in [None, Some(String::new())] {
            assert_eq!(Isa::choose(none).ok(), available.last().copied());
        }
    }

    #[test]
    fn an_unknown_tier_is_refused_with_those_that_exist() {
        let error = Isa::choose(Some("avx9".into())).unwrap_err().to_string();
        assert!(error.starts_with("\"avx9\" is no instruction set of this machine, which has portable"), "{error}");
        let elsewhere = if cfg!(target_arch = "x86_64") { Isa::Neon } else { Isa::Avx2 };
        assert!(Isa::choose(Some(elsewhere.name().into())).is_err());
    }
}
