// SPDX-License-Identifier: MIT OR Apache-2.0

//! The program: text, JSON, and a one-line error for files that are not loadables.

use std::path::Path;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nvdla_inspect")).args(arguments).output().unwrap()
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/lenet"))
}

#[test]
fn text_and_json() {
    let file = folder().join("lenet.nvdla");
    let text = run(&[file.to_str().unwrap()]);
    assert!(text.status.success());
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.starts_with("loadable 0.7.0, "), "{text}");
    let json = run(&["--json", file.to_str().unwrap()]);
    assert!(json.status.success());
    let json = nvdla_tests::schema::object(&String::from_utf8_lossy(&json.stdout));
    assert_eq!(json["inputs"][0]["name"], "data");
    assert_eq!(json["tasks"].as_array().unwrap().len(), 2);
}

#[test]
fn not_a_loadable() {
    for file in [folder().join("lenet.onnx"), folder().join("none"), folder().to_owned()] {
        let output = run(&[file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(3), "{}", file.display());
        assert!(output.stdout.is_empty());
        let output_in_json = run(&["--json", file.to_str().unwrap()]);
        let object = nvdla_tests::schema::object(&String::from_utf8_lossy(&output_in_json.stdout));
        assert_eq!((output_in_json.status.code(), &object["error"]["status"]), (Some(3), &3.into()), "{object}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.starts_with("nvdla_inspect: "), "{error}");
        assert!(error.contains(file.to_str().unwrap()), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
}

#[test]
fn what_a_configuration_refuses_is_listed() {
    let file = folder().join("lenet.nv_small.nvdla");
    let output = run(&["--check", "--config", "nv_small", file.to_str().unwrap()]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "nv_small accepts every task\nno operations race\n");

    let output = run(&["--check", "--config", "nv_large", "--json", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(4));
    let check = nvdla_tests::schema::object(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(check["configuration"], "nv_large");
    let refused = check["refused"].as_array().unwrap();
    assert!(refused.len() > 1, "{check}");
    assert!(refused.iter().all(|refused| refused["message"].as_str().unwrap().contains("operation")), "{check}");
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.ends_with("nv_large refuses the loadable\n"), "{error}");

    let output = run(&["--check", "--config", "nv_tiny", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn races_are_listed() {
    let file = folder().join("lenet.nv_small.nvdla");
    let output = run(&["--check", file.to_str().unwrap()]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "no operations race\n");

    let Some(reference) = nvdla_tests::reference::folder() else { return };
    let file = reference.join("loadables-2/tiny_xception.nv_small.int8.per-filter/net.nvdla");
    let output = run(&["--check", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("pairs of operations race: nothing fixes which comes first\n"), "{text}");
    assert!(
        text.contains("task 0: operation 64 (PDP) writes dst_data and operation 66 (SDP) reads x2_data at 0x"),
        "{text}"
    );
    let output = run(&["--check", "--json", file.to_str().unwrap()]);
    let json = nvdla_tests::schema::object(&String::from_utf8_lossy(&output.stdout));
    assert_eq!(json["races"].as_array().unwrap().len(), 45);
}

#[test]
fn a_full_disk_is_an_error() {
    let file = folder().join("lenet.nvdla");
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for arguments in [&[file.to_str().unwrap()][..], &["--check", file.to_str().unwrap()], &["--help"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_nvdla_inspect")).args(arguments).stdout(full()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains("No space left on device"), "{error}");
    }
}

/// A name is shown without characters that control a terminal.
#[test]
fn names_are_escaped() {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    let output = run(&[reference.join("loadables-hostile/escape.nvdla").to_str().unwrap()]);
    assert!(output.status.success());
    assert!(output.stdout.iter().all(|&byte| byte >= b' ' || byte == b'\n'));
}
