// SPDX-License-Identifier: MIT OR Apache-2.0

//! Random graphs of all operators, for every configuration. The built-in model's results of the loadable must equal
//! those of plain loops over the lowered steps, and be near to the values of the graph in real numbers.
//!
//! `NVDLA_GRAPHS` sets how many graphs are tried, `NVDLA_SEED` the first one's number. With `NVDLA_DEVICE=rtl:PROGRAM` the loadables of
//! that simulator's configuration run on it in the model's place.

use nvdla_compiler::bounds::bounds;
use nvdla_compiler::calibrate::{complete, of_model, Measured, Method};
use nvdla_compiler::compiler::Compiler;
use nvdla_compiler::evaluate::loss::Loss;
use nvdla_compiler::evaluate::{budget, integers};
use nvdla_compiler::float;
use nvdla_compiler::import::model::Model;
use nvdla_compiler::ir::{
    Binary, BlockOrder, Convolution, Coordinates, Graph, Op, PadMode, Padding, Pool, PoolKind, Quantization, Range,
    Ranges, Resize, ResizeMode, Rounding, TensorId, Unary,
};
use nvdla_compiler::net::step::{Kind, Step};
use nvdla_compiler::options::{Bytes, Optimize, Options, Winograd};
use nvdla_compiler::output::compiled::Compiled;
use nvdla_compiler::passes::strided;
use nvdla_compiler::pipeline::compile;
use nvdla_compiler::quantize::Granularity;
use nvdla_compiler::simplify::{simplify, simplify_ends};
use nvdla_runtime::half;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::npy;
use nvdla_runtime::operations::races::races;
use nvdla_runtime::operations::{operations, NetworkOperation};
use nvdla_runtime::profile::Conditions;
use nvdla_runtime::session::{Completed, RunOptions, Session};
use nvdla_tests::case::model_or_rtl;
use nvdla_tests::graphs::{random_graph, ranges, ranges_to, Builder};
use nvdla_tests::random::{for_each_graph, Random};
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_MEDIUM_512, NV_SMALL, NV_SMALL_256};
use nvdla_uapi::desc::Operation;
use nvdla_uapi::reg::values::Precision;

/// Bytes of a tensor as the loadable declares it, from values channel by channel.
fn pack(values: &[i8], [c, h, w]: [u32; 3], atom: u32, components: Option<&[u32]>) -> Vec<u8> {
    let (line, pixel) = match components {
        Some([_]) => (w.next_multiple_of(32), 1),
        Some(_) => ((w * 4).next_multiple_of(32), 4),
        None => (0, 0),
    };
    let size = if components.is_some() { line * h } else { c.div_ceil(atom) * atom * h * w };
    // Bytes that belong to no element must not affect the result.
    let mut bytes = vec![0x5a; size as usize];
    for k in 0..c {
        for y in 0..h {
            for x in 0..w {
                let at = match components {
                    Some(order) => y * line + x * pixel + order[k as usize],
                    None => ((k / atom * h + y) * w + x) * atom + k % atom,
                };
                bytes[at as usize] = values[((k * h + y) * w + x) as usize] as u8;
            }
        }
    }
    bytes
}

fn unpack(bytes: &[u8], [c, h, w]: [u32; 3], atom: u32, wide: bool) -> Vec<i16> {
    let lanes = if wide { atom / 2 } else { atom };
    let at = |k: u32, y: u32, x: u32| ((k / lanes * h + y) * w + x) * atom + k % lanes * (atom / lanes);
    let value =
        |at: usize| if wide { i16::from_le_bytes([bytes[at], bytes[at + 1]]) } else { (bytes[at] as i8).into() };
    (0..c * h * w).map(|n| value(at(n / (h * w), n / w % h, n % w) as usize)).collect()
}

/// Runs a compiled network on random inputs, and compares every tensor that operations write, and every output, with the plain
/// loops. Returns the number of elements.
fn check(compiled: &Compiled, config: &'static Config, random: &mut Random, name: &str) -> usize {
    let net = &compiled.steps.net;
    if std::env::var_os("NVDLA_SHOW").is_some() {
        for (step, numbers) in net.steps.iter().zip(&compiled.steps.numbers) {
            let shapes: Vec<_> = step.reads().map(|id| (id, net.tensors[id].shape)).collect();
            let kind = if let Kind::Convolution(conv) = &step.kind {
                format!("{:?}", conv.op)
            } else {
                format!("{:?}", step.kind)
            };
            println!(
                "{kind} of {shapes:?} -> {} {:?}: {:?}; {:?}",
                step.output, net.tensors[step.output].shape, step.post_ops, numbers.stages
            );
        }
    }
    let loadable = Loadable::from_bytes(compiled.loadable.clone()).unwrap();
    let images: Vec<bool> = loadable
        .inputs()
        .map(|memory| {
            let format = loadable.tensor(memory.tensor_desc_id()).unwrap().pixel_format();
            use nvdla_runtime::loadable::PixelFormat;
            !matches!(format, PixelFormat::FEATURE | PixelFormat::FEATURE_X8)
        })
        .collect();
    for (memory, &id) in loadable.outputs().zip(&net.outputs) {
        let tensor = loadable.tensor(memory.tensor_desc_id()).unwrap();
        let shape = [tensor.c(), tensor.h(), tensor.w()].map(|extent| extent as u32);
        assert_eq!(shape, net.tensors[id].shape, "{name} on {}: \"{}\"", config.name, net.tensors[id].name);
    }
    let races = races(&loadable).unwrap();
    assert!(races.pairs.is_empty(), "{name} on {}: {:?}", config.name, races.pairs);
    let mut session = Session::new(loadable, model_or_rtl(config)).unwrap();
    let hour = Some(std::time::Duration::from_secs(3600));
    let mut count = 0;
    for run in 0..2 {
        let mut values = Vec::new();
        for (index, &id) in net.inputs.iter().enumerate() {
            let shape = net.tensors[id].shape;
            let most = if compiled.bytes[index] == Bytes::Eight { 256 } else { 128 };
            let elements: Vec<i8> = (0..net.tensors[id].elements()).map(|_| random.below(most) as u8 as i8).collect();
            let components = if shape[0] == 1 { vec![0] } else { vec![2, 1, 0] };
            let bytes = pack(&elements, shape, config.memory_atomic, images[index].then_some(&components[..]));
            session.set_input(index, &bytes).unwrap();
            values.push(elements);
        }
        let mut buffers = compiled.layout.buffers();
        let mut keep = |completed: Completed<'_>| {
            compiled.layout.keep(&completed, &mut buffers);
            Ok(())
        };
        session
            .run_with(RunOptions {
                on_operation: Some(&mut keep),
                timeout: hour,
                run_timeout: hour,
                ..RunOptions::default()
            })
            .unwrap_or_else(|error| panic!("{name} on {}: {error}", config.name));
        // A tensor with channels in a picture's order is given as it lies in memory.
        let expected = integers::evaluate(&compiled.steps, &values);
        let given = |(index, &id): (usize, &usize)| {
            let tensor = &net.tensors[id];
            // The emulator writes half precision with atoms of 32 bytes on every configuration.
            let atom = if tensor.half { 32 } else { config.memory_atomic };
            (id, unpack(session.output(index).unwrap(), tensor.shape, atom, tensor.wide || tensor.half))
        };
        for (id, found) in compiled.layout.tensors(&buffers).chain(net.outputs.iter().enumerate().map(given)) {
            let tensor = &net.tensors[id];
            let expected = expected[id].as_ref().unwrap();
            if let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
                panic!(
                    "{name} on {}, run {run}: element {at} of \"{}\" ({:?}) is {}, not {}",
                    config.name, tensor.name, tensor.shape, found[at], expected[at]
                );
            }
            count += found.len();
        }
    }
    count
}

#[test]
fn random_graphs_are_exact() {
    let (mut compiled, mut refused, mut elements) = (0, 0, 0);
    for_each_graph(60, |seed| {
        let config = Config::ALL[seed as usize % Config::ALL.len()];
        let (graph, inputs) = random_graph(seed, config);
        graph.check().unwrap();
        let bytes = if seed % 2 == 0 { Bytes::Seven } else { Bytes::Eight };
        let winograd = Some(if seed % 3 == 0 { Winograd::Always } else { Winograd::Faster });
        let options = Options { inputs, bytes, winograd, ..Options::new(config) };
        match compile(&graph, &ranges(&graph), &options) {
            Ok(result) => {
                elements += check(&result, config, &mut Random::new(seed + 1000), &format!("graph {seed}"));
                compiled += 1;
            }
            Err(error) => {
                println!("graph {seed} on {}: {error}", config.name);
                refused += 1;
            }
        }
    });
    println!("{compiled} graphs compiled, {refused} refused, {elements} elements compared");
    assert!(refused * 10 <= compiled, "{refused} refused, {compiled} compiled");
}

/// Whether two graphs compute the same in real numbers, but for that part of the largest value. Values that are not finite are equal
/// if their bits are.
fn compute_the_same(graphs: [&Graph; 2], inputs: &[Vec<f32>], part: f32) -> bool {
    let [found, expected] = graphs.map(|graph| float::run(graph, inputs, &mut |_, _| {}).unwrap());
    found.iter().zip(&expected).all(|(found, expected)| {
        let largest = expected.iter().fold(1e-3f32, |largest, value| largest.max(value.abs()));
        found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= part * largest || a.to_bits() == b.to_bits())
    })
}

/// Equalised graphs compute the same function, and the ranges of their activations are those that follow from the factors.
#[test]
fn equalised_graphs_compute_the_same() {
    let mut changed = 0;
    let count = for_each_graph(60, |seed| {
        let (graph, _) = random_graph(seed, &NV_FULL);
        let mut random = Random::new(seed + 4000);
        let values = |id: &TensorId| (0..graph.tensor(*id).elements()).map(|_| random.real()).collect();
        let inputs: Vec<Vec<f32>> = graph.inputs.iter().map(values).collect();
        // A graph whose values are not finite has no ranges.
        let Ok(measured) = Measured::new(&graph, [Ok(inputs.clone())]) else { return };
        let Some((equalized, expected)) = measured.equalized(&graph) else { return };
        equalized.check().unwrap();
        let near = |a: f32, b: f32, largest: f32| (a - b).abs() <= 1e-3 * largest;
        assert!(compute_the_same([&equalized, &graph], &inputs, 1e-3), "graph {seed} computes other values");
        let found = Measured::new(&equalized, [Ok(inputs.clone())]).unwrap().ranges(Method::Max);
        let expected = expected.ranges(Method::Max);
        for node in &equalized.nodes {
            let ranges = [&found, &expected].map(|ranges| *ranges.get(node.output).unwrap());
            let [found, expected] = ranges;
            let largest = found.scale * 127.0;
            assert!(
                near(found.min, expected.min, largest) && near(found.max, expected.max, largest),
                "graph {seed}: \"{}\" has {found:?}, expected {expected:?}",
                node.name
            );
        }
        changed += 1;
    });
    println!("{changed} graphs are equalised");
    assert!(changed * 4 > count, "only {changed} graphs are equalised");
}

/// Graphs with two convolutions of 1 x 1 in strides at their end, from which strides move up as far as they can, compute the same.
#[test]
fn graphs_whose_strides_move_up_compute_the_same() {
    let mut changed = 0;
    let count = for_each_graph(60, |seed| {
        let (mut graph, _) = random_graph(seed, &NV_FULL);
        let stride = [1 + seed as usize % 3, 2];
        let op = Convolution { group: 1, kernel: [1; 2], stride, dilation: [1; 2], padding: Padding::default() };
        let last = graph.outputs[0];
        let channels = graph.shape(last)[1];
        let weights = (0..2 * channels).map(|k| (k % 7) as f32 / 7.0 - 0.4).collect::<Vec<_>>();
        let weights = graph.add_constant("the last weights", &[2, channels, 1, 1], weights).unwrap();
        let mut end = |name: &str| graph.add(name, Op::Convolution(op), &[last, weights], name).unwrap();
        graph.outputs = [end("main"), end("shortcut")].to_vec();
        let mut slow = false;
        let always = |_: &Graph| {
            slow = !slow;
            Some(u64::from(!slow))
        };
        let Some((moved, _)) = strided::move_up(&graph, &Ranges::new(), always) else { return };
        moved.check().unwrap();
        let mut random = Random::new(seed + 5000);
        let values = |id: &TensorId| (0..graph.tensor(*id).elements()).map(|_| random.real()).collect();
        let inputs: Vec<Vec<f32>> = graph.inputs.iter().map(values).collect();
        assert!(compute_the_same([&moved, &graph], &inputs, 1e-4), "graph {seed} computes other values");
        changed += 1;
    });
    println!("strides move up in {changed} graphs");
    assert!(changed * 4 > count, "strides move up in {changed} graphs only");
}

/// Mixed precision: a part of the layers in int16. A graph that compiles in int8 also compiles in mixed precision.
#[test]
fn random_graphs_in_mixed_precision_are_exact() {
    let (mut elements, mut wide_steps) = (0, 0);
    let count = for_each_graph(60, |seed| {
        let (graph, inputs) = random_graph(seed, &NV_FULL);
        let bytes = if seed % 2 == 0 { Bytes::Seven } else { Bytes::Eight };
        let winograd = Some(if seed % 3 == 0 { Winograd::Always } else { Winograd::Faster });
        let mut random = Random::new(seed + 3000);
        let one_in = random.between(1, 4);
        let wide = (0..graph.tensors.len()).filter(|_| random.one_in(one_in)).map(TensorId).collect();
        let options = Options { inputs, bytes, winograd, wide, ..Options::new(&NV_FULL) };
        let narrow = Options { wide: std::collections::HashSet::new(), ..options.clone() };
        let ranges = ranges(&graph);
        match compile(&graph, &ranges, &options) {
            Ok(compiled) => {
                wide_steps += compiled.report.steps.iter().filter(|step| step.precision == "int16").count();
                elements += check(&compiled, &NV_FULL, &mut Random::new(seed + 1000), &format!("graph {seed}"));
            }
            Err(error) => {
                let narrow = compile(&graph, &ranges, &narrow);
                assert!(narrow.is_err(), "graph {seed}: only mixed precision fails: {error}");
            }
        }
    });
    println!("{wide_steps} steps in int16, {elements} elements compared");
    assert!(wide_steps > count, "{wide_steps} steps in int16");
}

/// Runs of steps in bands of lines: the results are those of whole steps, and the pool is smaller. On nv_full some layers have
/// int16.
#[test]
fn random_graphs_in_bands_are_exact() {
    let (mut divided, mut elements) = (0, 0);
    let count = for_each_graph(60, |seed| {
        let config = Config::ALL[seed as usize % Config::ALL.len()];
        let (graph, inputs) = random_graph(seed, config);
        let winograd = Some(if seed % 3 == 0 { Winograd::Always } else { Winograd::Faster });
        let mut random = Random::new(seed + 3000);
        let wide = (0..graph.tensors.len()).filter(|_| config.name == "nv_full" && random.one_in(3)).map(TensorId);
        let wide = wide.collect();
        let optimize = if seed % 4 == 0 { Optimize::Memory } else { Optimize::Pool(0) };
        let options = Options { inputs, winograd, wide, optimize, ..Options::new(config) };
        let whole = Options { optimize: Optimize::Time, ..options.clone() };
        let ranges = ranges(&graph);
        match compile(&graph, &ranges, &options) {
            Ok(compiled) => {
                let division = compiled.report.division.as_ref().unwrap();
                let in_bands = !division.runs.is_empty();
                assert_eq!(compiled.report.pool < division.pool, in_bands);
                assert!(compiled.report.pool <= division.pool);
                divided += usize::from(in_bands);
                elements += check(&compiled, config, &mut Random::new(seed + 1000), &format!("graph {seed}"));
            }
            Err(error) => {
                assert!(compile(&graph, &ranges, &whole).is_err(), "graph {seed}: only bands fail: {error}");
            }
        }
    });
    println!("{divided} graphs in bands, {elements} elements compared");
    assert!(divided * 4 > count, "{divided} graphs in bands");
}

