// SPDX-License-Identifier: MIT OR Apache-2.0

//! Random models with operators that are refused are divided between NVDLA and the processor. The groups run on the built-in
//! model, the other nodes in real numbers; the outputs must be near to those of the whole model in real numbers.
//!
//! `NVDLA_GRAPHS` sets how many models are tried, `NVDLA_SEED` the first one's number.

// The module of another crate, in which its items are public.
#[allow(dead_code, unreachable_pub)]
#[path = "../../../tests/src/random.rs"]
mod random;

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use nvdla_compiler::compiler::Compiler;
use nvdla_compiler::float;
use nvdla_compiler::import::model::Options;
use nvdla_compiler::import::onnx::{proto, survey};
use nvdla_compiler::ir::TensorId;
use nvdla_compiler::partition::{partition, picture, Limits, Partition};
use nvdla_compiler::survey::{Survey, Value};
use nvdla_runtime::device::ModelDevice;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::Session;
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};
use nvdla_uapi::reg::values::Precision;
use random::{for_each_graph, Random};

/// Channels, height and width of the tensors.
const SHAPE: [usize; 4] = [1, 8, 6, 6];
/// The operator that no reader knows: half of its input.
const REFUSED: &str = "Half";

/// Numbers from -`factor` to `factor`.
fn reals(random: &mut Random, count: usize, factor: f32) -> Vec<f32> {
    (0..count).map(|_| random.real() * factor).collect()
}

