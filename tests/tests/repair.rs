// SPDX-License-Identifier: MIT OR Apache-2.0

//! Poolings that do not fit PDP's line buffer: a device refuses them, the runtime's repair divides them into parts that fit, and
//! the compiler makes none. `NVDLA_DEVICE=rtl:PROGRAM` runs the repaired and the compiled ones on the RTL of nv_small.

use nvdla_compiler::ir::{Graph, Op, Padding, Pool, PoolKind};
use nvdla_compiler::options::Options;
use nvdla_compiler::pipeline::compile;
use nvdla_runtime::device::ModelDevice;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::operations::repair;
use nvdla_runtime::session::{refusals, Session};
use nvdla_tests::zoo;
use nvdla_uapi::config::{Config, NV_SMALL};

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
    let pool = Op::Pool(Pool { kind, kernel, stride, padding });
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

/// The model of nv_small, or the simulator that `NVDLA_DEVICE` names.
fn device() -> ModelDevice {
    let named = std::env::var("NVDLA_DEVICE").ok();
    let Some(program) = named.as_deref().and_then(|name| name.strip_prefix("rtl:")) else {
        return ModelDevice::new(&NV_SMALL);
    };
    ModelDevice::rtl(nvdla_rtl::Simulator::start(&program.parse().unwrap()).unwrap())
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
        assert_eq!(run(repaired.loadable, device()), whole, "case {case}, repaired");
        assert_eq!(run(loadable(case, &NV_SMALL), device()), whole, "case {case}, compiled");
    }
}
