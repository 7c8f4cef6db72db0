// SPDX-License-Identifier: MIT OR Apache-2.0

//! The machine's own limit: a loop that contains only the multiply instruction of convolution's inner loop.

use nvdla_model::Isa;

#[path = "../shortest/mod.rs"]
pub(crate) mod shortest;

use shortest::shortest;

/// Multiplications per second of a loop of the multiply instruction alone.
pub(crate) fn peak(isa: Isa) -> Option<f64> {
    const LOOPS: u64 = 100_000;
    let macs = peak_macs(isa, 1)?;
    let seconds = shortest(|| {
        peak_macs(isa, LOOPS);
    });
    Some((macs * LOOPS) as f64 / seconds.as_secs_f64())
}

#[cfg(target_arch = "x86_64")]
fn peak_macs(isa: Isa, loops: u64) -> Option<u64> {
    use std::arch::asm;
    match isa {
        Isa::Avx2 => {
            // SAFETY: the instruction set is available; registers that change are listed.
            unsafe {
                asm!(
                    "2:",
                    "vpmaddwd ymm0, ymm14, ymm15", "vpaddd ymm1, ymm1, ymm0",
                    "vpmaddwd ymm2, ymm14, ymm15", "vpaddd ymm3, ymm3, ymm2",
                    "vpmaddwd ymm4, ymm14, ymm15", "vpaddd ymm5, ymm5, ymm4",
                    "vpmaddwd ymm6, ymm14, ymm15", "vpaddd ymm7, ymm7, ymm6",
                    "vpmaddwd ymm8, ymm14, ymm15", "vpaddd ymm9, ymm9, ymm8",
                    "vpmaddwd ymm10, ymm14, ymm15", "vpaddd ymm11, ymm11, ymm10",
                    "dec {0}", "jnz 2b", inout(reg) loops => _,
                    out("ymm0") _, out("ymm1") _, out("ymm2") _, out("ymm3") _, out("ymm4") _, out("ymm5") _,
                    out("ymm6") _, out("ymm7") _, out("ymm8") _, out("ymm9") _, out("ymm10") _, out("ymm11") _,
                    options(nomem, nostack),
                );
            }
            Some(6 * 16)
        }
        Isa::AvxVnni => {
            macro_rules! dot {
                ($encoding:tt: $($sum:tt)+) => {
                    // SAFETY: as above.
                    unsafe {
                        asm!(
                            "2:",
                            $(concat!($encoding, " vpdpbusd ", $sum, ", ymm14, ymm15"),)+
                            "dec {0}", "jnz 2b", inout(reg) loops => _, $(out($sum) _,)+
                            options(nomem, nostack),
                        );
                    }
                };
            }
            if std::arch::is_x86_feature_detected!("avxvnni") {
                dot!("{{vex}}": "ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11");
            } else {
                dot!("{{evex}}": "ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11");
            }
            Some(12 * 32)
        }
        Isa::Avx512 | Isa::Avx512Vbmi => {
            // SAFETY: as above.
            unsafe {
                asm!(
                    "2:",
                    "vpdpbusd zmm0, zmm14, zmm15", "vpdpbusd zmm1, zmm14, zmm15", "vpdpbusd zmm2, zmm14, zmm15",
                    "vpdpbusd zmm3, zmm14, zmm15", "vpdpbusd zmm4, zmm14, zmm15", "vpdpbusd zmm5, zmm14, zmm15",
                    "vpdpbusd zmm6, zmm14, zmm15", "vpdpbusd zmm7, zmm14, zmm15", "vpdpbusd zmm8, zmm14, zmm15",
                    "vpdpbusd zmm9, zmm14, zmm15", "vpdpbusd zmm10, zmm14, zmm15", "vpdpbusd zmm11, zmm14, zmm15",
                    "dec {0}", "jnz 2b", inout(reg) loops => _,
                    out("zmm0") _, out("zmm1") _, out("zmm2") _, out("zmm3") _, out("zmm4") _, out("zmm5") _,
                    out("zmm6") _, out("zmm7") _, out("zmm8") _, out("zmm9") _, out("zmm10") _, out("zmm11") _,
                    options(nomem, nostack),
                );
            }
            Some(12 * 64)
        }
        _ => None,
    }
}

