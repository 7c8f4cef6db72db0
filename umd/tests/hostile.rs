// SPDX-License-Identifier: MIT OR Apache-2.0

//! Files that are made to cost time or memory, or to crash the process. Each is refused with a clear error, or runs within its
//! limits.
//!
//! The files are the reference data's `loadables-hostile`, which describes them, and so does `docs/security.md`.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{reference, small, Recorder};
use nvdla_runtime::device::{self, Device, ModelDevice, Selection};
use nvdla_runtime::image::{Encoder, Settings, Target};
use nvdla_runtime::loadable::{write, Loadable, MemoryFlags};
use nvdla_runtime::session::{Direction, Error, RunOptions, Session};
use nvdla_uapi::config::NV_FULL;

/// Bytes that are allocated now, and the maximum so far.
static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The limit for all tests of this file together. The files have at most 0.4 MB.
const MAX_BYTES: usize = 256 << 20;

fn check_memory() {
    let peak = PEAK.load(Ordering::Relaxed);
    assert!(peak < MAX_BYTES, "{peak} bytes at a time");
}

/// A hostile file; none without the reference data.
fn hostile(name: &str) -> Option<PathBuf> {
    Some(reference()?.join("loadables-hostile").join(name).with_extension("nvdla"))
}

/// The error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}

/// A session on the model.
fn session(loadable: Loadable) -> Result<Session, Error> {
    let device = device::open(&Selection::Model(None), &loadable).unwrap().device;
    Session::new(loadable, device)
}

/// Checks that a file is refused when it is opened.
fn refused(name: &str, why: &str) {
    let Some(path) = hostile(name) else { return };
    let error = Loadable::open(path).expect_err("refused").to_string();
    assert_eq!(error, format!("tensor_desc_list, entry {why}"), "{name}");
    check_memory();
}

#[test]
fn channels_max() {
    refused("channels_max", "1, size: 2147483647 x 1 x 1 of FEATURE_X8 needs 2147483647 bytes, the tensor has 16");
}

#[test]
fn hang_dimg() {
    refused(
        "hang-dimg",
        "1, size: 2147483647 x 16 x 16 of FEATURE_X8 needs 549755813632 bytes, the tensor has 4096 for each of its 2",
    );
}

#[test]
fn abort_1018517() {
    refused("abort-1018517", "0, size: 4 x 28 x 28 of A8B8G8R8 with strides of 4294963328 and 0 needs 115964009968 bytes, the tensor has 3584");
}

#[test]
fn lib_out_c_h_max() {
    refused(
        "lib_out_c_h_max",
        "1, size: 2147483647 x 2147483647 x 1 of FEATURE_X8 needs 4611686014132420609 bytes, the tensor has 16",
    );
}

#[test]
fn lib_in_size_0() {
    refused("lib_in_size_0", "0, size: 1 x 28 x 28 of R8 with strides of 32 and 0 needs 892 bytes, the tensor has 0");
}

#[test]
fn lib_in_stride_max() {
    refused(
        "lib_in_stride_max",
        "0, size: 1 x 28 x 28 of R8 with strides of 4294967264 and 0 needs 115964116156 bytes, the tensor has 896",
    );
}