/// Convolutions in as many bands of lines as possible, which share weights in the convolution buffer and are fetched ahead, with and
/// without SRAM, and with one scale per kernel or per layer: the results are the same.
#[test]
fn random_graphs_with_prefetch_are_exact() {
    let (mut bands, mut elements) = (0, 0);
    let count = for_each_graph(60, |seed| {
        let config = Config::ALL[seed as usize % Config::ALL.len()];
        let (graph, inputs) = random_graph(seed, config);
        let winograd = Some(if seed % 3 == 0 { Winograd::Always } else { Winograd::Faster });
        let mut random = Random::new(seed + 6000);
        let wide = (0..graph.tensors.len()).filter(|_| config.name == "nv_full" && random.one_in(3)).map(TensorId);
        let wide = wide.collect();
        let sram = if config.secondary_memif && random.one_in(2) { random.pick(&[4 << 10, 1 << 20]) } else { 0 };
        let granularity = random.pick(&[Granularity::Kernel, Granularity::Layer]);
        let options = Options { inputs, winograd, wide, sram, granularity, ..Options::new(config) };
        let ranges = ranges(&graph);
        let [divided, whole] = [Optimize::Prefetch, Optimize::Size]
            .map(|optimize| compile(&graph, &ranges, &Options { optimize, ..options.clone() }));
        match (divided, whole) {
            (Ok(divided), Ok(whole)) => {
                bands += (divided.report.operations.len() - whole.report.operations.len()) / 2;
                elements += check(&divided, config, &mut Random::new(seed + 1000), &format!("graph {seed}"));
            }
            (divided, whole) => {
                assert!(divided.is_err() && whole.is_err(), "graph {seed}: only one of them compiles");
            }
        }
    });
    println!("{bands} bands more than convolutions, {elements} elements compared");
    assert!(bands > count, "{bands} bands");
}

/// Tensors in SRAM of random sizes: the results are the same, and no estimate is longer. Some graphs are in bands, and on nv_full
/// some layers have int16.
#[test]
fn random_graphs_with_sram_are_exact() {
    let configs: Vec<&'static Config> = Config::ALL.into_iter().filter(|config| config.secondary_memif).collect();
    let (mut used, mut partly, mut elements) = (0, 0, 0);
    let count = for_each_graph(60, |seed| {
        let config = configs[seed as usize % configs.len()];
        let (graph, inputs) = random_graph(seed, config);
        let mut random = Random::new(seed + 5000);
        let wide = (0..graph.tensors.len()).filter(|_| config.name == "nv_full" && random.one_in(4)).map(TensorId);
        let wide = wide.collect();
        let optimize = random.pick(&[Optimize::Time, Optimize::Time, Optimize::Memory, Optimize::Pool(0)]);
        let sram = random.pick(&[256, 1 << 10, 4 << 10, 1 << 20]) + random.below(500) as u64;
        // A register that selects the memory is written too, which takes longer than it saves in most of these small graphs.
        let conditions = Conditions { register_write: random.pick(&[1.0, 1.0, 1.0, 100.0]), ..Conditions::default() };
        let options = Options { inputs, wide, optimize, sram, conditions, ..Options::new(config) };
        let ranges = ranges(&graph);
        match compile(&graph, &ranges, &options) {
            Ok(compiled) => {
                let report = compiled.report.sram.as_ref().unwrap();
                assert!(report.pool <= report.limit && report.limit == sram, "graph {seed}: {report:?}");
                assert!(report.cycles <= report.cycles_in_dram, "graph {seed}: {report:?}");
                let inside = compiled.report.buffers.iter().filter(|buffer| buffer.sram).count();
                used += usize::from(inside > 0);
                partly += usize::from(inside > 0 && inside < compiled.report.buffers.len());
                elements += check(&compiled, config, &mut Random::new(seed + 1000), &format!("graph {seed}"));
            }
            Err(error) => {
                let without = Options { sram: 0, ..options.clone() };
                assert!(compile(&graph, &ranges, &without).is_err(), "graph {seed}: only SRAM fails: {error}");
            }
        }
    });
    println!("{used} graphs use SRAM, {partly} of them for a part, {elements} elements compared");
    assert!(used * 3 > count, "{used} graphs use SRAM");
    assert!(partly * 10 > count, "{partly} graphs use SRAM for a part");
}

/// Several pictures per run: each has the outputs that it has alone, and all take less time than one after another.
#[test]
fn pictures_of_a_run_are_exact() {
    let (mut alone, mut together, mut shared, mut elements) = (0, 0, 0, 0);
    let count = for_each_graph(60, |seed| {
        let config = Config::ALL[seed as usize % Config::ALL.len()];
        let mut random = Random::new(seed + 7000);
        let (graph, inputs) = random_graph(seed, config);
        let pictures = random.between(2, 4) as u32;
        let winograd = Some(random.pick(&[Winograd::Never, Winograd::Faster, Winograd::Always]));
        let goals = [Optimize::Time, Optimize::Time, Optimize::Prefetch, Optimize::Size, Optimize::Pool(0)];
        let optimize = random.pick(&goals);
        let sram = if config.secondary_memif && random.one_in(3) { 8 << 10 } else { 0 };
        let wide = (0..graph.tensors.len()).filter(|_| config.name == "nv_full" && random.one_in(3)).map(TensorId);
        let wide = wide.collect();
        // Registers that say what is shared are written too, which takes longer than it saves in most of these small graphs.
        let conditions = Conditions { register_write: random.pick(&[1.0, 100.0]), ..Conditions::default() };
        let one = Options { inputs, winograd, wide, optimize, sram, conditions, ..Options::new(config) };
        let ranges = ranges(&graph);
        let all = compile(&graph, &ranges, &Options { pictures, ..one.clone() });
        match (compile(&graph, &ranges, &one), all) {
            (Ok(one), Ok(all)) => {
                alone += one.report.cycles * u64::from(pictures);
                together += all.report.cycles;
                let [compared, reuse] = pictures_of(&one, &all, config, seed);
                elements += compared;
                shared += usize::from(reuse > 0);
            }
            (one, all) => {
                let errors = [one, all].map(Result::err);
                assert!(errors.iter().all(Option::is_some), "graph {seed}: only one of them compiles: {errors:?}");
            }
        }
    });
    println!("{alone} cycles one after another, {together} together; {shared} graphs share weights; {elements} elements compared");
    assert!(together < alone);
    assert!(shared * 4 > count, "{shared} graphs share weights");
}

/// Weights that the convolution buffer does not hold are read once for all pictures: in blocks of kernels, also for cubes of a single
/// element.
#[test]
fn pictures_share_weights_that_the_buffer_does_not_hold() {
    for (config, channels) in [(&NV_SMALL, 128), (&NV_SMALL_256, 128), (&NV_FULL, 256)] {
        let mut builder = Builder::new("blocks", 9);
        let data = builder.graph.input("data", &[1, channels, 6, 6]).unwrap();
        let wide = windows(&mut builder, data, channels, [3, 3], 1);
        let kind = PoolKind::Average { count_include_pad: true };
        let pool = Pool::new(kind, [6; 2]);
        let mean = builder.add(Op::Pool(pool), &[wide]).unwrap();
        let output = windows(&mut builder, mean, 16 * channels, [1, 1], 1);
        builder.graph.outputs.push(output);
        let ranges = ranges(&builder.graph);
        // Memory that is slower than the multipliers.
        let conditions = Conditions { dram: 1.0, ..Conditions::default() };
        let one = Options { conditions, ..Options::new(config) };
        let [one, all] =
            [1, 3].map(|pictures| compile(&builder.graph, &ranges, &Options { pictures, ..one.clone() }).unwrap());
        let bytes = |compiled: &Compiled| compiled.report.operations.iter().map(|one| one.bytes).sum::<u64>();
        let (alone, together) = (bytes(&one), bytes(&all));
        assert!(together < 2 * alone, "{}: {together} bytes for 3 pictures, {alone} for one", config.name);
        let [_, reuse] = pictures_of(&one, &all, config, 9);
        assert!(reuse > 2 * 3, "{}: {reuse} convolutions take the weights of the one before", config.name);
    }
}

/// Runs a network with random pictures, one after another and together, and compares the outputs. Returns the number of elements, and
/// of convolutions that use the weights of the one before.
fn pictures_of(one: &Compiled, all: &Compiled, config: &'static Config, seed: u64) -> [usize; 2] {
    let open = |compiled: &Compiled| Loadable::from_bytes(compiled.loadable.clone()).unwrap();
    let loadable = open(all);
    let races = races(&loadable).unwrap();
    assert!(races.pairs.is_empty(), "graph {seed} on {}: {:?}", config.name, races.pairs);
    let reuses = |of: &NetworkOperation| matches!(&of.operation, Operation::Conv(op) if op.weight_reuse);
    let reuse = operations(&loadable).unwrap().iter().filter(|of| reuses(of)).count();
    let mut alone = Session::new(open(one), model_or_rtl(config)).unwrap();
    let mut together = Session::new(loadable, model_or_rtl(config)).unwrap();
    let mut random = Random::new(seed + 1000);
    let (mut given, mut expected) = (vec![Vec::new(); alone.inputs().len()], vec![Vec::new(); alone.outputs().len()]);
    for _ in 0..all.report.pictures {
        for (index, given) in given.iter_mut().enumerate() {
            let [n, c, h, w] = alone.inputs().nth(index).unwrap().shape();
            let values: Vec<f32> = (0..n * c * h * w).map(|_| random.below(128) as f32).collect();
            alone.set_input_nchw(index, &values, 1.0).unwrap();
            given.extend(values);
        }
        alone.run().unwrap();
        for (index, expected) in expected.iter_mut().enumerate() {
            expected.extend(alone.output_nchw(index, 1.0).unwrap());
        }
    }
    for (index, given) in given.iter().enumerate() {
        together.set_input_nchw(index, given, 1.0).unwrap();
    }
    together.run().unwrap();
    for (index, expected) in expected.iter().enumerate() {
        let found = together.output_nchw(index, 1.0).unwrap();
        assert_eq!(found.len(), expected.len());
        let other = found.iter().zip(expected).position(|(found, expected)| found.to_bits() != expected.to_bits());
        assert_eq!(other, None, "graph {seed} on {}: output {index} of {} pictures", config.name, all.report.pictures);
    }
    [expected.iter().map(Vec::len).sum(), reuse]
}

/// A graph of these operators, one behind the other, with convolutions of random weights: exact on all configurations.
fn chain(input: [usize; 3], add: impl Fn(&mut Builder, TensorId) -> TensorId) {
    for config in Config::ALL {
        let mut builder = Builder::new("chain", 7);
        let [c, h, w] = input;
        let data = builder.graph.input("data", &[1, c, h, w]).unwrap();
        let last = add(&mut builder, data);
        builder.graph.outputs.push(last);
        let compiled = compile(&builder.graph, &ranges(&builder.graph), &Options::new(config)).unwrap();
        check(&compiled, config, &mut Random::new(8), "a chain");
    }
}

/// The outputs of a graph without samples, in fp16 on the model of nv_full.
fn in_fp16(graph: &Graph, inputs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let options = Options { precision: Precision::Fp16, ..Options::new(&NV_FULL) };
    let compiled = compile(graph, &Ranges::new(), &options).unwrap();
    let preprocess = vec![None; inputs.len()];
    nvdla_compiler::evaluate::measure::Measured::new(&compiled, &preprocess).unwrap().run(inputs).unwrap()
}

/// The outputs of a graph of one input in fp16, beside those in real numbers, in decibels.
fn fp16_decibels(graph: &Graph, seed: u64) -> f64 {
    let mut random = Random::new(seed);
    let rounded = |random: &mut Random| half::to_f32(half::from_f32(random.real()));
    let values: Vec<f32> = (0..graph.tensor(graph.inputs[0]).elements()).map(|_| rounded(&mut random)).collect();
    let expected = float::run(graph, std::slice::from_ref(&values), &mut |_, _| {}).unwrap();
    let mut loss = Loss::default();
    in_fp16(graph, &[values]).iter().zip(&expected).for_each(|(found, expected)| loss.add(found, expected));
    loss.decibels()
}

/// A graph as [`chain`] compiles it is near to real numbers in fp16, too.
fn exact_and_near(input: [usize; 3], add: impl Fn(&mut Builder, TensorId) -> TensorId) {
    let mut builder = Builder::new("near", 7);
    let [c, h, w] = input;
    let data = builder.graph.input("data", &[1, c, h, w]).unwrap();
    let last = add(&mut builder, data);
    builder.graph.outputs.push(last);
    let decibels = fp16_decibels(&builder.graph, 9);
    assert!(decibels > 50.0, "{decibels} dB in fp16");
    chain(input, add);
}

/// Poolings of elements that are apart: by strides that share factors with the distance, with padding, and with windows behind the
/// last one of the output.
#[test]
fn dilated_poolings_are_exact() {
    let cases = [
        (PoolKind::Max, [3, 3], [1, 1], [2, 2], [2; 4], [8, 12, 13]),
        (PoolKind::Max, [2, 2], [2, 2], [2, 2], [0; 4], [5, 12, 12]),
        (PoolKind::Max, [3, 3], [3, 2], [2, 4], [2, 4, 2, 4], [16, 20, 21]),
        (PoolKind::Max, [10, 3], [1, 1], [2, 1], [4, 1, 4, 1], [8, 24, 9]),
        (PoolKind::Max, [2, 2], [1, 1], [2, 3], [0, 0, 2, 3], [4, 7, 9]),
        (PoolKind::Average { count_include_pad: false }, [3, 2], [1, 1], [2, 3], [2, 1, 2, 0], [6, 14, 15]),
    ];
    for (kind, kernel, stride, dilation, [top, left, bottom, right], input) in cases {
        exact_and_near(input, |builder, data| {
            let pool = Pool { kind, kernel, stride, dilation, padding: Padding { top, left, bottom, right } };
            let made = builder.convolution_1x1(data, input[0]).unwrap();
            builder.add(Op::Pool(pool), &[made]).unwrap()
        });
    }
}

/// Resizes by factors that are no whole numbers, to smaller sizes, and with four elements along each axis.
#[test]
fn resizes_whose_weights_repeat_are_exact() {
    let half = Coordinates::HalfPixel;
    let cases = [
        (ResizeMode::Cubic(-0.75), half, [2.0, 2.0], [8, 10, 12]),
        (ResizeMode::Cubic(-0.5), half, [0.5, 3.0], [4, 12, 5]),
        (ResizeMode::Cubic(-0.75), Coordinates::Asymmetric, [1.5, 0.5], [8, 10, 12]),
        (ResizeMode::Bilinear, half, [1.5, 0.5], [40, 12, 24]),
        (ResizeMode::Nearest(Rounding::Floor), Coordinates::Asymmetric, [0.5, 0.25], [40, 12, 24]),
        (ResizeMode::Nearest(Rounding::HalfDown), half, [1.5, 2.0], [40, 12, 24]),
    ];
    for (mode, coordinates, scales, input) in cases {
        exact_and_near(input, |builder, data| {
            let size = [0, 1].map(|axis| (input[1 + axis] as f32 * scales[axis]) as usize);
            builder.add(Op::Resize(Resize::new(mode, coordinates, scales, size)), &[data]).unwrap()
        });
    }
}

