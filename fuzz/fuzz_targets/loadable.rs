// SPDX-License-Identifier: MIT OR Apache-2.0

//! Any bytes are a loadable or an error. A loadable that is accepted can be read as a whole, planned, validated and
//! run.

#![no_main]

use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use nvdla_runtime::device::{self, ModelDevice};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::operations;
use nvdla_runtime::session::{RunOptions, Session};

/// Bytes of all memories: a loadable with more is not planned, because each of its runs would clear and fill them.
const MEMORY: u64 = 64 << 20;
/// The time that a run has.
const LIMIT: Duration = Duration::from_millis(100);

fuzz_target!(|bytes: &[u8]| {
    let Ok(loadable) = Loadable::from_bytes(bytes) else { return };
    for task in loadable.tasks_in_order() {
        for address in task.address_list().iter() {
            assert!(loadable.address(address).is_some(), "an address list was accepted that names no address");
        }
    }
    for memory in loadable.memories().iter() {
        for (blob, _) in loadable.contents(memory) {
            std::hint::black_box(blob.data());
        }
    }
    for tensor in loadable.tensors().iter() {
        std::hint::black_box(format!("{tensor:?}"));
    }
    std::hint::black_box(operations::operations(&loadable).is_ok());
    if loadable.memories().iter().map(|memory| memory.size()).fold(0, u64::saturating_add) > MEMORY {
        return;
    }
    let device = ModelDevice::new(device::recognise(&loadable).config);
    let Ok(mut session) = Session::new(loadable, device) else { return };
    let options = RunOptions { timeout: Some(LIMIT), run_timeout: Some(LIMIT), ..Default::default() };
    std::hint::black_box(session.run_with(options).is_ok());
    for index in 0..session.outputs().len() {
        std::hint::black_box(session.output_nchw(index, 1.0).is_ok());
    }
});
