// SPDX-License-Identifier: MIT OR Apache-2.0

//! Any bytes are a loadable or an error, and what is accepted can be looked at whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nvdla_runtime::loadable::Loadable;

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
});