/// Blocks are written between the columns of a joined tensor, beside a convolution that does not wait for them.
#[test]
fn blocks_are_joined_in_place() {
    chain([8, 5, 9], |builder, data| {
        let wide = builder.convolution_1x1(data, 32).unwrap();
        let blocks = builder.add(Op::DepthToSpace { block: [2, 2], order: BlockOrder::Dcr }, &[wide]).unwrap();
        let other = builder.graph.input("other", &[1, 4, 10, 6]).unwrap();
        let other = builder.convolution_1x1(other, 8).unwrap();
        builder.add(Op::Concat { axis: 3 }, &[blocks, other]).unwrap()
    });
}

/// Reshapes and transpositions of more elements than a matrix moves, in each order of channels, lines and columns, alone and several in
/// a row, which are one move.
#[test]
fn channels_become_lines_and_columns() {
    let turn = |perm: &[usize]| Op::Transpose { perm: perm.to_vec() };
    let shape = |shape: &[usize]| Op::Reshape { shape: shape.to_vec() };
    let cases = [
        ([36, 1, 84], vec![turn(&[0, 2, 3, 1])]),
        ([36, 9, 12], vec![turn(&[0, 2, 3, 1]), shape(&[1, 1, 108, 36])]),
        ([24, 10, 30], vec![shape(&[1, 1, 240, 30])]),
        ([24, 10, 30], vec![shape(&[1, 40, 6, 30])]),
        ([24, 10, 30], vec![turn(&[0, 2, 1, 3])]),
        ([24, 10, 30], vec![turn(&[0, 3, 2, 1])]),
        ([24, 10, 30], vec![turn(&[0, 3, 1, 2])]),
        ([24, 10, 30], vec![turn(&[0, 1, 3, 2]), shape(&[1, 1, 80, 90])]),
        ([33, 1, 80], vec![shape(&[1, 33, 80]), turn(&[0, 2, 1]), shape(&[1, 1, 80, 33])]),
        ([33, 80, 1], vec![shape(&[1, 33, 80]), turn(&[0, 2, 1])]),
        ([1, 50, 60], vec![shape(&[1, 50, 60, 1])]),
        ([5, 700, 1], vec![turn(&[0, 2, 1, 3]), turn(&[0, 2, 3, 1])]),
        // More channels than become lines at once.
        ([300, 1, 40], vec![turn(&[0, 2, 3, 1])]),
        ([512, 1, 1], vec![shape(&[1, 1, 512, 1])]),
    ];
    for (input, moves) in cases {
        exact_and_near(input, |builder, data| {
            let first = builder.convolution_1x1(data, input[0]).unwrap();
            let moved = moves.iter().fold(first, |from, op| builder.add(op.clone(), &[from]).unwrap());
            builder.add(Op::Unary(Unary::Relu), &[moved]).unwrap()
        });
    }
}

/// An operand of three dimensions that has one channel, one column, or one element.
#[test]
fn operands_of_three_dimensions_repeat() {
    exact_and_near([40, 1, 90], |builder, data| {
        let first = builder.convolution_1x1(data, 40).unwrap();
        let x = builder.add(Op::Reshape { shape: vec![1, 40, 90] }, &[first]).unwrap();
        let part = |builder: &mut Builder, lengths: [usize; 3]| {
            let op = Op::Slice { starts: vec![0; 3], steps: vec![1; 3], lengths: lengths.to_vec() };
            builder.add(op, &[x]).unwrap()
        };
        let [line, column, one] = [[1, 1, 90], [1, 40, 1], [1, 1, 1]].map(|lengths| part(builder, lengths));
        let product = builder.add(Op::Binary(Binary::Mul), &[line, column]).unwrap();
        let sum = builder.add(Op::Binary(Binary::Add), &[product, one]).unwrap();
        builder.add(Op::Binary(Binary::Sub), &[x, sum]).unwrap()
    });
}

/// Products of two tensors: with less than a surface of channels, more than a block of them, and kernels that do not fill a group; of
/// pixels in one line and in several, of one pixel, of a part of a tensor, and with what follows in SDP.
#[test]
fn products_of_two_tensors_are_exact() {
    let cases = [
        (5, [1, 7], [1, 9]),
        (8, [4, 4], [1, 8]),
        (16, [2, 5], [3, 11]),
        (20, [3, 5], [2, 9]),
        (33, [5, 5], [1, 1]),
        (64, [1, 49], [7, 7]),
        (130, [1, 33], [1, 70]),
        (200, [1, 1], [1, 33]),
    ];
    for (channels, data, weights) in cases {
        let size = [data[0].max(weights[0]), data[1].max(weights[1])];
        let part = |builder: &mut Builder, x: TensorId, [h, w]: [usize; 2]| {
            let c = builder.shape(x)[0];
            builder.add(Op::Slice { starts: vec![0; 4], steps: vec![1; 4], lengths: vec![1, c, h, w] }, &[x]).unwrap()
        };
        let factors = |builder: &mut Builder, input: TensorId| {
            [data, weights].map(|of| {
                let from = part(builder, input, of);
                builder.convolution_1x1(from, channels).unwrap()
            })
        };
        exact_and_near([12, size[0], size[1]], |builder, input| {
            let factors = factors(builder, input);
            builder.add(Op::Product, &factors).unwrap()
        });
        exact_and_near([12, size[0], size[1]], |builder, input| {
            let factors = factors(builder, input);
            let y = builder.add(Op::Product, &factors).unwrap();
            let (scale, shift) =
                (builder.constant(&[], 0.0, 0.3), builder.constant(&[weights[0] * weights[1], 1, 1], 0.5, 0.0));
            let y = builder.add(Op::Binary(Binary::Mul), &[y, scale]).unwrap();
            let y = builder.add(Op::Binary(Binary::Add), &[y, shift]).unwrap();
            builder.add(Op::Unary(Unary::Relu), &[y]).unwrap()
        });
        // Both are parts of one tensor.
        exact_and_near([12, size[0], size[1]], |builder, input| {
            let all = builder.convolution_1x1(input, channels).unwrap();
            let factors = [data, weights].map(|of| part(builder, all, of));
            builder.add(Op::Product, &factors).unwrap()
        });
    }
}

/// A normalisation over channels in fp16 without samples: AlexNet's, of values as behind its first convolutions, and one of small values.
#[test]
fn normalisations_of_unknown_values_are_near() {
    for (alpha, size, largest) in [(1e-4, 5, 140.0), (1e-4, 3, 500.0), (0.5, 5, 4.0), (2e-5, 5, 300.0)] {
        let mut graph = Graph::new("lrn");
        let x = graph.input("x", &[1, 32, 6, 6]).unwrap();
        let y = graph.add("lrn", Op::Lrn { size, alpha, beta: 0.75, bias: 1.0 }, &[x], "y").unwrap();
        graph.outputs.push(y);
        let mut random = Random::new(5);
        let rounded = |value: f32| half::to_f32(half::from_f32(value));
        let values: Vec<f32> = (0..graph.tensor(x).elements()).map(|_| rounded(largest * random.real())).collect();
        let expected = float::run(&graph, std::slice::from_ref(&values), &mut |_, _| {}).unwrap();
        let mut loss = Loss::default();
        loss.add(&in_fp16(&graph, &[values])[0], &expected[0]);
        assert!(loss.decibels() > 40.0, "alpha {alpha}, size {size}, up to {largest}: {} dB", loss.decibels());
        let options = Options { precision: Precision::Fp16, ..Options::new(&NV_FULL) };
        let warnings = compile(&graph, &Ranges::new(), &options).unwrap().report.warnings;
        assert!(warnings.iter().any(|warning| warning.contains("nothing is known of its values")), "{warnings:?}");
    }
}

/// A normalisation over channels by the mean of squares in fp16, of large, usual and small values: without samples, and with samples also
/// where the squares are beyond half precision.
#[test]
fn roots_of_squares_are_near() {
    for (largest, samples) in [(0.1, false), (3.0, false), (800.0, false), (0.1, true), (8000.0, true)] {
        let mut graph = Graph::new("norm");
        let x = graph.input("x", &[1, 32, 6, 6]).unwrap();
        let square = graph.add("square", Op::Binary(Binary::Mul), &[x, x], "squares").unwrap();
        let weights = graph.add_constant("weights", &[1, 32, 1, 1], vec![1.0 / 32.0; 32]).unwrap();
        let op = Op::Convolution(Convolution::pointwise());
        let mean = graph.add("mean", op, &[square, weights], "mean").unwrap();
        let epsilon = graph.add_constant("epsilon", &[], vec![1e-5]).unwrap();
        let sum = graph.add("sum", Op::Binary(Binary::Add), &[mean, epsilon], "sum").unwrap();
        let root = graph.add("root", Op::Unary(Unary::Power(-0.5)), &[sum], "root").unwrap();
        let y = graph.add("y", Op::Binary(Binary::Mul), &[x, root], "y").unwrap();
        graph.outputs.push(y);
        let mut random = Random::new(5);
        let rounded = |value: f32| half::to_f32(half::from_f32(value));
        let mut values = || {
            let size = [0.1, 0.3, 1.0];
            let value = |k: usize| rounded(largest * size[k % 36 % 3] * random.real());
            (0..32 * 36).map(value).collect::<Vec<f32>>()
        };
        let (measured, values) = (values(), values());
        let ranges = if samples {
            Measured::new(&graph, [Ok(vec![measured])]).unwrap().ranges(Method::Max)
        } else {
            Ranges::new()
        };
        let expected = float::run(&graph, std::slice::from_ref(&values), &mut |_, _| {}).unwrap();
        let options = Options { precision: Precision::Fp16, ..Options::new(&NV_FULL) };
        let compiled = compile(&graph, &ranges, &options).unwrap();
        let mut model = nvdla_compiler::evaluate::measure::Measured::new(&compiled, &[None]).unwrap();
        let mut loss = Loss::default();
        loss.add(&model.run(&[values]).unwrap()[0], &expected[0]);
        assert!(loss.decibels() > 45.0, "up to {largest}, samples {samples}: {} dB", loss.decibels());
        let warnings = compiled.report.warnings;
        assert_eq!(warnings.iter().any(|warning| warning.contains("squared")), !samples, "{warnings:?}");
    }
}

/// A mask of -1e9 on what a softmax reads leaves the steps of the others as they are.
#[test]
fn a_mask_costs_no_precision() {
    let mut builder = Builder::new("mask", 11);
    let input = builder.graph.input("data", &[1, 8, 1, 24]).unwrap();
    let [rows, columns] = [(); 2].map(|()| builder.convolution_1x1(input, 16).unwrap());
    let scores = builder.add(Op::Product, &[rows, columns]).unwrap();
    // Element k of pixel p has no share if k > p.
    let mask: Vec<f32> = (0..24 * 24).map(|at| if at / 24 > at % 24 { -1e9 } else { 0.0 }).collect();
    let mask = builder.graph.add_constant("mask", &[1, 24, 1, 24], mask).unwrap();
    let masked = builder.add(Op::Binary(Binary::Add), &[scores, mask]).unwrap();
    let shares = builder.add(Op::Softmax { axis: 1 }, &[masked]).unwrap();
    let graph = &mut builder.graph;
    graph.outputs.push(shares);
    let mut random = Random::new(12);
    let values: Vec<f32> = (0..graph.tensor(input).elements()).map(|_| random.real()).collect();
    let expected = float::run(graph, std::slice::from_ref(&values), &mut |_, _| {}).unwrap();
    let ranges = Measured::new(graph, [Ok(vec![values.clone()])]).unwrap().ranges(Method::Max);
    for config in [&NV_SMALL, &NV_FULL] {
        let compiled = compile(graph, &ranges, &Options::new(config)).unwrap();
        check(&compiled, config, &mut Random::new(8), "a mask");
        let mut model = nvdla_compiler::evaluate::measure::Measured::new(&compiled, &[None]).unwrap();
        let mut loss = Loss::default();
        loss.add(&model.run(std::slice::from_ref(&values)).unwrap()[0], &expected[0]);
        assert!(loss.decibels() > 25.0, "{}: {} dB", config.name, loss.decibels());
    }
}

/// The mean of the numbers of channels by shares of a softmax, as detectors have it: the emulator rounds shares down, and the bias makes up
/// for it.
#[test]
fn means_of_shares_are_not_too_small() {
    let mut graph = Graph::new("shares");
    let x = graph.input("x", &[1, 16, 8, 8]).unwrap();
    let shares = graph.add("softmax", Op::Softmax { axis: 1 }, &[x], "shares").unwrap();
    let weights = (0..16_u8).map(f32::from).collect::<Vec<_>>();
    let weights = graph.add_constant("numbers", &[1, 16, 1, 1], weights).unwrap();
    let y = graph.add("mean", Op::Convolution(Convolution::pointwise()), &[shares, weights], "y").unwrap();
    graph.outputs.push(y);
    let mut random = Random::new(7);
    let mut values = || (0..16 * 64).map(|_| 3.0 * random.real()).collect::<Vec<f32>>();
    let (samples, values) = ([values(), values(), values()], values());
    let measured = Measured::new(&graph, samples.map(|sample| Ok(vec![sample]))).unwrap().ranges(Method::Max);
    let mut without = Ranges::new();
    for id in [x, shares, y] {
        without.set(id, *measured.get(id).unwrap());
    }
    let expected = float::run(&graph, std::slice::from_ref(&values), &mut |_, _| {}).unwrap();
    let [with, without] = [measured, without].map(|ranges| {
        let compiled = compile(&graph, &ranges, &Options::new(&NV_SMALL)).unwrap();
        let mut model = nvdla_compiler::evaluate::measure::Measured::new(&compiled, &[None]).unwrap();
        let found = model.run(std::slice::from_ref(&values)).unwrap();
        found[0].iter().zip(&expected[0]).map(|(found, expected)| found - expected).sum::<f32>() / 64.0
    });
    assert!(without < -0.2 && with.abs() < 0.05, "{with} with a bias, {without} without");
}

/// A layer has more kernels than a cube has channels, as that of a reader of Chinese. Its blocks are cubes of one tensor, which only the
/// emulator takes as a whole.
#[test]
fn a_layer_has_more_channels_than_a_cube() {
    exact_and_near([6, 1, 5], |builder, input| {
        let y = builder.convolution_1x1(input, 9001).unwrap();
        builder.add(Op::Unary(Unary::Relu), &[y]).unwrap()
    });
    let mut builder = Builder::new("classes", 3);
    let input = builder.graph.input("data", &[1, 6, 1, 5]).unwrap();
    let scores = builder.convolution_1x1(input, 9001).unwrap();
    let shares = builder.add(Op::Softmax { axis: 1 }, &[scores]).unwrap();
    builder.graph.outputs.push(shares);
    for config in Config::ALL.iter().filter(|config| config.memory_atomic != 16) {
        let compiled = compile(&builder.graph, &ranges(&builder.graph), &Options::new(config)).unwrap();
        check(&compiled, config, &mut Random::new(8), "classes");
    }
    let few = builder.convolution_1x1(scores, 3).unwrap();
    builder.graph.outputs.push(few);
    let error = compile(&builder.graph, &ranges(&builder.graph), &Options::new(&NV_SMALL)).unwrap_err().to_string();
    assert!(error.contains("number of channels 9001 is more than the hardware's 8192"), "{error}");
}

