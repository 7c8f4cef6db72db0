// SPDX-License-Identifier: MIT OR Apache-2.0

//! Measures traces and loadables of the reference data on a simulator of the RTL.

use crate::cases;
use nvdla_estimate::Measured;
use nvdla_model::simulation::Simulation;
use nvdla_rtl::{Selection, Simulator};
use nvdla_runtime::device;
use nvdla_tests::case;
use nvdla_trace::{play_on, Trace};
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::OpType;
use serde_json::{json, Value};
use std::collections::HashMap;
use std::path::Path;
use std::process::ExitCode;

const UNITS: [OpType; 4] = [OpType::Conv, OpType::Sdp, OpType::Pdp, OpType::Cdp];

/// Runs each trace or loadable on the program, and adds rows in the format of `cycles.json` to the file. Fails if one does not
/// give its golden results; the others are measured nevertheless.
pub(crate) fn measure(reference: &Path, file: &Path, program: &str, names: &[String]) -> ExitCode {
    let selection: Selection = program.parse().expect("PROGRAM[,OPTION=VALUE]...");
    let mut rows: Vec<Value> = match std::fs::read_to_string(file) {
        Ok(text) => serde_json::from_str(&text).expect("the file has measurements"),
        Err(_) => Vec::new(),
    };
    let cases = case::all(reference).expect("the manifests");
    let mut failed = 0;
    for name in names {
        let start = std::time::Instant::now();
        let wanted = format!("loadables/{name}");
        let result = match cases.iter().find(|case| case.name == wanted) {
            Some(case) => loadable(reference, case, name, &selection),
            None => trace(reference, name, &selection),
        };
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok((new, text)) => {
                println!("ok {name}: {text}, {seconds:.0} s");
                rows.extend(new);
                let text = serde_json::to_string_pretty(&rows).expect("JSON");
                std::fs::write(file, text).expect("the file can be written");
            }
            Err(why) => {
                failed += 1;
                println!("FAIL {name}: {why}, {seconds:.0} s");
            }
        }
    }
    println!("{} equal, {failed} failed", names.len() - failed);
    ExitCode::from(u8::from(failed != 0))
}

/// The fields of a row that do not depend on the operation.
fn row(selection: &Selection, config: &Config, kind: &str, name: &str, cycles: u64) -> Value {
    let option = |wanted: &str, otherwise: f64| {
        let mut pairs = selection.arguments.chunks(2);
        pairs.find(|pair| pair[0] == wanted).and_then(|pair| pair[1].parse().ok()).unwrap_or(otherwise)
    };
    json!({
        "config": config.name,
        kind: name,
        "cycles": cycles,
        "memory_latency": option("--latency", 50.0) as u64,
        "bandwidth_limit": option("--bandwidth", 0.0),
    })
}

/// The start and the end of a group of operations that are connected on the fly. A group with a convolution starts with it.
fn span(operations: &[(OpType, Measured)]) -> Option<(u64, u64)> {
    let conv = operations.iter().find(|(unit, _)| *unit == OpType::Conv);
    let start = conv.or_else(|| operations.iter().min_by_key(|(_, measured)| measured.start))?.1.start;
    Some((start, operations.iter().map(|(_, measured)| measured.end).max()?))
}

type Rows = Result<(Vec<Value>, String), String>;

fn trace(reference: &Path, name: &str, selection: &Selection) -> Rows {
    let simulator = Simulator::start(selection).map_err(|error| error.to_string())?;
    let config = simulator.config();
    let folder = reference.join("hw-traces").join(config.name).join(name);
    let trace = Trace::read(&folder).map_err(|error| error.to_string())?;
    let mut played = play_on(&trace, simulator).map_err(|failure| failure.to_string())?;
    let mut operations = Vec::new();
    for unit in UNITS {
        while let Some(measured) = played.device.completed(unit) {
            operations.push((unit, measured));
        }
    }
    let several = UNITS.iter().any(|unit| operations.iter().filter(|(of, _)| of == unit).count() > 1);
    let Some((start, end)) = span(&operations).filter(|_| !several) else {
        return Ok((Vec::new(), "several operations, not measured".into()));
    };
    let cycles = end - start;
    let mut row = row(selection, config, "trace", name, cycles);
    row["text"] = cases::of_trace(&folder.join("trace.txt"), config).kind.into();
    row["unit"] = "group".into();
    Ok((vec![row], format!("{cycles} cycles")))
}

fn loadable(reference: &Path, case: &case::Case, name: &str, selection: &Selection) -> Rows {
    let mut measured: HashMap<(u16, usize), (OpType, Measured)> = HashMap::new();
    let compared = case.run_on(&device::Selection::Rtl(selection.clone()), &mut |completed| {
        if let Some(cycles) = completed.measured {
            measured.insert((completed.task, completed.operation), (completed.unit, cycles));
        }
    })?;
    let (mut rows, mut whole) = (Vec::new(), (u64::MAX, 0));
    for (number, (group, members)) in cases::of_loadable(reference, name, case.config).into_iter().enumerate() {
        let operations: Vec<_> = members.iter().filter_map(|member| measured.get(member).copied()).collect();
        let Some((start, end)) = span(&operations) else { continue };
        whole = (whole.0.min(start), whole.1.max(end));
        let mut row = row(selection, case.config, "loadable", name, end - start);
        row["text"] = group.text.into();
        row["unit"] = "group".into();
        row["group"] = number.into();
        rows.push(row);
    }
    // The first convolution starts after the design has cleared its convolution buffer after reset.
    let whole = whole.1.saturating_sub(whole.0);
    let mut row = row(selection, case.config, "loadable", name, whole);
    row["unit"] = "whole".into();
    rows.push(row);
    let text = format!(
        "{} outputs and {} surfaces equal, {} may differ, {whole} cycles",
        compared.outputs, compared.surfaces, compared.may_differ
    );
    Ok((rows, text))
}