/// The elements of a bound tensor must fit into its bytes. A stride that is not used has no effect.
#[test]
fn shapes_are_checked_against_sizes() {
    let with = |change: &dyn Fn(&mut write::Tensor)| {
        let mut contents = small();
        change(&mut contents.tensors[1]);
        Loadable::from_bytes(contents.to_bytes().unwrap())
    };
    type Change = fn(&mut write::Tensor);
    let cases: [(&str, Change); 5] = [
        ("17 x 1 x 1 of FEATURE_X8 needs 17 bytes, the tensor has 16", |t| t.c = 17),
        ("10 x 2 x 1 of FEATURE_X8 needs 20 bytes, the tensor has 16", |t| t.h = 2),
        ("10 x 1 x 1 of FEATURE_X8 with strides of 8 and 4294967288 needs 4294967290 bytes, the tensor has 16", |t| {
            t.strides[2] = 0xffff_fff8;
        }),
        ("10 x 1 x 1 of FEATURE_X8 needs 10 bytes, the tensor has 8 for each of its 2", |t| t.n = 2),
        ("10 x 1 x 1 of FEATURE_X8 needs 10 bytes, the tensor has 0", |t| t.size = 0),
    ];
    for (why, change) in cases {
        let error = with(&change).expect_err("refused").to_string();
        assert_eq!(error, format!("tensor_desc_list, entry 1, size: {why}"));
    }
    // With one line and one surface these strides are not used.
    let loadable = with(&|t| (t.strides[1], t.strides[2], t.c) = (u32::MAX - 7, u32::MAX - 7, 8)).unwrap();
    let session = Session::new(loadable, Recorder::new()).unwrap();
    assert_eq!(session.output_nchw(0, 1.0).map(|values| values.len()).map_err(|error| chain(&error)), Ok(8));
    check_memory();
}

#[test]
fn submit_100k() {
    let Some(path) = hostile("submit_100k") else { return };
    let loadable = Loadable::open(path).unwrap();
    assert_eq!(loadable.tasks_in_order().count(), 100_000);
    let mut session = session(loadable).unwrap();
    check_memory();
    let run_timeout = Some(Duration::from_millis(50));
    let error = session.run_with(RunOptions { run_timeout, ..Default::default() }).unwrap_err();
    let text = chain(&error);
    assert!(text.starts_with("the run did not end within 50ms: ") && text.ends_with(" of its 100000 tasks had ended"));
    assert!(error.is_timeout());
    check_memory();
}

/// One operation that takes seconds is stopped inside, and the device then runs the next task.
#[test]
fn deadline_680() {
    let Some(path) = hostile("deadline_680") else { return };
    let mut session = session(Loadable::open(path).unwrap()).unwrap();
    let timeout = Duration::from_millis(50);
    for _ in 0..2 {
        let began = Instant::now();
        let error = session.run_with(RunOptions { timeout: Some(timeout), ..Default::default() }).unwrap_err();
        println!("overran by {:?}", began.elapsed().saturating_sub(timeout));
        let text = chain(&error);
        assert!(text.contains("the task did not end within 50ms: the deadline passed after "), "{text}");
        assert!(text.contains("operation 2 (CONV, group 1) was running"), "{text}");
        assert!(error.is_timeout());
    }
    check_memory();
}

#[test]
fn emu_power_endless() {
    let Some(path) = hostile("emu_power_endless") else { return };
    let mut session = session(Loadable::open(path).unwrap()).unwrap();
    let timeout = Some(Duration::from_millis(50));
    let error = chain(&session.run_with(RunOptions { timeout, ..Default::default() }).unwrap_err());
    assert!(error.contains("the emulated task did not end within 50ms: operation 0 (power) was running"), "{error}");
    check_memory();
}

/// A task's name is shown without characters that control a terminal.
#[test]
fn escape() {
    let Some(path) = hostile("escape") else { return };
    let loadable = Loadable::open(path).unwrap();
    let plain = |text: &str| assert!(!text.contains(|letter: char| letter.is_control()), "{text:?}");
    plain(&device::recognise(&loadable).to_string());
    let mut session = session(loadable).unwrap();
    let name = session.inputs().next().unwrap().name.clone();
    assert!(name.contains('\u{1b}'), "{name:?}");
    plain(&session.find(Direction::Input, "none").unwrap_err().to_string());
    plain(&chain(&session.set_input(0, &[]).unwrap_err()));
    let target = Target::from(session.inputs().next().unwrap());
    let picture = nvdla_runtime::image::Picture::new(1, 1, vec![0]).unwrap();
    let encoder = Encoder::new(&target, &Settings::default()).unwrap();
    plain(&encoder.encode(&picture, session.input_mut(0).unwrap()).unwrap_err().to_string());
}

