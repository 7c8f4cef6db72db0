// SPDX-License-Identifier: MIT OR Apache-2.0

//! Divides a network between NVDLA and the processor.
//!
//! ```text
//! survey (the nodes of the file, and why some cannot be read)
//!   levels    groups of nodes that can each run as one
//!   extract   a group as a network of its own
//!   compile   the network's loadable; nodes for which that fails are refused, and the groups are made anew
//!   cost      groups that the processor computes sooner are dropped
//!   picture   a page that shows who runs what
//! ```
//!
//! Every group of the result is compiled, so nothing fails later. Every node that is in no group has a reason.
//!
//! ```no_run
//! use std::path::Path;
//! use nvdla_compiler::compiler::Compiler;
//! use nvdla_compiler::import::model::Options;
//! use nvdla_compiler::partition::{partition, survey, Limits};
//! use nvdla_uapi::config::Config;
//! use nvdla_uapi::reg::values::Precision;
//!
//! let config = Config::by_name("nv_full").ok_or("no such configuration")?;
//! let survey = survey(Path::new("model.onnx"), &Options::default())?;
//! let division = partition(&survey, &Compiler::new(config).precision(Precision::Fp16), &Limits::default());
//! for group in &division.groups {
//!     println!("{} nodes, {} bytes", group.nodes.len(), group.loadable.len());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod cost;
mod extract;
mod group;
mod infinite;
mod levels;
mod open;
pub mod picture;
mod trial;

use std::collections::{HashMap, HashSet};

use crate::compiler::Compiler;
use crate::passes::batch;
use crate::survey::{Role, Survey};
pub use cost::{Estimate, Machine};
pub use extract::Bound;
use extract::{extract, Failure, Piece};
pub use group::{Group, Partition};
use levels::Vertex;
pub use open::survey;
use trial::{Success, Trial, Tried};

/// What makes a group worth its submission.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The least number of nodes of a group that compute something. 0: each group that can be compiled, whatever its time.
    pub min_nodes: usize,
    /// The greatest number of groups; those that gain least are dropped.
    pub max_partitions: usize,
    /// The speeds with which times are estimated.
    pub machine: Machine,
}

impl Default for Limits {
    fn default() -> Self {
        Self { min_nodes: 1, max_partitions: 16, machine: Machine::default() }
    }
}

/// The greatest number of groups that are compiled without success before all failing groups are left to the processor.
const MAX_FAILURES: usize = 64;

/// Divides a network.
pub fn partition(survey: &Survey, compiler: &Compiler, limits: &Limits) -> Partition {
    let mut division = Division::new(survey, compiler);
    let warnings: Vec<String> = trial::warning(survey, compiler).into_iter().collect();
    if let Some(warning) = warnings.first() {
        let all: Vec<usize> = (0..survey.nodes.len()).collect();
        division.refuse(&all, warning);
        return Partition { groups: Vec::new(), reasons: division.reasons, warnings };
    }
    let mut compiled: HashMap<Vec<usize>, Tried> = HashMap::new();
    let mut failures = 0;
    let kept = loop {
        // First all nodes that the configuration does not map, which is known at once.
        let groups = loop {
            let (groups, failed) = division.groups();
            if failed.is_empty() {
                break groups;
            }
            division.fail(failed);
        };
        let mut failed = Vec::new();
        for nodes in &groups {
            let Some(Ok(piece)) = division.pieces.get(nodes) else { continue };
            let tried = compiled.entry(nodes.clone()).or_insert_with(|| division.trial.run(nodes, piece));
            if let Err(failure) = tried {
                failures += 1;
                let mut failure = failure.clone();
                if failures > MAX_FAILURES {
                    failure.nodes = Vec::new();
                }
                failed.push((nodes.clone(), failure));
            }
        }
        if failed.is_empty() {
            failed = division.unprofitable(&groups, &compiled, limits);
        }
        if failed.is_empty() {
            break groups;
        }
        division.fail(failed);
    };
    let mut groups = Vec::new();
    for nodes in kept {
        let (Some(Ok(piece)), Some(Ok(success))) = (division.pieces.remove(&nodes), compiled.remove(&nodes)) else {
            continue;
        };
        groups.push(group_of(nodes, piece, success, limits));
    }
    let mut partition = Partition { groups, reasons: division.reasons, warnings };
    partition.explain(survey);
    partition
}

