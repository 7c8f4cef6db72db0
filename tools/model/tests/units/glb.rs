// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/glb.rs`.

use nvdla_model::glb::{Glb, Source};
use nvdla_uapi::reg::glb::{S_INTR_MASK, S_INTR_SET, S_INTR_STATUS};

#[test]
fn the_line_follows_the_unmasked_status_bits() {
    let mut glb = Glb::default();
    assert!(!glb.line());
    glb.raise(Source::Cacc, 1);
    assert_eq!(glb.read(S_INTR_STATUS.offset.into()), 0x20_0000);
    assert!(glb.line());
    glb.write(S_INTR_MASK.offset.into(), 0x20_0000);
    assert!(!glb.line());
    glb.write(S_INTR_SET.offset.into(), !0);
    assert_eq!(glb.read(S_INTR_STATUS.offset.into()), 0x3f_03ff);
    assert!(glb.line());
    glb.write(S_INTR_STATUS.offset.into(), !0);
    assert!(!glb.line());
}

#[test]
fn every_source_has_its_own_bits() {
    let mut seen = 0;
    for source in Source::ALL {
        for group in [0, 1] {
            assert_eq!(seen & source.bit(group), 0);
            seen |= source.bit(group);
        }
    }
    assert_eq!(seen, S_INTR_STATUS.writable);
}
