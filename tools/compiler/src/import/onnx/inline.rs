// SPDX-License-Identifier: MIT OR Apache-2.0

//! Replaces the calls of a model's own functions by the nodes of these functions, and finds the tensors that a node's subgraphs
//! read.

use std::collections::{HashMap, HashSet};

use prost::Message as _;

use super::proto::{is_standard, Attribute, Function, Graph, Model, Node};
use crate::ir::budget::Budget;

/// The most nodes of a model without calls. Functions that call others could make any number of nodes.
const MAX_NODES: usize = 1 << 18;
/// The most calls inside one another.
const MAX_DEPTH: usize = 64;

/// A function's name: its domain, its operator, and its overload.
type Name<'a> = (&'a str, &'a str, &'a str);

/// Replaces all calls, also those in subgraphs.
pub(super) fn inline(model: &mut Model, budget: &mut Budget) -> Result<(), String> {
    if model.functions.is_empty() {
        return Ok(());
    }
    let functions: HashMap<Name<'_>, &Function> = (model.functions.iter())
        .map(|function| ((plain(&function.domain), function.name.as_str(), function.overload.as_str()), function))
        .collect();
    let Some(graph) = &mut model.graph else { return Ok(()) };
    let mut taken = HashSet::new();
    names(graph, &mut taken);
    let mut inliner = Inliner { functions, taken, nodes: 0, budget };
    inliner.graph(graph, 0)
}

fn plain(domain: &str) -> &str {
    if is_standard(domain) {
        ""
    } else {
        domain
    }
}

/// All names of tensors in a graph.
fn names(graph: &Graph, taken: &mut HashSet<String>) {
    taken.extend(graph.input.iter().map(|input| input.name.clone()));
    taken.extend(graph.initializer.iter().map(|tensor| tensor.name.clone()));
    for node in &graph.node {
        taken.extend(node.output.iter().cloned());
        node.attribute.iter().filter_map(|attribute| attribute.g.as_deref()).for_each(|graph| names(graph, taken));
    }
}

struct Inliner<'a> {
    functions: HashMap<Name<'a>, &'a Function>,
    taken: HashSet<String>,
    nodes: usize,
    budget: &'a mut Budget,
}

