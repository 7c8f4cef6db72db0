// SPDX-License-Identifier: MIT OR Apache-2.0

//! How often a run allocates memory: a few lists per task, and nothing per operation.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use nvdla_runtime::device::{recognise, ModelDevice};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::Session;

/// Allocations so far, and their bytes.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations and bytes of a run of a network that has run before, and its operations.
fn run(loadable: Loadable) -> (usize, usize, usize) {
    let config = recognise(&loadable).config;
    let mut session = Session::new(loadable, ModelDevice::new(config)).unwrap();
    for _ in 0..2 {
        session.run().unwrap();
    }
    let before = [&COUNT, &BYTES].map(|counter| counter.load(Ordering::Relaxed));
    session.run().unwrap();
    let after = [&COUNT, &BYTES].map(|counter| counter.load(Ordering::Relaxed));
    (after[0] - before[0], after[1] - before[1], session.operations())
}

#[test]
fn a_run_allocates_little() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut networks = vec![("lenet (ours)", root.join("examples/lenet/lenet.nvdla"))];
    let reference = std::env::var_os("NVDLA_REFERENCE").map_or_else(|| root.join("../shared/nvdla"), Into::into);
    for name in [
        "resnet18.nv_full.int8.per-filter",
        "squeezenet.nv_large.int8.per-kernel",
        "squeezenet.nv_full.fp16",
        "m_lrn5.nv_full.fp16",
    ] {
        let path = reference.join("loadables").join(name).join("net.nvdla");
        if path.exists() {
            networks.push((name, path));
        }
    }
    for (name, path) in networks {
        let (count, bytes, operations) = run(Loadable::open(path).unwrap());
        println!("{name}: {count} allocations of {bytes} bytes in all, {operations} operations");
        assert!(count <= MAX_ALLOCATIONS, "{name}: {count} allocations in {operations} operations");
    }
}

/// The greatest number of allocations of a run, independent of the number of its operations: the lists of its tasks, those of the
/// emulator, and the threads' queue, which sometimes grows by a block.
const MAX_ALLOCATIONS: usize = 32;
