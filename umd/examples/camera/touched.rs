// SPDX-License-Identifier: MIT OR Apache-2.0

//! Counts the pages of the camera's buffers that this process reads or writes.
//!
//! The pages are taken from the process. An access to one of them is a signal, whose handler counts and gives the page back.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::{io, mem, ptr};

const PAGE: usize = 4096;
static TOUCHED: AtomicU64 = AtomicU64::new(0);
static RANGES: OnceLock<Vec<(usize, usize)>> = OnceLock::new();

extern "C" fn fault(_: c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives the handler of SIGSEGV a valid structure with the address.
    let address = unsafe { (*info).si_addr() } as usize;
    let inside = |&(start, end): &(usize, usize)| (start..end).contains(&address);
    if RANGES.get().is_some_and(|ranges| ranges.iter().any(inside)) {
        TOUCHED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the page is one of those that `count` has taken.
        unsafe { libc::mprotect((address & !(PAGE - 1)) as *mut _, PAGE, libc::PROT_READ | libc::PROT_WRITE) };
    } else {
        // SAFETY: the program ends by the signal when the access is repeated.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
    }
}

/// Begins to count, once per process. The ranges are whole pages of shared memory: addresses and bytes.
pub(crate) fn count(buffers: &[(usize, usize)]) -> io::Result<()> {
    let ranges =
        buffers.iter().map(|&(start, bytes)| (start, start + bytes.next_multiple_of(PAGE))).collect::<Vec<_>>();
    RANGES.set(ranges.clone()).map_err(|_| io::Error::other("pages are counted already"))?;
    // SAFETY: all fields are integers, or a set of signals for which zero is the empty one.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    action.sa_sigaction = fault as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO;
    // SAFETY: the handler uses atomics and two calls that are safe in a handler.
    if unsafe { libc::sigaction(libc::SIGSEGV, &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    for (start, end) in ranges {
        // SAFETY: the pages hold a frame and nothing else. Who accesses them gets them back by the handler.
        if unsafe { libc::mprotect(start as *mut _, end - start, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// The pages that were touched.
pub(crate) fn pages() -> u64 {
    TOUCHED.load(Ordering::Relaxed)
}
