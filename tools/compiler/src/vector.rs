// SPDX-License-Identifier: MIT OR Apache-2.0

//! Loops over many numbers with the vector instructions of the machine. The compiler of Rust makes them of plain code, and neither
//! reorders nor joins operations on real numbers, so that results are the same on every machine.

/// Declares a function that is compiled once more for AVX2.
macro_rules! vectorised {
    ($(#[$attribute:meta])* $sight:vis fn $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)? $body:block) => {
        $(#[$attribute])*
        $sight fn $name($($argument: $kind),*) $(-> $result)? {
            #[inline(always)]
            #[allow(clippy::inline_always)] // so that its code is compiled for each of the two
            fn plain($($argument: $kind),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $kind),*) $(-> $result)? {
                    plain($($argument),*)
                }
                if nvdla_uapi::isa::Isa::in_use_or_portable().has_avx2() {
                    // SAFETY: the instruction set in use has AVX2.
                    return unsafe { avx2($($argument),*) };
                }
            }
            plain($($argument),*)
        }
    };
}
pub(crate) use vectorised;
