// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sessions on a device that computes nothing: memories that are allocated, filled, bound and relocated, and tasks that are
//! submitted.

mod common;

use common::{small, Recorder, TENSOR};
use nvdla_runtime::device::{Buffers, Handle};
use nvdla_runtime::half::f16;
use nvdla_runtime::loadable::{write, DataType, Loadable, MemoryDomain, MemoryFlags, Version};
use nvdla_runtime::session::{Direction, Error, Session};

fn loadable(contents: &write::Contents) -> Loadable {
    Loadable::from_bytes(contents.to_bytes().unwrap()).unwrap()
}

/// The scores of a softmax over ten channels, of which channel 3 is the largest.
const INPUT: [u8; 16] = [0, 1, 2, 60, 4, 5, 6, 7, 8, 9, 0, 0, 0, 0, 0, 0];

#[test]
fn tasks_run_in_order_and_an_input_gives_an_output() {
    let mut device = Recorder::new();
    let mut session = Session::new(loadable(&small()), &mut device).unwrap();
    assert_eq!(session.inputs().map(|tensor| tensor.name.clone()).collect::<Vec<_>>(), ["data"]);
    session.set_input(0, &INPUT).unwrap();
    let report = session.run().unwrap();
    assert_eq!(report.tasks.iter().map(|task| (task.id, task.operations)).collect::<Vec<_>>(), [(0, 0), (1, 1)]);
    let output = session.output(0).unwrap().to_vec();
    assert_eq!(output.iter().enumerate().max_by_key(|(_, &value)| value as i8).unwrap().0, 3);
    // Another input without loading again; then the first input again.
    let mut other = INPUT;
    other.swap(3, 9);
    session.set_input(0, &other).unwrap();
    session.run().unwrap();
    assert_ne!(session.output(0).unwrap(), output);
    session.set_input(0, &INPUT).unwrap();
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), output);
    drop(session);
    assert_eq!(device.submissions.len(), 3);
    assert_eq!(device.allocated(), 0, "a session frees its buffers");
}

#[test]
fn memories_are_placed_in_sram_until_it_is_full() {
    let mut contents = small();
    for memory in &mut contents.memories {
        memory.domain = MemoryDomain::Sram;
    }
    let mut outputs = Vec::new();
    for (sram, in_sram) in [(0, 0), (TENSOR - 1, 0), (TENSOR, 1), (2 * TENSOR, 2), (1 << 20, 2)] {
        let mut device = Recorder { sram, ..Recorder::new() };
        let mut session = Session::new(loadable(&contents), &mut device).unwrap();
        session.set_input(0, &INPUT).unwrap();
        session.run().unwrap();
        outputs.push(session.output(0).unwrap().to_vec());
        drop(session);
        // Memories 0 and 1 are the input and the output. The others have contents, which may be descriptors.
        let expected: Vec<_> = (0..in_sram).map(Handle::new).collect();
        assert_eq!(device.in_sram, expected, "{sram} bytes of SRAM");
    }
    assert!(outputs.iter().all(|output| *output == outputs[0]));
}

#[test]
fn inputs_are_known_by_bind_id_and_name() {
    let mut contents = small();
    // A second input, which comes first in the memory list's order of bind ids: the softmax reads it.
    contents.memories.push(write::Memory { id: 7, tensor_desc_id: 2, ..contents.memories[0].clone() });
    contents.memories[0].bind_id = 1;
    contents.tensors.push(write::Tensor { id: 2, name: "more".into(), mem_id: 7, ..contents.tensors[0].clone() });
    contents.addresses.push(write::Address { id: 7, mem_id: 7, offset: 0, size: TENSOR });
    contents.tasks[1].address_list[3] = 7;
    let mut device = Recorder::new();
    let mut session = Session::new(loadable(&contents), &mut device).unwrap();
    assert_eq!(session.inputs().map(|tensor| tensor.name.as_str()).collect::<Vec<_>>(), ["more", "data"]);
    assert_eq!(session.find(Direction::Input, "data").unwrap(), 1);
    assert_eq!(session.find(Direction::Input, "0").unwrap(), 0);
    session.set_input(1, &[9; 16]).unwrap();
    session.set_input(0, &INPUT).unwrap();
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap().iter().enumerate().max_by_key(|(_, &value)| value as i8).unwrap().0, 3);
}

