// SPDX-License-Identifier: MIT OR Apache-2.0

//! The order in which the nodes of a file are read.

use std::collections::{HashMap, HashSet};

use super::inline::reads;
use super::proto;

/// The nodes that the outputs need, each after the nodes that it reads. ONNX requires this order in the file; files that violate
/// it are sorted. Nodes that depend on each other in a cycle are an error.
/// `cut` are tensors that are given in place of being computed.
pub(super) fn order(file: &proto::Graph, outputs: &[String], cut: &[String]) -> Result<Vec<usize>, String> {
    let mut producers: HashMap<&str, usize> = HashMap::new();
    for (k, node) in file.node.iter().enumerate() {
        for output in node.output.iter().filter(|output| !output.is_empty()) {
            if producers.insert(output, k).is_some() {
                return Err(format!("two nodes compute {output:?}"));
            }
        }
    }
    for name in cut {
        producers.remove(name.as_str());
    }
    let given: HashSet<&str> = (file.input.iter().map(|input| input.name.as_str()))
        .chain(file.initializer.iter().map(|tensor| tensor.name.as_str()))
        .chain(cut.iter().map(String::as_str))
        .collect();
    // Depth first, with an explicit stack, because a long chain of nodes must not exhaust the thread's stack.
    let reads: Vec<Vec<&str>> = file.node.iter().map(reads).collect();
    let mut state = vec![0u8; file.node.len()];
    let mut order = Vec::new();
    let mut stack: Vec<(usize, usize)> = Vec::new();
    for output in outputs.iter().rev() {
        stack.extend(producers.get(output.as_str()).map(|&k| (k, 0)));
    }
    while let Some((k, next)) = stack.pop() {
        if state[k] == 2 || next == 0 && state[k] == 1 {
            continue;
        }
        state[k] = 1;
        let Some(&input) = reads[k].get(next) else {
            state[k] = 2;
            order.push(k);
            continue;
        };
        stack.push((k, next + 1));
        match producers.get(input) {
            Some(&producer) if state[producer] == 1 => {
                return Err(format!("node {:?} depends on its own output, through {input:?}", file.node[k].name));
            }
            Some(&producer) => stack.push((producer, 0)),
            None if input.is_empty() || given.contains(input) => {}
            None => return Err(format!("no node computes {input:?}, which node {:?} reads", file.node[k].name)),
        }
    }
    // If the file's own order is valid, it is kept, so that names and reports follow the model.
    let mut sorted = order.clone();
    sorted.sort_unstable();
    let position: HashMap<usize, usize> = sorted.iter().enumerate().map(|(at, &k)| (k, at)).collect();
    let producer = |name: &&str| producers.get(name).map(|k| position[k]);
    let behind = |(at, &k): (usize, &usize)| reads[k].iter().filter_map(producer).all(|from| from < at);
    Ok(if sorted.iter().enumerate().all(behind) { sorted } else { order })
}
