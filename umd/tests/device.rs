// SPDX-License-Identifier: MIT OR Apache-2.0

//! The built-in model as a device, with the project's own LeNet: it computes, refuses tasks, ends tasks at their time limit, and
//! is then ready for the next network.

mod common;

use std::time::{Duration, Instant};

use nvdla_runtime::device::{self, Buffers, Device, ModelDevice, Selection};
use nvdla_runtime::loadable::{Interface, Loadable};
use nvdla_runtime::session::{dump_to, Completed, Error, RunOptions, Session};
use nvdla_tests::random::Random;
use nvdla_uapi::config::{NV_LARGE, NV_SMALL};

fn lenet() -> Vec<u8> {
    std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/lenet/lenet.nv_small.nvdla")).unwrap()
}

/// An input of the right size, the same each time.
fn input(session: &Session<impl Device>) -> Vec<u8> {
    let size = session.inputs().next().unwrap().size;
    (0..size).map(|at| (at * 37 % 128) as u8).collect()
}

fn run(bytes: Vec<u8>, device: &mut ModelDevice) -> Result<Vec<u8>, Error> {
    let mut session = Session::new(Loadable::from_bytes(bytes).unwrap(), device)?;
    if session.inputs().len() > 0 {
        let input = input(&session);
        session.set_input(0, &input)?;
    }
    session.run_with(RunOptions { timeout: Some(Duration::from_secs(60)), ..Default::default() })?;
    session.output(0).map(<[u8]>::to_vec)
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

/// The range of a blob's bytes in its file.
fn place(file: &[u8], suffix: &str) -> std::ops::Range<usize> {
    let loadable = Loadable::from_bytes(file).unwrap();
    let blob = loadable.blobs().iter().find(|blob| blob.name().ends_with(suffix)).unwrap();
    let start = blob.data().as_ptr() as usize - loadable.as_bytes().as_ptr() as usize;
    start..start + blob.data().len()
}

#[test]
fn one_device_runs_one_network_after_another() {
    let mut device = ModelDevice::new(&NV_SMALL);
    let first = run(lenet(), &mut device).unwrap();
    assert!(first.iter().any(|&byte| byte != 0));
    assert_eq!(run(lenet(), &mut device).unwrap(), first);
}

#[test]
fn a_session_runs_again_and_again() {
    let mut session = Session::new(Loadable::from_bytes(lenet()).unwrap(), ModelDevice::new(&NV_SMALL)).unwrap();
    let input = input(&session);
    let mut outputs = Vec::new();
    for shift in [0, 1, 0] {
        let shifted: Vec<u8> = input.iter().map(|byte| byte / (1 + shift)).collect();
        session.set_input(0, &shifted).unwrap();
        let report = session.run().unwrap();
        assert!(report.tasks.iter().all(|task| task.operations > 0));
        outputs.push(session.output(0).unwrap().to_vec());
    }
    assert_eq!(outputs[0], outputs[2]);
    assert_ne!(outputs[0], outputs[1]);
}

#[test]
fn the_model_of_the_right_configuration_is_chosen() {
    let loadable = Loadable::from_bytes(lenet()).unwrap();
    let opened = device::open(&Selection::Model(None), &loadable).unwrap();
    assert_eq!(opened.device.info().config.map(|config| config.name), Some("nv_small"));
    assert!(opened.reason.starts_with("the loadable is for nv_small ("), "{}", opened.reason);
    let large = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/lenet/lenet.nv_large.nvdla");
    let opened = device::open(&Selection::Model(None), &Loadable::open(large).unwrap()).unwrap();
    assert_eq!(opened.device.info().config.map(|config| config.name), Some("nv_large"));
    let error = device::open(&Selection::Path("/dev/null".into()), &loadable).unwrap_err();
    assert!(chain(&error).starts_with("DRM_IOCTL_VERSION on /dev/null failed: "), "{}", chain(&error));
}

#[test]
fn a_loadable_for_another_configuration_is_refused() {
    let error = run(lenet(), &mut ModelDevice::new(&NV_LARGE)).unwrap_err();
    let text = chain(&error);
    assert!(text.starts_with("task 0 failed: the task is refused: operation "), "{text}");
}

#[test]
fn a_device_that_never_answers_is_given_up_at_the_deadline() {
    let mut device = ModelDevice::new(&NV_SMALL);
    let expected = run(lenet(), &mut device).unwrap();
    device.set_mute(true);
    let started = Instant::now();
    let mut session = Session::new(Loadable::from_bytes(lenet()).unwrap(), &mut device).unwrap();
    let timeout = Some(Duration::from_millis(100));
    let error = session.run_with(RunOptions { timeout, ..Default::default() }).unwrap_err();
    drop(session);
    let text = chain(&error);
    assert!(text.contains("did not end within 100ms"), "{text}");
    assert!(text.contains("operation 0 (CONV, group 0) was running, and its interrupt did not come"), "{text}");
    assert!((Duration::from_millis(100)..Duration::from_secs(20)).contains(&started.elapsed()));
    // Without a deadline, the device is not waited for once it is idle.
    assert!(chain(&Session::new(Loadable::from_bytes(lenet()).unwrap(), &mut device).unwrap().run().unwrap_err())
        .contains("the device is idle, but the task has not ended"));
    device.set_mute(false);
    assert_eq!(run(lenet(), &mut device).unwrap(), expected);
}

#[test]
fn a_surface_outside_its_memory_is_refused_and_the_next_network_runs() {
    let mut device = ModelDevice::new(&NV_SMALL);
    let expected = run(lenet(), &mut device).unwrap();
    let mut broken = lenet();
    // The offset of the destination (second cube) of the third operation's surfaces.
    let surfaces = place(&broken, "surf_list");
    let offset = surfaces.start + 2 * 644 + 32 + 4;
    broken[offset..offset + 4].copy_from_slice(&0x00ff_ff00_u32.to_le_bytes());
    let text = chain(&run(broken, &mut device).unwrap_err());
    assert!(text.contains("operation 2 (PDP): dst_data is bytes 0xffff00..0x1000c80 of address list entry"), "{text}");
    assert_eq!(run(lenet(), &mut device).unwrap(), expected);
}

#[test]
fn each_operation_s_surface_is_saved() {
    let folder = std::env::temp_dir().join(format!("nvdla-dump-{}", std::process::id()));
    let mut session = Session::new(Loadable::from_bytes(lenet()).unwrap(), ModelDevice::new(&NV_SMALL)).unwrap();
    let operations = session.operations();
    let mut dump = dump_to(&folder).unwrap();
    let mut seen = Vec::new();
    let mut on_operation = |completed: Completed<'_>| {
        seen.push(completed.operation);
        dump(completed)
    };
    session.run_with(RunOptions { on_operation: Some(&mut on_operation), ..Default::default() }).unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (0..operations).collect::<Vec<_>>());
    let mut files: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    files.sort();
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(files.contains(&"op_t0_002_PDP.bin".to_owned()), "{files:?}");
    assert!(files.iter().any(|file| file.ends_with("_SDP.bin")), "{files:?}");
    assert!(!files.contains(&"op_t0_001_SDP.bin".to_owned()), "the pooling takes it on the fly: {files:?}");
    assert!(!files.iter().any(|file| file.ends_with("_CONV.bin")), "a convolution writes to no memory: {files:?}");
}

