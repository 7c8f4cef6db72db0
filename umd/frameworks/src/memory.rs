// SPDX-License-Identifier: MIT OR Apache-2.0

//! The memory of the process in which a plugin runs.

/// Gives memory that is not in use back to the system.
///
/// Reading and compiling a network allocates several times its size from several threads. The C library keeps what is freed in
/// each thread's arena, and an application would keep it for as long as it lives.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` may be called at any time from any thread; it only touches free memory.
    unsafe {
        libc::malloc_trim(0);
    }
}
