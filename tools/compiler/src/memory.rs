// SPDX-License-Identifier: MIT OR Apache-2.0

//! How the C library of GNU keeps freed memory. The compiler frees and allocates the weights of a network many times, in several threads.

/// Makes all threads use the same memory, so that what one has freed is there for the others, and keeps blocks of up to 8 MB until the
/// program ends. Else each thread has memory of its own, of which most is free at any time, and blocks are returned and filled with zeros
/// anew.
pub(crate) fn share() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for (parameter, value) in
        [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, 8 << 20), (libc::M_TRIM_THRESHOLD, 1 << 30)]
    {
        // SAFETY: the function only sets a parameter of the allocator.
        unsafe { libc::mallopt(parameter, value) };
    }
}