#[test]
fn descriptors_with_flipped_bits_do_no_harm() {
    let file = lenet();
    let mut device = ModelDevice::new(&NV_SMALL);
    let expected = run(file.clone(), &mut device).unwrap();
    let lists = ["addr0", "dep_graph", "op_list", "surf_list"].map(|suffix| place(&file, suffix));
    let mut random = Random::new(1);
    let (mut refused, mut ran, mut stopped) = (0, 0, 0);
    for round in 0..1500 {
        let list = lists[round % lists.len()].clone();
        let mut broken = file.clone();
        broken[list.start + random.below(list.len())] ^= 1 << random.below(8);
        match run(broken, &mut device) {
            Ok(_) => ran += 1,
            Err(error) => {
                let text = chain(&error);
                // What the scheduler accepts may be meaningless, but it stays within the task's memory.
                assert!(!text.contains("outside the memory it was given"), "{text}");
                if text.contains("refused") || !text.contains("failed") {
                    refused += 1;
                } else {
                    stopped += 1;
                }
            }
        }
        if round % 100 == 0 {
            assert_eq!(run(file.clone(), &mut device).unwrap(), expected, "after round {round}");
        }
    }
    eprintln!("{refused} refused, {ran} ran, {stopped} stopped on the device");
    assert!(refused > 0 && ran > 0);
}

/// The same for loadables of every unit and configuration, of which the small ones are quickest.
#[test]
fn reference_descriptors_with_flipped_bits_do_no_harm() {
    const SMALL: usize = 48 << 10;
    const ROUNDS: usize = 8;
    let Some(reference) = common::reference() else { return };
    let (mut files, mut refused, mut ran, mut random) = (0, 0, 0, Random::new(2));
    for path in ["loadables", "regression"].into_iter().flat_map(|set| common::loadables(reference.join(set))) {
        let file = std::fs::read(&path).unwrap();
        if file.len() > SMALL {
            continue;
        }
        files += 1;
        let loadable = Loadable::from_bytes(&file[..]).unwrap();
        let lists: Vec<_> = loadable
            .blobs()
            .iter()
            .filter(|blob| blob.interface() != Interface::None || blob.sub_interface() != 0)
            .map(|blob| place(&file, blob.name()))
            .collect();
        let mut device = ModelDevice::new(device::recognise(&loadable).config);
        let expected = run(file.clone(), &mut device).unwrap();
        for round in 0..ROUNDS {
            let mut broken = file.clone();
            for _ in 0..=random.below(2) {
                let list = lists[round % lists.len()].clone();
                broken[list.start + random.below(list.len())] ^= 1 << random.below(8);
            }
            match run(broken, &mut device) {
                Ok(_) => ran += 1,
                Err(error) => {
                    let text = chain(&error);
                    assert!(!text.contains("outside the memory it was given"), "{}: {text}", path.display());
                    refused += 1;
                }
            }
        }
        assert_eq!(run(file, &mut device).unwrap(), expected, "{}", path.display());
    }
    eprintln!("{files} loadables: {refused} refused or stopped, {ran} ran");
    assert!(files > 50 && refused > 0 && ran > 0);
}

#[test]
fn buffers_are_zero_and_come_and_go() {
    let mut device = ModelDevice::new(&NV_SMALL);
    let buffer = device.allocate(5000).unwrap();
    assert_eq!(device.bytes(buffer), vec![0; 5000]);
    device.bytes_mut(buffer).fill(1);
    device.free(buffer);
    assert!(device.bytes(buffer).is_empty());
    let again = device.allocate(10).unwrap();
    assert_eq!(device.bytes(again), [0; 10]);
    assert!(device.allocate(0).is_err());
    assert!(matches!(device.allocate_sram(4096), Ok(None)), "nv_small has no secondary memory interface");
    // nv_small's addresses have 32 bits.
    let error = device.allocate(1 << 32).unwrap_err();
    assert_eq!(error.to_string(), "cannot allocate 4294967296 bytes on the built-in model of nv_small");
}