/// Resizes along each axis in turn: by ratios whose blocks along both axes would be one large window, by weights of which no block
/// repeats, by antialiasing, and of a region.
#[test]
fn resizes_along_each_axis_are_exact_and_small() {
    let half = Coordinates::HalfPixel;
    let region = Coordinates::Linear { first: [2.5, 17.0], step: [0.875, -0.75] };
    let [linear, cubic] = [ResizeMode::Bilinear, ResizeMode::Cubic(-0.75)];
    let cases = [
        (linear, Coordinates::AlignCorners, [8, 28, 24], [14, 48], (false, false)),
        (linear, half, [8, 31, 31], [29, 29], (false, false)),
        (cubic, half, [8, 29, 31], [17, 23], (false, false)),
        (linear, half, [5, 37, 40], [53, 20], (false, false)),
        (ResizeMode::Nearest(Rounding::Floor), Coordinates::Asymmetric, [8, 47, 37], [36, 53], (false, false)),
        (linear, half, [6, 40, 41], [20, 13], (true, false)),
        (cubic, half, [6, 40, 30], [16, 20], (true, false)),
        (linear, half, [6, 40, 41], [20, 13], (true, true)),
        (cubic, half, [6, 20, 24], [40, 36], (false, true)),
        (linear, region, [8, 24, 26], [22, 19], (false, false)),
    ];
    for (mode, coordinates, input, size, (antialias, exclude_outside)) in cases {
        let scales = [0, 1].map(|axis| size[axis] as f32 / input[1 + axis] as f32);
        let resize = Resize { antialias, exclude_outside, ..Resize::new(mode, coordinates, scales, size) };
        exact_and_near(input, |builder, data| builder.add(Op::Resize(resize), &[data]).unwrap());
        let mut graph = Graph::new("resize");
        let data = graph.input("data", &[1, input[0], input[1], input[2]]).unwrap();
        let resized = graph.add("resized", Op::Resize(resize), &[data], "resized").unwrap();
        graph.outputs.push(resized);
        // Elements next to one another differ much, so that the means of few of them reach farther than those of more.
        let values: Vec<f32> =
            (0..graph.tensor(data).elements()).map(|k| (k * 7919 % 1009) as f32 / 504.5 - 1.0).collect();
        let expected = float::run(&graph, std::slice::from_ref(&values), &mut |_, _| {}).unwrap();
        let ranges = Measured::new(&graph, [Ok(vec![values.clone()])]).unwrap().ranges(Method::Max);
        for config in [&NV_SMALL, &NV_FULL] {
            let compiled = compile(&graph, &ranges, &Options::new(config)).unwrap();
            assert!(compiled.loadable.len() < 1 << 20, "{resize:?}: {} bytes", compiled.loadable.len());
            let mut model = nvdla_compiler::evaluate::measure::Measured::new(&compiled, &[None]).unwrap();
            let mut loss = Loss::default();
            loss.add(&model.run(std::slice::from_ref(&values)).unwrap()[0], &expected[0]);
            assert!(loss.decibels() > 30.0, "{resize:?} on {}: {} dB", config.name, loss.decibels());
        }
    }
}

/// One constant per element, of tensors that are larger than those of a product with a matrix.
#[test]
fn constants_per_element_are_exact() {
    for binary in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Max, Binary::Min] {
        for (shape, first) in [(vec![1, 12, 20, 21], false), (vec![20, 21], true), (vec![12, 1, 21], false)] {
            exact_and_near([12, 20, 21], |builder, data| {
                let constant = builder.constant(&shape, 0.5, 0.1);
                let made = builder.convolution_1x1(data, 12).unwrap();
                let inputs = if first { [constant, made] } else { [made, constant] };
                let y = builder.add(Op::Binary(binary), &inputs).unwrap();
                builder.add(Op::Unary(Unary::Relu), &[y]).unwrap()
            });
        }
    }
}

/// A step is 0 or 1, also without tables, and where it chooses between two tensors.
#[test]
fn steps_choose() {
    for config in Config::ALL {
        let mut graph = Graph::new("steps");
        let x = graph.input("x", &[1, 8, 6, 6]).unwrap();
        let step = graph.add("step", Op::Unary(Unary::Step(0.25)), &[x], "step").unwrap();
        let chosen = graph.add("chosen", Op::Binary(Binary::Mul), &[step, x], "chosen").unwrap();
        graph.outputs.extend([step, chosen]);
        let values: Vec<f32> = (0..288u16).map(|k| f32::from(k * 37 % 288) / 100.0 - 1.44).collect();
        let measured = Measured::new(&graph, [Ok(vec![values.clone()])]).unwrap().ranges(Method::Max);
        let compiled = compile(&graph, &measured, &Options::new(config)).unwrap();
        check(&compiled, config, &mut Random::new(8), "steps");
        let mut model = nvdla_compiler::evaluate::measure::Measured::new(&compiled, &[None]).unwrap();
        let found = model.run(std::slice::from_ref(&values)).unwrap();
        // An argument within half a step of its integers may lie on either side.
        for (k, x) in values.iter().enumerate().filter(|(_, x)| (*x - 0.25).abs() > 0.007) {
            let expected = f32::from(*x > 0.25);
            assert!((found[0][k] - expected).abs() < 0.01, "{}: step({x}) = {}", config.name, found[0][k]);
            assert!((found[1][k] - expected * x).abs() < 0.02, "{}: {} of {x}", config.name, found[1][k]);
        }
    }
}

/// Values around a large mean, from which a normalisation takes it: the factor is rounded to half precision, and its error is not that
/// of the mean.
#[test]
fn a_large_addend_costs_no_precision() {
    let mut graph = Graph::new("normalised");
    let x = graph.input("x", &[1, 4, 8, 8]).unwrap();
    let factors = graph.add_constant("factors", &[1, 4, 1, 1], vec![0.731, -0.333, 1.17, 0.0519]).unwrap();
    let addends: Vec<f32> = [0.731, -0.333, 1.17, 0.0519].iter().map(|factor| 0.3 - 1000.4 * factor).collect();
    let addends = graph.add_constant("addends", &[1, 4, 1, 1], addends).unwrap();
    let y = graph.add("scaled", Op::Binary(Binary::Mul), &[x, factors], "scaled").unwrap();
    let y = graph.add("moved", Op::Binary(Binary::Add), &[y, addends], "moved").unwrap();
    graph.outputs.push(y);
    let values: Vec<f32> = (0..256u16).map(|k| 996.0 + f32::from(k * 37 % 17) / 2.0).collect();
    let expected = float::run(&graph, std::slice::from_ref(&values), &mut |_, _| {}).unwrap();
    let mut loss = Loss::default();
    loss.add(&in_fp16(&graph, &[values])[0], &expected[0]);
    assert!(loss.decibels() > 60.0, "{} dB", loss.decibels());
}

/// Channels of a tensor of five dimensions: the dimensions between the permuted dimension and the lines move with it.
#[test]
fn channels_of_five_dimensions_are_permuted() {
    let mut graph = Graph::new("five dimensions");
    let data = graph.input("data", &[2, 4, 3, 2, 5]).unwrap();
    let from = vec![3, 0, 1];
    let permuted = graph.add("permuted", Op::ChannelPermutation { from: from.clone() }, &[data], "permuted").unwrap();
    let relu = graph.add("relu", Op::Unary(Unary::Relu), &[permuted], "relu").unwrap();
    graph.outputs.push(relu);
    let values: Vec<f32> = (0..240u16).map(f32::from).collect();
    let expected = (0..2).flat_map(|n| from.iter().flat_map(move |&k| (0..30).map(move |at| (n * 4 + k) * 30 + at)));
    let expected: Vec<f32> = expected.map(|at| values[at]).collect();
    assert_eq!(in_fp16(&graph, &[values]), [expected]);
}

/// A channel that stands for several, as a value that is broadcast does: what follows treats each of them alone.
#[test]
fn channels_that_repeat_are_apart() {
    let mut builder = Builder::new("repeated", 3);
    let data = builder.graph.input("data", &[1, 3, 5, 4]).unwrap();
    let repeated = builder.add(Op::ChannelPermutation { from: vec![0, 2, 2, 1] }, &[data]).unwrap();
    let other = builder.add(Op::ChannelPermutation { from: vec![1, 1, 0, 2] }, &[data]).unwrap();
    let each = builder.constant(&[1, 4, 1, 1], 1.0, 0.0);
    let scaled = builder.add(Op::Binary(Binary::Mul), &[repeated, each]).unwrap();
    let sum = builder.add(Op::Binary(Binary::Add), &[repeated, other]).unwrap();
    let made = builder.convolution(repeated).unwrap();
    // A convolution's results meet a tensor that repeats, and such a tensor is joined with one that does not.
    let met = builder.convolution_1x1(data, 4).unwrap();
    let met = builder.add(Op::Binary(Binary::Max), &[met, repeated]).unwrap();
    let joined = builder.add(Op::Concat { axis: 2 }, &[repeated, scaled]).unwrap();
    builder.graph.outputs = vec![scaled, sum, made, met, joined];
    // One value that meets a tensor of one dimension, on either side.
    let (six, one) = (builder.graph.input("six", &[6]).unwrap(), builder.graph.input("one", &[1]).unwrap());
    for operands in [[six, one], [one, six]] {
        let output = builder.add(Op::Binary(Binary::Sub), &operands).unwrap();
        builder.graph.outputs.push(output);
    }
    let values =
        |count: u16, from: u16| (0..count).map(|k| f32::from((k + from) % 23) / 8.0 - 1.0).collect::<Vec<f32>>();
    let inputs = [values(60, 0), values(6, 3), values(1, 17)];
    let expected = float::run(&builder.graph, &inputs, &mut |_, _| {}).unwrap();
    let found = in_fp16(&builder.graph, &inputs);
    for (output, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found.len(), expected.len());
        for (k, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert!((found - expected).abs() < 0.02, "output {output}, element {k}: {found}, {expected}");
        }
    }
}

/// The images of a batch are groups of a deconvolution.
#[test]
fn images_of_a_batch_are_deconvolved_alone() {
    let mut builder = Builder::new("batch", 5);
    let data = builder.graph.input("data", &[3, 4, 5, 6]).unwrap();
    let padding = Padding { top: 1, left: 1, bottom: 1, right: 1 };
    let op = Convolution { group: 2, kernel: [3; 2], stride: [2; 2], dilation: [1; 2], padding };
    let weights = builder.constant(&[4, 3, 3, 3], 0.2, 0.0);
    let made = builder.add(Op::Deconvolution(op, [1, 1]), &[data, weights]).unwrap();
    builder.graph.outputs.push(made);
    let values: Vec<f32> = (0..360u16).map(|k| f32::from(k % 37) / 16.0 - 1.0).collect();
    let expected = float::run(&builder.graph, std::slice::from_ref(&values), &mut |_, _| {}).unwrap();
    let found = in_fp16(&builder.graph, &[values]);
    assert_eq!(found[0].len(), expected[0].len());
    for (found, expected) in found[0].iter().zip(&expected[0]) {
        assert!((found - expected).abs() < 0.01, "{found}, {expected}");
    }
}

/// The channels of each picture of a batch are joined.
#[test]
fn pictures_of_a_batch_are_joined_one_by_one() {
    let mut builder = Builder::new("batch", 5);
    let data = builder.graph.input("data", &[3, 4, 5, 6]).unwrap();
    let parts = [7, 5].map(|kernels| builder.convolution_1x1(data, kernels).unwrap());
    let joined = builder.add(Op::Concat { axis: 1 }, &parts).unwrap();
    let made = builder.convolution_1x1(joined, 3).unwrap();
    builder.graph.outputs.push(made);
    let decibels = fp16_decibels(&builder.graph, 6);
    assert!(decibels > 50.0, "{decibels} dB in fp16");
    for config in Config::ALL {
        let compiled = compile(&builder.graph, &ranges(&builder.graph), &Options::new(config)).unwrap();
        check(&compiled, config, &mut Random::new(8), "joined pictures");
    }
}

/// Maxima over windows of equal blocks, and over one window as large as the tensor with a stride beyond PDP's.
#[test]
fn large_maxima_are_exact() {
    for (kernel, stride, input) in [
        ([24, 24], [24, 24], [8, 24, 24]),
        ([17, 19], [17, 19], [3, 17, 19]),
        ([20, 10], [20, 10], [8, 41, 30]),
        ([32, 16], [32, 8], [16, 64, 40]),
        ([12, 3], [18, 16], [8, 12, 20]),
        ([49, 1], [49, 1], [40, 49, 9]),
    ] {
        exact_and_near(input, |builder, data| {
            let made = builder.convolution_1x1(data, input[0]).unwrap();
            builder.add(Op::Pool(Pool { stride, ..Pool::new(PoolKind::Max, kernel) }), &[made]).unwrap()
        });
    }
}

/// Arrays of a model that has its channels last are samples and inputs in the model's order, and in the loadable's.
#[test]
fn arrays_have_the_models_order() {
    let mut builder = Builder::new("orders", 3);
    let x = builder.graph.input("x", &[1, 6, 5, 3]).unwrap();
    let first = builder.add(Op::Transpose { perm: vec![0, 3, 1, 2] }, &[x]).unwrap();
    let y = windows(&mut builder, first, 8, [3, 3], 1);
    builder.graph.outputs.push(y);
    let mut graph = builder.graph;
    let reshaped = simplify_ends(&mut graph);
    let model = Model { graph, reshaped };
    let given: Vec<f32> = (0..90_u16).map(|k| f32::from(k * 7 % 64) / 16.0 - 1.0).collect();
    let orders = [(vec![1, 6, 5, 3], given.clone()), (vec![1, 3, 6, 5], npy::transposed(&given, 1, 30, 3))];
    let compiled = orders.each_ref().map(|(shape, values)| {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("x.npy"), npy::bytes(shape, values)).unwrap();
        Compiler::new(&NV_SMALL).calibrate(folder.path()).compile(&model).unwrap().loadable
    });
    assert!(compiled[0] == compiled[1], "samples of two orders have other scales");
    let loadable = Loadable::from_bytes(compiled[0].clone()).unwrap();
    let mut session = Session::new(loadable, model_or_rtl(&NV_SMALL)).unwrap();
    let results = orders.map(|(shape, values)| {
        session.set_input_array(0, &shape, &values).unwrap();
        session.run().unwrap();
        session.output_f32(0).unwrap()
    });
    assert_eq!(results[0], results[1]);
    let expected = &float::run(&model.graph, &[npy::transposed(&given, 1, 30, 3)], &mut |_, _| {}).unwrap()[0];
    let mut loss = Loss::default();
    loss.add(&results[0], expected);
    assert!(loss.decibels() > 30.0, "{} dB", loss.decibels());
    assert!(session.set_input_array(0, &[1, 5, 6, 3], &given).is_err());
}

