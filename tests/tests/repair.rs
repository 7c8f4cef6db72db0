// SPDX-License-Identifier: MIT OR Apache-2.0

//! Poolings that PDP cannot compute: a device refuses them, the runtime's repair changes them, and the compiler makes none. `NVDLA_DEVICE=rtl:PROGRAM` runs the repaired and the compiled ones on the RTL of nv_small.

use nvdla_compiler::ir::{Graph, Op, Padding, Pool, PoolKind};
use nvdla_compiler::options::Options;
use nvdla_compiler::pipeline::compile;
use nvdla_runtime::device::ModelDevice;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::operations::repair;
use nvdla_runtime::session::{refusals, Session};
use nvdla_tests::case::model_or_rtl;
use nvdla_tests::zoo;
use nvdla_uapi::config::{Config, NV_SMALL};
use nvdla_uapi::desc::{Descriptor, Operation, PdpOp, PdpSurface, Surface, Wire};

/// nv_small with a longer line buffer, as NVIDIA's compiler assumes it.
static LONG: Config = Config { pdp_line_atoms: 1024, ..NV_SMALL };

/// A pooling in one part.
type Case = (PoolKind, [usize; 2], [usize; 2], usize, [usize; 2], bool);

/// Kind, window, stride, padding, input height and width, and whether they fit.
const CASES: [Case; 9] = [
    (PoolKind::Max, [2, 2], [2, 2], 0, [4, 256], true),
    (PoolKind::Max, [2, 2], [2, 2], 0, [4, 258], false),
    (PoolKind::Max, [3, 3], [2, 2], 0, [5, 129], true),
    (PoolKind::Max, [3, 3], [2, 2], 0, [5, 131], false),
    (PoolKind::Max, [3, 3], [2, 2], 1, [6, 320], false),
    (PoolKind::Average { count_include_pad: true }, [3, 3], [1, 1], 1, [5, 33], false),
    (PoolKind::Average { count_include_pad: true }, [2, 5], [1, 2], 2, [4, 140], false),
    (PoolKind::Max, [8, 8], [1, 3], 0, [9, 70], false),
    (PoolKind::Average { count_include_pad: true }, [8, 8], [1, 1], 3, [9, 35], false),
];

fn loadable(case: usize, config: &'static Config) -> Loadable {
    let (kind, kernel, stride, pad, [height, width], _) = CASES[case];
    let mut graph = Graph::new("wide");
    let data = graph.input("data", &[1, 11, height, width]).unwrap();
    let padding = Padding { top: pad.min(kernel[0] - 1), bottom: pad.min(kernel[0] - 1), left: pad, right: pad };
    let pool = Op::Pool(Pool { kind, kernel, stride, dilation: [1; 2], padding });
    let output = graph.add("pool".to_owned(), pool, &[data], "out".to_owned()).unwrap();
    graph.outputs.push(output);
    Loadable::from_bytes(compile(&graph, &zoo::uniform(&graph, 1.0), &Options::new(config)).unwrap().loadable).unwrap()
}

/// The output for the same input in all runs.
fn run(loadable: Loadable, device: ModelDevice) -> Vec<u8> {
    let mut session = Session::new(loadable, device).unwrap();
    let bytes = session.input_mut(0).unwrap();
    bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 89 + at / 7 * 31) as u8);
    session.run().unwrap();
    session.output(0).unwrap().to_vec()
}

#[test]
fn poolings_are_divided_into_parts_that_fit() {
    for (case, fits) in CASES.iter().map(|case| case.5).enumerate() {
        let whole = run(loadable(case, &LONG), ModelDevice::new(&LONG));
        let refused = refusals(loadable(case, &LONG), &NV_SMALL).unwrap();
        assert_eq!(refused.is_empty(), fits, "case {case}: {refused:?}");
        if let Some(refused) = refused.first() {
            let text = refused.to_string();
            assert!(text.contains("dst_data.width is") && text.contains("--repair"), "{text}");
        }
        let repaired = repair(&loadable(case, &LONG), &NV_SMALL).unwrap();
        assert_eq!(repaired.poolings.is_empty(), fits, "case {case}: {:?}", repaired.poolings);
        assert!(repaired.poolings.iter().all(|pooling| pooling.before == 1 && pooling.parts > 1));
        // A second repair has nothing to do.
        assert!(repair(&repaired.loadable, &NV_SMALL).unwrap().poolings.is_empty());
        assert_eq!(refusals(Loadable::from_bytes(repaired.loadable.as_bytes()).unwrap(), &NV_SMALL).unwrap().len(), 0);
        assert_eq!(run(repaired.loadable, model_or_rtl(&NV_SMALL)), whole, "case {case}, repaired");
        assert_eq!(run(loadable(case, &NV_SMALL), model_or_rtl(&NV_SMALL)), whole, "case {case}, compiled");
    }
}

