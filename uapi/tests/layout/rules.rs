// SPDX-License-Identifier: GPL-2.0-only OR MIT

use nvdla_uapi::layout::{Document, Rule};

#[test]
fn every_rule_says_where_it_stands() {
    for rule in Rule::ALL {
        assert!(!rule.subject().is_empty() && !rule.section().is_empty(), "{rule:?}");
        assert!(matches!(rule.document(), Document::Nvdla | Document::Tpu | Document::Caller));
    }
}