/// Only activations are in buffers that a user can read.
#[test]
fn a_constant_is_no_output() {
    let mut graph = Graph::new("constant");
    let data = graph.input("data", &[1, 4, 2, 2]).unwrap();
    let relu = graph.add("relu", Op::Unary(Unary::Relu), &[data], "relu").unwrap();
    let table = graph.add_constant("table", &[2], vec![1.0, 2.0]).unwrap();
    graph.outputs = vec![relu, table];
    let options = Options { precision: Precision::Fp16, ..Options::new(&NV_FULL) };
    let error = compile(&graph, &Ranges::new(), &options).err().unwrap().to_string();
    assert!(error.contains("the output \"table\" does not depend on the inputs"), "{error}");
}

/// Numpy's rule: the lines of 1 element meet 5 columns, and the product has five dimensions.
#[test]
fn a_product_of_five_dimensions_repeats_its_operand() {
    let mut graph = Graph::new("five dimensions");
    let data = graph.input("data", &[3, 4, 1, 1, 1]).unwrap();
    let factors = graph.input("factors", &[5]).unwrap();
    let product = graph.add("product", Op::Binary(Binary::Mul), &[data, factors], "product").unwrap();
    graph.outputs.push(product);
    let data: Vec<f32> = (0..12u16).map(f32::from).collect();
    let factors: Vec<f32> = (1..6u16).map(f32::from).collect();
    let expected: Vec<f32> = data.iter().flat_map(|a| factors.iter().map(move |b| a * b)).collect();
    assert_eq!(in_fp16(&graph, &[data, factors]), [expected]);
}

/// An operand of two dimensions has lines and columns where its sum has four.
#[test]
fn an_operand_of_fewer_dimensions_is_aligned_at_its_last() {
    for others in [[1, 1, 1, 1], [1, 3, 1, 1], [1, 3, 4, 11]] {
        let mut graph = Graph::new("sum");
        let a = graph.input("a", &others).unwrap();
        let b = graph.input("b", &[4, 11]).unwrap();
        let sum = graph.add("sum", Op::Binary(Binary::Add), &[a, b], "sum").unwrap();
        graph.outputs.push(sum);
        let b: Vec<f32> = (0..44u8).map(f32::from).collect();
        let a: Vec<f32> = (1..=others.iter().product::<usize>()).map(|k| k as f32 * 8.0).collect();
        let each = a.len() / others[1];
        let expected: Vec<f32> =
            (0..others[1] * 44).map(|at| a[at / 44 * each + at % 44 % each] + b[at % 44]).collect();
        assert_eq!(in_fp16(&graph, &[a, b]), [expected]);
    }
}

/// Without samples the arguments are unknown. Beyond its entries a table continues as the function does.
#[test]
fn tables_continue_beyond_their_entries() {
    for (unary, tolerance) in [(Unary::Silu, 0.002), (Unary::Sigmoid, 0.0005), (Unary::HardSwish, 0.02)] {
        let mut graph = Graph::new("tails");
        let data = graph.input("data", &[1, 64, 1, 1]).unwrap();
        let y = graph.add("y", Op::Unary(unary), &[data], "y").unwrap();
        graph.outputs.push(y);
        let values: Vec<f32> = (0..64u16).map(|k| (f32::from(k) - 31.5) * 4.0).collect();
        let found = in_fp16(&graph, std::slice::from_ref(&values));
        for (&x, &y) in values.iter().zip(&found[0]) {
            let expected = unary.apply(x);
            assert!(
                (y - expected).abs() <= tolerance + expected.abs() / 1024.0,
                "{unary:?} of {x}: {y}, not {expected}"
            );
        }
    }
}

/// A gate that is closed: its values are far smaller than the bias of the next convolution.
#[test]
fn a_bias_far_larger_than_the_products() {
    for (weight, config) in [0.25, 0.0].into_iter().flat_map(|weight| [(weight, &NV_SMALL), (weight, &NV_FULL)]) {
        let mut graph = Graph::new("gate");
        let data = graph.input("data", &[1, 64, 2, 2]).unwrap();
        let weights = graph.add_constant("weights", &[64, 64, 1, 1], vec![weight; 64 * 64]).unwrap();
        let bias = graph.add_constant("bias", &[64], [-1.0, 0.25, 0.5, 1.0].repeat(16)).unwrap();
        let op = Convolution {
            group: 1,
            kernel: [1; 2],
            stride: [1; 2],
            dilation: [1; 2],
            padding: Padding { top: 0, left: 0, bottom: 0, right: 0 },
        };
        let sum = graph.add("sum", Op::Convolution(op), &[data, weights, bias], "sum").unwrap();
        graph.outputs.push(sum);
        let tiny = Range { min: -1e-18, max: 1e-18, scale: 1e-20, span: (-1.28e-18, 1.27e-18), given: false };
        let large = Range::of(-1.0, 1.0);
        let mut ranges = Ranges::new();
        ranges.set(data, tiny);
        ranges.set(sum, large);
        let compiled = compile(&graph, &ranges, &Options::new(config)).unwrap();
        let mut measured = nvdla_compiler::evaluate::measure::Measured::new(&compiled, &[None]).unwrap();
        let found = measured.run(&[vec![1e-18; 256]]).unwrap();
        let expected: Vec<f32> = [-1.0, 0.25, 0.5, 1.0].repeat(16).into_iter().flat_map(|bias| [bias; 4]).collect();
        for (found, expected) in found[0].iter().zip(&expected) {
            assert!((found - expected).abs() < 1.0 / 127.0, "{found} instead of {expected}");
        }
    }
}

/// A limit from above at which the integers of an output would saturate, if the values reach farther below 0.
#[test]
fn a_limit_nearer_to_0_than_the_least_value() {
    for config in Config::ALL {
        let mut graph = Graph::new("limit");
        let data = graph.input("data", &[1, 2, 4, 4]).unwrap();
        let shift = graph.add_constant("shift", &[1, 2, 1, 1], vec![0.5, -0.5]).unwrap();
        let least = graph.add_constant("least", &[1, 2, 1, 1], vec![-4.0, -3.5]).unwrap();
        let sum = graph.add("sum", Op::Binary(Binary::Add), &[data, shift], "sum").unwrap();
        let above = graph.add("above", Op::Binary(Binary::Max), &[sum, least], "above").unwrap();
        let limited =
            graph.add("limited", Op::Unary(Unary::Clip(f32::NEG_INFINITY, 1.0)), &[above], "limited").unwrap();
        graph.outputs.push(limited);
        simplify(&mut graph);
        let values: Vec<f32> = (0..32u8).map(|k| f32::from(k % 16) * 0.5 - 5.0).collect();
        let sample = vec![values];
        let measured = Measured::new(&graph, [Ok(sample.clone())]).unwrap().ranges(Method::Max);
        let ranges = complete(&graph, of_model(&graph), Some(&measured));
        let compiled = compile(&graph, &ranges, &Options::new(config)).unwrap();
        let found = nvdla_compiler::evaluate::measure::Measured::new(&compiled, &[None]).unwrap().run(&sample).unwrap();
        let expected = float::run(&graph, &sample, &mut |_, _| {}).unwrap();
        assert!(expected[0].contains(&-4.0) && expected[0].contains(&1.0));
        for (y, expected) in found[0].iter().zip(&expected[0]) {
            assert!((y - expected).abs() < 0.12, "{}: {y} instead of {expected}", config.name);
        }
    }
}

/// If the largest integer stands for the limit, neither the range on the samples nor a copy of the tensor changes it.
#[test]
fn a_limit_at_the_end_of_the_integers_holds() {
    for config in [&NV_SMALL, &NV_FULL] {
        let mut graph = Graph::new("limit");
        let data = graph.input("data", &[1, 8, 4, 4]).unwrap();
        let other = graph.input("other", &[1, 8, 4, 4]).unwrap();
        let weights: Vec<f32> = (0..64).map(|at| f32::from(u8::from(at / 8 == at % 8))).collect();
        let weights = graph.add_constant("weights", &[8, 8, 1, 1], weights).unwrap();
        let padding = Padding::default();
        let op = Convolution { group: 1, kernel: [1; 2], stride: [1; 2], dilation: [1; 2], padding };
        let product = graph.add("product", Op::Convolution(op), &[data, weights], "product").unwrap();
        let sum = graph.add("sum", Op::Binary(Binary::Add), &[product, other], "sum").unwrap();
        let limited = graph.add("limited", Op::Unary(Unary::Clip(0.0, 6.0)), &[sum], "limited").unwrap();
        graph.outputs.extend([limited, limited]);
        let mut ranges = Ranges::new();
        for id in [data, other, product, sum, limited] {
            ranges.set(id, Range::of(-10.0, 10.0));
        }
        let compiled = compile(&graph, &ranges, &Options::new(config)).unwrap();
        let mut measured = nvdla_compiler::evaluate::measure::Measured::new(&compiled, &[None, None]).unwrap();
        let values: Vec<f32> = (0..128u8).map(|k| f32::from(k) * 0.15 - 9.0).collect();
        for found in measured.run(&[values.clone(), vec![0.5; 128]]).unwrap() {
            for (x, y) in values.iter().zip(&found) {
                let expected = (x + 0.5).clamp(0.0, 6.0);
                assert!((y - expected).abs() < 0.12, "{}: {y} instead of {expected}", config.name);
            }
        }
    }
}

fn windows(builder: &mut Builder, from: TensorId, kernels: usize, kernel: [usize; 2], stride: usize) -> TensorId {
    let [c, ..] = builder.shape(from);
    let weights = builder.constant(&[kernels, c, kernel[0], kernel[1]], 0.1, 0.0);
    let padding = Padding { top: kernel[0] / 2, left: kernel[1] / 2, bottom: kernel[0] / 2, right: kernel[1] / 2 };
    let op = Convolution { group: 1, kernel, stride: [stride; 2], dilation: [1; 2], padding };
    builder.add(Op::Convolution(op), &[from, weights]).unwrap()
}

/// More input than the convolution buffer holds: bands of lines, and the results must not depend on where they meet.
#[test]
fn bands_are_exact() {
    // The largest buffer has 512 KiB.
    chain([32, 900, 24], |builder, data| windows(builder, data, 5, [3, 3], 2));
}

/// A layer that does not fit the convolution buffer is divided as a whole, so that its bands share the weights; 1x1 convolutions of
/// stride 2 read every second line.
#[test]
fn bands_of_large_layers_share_weights() {
    let network = |builder: &mut Builder, data| {
        let wide = windows(builder, data, 16, [3, 3], 1);
        let half = windows(builder, wide, 24, [1, 1], 2);
        let both = windows(builder, wide, 24, [1, 1], 2);
        let sum = builder.add(Op::Binary(Binary::Add), &[half, both]).unwrap();
        windows(builder, sum, 8, [3, 3], 1)
    };
    chain([32, 100, 80], network);
    let mut builder = Builder::new("bands", 8);
    let data = builder.graph.input("data", &[1, 64, 60, 60]).unwrap();
    let output = windows(&mut builder, data, 96, [3, 3], 1);
    builder.graph.outputs.push(output);
    let (graph, ranges) = (&builder.graph, ranges(&builder.graph));
    for config in [&NV_SMALL, &NV_SMALL_256] {
        let [bands, whole] = [Optimize::Time, Optimize::Size].map(|optimize| {
            let compiled = compile(graph, &ranges, &Options { optimize, ..Options::new(config) }).unwrap();
            compiled.report.operations.iter().map(|operation| operation.bytes).sum::<u64>()
        });
        // Without bands each part reads all weights.
        assert!(bands < whole, "{}: {bands} and {whole} bytes", config.name);
    }
}

/// Blocks of channels with the same weights, whose outputs of one line lie one after another, are not lines of one layer.
#[test]
fn blocks_of_one_line_stay_apart() {
    chain([32, 32, 32], |builder, data| {
        let padding = Padding::default();
        let pool = Pool {
            kind: PoolKind::Average { count_include_pad: true },
            kernel: [32, 1],
            stride: [1; 2],
            dilation: [1; 2],
            padding,
        };
        builder.add(Op::Pool(pool), &[data]).unwrap()
    });
}

/// Averages over all lines and columns, also of channels that leave atoms partly empty, and of a part of the columns.
#[test]
fn averages_of_planes_are_exact() {
    let average = |builder: &mut Builder, from: TensorId| {
        let [h, w] = builder.graph.shape(from)[2..] else { panic!("the tensor has lines and columns") };
        let kind = PoolKind::Average { count_include_pad: false };
        builder.add(Op::Pool(Pool::new(kind, [h, w])), &[from])
    };
    for shape in [[40, 13, 13], [70, 9, 16], [5, 32, 17], [33, 11, 1]] {
        chain(shape, |builder, data| average(builder, data).unwrap());
    }
    chain([9, 12, 10], |builder, data| {
        let [a, b] = [5, 35].map(|kernels| builder.convolution_1x1(data, kernels).unwrap());
        let both = builder.add(Op::Concat { axis: 1 }, &[a, b]).unwrap();
        let mean = average(builder, both).unwrap();
        builder.convolution_1x1(mean, 7).unwrap()
    });
    chain([40, 12, 14], |builder, data| {
        let op = Op::Slice { starts: vec![0, 0, 1, 2], steps: vec![1; 4], lengths: vec![1, 40, 11, 10] };
        let part = builder.add(op, &[data]).unwrap();
        average(builder, part).unwrap()
    });
    // One group with one kernel is a sum over the channels, too.
    chain([6, 9, 7], |builder, data| {
        let op =
            Convolution { group: 1, kernel: [9, 7], stride: [1; 2], dilation: [1; 2], padding: Padding::default() };
        let weights = builder.constant(&[1, 6, 9, 7], 0.0, 0.01);
        builder.add(Op::Convolution(op), &[data, weights]).unwrap()
    });
    let mut builder = Builder::new("average", 7);
    let data = builder.graph.input("data", &[1, 200, 12, 14]).unwrap();
    let mean = average(&mut builder, data).unwrap();
    builder.graph.outputs.push(mean);
    for config in Config::ALL {
        let compiled = compile(&builder.graph, &ranges(&builder.graph), &Options::new(config)).unwrap();
        // A convolution with SDP for all atoms that are full, and another one for the last atom.
        let operations = compiled.report.operations.len();
        assert!(operations <= 4, "{}: {operations} operations", config.name);
    }
    let values: Vec<f32> = (0..200 * 168u16).map(|at| f32::from(at % 251) / 100.0 - 1.0).collect();
    let found = in_fp16(&builder.graph, std::slice::from_ref(&values));
    for (found, plane) in found[0].iter().zip(values.chunks_exact(168)) {
        let mean = plane.iter().sum::<f32>() / 168.0;
        assert!((found - mean).abs() < 2e-3, "{found} and not {mean}");
    }
}

/// Windows that lie in the padding alone belong to the part with the last elements of the input, or are refused.
#[test]
fn windows_in_the_padding_are_exact_or_refused() {
    for config in Config::ALL {
        for (channels, columns, right) in [(2048, 80, 0), (2048, 80, 40), (8, 5, 60)] {
            let mut builder = Builder::new("padding", 8);
            let data = builder.graph.input("data", &[1, channels, 2, columns]).unwrap();
            let op = Convolution {
                group: 1,
                kernel: [1; 2],
                stride: [1; 2],
                dilation: [1; 2],
                padding: Padding { right, ..Padding::default() },
            };
            let weights = builder.constant(&[8, channels, 1, 1], 0.1, 0.0);
            let sums = builder.add(Op::Convolution(op), &[data, weights]).unwrap();
            builder.graph.outputs.push(sums);
            match compile(&builder.graph, &ranges(&builder.graph), &Options::new(config)) {
                Ok(compiled) => {
                    check(&compiled, config, &mut Random::new(8), "padding");
                }
                Err(error) => {
                    assert!((channels, right) == (2048, 40), "{error}");
                    assert!(error.to_string().contains("windows in the padding alone"), "{error}");
                }
            }
        }
    }
}

