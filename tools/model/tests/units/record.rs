// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/record.rs`.

use nvdla_model::memory::{Access, Memory, Port, Span};
use nvdla_model::record::{Recorder, Touched};

use crate::support::bytes::Bytes;

#[test]
fn neighbouring_accesses_of_one_kind_are_one_and_refused_ones_are_kept() {
    let mut memory = Bytes { base: 0x100, bytes: vec![0; 64] };
    let mut recorder = Recorder::new(&mut memory, Vec::new());
    assert!(recorder.read(Port::Primary, 0x100, 8).is_some());
    assert!(recorder.write(Port::Primary, 0x120, 8).is_some());
    assert!(recorder.read(Port::Primary, 0x108, 8).is_some());
    assert!(recorder.write(Port::Primary, 0x13c, 8).is_none());
    assert!(recorder.view(Span { port: Port::Primary, address: 0x100, length: 64 }).is_none());
    let span = |address, length| Span { port: Port::Primary, address, length };
    let touched = |access, span, allowed| Touched { access, span, allowed };
    assert_eq!(
        recorder.finish(),
        [
            touched(Access::Read, span(0x100, 16), true),
            touched(Access::Write, span(0x120, 8), true),
            touched(Access::Write, span(0x13c, 8), false),
        ]
    );
}