/// Compiles some nodes as one group, for a framework that cannot run a group of [`partition`] as one. Between two of them must be no
/// path through another node.
///
/// # Errors
///
/// If they are no network that the configuration computes.
pub fn group(survey: &Survey, compiler: &Compiler, limits: &Limits, nodes: &[usize]) -> Result<Group, String> {
    let division = Division::new(survey, compiler);
    let made = extract(survey, nodes, &division.read_outside(nodes)).and_then(|piece| {
        division.trial.check(nodes, &piece)?;
        let success = division.trial.run(nodes, &piece)?;
        Ok(group_of(nodes.to_vec(), piece, success, limits))
    });
    made.map_err(|Failure { nodes, reason }| nodes.into_iter().next().map_or(reason, |(_, reason)| reason))
}

fn group_of(nodes: Vec<usize>, piece: Piece, success: Success, limits: &Limits) -> Group {
    let estimate = Estimate::new(&piece.model.graph, success.report.cycles, &limits.machine);
    let pictures = batch::picture(&piece.model.graph).map_or(1, |(_, pictures)| pictures as usize);
    let Piece { inputs, outputs, .. } = piece;
    Group { nodes, inputs, outputs, loadable: success.loadable, report: success.report, pictures, estimate }
}

/// The state of a division.
struct Division<'a> {
    survey: &'a Survey,
    trial: Trial<'a>,
    vertices: Vec<Vertex>,
    /// Nodes that no group may have.
    refused: Vec<bool>,
    reasons: Vec<Option<String>>,
    /// Groups as networks that the configuration maps, as far as they were tried.
    pieces: HashMap<Vec<usize>, Result<Piece, Failure>>,
}

/// Groups, each with the reason why it is none.
type Failed = Vec<(Vec<usize>, Failure)>;

impl<'a> Division<'a> {
    fn new(survey: &'a Survey, compiler: &'a Compiler) -> Self {
        let makers = survey.makers();
        let outside: HashSet<&str> = survey.outputs.iter().map(String::as_str).collect();
        let mut vertices: Vec<Vertex> = Vec::with_capacity(survey.nodes.len());
        for (k, node) in survey.nodes.iter().enumerate() {
            let mut before: Vec<usize> =
                node.inputs.iter().filter_map(|name| makers.get(name.as_str()).copied()).collect();
            before.sort_unstable();
            before.dedup();
            for &other in &before {
                vertices[other].after.push(k);
            }
            let outside = node.outputs.iter().any(|name| outside.contains(name.as_str()));
            vertices.push(Vertex { before, after: Vec::new(), outside, role: node.role });
        }
        let reasons: Vec<_> = survey.nodes.iter().map(|node| node.refusal.clone()).collect();
        let refused = reasons.iter().map(Option::is_some).collect();
        let trial = Trial::new(survey, compiler);
        let mut division = Self { survey, trial, vertices, refused, reasons, pieces: HashMap::new() };
        for (k, name) in infinite::readers(survey) {
            division.refuse(
                &[k],
                &format!("{name:?} may hold what is no finite number, which NVDLA does not compute with"),
            );
        }
        division
    }

    fn refuse(&mut self, nodes: &[usize], reason: &str) {
        for &k in nodes {
            self.refused[k] = true;
            self.reasons[k].get_or_insert_with(|| reason.to_owned());
        }
    }

    /// Refuses the nodes of failures, or whole groups.
    fn fail(&mut self, failed: Failed) {
        for (group, Failure { nodes, reason }) in failed {
            if nodes.is_empty() {
                self.refuse(&group, &reason);
            }
            for (k, reason) in nodes {
                self.refuse(&[k], &reason);
            }
        }
    }