/// Kernels, dilation and padding beyond the hardware's.
#[test]
fn large_windows_are_exact() {
    let convolve =
        |input: [usize; 3], kernel: [usize; 2], dilation: [usize; 2], [top, left, bottom, right]: [usize; 4]| {
            let padding = Padding { top, left, bottom, right };
            let op = Convolution { group: 1, kernel, stride: [1; 2], dilation, padding };
            chain(input, |builder, data| {
                let weights = builder.constant(&[5, input[0], kernel[0], kernel[1]], 0.2, 0.0);
                builder.add(Op::Convolution(op), &[data, weights]).unwrap()
            });
        };
    convolve([3, 9, 8], [3, 3], [1, 1], [100, 40, 70, 33]);
    convolve([3, 80, 5], [40, 1], [1, 1], [20, 0, 19, 0]);
    // 33 is 3 times 11, and 37 is a prime.
    convolve([2, 80, 40], [3, 2], [33, 1], [33, 0, 33, 1]);
    convolve([2, 80, 40], [3, 2], [37, 1], [37, 0, 37, 0]);
    // Windows that the convolution buffer of nv_small does not hold: dilated, and of a whole tensor.
    convolve([128, 45, 31], [3, 3], [18, 18], [18; 4]);
    convolve([34, 1, 96], [1, 96], [1, 1], [0; 4]);
    convolve([96, 1, 64], [1, 64], [1, 1], [0; 4]);
}

/// Channels, lines and columns of zeros, and other constants with one value per channel.
#[test]
fn constants_beside_a_tensor_are_exact() {
    let pad = |input: [usize; 3], before: [usize; 4], after: [usize; 4], value: f32| {
        let mode = nvdla_compiler::ir::PadMode::Constant(value);
        let op = Op::Pad { mode, before: before.to_vec(), after: after.to_vec() };
        chain(input, |builder, data| {
            let first = windows(builder, data, 24, [3, 3], 1);
            builder.add(op.clone(), &[first]).unwrap()
        });
    };
    pad([3, 40, 42], [0; 4], [0, 8, 0, 0], 0.0);
    pad([3, 40, 42], [0, 5, 1, 2], [0, 3, 3, 4], 0.0);
    pad([3, 40, 42], [0, 5, 0, 0], [0, 3, 0, 0], 0.5);
    for (axis, extents) in [(1, [1, 7, 20, 30]), (2, [1, 24, 3, 30]), (2, [1, 24, 50, 30])] {
        chain([3, 20, 30], |builder, data| {
            let first = windows(builder, data, 24, [3, 3], 1);
            let value = builder.graph.add_constant("even", &extents, vec![0.25; extents.iter().product()]).unwrap();
            builder.add(Op::Concat { axis }, &[first, value]).unwrap()
        });
    }
}

/// What `--check` accepts compiles with the ranges of samples, and what it refuses does not, in both precisions, also where the model
/// is quantized. It compiles also if neighbours have very different ranges, and the integers are still those of plain loops.
#[test]
fn checked_graphs_compile() {
    let (mut accepted, mut refused) = (0, 0);
    for_each_graph(56, |seed| {
        let config = Config::ALL[seed as usize % Config::ALL.len()];
        let plain = random_graph(seed, config).0;
        let rounded = quantized(&plain, &mut Random::new(seed + 7000), (1, false));
        let precisions = || config.feature_types.iter().copied().filter(|&precision| precision != Precision::Int16);
        let models = [plain, rounded].into_iter().flat_map(|graph| precisions().map(move |of| (graph.clone(), of)));
        for (k, (graph, precision)) in models.enumerate() {
            let model = Model { graph, reshaped: Vec::new() };
            let compiler = Compiler::new(config).precision(precision);
            let known = complete(&model.graph, of_model(&model.graph), Some(&ranges(&model.graph)));
            let checked = compiler.check(&model).map_err(|error| error.to_string());
            let compiled = compiler.compile_with(&model, &known).map_err(|error| error.to_string());
            let name = format!("graph {seed}, {k}");
            assert_eq!(checked.is_ok(), compiled.is_ok(), "{name}: {checked:?}, {:?}", compiled.err());
            if checked.is_err() {
                refused += 1;
                continue;
            }
            accepted += 1;
            if k > 0 {
                continue;
            }
            let ends = [(-1e-3, 2e-3), (-3.0, 2.0), (0.0, 900.0), (-0.01, 40.0), (-2e4, 1e3)];
            let compiled = compiler.compile_with(&model, &ranges_to(&model.graph, &ends)).unwrap();
            check(&compiled, config, &mut Random::new(seed + 1000), &name);
        }
    });
    println!("{accepted} graphs accepted, {refused} refused");
    assert!(accepted > 0);
}

/// Functions on configurations without tables: softmax over pairs of channels, and powers.
#[test]
fn emulated_functions_are_exact() {
    let powers = [Unary::Sqrt, Unary::Reciprocal, Unary::Power(-0.5), Unary::Power(1.5)];
    for unary in [Unary::Sigmoid, Unary::Tanh, Unary::Silu].into_iter().chain(powers) {
        for config in [&NV_SMALL, Config::by_name("nv_small_256").unwrap()] {
            let mut builder = Builder::new("emulated", 7);
            let data = builder.graph.input("data", &[1, 3, 9, 8]).unwrap();
            let first = windows(&mut builder, data, 13, [3, 3], 1);
            let function = builder.add(Op::Unary(unary), &[first]).unwrap();
            let last = windows(&mut builder, function, 5, [3, 3], 1);
            builder.graph.outputs.extend([function, last]);
            let compiled = compile(&builder.graph, &ranges(&builder.graph), &Options::new(config)).unwrap();
            check(&compiled, config, &mut Random::new(8), "an emulated function");
        }
    }
    // Scores near 0 have the steps that their range needs.
    let mut builder = Builder::new("emulated", 7);
    let data = builder.graph.input("data", &[1, 3, 9, 8]).unwrap();
    let first = windows(&mut builder, data, 13, [3, 3], 1);
    let scores = builder.add(Op::Unary(Unary::Sigmoid), &[first]).unwrap();
    builder.graph.outputs.push(scores);
    let mut known = ranges(&builder.graph);
    known.set(scores, Range::of(0.0, 0.1));
    let compiled = compile(&builder.graph, &known, &Options::new(&NV_SMALL)).unwrap();
    let softmax = compiled.steps.net.tensors.iter().find(|tensor| tensor.name.ends_with("softmax")).unwrap();
    assert!(softmax.range.unwrap().scale < 1.0 / 300.0, "{softmax:?}");
    check(&compiled, &NV_SMALL, &mut Random::new(8), "small scores");
}

/// Winograd's mode: tensors without negative values, sums of two tensors, channels that do not fill atoms, no padding,
/// bands of lines, and a pooling behind, which does not take its tiles on the fly.
#[test]
fn winograd_is_exact() {
    let config = &NV_FULL;
    // The last has more input than the convolution buffer holds.
    let cases = [(8, 8, 12, 1, 40), (70, 16, 8, 1, 40), (33, 10, 14, 0, 40), (5, 6, 18, 2, 3), (128, 120, 56, 1, 2)];
    for (channels, lines, columns, pad, kernels) in cases {
        let mut builder = Builder::new("winograd", 3);
        let data = builder.graph.input("data", &[1, channels, lines, columns]).unwrap();
        let data = builder.add(Op::Unary(Unary::Relu), &[data]).unwrap();
        let op = Convolution {
            group: 1,
            kernel: [3; 2],
            stride: [1; 2],
            dilation: [1; 2],
            padding: Padding { top: pad, left: pad, bottom: pad, right: pad },
        };
        let mut sums = [kernels; 2].map(|kernels| {
            let weights = builder.constant(&[kernels, channels, 3, 3], 0.1, 0.02);
            let bias = builder.constant(&[kernels], 0.3, 0.0);
            builder.add(Op::Convolution(op), &[data, weights, bias]).unwrap()
        });
        sums[0] = builder.add(Op::Unary(Unary::Relu), &[sums[0]]).unwrap();
        let sum = builder.add(Op::Binary(Binary::Add), &sums).unwrap();
        let pool = Pool { stride: [2; 2], ..Pool::new(PoolKind::Max, [2; 2]) };
        let pooled = builder.add(Op::Pool(pool), &[sum]).unwrap();
        builder.graph.outputs.push(pooled);
        for optimize in [Optimize::Size, Optimize::Prefetch] {
            let options = Options { winograd: Some(Winograd::Always), optimize, ..Options::new(config) };
            let compiled = compile(&builder.graph, &ranges(&builder.graph), &options).unwrap();
            assert_eq!(compiled.steps.numbers.iter().filter(|numbers| numbers.winograd).count(), 2);
            let bands = compiled.report.operations.iter().filter(|operation| operation.unit == "CONV").count();
            assert!(optimize == Optimize::Size || lines < 12 || bands > 4, "{bands} bands");
            check(&compiled, config, &mut Random::new(4), "winograd");
        }
    }
}

/// Five convolutions that Winograd's mode makes faster: none with a budget of nothing, all with a large one, and between them as many
/// as do not lose more than the budget.
#[test]
fn winograd_keeps_its_budget() {
    let mut builder = Builder::new("budget", 5);
    let mut tensor = builder.graph.input("data", &[1, 64, 28, 28]).unwrap();
    let op = Convolution {
        group: 1,
        kernel: [3; 2],
        stride: [1; 2],
        dilation: [1; 2],
        padding: Padding { top: 1, left: 1, bottom: 1, right: 1 },
    };
    for _ in 0..5 {
        let weights = builder.constant(&[64, 64, 3, 3], 0.1, 0.0);
        tensor = builder.add(Op::Convolution(op), &[tensor, weights]).unwrap();
        tensor = builder.add(Op::Unary(Unary::Relu), &[tensor]).unwrap();
    }
    builder.graph.outputs.push(tensor);
    let graph = &builder.graph;
    let mut random = Random::new(8);
    let samples: Vec<Vec<Vec<f32>>> =
        (0..2).map(|_| vec![(0..64 * 28 * 28).map(|_| random.real()).collect()]).collect();
    let expected: Vec<_> = samples.iter().map(|sample| float::run(graph, sample, &mut |_, _| {}).unwrap()).collect();
    let ranges = ranges(graph);
    let options = Options { inputs: vec![None], ..Options::new(&NV_FULL) };
    let loss = |compiled: &Compiled| {
        let mut measured = nvdla_compiler::evaluate::measure::Measured::new(compiled, &options.inputs).unwrap();
        measured.output_loss(&samples, &expected).unwrap().decibels()
    };
    let plain = loss(&compile(graph, &ranges, &options).unwrap());
    let mut counts = Vec::new();
    for budget in [1e-9, 0.5, 1.0, 2.0, 3.0, 60.0] {
        let compiled = budget::choose(graph, &ranges, &options, &samples, budget, &|_, _| {}).unwrap();
        let lost = plain - loss(&compiled);
        assert!(lost <= budget, "{lost} dB of {budget}");
        counts.push(compiled.steps.numbers.iter().filter(|numbers| numbers.winograd).count());
    }
    assert!(
        counts.is_sorted()
            && counts[0] == 0
            && counts[5] == 5
            && counts[1..5].iter().any(|count| (1..5).contains(count)),
        "{counts:?}"
    );
}

/// The weights of depthwise convolutions are compressed on the configuration that has compression, where they are many beside the
/// input, and on no other.
#[test]
fn depthwise_weights_are_compressed() {
    // The second has input in several bands, the third more channels per group.
    for (config, channels, lines, per_group, kernel, compressed) in [
        (&NV_FULL, 96, 10, 1, 3, true),
        (&NV_FULL, 64, 340, 1, 13, true),
        (&NV_FULL, 64, 9, 4, 3, true),
        (&NV_FULL, 96, 100, 1, 3, false),
        (&NV_LARGE, 96, 10, 1, 3, false),
    ] {
        let mut builder = Builder::new("depthwise", 6);
        let data = builder.graph.input("data", &[1, channels, lines, 50]).unwrap();
        let op = Convolution {
            group: channels / per_group,
            kernel: [kernel; 2],
            stride: [2, 1],
            dilation: [1; 2],
            padding: Padding { top: 1, left: 1, bottom: 1, right: 1 },
        };
        let weights = builder.constant(&[channels, per_group, kernel, kernel], 0.1, 0.02);
        let bias = builder.constant(&[channels], 0.3, 0.0);
        let sums = builder.add(Op::Convolution(op), &[data, weights, bias]).unwrap();
        builder.graph.outputs.push(sums);
        let compiled = compile(&builder.graph, &ranges(&builder.graph), &Options::new(config)).unwrap();
        for operation in compiled.report.operations.iter().filter(|operation| operation.unit == "CONV") {
            let plain = u64::from(operation.input[0] * operation.output[0]) * (kernel * kernel) as u64;
            assert_eq!(operation.weights < plain, compressed, "{} of {plain} bytes", operation.weights);
        }
        let bands = compiled.report.operations.iter().filter(|operation| operation.unit == "CONV").count();
        assert!(lines < 340 || bands > channels / 32, "{bands} operations");
        check(&compiled, config, &mut Random::new(7), "depthwise");
    }
}

/// Parts of one tensor that are joined again lie where that tensor lies, and a joined output is written where it is: nothing is
/// copied.
#[test]
fn parts_of_one_tensor_are_joined_in_place() {
    for config in [&NV_SMALL, &NV_SMALL_256, &NV_LARGE, &NV_FULL] {
        let mut builder = Builder::new("parts", 8);
        let data = builder.graph.input("data", &[1, 32, 6, 7]).unwrap();
        let both = windows(&mut builder, data, 64, [1, 1], 1);
        let mut part = |start: usize| {
            let op = Op::Slice { starts: vec![0, start, 0, 0], steps: vec![1; 4], lengths: vec![1, 32, 6, 7] };
            builder.add(op, &[both]).unwrap()
        };
        let [first, second] = [part(0), part(32)];
        let third = windows(&mut builder, second, 32, [3, 3], 1);
        let third = builder.add(Op::Binary(Binary::Add), &[second, third]).unwrap();
        let joined = builder.add(Op::Concat { axis: 1 }, &[first, second, third]).unwrap();
        let heads = [32, 40].map(|kernels| windows(&mut builder, joined, kernels, [1, 1], 1));
        let heads = builder.add(Op::Concat { axis: 1 }, &heads).unwrap();
        builder.graph.outputs.push(heads);
        let compiled = compile(&builder.graph, &ranges(&builder.graph), &Options::new(config)).unwrap();
        let computed = |step: &&Step| step.kind.in_sdp();
        assert_eq!(compiled.steps.net.steps.iter().filter(computed).count(), 4, "{}", config.name);
        check(&compiled, config, &mut Random::new(9), "parts");
    }
}