#[test]
fn an_address_that_passes_its_memory_s_end_is_clipped() {
    let mut device = Recorder::new();
    Session::new(loadable(&small()), &mut device).unwrap().run().unwrap();
    let sizes: Vec<u64> = device.submissions[0].iter().map(|address| address.size).collect();
    assert_eq!(sizes, [40, TENSOR, TENSOR, 64, 64, 64]);
}

#[test]
fn addresses_may_alias_a_memory_at_an_offset() {
    let mut contents = small();
    contents.addresses[4].mem_id = 3;
    contents.addresses[4].offset = 24;
    contents.tasks[0].address_list[5] = 4;
    // The emulator's network descriptor moves to the old position.
    contents.addresses.push(write::Address { id: 7, mem_id: 4, offset: 0, size: 0 });
    contents.tasks[1].address_list[0] = 7;
    let mut device = Recorder::new();
    Session::new(loadable(&contents), &mut device).unwrap().run().unwrap();
    let (whole, part) = (device.submissions[0][4], device.submissions[0][5]);
    assert_eq!((whole.handle, whole.offset, whole.size), (part.handle, 0, 64));
    assert_eq!((part.offset, part.size), (24, 40));
}

#[test]
fn the_dependency_graph_is_put_back_before_each_run() {
    let mut contents = small();
    contents.blobs[1].data = (0..64).collect();
    let mut network = contents.blobs[0].data.clone();
    network[30..32].copy_from_slice(&1u16.to_le_bytes());
    contents.blobs[0].data = network;
    contents.blobs[1].data[3] = 2;
    contents.memories[3].size = 1024;
    let mut device = Recorder::new();
    device.act = Some(|device| {
        let graph = device.submissions.last().unwrap()[3].handle;
        assert_eq!(device.bytes(graph)[4], 4, "what an earlier run wrote is still there");
        nvdla_runtime::device::Device::bytes_mut(device, graph)[4] = 0;
    });
    let mut session = Session::new(loadable(&contents), &mut device).unwrap();
    session.run().unwrap();
    session.run().unwrap();
}

#[test]
fn strides_that_an_application_changes_reach_the_descriptors() {
    let mut device = Recorder::new();
    let mut session = Session::new(loadable(&small()), &mut device).unwrap();
    session.set_strides(Direction::Input, 0, 16, 32).unwrap();
    let input: Vec<_> =
        session.inputs().map(|tensor| (tensor.line_stride(), tensor.surface_stride(), tensor.size)).collect();
    assert_eq!(input, [(16, 32, 64)]);
    let mut apart = [0; 64];
    apart[..8].copy_from_slice(&INPUT[..8]);
    apart[32..40].copy_from_slice(&INPUT[8..]);
    session.set_input(0, &apart).unwrap();
    session.run().unwrap();
    let moved = session.output(0).unwrap().to_vec();
    session.set_strides(Direction::Input, 0, 8, 8).unwrap();
    session.set_input(0, &INPUT).unwrap();
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), moved);

    let error = session.set_strides(Direction::Input, 0, 8, 4).unwrap_err();
    assert!(matches!(error, Error::Tensor { direction: Direction::Input, index: 0, .. }));
    let error = session.set_strides(Direction::Output, 0, 8, 64).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("the tensor would end at 0x80, its memory has 0x40 bytes"), "{cause}");
}

#[test]
fn an_application_binds_its_own_buffer() {
    let mut device = Recorder::new();
    let mut session = Session::new(loadable(&small()), &mut device).unwrap();
    session.set_input(0, &INPUT).unwrap();
    session.run().unwrap();
    let expected = session.output(0).unwrap().to_vec();
    let buffer = session.allocate(128).unwrap();
    session.buffer_mut(buffer)[..16].copy_from_slice(&INPUT);
    session.bind(Direction::Input, 0, buffer).unwrap();
    let output = session.allocate(TENSOR).unwrap();
    session.bind(Direction::Output, 0, output).unwrap();
    assert_eq!(session.output(0).unwrap(), [0; 16]);
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), expected);
    let small = session.allocate(8).unwrap();
    assert!(session.bind(Direction::Output, 0, small).is_err());
}

