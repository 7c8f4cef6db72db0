// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compares the estimate with the RTL's cycles, on one of two fixed sets of the shapes.

#[allow(dead_code)] // the example shows more of it
#[path = "../examples/accuracy/cases.rs"]
mod cases;

use cases::Summary;

#[test]
fn held_out_cases() {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    let (all, networks) = cases::read(&reference, &reference.join("rtl/cycles.json"));
    let held: Vec<_> = all.iter().filter(|case| !case.fitted()).collect();
    assert!(held.len() > 150, "{} cases", held.len());
    for kind in ["1x1", "direct", "fully connected", "image", "SDP", "PDP", "CDP"] {
        let cases: Vec<_> = held.iter().copied().filter(|case| case.kind == kind).collect();
        let Summary { sum, median, off, .. } = Summary::new(&cases);
        assert!((sum - 1.0).abs() < 0.03, "{kind}: sum {sum}");
        assert!((median - 1.0).abs() < 0.05, "{kind}: median {median}");
        assert_eq!(off, 0, "{kind}: operations above 500 cycles that are off by more than 15 %");
    }
    for latency in [10, 50, 200] {
        let cases: Vec<_> = held.iter().copied().filter(|case| case.memory.dram.latency == latency).collect();
        let sum = Summary::new(&cases).sum;
        assert!((sum - 1.0).abs() < 0.03, "latency {latency}: sum {sum}");
    }
    for network in &networks {
        let ratio = cases::network(&reference, network) as f64 / network.cycles as f64;
        assert!((ratio - 1.0).abs() < 0.03, "{}: {ratio}", network.name);
    }
}