/// Convolutions of one tensor, with other layers between them, read it once if the convolution buffer holds it: tensors from one element
/// to more than the buffer has, windows and strides of all kinds, and poolings and sums behind some of them.
#[test]
fn convolutions_of_a_tensor_read_it_once() {
    let (mut reuse, mut elements) = (0, 0);
    let count = for_each_graph(70, |seed| {
        let config = Config::ALL[seed as usize % Config::ALL.len()];
        let mut random = Random::new(seed + 9000);
        let mut builder = Builder::new("siblings", seed);
        let most = [4, 14, 40][random.below(3)];
        let [height, width] = [0; 2].map(|_| random.between(1, most));
        let data = builder.graph.input("data", &[1, random.between(1, 40), height, width]).unwrap();
        let kernels = random.between(1, 64);
        let shared = windows(&mut builder, data, kernels, [1, 1], 1);
        let (stride, kernels) = (random.between(1, 2), random.between(1, 70));
        let mut parts = Vec::new();
        for _ in 0..random.between(2, 4) {
            let kernel = [0; 2].map(|_| 1 + 2 * random.below(3));
            let mut part = windows(&mut builder, shared, kernels, kernel, stride);
            if random.one_in(3) {
                part = builder.add(Op::Unary(Unary::Relu), &[part]).unwrap();
            }
            if random.one_in(3) {
                part = windows(&mut builder, part, kernels, [3, 3], 1);
            }
            parts.push(part);
        }
        let mut output = parts[0];
        for &part in &parts[1..] {
            output = match random.below(2) {
                0 => builder.add(Op::Binary(Binary::Add), &[output, part]).unwrap(),
                _ => windows(&mut builder, part, kernels, [1, 1], 1),
            };
            builder.graph.outputs.push(output);
        }
        // Memory that is slower than the multipliers, or as fast. Registers that say what stays are written too, which takes long.
        let (dram, register_write) = ([1.0, 20.0][random.below(2)], random.pick(&[1.0, 1.0, 100.0]));
        let conditions = Conditions { dram, register_write, ..Conditions::default() };
        let sram = if config.secondary_memif && random.one_in(3) { 8 << 10 } else { 0 };
        let options = Options { conditions, sram, ..Options::new(config) };
        let compiled = compile(&builder.graph, &ranges(&builder.graph), &options).unwrap();
        let loadable = Loadable::from_bytes(compiled.loadable.clone()).unwrap();
        let reuses = |of: &NetworkOperation| matches!(&of.operation, Operation::Conv(op) if op.data_reuse);
        reuse += usize::from(operations(&loadable).unwrap().iter().any(reuses));
        elements += check(&compiled, config, &mut random, &format!("graph {seed}"));
    });
    println!("{reuse} of {count} graphs read an input once for several convolutions; {elements} elements compared");
    assert!(reuse * 4 > count, "{reuse} graphs");
}

/// Steps with one function share a lookup table where their outputs are alike, and others have one of their own.
#[test]
fn steps_share_a_table() {
    for (config, finer, tables) in [(&NV_LARGE, 1.0, 1), (&NV_FULL, 1.0, 1), (&NV_FULL, 0.001, 2)] {
        let mut builder = Builder::new("functions", 10);
        let data = builder.graph.input("data", &[1, 16, 3, 5]).unwrap();
        let mut last = data;
        for _ in 0..3 {
            let sums = windows(&mut builder, last, 16, [1, 1], 1);
            last = builder.add(Op::Unary(Unary::Silu), &[sums]).unwrap();
        }
        builder.graph.outputs.push(last);
        let mut ranges = ranges(&builder.graph);
        for (at, largest) in [2.0f32, 9.0, 40.0].into_iter().enumerate() {
            let sums = builder.graph.nodes[2 * at].output;
            let largest = if at == 0 { largest * finer } else { largest };
            ranges.set(sums, Range::of(-largest, largest));
            ranges.set(builder.graph.nodes[2 * at + 1].output, Range::of(-0.28f32.min(largest), largest));
        }
        let compiled = compile(&builder.graph, &ranges, &Options::new(config)).unwrap();
        assert_eq!(compiled.steps.tables.len(), tables, "{}", config.name);
        check(&compiled, config, &mut Random::new(11), "functions");
    }
}

/// A pooling takes its input from SDP where SDP makes all of it: behind a convolution, and behind each branch of a
/// concatenation. A last line that no window reaches is not made.
#[test]
fn poolings_on_the_fly() {
    let small = &nvdla_uapi::config::NV_SMALL;
    for (config, branches, lines) in [(small, 1, 21), (small, 2, 21), (&NV_FULL, 2, 21), (small, 2, 20)] {
        let mut builder = Builder::new("flies", 5);
        let data = builder.graph.input("data", &[1, 8, lines, 23]).unwrap();
        let parts: Vec<_> = (0..branches).map(|at| windows(&mut builder, data, 12 + at, [3, 3], 1)).collect();
        let all = builder.add(Op::Concat { axis: 1 }, &parts).unwrap();
        let pool = Pool { stride: [2; 2], ..Pool::new(PoolKind::Max, [3; 2]) };
        let out = builder.add(Op::Pool(pool), &[all]).unwrap();
        builder.graph.outputs.push(out);
        let compiled = compile(&builder.graph, &ranges(&builder.graph), &Options::new(config)).unwrap();
        check(&compiled, config, &mut Random::new(6), "flies");
        let poolings: Vec<_> = compiled.report.operations.iter().filter(|operation| operation.unit == "PDP").collect();
        assert_eq!(poolings.len(), branches);
        // Their time is counted with the convolution.
        assert!(poolings.iter().all(|operation| operation.cycles == 0));
        let made = compiled.steps.net.steps[0].output;
        assert_eq!(compiled.steps.net.tensors[made].shape[1..], [21 - 2 * u32::from(lines == 20), 23]);
    }
}

/// A convolution that does not fit the convolution buffer hands its output to a pooling in bands, with windows across their ends, with
/// padding, and with windows apart.
#[test]
fn poolings_fly_behind_cut_convolutions() {
    let average = PoolKind::Average { count_include_pad: true };
    for (config, input, kind, kernel, stride, pad) in [
        (&NV_SMALL, [24, 90, 64], PoolKind::Max, 3, 2, 1),
        (&NV_SMALL, [24, 90, 64], average, 2, 2, 0),
        (&NV_SMALL, [24, 90, 64], PoolKind::Max, 2, 3, 0),
        (&NV_SMALL_256, [32, 90, 64], PoolKind::Max, 3, 2, 1),
        (&NV_LARGE, [32, 144, 128], average, 2, 2, 0),
    ] {
        let mut builder = Builder::new("flies", 5);
        let data = builder.graph.input("data", &[1, input[0], input[1], input[2]]).unwrap();
        let made = windows(&mut builder, data, 8, [3, 3], 1);
        let padding = Padding { top: pad, left: pad, ..Padding::default() };
        let pool = Pool { kind, kernel: [kernel; 2], stride: [stride; 2], dilation: [1; 2], padding };
        let out = builder.add(Op::Pool(pool), &[made]).unwrap();
        builder.graph.outputs.push(out);
        let graph = &builder.graph;
        let [bands, whole] = [Optimize::Time, Optimize::Size].map(|optimize| {
            let options = Options { optimize, ..Options::new(config) };
            compile(graph, &ranges(graph), &options).unwrap()
        });
        check(&bands, config, &mut Random::new(6), "flies");
        let poolings = bands.report.operations.iter().filter(|operation| operation.unit == "PDP");
        assert!(poolings.clone().count() > 1 && poolings.clone().all(|operation| operation.cycles == 0));
        assert!(bands.report.cycles < whole.report.cycles, "{} and {}", bands.report.cycles, whole.report.cycles);
    }
}

/// More weights than the convolution buffer holds: kernel groups pass through it.
#[test]
fn kernel_groups_are_exact() {
    chain([130, 5, 4], |builder, data| {
        let first = windows(builder, data, 300, [5, 4], 1);
        windows(builder, first, 20, [1, 1], 1)
    });
}

/// A softmax whose results lie among copies of them: only the tensors that operations write alone are compared.
#[test]
fn what_the_emulator_writes_is_not_taken_for_what_operations_write() {
    let mut builder = Builder::new("surrounded", 9);
    let data = builder.graph.input("data", &[1, 5, 4, 6]).unwrap();
    let softmax = builder.add(Op::Softmax { axis: 1 }, &[data]).unwrap();
    let (before, after) = (vec![0, 0, 0, 1], vec![0, 0, 0, 2]);
    let surrounded = builder.add(Op::Pad { mode: PadMode::Edge, before, after }, &[softmax]).unwrap();
    let last = windows(&mut builder, surrounded, 6, [1, 1], 1);
    builder.graph.outputs.push(last);
    let compiled = compile(&builder.graph, &ranges(&builder.graph), &Options::new(&NV_SMALL)).unwrap();
    check(&compiled, &NV_SMALL, &mut Random::new(10), "surrounded");
}

/// A softmax between convolutions: three tasks.
#[test]
fn softmax_in_the_middle() {
    let mut builder = Builder::new("softmax", 9);
    let data = builder.graph.input("data", &[1, 8, 9, 9]).unwrap();
    let first = windows(&mut builder, data, 11, [3, 3], 1);
    let softmax = builder.add(Op::Softmax { axis: 1 }, &[first]).unwrap();
    let second = windows(&mut builder, softmax, 6, [2, 2], 1);
    builder.graph.outputs.push(second);
    let config = &nvdla_uapi::config::NV_SMALL;
    let compiled = compile(&builder.graph, &ranges(&builder.graph), &Options::new(config)).unwrap();
    check(&compiled, config, &mut Random::new(10), "softmax");
    let loadable = Loadable::from_bytes(compiled.loadable).unwrap();
    let tasks: Vec<_> = loadable.tasks_in_order().map(nvdla_runtime::loadable::Task::interface).collect();
    use nvdla_runtime::loadable::Interface::{Dla1, Emu1};
    assert_eq!(tasks, [Dla1, Emu1, Dla1]);
}

/// fp16 on nv_full: near to the graph in real numbers.
#[test]
fn random_graphs_in_fp16() {
    let mut compared = 0;
    for_each_graph(40, |seed| {
        let (graph, _) = random_graph(seed, &NV_FULL);
        let mut random = Random::new(seed + 2000);
        let value = |random: &mut Random| half::to_f32(half::from_f32(random.real()));
        let values = |id: &TensorId| (0..graph.tensor(*id).elements()).map(|_| value(&mut random)).collect();
        let sample: Vec<Vec<f32>> = graph.inputs.iter().map(values).collect();
        // A graph whose values are not finite has no ranges.
        let Ok(measured) = Measured::new(&graph, [Ok(sample.clone())]) else { return };
        let winograd = Some(if seed % 3 == 0 { Winograd::Always } else { Winograd::Faster });
        let optimize = if seed % 2 == 0 { Optimize::Prefetch } else { Optimize::Time };
        let options = Options { precision: Precision::Fp16, winograd, optimize, ..Options::new(&NV_FULL) };
        let compiled = match compile(&graph, &measured.ranges(Method::Max), &options) {
            Ok(compiled) => compiled,
            Err(error) => {
                println!("graph {seed} in fp16: {error}");
                return;
            }
        };
        let inputs = vec![None; sample.len()];
        let found = nvdla_compiler::evaluate::measure::Measured::new(&compiled, &inputs).unwrap().run(&sample).unwrap();
        let expected = float::run(&graph, &sample, &mut |_, _| {}).unwrap();
        for ((found, expected), id) in found.iter().zip(&expected).zip(&graph.outputs) {
            assert_eq!(found.len(), expected.len());
            let product =
                |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
            let size = product(expected, expected).sqrt();
            let cosine = product(found, expected) / (product(found, found).sqrt() * size).max(1e-12);
            let name = &graph.tensor(*id).name;
            assert!(size < 1e-3 || cosine > 0.999, "graph {seed}: \"{name}\": cosine {cosine}");
            compared += found.len();
        }
    });
    println!("{compared} elements of fp16 compared");
}

/// The graph with quantized tensors in random places: inputs, outputs, operands and between. All later nodes read the rounded tensor.
/// Each place is tried a number of times, so a tensor that is rounded may be rounded again. With `all` every trial rounds.
fn quantized(graph: &Graph, random: &mut Random, (times, all): (usize, bool)) -> Graph {
    let mut quantized = graph.clone();
    quantized.nodes.clear();
    let mut place: Vec<TensorId> = (0..graph.tensors.len()).map(TensorId).collect();
    let mut round = |quantized: &mut Graph, id: TensorId| {
        if !all && random.one_in(2) {
            return id;
        }
        let (zero, limits) = random.pick(&[
            (0, (-128, 127)),
            (-128, (-128, 127)),
            (128, (0, 255)),
            (0, (0, 255)),
            (60, (0, 255)),
            (255, (0, 255)),
            (-100, (-128, 127)),
        ]);
        let scale = random.pick(&[0.002f32, 0.004, 0.01, 0.02]);
        let name = format!("{} rounded", quantized.tensor(id).name);
        let q = Quantization { scale: vec![scale], zero_point: vec![zero], axis: None, limits };
        let (low, high) = q.values()[0];
        let rounded = quantized.add(name.clone(), Op::Unary(Unary::Clip(low, high)), &[id], name).unwrap();
        quantized.tensors[rounded.0].quantization = Some(q);
        rounded
    };
    let mut round = |quantized: &mut Graph, id: TensorId| (0..times).fold(id, |id, _| round(quantized, id));
    for &id in &graph.inputs {
        place[id.0] = round(&mut quantized, id);
    }
    for node in &graph.nodes {
        let mut node = node.clone();
        node.inputs.iter_mut().for_each(|id| *id = place[id.0]);
        let output = node.output;
        quantized.nodes.push(node);
        place[output.0] = round(&mut quantized, output);
    }
    quantized.outputs = graph.outputs.iter().map(|id| place[id.0]).collect();
    quantized
}

/// The zero of a quantized tensor that a step adds twice counts twice.
#[test]
fn a_quantized_tensor_is_added_twice() {
    for config in [&NV_SMALL, &NV_FULL] {
        let mut graph = Graph::new("twice");
        let data = graph.input("data", &[1, 8, 4, 4]).unwrap();
        let (scale, zero) = (0.02f32, 48);
        let q = Quantization { scale: vec![scale], zero_point: vec![zero], axis: None, limits: (-128, 127) };
        let (low, high) = q.values()[0];
        let x = graph.add("x", Op::Unary(Unary::Clip(low, high)), &[data], "x").unwrap();
        graph.tensors[x.0].quantization = Some(q);
        let two = graph.add("two", Op::Binary(Binary::Add), &[x, x], "two").unwrap();
        let three = graph.add("three", Op::Binary(Binary::Add), &[two, x], "three").unwrap();
        graph.outputs.push(three);
        let values: Vec<f32> = (0..128u8).map(|k| f32::from(k) * 0.04 - 3.0).collect();
        let measured = Measured::new(&graph, [Ok(vec![values.clone()])]).unwrap().ranges(Method::Max);
        let ranges = complete(&graph, of_model(&graph), Some(&measured));
        let compiled = compile(&graph, &ranges, &Options::new(config)).unwrap();
        let mut model = nvdla_compiler::evaluate::measure::Measured::new(&compiled, &[None]).unwrap();
        for (found, x) in model.run(std::slice::from_ref(&values)).unwrap()[0].iter().zip(&values) {
            let expected = 3.0 * x.clamp(low, high);
            assert!((found - expected).abs() < 0.15, "{}: {found} instead of {expected}", config.name);
        }
    }
}

