// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla doctor` names the fault that the virtual platform's model was given. The programs are those beside this test's folder.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn program(name: &str) -> Command {
    let test = std::env::current_exe().expect("this test");
    Command::new(test.parent().and_then(|folder| folder.parent()).expect("the build's folder").join(name))
}

/// A server of the model, which is ended with this value.
struct Server(Child, PathBuf);

impl Server {
    fn start(name: &str, options: &[&str]) -> Self {
        let socket = std::env::temp_dir().join(format!("nvdla-doctor-{}-{name}", std::process::id()));
        let mut command = program("nvdla_vp");
        command.args(["--config", "nv_small", "--socket"]).arg(&socket).args(options).stdin(Stdio::null());
        let server = Self(command.spawn().expect("nvdla_vp"), socket);
        let start = Instant::now();
        while !server.1.exists() {
            assert!(start.elapsed() < Duration::from_secs(60), "the server does not listen");
            std::thread::sleep(Duration::from_millis(2));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_file(&self.1);
    }
}

/// The exit status, and the output.
fn doctor(device: &str, config: &str) -> (Option<i32>, String) {
    let output = program("nvdla").args(["doctor", "--device", device, "--config", config]).output().expect("nvdla");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn the_step_that_fails_names_the_fault() {
    for (name, options, config, step, sentence) in [
        ("below", &["--window-offset", "-8192"][..], "nv_small", "registers", "registers 0 and 0x1000 read"),
        ("page", &["--window-offset", "-4096"], "nv_small", "registers", "answers as nv_full, and is busy"),
        ("word", &["--window-offset", "4"], "nv_small", "registers", "answers 0x4 bytes further up"),
        ("window", &["--window-offset", "65536"], "nv_small", "registers", "answers 0x10000 bytes further up"),
        ("order", &["--bridge", "swapped"], "nv_small", "registers", "in the wrong order"),
        ("words", &["--bridge", "words"], "nv_small", "registers", "drop the two low bits"),
        ("configuration", &[], "nv_large", "configuration", "not of nv_large"),
        ("interrupt", &["--lose-interrupt", "1,2,3"], "nv_small", "interrupt", "Compare its number"),
        ("edge", &["--no-msi", "--trigger", "edge"], "nv_small", "interrupt", "The trigger is an edge"),
        ("low", &["--no-msi", "--trigger", "low"], "nv_small", "interrupt", "The trigger is a low level"),
        ("later", &["--lose-interrupt", "3"], "nv_small", "interrupt", "interrupts get lost"),
        ("hang", &["--hang", "1"], "nv_small", "operation", "clock"),
        ("offset", &["--dma-offset", "1073741824"], "nv_small", "operation", "dma-ranges"),
        ("end", &["--dma-end", "268435456"], "nv_small", "operation", "dma-ranges"),
        ("caches", &["--incoherent"], "nv_small", "memory", "Some lines of a cache are old"),
        ("reset", &["--deaf"], "nv_small", "reset", "The reset does not reach the NVDLA"),
    ] {
        let server = Server::start(name, options);
        let (status, text) = doctor(&format!("vfio-user:{}", server.1.display()), config);
        assert_eq!(status, Some(5), "{name}: {text}");
        let found = text.split_once("FAIL  ").unwrap_or_else(|| panic!("{name}: {text}")).1;
        assert!(found.starts_with(step) && found.contains(sentence), "{name}: {text}");
    }
    let (status, text) = doctor("vfio-user:/nonexistent", "nv_small");
    assert!(status == Some(5) && text.starts_with("FAIL  registers"), "{text}");
}

#[test]
fn a_device_without_a_fault_passes_every_step() {
    for (name, options) in [("sound", &[][..]), ("line", &["--no-msi"])] {
        let server = Server::start(name, options);
        let (status, text) = doctor(&format!("vfio-user:{}", server.1.display()), "nv_small");
        let steps: Vec<_> = text.lines().map(|line| line.split(':').next().unwrap_or_default()).collect();
        let all = ["registers", "configuration", "interrupt", "operation", "memory", "reset", "recovery"];
        assert!(status == Some(0) && steps == all.map(|step| format!("ok    {step}")), "{text}");
    }
    let output = program("nvdla").args(["doctor", "--device", "model"]).output().expect("nvdla");
    assert_eq!(output.status.code(), Some(2), "a model needs no doctor");
}
