// SPDX-License-Identifier: MIT OR Apache-2.0

//! Plain loops compiled once per instruction set.

/// Defines a function whose body is compiled for AVX-512, for AVX2, and for what every processor of the target has. Its
/// first argument, an [`nvdla_uapi::isa::Isa`], chooses.
///
/// The body is inlined into each copy, and only code that is inlined into it is compiled for the instruction set. The
/// loops should run over slices that are arguments of this function, because the compiler then knows that they do not
/// overlap and vectorises them.
macro_rules! vectorised {
    (
        $(#[$attribute:meta])*
        $visible:vis fn $name:ident $(<$generic:ident: $bound:path $(, const $number:ident: usize)?>)?
            ($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block
    ) => {
        $(#[$attribute])*
        #[inline(never)]
        $visible fn $name $(<$generic: $bound $(, const $number: usize)?>)?
            (isa: nvdla_uapi::isa::Isa, $($argument: $type),*) $(-> $result)?
        {
            #[inline(always)]
            fn body $(<$generic: $bound $(, const $number: usize)?>)? ($($argument: $type),*) $(-> $result)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
                fn avx512 $(<$generic: $bound $(, const $number: usize)?>)? ($($argument: $type),*) $(-> $result)? {
                    body $(::<$generic $(, $number)?>)? ($($argument),*)
                }
                #[target_feature(enable = "avx2,fma,lzcnt")]
                fn avx2 $(<$generic: $bound $(, const $number: usize)?>)? ($($argument: $type),*) $(-> $result)? {
                    body $(::<$generic $(, $number)?>)? ($($argument),*)
                }
                if isa.has_avx512() {
                    // SAFETY: the processor has these instructions, as an `Isa` exists only where its processor does.
                    return unsafe { avx512 $(::<$generic $(, $number)?>)? ($($argument),*) };
                }
                if isa.has_avx2() {
                    // SAFETY: as above.
                    return unsafe { avx2 $(::<$generic $(, $number)?>)? ($($argument),*) };
                }
            }
            let _ = isa;
            body $(::<$generic $(, $number)?>)? ($($argument),*)
        }
    };
}