/// A tensor as a quantized model rounds it.
fn rounded(builder: &mut Builder, id: TensorId, scale: f32, zero: i32) -> TensorId {
    let q = Quantization { scale: vec![scale], zero_point: vec![zero], axis: None, limits: (-128, 127) };
    let (low, high) = q.values()[0];
    let id = builder.add(Op::Unary(Unary::Clip(low, high)), &[id]).unwrap();
    builder.graph.tensors[id.0].quantization = Some(q);
    id
}

/// A convolution with the integers of a quantized model: all kernels have one scale, and most of them use a part of the integers.
fn of_integers(builder: &mut Builder, from: TensorId) -> TensorId {
    let [channels, ..] = builder.shape(from);
    let weights: Vec<f32> = (0..8 * channels * 9)
        .map(|at| {
            let reach = 60 + 9 * (at / (channels * 9));
            (builder.random.below(2 * reach + 1) as f32 - reach as f32) * 0.0017
        })
        .collect();
    let name = format!("weights {}", builder.graph.tensors.len());
    let weights = builder.graph.add_constant(name, &[8, channels, 3, 3], weights).unwrap();
    let padding = Padding { top: 1, left: 1, bottom: 1, right: 1 };
    let op = Convolution { group: 1, kernel: [3; 2], stride: [1; 2], dilation: [1; 2], padding };
    builder.add(Op::Convolution(op), &[from, weights]).unwrap()
}

/// The integers of a quantized model are its own: of convolutions whose weights have one scale for all kernels, of products with
/// tensors without negative values, of parts of a concatenation with other scales, of averages, and of tables.
#[test]
fn quantized_models_have_their_own_integers() {
    type Case = (&'static str, bool, f32, fn(&mut Builder, TensorId) -> TensorId);
    fn average(builder: &mut Builder, x: TensorId, dilation: [usize; 2]) -> TensorId {
        let kind = PoolKind::Average { count_include_pad: dilation == [1; 2] };
        let padding = Padding { top: 1, left: 0, bottom: 1, right: 0 };
        let padding = if dilation == [1; 2] { padding } else { Padding::default() };
        builder.add(Op::Pool(Pool { kind, kernel: [4; 2], stride: [1; 2], dilation, padding }), &[x]).unwrap()
    }
    let cases: [Case; 6] = [
        ("weights", false, 0.031, of_integers),
        ("a product", true, 0.023, |builder, x| {
            let step = builder.add(Op::Unary(Unary::Sigmoid), &[x]).unwrap();
            let gate = rounded(builder, step, 1.0 / 255.0, -128);
            builder.add(Op::Binary(Binary::Mul), &[x, gate]).unwrap()
        }),
        ("a table", true, 0.043, |builder, x| {
            let power = builder.add(Op::Unary(Unary::Exp), &[x]).unwrap();
            let power = rounded(builder, power, 0.037, -100);
            builder.add(Op::Binary(Binary::Add), &[power, x]).unwrap()
        }),
        ("a concatenation", false, 0.029, |builder, x| {
            let fine = of_integers(builder, x);
            let fine = rounded(builder, fine, 0.0031, 7);
            let all = builder.add(Op::Concat { axis: 1 }, &[x, fine]).unwrap();
            let all = rounded(builder, all, 0.047, -3);
            let [a, b] = [all, fine].map(|id| of_integers(builder, id));
            let [a, b] = [(a, 0.041), (b, 0.013)].map(|(id, scale)| rounded(builder, id, scale, 0));
            builder.add(Op::Binary(Binary::Add), &[a, b]).unwrap()
        }),
        ("an average", false, 0.0053, |builder, x| average(builder, x, [1; 2])),
        ("an average of elements apart", false, 0.0053, |builder, x| average(builder, x, [2; 2])),
    ];
    for config in [&NV_SMALL, &NV_FULL] {
        for (name, tables, scale, add) in cases.iter().filter(|case| config.sdp_lut || !case.1) {
            let mut builder = Builder::new(name, 11);
            let data = builder.graph.input("data", &[1, 8, 12, 14]).unwrap();
            let x = rounded(&mut builder, data, 0.0083, 4);
            let x = of_integers(&mut builder, x);
            let x = rounded(&mut builder, x, 0.019, 12);
            let y = add(&mut builder, x);
            let y = rounded(&mut builder, y, *scale, if *tables { -100 } else { 5 });
            builder.graph.outputs.push(y);
            let graph = &builder.graph;
            let ranges = complete(graph, of_model(graph), None);
            let compiled = compile(graph, &ranges, &Options::new(config)).unwrap();
            check(&compiled, config, &mut Random::new(8), name);
            let mut random = Random::new(9);
            let values: Vec<f32> = (0..8 * 12 * 14).map(|_| random.real()).collect();
            let expected = float::run(graph, std::slice::from_ref(&values), &mut |_, _| {}).unwrap();
            let mut model = nvdla_compiler::evaluate::measure::Measured::new(&compiled, &[None]).unwrap();
            let found = model.run(&[values]).unwrap();
            let off = |(found, expected): (&f32, &f32)| (found - expected).abs() / scale;
            let steps: Vec<f32> = found[0].iter().zip(&expected[0]).map(off).collect();
            let equal = steps.iter().filter(|off| **off < 0.01).count() as f32 / steps.len() as f32;
            let most = steps.iter().copied().fold(0.0, f32::max);
            println!("{name} on {}: {:.1} % equal, at most {most:.1} steps", config.name, equal * 100.0);
            assert!(equal > 0.9 && most < 3.1, "{name} on {}: {equal}, {most}", config.name);
        }
    }
}

/// Quantized graphs: the results of int8 are those of plain loops, no stored tensor of a quantized model has values beyond its limits,
/// and the outputs are near to those of the graph in real numbers, in int8 and in fp16.
#[test]
fn quantized_graphs_keep_their_limits() {
    let (mut elements, mut limited, mut losses) = (0, 0, Vec::new());
    let mut keeps = |seed: u64, variant: (usize, bool)| {
        let config = Config::ALL[seed as usize % Config::ALL.len()];
        let (graph, inputs) = random_graph(seed, config);
        let graph = quantized(&graph, &mut Random::new(seed + 7000), variant);
        graph.check().unwrap();
        let mut random = Random::new(seed + 8000);
        let value = |(k, id): (usize, &TensorId)| -> Vec<f32> {
            let plane: usize = graph.shape(*id)[2..].iter().product();
            let byte = |at: usize, random: &mut Random| match &inputs[k] {
                Some(preprocess) => {
                    let (mean, std) = preprocess.channel(at / plane);
                    (random.below(256) as f32 - mean) / std
                }
                None => random.real(),
            };
            (0..graph.tensor(*id).elements()).map(|at| byte(at, &mut random)).collect()
        };
        let sample: Vec<Vec<f32>> = graph.inputs.iter().enumerate().map(value).collect();
        // What a simplified graph computes is the same. An element may be rounded to the other of two steps.
        let mut simplified = graph.clone();
        simplify(&mut simplified);
        simplified.check().unwrap();
        let runs = |graph: &Graph| float::run(graph, &sample, &mut |_, _| {}).unwrap();
        for (found, expected) in runs(&simplified).iter().zip(&runs(&graph)) {
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-3 * (1.0 + b.abs());
            let far = found.iter().zip(expected).filter(|pair| !near(*pair)).count();
            assert!(far * 20 <= found.len() + 20, "graph {seed}, {variant:?}, simplified: {far} of {}", found.len());
        }
        let graph = if seed.is_multiple_of(2) { graph } else { simplified };
        let measured = Measured::new(&graph, [Ok(sample.clone())]).unwrap().ranges(Method::Max);
        let ranges = complete(&graph, of_model(&graph), Some(&measured));
        let options = Options { inputs: inputs.clone(), bytes: Bytes::Eight, ..Options::new(config) };
        if let Ok(compiled) = compile(&graph, &ranges, &options) {
            elements += check(&compiled, config, &mut Random::new(seed + 1000), &format!("graph {seed}"));
            let mut loss = Loss::default();
            let expected = float::run(&graph, &sample, &mut |_, _| {}).unwrap();
            let mut model = nvdla_compiler::evaluate::measure::Measured::new(&compiled, &inputs).unwrap();
            for (k, (found, expected)) in model.run(&sample).unwrap().iter().zip(&expected).enumerate() {
                loss.add(found, expected);
                // Errors of many steps are no rounding, unless the values are as small as the model's own steps.
                let own = compiled.steps.scales[compiled.steps.net.outputs[k]].scale;
                let mut of_output = Loss::default();
                of_output.add(found, expected);
                let root = (of_output.noise / expected.len() as f64).sqrt();
                assert!(
                    of_output.decibels() > 5.0 || root < 25.0 * own || root < 0.02,
                    "graph {seed}, {variant:?}, on {}: output {k} has {:.1} dB",
                    config.name,
                    of_output.decibels()
                );
                let Some(q) = &graph.tensor(graph.outputs[k]).quantization else { continue };
                let ((low, high), step) =
                    (q.values()[0], 1.01 * q.scale[0].max(compiled.steps.scales[graph.outputs[k].0].scale as f32));
                assert!(
                    found.iter().all(|value| (low - step..=high + step).contains(value)),
                    "graph {seed} on {}: output {k} is not between {low} and {high}",
                    config.name
                );
                limited += 1;
            }
            losses.push(loss.decibels());
        }
        // In fp16 values are not rounded to the model's steps.
        let mut smooth = graph.clone();
        smooth.tensors.iter_mut().for_each(|tensor| tensor.quantization = None);
        let options = Options { precision: Precision::Fp16, inputs: inputs.clone(), ..Options::new(&NV_FULL) };
        if let Ok(compiled) = compile(&graph, &ranges, &options) {
            // Limits that no value exceeds are left out, so the values must lie within the bounds that say so.
            let bounds = bounds(&smooth, &inputs);
            let mut within = |id: TensorId, values: &[f32]| {
                let (low, high) = bounds[id.0];
                let near = 1e-4 * (1.0 + values.iter().fold(0.0, |most: f32, value| most.max(value.abs())));
                let name = &smooth.tensor(id).name;
                for value in values {
                    assert!(
                        (low - near..=high + near).contains(value),
                        "graph {seed}: {name}: {value}, {low} to {high}"
                    );
                }
            };
            let expected = float::run(&smooth, &sample, &mut within).unwrap();
            let mut model = nvdla_compiler::evaluate::measure::Measured::new(&compiled, &inputs).unwrap();
            let mut loss = Loss::default();
            for (found, expected) in model.run(&sample).unwrap().iter().zip(&expected) {
                loss.add(found, expected);
            }
            // A value that rounding moves to the other side of a jump is far away.
            let jumps = |node: &nvdla_compiler::ir::Node| matches!(node.op, Op::Unary(unary) if unary.jump().is_some());
            let near = loss.signal <= 1e-3 || loss.decibels() >= 30.0 || graph.nodes.iter().any(jumps);
            assert!(near, "graph {seed}, {variant:?}: {} dB in fp16", loss.decibels());
        }
    };
    for_each_graph(60, |seed| {
        for variant in [(1, false), (2, false), (1, true), (2, true)] {
            keeps(seed, variant);
        }
    });
    losses.sort_by(f64::total_cmp);
    let median = losses.get(losses.len() / 2).copied().unwrap_or(0.0);
    println!("{elements} elements compared, {limited} outputs with limits, a median of {median:.1} dB: {losses:.0?}");
    assert!(median > 20.0, "a median of {median} dB");
}

/// An output that takes a part of what is joined in its last atom has the channels that it takes.
#[test]
fn an_output_has_the_channels_that_it_takes() {
    let head = |length: usize, [_, height, width]: [usize; 3]| Op::Slice {
        starts: vec![0; 4],
        steps: vec![1; 4],
        lengths: vec![1, length, height, width],
    };
    for (channels, length) in [(8, 13), (16, 29), (32, 41)] {
        let input = [channels, 6, 7];
        exact_and_near(input, |builder, data| {
            let made = builder.convolution_1x1(data, channels).unwrap();
            let pool =
                Pool { padding: Padding { top: 1, left: 1, bottom: 1, right: 1 }, ..Pool::new(PoolKind::Max, [3; 2]) };
            let pooled = builder.add(Op::Pool(pool), &[made]).unwrap();
            let joined = builder.add(Op::Concat { axis: 1 }, &[made, pooled]).unwrap();
            builder.add(head(length, input), &[joined]).unwrap()
        });
    }
}

/// A softmax over channels on a configuration whose atoms the emulator does not have: the results in half precision have lines, too,
/// where the pixels of its input became lines.
#[test]
fn a_softmax_of_pixels_runs_where_atoms_are_halves() {
    for [channels, height, width] in [[8, 6, 7], [5, 1, 9], [8, 9, 1], [12, 1, 1]] {
        let mut builder = Builder::new("softmax of pixels", 3);
        let data = builder.graph.input("data", &[1, channels, height, width]).unwrap();
        let made = builder.convolution_1x1(data, channels).unwrap();
        let shares = builder.add(Op::Softmax { axis: 1 }, &[made]).unwrap();
        builder.graph.outputs.push(shares);
        let config = &NV_MEDIUM_512;
        let compiled = compile(&builder.graph, &ranges(&builder.graph), &Options::new(config)).unwrap();
        check(&compiled, config, &mut Random::new(4), "a softmax of pixels");
        // Of a part of a tensor, whose lines are not adjacent.
        let part = Op::Slice { starts: vec![0; 4], steps: vec![1; 4], lengths: vec![1, channels, height, width] };
        let mut builder = Builder::new("softmax of a part", 3);
        let data = builder.graph.input("data", &[1, channels, height + 1, width + 2]).unwrap();
        let made = builder.convolution_1x1(data, channels).unwrap();
        let part = builder.add(part, &[made]).unwrap();
        let shares = builder.add(Op::Softmax { axis: 1 }, &[part]).unwrap();
        builder.graph.outputs.extend([shares, made]);
        let compiled = compile(&builder.graph, &ranges(&builder.graph), &Options::new(config)).unwrap();
        check(&compiled, config, &mut Random::new(4), "a softmax of a part");
    }
}

/// Quotients of two tensors, also where the processor computes the reciprocals.
#[test]
fn quotients_of_two_tensors_are_exact() {
    for channels in [1, 6] {
        for config in Config::ALL {
            let mut builder = Builder::new("quotient", 5);
            let data = builder.graph.input("data", &[1, 6, 5, 7]).unwrap();
            let a = builder.convolution_1x1(data, 6).unwrap();
            let b = builder.convolution_1x1(data, channels).unwrap();
            let positive = builder.add(Op::Unary(Unary::Clip(0.5, 4.0)), &[b]).unwrap();
            let quotient = builder.add(Op::Binary(Binary::Div), &[a, positive]).unwrap();
            builder.graph.outputs.push(quotient);
            let mut ranges = ranges(&builder.graph);
            ranges.set(positive, Range::of(0.5, 4.0));
            let compiled = compile(&builder.graph, &ranges, &Options::new(config)).unwrap();
            check(&compiled, config, &mut Random::new(6), "a quotient");
            // Without samples the limits say that the divisor is not near 0.
            if *config == NV_FULL {
                let decibels = fp16_decibels(&builder.graph, 9);
                assert!(decibels > 45.0, "{decibels} dB in fp16");
            }
        }
    }
}