#[cfg(target_arch = "aarch64")]
fn peak_macs(isa: Isa, loops: u64) -> Option<u64> {
    use std::arch::asm;
    match isa {
        Isa::Neon => {
            // SAFETY: the instruction set is available; registers that change are listed.
            unsafe {
                asm!(
                    "2:",
                    "smull v0.8h, v30.8b, v31.8b", "sadalp v1.4s, v0.8h", "smull v2.8h, v30.8b, v31.8b",
                    "sadalp v3.4s, v2.8h", "smull v4.8h, v30.8b, v31.8b", "sadalp v5.4s, v4.8h",
                    "smull v6.8h, v30.8b, v31.8b", "sadalp v7.4s, v6.8h", "smull v16.8h, v30.8b, v31.8b",
                    "sadalp v17.4s, v16.8h", "smull v18.8h, v30.8b, v31.8b", "sadalp v19.4s, v18.8h",
                    "smull v20.8h, v30.8b, v31.8b", "sadalp v21.4s, v20.8h", "smull v22.8h, v30.8b, v31.8b",
                    "sadalp v23.4s, v22.8h",
                    "subs {0}, {0}, #1", "b.ne 2b", inout(reg) loops => _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _,
                    out("v7") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _, out("v21") _,
                    out("v22") _, out("v23") _,
                    options(nomem, nostack),
                );
            }
            Some(8 * 8)
        }
        Isa::Dotprod => {
            // SAFETY: as above.
            unsafe {
                asm!(
                    ".arch_extension dotprod",
                    "2:",
                    "sdot v0.4s, v30.16b, v31.16b", "sdot v1.4s, v30.16b, v31.16b", "sdot v2.4s, v30.16b, v31.16b",
                    "sdot v3.4s, v30.16b, v31.16b", "sdot v4.4s, v30.16b, v31.16b", "sdot v5.4s, v30.16b, v31.16b",
                    "sdot v6.4s, v30.16b, v31.16b", "sdot v7.4s, v30.16b, v31.16b", "sdot v16.4s, v30.16b, v31.16b",
                    "sdot v17.4s, v30.16b, v31.16b", "sdot v18.4s, v30.16b, v31.16b", "sdot v19.4s, v30.16b, v31.16b",
                    "sdot v20.4s, v30.16b, v31.16b", "sdot v21.4s, v30.16b, v31.16b", "sdot v22.4s, v30.16b, v31.16b",
                    "sdot v23.4s, v30.16b, v31.16b",
                    "subs {0}, {0}, #1", "b.ne 2b", inout(reg) loops => _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _,
                    out("v7") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _, out("v21") _,
                    out("v22") _, out("v23") _,
                    options(nomem, nostack),
                );
            }
            Some(16 * 16)
        }
        Isa::I8mm => {
            // SAFETY: as above.
            unsafe {
                asm!(
                    ".arch_extension i8mm",
                    "2:",
                    "smmla v0.4s, v30.16b, v31.16b", "smmla v1.4s, v30.16b, v31.16b", "smmla v2.4s, v30.16b, v31.16b",
                    "smmla v3.4s, v30.16b, v31.16b", "smmla v4.4s, v30.16b, v31.16b", "smmla v5.4s, v30.16b, v31.16b",
                    "smmla v6.4s, v30.16b, v31.16b", "smmla v7.4s, v30.16b, v31.16b", "smmla v16.4s, v30.16b, v31.16b",
                    "smmla v17.4s, v30.16b, v31.16b", "smmla v18.4s, v30.16b, v31.16b",
                    "smmla v19.4s, v30.16b, v31.16b", "smmla v20.4s, v30.16b, v31.16b",
                    "smmla v21.4s, v30.16b, v31.16b", "smmla v22.4s, v30.16b, v31.16b",
                    "smmla v23.4s, v30.16b, v31.16b",
                    "subs {0}, {0}, #1", "b.ne 2b", inout(reg) loops => _,
                    out("v0") _, out("v1") _, out("v2") _, out("v3") _, out("v4") _, out("v5") _, out("v6") _,
                    out("v7") _, out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _, out("v21") _,
                    out("v22") _, out("v23") _,
                    options(nomem, nostack),
                );
            }
            Some(16 * 32)
        }
        _ => None,
    }
}

#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
fn peak_macs(_isa: Isa, _loops: u64) -> Option<u64> {
    None
}