    /// The groups, and the failures of those that are no network or that the configuration does not map.
    fn groups(&mut self) -> (Vec<Vec<usize>>, Failed) {
        let numbers = levels::groups(&self.vertices, &self.refused);
        let mut groups = vec![Vec::new(); numbers.iter().flatten().max().map_or(0, |most| most + 1)];
        numbers.iter().enumerate().for_each(|(k, number)| number.iter().for_each(|&number| groups[number].push(k)));
        let mut failed = Vec::new();
        for nodes in &groups {
            if !self.pieces.contains_key(nodes) {
                let piece = extract(self.survey, nodes, &self.read_outside(nodes));
                let piece = piece.and_then(|piece| {
                    self.trial.leave(nodes, &piece)?;
                    self.trial.check(nodes, &piece)?;
                    Ok(piece)
                });
                self.pieces.insert(nodes.clone(), piece);
            }
            if let Some(Err(failure)) = self.pieces.get(nodes) {
                failed.push((nodes.clone(), failure.clone()));
            }
        }
        (groups, failed)
    }

    /// The tensors of a group that nodes outside it or the user read.
    fn read_outside(&self, group: &[usize]) -> HashSet<&'a str> {
        let inside: HashSet<usize> = group.iter().copied().collect();
        let others = self.survey.nodes.iter().enumerate().filter(|(k, _)| !inside.contains(k)).map(|(_, node)| node);
        others.flat_map(|node| &node.inputs).chain(&self.survey.outputs).map(String::as_str).collect()
    }

    /// The groups that are too small, that gain nothing, or that are too many.
    fn unprofitable(&self, groups: &[Vec<usize>], compiled: &HashMap<Vec<usize>, Tried>, limits: &Limits) -> Failed {
        let all = |reason: String| Failure { nodes: Vec::new(), reason };
        let mut dropped = Vec::new();
        let mut gains = Vec::new();
        for nodes in groups {
            let (Some(Ok(piece)), Some(Ok(success))) = (self.pieces.get(nodes), compiled.get(nodes)) else { continue };
            let estimate = Estimate::new(&piece.model.graph, success.report.cycles, &limits.machine);
            let count = nodes.iter().filter(|&&k| self.survey.nodes[k].role == Role::Compute).count();
            if count < limits.min_nodes {
                let reason = format!("its group has {count} nodes, fewer than {}", limits.min_nodes);
                dropped.push((nodes.clone(), all(reason)));
            } else if limits.min_nodes > 0 && estimate.gain() <= 0.0 {
                let Estimate { nvdla, handover, processor } = estimate;
                let [nvdla, handover, processor] = [nvdla, handover, processor].map(|seconds| seconds * 1e6);
                let reason = format!(
                    "its group gains nothing: about {nvdla:.0} us on NVDLA and {handover:.0} us to hand over, \
                     {processor:.0} us on the processor"
                );
                dropped.push((nodes.clone(), all(reason)));
            } else {
                gains.push((estimate.gain(), nodes));
            }
        }
        // Groups join when others are dropped, so one rule is applied at a time.
        if dropped.is_empty() && gains.len() > limits.max_partitions {
            gains.sort_by(|a, b| b.0.total_cmp(&a.0));
            let count = gains.len();
            let reason = format!("its group gains least, and {count} groups are more than {}", limits.max_partitions);
            let least = &gains[limits.max_partitions..];
            dropped.extend(least.iter().map(|(_, nodes)| ((*nodes).clone(), all(reason.clone()))));
        }
        dropped
    }
}

impl Partition {
    /// Gives each node that is in no group and has no reason one: constants and conversions.
    fn explain(&mut self, survey: &Survey) {
        let inside: HashSet<usize> = self.groups.iter().flat_map(|group| &group.nodes).copied().collect();
        for (k, reason) in self.reasons.iter_mut().enumerate() {
            if inside.contains(&k) {
                *reason = None;
            } else if reason.is_none() {
                *reason = Some(match survey.nodes[k].role {
                    Role::Constant => "it is constant, and not all of its readers are in one group".to_owned(),
                    _ => "it converts between processors, and no operator of a group goes with it".to_owned(),
                });
            }
        }
    }
}
