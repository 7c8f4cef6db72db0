// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;
use crate::float;
use crate::ir::{Op, Quantization, Unary};
use crate::random::Random;

fn value(name: &str, dims: &[i64]) -> proto::ValueInfo {
    let dim = |&extent: &i64| proto::Dimension { dim_value: Some(extent), dim_param: String::new() };
    let shape = Some(proto::Shape { dim: dims.iter().map(dim).collect() });
    let r#type = Some(proto::Type { tensor_type: Some(proto::TensorType { elem_type: 1, shape }) });
    proto::ValueInfo { name: name.into(), r#type }
}

fn tensor(name: &str, dims: &[i64], values: &[f32]) -> proto::Tensor {
    let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    proto::Tensor { dims: dims.into(), data_type: 1, name: name.into(), raw_data: raw.into(), ..Default::default() }
}

fn integers(name: &str, values: &[i64]) -> proto::Tensor {
    let (dims, int64_data) = (vec![values.len() as i64], values.into());
    proto::Tensor { dims, data_type: 7, name: name.into(), int64_data, ..Default::default() }
}

fn node(operator: &str, inputs: &[&str], output: &str) -> proto::Node {
    let input = inputs.iter().map(|&name| name.into()).collect();
    proto::Node {
        op_type: operator.into(),
        input,
        output: vec![output.into()],
        name: output.into(),
        ..Default::default()
    }
}

/// x `[1, 2, 4, 4]` through a convolution and the nodes given after it.
fn model(nodes: Vec<proto::Node>, initializers: Vec<proto::Tensor>, output: &str) -> proto::Model {
    let conv = node("Conv", &["x", "w", "b"], "conv");
    let constants = [tensor("w", &[3, 2, 1, 1], &[1.0; 6]), tensor("b", &[3], &[0.0; 3])];
    let graph = proto::Graph {
        value_info: Vec::new(),
        node: [conv].into_iter().chain(nodes).collect(),
        name: "test".into(),
        initializer: constants.into_iter().chain(initializers).collect(),
        input: vec![value("x", &[1, 2, 4, 4])],
        output: vec![value(output, &[])],
    };
    let opset_import = vec![proto::OperatorSet { domain: String::new(), version: 13 }];
    proto::Model { graph: Some(graph), opset_import, functions: Vec::new() }
}

fn reads(model: &proto::Model) -> Result<Graph, Failure> {
    read(model.encode_to_vec().into(), None, &Options::default())
}

/// A tensor that becomes an input has the shape that the nodes before it give it, or the one that the user gives. If a node before it
/// cannot be read, the user is asked for the shape.
#[test]
fn inputs_inside_a_model_have_their_shapes() {
    let cut = |before: &str, shape: Option<Vec<usize>>| {
        let model = model(vec![node(before, &["conv"], "inner"), node("Relu", &["inner"], "y")], vec![], "y");
        let shapes = shape.map(|shape| ("inner".to_owned(), shape)).into_iter().collect();
        let options = Options { inputs: vec!["inner".into()], shapes, ..Options::default() };
        read(model.encode_to_vec().into(), None, &options)
    };
    let shape = |graph: Graph| graph.shape(graph.inputs[0]).to_vec();
    assert_eq!(shape(cut("Sigmoid", None).unwrap()), [1, 3, 4, 4]);
    assert_eq!(shape(cut("Unknown", Some(vec![1, 3, 2, 2])).unwrap()), [1, 3, 2, 2]);
    let refused = cut("Unknown", None).unwrap_err().to_string();
    assert!(refused.contains("inner") && refused.contains("its shape is not known"), "{refused}");
}

/// Normalisations over channels, planes and groups, with one scale and bias per channel, beside plain loops. A normalisation of groups
/// is also written as one of the instances of a reshaped tensor.
#[test]
fn normalizations_are_arithmetic() {
    let scales = [0.5, -1.0, 2.0, 1.5, 0.25, 1.0];
    let biases = [0.0, 1.0, -2.0, 0.5, 0.0, 3.0];
    let constants = || {
        vec![
            tensor(
                "v",
                &[6, 3, 1, 1],
                &[0.5, -1.0, 2.0, 1.0, 0.0, -0.5, 0.75, 1.0, 1.0, -1.0, 2.0, 0.25, 0.5, 0.5, 1.5, 1.0, -2.0, 0.0],
            ),
            tensor("s", &[6], &scales),
            tensor("t", &[6], &biases),
            tensor("ones", &[2], &[1.0; 2]),
            tensor("zeros", &[2], &[0.0; 2]),
            tensor("s1", &[6, 1, 1], &scales),
            tensor("t1", &[6, 1, 1], &biases),
            integers("rows", &[1, 2, -1]),
            integers("back", &[1, 6, 4, 4]),
        ]
    };
    let ints =
        |name: &str, values: &[i64]| proto::Attribute { name: name.into(), ints: values.into(), ..Default::default() };
    let int = |name: &str, i: i64| proto::Attribute { name: name.into(), i, ..Default::default() };
    let with = |operator: &str, inputs: &[&str], attribute: proto::Attribute| proto::Node {
        attribute: vec![attribute],
        ..node(operator, inputs, "y")
    };
    let perm = |input: &str, perm: &[i64], output: &str| proto::Node {
        attribute: vec![ints("perm", perm)],
        ..node("Transpose", &[input], output)
    };
    // The group of each element, and whether the scales count.
    type Group = fn(usize, usize) -> usize;
    let cases: [(Vec<proto::Node>, Group, bool); 5] = [
        (vec![node("InstanceNormalization", &["u", "s", "t"], "y")], |channel, _| channel, true),
        (vec![with("GroupNormalization", &["u", "s", "t"], int("num_groups", 2))], |channel, _| channel / 3, true),
        (
            vec![
                node("Reshape", &["u", "rows"], "r"),
                node("InstanceNormalization", &["r", "ones", "zeros"], "i"),
                node("Reshape", &["i", "back"], "j"),
                node("Mul", &["j", "s1"], "m"),
                node("Add", &["m", "t1"], "y"),
            ],
            |channel, _| channel / 3,
            true,
        ),
        (
            vec![
                perm("u", &[0, 2, 3, 1], "p"),
                node("LayerNormalization", &["p", "s", "t"], "l"),
                perm("l", &[0, 3, 1, 2], "y"),
            ],
            |_, pixel| pixel,
            true,
        ),
        (vec![with("MeanVarianceNormalization", &["u"], ints("axes", &[1, 2, 3]))], |_, _| 0, false),
    ];
    for (nodes, group, scaled) in cases {
        let name = nodes.iter().map(|node| node.op_type.clone()).collect::<Vec<_>>().join(", ");
        let nodes = [node("Conv", &["conv", "v"], "u")].into_iter().chain(nodes).collect();
        let graph = reads(&model(nodes, constants(), "y")).unwrap();
        let mut random = Random::new(3);
        let input: Vec<f32> = (0..32).map(|_| random.real()).collect();
        let mut u = Vec::new();
        let keep = &mut |id: crate::ir::TensorId, values: &[f32]| {
            if graph.tensor(id).name == "u" {
                u = values.to_vec();
            }
        };
        let found = float::run(&graph, &[input], keep).unwrap().remove(0);
        for at in 0..96 {
            let of = |at: usize| group(at / 16, at % 16);
            let all: Vec<f32> = (0..96).filter(|&other| of(other) == of(at)).map(|other| u[other]).collect();
            let mean = all.iter().sum::<f32>() / all.len() as f32;
            let variance = all.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / all.len() as f32;
            let (scale, bias) = if scaled { (scales[at / 16], biases[at / 16]) } else { (1.0, 0.0) };
            let epsilon = if scaled { 1e-5 } else { 0.0 };
            let expected = (u[at] - mean) / (variance + epsilon).sqrt() * scale + bias;
            assert!((found[at] - expected).abs() < 1e-3 * (1.0 + expected.abs()), "{name}: {} {expected}", found[at]);
        }
    }
}

/// Files before version 4 of the format list all initializers as inputs, also those that no node reads.
#[test]
fn initializers_are_no_inputs() {
    let mut model = model(Vec::new(), vec![tensor("batches", &[], &[3.0])], "conv");
    let graph = model.graph.as_mut().unwrap();
    graph.input.extend([value("w", &[3, 2, 1, 1]), value("batches", &[])]);
    let graph = reads(&model).unwrap();
    assert_eq!(graph.inputs.iter().map(|&id| graph.tensor(id).name.as_str()).collect::<Vec<_>>(), ["x"]);
}

/// The error of a model, which must name the node.
fn refusal(model: &proto::Model, node: &str) -> String {
    let error = reads(model).unwrap_err().to_string();
    assert!(error.contains(&format!("\"{node}\"")), "{error}");
    error
}

fn plain() -> proto::Model {
    model(vec![node("Relu", &["conv"], "y")], vec![], "y")
}

#[test]
fn a_model_is_read_and_computes() {
    let graph = reads(&plain()).unwrap();
    let x: Vec<f32> = (0..32).map(|k| k as f32 - 16.0).collect();
    let outputs = float::run(&graph, &[x], &mut |_, _| {}).unwrap();
    assert_eq!(outputs[0][15], 0.0 + (15.0 - 16.0 + 31.0 - 16.0));
    assert_eq!((outputs[0].len(), outputs[0][0]), (48, 0.0));
}

#[test]
fn arithmetic_on_shapes_vanishes() {
    // A flattening as exporters write it: the batch is read from the input's shape.
    let mut gather = node("Gather", &["shape", "zero"], "batch");
    gather.attribute = vec![];
    let mut concat = node("Concat", &["batch", "rest"], "to");
    concat.attribute = vec![proto::Attribute { name: "axis".into(), ..Default::default() }];
    let nodes = vec![node("Shape", &["conv"], "shape"), gather, concat, node("Reshape", &["conv", "to"], "y")];
    let graph = reads(&model(nodes, vec![integers("zero", &[0]), integers("rest", &[-1])], "y")).unwrap();
    let ops: Vec<_> = graph.nodes.iter().map(|node| node.op.name()).collect();
    assert_eq!(ops, ["Convolution", "Reshape"]);
    assert_eq!(graph.shape(graph.outputs[0]), [1, 48]);
}

#[test]
fn all_nodes_that_cannot_be_read_are_named() {
    let nodes = vec![
        node("LSTM", &["conv"], "first"),
        node("Relu", &["first"], "between"),
        node("NonMaxSuppression", &["between"], "second"),
        node("Add", &["conv", "second"], "y"),
    ];
    let Err(Failure::Nodes(Unreadable(refusals, before))) = reads(&model(nodes, vec![], "y")) else {
        panic!("it is read")
    };
    assert_eq!(before, ["conv"]);
    let names: Vec<_> = refusals.iter().map(|refusal| (refusal.node.as_str(), refusal.operator.as_str())).collect();
    assert_eq!(names, [("first", "LSTM"), ("second", "NonMaxSuppression")]);
    assert_eq!(refusals[0].shapes, [[1, 3, 4, 4]]);
}

#[test]
fn every_truncation_is_an_error() {
    let bytes = plain().encode_to_vec();
    // A prefix that ends between two fields is a valid message, but it lacks required fields.
    for end in 0..bytes.len() {
        let _ = read(bytes[..end].to_vec().into(), None, &Options::default()).unwrap_err();
    }
}

#[test]
fn lengths_beyond_the_file_are_errors() {
    // Field 7, the graph, with a length of 2^60.
    let huge = [&[0x3a][..], &[0x80; 8], &[0x10]].concat();
    assert!(matches!(read(huge.into(), None, &Options::default()), Err(Failure::Malformed(_))));
    let mut bad = plain();
    bad.graph.as_mut().unwrap().initializer[0].dims = vec![1 << 60, 1 << 60];
    refusal(&bad, "w");
    bad.graph.as_mut().unwrap().initializer[0].dims = vec![-1, 2, 1, 1];
    refusal(&bad, "w");
}

#[test]
fn deep_nesting_is_an_error_or_skipped() {
    // A graph in an attribute in a node in a graph, 3,000 times: fields 1 (node), 5 (attribute), 6 (graph).
    let mut bytes = Vec::new();
    for k in 0..3001 {
        let field = if k < 3000 { [6u8, 5, 1][k % 3] } else { 7 } << 3 | 2;
        let mut length = bytes.len();
        let mut outer = vec![field];
        loop {
            outer.push((length & 0x7f) as u8 | if length > 0x7f { 0x80 } else { 0 });
            length >>= 7;
            if length == 0 {
                break;
            }
        }
        bytes = [outer, bytes].concat();
    }
    assert!(read(bytes.into(), None, &Options::default()).is_err());
}

#[test]
fn circles_are_errors() {
    let nodes = vec![node("Add", &["conv", "b2"], "a2"), node("Relu", &["a2"], "b2")];
    let error = refusal(&model(nodes, vec![], "b2"), "b2");
    assert!(error.contains("its own output"), "{error}");
    let error = refusal(&model(vec![node("Relu", &["y"], "y")], vec![], "y"), "y");
    assert!(error.contains("its own output"), "{error}");
    refusal(&model(vec![node("Relu", &["nothing"], "y")], vec![], "y"), "y");
}

#[test]
fn nodes_out_of_order_are_put_in_order() {
    let mut model = plain();
    model.graph.as_mut().unwrap().node.reverse();
    assert_eq!(reads(&model).unwrap().nodes, reads(&plain()).unwrap().nodes);
}

#[test]
fn a_long_chain_of_nodes_is_read() {
    let names: Vec<String> = (0..20_001).map(|k| if k == 0 { "conv".into() } else { format!("n{k}") }).collect();
    let mut model = model(names.windows(2).map(|pair| node("Relu", &[&pair[0]], &pair[1])).collect(), vec![], "n20000");
    model.graph.as_mut().unwrap().node.reverse();
    assert_eq!(reads(&model).unwrap().nodes.len(), 20_001);
}

#[test]
fn wrong_shapes_and_values_name_the_node() {
    let change = |f: &dyn Fn(&mut proto::Graph)| {
        let mut model = plain();
        f(model.graph.as_mut().unwrap());
        model
    };
    refusal(&change(&|g| g.initializer[0] = tensor("w", &[3, 5, 1, 1], &[1.0; 15])), "conv");
    refusal(&change(&|g| g.initializer[0] = tensor("w", &[3, 2, 9, 9], &[1.0; 486])), "conv");
    refusal(&change(&|g| g.initializer[0] = tensor("w", &[3, 2, 1, 1], &[1.0; 5])), "w");
    refusal(&change(&|g| g.initializer[1] = tensor("b", &[4], &[1.0; 4])), "conv");
    refusal(&change(&|g| g.initializer[0] = tensor("w", &[3, 2, 1, 1], &[f32::NAN; 6])), "w");
    refusal(&change(&|g| g.initializer[0].data_type = 8), "w");
    refusal(&change(&|g| g.initializer[0].data_type = 77), "w");
    refusal(&change(&|g| g.node[0].op_type = "Konv".into()), "conv");
    refusal(&change(&|g| g.node[0].domain = "org.example".into()), "conv");
    let group = proto::Attribute { name: "group".into(), i: i64::MAX, ..Default::default() };
    refusal(&change(&|g| g.node[0].attribute.push(group.clone())), "conv");
    for ints in [vec![0, 0], vec![i64::MIN, 1], vec![1]] {
        let strides = proto::Attribute { name: "strides".into(), ints, ..Default::default() };
        refusal(&change(&|g| g.node[0].attribute.push(strides.clone())), "conv");
    }
    for ints in [vec![i64::MAX; 4], vec![-1; 4]] {
        let pads = proto::Attribute { name: "pads".into(), ints, ..Default::default() };
        refusal(&change(&|g| g.node[0].attribute.push(pads.clone())), "conv");
    }
    refusal(&change(&|g| g.input[0] = value("x", &[1, 2, 0, 4])), "x");
}

#[test]
fn dynamic_dimensions_are_given_by_the_user() {
    let mut model = plain();
    model.graph.as_mut().unwrap().input[0] = value("x", &[0, 2, -1, -1]);
    assert!(refusal(&model, "x").contains("the option shape, as x="));
    let given = |shape: &[usize]| Options { shapes: [("x".to_owned(), shape.to_vec())].into(), ..Options::default() };
    let graph = read(model.encode_to_vec().into(), None, &given(&[1, 2, 8, 6])).unwrap();
    assert_eq!(graph.shape(graph.outputs[0]), [1, 3, 8, 6]);
    assert!(read(model.encode_to_vec().into(), None, &given(&[1, 5, 8, 6])).is_err());
    // A batch that the model fixes is replaced.
    model.graph.as_mut().unwrap().input[0] = value("x", &[10, 2, 4, 4]);
    let graph = read(model.encode_to_vec().into(), None, &given(&[1, 2, 8, 6])).unwrap();
    assert_eq!(graph.shape(graph.outputs[0]), [1, 3, 8, 6]);
    assert!(read(model.encode_to_vec().into(), None, &given(&[2, 8, 6])).is_err());
    let other = Options { shapes: [("z".to_owned(), vec![1])].into(), ..Options::default() };
    assert!(read(plain().encode_to_vec().into(), None, &other).is_err());
}

#[test]
fn outputs_are_chosen_by_name() {
    let nodes = vec![node("Relu", &["conv"], "y"), node("ArgMax", &["y"], "class")];
    let model = model(nodes, vec![], "class");
    refusal(&model, "class");
    assert!(refusal(&self::model(vec![], vec![], "w"), "w").contains("does not depend on the inputs"));
    let squares = node("Mul", &["w", "w"], "squares");
    assert!(
        refusal(&self::model(vec![squares], vec![], "squares"), "squares").contains("does not depend on the inputs")
    );
    let options = Options { outputs: vec!["y".into()], ..Options::default() };
    let graph = read(model.encode_to_vec().into(), None, &options).unwrap();
    assert_eq!(graph.tensor(graph.outputs[0]).name, "y");
}

#[test]
fn external_data_lies_in_the_models_folder() {
    let folder = std::env::temp_dir().join(format!("nvdla-onnx-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("inside")).unwrap();
    std::fs::write(folder.join("secret"), [0; 24]).unwrap();
    let weights: Vec<u8> = [2.0f32; 6].iter().flat_map(|value| value.to_le_bytes()).collect();
    std::fs::write(folder.join("inside/weights"), [&[9; 8][..], &weights].concat()).unwrap();
    let located = |location: &str, offset: &str, length: &str| {
        let mut model = plain();
        let w = &mut model.graph.as_mut().unwrap().initializer[0];
        (w.raw_data, w.data_location) = (Bytes::new(), 1);
        let entry = |key: &str, value: &str| proto::Entry { key: key.into(), value: value.into() };
        w.external_data = vec![entry("location", location), entry("offset", offset), entry("length", length)];
        read(model.encode_to_vec().into(), Some(&folder.join("inside")), &Options::default())
    };
    let graph = located("weights", "8", "24").unwrap();
    assert_eq!(graph.constant(graph.find("w").unwrap()).unwrap()[..], [2.0; 6]);
    let secret = folder.join("secret");
    for (location, offset, length) in [
        ("../secret", "0", "24"),
        (secret.to_str().unwrap(), "0", "24"),
        ("../inside/weights", "8", "24"),
        ("none", "0", "24"),
        ("", "0", "24"),
        ("weights", "9", "24"),
        ("weights", "18446744073709551615", "24"),
        ("weights", "8", "1152921504606846976"),
        ("weights", "-8", "24"),
    ] {
        let error = located(location, offset, length).unwrap_err().to_string();
        assert!(error.contains("\"w\""), "{error}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&secret, folder.join("inside/link")).unwrap();
        assert!(located("link", "0", "24").unwrap_err().to_string().contains("outside"));
        let made = std::process::Command::new("mkfifo").arg(folder.join("inside/pipe")).status().unwrap();
        assert!(made.success() && located("pipe", "0", "24").unwrap_err().to_string().contains("not a regular file"));
    }
    std::fs::remove_dir_all(folder).unwrap();
}

/// The outputs for x from -1.6 on, in steps of 0.1, whose sums of two channels are `conv`.
fn computed(nodes: Vec<proto::Node>, initializers: Vec<proto::Tensor>) -> (Vec<f32>, Vec<f32>) {
    let graph = reads(&model(nodes, initializers, "y")).unwrap();
    let x: Vec<f32> = (0..32).map(|k| (k as f32 - 16.0) / 10.0).collect();
    let conv = (0..48).map(|k| x[k % 16] + x[k % 16 + 16]).collect();
    (conv, float::run(&graph, &[x], &mut |_, _| {}).unwrap().remove(0))
}

fn with(mut node: proto::Node, name: &str, value: f32) -> proto::Node {
    node.attribute.push(proto::Attribute { name: name.into(), f: value, ..Default::default() });
    node
}

#[test]
fn limits_may_be_computed() {
    let nodes =
        vec![node("Abs", &["conv"], "most"), node("Neg", &["most"], "least"), node("Mul", &["conv", "two"], "x2")];
    let clip = node("Clip", &["x2", "least", "most"], "y");
    let (conv, y) = computed([nodes, vec![clip]].concat(), vec![tensor("two", &[], &[2.0])]);
    assert!(conv.iter().zip(&y).all(|(conv, y)| (conv - y).abs() < 1e-6), "{y:?}");
    // Only one of the limits.
    let nodes = vec![node("Neg", &["conv"], "most"), node("Clip", &["conv", "", "most"], "y")];
    let (conv, y) = computed(nodes, vec![]);
    assert!(conv.iter().zip(&y).all(|(conv, y)| (y + conv.abs()).abs() < 1e-6), "{y:?}");
}

/// An output that another output or an input already is keeps its own name, in either order.
#[test]
fn outputs_of_the_same_values_have_their_names() {
    for names in [["same", "conv", "given"], ["conv", "given", "same"]] {
        let nodes = vec![node("Identity", &["conv"], "same"), node("Identity", &["x"], "given")];
        let mut model = model(nodes, vec![], names[0]);
        let ends = &mut model.graph.as_mut().unwrap().output;
        ends.extend(names[1..].iter().map(|name| value(name, &[])));
        let graph = reads(&model).unwrap();
        let found: Vec<_> = graph.outputs.iter().map(|&id| graph.tensor(id).name.as_str()).collect();
        assert_eq!(found, names);
        assert_eq!(graph.tensor(graph.inputs[0]).name, "x");
        let x: Vec<f32> = (0..32u8).map(f32::from).collect();
        let outputs = float::run(&graph, std::slice::from_ref(&x), &mut |_, _| {}).unwrap();
        let by_name = |name: &str| &outputs[names.iter().position(|&of| of == name).unwrap()];
        assert_eq!((by_name("given"), by_name("same")), (&x, by_name("conv")));
    }
}

/// A coordinate in the middle of two elements is exactly there. The numbers are ONNX Runtime's.
#[test]
fn resizes_round_the_middle_of_two_elements_as_others_do() {
    let text = |name: &str, s: &str| proto::Attribute {
        name: name.into(),
        s: s.to_owned().into(),
        ..proto::Attribute::default()
    };
    let mut resize = node("Resize", &["conv", "", "scales"], "y");
    resize.attribute = vec![text("mode", "nearest"), text("coordinate_transformation_mode", "half_pixel_symmetric")];
    for (scale, expected) in [
        (1.5, &[0, 0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 10, 10, 11, 12, 12, 13, 14, 14, 15][..]),
        (0.75, &[0, 1, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15]),
    ] {
        let constants = vec![tensor("scales", &[4], &[1.0, 1.0, 1.0, scale])];
        let mut model = model(vec![resize.clone()], constants, "y");
        let graph = model.graph.as_mut().unwrap();
        graph.input = vec![value("x", &[1, 2, 1, 16])];
        graph.initializer[0] = tensor("w", &[3, 2, 1, 1], &[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let x = (0..32u8).map(f32::from).collect();
        let found = float::run(&reads(&model).unwrap(), &[x], &mut |_, _| {}).unwrap().remove(0);
        let expected: Vec<f32> = expected.iter().map(|&at: &u8| f32::from(at)).collect();
        assert_eq!(found[..expected.len()], expected, "scale {scale}");
    }
}

/// The numbers are ONNX Runtime's, for the elements 0 to 15 of a tensor of 4 x 4.
#[test]
fn resizes_crop_a_region() {
    let attribute = |name: &str| proto::Attribute { name: name.into(), ..Default::default() };
    let text = |name: &str, s: &str| proto::Attribute { s: s.to_owned().into(), ..attribute(name) };
    let mut resize = node("Resize", &["conv", "roi", "", "sizes"], "y");
    resize.attribute = vec![
        text("mode", "linear"),
        text("coordinate_transformation_mode", "tf_crop_and_resize"),
        proto::Attribute { f: -1.0, ..attribute("extrapolation_value") },
    ];
    let roi = |values: &[f32]| tensor("roi", &[values.len() as i64], values);
    let runs = |roi: proto::Tensor| {
        let mut model = model(vec![resize.clone()], vec![roi, integers("sizes", &[1, 3, 3, 3])], "y");
        model.graph.as_mut().unwrap().initializer[0] = tensor("w", &[3, 2, 1, 1], &[1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        let graph = reads(&model)?;
        let x = (0..32u8).map(f32::from).collect();
        Ok::<_, Failure>(float::run(&graph, &[x], &mut |_, _| {}).unwrap().remove(0))
    };
    let found = runs(roi(&[0.0, 0.0, 0.25, 0.8, 1.0, 1.0, 1.25, 0.2])).unwrap();
    let expected = [5.4, 4.5, 3.6, 11.4, 10.5, 9.6, -1.0, -1.0, -1.0];
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?}");
    let error = runs(roi(&[0.0, 0.0, 2.0, 0.0, 1.0, 1.0, 3.0, 1.0])).unwrap_err().to_string();
    assert!(error.contains("the region to crop is outside"), "{error}");
    let error = runs(roi(&[0.0, 1.0])).unwrap_err().to_string();
    assert!(error.contains("2 numbers are the region to crop in 4 dimensions"), "{error}");
}

#[test]
fn operators_that_others_express() {
    let hard = with(node("Shrink", &["conv"], "y"), "lambd", 0.75);
    let soft = with(hard.clone(), "bias", 0.75);
    for (shrink, bias) in [(hard, 0.0), (soft, 0.75)] {
        let (conv, y) = computed(vec![shrink], vec![]);
        let expected = |x: f32| if x.abs() > 0.75 { x - f32::copysign(bias, x) } else { 0.0 };
        assert!(conv.iter().zip(&y).all(|(&conv, y)| (expected(conv) - y).abs() < 1e-6), "{bias}: {y:?}");
    }
    let other = with(with(node("Shrink", &["conv"], "y"), "lambd", 0.75), "bias", 0.5);
    assert!(refusal(&model(vec![other], vec![], "y"), "y").contains("a bias of 0.5"));
    let (conv, y) = computed(vec![node("ReduceLogSumExp", &["conv", "axes"], "y")], vec![integers("axes", &[2, 3])]);
    let sum: f32 = conv[..16].iter().map(|x| x.exp()).sum();
    assert!(y.len() == 3 && (y[0] - sum.ln()).abs() < 1e-5, "{y:?}");
    let sizes = integers("sizes", &[2, 7]);
    let axes = proto::Attribute { name: "axes".into(), ints: vec![2, 3], ..Default::default() };
    let mut middle = node("CenterCropPad", &["conv", "sizes"], "y");
    middle.attribute.push(axes);
    let (conv, y) = computed(vec![middle], vec![sizes]);
    assert_eq!((y.len(), &y[..7]), (42, &[&[0.0], &conv[4..8], &[0.0; 2]].concat()[..]));
    let kernel = |name: &str| proto::Attribute { name: name.into(), ints: vec![2, 2], ..Default::default() };
    let mut pool = node("LpPool", &["conv"], "y");
    pool.attribute = vec![kernel("kernel_shape"), kernel("dilations")];
    let (conv, y) = computed(vec![pool.clone()], vec![]);
    let expected = [0, 2, 8, 10].iter().map(|&at: &usize| conv[at] * conv[at]).sum::<f32>().sqrt();
    assert!(y.len() == 12 && (y[0] - expected).abs() < 1e-5, "{y:?}");
    pool.attribute.push(proto::Attribute { name: "p".into(), i: 3, ..Default::default() });
    assert!(refusal(&model(vec![pool], vec![], "y"), "y").contains("a power of 3"));
    // The last window has two columns of the input.
    let mut ends = node("LpPool", &["conv"], "y");
    let strides = proto::Attribute { name: "strides".into(), ints: vec![3, 3], ..Default::default() };
    let ceil = proto::Attribute { name: "ceil_mode".into(), i: 1, ..Default::default() };
    ends.attribute = vec![kernel("kernel_shape"), strides.clone(), ceil];
    let (conv, y) = computed(vec![ends], vec![]);
    let expected = (conv[3] * conv[3] + conv[7] * conv[7]).sqrt();
    assert!(y.len() == 12 && (y[1] - expected).abs() < 1e-5, "{y:?}");
    let (conv, y) = computed(vec![node("GlobalLpPool", &["conv"], "y")], vec![]);
    let expected = conv[..16].iter().map(|x| x * x).sum::<f32>().sqrt();
    assert!(y.len() == 3 && (y[0] - expected).abs() < 1e-5, "{y:?}");
    // SAME adds no lines behind the last window, although the stride is greater than the kernel.
    let mut apart = node("ConvTranspose", &["conv", "weights"], "y");
    apart.attribute =
        vec![strides, proto::Attribute { name: "auto_pad".into(), s: "SAME_UPPER".into(), ..Default::default() }];
    let (_, y) = computed(vec![apart], vec![tensor("weights", &[3, 1, 2, 2], &[1.0; 12])]);
    assert_eq!(y.len(), 11 * 11);
}

/// Two integers of four bits lie in a byte, the first in the lower half.
#[test]
fn integers_of_four_bits_are_read() {
    for (data_type, expected) in [(22, [-0.5, -4.0, 3.5]), (21, [7.5, 4.0, 3.5])] {
        let (dims, raw_data) = (vec![3, 1, 1], vec![0x8f, 0x07].into());
        let constant = proto::Tensor { dims, data_type, name: "small".into(), raw_data, ..Default::default() };
        let scale = tensor("s", &[], &[0.5]);
        let nodes = vec![node("DequantizeLinear", &["small", "s"], "real"), node("Add", &["conv", "real"], "y")];
        let (conv, y) = computed(nodes, vec![constant, scale]);
        let found = [0, 16, 32].map(|at| y[at] - conv[at]);
        assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?}");
    }
}

/// An input of integers has all integers of its type, and its real numbers have the model's scale.
#[test]
fn integers_of_an_input_are_read() {
    let zero = proto::Tensor { data_type: 2, int32_data: vec![7], name: "z".into(), ..Default::default() };
    let mut model = model(Vec::new(), vec![tensor("s", &[], &[0.5]), zero], "conv");
    let file = model.graph.as_mut().unwrap();
    file.node.insert(0, node("DequantizeLinear", &["x", "s", "z"], "real"));
    file.node[1].input[0] = "real".into();
    let graph = reads(&model).unwrap();
    let quantized =
        |scale, zero| Some(Quantization { scale: vec![scale], zero_point: vec![zero], axis: None, limits: (0, 255) });
    assert_eq!(graph.tensor(graph.inputs[0]).quantization, quantized(1.0, 0));
    let real = graph.tensors.iter().find(|tensor| tensor.name == "real").unwrap();
    assert_eq!(real.quantization, quantized(0.5, 7));
}

#[test]
fn quantized_models_keep_their_scales() {
    let scalar = |name: &str, value: f32| tensor(name, &[], &[value]);
    let zero = |name: &str, kind: i32, value: i32| proto::Tensor {
        data_type: kind,
        int32_data: vec![value],
        name: name.into(),
        ..Default::default()
    };
    let nodes = vec![
        node("QuantizeLinear", &["conv", "s", "z"], "q"),
        node("MaxPool", &["q"], "p"),
        node("DequantizeLinear", &["p", "s", "z"], "y"),
    ];
    let mut quantized = model(nodes, vec![scalar("s", 0.5), zero("z", 3, 0)], "y");
    let kernel = proto::Attribute { name: "kernel_shape".into(), ints: vec![2, 2], ..Default::default() };
    quantized.graph.as_mut().unwrap().node[2].attribute = vec![kernel];
    let graph = reads(&quantized).unwrap();
    let expected = Quantization { scale: vec![0.5], zero_point: vec![0], axis: None, limits: (-128, 127) };
    let scales: Vec<_> = graph.nodes.iter().map(|node| graph.tensor(node.output).quantization.clone()).collect();
    assert_eq!(scales, [None, Some(expected.clone()), Some(expected)]);
    // The limits of the integers are a part of the function.
    assert_eq!(graph.nodes[1].op, crate::ir::Op::Unary(crate::ir::Unary::Clip(-64.0, 63.5)));
    // The same integers with another scale stand for other numbers.
    let file = quantized.graph.as_mut().unwrap();
    file.initializer.push(scalar("other", 0.25));
    file.node[3].input[1] = "other".into();
    let graph = reads(&quantized).unwrap();
    let last = graph.tensor(graph.outputs[0]).quantization.as_ref().unwrap();
    assert_eq!((graph.nodes.len(), &last.scale[..], last.values()[0]), (5, &[0.25][..], (-32.0, 31.75)));
}

/// What `quantize_dynamic` of ONNX Runtime makes of a convolution and of a matrix product with weights of bytes: the network with the
/// weights' real numbers.
#[test]
fn scales_that_the_network_measures_are_those_of_samples() {
    let bytes = |name: &str, dims: &[i64], values: &[i32]| proto::Tensor {
        dims: dims.into(),
        data_type: 2,
        int32_data: values.into(),
        name: name.into(),
        ..Default::default()
    };
    let measured = |input: &str, name: &str| {
        let mut node = node("DynamicQuantizeLinear", &[input], name);
        node.output.extend([format!("{name}_scale"), format!("{name}_zero")]);
        node
    };
    let nodes = vec![
        measured("conv", "q"),
        node("ConvInteger", &["q", "v", "q_zero", "v_zero"], "sums"),
        node("Cast", &["sums"], "numbers"),
        node("Mul", &["q_scale", "v_scale"], "scale"),
        node("Mul", &["numbers", "scale"], "c"),
        node("Reshape", &["c", "rows"], "flat"),
        measured("flat", "f"),
        node("Transpose", &["f"], "turned"),
        node("Transpose", &["turned"], "back"),
        node("MatMulInteger", &["back", "m", "f_zero", "m_zeros"], "product"),
        node("Cast", &["product"], "real"),
        node("Mul", &["f_scale", "m_scales"], "scales"),
        node("Mul", &["real", "scales"], "y"),
    ];
    let constants = vec![
        bytes("v", &[2, 3, 1, 1], &[130, 120, 128, 5, 128, 255]),
        bytes("v_zero", &[], &[128]),
        tensor("v_scale", &[], &[0.5]),
        integers("rows", &[4, -1]),
        bytes("m", &[8, 2], &(0..16).map(|k| k * 13 % 256).collect::<Vec<_>>()),
        bytes("m_zeros", &[2], &[100, 3]),
        tensor("m_scales", &[2], &[0.125, 2.0]),
    ];
    let mut dynamic = model(nodes, constants, "y");
    let file = dynamic.graph.as_mut().unwrap();
    for cast in file.node.iter_mut().filter(|node| node.op_type == "Cast") {
        cast.attribute = vec![proto::Attribute { name: "to".into(), i: 1, ..Default::default() }];
    }
    let graph = reads(&dynamic).unwrap();
    // Nothing is rounded that samples do not round.
    let rounded = graph.tensors.iter().filter(|tensor| tensor.constant.is_none() && tensor.quantization.is_some());
    assert_eq!(rounded.count(), 0);
    let x: Vec<f32> = (0..32).map(|k| (k * 7 % 11) as f32 - 5.0).collect();
    let found = float::run(&graph, std::slice::from_ref(&x), &mut |_, _| {}).unwrap();
    let sum = |at: usize| x[at] + x[16 + at];
    let kernels = [2.0 - 8.0, -123.0 + 127.0].map(|sum: f32| sum * 0.5);
    let c: Vec<f32> = (0..32).map(|at| kernels[at / 16] * sum(at % 16)).collect();
    let weight = |row: usize, column: usize| {
        let zero = [100.0, 3.0][column];
        (((2 * row + column) * 13 % 256) as f32 - zero) * [0.125, 2.0][column]
    };
    let expected: Vec<f32> = (0..8).map(|at| (0..8).map(|k| c[at / 2 * 8 + k] * weight(k, at % 2)).sum()).collect();
    assert_eq!(found, [expected]);
    // The integers are none that an application could read.
    dynamic.graph.as_mut().unwrap().output[0].name = "f".into();
    assert!(reads(&dynamic).unwrap_err().to_string().contains("measured while the network runs"));
}

/// Recurrent layers in both directions beside plain loops, with a state that is given and with none.
#[test]
fn recurrent_layers_are_their_steps() {
    const T: usize = 3;
    const I: usize = 2;
    const H: usize = 2;
    fn sigmoid(x: f32) -> f32 {
        1.0 / (1.0 + (-x).exp())
    }
    let numbers = |seed: u64, count: usize| {
        let mut random = Random::new(seed);
        (0..count).map(|_| random.real()).collect::<Vec<f32>>()
    };
    let attribute = |name: &str, i: i64, s: &str| proto::Attribute {
        name: name.into(),
        i,
        s: s.to_owned().into(),
        ..Default::default()
    };
    // The last is a GRU whose reset gate multiplies the state.
    for (operator, gates, reset_last) in [("LSTM", 4, false), ("GRU", 3, true), ("RNN", 1, false), ("GRU", 3, false)] {
        for given in [false, true] {
            let mut layer = node(operator, &["s", "wi", "ri", "bi", "", if given { "h" } else { "" }], "all");
            layer.output.push("last".into());
            layer.attribute = vec![
                attribute("direction", 0, "bidirectional"),
                attribute("linear_before_reset", reset_last.into(), ""),
            ];
            let (w, r, b) =
                (numbers(1, 2 * gates * H * I), numbers(2, 2 * gates * H * H), numbers(3, 2 * 2 * gates * H));
            let h = numbers(4, 2 * H);
            let constants = vec![
                tensor("wi", &[2, (gates * H) as i64, I as i64], &w),
                tensor("ri", &[2, (gates * H) as i64, H as i64], &r),
                tensor("bi", &[2, (2 * gates * H) as i64], &b),
                tensor("h", &[2, 1, H as i64], &h),
                integers("sequence", &[T as i64, 1, I as i64]),
            ];
            let mut file = model(vec![node("Reshape", &["x", "sequence"], "s"), layer], constants, "all");
            let graph = file.graph.as_mut().unwrap();
            graph.node.remove(0);
            graph.input = vec![value("x", &[1, (T * I) as i64])];
            graph.output.push(value("last", &[]));
            let graph = reads(&file).unwrap();
            let x = numbers(5, T * I);
            let found = float::run(&graph, std::slice::from_ref(&x), &mut |_, _| {}).unwrap();
            let (mut all, mut last) = (vec![0.0; T * 2 * H], vec![0.0; 2 * H]);
            for direction in 0..2 {
                let mut state = if given { h[direction * H..][..H].to_vec() } else { vec![0.0; H] };
                let mut cell = [0.0; H];
                for step in 0..T {
                    let at = if direction == 1 { T - 1 - step } else { step };
                    let row = |gate: usize, k: usize| (direction * gates + gate) * H + k;
                    let of_input = |gate: usize, k: usize| {
                        let bias = b[(2 * direction * gates + gate) * H + k];
                        (0..I).map(|c| w[row(gate, k) * I + c] * x[at * I + c]).sum::<f32>() + bias
                    };
                    let of_state = |gate: usize, k: usize, state: &[f32]| {
                        let bias = b[((2 * direction + 1) * gates + gate) * H + k];
                        (0..H).map(|c| r[row(gate, k) * H + c] * state[c]).sum::<f32>() + bias
                    };
                    let sum = |gate: usize, k: usize| of_input(gate, k) + of_state(gate, k, &state);
                    let next: Vec<f32> = match operator {
                        "LSTM" => (0..H)
                            .map(|k| {
                                cell[k] = sigmoid(sum(2, k)) * cell[k] + sigmoid(sum(0, k)) * sum(3, k).tanh();
                                sigmoid(sum(1, k)) * cell[k].tanh()
                            })
                            .collect(),
                        "GRU" => {
                            let reset: Vec<f32> = (0..H).map(|k| sigmoid(sum(1, k))).collect();
                            let kept: Vec<f32> = (0..H).map(|k| reset[k] * state[k]).collect();
                            let candidate = |k: usize| {
                                let own =
                                    if reset_last { reset[k] * of_state(2, k, &state) } else { of_state(2, k, &kept) };
                                (of_input(2, k) + own).tanh()
                            };
                            let mixed = |k: usize| {
                                let update = sigmoid(sum(0, k));
                                (1.0 - update) * candidate(k) + update * state[k]
                            };
                            (0..H).map(mixed).collect()
                        }
                        _ => (0..H).map(|k| sum(0, k).tanh()).collect(),
                    };
                    state = next;
                    all[(at * 2 + direction) * H..][..H].copy_from_slice(&state);
                }
                last[direction * H..][..H].copy_from_slice(&state);
            }
            for (found, expected) in found.iter().zip([all, last]) {
                let near = found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5);
                assert!(near && found.len() == expected.len(), "{operator}, {given}: {found:?}, {expected:?}");
            }
        }
    }
}

#[test]
fn changed_bytes_are_a_consistent_model_or_an_error() {
    let attribute =
        |name: &str, ints: &[i64]| proto::Attribute { name: name.into(), ints: ints.into(), ..Default::default() };
    let mut pool = node("AveragePool", &["conv"], "pool");
    pool.attribute = vec![attribute("kernel_shape", &[2, 2]), attribute("pads", &[1, 1, 1, 1])];
    let mut slice = node("Slice", &["pool", "one", "three", "one", "one"], "part");
    slice.attribute = vec![];
    let nodes = vec![pool, slice, node("Reshape", &["part", "to"], "flat"), node("MatMul", &["flat", "m"], "y")];
    let constants =
        [integers("one", &[1]), integers("three", &[3]), integers("to", &[1, -1]), tensor("m", &[50, 2], &[0.5; 100])];
    let good = model(nodes, constants.into(), "y").encode_to_vec();
    read(good.clone().into(), None, &Options::default()).unwrap();
    let mut random = Random::new(1);
    let mut random = |count: usize| random.below(count);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            bytes[at] = [0, 1, 2, 0x7f, 0x80, 0xff, random(256) as u8][random(7)];
        }
        let Ok(mut graph) = read(bytes.into(), None, &Options::default()) else { continue };
        accepted += 1;
        crate::simplify::simplify(&mut graph);
        graph.check().unwrap();
    }
    assert!(accepted > 1000, "{accepted} were accepted");
}

/// A node that makes a matrix of zeros, and the constant with its shape.
fn zeros(name: &str, size: i64) -> (proto::Node, proto::Tensor) {
    let shape = format!("{name}_shape");
    (node("ConstantOfShape", &[&shape], name), integers(&shape, &[size, size]))
}

#[test]
fn constants_have_a_budget() {
    // A product of two matrices that the file does not hold.
    let (a, shape) = zeros("a", 3000);
    let large = model(
        vec![a, node("MatMul", &["a", "a"], "product"), node("Add", &["conv", "product"], "y")],
        vec![shape],
        "y",
    );
    assert!(large.encode_to_vec().len() < 400);
    let error = refusal(&large, "product");
    assert!(error.contains("multiplications"), "{error}");
    // Many constants, of which each is allowed.
    let mut nodes = Vec::new();
    let mut shapes = Vec::new();
    for at in 0..40 {
        let (node, shape) = zeros(&format!("m{at}"), 4096);
        nodes.push(node);
        shapes.push(shape);
    }
    let names: Vec<String> = (0..40).map(|at| format!("m{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    nodes.push(node("Sum", &[&["conv"], &names[..]].concat(), "y"));
    let error = reads(&model(nodes, shapes, "y")).unwrap_err().to_string();
    assert!(error.contains("would have more than") && error.contains("bytes"), "{error}");
    // Usual constants are computed.
    let (a, shape) = zeros("a", 4);
    let small = model(
        vec![a, node("MatMul", &["a", "a"], "product"), node("Add", &["conv", "product"], "y")],
        vec![shape],
        "y",
    );
    assert_eq!(reads(&small).unwrap().nodes.len(), 2);
}

#[test]
fn reading_is_cancelled() {
    let options = Options::default();
    options.cancel.cancel();
    let (a, shape) = zeros("a", 4);
    let model = model(vec![a, node("Add", &["conv", "a"], "y")], vec![shape], "y");
    let error = read(model.encode_to_vec().into(), None, &options).unwrap_err().to_string();
    assert!(error.contains("cancelled"), "{error}");
}

#[test]
fn names_are_escaped_in_errors() {
    let error = reads(&model(vec![node("LSTM\u{1b}[2J", &["conv"], "y\u{1b}]0;x\u{7}")], vec![], "y\u{1b}]0;x\u{7}"));
    let error = error.unwrap_err().to_string();
    assert!(error.contains("\\u{1b}") && error.bytes().all(|byte| byte >= b' ' || byte == b'\n'), "{error:?}");
}

/// A call of a function whose node has an attribute of the call, twice, and an `If` whose condition is constant.
#[test]
fn functions_and_constant_branches_are_read() {
    let alpha = proto::Attribute { name: "alpha".into(), ref_attr_name: "slope".into(), ..Default::default() };
    let leaky = proto::Node { attribute: vec![alpha], ..node("LeakyRelu", &["a"], "t") };
    let function = proto::Function {
        name: "Act".into(),
        domain: "my".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![leaky, node("Neg", &["t"], "b")],
        ..Default::default()
    };
    let call = |slope: f32, input: &str, output: &str| {
        let attribute = vec![proto::Attribute { name: "slope".into(), f: slope, ..Default::default() }];
        proto::Node { domain: "my".into(), attribute, ..node("Act", &[input], output) }
    };
    let branch = |name: &str, operator: &str| {
        let output = vec![proto::ValueInfo { name: name.into(), ..Default::default() }];
        let graph = proto::Graph { node: vec![node(operator, &["q"], name)], output, ..Default::default() };
        Some(Box::new(graph))
    };
    let branches = [("then_branch", branch("then", "Abs")), ("else_branch", branch("else", "Relu"))];
    let attribute = branches.map(|(name, g)| proto::Attribute { name: name.into(), g, ..Default::default() }).into();
    let choice = proto::Node { attribute, ..node("If", &["c"], "y") };
    let value = proto::Tensor { data_type: 9, int32_data: vec![0], name: "c".into(), ..Default::default() };
    let mut model = model(vec![call(0.5, "x", "p"), call(0.25, "p", "q"), choice], vec![value], "y");
    model.functions.push(function);
    let graph = read(model.encode_to_vec().into(), None, &Options::default()).unwrap();
    let names: Vec<_> = graph.nodes.iter().map(|node| node.op.clone()).collect();
    let expected = [
        Op::Unary(Unary::LeakyRelu(0.5)),
        Op::Unary(Unary::Neg),
        Op::Unary(Unary::LeakyRelu(0.25)),
        Op::Unary(Unary::Neg),
        Op::Unary(Unary::Relu),
    ];
    assert_eq!(names, expected);
}

/// A function that calls itself ends with an error.
#[test]
fn a_function_that_calls_itself_is_refused() {
    let call = |input: &str, output: &str| proto::Node { domain: "my".into(), ..node("Act", &[input], output) };
    let function = proto::Function {
        name: "Act".into(),
        domain: "my".into(),
        input: vec!["a".into()],
        output: vec!["b".into()],
        node: vec![call("a", "t"), call("t", "b")],
        ..Default::default()
    };
    let mut model = model(vec![call("x", "y")], Vec::new(), "y");
    model.functions.push(function);
    let error = read(model.encode_to_vec().into(), None, &Options::default()).unwrap_err();
    assert!(format!("{error:?}").contains("calls itself"), "{error:?}");
}

/// A comparison is 0 or 1, and a choice by it is what ONNX computes.
#[test]
fn choices_by_comparisons_are_read() {
    let limit = || tensor("limit", &[], &[2.0]);
    let x: Vec<f32> = (0..32).map(|k| k as f32 / 2.0 - 5.0).collect();
    let conv: Vec<f32> = (0..16).map(|k| x[k] + x[k + 16]).collect();
    let runs = |nodes: Vec<proto::Node>| {
        let graph = reads(&model(nodes, vec![limit(), tensor("zero", &[], &[0.0])], "y")).unwrap();
        float::run(&graph, std::slice::from_ref(&x), &mut |_, _| {}).unwrap()[0][..16].to_vec()
    };
    let holds = |operator: &str, x: f32| match operator {
        "Greater" => x > 2.0,
        "GreaterOrEqual" => x >= 2.0,
        "Less" => x < 2.0,
        "LessOrEqual" => x <= 2.0,
        _ => x == 2.0,
    };
    for operator in ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"] {
        let compare = || node(operator, &["conv", "limit"], "mask");
        for (inputs, other) in [(["mask", "conv", "limit"], 2.0), (["mask", "conv", "zero"], 0.0)] {
            let found = runs(vec![compare(), node("Where", &inputs, "y")]);
            let expected: Vec<f32> = conv.iter().map(|&x| if holds(operator, x) { x } else { other }).collect();
            assert_eq!(found, expected, "{operator}");
        }
        let found = runs(vec![compare(), node("Not", &["mask"], "not"), node("Where", &["not", "limit", "zero"], "y")]);
        let expected: Vec<f32> = conv.iter().map(|&x| if holds(operator, x) { 0.0 } else { 2.0 }).collect();
        assert_eq!(found, expected, "not {operator}");
    }
    // The constant may be first.
    let found = runs(vec![node("Less", &["limit", "conv"], "mask"), node("Where", &["mask", "conv", "zero"], "y")]);
    assert_eq!(found, conv.iter().map(|&x| if x > 2.0 { x } else { 0.0 }).collect::<Vec<_>>());
    // Zero where the condition holds, and else what a node with one input has computed.
    let chosen = |mask: proto::Node| {
        runs(vec![node("Abs", &["conv"], "abs"), mask, node("Where", &["mask", "zero", "abs"], "y")])
    };
    let expected = |least: f32| conv.iter().map(|&x| if x > least { 0.0 } else { x.abs() }).collect::<Vec<_>>();
    assert_eq!(chosen(node("Greater", &["conv", "limit"], "mask")), expected(2.0));
    assert_eq!(chosen(node("Greater", &["conv", "zero"], "mask")), expected(0.0));
    let infinite = vec![limit(), tensor("infinite", &[], &[f32::NEG_INFINITY])];
    let nodes = vec![node("Less", &["conv", "limit"], "mask"), node("Where", &["mask", "conv", "infinite"], "y")];
    assert!(refusal(&model(nodes, infinite, "y"), "y").contains("infinite"));
}

/// Reductions and products behind a transposition, as TensorFlow's exporters write them, move no elements, and are what loops compute.
#[test]
fn pixels_whose_channels_are_last_are_not_moved() {
    let perm = |ints: Vec<i64>| vec![proto::Attribute { name: "perm".into(), ints, ..Default::default() }];
    let turned = || proto::Node { attribute: perm(vec![0, 2, 3, 1]), ..node("Transpose", &["conv"], "last") };
    let reduces = |operator: &str, axes: Vec<i64>| {
        let keep = proto::Attribute { name: "keepdims".into(), i: 0, ..Default::default() };
        let axes = proto::Attribute { name: "axes".into(), ints: axes, ..Default::default() };
        proto::Node { attribute: vec![keep, axes], ..node(operator, &["relu"], "y") }
    };
    let mut random = Random::new(5);
    let x: Vec<f32> = (0..32).map(|_| random.real()).collect();
    let constants = || {
        let weights = tensor("w", &[3, 2, 1, 1], &[0.5, 1.0, -1.0, 0.25, 2.0, -0.5]);
        vec![weights, tensor("m", &[3, 2], &[1.0, 2.0, -1.0, 0.5, 0.25, -2.0])]
    };
    let conv = |k: usize, at: usize| {
        let w = [[0.5, 1.0], [-1.0, 0.25], [2.0, -0.5]][k];
        (w[0] * x[at] + w[1] * x[at + 16]).max(0.0)
    };
    let runs = |nodes: Vec<proto::Node>| {
        let mut model = model(nodes, constants(), "y");
        model.graph.as_mut().unwrap().initializer.remove(0);
        let mut graph = reads(&model).unwrap();
        let found = float::run(&graph, std::slice::from_ref(&x), &mut |_, _| {}).unwrap().remove(0);
        crate::simplify::simplify(&mut graph);
        let same = float::run(&graph, std::slice::from_ref(&x), &mut |_, _| {}).unwrap().remove(0);
        assert!(found.iter().zip(&same).all(|(a, b)| (a - b).abs() < 1e-5));
        let moves = |op: &Op| matches!(op, Op::Transpose { .. });
        (found, graph.nodes.into_iter().map(|node| node.op).filter(moves).count())
    };
    let relu = || node("Relu", &["last"], "relu");
    let near = |found: &[f32], expected: &[f32]| {
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{found:?}, {expected:?}");
    };
    let (means, moved) = runs(vec![turned(), relu(), reduces("ReduceMean", vec![1, 2])]);
    let mean = |k: usize| (0..16).map(|at| conv(k, at)).sum::<f32>() / 16.0;
    near(&means, &[mean(0), mean(1), mean(2)]);
    assert_eq!(moved, 0);
    let (greatest, moved) = runs(vec![turned(), relu(), reduces("ReduceMax", vec![3])]);
    let most: Vec<f32> = (0..16).map(|at| conv(0, at).max(conv(1, at)).max(conv(2, at))).collect();
    near(&greatest, &most);
    assert_eq!(moved, 0);
    let back = proto::Node { attribute: perm(vec![0, 3, 1, 2]), ..node("Transpose", &["product"], "y") };
    let (products, moved) = runs(vec![turned(), relu(), node("MatMul", &["relu", "m"], "product"), back]);
    let product = |n: usize, at: usize| {
        let m = [[1.0, 2.0], [-1.0, 0.5], [0.25, -2.0]];
        (0..3).map(|k| m[k][n] * conv(k, at)).sum::<f32>()
    };
    near(&products, &(0..2).flat_map(|n| (0..16).map(move |at| product(n, at))).collect::<Vec<f32>>());
    assert_eq!(moved, 0);
}

/// An attention of two heads over the 16 pixels of the convolution's 3 channels, as exporters write it, beside plain loops. Each head is
/// a part of channels, so only the rows that are multiplied by the shares are turned.
#[test]
fn products_of_two_matrices_are_the_heads_of_an_attention() {
    let mut random = Random::new(31);
    let (tokens, width, heads, each) = (16, 8, 2, 4);
    let matrices: Vec<Vec<f32>> = (0..3).map(|_| (0..3 * width).map(|_| random.real()).collect()).collect();
    let names = ["query", "key", "value"];
    let turned = |input: &str, order: Vec<i64>, output: &str| proto::Node {
        attribute: vec![proto::Attribute { name: "perm".into(), ints: order, ..Default::default() }],
        ..node("Transpose", &[input], output)
    };
    let mut nodes = vec![node("Reshape", &["conv", "flat"], "flatted"), turned("flatted", vec![0, 2, 1], "rows")];
    let mut constants = vec![
        integers("flat", &[1, 3, tokens as i64]),
        integers("split", &[1, tokens as i64, heads as i64, each as i64]),
        integers("joined", &[1, tokens as i64, width as i64]),
        tensor("root", &[], &[2.0]),
    ];
    for (name, matrix) in names.iter().zip(&matrices) {
        let [m, product, split] = ["m", "product", "split"].map(|what| format!("{name} {what}"));
        constants.push(tensor(&m, &[3, width as i64], matrix));
        nodes.push(node("MatMul", &["rows", &m], &product));
        nodes.push(node("Reshape", &[&product, "split"], &split));
        let order = if *name == "key" { vec![0, 2, 3, 1] } else { vec![0, 2, 1, 3] };
        nodes.push(turned(&split, order, name));
    }
    nodes.push(node("MatMul", &["query", "key"], "scores"));
    nodes.push(node("Div", &["scores", "root"], "scaled"));
    let axis = proto::Attribute { name: "axis".into(), i: -1, ..Default::default() };
    nodes.push(proto::Node { attribute: vec![axis], ..node("Softmax", &["scaled"], "shares") });
    nodes.push(node("MatMul", &["shares", "value"], "mixed"));
    nodes.push(turned("mixed", vec![0, 2, 1, 3], "back"));
    nodes.push(node("Reshape", &["back", "joined"], "y"));
    let (conv, y) = computed(nodes.clone(), constants.clone());
    // All channels of the convolution are the same.
    let of = |matrix: usize, token: usize, k: usize| {
        (0..3).map(|c| conv[c * 16 + token] * matrices[matrix][c * width + k]).sum::<f32>()
    };
    for (at, found) in y.iter().enumerate() {
        let (token, k) = (at / width, at % width);
        let head = k / each * each..k / each * each + each;
        let score = |other: usize| head.clone().map(|k| of(0, token, k) * of(1, other, k)).sum::<f32>() / 2.0;
        let shares: Vec<f32> = (0..tokens).map(|other| score(other).exp()).collect();
        let sum: f32 = shares.iter().sum();
        let expected: f32 = shares.iter().enumerate().map(|(other, share)| share / sum * of(2, other, k)).sum();
        assert!((found - expected).abs() < 1e-5 * (1.0 + expected.abs()), "element {at} is {found}, not {expected}");
    }
    let mut graph = reads(&model(nodes, constants, "y")).unwrap();
    crate::simplify::simplify(&mut graph);
    let count = |of: fn(&Op) -> bool| graph.nodes.iter().filter(|node| of(&node.op)).count();
    assert_eq!(count(|op| *op == Op::Product), 4);
    // One for each head, and one for the output.
    assert_eq!(count(|op| matches!(op, Op::Transpose { .. })), 3);
}

/// A softmax over the channels as arithmetic, with the largest element and without.
#[test]
fn exponentials_divided_by_their_sum_are_a_softmax() {
    let along = |operator: &str, input: &str, output: &str| proto::Node {
        attribute: vec![proto::Attribute { name: "axes".into(), ints: vec![1], ..Default::default() }],
        ..node(operator, &[input], output)
    };
    let scaled = || node("Mul", &["conv", "factors"], "scaled");
    let factors = || tensor("factors", &[3, 1, 1], &[0.5, -1.0, 2.0]);
    for largest in [false, true] {
        let from = if largest { "less" } else { "scaled" };
        let mut nodes = vec![scaled()];
        if largest {
            nodes.push(along("ReduceMax", "scaled", "most"));
            nodes.push(node("Sub", &["scaled", "most"], "less"));
        }
        nodes.push(node("Exp", &[from], "exp"));
        nodes.push(proto::Node { attribute: Vec::new(), ..node("ReduceSum", &["exp", "axis"], "sum") });
        nodes.push(node("Div", &["exp", "sum"], "y"));
        let constants = vec![factors(), integers("axis", &[1])];
        let (conv, y) = computed(nodes.clone(), constants.clone());
        for (at, found) in y.iter().enumerate() {
            let exp = |c: usize| ([0.5, -1.0, 2.0][c] * conv[c * 16 + at % 16]).exp();
            let expected = exp(at / 16) / (exp(0) + exp(1) + exp(2));
            assert!((found - expected).abs() < 1e-5, "element {at} is {found}, not {expected}");
        }
        let mut graph = reads(&model(nodes, constants, "y")).unwrap();
        crate::simplify::simplify(&mut graph);
        crate::simplify::prune(&mut graph);
        let ops: Vec<&str> = graph.nodes.iter().map(|node| node.op.name()).collect();
        assert!(ops.contains(&"Softmax") && !ops.contains(&"Exp") && !ops.contains(&"Sub"), "{ops:?}");
    }
}

/// ONNX Runtime's quantized average of a sequence.
#[test]
fn a_quantized_average_may_have_one_line() {
    let bytes = |name: &str, value: u8| proto::Tensor {
        data_type: 2,
        ..proto::Tensor { raw_data: vec![value].into(), ..tensor(name, &[], &[]) }
    };
    let nodes = vec![
        node("Reshape", &["conv", "line"], "flat"),
        node("QuantizeLinear", &["flat", "scale", "zero"], "q"),
        proto::Node {
            domain: "com.microsoft".into(),
            ..node("QLinearGlobalAveragePool", &["q", "scale", "zero", "scale", "zero"], "mean")
        },
        node("DequantizeLinear", &["mean", "scale", "zero"], "y"),
    ];
    let constants = vec![integers("line", &[1, 3, 16]), tensor("scale", &[], &[0.02]), bytes("zero", 128)];
    let (conv, y) = computed(nodes, constants);
    let mean = conv[..16].iter().sum::<f32>() / 16.0;
    assert!(y.len() == 3 && y.iter().all(|y| (y - mean).abs() < 0.03), "{y:?}, {mean}");
}

/// What a constant condition replaces by an infinite number has no share of the softmax behind.
#[test]
fn a_choice_of_an_infinite_constant_is_a_mask() {
    let condition = proto::Tensor {
        data_type: 9,
        ..proto::Tensor { raw_data: vec![0, 1, 0].into(), ..tensor("masked", &[1, 3, 1, 1], &[]) }
    };
    let nodes = vec![node("Where", &["masked", "least", "conv"], "y")];
    let (conv, y) = computed(nodes, vec![condition, tensor("least", &[], &[f32::NEG_INFINITY])]);
    for (at, (found, conv)) in y.iter().zip(&conv).enumerate() {
        let expected = if at / 16 == 1 { f32::NEG_INFINITY } else { *conv };
        assert!(found.to_bits() == expected.to_bits(), "element {at} is {found}, not {expected}");
    }
}

#[test]
fn products_of_two_matrices_that_do_not_fit_are_refused() {
    let shapes = |a: &[i64], b: &[i64]| {
        let nodes = vec![
            node("Reshape", &["conv", "first"], "left"),
            node("Reshape", &["conv", "second"], "right"),
            node("MatMul", &["left", "right"], "y"),
        ];
        refusal(&model(nodes, vec![integers("first", a), integers("second", b)], "y"), "y")
    };
    for (a, b) in
        [(&[1, 3, 16][..], &[1, 3, 16][..]), (&[2, 3, 8], &[3, 8, 2]), (&[48], &[48, 1]), (&[16, 3, 1], &[1, 3, 16])]
    {
        let error = shapes(a, b);
        assert!(error.contains("both computed by the network"), "{a:?} by {b:?}: {error}");
    }
}

/// What operator sets before 7 have otherwise computes the same as what they have in common with later ones.
#[test]
fn old_operator_sets_are_read() {
    let attribute = |name: &str| proto::Attribute { name: name.into(), ..Default::default() };
    let int = |name: &str, i: i64| proto::Attribute { i, ..attribute(name) };
    let float = |name: &str, f: f32| proto::Attribute { f, ..attribute(name) };
    let ints = |name: &str, ints: &[i64]| proto::Attribute { ints: ints.into(), ..attribute(name) };
    let with = |attribute: Vec<proto::Attribute>, node: proto::Node| proto::Node { attribute, ..node };
    let x: Vec<f32> = (0..32).map(|k| (k as f32 - 16.0) / 10.0).collect();
    let conv: Vec<f32> = (0..48).map(|k| x[k % 16] + x[k % 16 + 16]).collect();
    let runs = |version: i64, node: proto::Node, constants: Vec<proto::Tensor>| {
        let mut model = model(vec![node], constants, "y");
        model.opset_import[0].version = version;
        let graph = reads(&model)?;
        Ok::<_, Failure>(float::run(&graph, std::slice::from_ref(&x), &mut |_, _| {}).unwrap().remove(0))
    };
    let near = |found: Vec<f32>, expected: Vec<f32>| {
        assert_eq!(found.len(), expected.len());
        assert!(
            found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5 * (1.0 + b.abs())),
            "{found:?}, {expected:?}"
        );
    };
    let c = [1.0, -2.0, 0.5];
    let per_channel = |f: &dyn Fn(f32, f32) -> f32| (0..48).map(|k| f(conv[k], c[k / 16])).collect::<Vec<f32>>();
    // One value per channel, along axis 1; one per line of each channel, along axes 1 and 2; and the last axes without an axis.
    let along = |axis: i64| vec![int("broadcast", 1), int("axis", axis)];
    let operand = || vec![tensor("c", &[3], &c)];
    near(runs(6, with(along(1), node("Add", &["conv", "c"], "y")), operand()).unwrap(), per_channel(&|a, b| a + b));
    near(runs(1, with(along(-3), node("Mul", &["conv", "c"], "y")), operand()).unwrap(), per_channel(&|a, b| a * b));
    let lines: Vec<f32> = (0..12).map(|k| k as f32 / 4.0).collect();
    let found = runs(6, with(along(1), node("Sub", &["conv", "l"], "y")), vec![tensor("l", &[3, 4], &lines)]);
    near(found.unwrap(), (0..48).map(|k| conv[k] - lines[k / 4]).collect());
    let last = with(vec![int("broadcast", 1)], node("Add", &["conv", "l"], "y"));
    let found = runs(6, last, vec![tensor("l", &[4], &lines[..4])]);
    near(found.unwrap(), (0..48).map(|k| conv[k] + lines[k % 4]).collect());
    let found = runs(6, with(along(2), node("Add", &["conv", "c"], "y")), operand());
    assert!(found.unwrap_err().to_string().contains("\"y\""));
    let found = runs(6, with(along(3), node("Add", &["conv", "l"], "y")), vec![tensor("l", &[3, 4], &lines)]);
    assert!(found.unwrap_err().to_string().contains("an operand [3, 4] along axis 3 of [1, 3, 4, 4]"));
    // In later sets these attributes do not exist.
    let found = runs(7, with(along(1), node("Add", &["conv", "c"], "y")), operand());
    assert!(found.is_err());

    let statistics = || {
        let four = [("s", [1.0, 2.0, 3.0]), ("b", c), ("m", [0.5, 0.0, -0.5]), ("v", [1.0, 4.0, 0.25])];
        four.map(|(name, values)| tensor(&format!("{name}1"), &[3], &values)).to_vec()
    };
    let normalization = || node("BatchNormalization", &["conv", "s1", "b1", "m1", "v1"], "y");
    let expected = |k: usize| {
        let at = k / 16;
        (conv[k] - [0.5, 0.0, -0.5][at]) / ([1.0f32, 4.0, 0.25][at] + 1e-5).sqrt() * (at + 1) as f32 + c[at]
    };
    let found = runs(6, with(vec![int("is_test", 1)], normalization()), statistics()).unwrap();
    near(found, (0..48).map(expected).collect());
    let error = runs(6, normalization(), statistics()).unwrap_err().to_string();
    assert!(error.contains("is_test is not set"), "{error}");
    // Statistics of each element.
    let each = |name: &str, f: &dyn Fn(usize) -> f32| tensor(name, &[48], &(0..48).map(f).collect::<Vec<f32>>());
    let constants = vec![
        each("s1", &|k| k as f32),
        each("b1", &|k| 1.0 - k as f32),
        each("m1", &|k| k as f32 / 8.0),
        each("v1", &|_| 1.0),
    ];
    let apart = with(vec![int("spatial", 0), float("epsilon", 0.0)], normalization());
    let found = runs(7, apart, constants).unwrap();
    near(found, (0..48).map(|k| (conv[k] - k as f32 / 8.0) * k as f32 + 1.0 - k as f32).collect());

    let found = runs(6, with(vec![float("min", -0.5), float("max", 0.5)], node("Clip", &["conv"], "y")), vec![]);
    near(found.unwrap(), conv.iter().map(|x| x.clamp(-0.5, 0.5)).collect());
    near(runs(1, with(vec![ints("shape", &[3, -1])], node("Reshape", &["conv"], "y")), vec![]).unwrap(), conv.clone());
    near(runs(6, with(vec![int("is_test", 1)], node("Dropout", &["conv"], "y")), vec![]).unwrap(), conv.clone());
    let to = proto::Attribute { s: "FLOAT".into(), ..attribute("to") };
    near(runs(1, with(vec![to], node("Cast", &["conv"], "y")), vec![]).unwrap(), conv.clone());
    let twice = with(vec![float("width_scale", 2.0), float("height_scale", 1.0)], node("Upsample", &["conv"], "y"));
    near(runs(1, twice, vec![]).unwrap(), (0..96).map(|k| conv[k / 2]).collect());
    let tile = node("Tile", &["conv", "count", "axis"], "y");
    let found = runs(1, tile, vec![integers("count", &[2]), integers("axis", &[1])]).unwrap();
    near(found, [&conv[..], &conv].concat());
    let pads = with(vec![ints("paddings", &[0, 1, 0, 0, 0, 0, 0, 0])], node("Pad", &["conv"], "y"));
    near(runs(1, pads, vec![]).unwrap(), [&[0.0; 16][..], &conv].concat());
    let norm = with(vec![float("p", 1.0)], node("GlobalLpPool", &["conv"], "y"));
    near(runs(1, norm, vec![]).unwrap(), conv.chunks(16).map(|x| x.iter().map(|x| x.abs()).sum()).collect());

    // Experimental operators, which later sets do not have.
    let bias = proto::Attribute { floats: c.to_vec(), ..attribute("bias") };
    let scaler = with(vec![bias, float("scale", 2.0)], node("ImageScaler", &["conv"], "y"));
    near(runs(7, scaler, vec![]).unwrap(), per_channel(&|a, b| 2.0 * a + b));
    let both = || vec![float("alpha", 2.0), float("beta", 0.5)];
    near(
        runs(6, with(both(), node("Affine", &["conv"], "y")), vec![]).unwrap(),
        conv.iter().map(|x| 2.0 * x + 0.5).collect(),
    );
    let expected = conv.iter().map(|x| 2.0 * (0.5 * x).tanh()).collect();
    near(runs(6, with(both(), node("ScaledTanh", &["conv"], "y")), vec![]).unwrap(), expected);
    let expected = conv.iter().map(|x| 2.0 * (0.5 * x).exp().ln_1p()).collect();
    near(runs(6, with(both(), node("ParametricSoftplus", &["conv"], "y")), vec![]).unwrap(), expected);
    let crop = with(vec![ints("border", &[1, 2, 0, 0]), ints("scale", &[2, 3])], node("Crop", &["conv"], "y"));
    let expected = (0..18).map(|k| conv[k / 6 * 16 + (2 + k % 6 / 3) * 4 + 1 + k % 3]).collect();
    near(runs(6, crop, vec![]).unwrap(), expected);
    let crop = with(vec![ints("border", &[i64::MAX; 4])], node("Crop", &["conv"], "y"));
    assert!(runs(6, crop, vec![]).unwrap_err().to_string().contains("\"y\""));
}

/// Products with constants in the notation of sums, in any order of dimensions.
#[test]
fn sums_of_products_are_products_of_matrices() {
    let equation = |equation: &str, inputs: [&str; 2]| {
        let text = proto::Attribute { name: "equation".into(), s: equation.to_owned().into(), ..Default::default() };
        proto::Node { attribute: vec![text], ..node("Einsum", &inputs, "y") }
    };
    let two = || vec![tensor("m", &[3, 2], &[1.0, 2.0, -1.0, 0.5, 0.25, -2.0])];
    let near = |found: &[f32], expected: &[f32]| {
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4), "{found:?}, {expected:?}");
    };
    let m = |k: usize, n: usize| [[1.0, 2.0], [-1.0, 0.5], [0.25, -2.0]][k][n];
    let (conv, y) = computed(vec![equation("bchw, cd -> bhwd", ["conv", "m"])], two());
    let sum = |at: usize, n: usize| (0..3).map(|k| conv[k * 16 + at] * m(k, n)).sum::<f32>();
    near(&y, &(0..32).map(|at| sum(at / 2, at % 2)).collect::<Vec<_>>());
    let (_, y) = computed(vec![equation("cd,bchw->bdwh", ["m", "conv"])], two());
    near(&y, &(0..32).map(|at| sum(at % 4 * 4 + at / 4 % 4, at / 16)).collect::<Vec<_>>());
    // Two dimensions are summed.
    let values: Vec<f32> = (0..24).map(|k| (k as f32).sin()).collect();
    let (conv, y) = computed(vec![equation("bchw,dhc->bdw", ["conv", "v"])], vec![tensor("v", &[2, 4, 3], &values)]);
    let of = |d: usize, w: usize| {
        (0..12).map(|at| conv[at / 4 * 16 + at % 4 * 4 + w] * values[d * 12 + at % 4 * 3 + at / 4]).sum::<f32>()
    };
    near(&y, &(0..8).map(|at| of(at / 4, at % 4)).collect::<Vec<_>>());
    for wrong in ["bchw,cd", "bchw,cd->bhwc", "bcwh,cc->bwh", "b...,cd->bd", "bchw,cd->bhwde", "bch,cd->bhd"] {
        assert!(refusal(&model(vec![equation(wrong, ["conv", "m"])], two(), "y"), "y").contains("equation"));
    }
}
