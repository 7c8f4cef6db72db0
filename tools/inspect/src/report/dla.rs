// SPDX-License-Identifier: MIT OR Apache-2.0

//! A task for NVDLA.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nvdla_runtime::loadable::Loadable;
use nvdla_uapi::desc::{self, CommonOp, Descriptor, OpType, Version, Wire};

use super::contents::{Operation, Task, Wait};
use super::{bytes, operation};

/// Reads the descriptors of `task` into it.
pub(super) fn read(loadable: &Loadable, task: &mut Task) -> Result<(), String> {
    let network = bytes::list(loadable, task, 0, "the network descriptor")?;
    let network = desc::Network::parse(&network.bytes).map_err(|error| error.to_string())?;
    let graph = bytes::list(loadable, task, network.dependency_graph_index.into(), "the dependency graph")?;
    let descriptors = bytes::list(loadable, task, network.operation_desc_index.into(), "the operation list")?;
    let mut surfaces = bytes::list(loadable, task, network.surface_desc_index.into(), "the surface list")?;
    task.descriptors = surfaces.version.to_string();
    if network.num_rois > 1 {
        task.problems.push(format!("{} regions of interest, of which the first is shown", network.num_rois));
    }

    let count = usize::from(network.num_operations);
    let entries = (0..count).map(|index| graph.bytes.get(index * CommonOp::SIZE..).unwrap_or_default());
    let types: Vec<Result<OpType, desc::Error>> = entries.clone().map(CommonOp::peek_op_type).collect();
    upgrade(&types, &mut surfaces, task);

    let mut waits: Vec<Vec<Wait>> = vec![Vec::new(); count];
    for (index, entry) in entries.enumerate() {
        let entry = match CommonOp::parse(entry) {
            Ok(entry) => entry,
            Err(error) => {
                task.problems.push(format!("dependency graph, operation {index}: {error}"));
                continue;
            }
        };
        for consumer in entry.consumers.into_iter().chain([entry.fused_parent]).flatten() {
            let event = format!("{:?}", consumer.event);
            match usize::try_from(consumer.index).ok().and_then(|consumer| waits.get_mut(consumer)) {
                Some(waits) => waits.push(Wait { operation: index, event }),
                None => task.problems.push(format!(
                    "operation {index} has operation {} as a consumer, but there are only {count}",
                    consumer.index
                )),
            }
        }
    }

    let order = order(&waits);
    if order.len() < count {
        task.problems.push(format!("the dependency graph has a cycle among {} operations", count - order.len()));
    }
    let rest: Vec<usize> = (0..count).filter(|index| !order.contains(index)).collect();
    for index in order.into_iter().chain(rest) {
        let waits_for = std::mem::take(&mut waits[index]);
        let base = Operation { index, waits_for, ..Default::default() };
        let operation = match types[index] {
            Ok(op_type) => {
                let descriptor = descriptors.bytes.get(index * desc::Operation::SIZE..).unwrap_or_default();
                let surface = surfaces.bytes.get(index * desc::Surface::SIZE..).unwrap_or_default();
                operation::read(loadable, task, op_type, descriptor, surface, base)
            }
            Err(error) => Operation { unit: "?".to_owned(), problem: Some(error.to_string()), ..base },
        };
        task.operations.push(operation);
    }
    Ok(())
}

/// Converts surfaces of an older interface to the current form.
fn upgrade(types: &[Result<OpType, desc::Error>], surfaces: &mut bytes::List, task: &mut Task) {
    let version = Version { major: surfaces.version.major(), minor: surfaces.version.minor() };
    if !version.is_supported() {
        task.problems.push(format!("descriptors of version {version} are read as those of {}", Version::CURRENT));
    }
    if !version.needs_upgrade() {
        return;
    }
    for (op_type, surface) in types.iter().zip(surfaces.bytes.chunks_exact_mut(desc::Surface::SIZE)) {
        let old = surface.to_vec();
        if let Ok(op_type) = op_type {
            // Both are whole containers, so this cannot fail.
            let _ = desc::upgrade_surface(*op_type, &old, surface);
        }
    }
}

/// The operations in an order in which each comes after those that it waits for, otherwise in the order of the list.
///
/// A fused operation waits until its parent is programmed, and the parent waits until the fused operation is enabled. Of such a
/// pair the parent comes first.
fn order(waits: &[Vec<Wait>]) -> Vec<usize> {
    let mut open: Vec<usize> = vec![0; waits.len()];
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); waits.len()];
    for (index, waits) in waits.iter().enumerate() {
        for wait in waits.iter().filter(|wait| wait.event != format!("{:?}", desc::Event::OpEnabled)) {
            open[index] += 1;
            users[wait.operation].push(index);
        }
    }
    let mut ready: BinaryHeap<Reverse<usize>> =
        (0..waits.len()).filter(|&index| open[index] == 0).map(Reverse).collect();
    let mut order = Vec::new();
    while let Some(Reverse(index)) = ready.pop() {
        order.push(index);
        for &user in &users[index] {
            open[user] -= 1;
            if open[user] == 0 {
                ready.push(Reverse(user));
            }
        }
    }
    order
}
