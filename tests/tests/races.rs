// SPDX-License-Identifier: MIT OR Apache-2.0

//! A loadable of the reference data with operations that race: with the edges that its dependency graph lacks, the
//! result is the reference's.

use nvdla_runtime::device::ModelDevice;
use nvdla_runtime::loadable::{Interface, Loadable};
use nvdla_runtime::session::Session;
use nvdla_tests::reference;
use nvdla_uapi::config::NV_SMALL;
use nvdla_uapi::desc::{CommonOp, Consumer, Descriptor, Event, Network, Wire};

/// The missing edges: the operation, and the operation that must wait for its completion.
const EDGES: [(usize, usize); 3] = [(14, 16), (26, 28), (64, 66)];

/// Where in the file the memory of an entry of the task's address list has its first blob.
fn place(loadable: &Loadable, entry: usize) -> usize {
    let task = loadable.tasks().iter().find(|task| task.interface() == Interface::Dla1).unwrap();
    let address = loadable.address(task.address_list().iter().nth(entry).unwrap()).unwrap();
    let memory = loadable.memory(address.mem_id()).unwrap();
    let found = loadable.contents(memory).find(|&(_, offset)| offset == address.offset());
    let (blob, _) = found.expect("a blob at the entry's offset");
    blob.data().as_ptr() as usize - loadable.as_bytes().as_ptr() as usize
}

#[test]
fn with_its_edges_the_racing_network_gives_the_reference_s_result() {
    let Some(reference) = reference::folder() else { return };
    let folder = reference.join("loadables-2/tiny_xception.nv_small.int8.per-filter");
    let loadable = Loadable::open(folder.join("net.nvdla")).unwrap();
    let mut bytes = loadable.as_bytes().to_vec();
    let network = Network::parse(&bytes[place(&loadable, 0)..]).unwrap();
    let graph = place(&loadable, network.dependency_graph_index as usize);
    for (from, to) in EDGES {
        let [from_at, to_at] = [from, to].map(|index| graph + index * CommonOp::SIZE);
        let mut waits = CommonOp::parse(&bytes[to_at..]).unwrap();
        waits.dependency_count += 1;
        waits.write(&mut bytes[to_at..]).unwrap();
        let mut tells = CommonOp::parse(&bytes[from_at..]).unwrap();
        let slot = &mut tells.consumers[waits.op_type as usize];
        assert_eq!(*slot, None, "operation {from} has no SDP operation that waits for it yet");
        *slot = Some(Consumer { index: to as i16, event: Event::OpCompleted });
        tells.write(&mut bytes[from_at..]).unwrap();
    }
    let loadable = Loadable::from_bytes(bytes).unwrap();
    let mut session = Session::new(loadable, ModelDevice::new(&NV_SMALL)).unwrap();
    session.set_input(0, &std::fs::read(folder.join("in0.bin")).unwrap()).unwrap();
    session.run().unwrap();
    let expected = std::fs::read(folder.join("out0-ordered.bin")).unwrap();
    assert!(session.output(0).unwrap() == expected, "the output is not the reference's");
}