impl Inliner<'_> {
    fn graph(&mut self, graph: &mut Graph, depth: usize) -> Result<(), String> {
        let mut nodes = Vec::with_capacity(graph.node.len());
        for node in std::mem::take(&mut graph.node) {
            self.node(node, depth, &mut nodes)?;
        }
        graph.node = nodes;
        Ok(())
    }

    fn node(&mut self, mut node: Node, depth: usize, nodes: &mut Vec<Node>) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(format!("the model has more than {MAX_NODES} nodes once its functions are called"));
        }
        let name = (plain(&node.domain), node.op_type.as_str(), node.overload.as_str());
        let Some(&function) = self.functions.get(&name) else {
            for graph in node.attribute.iter_mut().filter_map(|attribute| attribute.g.as_deref_mut()) {
                self.graph(graph, depth)?;
            }
            nodes.push(node);
            return Ok(());
        };
        if depth == MAX_DEPTH {
            return Err(format!("the function {:?} calls itself, or is in {MAX_DEPTH} other calls", node.op_type));
        }
        let prefix = node.output.iter().find(|name| !name.is_empty()).unwrap_or(&node.name).clone();
        let mut scope: HashMap<String, String> = HashMap::new();
        for (k, input) in function.input.iter().enumerate() {
            scope.insert(input.clone(), node.input.get(k).cloned().unwrap_or_default());
        }
        for (output, outer) in function.output.iter().zip(&node.output).filter(|(_, outer)| !outer.is_empty()) {
            // A function may give back one of its inputs.
            if let Some(input) = scope.get(output).cloned() {
                let (input, output) = (vec![input], vec![outer.clone()]);
                nodes.push(Node { op_type: "Identity".to_owned(), input, output, ..Node::default() });
            } else {
                scope.insert(output.clone(), outer.clone());
            }
        }
        for inner in &function.node {
            self.budget.spend(inner.encoded_len() as u64, 0)?;
            let mut inner = inner.clone();
            self.rename(&mut inner, &mut scope, &prefix);
            attributes(&mut inner, &node, function);
            inner.name = [node.name.as_str(), inner.name.as_str()].join("/");
            self.node(inner, depth + 1, nodes)?;
        }
        Ok(())
    }

    /// Gives the tensors of a function's node the names of a call.
    fn rename(&mut self, node: &mut Node, scope: &mut HashMap<String, String>, prefix: &str) {
        for input in &mut node.input {
            // A name that nothing computes stays, and is refused later.
            if let Some(outer) = scope.get(input.as_str()) {
                input.clone_from(outer);
            }
        }
        for graph in node.attribute.iter_mut().filter_map(|attribute| attribute.g.as_deref_mut()) {
            let mut inner = scope.clone();
            graph.input.iter_mut().for_each(|input| input.name = self.fresh(&input.name, &mut inner, prefix));
            graph.initializer.iter_mut().for_each(|tensor| tensor.name = self.fresh(&tensor.name, &mut inner, prefix));
            graph.node.iter_mut().for_each(|node| self.rename(node, &mut inner, prefix));
            for output in &mut graph.output {
                if let Some(outer) = inner.get(&output.name) {
                    output.name.clone_from(outer);
                }
            }
        }
        for output in node.output.iter_mut().filter(|output| !output.is_empty()) {
            *output = match scope.get(output.as_str()) {
                Some(outer) => outer.clone(),
                None => self.fresh(output, scope, prefix),
            };
        }
    }

    /// A name that no other tensor has.
    fn fresh(&mut self, name: &str, scope: &mut HashMap<String, String>, prefix: &str) -> String {
        let mut fresh = format!("{prefix}/{name}");
        while !self.taken.insert(fresh.clone()) {
            fresh.push('\'');
        }
        scope.insert(name.to_owned(), fresh.clone());
        fresh
    }
}

/// Gives the attributes of a function's node that refer to the function's own attributes the values of a call.
fn attributes(node: &mut Node, call: &Node, function: &Function) {
    let given = |name: &str| {
        let all = call.attribute.iter().chain(&function.attribute_proto);
        all.into_iter().find(|attribute| attribute.name == name).cloned()
    };
    let of = |attribute: Attribute| {
        if attribute.ref_attr_name.is_empty() {
            return Some(attribute);
        }
        Some(Attribute { name: attribute.name, ref_attr_name: String::new(), ..given(&attribute.ref_attr_name)? })
    };
    node.attribute = std::mem::take(&mut node.attribute).into_iter().filter_map(of).collect();
    for graph in node.attribute.iter_mut().filter_map(|attribute| attribute.g.as_deref_mut()) {
        graph.node.iter_mut().for_each(|node| attributes(node, call, function));
    }
}

/// The tensors that a node reads: its inputs, and those around its subgraphs that these read.
pub(super) fn reads(node: &Node) -> Vec<&str> {
    let mut reads: Vec<&str> = node.input.iter().map(String::as_str).collect();
    for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_deref()) {
        let mut own: HashSet<&str> = graph.input.iter().map(|input| input.name.as_str()).collect();
        own.extend(graph.initializer.iter().map(|tensor| tensor.name.as_str()));
        own.extend(graph.node.iter().flat_map(|node| &node.output).map(String::as_str));
        let all = graph.node.iter().flat_map(|node| self::reads(node));
        let all = all.chain(graph.output.iter().map(|output| output.name.as_str()));
        reads.extend(all.filter(|name| !name.is_empty() && !own.contains(name)));
    }
    reads
}

/// The tensors that a node and its subgraphs read, also those of the subgraphs.
pub(super) fn all_reads(node: &Node) -> Vec<&str> {
    let mut reads: Vec<&str> = node.input.iter().map(String::as_str).collect();
    for graph in node.attribute.iter().filter_map(|attribute| attribute.g.as_deref()) {
        reads.extend(graph.node.iter().flat_map(all_reads));
        reads.extend(graph.output.iter().map(|output| output.name.as_str()));
    }
    reads
}