fn info(name: &str, shape: &[usize]) -> proto::ValueInfo {
    let dim = shape.iter().map(|&extent| proto::Dimension { dim_value: Some(extent as i64), ..Default::default() });
    let tensor = proto::TensorType { elem_type: 1, shape: Some(proto::Shape { dim: dim.collect() }) };
    proto::ValueInfo { name: name.to_owned(), r#type: Some(proto::Type { tensor_type: Some(tensor) }) }
}

fn ints(name: &str, ints: &[i64]) -> proto::Attribute {
    proto::Attribute { name: name.to_owned(), ints: ints.to_vec(), ..Default::default() }
}

struct Builder {
    graph: proto::Graph,
    random: Random,
    known: Vec<String>,
}

impl Builder {
    fn constant(&mut self, shape: &[usize], factor: f32) -> String {
        let name = format!("w{}", self.graph.initializer.len());
        let float_data = reals(&mut self.random, shape.iter().product(), factor);
        let dims = shape.iter().map(|&extent| extent as i64).collect();
        self.graph.initializer.push(proto::Tensor {
            name: name.clone(),
            dims,
            data_type: 1,
            float_data,
            ..Default::default()
        });
        name
    }

    fn node(&mut self, op: &str, inputs: &[&str], attribute: Vec<proto::Attribute>, shape: &[usize]) -> String {
        let output = format!("t{}", self.graph.node.len());
        self.graph.node.push(proto::Node {
            input: inputs.iter().map(|&name| name.to_owned()).collect(),
            output: vec![output.clone()],
            name: format!("{op}{}", self.graph.node.len()),
            op_type: op.to_owned(),
            attribute,
            domain: if op == REFUSED { "test".to_owned() } else { String::new() },
            overload: String::new(),
        });
        self.graph.value_info.push(info(&output, shape));
        output
    }

    fn pick(&mut self) -> String {
        // Late tensors more often, so that graphs are deep.
        let back = self.random.below(self.known.len().min(4));
        self.known[self.known.len() - 1 - back].clone()
    }

    fn step(&mut self) {
        let x = self.pick();
        let [_, channels, height, width] = SHAPE;
        let made = match self.random.below(10) {
            0 | 1 => {
                let weights = self.constant(&[channels, channels, 3, 3], 0.2);
                self.node("Conv", &[&x, &weights], vec![ints("pads", &[1, 1, 1, 1])], &SHAPE)
            }
            2 => self.node("Relu", &[&x], vec![], &SHAPE),
            3 => {
                let y = self.pick();
                self.node("Add", &[&x, &y], vec![], &SHAPE)
            }
            4 => {
                let pads = [ints("kernel_shape", &[3, 3]), ints("pads", &[1, 1, 1, 1])];
                self.node("MaxPool", &[&x], pads.to_vec(), &SHAPE)
            }
            5 => {
                let y = self.pick();
                let axis = proto::Attribute { name: "axis".to_owned(), i: 1, ..Default::default() };
                let joined = self.node("Concat", &[&x, &y], vec![axis], &[1, 2 * channels, height, width]);
                let weights = self.constant(&[channels, 2 * channels, 1, 1], 0.4);
                self.node("Conv", &[&joined, &weights], vec![], &SHAPE)
            }
            // nv_small has no lookup tables, so that it refuses this.
            6 => self.node("Sigmoid", &[&x], vec![], &SHAPE),
            7 => {
                let last =
                    self.node("Transpose", &[&x], vec![ints("perm", &[0, 2, 3, 1])], &[1, height, width, channels]);
                let factor = self.constant(&[channels], 1.0);
                let scaled = self.node("Mul", &[&last, &factor], vec![], &[1, height, width, channels]);
                self.node("Transpose", &[&scaled], vec![ints("perm", &[0, 3, 1, 2])], &SHAPE)
            }
            8 => self.node("Identity", &[&x], vec![], &SHAPE),
            _ => self.node(REFUSED, &[&x], vec![], &SHAPE),
        };
        self.known.push(made);
    }
}

fn model(seed: u64) -> proto::Model {
    let random = Random::new(seed);
    let graph = proto::Graph { name: "random".to_owned(), input: vec![info("x", &SHAPE)], ..Default::default() };
    let mut builder = Builder { graph, random, known: vec!["x".to_owned()] };
    let steps = 4 + builder.random.below(14);
    (0..steps).for_each(|_| builder.step());
    let Builder { mut graph, mut random, known } = builder;
    let mut outputs = vec![known[known.len() - 1].clone()];
    let more = &known[1 + random.below(known.len() - 1)];
    if random.below(2) == 0 && *more != outputs[0] {
        outputs.push(more.clone());
    }
    graph.output = outputs.iter().map(|name| info(name, &SHAPE)).collect();
    of_graph(graph)
}

fn of_graph(graph: proto::Graph) -> proto::Model {
    let opset_import = vec![proto::OperatorSet { domain: String::new(), version: 17 }];
    proto::Model { graph: Some(graph), opset_import, functions: Vec::new() }
}

/// The groups of a graph in half precision, without a limit of their number of nodes.
fn divided(graph: proto::Graph) -> (Survey, Partition) {
    let survey = survey::of_model(&of_graph(graph), None, &Options::default(), false).unwrap();
    let compiler = Compiler::new(&NV_FULL).precision(Precision::Fp16);
    let division = partition(&survey, &compiler, &Limits { min_nodes: 0, ..Limits::default() });
    (survey, division)
}

fn id(survey: &Survey, name: &str) -> TensorId {
    match survey.values.get(name) {
        Some(Value::Activation(id, None)) => *id,
        other => panic!("\"{name}\" is {other:?}"),
    }
}

/// The values of all tensors, when groups run on the built-in model and the other nodes in real numbers. Each group and node runs
/// when all that it reads is known; groups that depend on each other in a circle never run.
fn run(survey: &Survey, division: &Partition, config: &'static Config, x: &[f32]) -> HashMap<TensorId, Vec<f32>> {
    let mut values: HashMap<TensorId, Vec<f32>> = HashMap::from([(id(survey, "x"), x.to_vec())]);
    let mut in_group = vec![false; survey.nodes.len()];
    for group in &division.groups {
        for &k in &group.nodes {
            assert!(!std::mem::replace(&mut in_group[k], true), "node {k} is in two groups");
        }
    }
    let mut groups: Vec<_> = division.groups.iter().collect();
    let mut nodes: Vec<usize> = (0..survey.nodes.len()).filter(|&k| !in_group[k]).collect();
    while !groups.is_empty() || !nodes.is_empty() {
        let count = groups.len() + nodes.len();
        nodes.retain(|&k| {
            let node = &survey.nodes[k];
            let known = |name: &String| match survey.values.get(name) {
                Some(Value::Activation(id, _)) => values.contains_key(id),
                _ => true,
            };
            if !node.inputs.iter().all(known) {
                return true;
            }
            if node.operator.ends_with(REFUSED) {
                let half = values[&id(survey, &node.inputs[0])].iter().map(|value| value / 2.0).collect();
                values.insert(id(survey, &node.outputs[0]), half);
            }
            for (node, _) in survey.graph.nodes.iter().zip(&survey.origins).filter(|(_, origin)| **origin == k) {
                let of = |&id: &TensorId| {
                    let constant = survey.graph.constant(id).map(|values| &values[..]);
                    (survey.graph.shape(id), constant.unwrap_or_else(|| &values[&id]))
                };
                let inputs: Vec<_> = node.inputs.iter().map(of).collect();
                let output = float::apply(&node.op, &inputs, survey.graph.shape(node.output));
                values.insert(node.output, output);
            }
            false
        });
        groups.retain(|group| {
            if !group.inputs.iter().all(|input| values.contains_key(&id(survey, &input.tensor))) {
                return true;
            }
            let loadable = Loadable::from_bytes(&group.loadable[..]).unwrap();
            let mut session = Session::new(loadable, ModelDevice::new(config)).unwrap();
            for input in &group.inputs {
                let given = &values[&id(survey, &input.tensor)];
                session.set_input_f32(input.index, &input.to_loadable(given)).unwrap();
            }
            session.run().unwrap();
            for output in &group.outputs {
                let found = output.from_loadable(session.output_f32(output.index).unwrap());
                values.insert(id(survey, &output.tensor), found);
            }
            false
        });
        assert!(groups.len() + nodes.len() < count, "groups depend on each other in a circle");
    }
    values
}

/// The ranges of all tensors as a table of scales.
fn table(survey: &Survey, values: &HashMap<TensorId, Vec<f32>>) -> String {
    let mut text = String::from("{");
    for (id, values) in values {
        let (min, max) = values.iter().fold((0f32, 0f32), |(min, max), &value| (min.min(value), max.max(value)));
        let scale = min.abs().max(max).max(1e-6) / 127.0;
        let name = &survey.graph.tensor(*id).name;
        let _ = write!(
            text,
            "{}\"{name}\":{{\"scale\":{scale},\"min\":{min},\"max\":{max}}}",
            if text.len() > 1 { "," } else { "" }
        );
    }
    text + "}"
}

/// Signal to noise in decibels.
fn decibels(found: &[f32], expected: &[f32]) -> f64 {
    let power = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let noise = power(&mut found.iter().zip(expected).map(|(a, b)| f64::from(a - b)));
    10.0 * (power(&mut expected.iter().map(|&value| f64::from(value))) / noise.max(1e-30)).log10()
}

#[test]
fn divided_models_give_the_same_results() {
    let (mut groups, mut both) = (0, 0);
    for_each_graph(40, |seed| {
        let model = model(seed);
        let survey = survey::of_model(&model, None, &Options::default(), false).unwrap();
        let mut random = Random::new(seed | 1 << 40);
        let x = reals(&mut random, SHAPE.iter().product(), 1.0);
        let alone = Partition { reasons: vec![None; survey.nodes.len()], ..Default::default() };
        let expected = run(&survey, &alone, &NV_FULL, &x);
        let (config, precision, least) = match seed % 4 {
            0 => (&NV_FULL, Precision::Fp16, 45.0),
            1 => (&NV_FULL, Precision::Int8, 20.0),
            2 => (&NV_LARGE, Precision::Int8, 20.0),
            _ => (&NV_SMALL, Precision::Int8, 20.0),
        };
        let compiler = Compiler::new(config).precision(precision).table(table(&survey, &expected));
        let limits = Limits { min_nodes: usize::from(seed % 3 == 0), ..Limits::default() };
        let division = partition(&survey, &compiler, &limits);
        let inside: HashSet<usize> = division.groups.iter().flat_map(|group| &group.nodes).copied().collect();
        for (k, (node, reason)) in survey.nodes.iter().zip(&division.reasons).enumerate() {
            assert_eq!(inside.contains(&k), reason.is_none(), "seed {seed}: {} has the reason {reason:?}", node.name);
            assert!(
                !inside.contains(&k) || !node.operator.ends_with(REFUSED),
                "seed {seed}: {} is in a group",
                node.name
            );
        }
        let found = run(&survey, &division, config, &x);
        for output in &survey.outputs {
            let id = id(&survey, output);
            let db = decibels(&found[&id], &expected[&id]);
            assert!(db >= least, "seed {seed}: output \"{output}\" has {db:.1} dB, at least {least} are required");
        }
        assert!(picture::page(&survey, &division).contains(&format!("in {} groups", division.groups.len())));
        let json: serde_json::Value = serde_json::from_str(&picture::json(&survey, &division)).unwrap();
        assert_eq!(json["groups"].as_array().map(Vec::len), Some(division.groups.len()));
        groups += division.groups.len();
        both += usize::from(!division.groups.is_empty() && inside.len() < survey.nodes.len());
    });
    assert!(groups > 0 && both > 0, "no model was divided: {groups} groups, {both} models on both");
}

#[test]
fn a_float_model_in_int8_without_ranges_has_no_group_and_one_warning() {
    let survey = survey::of_model(&model(7), None, &Options::default(), false).unwrap();
    let division = partition(&survey, &Compiler::new(&NV_SMALL), &Limits::default());
    assert!(division.groups.is_empty() && division.reasons.iter().all(Option::is_some));
    assert_eq!(division.warnings.len(), 1);
}

#[test]
fn infinities_stay_on_the_processor() {
    let graph = proto::Graph { name: "mask".to_owned(), input: vec![info("x", &SHAPE)], ..Default::default() };
    let mut b = Builder { graph, random: Random::new(1), known: Vec::new() };
    let weights = b.constant(&[SHAPE[1], SHAPE[1], 3, 3], 0.2);
    let conv = |b: &mut Builder, x: &str| b.node("Conv", &[x, &weights], vec![ints("pads", &[1; 4])], &SHAPE);
    // A mask of infinities, a sum with it, and a softmax, between two convolutions.
    let scores = conv(&mut b, "x");
    b.graph.initializer.push(proto::Tensor {
        name: "mask".to_owned(),
        data_type: 1,
        float_data: vec![f32::NEG_INFINITY],
        ..Default::default()
    });
    let masked = b.node(REFUSED, &[&scores, "mask"], vec![], &SHAPE);
    let sum = b.node("Add", &[&masked, &scores], vec![], &SHAPE);
    let axis = proto::Attribute { name: "axis".to_owned(), i: 1, ..Default::default() };
    let share = b.node("Softmax", &[&sum], vec![axis], &SHAPE);
    let last = conv(&mut b, &share);
    // A limit that limits nothing is no such mask.
    let limited = b.node("Max", &[&last, "mask"], vec![], &SHAPE);
    // A row of the softmax may be no number, and a choice may replace it.
    let zero = b.constant(&[], 0.0);
    let above = b.node("Greater", &[&limited, &zero], vec![], &SHAPE);
    let same = b.node("Identity", &[&share], vec![], &SHAPE);
    let chosen = b.node("Where", &[&above, &zero, &same], vec![], &SHAPE);
    b.graph.output = vec![info(&limited, &SHAPE), info(&chosen, &SHAPE)];
    let (survey, division) = divided(b.graph);
    let on_processor: Vec<&str> = survey
        .nodes
        .iter()
        .zip(&division.reasons)
        .filter(|(_, reason)| reason.is_some())
        .map(|(node, _)| node.operator.as_str())
        .collect();
    assert_eq!(on_processor, ["test.Half", "Add", "Softmax", "Greater", "Identity", "Where"], "{:?}", division.reasons);
    for (number, name) in [(2, masked), (8, same)] {
        let reason = division.reasons[number].as_deref().unwrap_or_default();
        assert_eq!(reason, format!("{name:?} may hold what is no finite number, which NVDLA does not compute with"));
    }
}

/// A softmax as functions write it: half precision has no differences of large numbers, so these are not computed of rounded ones.
#[test]
fn differences_from_the_largest_element_stay_on_the_processor() {
    let graph = proto::Graph { name: "softmax".to_owned(), input: vec![info("x", &SHAPE)], ..Default::default() };
    let mut b = Builder { graph, random: Random::new(1), known: Vec::new() };
    let weights = b.constant(&[SHAPE[1], SHAPE[1], 3, 3], 0.2);
    let mut x = "x".to_owned();
    let row = [SHAPE[0], SHAPE[1], SHAPE[2], 1];
    for _ in 0..2 {
        let largest = b.node("ReduceMax", &[&x], vec![ints("axes", &[-1])], &row);
        let difference = b.node("Sub", &[&x, &largest], vec![], &SHAPE);
        x = b.node("Conv", &[&difference, &weights], vec![ints("pads", &[1; 4])], &SHAPE);
    }
    b.graph.output = vec![info(&x, &SHAPE)];
    let (_, division) = divided(b.graph);
    let groups: Vec<_> = division.groups.iter().map(|group| &group.nodes[..]).collect();
    assert_eq!(groups, [&[0][..], &[2, 3, 4, 5]], "{:?}", division.reasons);
    let reason = division.reasons[1].as_deref().unwrap_or_default();
    assert!(reason.contains("from the largest"), "{reason}");
}

/// The processor runs a softmax in any case: where it is the first of a group, its input need not become half precision.
#[test]
fn a_softmax_at_the_front_stays_on_the_processor() {
    let graph = proto::Graph { name: "softmax".to_owned(), input: vec![info("x", &SHAPE)], ..Default::default() };
    let mut b = Builder { graph, random: Random::new(1), known: Vec::new() };
    let weights = b.constant(&[SHAPE[1], SHAPE[1], 3, 3], 0.2);
    let turned = b.node("Transpose", &["x"], vec![ints("perm", &[0, 1, 3, 2])], &SHAPE);
    let axis = proto::Attribute { name: "axis".to_owned(), i: 1, ..Default::default() };
    let mut x = turned;
    for operator in ["Softmax", "LogSoftmax"] {
        x = b.node(operator, &[&x], vec![axis.clone()], &SHAPE);
    }
    x = b.node("Conv", &[&x, &weights], vec![ints("pads", &[1; 4])], &SHAPE);
    x = b.node("Softmax", &[&x], vec![axis], &SHAPE);
    b.graph.output = vec![info(&x, &SHAPE)];
    let (_, division) = divided(b.graph);
    let groups: Vec<_> = division.groups.iter().map(|group| &group.nodes[..]).collect();
    assert_eq!(groups, [&[0][..], &[3, 4]], "{:?}", division.reasons);
    for number in [1, 2] {
        let reason = division.reasons[number].as_deref().unwrap_or_default();
        assert!(reason.contains("which the processor runs in any case"), "{reason}");
    }
}

/// A model divided for nv_full with a table of its own values, and the values of a tensor, found and expected.
fn divided_with_table(graph: proto::Graph, precision: Precision) -> (Partition, impl Fn(&str) -> [Vec<f32>; 2]) {
    let survey = survey::of_model(&of_graph(graph), None, &Options::default(), false).unwrap();
    let alone = Partition { reasons: vec![None; survey.nodes.len()], ..Default::default() };
    let x = reals(&mut Random::new(2), SHAPE.iter().product(), 1.0);
    let expected = run(&survey, &alone, &NV_FULL, &x);
    let compiler = Compiler::new(&NV_FULL).precision(precision).table(table(&survey, &expected));
    let division = partition(&survey, &compiler, &Limits { min_nodes: 0, ..Limits::default() });
    let found = run(&survey, &division, &NV_FULL, &x);
    (division, move |name: &str| [&found, &expected].map(|values| values[&id(&survey, name)].clone()))
}

/// A detector's distances are the means of distributions. In integers all shares of a softmax would be rounded down, and the means be too
/// small; half precision rounds to the nearest. A softmax at the end stays in its group.
#[test]
fn a_softmax_in_the_middle_of_integers_stays_on_the_processor() {
    for precision in [Precision::Int8, Precision::Fp16] {
        let shape = [1, 16, SHAPE[2], SHAPE[3]];
        let graph = proto::Graph { name: "distances".to_owned(), input: vec![info("x", &SHAPE)], ..Default::default() };
        let mut b = Builder { graph, random: Random::new(1), known: Vec::new() };
        let weights = b.constant(&[16, SHAPE[1], 1, 1], 2.0);
        let logits = b.node("Conv", &["x", &weights], vec![], &shape);
        let axis = || vec![proto::Attribute { name: "axis".to_owned(), i: 1, ..Default::default() }];
        let shares = b.node("Softmax", &[&logits], axis(), &shape);
        let mean = b.constant(&[16, 16, 1, 1], 1.0);
        let means = b.node("Conv", &[&shares, &mean], vec![], &shape);
        let last = b.node("Softmax", &[&means], axis(), &shape);
        b.graph.output = vec![info(&means, &shape), info(&last, &shape)];
        let (division, values) = divided_with_table(b.graph, precision);
        let left: Vec<_> = division.reasons.iter().map(Option::is_some).collect();
        assert_eq!(left, [false, precision == Precision::Int8, false, false], "{:?}", division.reasons);
        let [found, expected] = values(&means);
        let db = decibels(&found, &expected);
        assert!(db > 25.0, "{precision:?}: the means have {db} dB");
    }
}

/// With one scale for boxes and scores the scores would be 0; half precision has none.
#[test]
fn scores_are_joined_with_boxes_on_the_processor() {
    for (precision, count) in [(Precision::Int8, 3), (Precision::Fp16, 4)] {
        let graph = proto::Graph { name: "detector".to_owned(), input: vec![info("x", &SHAPE)], ..Default::default() };
        let mut b = Builder { graph, random: Random::new(1), known: Vec::new() };
        let weights = [(); 2].map(|()| b.constant(&[SHAPE[1], SHAPE[1], 1, 1], 9.0));
        let boxes = b.node("Conv", &["x", &weights[0]], vec![], &SHAPE);
        let logits = b.node("Conv", &["x", &weights[1]], vec![], &SHAPE);
        let scores = b.node("Sigmoid", &[&logits], vec![], &SHAPE);
        let axis = proto::Attribute { name: "axis".to_owned(), i: 1, ..Default::default() };
        let shape = [1, 2 * SHAPE[1], SHAPE[2], SHAPE[3]];
        let joined = b.node("Concat", &[&boxes, &scores], vec![axis], &shape);
        b.graph.output = vec![info(&joined, &shape)];
        let (division, values) = divided_with_table(b.graph, precision);
        let nodes: Vec<usize> = division.groups.iter().flat_map(|group| group.nodes.iter().copied()).collect();
        assert_eq!(nodes.len(), count, "{:?}", division.reasons);
        assert_eq!(division.reasons[3].is_some(), precision == Precision::Int8);
        let [found, expected] = values(&joined);
        let half = found.len() / 2;
        let db = decibels(&found[half..], &expected[half..]);
        assert!(db > 30.0, "{precision:?}: the scores have {db} dB");
    }
}

#[test]
fn limits_drop_groups() {
    let compiler = Compiler::new(&NV_FULL).precision(Precision::Fp16);
    let survey = |seed| survey::of_model(&model(seed), None, &Options::default(), false).unwrap();
    let divide = |survey: &Survey, min_nodes, max_partitions| {
        partition(survey, &compiler, &Limits { min_nodes, max_partitions, ..Limits::default() })
    };
    let survey = (1..100).map(survey).find(|survey| divide(survey, 0, 100).groups.len() > 1).unwrap();
    let of = |min_nodes, max_partitions| divide(&survey, min_nodes, max_partitions);
    assert_eq!(of(0, 1).groups.len(), 1);
    let none = of(100, 100);
    assert!(none.groups.is_empty());
    assert!(none.reasons.iter().flatten().any(|reason| reason.contains("fewer than 100")));
}
