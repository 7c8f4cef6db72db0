// SPDX-License-Identifier: MIT OR Apache-2.0

//! The program: its exit status, and its results as JSON.

use std::fs;
use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nvdla_trace")).args(arguments).output().unwrap()
}

#[test]
fn results_are_told_or_it_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("good"), folder.path().join("bad"));
    for (trace, text) in [(&good, "fill dram 0x1000 0x10 all_zero\n"), (&bad, "what is this\n")] {
        fs::create_dir(trace).unwrap();
        fs::write(trace.join("trace.txt"), text).unwrap();
    }
    let [all, good] = [folder.path(), &good].map(|path| path.to_str().unwrap().to_owned());
    let output = run(&["--config", "nv_small", &all]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("ok good\n") && text.contains("FAIL bad: ") && text.ends_with("1 passed, 1 failed\n"),
        "{text}"
    );
    let output = run(&["--config", "nv_small", "--json", &all]);
    assert_eq!(output.status.code(), Some(1));
    let object = nvdla_tests::schema::object(&String::from_utf8_lossy(&output.stdout));
    assert_eq!((&object["passed"], &object["failed"]), (&1.into(), &1.into()), "{object}");
    assert_eq!(object["traces"][1]["failure"], serde_json::Value::Null, "{object}");
    // No trace.
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let output = run(&["--config", "nv_small", "--json", empty.to_str().unwrap()]);
    let object = nvdla_tests::schema::object(&String::from_utf8_lossy(&output.stdout));
    assert_eq!((output.status.code(), &object["error"]["status"]), (Some(3), &3.into()), "{object}");
    assert_eq!(run(&["--config", "nv_tiny", &good]).status.code(), Some(2));
    // Results that nobody gets are no success.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_nvdla_trace"))
        .args(["--config", "nv_small", &good])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn files_of_a_trace_lie_in_its_folder_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    fs::create_dir(&trace).unwrap();
    std::os::unix::fs::symlink("/dev/zero", trace.join("zero")).unwrap();
    for (file, why) in
        [("/etc/passwd", "is not a file in the trace's folder"), ("../x", "is not a file"), ("zero", "it is a device")]
    {
        fs::write(trace.join("trace.txt"), format!("load dram 0x1000 {file} 0 0x10\n")).unwrap();
        let output = run(&["--config", "nv_small", trace.to_str().unwrap()]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.code() == Some(1) && text.contains(why), "{file}: {text}");
    }
}
