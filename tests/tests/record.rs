// SPDX-License-Identifier: MIT OR Apache-2.0

//! Recorded runs play back: a network that ran on the model, as a hardware trace on a fresh model.

use std::fs;
use std::path::Path;

use nvdla_runtime::device::{ModelDevice, Recording};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::Session;
use nvdla_tests::reference;
use nvdla_trace::{play, Trace};
use nvdla_uapi::config::Config;

/// Runs a loadable on an input that is not all zero, and records it.
fn record(loadable: &Path, config: &'static Config, folder: &Path) -> Trace {
    let recording = Recording::create(folder).unwrap();
    let mut device = ModelDevice::new(config);
    device.record(&recording);
    let mut session = Session::new(Loadable::open(loadable).unwrap(), device).unwrap();
    for (at, byte) in session.input_mut(0).unwrap().iter_mut().enumerate() {
        *byte = (at * 7 % 61) as u8;
    }
    // Twice, so that memory is loaded again where it has changed, and not elsewhere.
    session.run().unwrap();
    session.input_mut(0).unwrap()[0] ^= 0x55;
    session.run().unwrap();
    recording.finish().unwrap();
    Trace::read(folder).unwrap()
}

#[test]
fn a_recorded_network_plays_back() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/lenet");
    for name in ["nv_small", "nv_large"] {
        let (folder, config) = (tempfile::tempdir().unwrap(), Config::by_name(name).unwrap());
        let trace = record(&examples.join(format!("lenet.{name}.nvdla")), config, folder.path());
        play(&trace, config).unwrap_or_else(|failure| panic!("{name}: {failure}"));
        let text = fs::read_to_string(folder.path().join("trace.txt")).unwrap();
        let count = |command: &str| text.lines().filter(|line| line.starts_with(command)).count();
        assert!(count("compare ") >= 8, "each run has at least 4 operations that write to memory");
        assert!(count("load ") >= 3 && count("load ") < count("compare "), "{text}");
        assert!(count("interrupt ") >= count("compare "));

        // A byte that differs is found.
        let expected = folder.path().join("expected.bin");
        let mut bytes = fs::read(&expected).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        fs::write(&expected, bytes).unwrap();
        let failure = play(&Trace::read(folder.path()).unwrap(), config).err().expect("a byte differs");
        assert!(failure.to_string().contains("differs at"), "{failure}");
    }
}

#[test]
fn both_memories_and_every_unit_are_recorded() {
    let Some(reference) = reference::folder() else { return };
    for name in ["lenet.nv_full.fp16.opt-cvsram", "lenet.nv_full.int8.b2", "m_pool_asym.nv_small.int8"] {
        let folder = tempfile::tempdir().unwrap();
        let config = name.split('.').find_map(Config::by_name).unwrap();
        let loadable = reference.join("loadables").join(name).join("net.nvdla");
        let trace = record(&loadable, config, folder.path());
        play(&trace, config).unwrap_or_else(|failure| panic!("{name}: {failure}"));
    }
}
