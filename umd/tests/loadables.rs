// SPDX-License-Identifier: MIT OR Apache-2.0

//! Loadables: those of NVIDIA's compiler open, the error for each broken rule names it, and damaged copies do no harm.

mod common;

use std::fs;

use common::{loadables, reference, small, Recorder};
use nvdla_runtime::device::recognise;
use nvdla_runtime::loadable::{write, Error, EventOp, Interface, Loadable, MemoryFlags, Task, Version};
use nvdla_runtime::session::Session;
use nvdla_tests::random::Random;

#[test]
fn every_reference_loadable_opens() {
    let Some(reference) = reference() else { return };
    let mut files = loadables(reference);
    // The hostile files are refused because of their shapes; see `hostile.rs`.
    files.retain(|path| !path.components().any(|part| part.as_os_str() == "loadables-hostile"));
    assert!(files.len() > 300, "{} loadables", files.len());
    for path in files {
        let loadable = Loadable::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(!loadable.tasks().is_empty());
        assert!(loadable.outputs().len() > 0);
        for memory in loadable.memories().iter() {
            let bytes: u64 = loadable.contents(memory).map(|(blob, _)| blob.data().len() as u64).sum();
            assert!(bytes <= memory.size());
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    let contents = small();
    let loadable = Loadable::from_bytes(contents.to_bytes().unwrap()).unwrap();
    assert_eq!(loadable.version(), Version([0, 7, 0]));
    let task = loadable.task(1).unwrap();
    assert_eq!(task.interface(), Interface::Emu1);
    assert_eq!(task.address_list().iter().collect::<Vec<_>>(), contents.tasks[1].address_list);
    assert_eq!(loadable.tasks_in_order().map(Task::id).collect::<Vec<_>>(), [0, 1]);
    for blob in &contents.blobs {
        assert_eq!(loadable.blob(&blob.name).unwrap().data(), blob.data);
    }
    let tensor = loadable.tensor(1).unwrap();
    assert_eq!((tensor.name(), tensor.c(), tensor.strides()), ("prob", 10, [1, 8, 8, 0, 0, 0, 0, 0]));
    let relocation = loadable.relocations().get(3).unwrap();
    assert_eq!((relocation.offset(), relocation.reloc_type()), (278, 2));
    assert!(loadable.blob("nothing").is_none());
    assert!(loadable.task(9).is_none());
}

/// The error of a loadable that `change` broke.
fn refused(change: impl FnOnce(&mut write::Contents)) -> String {
    let mut contents = small();
    change(&mut contents);
    Loadable::from_bytes(contents.to_bytes().unwrap()).expect_err("refused").to_string()
}

#[test]
fn an_error_names_list_entry_field_and_values() {
    type Change = Box<dyn FnOnce(&mut write::Contents)>;
    let cases: [(&str, Change); 24] = [
        (
            "memory_list, entry 3, contents: there is no blob \"gone\"",
            Box::new(|c| c.memories[3].contents[0].0 = "gone".into()),
        ),
        (
            "memory_list, entry 3, offsets: blob \"dla-lists\" at 0x8 ends at 0x48, the memory has 0x40 bytes",
            Box::new(|c| c.memories[3].contents[0].1 = 8),
        ),
        ("memory_list, entry 2, size: the size is 0", Box::new(|c| c.memories[2].size = 0)),
        (
            "memory_list, entry 1, size: 8589934592 bytes are more than a memory may have (4294967296)",
            Box::new(|c| c.memories[1].size = 1 << 33),
        ),
        (
            "memory_list, entry 1, flags: 4105 is not a value that this field can have",
            Box::new(|c| c.memories[1].flags.0 |= 4096),
        ),
        (
            "memory_list, entry 0, flags: the memory is both an input and an output",
            Box::new(|c| c.memories[0].flags = MemoryFlags(13)),
        ),
        ("memory_list, entry 5, id: id 4 is also that of entry 4", Box::new(|c| c.memories[5].id = 4)),
        (
            "memory_list, entry 5, alignment: 12 is not a valid alignment (a power of two, at most 1048576)",
            Box::new(|c| c.memories[5].alignment = 12),
        ),
        (
            "memory_list, entry 5, domain: 2 is not a value that this field can have",
            Box::new(|c| c.memories[5].domain = 2.into()),
        ),
        (
            "memory_list, entry 0, bind_id: input 1 is out of range: there are 1",
            Box::new(|c| c.memories[0].bind_id = 1),
        ),
        (
            "memory_list, entry 2, bind_id: output 0 is also that of entry 1",
            Box::new(|c| c.memories[2].flags = MemoryFlags(11)),
        ),
        (
            "memory_list, entry 0, tensor_desc_id: tensor_desc_list has no id 7",
            Box::new(|c| c.memories[0].tensor_desc_id = 7),
        ),
        ("tensor_desc_list, entry 1, c: the dimension is -10", Box::new(|c| c.tensors[1].c = -10)),
        (
            "tensor_desc_list, entry 1, size: tensor \"prob\" ends at 0x41, memory 1 has 0x40 bytes",
            Box::new(|c| c.tensors[1].size = 65),
        ),
        ("address_list, entry 6, mem_id: memory_list has no id 99", Box::new(|c| c.addresses[6].mem_id = 99)),
        (
            "address_list, entry 0, offset: the offset ends at 0x41, memory 0 has 0x40 bytes",
            Box::new(|c| c.addresses[0].offset = 65),
        ),
        (
            "event_list, entry 1, op: 2 is not a value that this field can have",
            Box::new(|c| c.events[1].op = EventOp::Other(2)),
        ),
        (
            "event_list, entry 1, val: task 1 waits until event target 0 has the value 2, but no earlier task sets it",
            Box::new(|c| c.events[1].val = 2),
        ),
        (
            "task_list, entry 0, interface: 3 is not a value that this field can have",
            Box::new(|c| c.tasks[0].interface = 3.into()),
        ),
        ("task_list, entry 1, address_list: address_list has no id 77", Box::new(|c| c.tasks[1].address_list.push(77))),
        ("task_list, entry 1, pre_actions: event_list has no id 5", Box::new(|c| c.tasks[1].pre_actions.push(5))),
        (
            "task_list, entry 0, address_list: 6145 addresses, more than the 6144 that a task may have",
            Box::new(|c| c.tasks[0].address_list = vec![0; 6145]),
        ),
        (
            "reloc_list, entry 3, offset: the stride ends at 0x204, memory 6 has 0x200 bytes",
            Box::new(|c| c.relocations[3].offset = 512),
        ),
        ("submit_list, entry 0, task_id: task_list has no id 8", Box::new(|c| c.submits[0].task_id.push(8))),
    ];
    for (expected, change) in cases {
        assert_eq!(refused(change), expected);
    }
    assert_eq!(
        refused(|c| c.blobs[2].name = "dla-lists".into()),
        "blobs, entry 2, name: the name \"dla-lists\" is also that of entry 1"
    );
    assert_eq!(
        refused(|c| c.version = Version([0, 8, 0])),
        "the loadable has format version 0.8.0; this runtime reads 0.7"
    );
}

#[test]
fn what_is_no_loadable_says_so() {
    let error = |bytes: &[u8]| Loadable::from_bytes(bytes).expect_err("refused").to_string();
    assert_eq!(error(b""), "not a loadable: 0 bytes are too few");
    assert!(error(b"P5 28 28 255 and then some")
        .starts_with("not a loadable: no identifier \"NVDA\", and the structure is broken:"));
    assert!(matches!(Loadable::open("/nonexistent/net.nvdla"), Err(Error::Open { .. })));
    let folder = Loadable::open(env!("CARGO_MANIFEST_DIR")).expect_err("refused").to_string();
    assert!(folder.ends_with("is not a regular file"), "{folder}");
    let mut truncated = small().to_bytes().unwrap();
    truncated.truncate(truncated.len() / 2);
    assert!(matches!(Loadable::from_bytes(truncated), Err(Error::Malformed(_) | Error::NotALoadable { .. })));
}

/// Opens a damaged file. If it still opens, reads everything in it and runs it on a device that does nothing.
fn try_it(bytes: Vec<u8>) -> bool {
    let Ok(loadable) = Loadable::from_bytes(bytes) else { return false };
    let root = format!("{:?}", loadable.root().version());
    assert!(!root.is_empty());
    for memory in loadable.memories().iter() {
        for (blob, offset) in loadable.contents(memory) {
            assert!(offset + blob.data().len() as u64 <= memory.size());
        }
    }
    for task in loadable.tasks_in_order() {
        assert!(task.address_list().iter().all(|id| loadable.address(id).is_some()));
    }
    for relocation in loadable.relocations().iter() {
        assert!(loadable.memory(relocation.write_id()).is_some());
    }
    if let Ok(mut session) = Session::new(loadable, Recorder::new()) {
        let _ = session.set_input(0, &[1]);
        let _ = session.run();
        for index in 0..session.outputs().len() {
            session.output(index).unwrap();
            let _ = session.output_nchw(index, 1.0);
        }
    }
    true
}

/// The files that are damaged: our own, and a few small ones of the reference data.
fn sources() -> Vec<Vec<u8>> {
    let mut sources = vec![small().to_bytes().unwrap()];
    if let Some(reference) = reference() {
        for name in [
            "regression/CDP_L0_0_large/loadable.nvdla",
            "regression/PDP_L0_0_small/loadable.nvdla",
            "loadables/lenet.nv_small.int8.b2/net.nvdla",
        ] {
            sources.push(fs::read(reference.join(name)).unwrap());
        }
    }
    sources
}

#[test]
fn truncated_files_are_refused() {
    for (seed, source) in sources().into_iter().enumerate() {
        let mut random = Random::new(seed as u64);
        for _ in 0..1000 {
            let length = random.below(source.len());
            // Padding at a file's end may be missing, and so may a blob that fills no memory.
            try_it(source[..length].to_vec());
        }
    }
}

#[test]
fn files_with_flipped_bits_do_no_harm() {
    let (mut opened, mut tried) = (0, 0);
    for (seed, source) in sources().into_iter().enumerate() {
        let mut random = Random::new(100 + seed as u64);
        // The lists are small and lie together around the blobs, so some of the flipped bits are in the lists.
        for round in 0..4000 {
            let mut broken = source.clone();
            for _ in 0..=random.below(4) {
                let near = 8192.min(broken.len());
                let at = match round % 3 {
                    0 => random.below(broken.len()),
                    1 => random.below(near),
                    _ => broken.len() - 1 - random.below(near),
                };
                broken[at] ^= 1 << random.below(8);
            }
            tried += 1;
            opened += usize::from(try_it(broken));
        }
    }
    eprintln!("{opened} of {tried} files with flipped bits still open");
    assert!(opened > 0 && opened < tried);
}

#[test]
fn the_configuration_is_recognised() {
    let Some(reference) = reference() else { return };
    let mut wrong = Vec::new();
    let (mut count, mut same) = (0, 0);
    for folder in ["loadables", "regression"] {
        for path in loadables(reference.join(folder)) {
            let name = path.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
            let config = match name.split('.').nth(1) {
                Some(config) => config,
                None if name.ends_with("_small") => "nv_small",
                None if name.ends_with("_large") => "nv_large",
                None => "nv_full",
            };
            let recognised = recognise(&Loadable::open(&path).unwrap());
            count += 1;
            // Without a convolution, int8 loadables for nv_full and nv_large are equal.
            let undecided = recognised.why.contains("nothing that only nv_full has") && config == "nv_full";
            same += usize::from(undecided);
            if recognised.config.name != config && !undecided {
                wrong.push(format!("{name}: {recognised}"));
            }
        }
    }
    eprintln!("{count} loadables, {} not recognised, {same} the same for nv_full and nv_large", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