#[test]
fn numbers_go_in_and_come_out() {
    let mut device = Recorder::new();
    let mut session = Session::new(loadable(&small()), &mut device).unwrap();
    let scores: Vec<f32> = INPUT[..10].iter().map(|&score| f32::from(score) * 0.1).collect();
    session.set_input_nchw(0, &scores, 0.1).unwrap();
    assert_eq!(session.input_mut(0).unwrap(), INPUT);
    session.run().unwrap();
    let probabilities = session.output_nchw(0, 0.01).unwrap();
    assert_eq!(probabilities.len(), 10);
    assert!(probabilities[3] > 0.9);
}

#[test]
fn half_precision_numbers_pass_unchanged() {
    let mut contents = small();
    for tensor in &mut contents.tensors {
        (tensor.data_type, tensor.c, tensor.strides) = (DataType::Half, 4, [2, 8, 8, 0, 0, 0, 0, 0]);
    }
    let mut device = Recorder::new();
    let mut session = Session::new(loadable(&contents), &mut device).unwrap();
    let numbers = [0x3c00, 0x8001, 0xfc00, 0x7e55].map(f16::from_bits);
    session.set_input_f16(0, &numbers).unwrap();
    assert_eq!(session.input_mut(0).unwrap()[..8], [0x00, 0x3c, 0x01, 0x80, 0x00, 0xfc, 0x55, 0x7e]);
    assert!(matches!(session.set_input_f16(0, &numbers[..3]), Err(Error::Tensor { .. })));
    assert_eq!(session.output_f16(0).unwrap(), [f16::ZERO; 4]);
}

#[test]
fn errors_name_what_they_are_about() {
    let mut device = Recorder::new();
    let mut session = Session::new(loadable(&small()), &mut device).unwrap();
    let cause = |error: Error| {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        [Some(error.to_string()), source].into_iter().flatten().collect::<Vec<_>>().join(": ")
    };
    assert_eq!(cause(session.set_input(0, &[0; 3]).unwrap_err()), "input 0 (\"data\"): it has 16 bytes, 3 were given");
    assert_eq!(cause(session.output(1).unwrap_err()), "there is no output 1; the loadable has \"prob\"");
    assert_eq!(session.find(Direction::Output, "prob").unwrap(), 0);
    assert!(session.find(Direction::Output, "nothing").is_err());
    drop(session);

    let mut contents = small();
    contents.blobs[0].version = Version([0, 13, 0]);
    assert_eq!(
        cause(Session::new(loadable(&contents), &mut device).unwrap_err()),
        "task 0 has Dla1 descriptors of version 0.13.0, which this runtime does not know"
    );
    let mut contents = small();
    contents.memories[3].flags = MemoryFlags(0);
    assert_eq!(
        cause(Session::new(loadable(&contents), &mut device).unwrap_err()),
        "address 3 of task 0 is in memory 3, which the loadable does not allocate"
    );
    let mut contents = small();
    contents.blobs[0].data[30] = 2;
    assert_eq!(
        cause(Session::new(loadable(&contents), &mut device).unwrap_err()),
        "task 0: the dependency graph (address 3) has 64 bytes where 72 are needed"
    );
    let mut contents = small();
    contents.submits.clear();
    assert_eq!(cause(Session::new(loadable(&contents), &mut device).unwrap_err()), "the loadable has no submission");
    device.limit = 16;
    assert_eq!(
        cause(Session::new(loadable(&small()), &mut device).unwrap_err()),
        "memory 0 (64 bytes) cannot be allocated: cannot allocate 64 bytes on the recorder"
    );
    assert_eq!(device.allocated(), 0);
}

#[test]
fn a_session_can_move_to_another_thread() {
    let session = Session::new(loadable(&small()), Recorder::new()).unwrap();
    std::thread::spawn(move || {
        let mut session = session;
        session.run().unwrap();
    })
    .join()
    .unwrap();
}