#[test]
fn name_with_equals() {
    let Some(path) = hostile("name_with_equals") else { return };
    let session = session(Loadable::open(path).unwrap()).unwrap();
    let found = |argument| session.find_named(Direction::Input, argument).map_err(|error| error.to_string());
    assert_eq!(found("a=b=file"), Ok((0, "file")));
    assert_eq!(found("a=b=c=d"), Ok((0, "c=d")));
    assert_eq!(found("0=a=b"), Ok((0, "a=b")));
    assert_eq!(found("file"), Ok((0, "file")));
    assert_eq!(found("c=file").unwrap_err(), "there is no input c; the loadable has \"a=b\"");
}

/// If several names match the start of an argument, the longest is used.
#[test]
fn the_longest_name_counts() {
    let mut contents = small();
    contents.memories.push(write::Memory { id: 7, tensor_desc_id: 2, bind_id: 1, ..contents.memories[0].clone() });
    contents.tensors[0].name = "a".into();
    contents.tensors.push(write::Tensor { id: 2, name: "a=b".into(), mem_id: 7, ..contents.tensors[0].clone() });
    let loadable = Loadable::from_bytes(contents.to_bytes().unwrap()).unwrap();
    let session = Session::new(loadable, Recorder::new()).unwrap();
    let found = |argument| session.find_named(Direction::Input, argument).unwrap();
    assert_eq!((found("a=file"), found("a=b=file"), found("a=b")), ((0, "file"), (1, "file"), (0, "b")));
}

/// An operation that would write outside the task's buffers is refused by the scheduler, or stopped by the model.
#[test]
fn pdp_parts() {
    let Some(path) = hostile("pdp_parts") else { return };
    let error = chain(&session(Loadable::open(path).unwrap()).unwrap().run().unwrap_err());
    assert!(error.starts_with("task 0 failed: the "), "{error}");
}

/// A blob that fills many memories does not make a small file use much memory.
#[test]
fn a_blob_is_not_copied_again_and_again() {
    let mut contents = small();
    contents.blobs[1].data = vec![0; 1 << 20];
    contents.memories[3].size = 1 << 20;
    let like = contents.memories[3].clone();
    contents.memories.extend((10..90).map(|id| write::Memory { id, ..like.clone() }));
    let error = Loadable::from_bytes(contents.to_bytes().unwrap()).expect_err("refused").to_string();
    assert!(
        error.starts_with("memory_list, entry ") && error.contains(", contents: the memories up to this one"),
        "{error}"
    );
}

/// A memory of the greatest size uses no pages until it is accessed.
#[test]
fn a_large_memory_is_not_touched() {
    let mut contents = small();
    contents.memories.push(write::Memory { id: 9, flags: MemoryFlags::ALLOC, size: 1 << 32, ..Default::default() });
    let loadable = Loadable::from_bytes(contents.to_bytes().unwrap()).unwrap();
    let session = Session::new(loadable, ModelDevice::new(&NV_FULL)).unwrap();
    drop(session);
    check_memory();
}

/// A file that changes after it was opened changes nothing: its bytes are copied.
#[test]
fn a_file_that_is_cut_off_while_it_is_open() {
    let path = std::env::temp_dir().join(format!("nvdla-cut-{}.nvdla", std::process::id()));
    fs::write(&path, small().to_bytes().unwrap()).unwrap();
    let loadable = Loadable::open(&path).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    let names: Vec<_> = loadable.tensors().iter().map(|tensor| tensor.name().to_owned()).collect();
    fs::remove_file(path).unwrap();
    assert_eq!(names, ["data", "prob"]);
}

/// A task that waits for many events and is submitted often is checked once.
#[test]
fn events_times_submissions() {
    let mut contents = small();
    contents.tasks[1].pre_actions = vec![1; 50_000];
    contents.submits[0].task_id = vec![1; 50_000];
    let began = Instant::now();
    let loadable = Loadable::from_bytes(contents.to_bytes().unwrap()).unwrap();
    assert_eq!(Session::new(loadable, Recorder::new()).unwrap().operations(), 0);
    // 2500 million steps would take longer on any machine.
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// A device without its own limit gets the default limit.
#[test]
fn a_run_has_a_limit() {
    assert_eq!(ModelDevice::new(&NV_FULL).time_limit(), Some(device::TIME_LIMIT));
}