/// A loadable with a pooling whose windows end before its input: the compiler's, with a pooling that has more lines and columns of the
/// tensor, or more padding. Returns the position of the operation list and that of the surface list, too.
fn unread(more: [u16; 2], padding: [u8; 2]) -> Loadable {
    let mut graph = Graph::new("unread");
    let data = graph.input("data", &[1, 11, 11, 12]).unwrap();
    let pool = Pool { stride: [3, 5], ..Pool::new(PoolKind::Max, [3, 4]) };
    let mut last = data;
    for (layer, kernel, stride) in [(0, [3, 4], [3, 5]), (1, [2, 2], [1, 1])] {
        let op = Op::Pool(Pool { kernel, stride, ..pool });
        last = graph.add(format!("pool {layer}"), op, &[last], format!("out {layer}")).unwrap();
    }
    graph.outputs.push(last);
    let loadable = compile(&graph, &zoo::uniform(&graph, 1.0), &Options::new(&NV_SMALL)).unwrap().loadable;
    let mut bytes = loadable.clone();
    let loadable = Loadable::from_bytes(loadable).unwrap();
    let mut found = nvdla_runtime::operations::operations(&loadable).unwrap().into_iter();
    let first = found.find_map(|one| match (one.operation, one.surface) {
        (Operation::Pdp(op), Surface::Pdp(surface)) => Some((op, surface)),
        _ => None,
    });
    let (op, surface) = first.unwrap();
    let replace = |bytes: &mut Vec<u8>, old: &[u8], new: &[u8]| {
        let at = bytes.windows(old.len()).position(|part| part == old).unwrap();
        bytes[at..at + new.len()].copy_from_slice(new);
    };
    let (mut old, mut new) = ([0; PdpOp::SIZE], [0; PdpOp::SIZE]);
    op.write(&mut old).unwrap();
    PdpOp { pad_bottom: padding[0], pad_right: padding[1], ..op }.write(&mut new).unwrap();
    replace(&mut bytes, &old, &new);
    let (mut old, mut new) = ([0; PdpSurface::SIZE], [0; PdpSurface::SIZE]);
    surface.write(&mut old).unwrap();
    let mut cube = surface.src_data;
    (cube.height, cube.width) = (cube.height + more[0], cube.width + more[1]);
    PdpSurface { src_data: cube, ..surface }.write(&mut new).unwrap();
    replace(&mut bytes, &old, &new);
    Loadable::from_bytes(bytes).unwrap()
}

#[test]
fn what_no_window_reads_is_left_out() {
    let whole = run(unread([0; 2], [0; 2]), model_or_rtl(&NV_SMALL));
    for (more, padding) in [([0, 1], [0, 0]), ([2, 3], [0, 0]), ([0, 0], [1, 0]), ([0, 0], [2, 4]), ([1, 1], [1, 2])] {
        let refused = refusals(unread(more, padding), &NV_SMALL).unwrap();
        let text = refused.iter().map(ToString::to_string).collect::<String>();
        assert!(text.contains("the windows of the pooling reach only") && text.contains("--repair"), "{more:?} {text}");
        let repaired = repair(&unread(more, padding), &NV_SMALL).unwrap();
        let unread = [more[0] + u16::from(padding[0]), more[1] + u16::from(padding[1])];
        assert_eq!(repaired.poolings.iter().map(|pooling| pooling.unread).collect::<Vec<_>>(), [unread]);
        assert!(repair(&repaired.loadable, &NV_SMALL).unwrap().poolings.is_empty());
        assert_eq!(run(repaired.loadable, model_or_rtl(&NV_SMALL)), whole, "{more:?} {padding:?}");
    }
}
