// SPDX-License-Identifier: MIT OR Apache-2.0

//! `tools/model/DISAGREEMENTS.md` names exactly the cases of the reference data that it explains.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nvdla_model::Like;
use nvdla_trace::{check_counters, find, play, play_like, Trace};
use nvdla_uapi::config::{NV_FULL, NV_SMALL};

type Names = BTreeSet<String>;

/// The names in the list under a heading.
fn listed(heading: &str) -> Names {
    let page = include_str!("../../model/DISAGREEMENTS.md");
    let section = page.split("\n## ").find(|section| section.starts_with(heading)).expect("the heading");
    let name = |line: &str| Some(line.strip_prefix("- `")?.strip_suffix('`')?.to_string());
    section.lines().filter_map(name).collect()
}

fn folders(reference: &Path) -> Vec<std::path::PathBuf> {
    find(&reference.join("hw-traces/nv_full_random")).expect("the random traces")
}

fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

#[test]
fn counters_of_another_group() {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    // The counters of other traces are compared by the test of all traces. These are the traces whose counters may differ.
    let sequences = folders(&reference).into_iter().filter(|folder| name(folder).starts_with("sequence_"));
    let differs = |folder: &std::path::PathBuf| {
        let trace = Trace::read(folder).expect("a trace");
        let mut played = play(&trace, &NV_FULL).expect("a result that is equal");
        !check_counters(&trace, &mut played).expect("counters").is_empty()
    };
    let differing: Names = sequences.filter(differs).map(|folder| name(&folder)).collect();
    assert_eq!(differing, listed("Counters of another register group"));
}

#[test]
fn conversions_that_a_table_calls_invalid() {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    // SDP processes int8 (0) and writes fp16 (2).
    let converts = |folder: &std::path::PathBuf| {
        let text = fs::read_to_string(folder.join("trace.txt")).expect("a trace");
        text.lines().any(|line| {
            let value = line.strip_prefix("write SDP.D_DATA_FORMAT ").map(|value| value.trim_start_matches("0x"));
            value.is_some_and(|value| u32::from_str_radix(value, 16).is_ok_and(|value| value & 0xf == 8))
        })
    };
    let found: Names = folders(&reference).into_iter().filter(converts).map(|folder| name(&folder)).collect();
    assert_eq!(found, listed("Conversions that a table calls invalid"));
}

#[test]
fn traces_that_use_what_the_rtl_of_nv_small_lacks() {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    let enables = |folder: &std::path::PathBuf| {
        let text = fs::read_to_string(folder.join("trace.txt")).expect("a trace");
        text.lines().any(|line| {
            let value = line.strip_prefix("write SDP.D_DP_EW_CFG ").map(|value| value.trim_start_matches("0x"));
            // Bit 0 bypasses the sub-unit.
            value.is_some_and(|value| u32::from_str_radix(value, 16).is_ok_and(|value| value & 1 == 0))
        })
    };
    let traces = find(&reference.join("hw-traces/nv_small")).expect("the traces of nv_small");
    let found: Names = traces.into_iter().filter(enables).map(|folder| name(&folder)).collect();
    assert_eq!(found, listed("Traces that use what nv_small's RTL lacks"));
    // The model that follows the RTL has other results for all of them.
    for name in found {
        let trace = Trace::read(&reference.join("hw-traces/nv_small").join(&name)).expect("a trace");
        assert!(play_like(&trace, &NV_SMALL, Like::Rtl).is_err(), "{name}");
    }
    let trace = Trace::read(&reference.join("hw-traces/nv_full_random/sdp_lut_int8_077")).expect("a trace");
    assert!(play_like(&trace, &NV_FULL, Like::Rtl).is_err());
}

#[test]
fn loadables_whose_result_depends_on_the_order_of_accesses() {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    let cases = nvdla_tests::case::all(&reference).expect("the manifests");
    let found: Names = cases
        .iter()
        .filter(|case| case.expected == nvdla_tests::case::Expected::OrderDependent)
        .map(|case| case.name.trim_start_matches("loadables/").to_string())
        .collect();
    assert_eq!(found, listed("Loadables whose result depends on the order of accesses"));
}
