// SPDX-License-Identifier: MIT OR Apache-2.0

//! Divides nodes into groups that can each run as one: the groups and the other nodes depend on each other in no circle.
//!
//! A node's level is the largest number of times that a path to it leaves a group for a node that is in none. The nodes of a
//! level that are not refused are a group. A path between two nodes of a level cannot leave the group, because a group behind a
//! refused node has a higher level. No other division into such groups has fewer groups, because the path that gives the
//! highest level needs one group per level.

use crate::survey::Role;

/// A node, with the nodes around it.
#[derive(Clone, Debug)]
pub(super) struct Vertex {
    /// The nodes whose outputs it reads; all are before it.
    pub(super) before: Vec<usize>,
    /// The nodes that read its outputs; all are after it.
    pub(super) after: Vec<usize>,
    /// Whether the network gives an output of it to the user.
    pub(super) outside: bool,
    /// Its role.
    pub(super) role: Role,
}

/// The group of each node, by its number from 0; `None` for nodes in no group. `refused` are nodes that can be in no group.
pub(super) fn groups(vertices: &[Vertex], refused: &[bool]) -> Vec<Option<usize>> {
    let mut refused = refused.to_vec();
    loop {
        let mut levels = levels(vertices, &refused);
        lift(vertices, &refused, &mut levels);
        let lonely: Vec<usize> =
            (0..vertices.len()).filter(|&k| !refused[k] && is_lonely(vertices, &refused, &levels, k)).collect();
        if lonely.is_empty() {
            return numbered(&levels, &refused);
        }
        for k in lonely {
            refused[k] = true;
        }
    }
}

/// The lowest level that each node can have. Refused nodes in front of all groups have -1.
fn levels(vertices: &[Vertex], refused: &[bool]) -> Vec<i64> {
    let mut levels = vec![0; vertices.len()];
    for (k, vertex) in vertices.iter().enumerate() {
        let behind = |&before: &usize| levels[before] + i64::from(refused[before] && !refused[k]);
        let least = if refused[k] { -1 } else { 0 };
        levels[k] = vertex.before.iter().map(behind).fold(least, i64::max);
    }
    levels
}

/// Moves constants and conversions to real numbers to the group that reads them, if it is one.
fn lift(vertices: &[Vertex], refused: &[bool], levels: &mut [i64]) {
    for (k, vertex) in vertices.iter().enumerate().rev() {
        if refused[k] || vertex.outside || !matches!(vertex.role, Role::Constant | Role::Dequantize) {
            continue;
        }
        let Some((&first, rest)) = vertex.after.split_first() else { continue };
        if !refused[first] && rest.iter().all(|&next| !refused[next] && levels[next] == levels[first]) {
            levels[k] = levels[first];
        }
    }
}

/// Whether a node has no use in its group: a constant that is also read elsewhere, or a conversion whose operator is elsewhere.
fn is_lonely(vertices: &[Vertex], refused: &[bool], levels: &[i64], k: usize) -> bool {
    let Vertex { before, after, outside, role } = &vertices[k];
    let inside = |&other: &usize| !refused[other] && levels[other] == levels[k];
    match role {
        Role::Compute => false,
        Role::Constant => *outside || !after.iter().all(inside),
        Role::Dequantize => !after.iter().any(inside),
        // The operator is before it; in front of a group it is the group's first rounding.
        Role::Quantize => {
            let computes = |&other: &usize| inside(&other) && vertices[other].role != Role::Constant;
            !before.iter().any(computes) && !after.iter().any(inside)
        }
    }
}

fn numbered(levels: &[i64], refused: &[bool]) -> Vec<Option<usize>> {
    let mut used: Vec<i64> =
        levels.iter().zip(refused).filter(|(_, refused)| !**refused).map(|(&level, _)| level).collect();
    used.sort_unstable();
    used.dedup();
    let number = |(level, refused): (&i64, &bool)| {
        if *refused {
            None
        } else {
            used.binary_search(level).ok()
        }
    };
    levels.iter().zip(refused).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes by the nodes that they read.
    fn vertices(edges: &[&[usize]]) -> Vec<Vertex> {
        let one = |before: &&[usize]| Vertex {
            before: before.to_vec(),
            after: Vec::new(),
            outside: false,
            role: Role::Compute,
        };
        let mut all: Vec<Vertex> = edges.iter().map(one).collect();
        for (k, before) in edges.iter().enumerate() {
            before.iter().for_each(|&other| all[other].after.push(k));
        }
        all
    }

    #[test]
    fn a_branch_beside_a_refused_node_stays_in_the_first_group() {
        // 0 feeds 1 (refused) and 2; 3 joins both.
        let all = vertices(&[&[], &[0], &[0], &[1, 2]]);
        assert_eq!(groups(&all, &[false, true, false, false]), [Some(0), None, Some(0), Some(1)]);
    }

    #[test]
    fn refused_nodes_in_front_make_no_group() {
        let all = vertices(&[&[], &[0], &[1]]);
        assert_eq!(groups(&all, &[true, false, false]), [None, Some(0), Some(0)]);
    }

    #[test]
    fn conversions_go_with_their_operator() {
        // Quantize, dequantize, refused, quantize, dequantize, operator, and the operator's weights from a dequantize.
        let mut all = vertices(&[&[], &[0], &[1], &[2], &[3], &[4, 6], &[]]);
        // Each node is after those that it reads.
        all.swap(5, 6);
        all[6].before = vec![4, 5];
        all[4].after = vec![6];
        all[5].after = vec![6];
        let roles = [
            Role::Quantize,
            Role::Dequantize,
            Role::Compute,
            Role::Quantize,
            Role::Dequantize,
            Role::Constant,
            Role::Compute,
        ];
        all.iter_mut().zip(roles).for_each(|(vertex, role)| vertex.role = role);
        let mut refused = [false; 7];
        refused[2] = true;
        assert_eq!(groups(&all, &refused), [None, None, None, Some(0), Some(0), Some(0), Some(0)]);
        // Without the last operator all conversions are lonely.
        refused[6] = true;
        assert_eq!(groups(&all, &refused), [None; 7]);
    }
}
