// SPDX-License-Identifier: MIT OR Apache-2.0

//! The program: its options and their old spellings, its reports, and its error messages.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use nvdla_runtime::loadable::Loadable;
use nvdla_uapi::config::Config;
use tempfile::TempDir;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nvdla_compiler")).args(arguments).output().unwrap()
}

fn error(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn example(file: &str) -> String {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/lenet")).join(file).to_string_lossy().into_owned()
}

/// A temporary folder per test, removed when the test ends.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }
}

#[test]
fn old_spellings_make_the_same_loadable() {
    let folder = Folder::new();
    let (model, scales) = (example("lenet.onnx"), example("lenet.scales.json"));
    let (new, old) = (folder.path("new.nvdla"), folder.path("old.nvdla"));
    let picture = ["--mean", "0", "--std", "255", "--color", "gray"];
    let arguments = [&model[..], "-o", &new, "--config", "nv_small", "--precision", "int8", "--calibtable", &scales];
    let output = run(&[&arguments[..], &picture].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("lenet for nv_small, int8, "));
    let arguments = ["--model", &model, "--out", &old, "--configtarget", "nv_small", "--cprecision", "int8"];
    let output = run(&[&arguments[..], &["--calibtable", &scales, "--batch", "1"], &picture].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(&new).unwrap() == fs::read(&old).unwrap());
    assert!(
        error(&["--model", &model, "--out", &old, "--configtarget", "nv_small", "--batch", "2"]).contains("--batch")
    );
}

#[test]
fn a_mistyped_configuration_lists_all() {
    for option in ["--config", "--configtarget"] {
        let error = error(&[&example("lenet.onnx"), "-o", "none.nvdla", option, "nv_smal"]);
        assert_eq!(Config::ALL.len(), 7);
        for config in Config::ALL {
            assert!(error.contains(config.name), "{error}");
        }
    }
}

#[test]
fn check_writes_nothing() {
    let output = run(&[&example("lenet.onnx"), "--config", "nv_small", "--check"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("nv_small maps all "));
}

#[test]
fn mistakes_are_explained() {
    let model = example("lenet.onnx");
    let compile = |more: &[&str]| error(&[&[&model[..], "-o", "none.nvdla", "--config", "nv_small"], more].concat());
    assert!(compile(&[]).contains("int8 needs the range of each activation"));
    assert!(compile(&["--precision", "fp16"]).contains("nv_small has no Fp16"));
    assert!(compile(&["--calibrate", "/none/there"]).contains("/none/there"));
    assert!(compile(&["--calibtable", "/none/there"]).contains("/none/there"));
    assert!(compile(&["--outputs", "nothing"]).contains("nothing"));
    let scales = example("lenet.scales.json");
    assert!(compile(&["--calibtable", &scales, "--sram", "64K"]).contains("nv_small has no memory interface for SRAM"));
    for size in ["64Q", "K", "", "1.5M", "99999999999999999999M"] {
        assert!(compile(&["--sram", size]).contains("is not a number of bytes, such as 65536, 512K or 1M"), "{size}");
    }
    let other = error(&[&example("README.md"), "-o", "none.nvdla", "--config", "nv_small"]);
    assert!(other.contains("the extension is none of .onnx, .param"), "{other}");
}

#[test]
fn the_report_and_the_names_speak_of_nodes() {
    let folder = Folder::new();
    let (file, report) = (folder.path("lenet.nvdla"), folder.path("report"));
    let (model, scales) = (example("lenet.onnx"), example("lenet.scales.json"));
    let output = run(&[
        &model,
        "-o",
        &file,
        "--config",
        "nv_small",
        "--calibtable",
        &scales,
        "--std",
        "255",
        "--report",
        &report,
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json = fs::read_to_string(Path::new(&report).join("report.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let operations = json["operations"].as_array().unwrap();
    assert_eq!(operations[0]["nodes"], serde_json::json!(["conv1", "relu1"]));
    assert!(operations[0]["cycles"].as_u64().unwrap() > 0 && !operations[0]["limit"].as_str().unwrap().is_empty());
    assert_eq!(json["graph"].as_array().unwrap().last().unwrap()["name"], "prob");
    assert!(json["pool"].as_u64().unwrap() >= json["pool_bound"].as_u64().unwrap());
    assert!(!json["buffers"].as_array().unwrap().is_empty());
    let page = fs::read_to_string(Path::new(&report).join("report.html")).unwrap();
    assert!(page.contains("conv1, relu1") && page.contains("<svg") && page.contains("<rect"), "{page}");

    let names = Loadable::open(&file).unwrap().names().unwrap();
    assert_eq!(names.layer(0, 1).unwrap().to_string(), "conv1, relu1");
    assert_eq!(names.layer(1, 0).unwrap().to_string(), "prob");
    assert_eq!((names.inputs[0].tensor.as_str(), names.outputs[0].tensor.as_str()), ("data", "prob"));
    assert!((names.inputs[0].scale[0] - 1.0 / 127.0).abs() < 1e-9, "{:?}", names.inputs);
    assert_eq!(names.inputs[0].zero_point, [0.0]);
}

#[test]
fn tensors_in_sram_are_reported() {
    let folder = Folder::new();
    let compile = |name: &str, sram: &str| {
        let (file, report) = (folder.path(name), folder.path(&format!("{name} report")));
        let options = ["-o", &file, "--config", "nv_full", "--precision", "fp16", "--report", &report, "--sram", sram];
        let output = run(&[&[&example("lenet.onnx")[..]], &options[..]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json = fs::read_to_string(Path::new(&report).join("report.json")).unwrap();
        let page = fs::read_to_string(Path::new(&report).join("report.html")).unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        (fs::read(&file).unwrap(), serde_json::from_str::<serde_json::Value>(&json).unwrap(), page, printed)
    };
    let (without, json, page, printed) = compile("without.nvdla", "0");
    assert!(json["sram"].is_null() && !page.contains("SRAM") && !printed.contains("SRAM"));
    let (with, json, page, printed) = compile("with.nvdla", "4K");
    assert!(with != without && with == compile("again.nvdla", "4096").0);
    let inside: Vec<_> = json["buffers"].as_array().unwrap().iter().filter(|buffer| buffer["sram"] == true).collect();
    let ends = inside.iter().map(|buffer| buffer["offset"].as_u64().unwrap() + buffer["size"].as_u64().unwrap());
    let sram = &json["sram"];
    assert_eq!(sram["limit"], 4096);
    assert_eq!(ends.max(), sram["pool"].as_u64());
    assert!((1..=4096).contains(&sram["pool"].as_u64().unwrap()));
    assert!(sram["cycles"].as_u64() < sram["cycles_in_dram"].as_u64());
    assert!(page.contains("<h2>SRAM</h2>") && page.matches("<svg").count() == 2, "{page}");
    assert!(printed.contains(&format!("SRAM: {} of 4096 bytes, {} tensors", sram["pool"], inside.len())), "{printed}");
}
