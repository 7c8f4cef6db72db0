// SPDX-License-Identifier: MIT OR Apache-2.0

//! Loadables with memory in SRAM: those of the compiler have the structure of NVIDIA's (`opt-cvsram` among the reference data).

use nvdla_compiler::options::Options;
use nvdla_compiler::pipeline::compile;
use nvdla_runtime::device::ModelDevice;
use nvdla_runtime::loadable::{Interface, Loadable, MemoryDomain, MemoryFlags};
use nvdla_runtime::operations::{operations, races};
use nvdla_runtime::profile::{Conditions, Profile};
use nvdla_runtime::session::Session;
use nvdla_tests::{reference, zoo};
use nvdla_uapi::config::{Config, NV_FULL};
use nvdla_uapi::desc::{DataCube, MemoryType, Surface};

/// The cubes of a surface.
fn cubes(surface: &Surface) -> Vec<DataCube> {
    match surface {
        Surface::Conv(s) => vec![s.src_data, s.weight_data, s.wmb_data, s.wgs_data],
        Surface::Sdp(s) => vec![s.src_data, s.x1_data, s.x2_data, s.y_data, s.dst_data],
        Surface::Pdp(s) => vec![s.src_data, s.dst_data],
        Surface::Cdp(s) => vec![s.src_data, s.dst_data],
        Surface::Rubik(s) => vec![s.src_data, s.dst_data],
        Surface::Bdma(_) => Vec::new(),
    }
}

/// Asserts how a loadable describes its memory in SRAM. Returns the number of surfaces there.
fn check(loadable: &Loadable, name: &str) -> usize {
    let memories: Vec<_> = loadable.memories().iter().filter(|memory| memory.domain() == MemoryDomain::Sram).collect();
    let [memory] = &memories[..] else { panic!("{name}: {} memories in SRAM", memories.len()) };
    // It is allocated, and neither filled nor bound to an input or output.
    assert_eq!((memory.flags(), memory.alignment()), (MemoryFlags::ALLOC, 4096), "{name}");
    assert_eq!(loadable.contents(*memory).count(), 0, "{name}");
    let addresses: Vec<_> = loadable.addresses().iter().filter(|address| address.mem_id() == memory.id()).collect();
    let [address] = &addresses[..] else { panic!("{name}: {} addresses in SRAM", addresses.len()) };
    assert_eq!((address.offset(), address.size()), (0, memory.size()), "{name}");
    assert!(loadable.relocations().iter().all(|relocation| relocation.address_id() != address.id()), "{name}");
    for task in loadable.tasks().iter() {
        assert!(task.address_list().iter().any(|id| id == address.id()), "{name}: task {}", task.id());
    }
    let mut count = 0;
    for operation in operations(loadable).unwrap() {
        let task = loadable.task(operation.task).unwrap();
        assert_eq!(task.interface(), Interface::Dla1);
        let list: Vec<u16> = task.address_list().iter().collect();
        for cube in cubes(&operation.surface) {
            let Ok(at) = usize::try_from(cube.address) else { continue };
            if matches!(cube.mem_type, MemoryType::Mc | MemoryType::Cv) && cube.size > 0 {
                let in_sram = list[at] == address.id();
                assert_eq!(cube.mem_type == MemoryType::Cv, in_sram, "{name}: operation {}", operation.index);
                assert!(!in_sram || u64::from(cube.offset) + u64::from(cube.size) <= memory.size(), "{name}");
                count += usize::from(in_sram);
            }
        }
    }
    count
}

#[test]
fn nvidias_loadables() {
    let Some(folder) = reference::folder() else { return };
    let mut count = 0;
    for entry in folder.join("loadables").read_dir().unwrap().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".opt-cvsram") {
            assert!(check(&Loadable::open(entry.path().join("net.nvdla")).unwrap(), &name) > 0, "{name}");
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn the_compilers_loadables() {
    let graph = zoo::graph("mnist_resnet", 28).unwrap();
    let ranges = zoo::uniform(&graph, 6.0);
    for config in Config::ALL {
        let options = Options { inputs: vec![Some(zoo::preprocess())], sram: 40 << 10, ..Options::new(config) };
        let compiled = compile(&graph, &ranges, &options);
        if !config.secondary_memif {
            let error = compiled.err().unwrap().to_string();
            assert!(error.contains(config.name) && error.contains("SRAM"), "{error}");
            continue;
        }
        let compiled = compiled.unwrap();
        let loadable = Loadable::from_bytes(compiled.loadable).unwrap();
        assert!(check(&loadable, config.name) > 0, "{}", config.name);
        assert_eq!(races::races(&loadable).unwrap(), races::Races::default());
        let report = compiled.report.sram.unwrap();
        assert!(report.pool <= 40 << 10 && report.pool >= report.pool_bound, "{report:?}");
        assert!(report.cycles < report.cycles_in_dram, "{report:?}");
    }
}

/// Runs of layers in bands keep their tensors in SRAM. The bytes of the output stay the same, and the network takes less time by
/// the profile, which counts the loadable's own register writes, and by the report, which assumes a usual number of them.
#[test]
fn bands_in_sram() {
    let graph = zoo::graph("mobilenet", 96).unwrap();
    let ranges = zoo::uniform(&graph, 6.0);
    let (mut outputs, mut times) = (Vec::new(), Vec::new());
    for sram in [0, 48 << 10] {
        let options = Options { inputs: vec![Some(zoo::preprocess())], sram, ..Options::new(&NV_FULL) };
        let compiled = compile(&graph, &ranges, &options).unwrap();
        let loadable = Loadable::from_bytes(compiled.loadable).unwrap();
        times.push(Profile::new(&loadable, &NV_FULL, Conditions::default()).unwrap().cycles());
        let mut session = Session::new(loadable, ModelDevice::new(&NV_FULL)).unwrap();
        let size = session.inputs().next().unwrap().size;
        let picture: Vec<u8> = (0..size).map(|at| (at * 7 + at / 96 % 11) as u8 & 0x7f).collect();
        session.set_input(0, &picture).unwrap();
        session.run().unwrap();
        outputs.push(session.output(0).unwrap().to_vec());
        let Some(report) = compiled.report.sram else { continue };
        assert!(!compiled.report.division.unwrap().runs.is_empty());
        assert!(report.cycles < report.cycles_in_dram, "{report:?}");
    }
    assert!(outputs[0].iter().any(|&byte| byte != 0));
    assert_eq!(outputs[0], outputs[1]);
    assert!(times[1] < times[0], "{times:?}");
}

#[test]
fn without_sram_no_memory_is_placed_there() {
    let graph = zoo::graph("mnist_resnet", 28).unwrap();
    let compiled = compile(&graph, &zoo::uniform(&graph, 6.0), &Options { sram: 0, ..Options::new(&NV_FULL) }).unwrap();
    let loadable = Loadable::from_bytes(compiled.loadable).unwrap();
    assert!(loadable.memories().iter().all(|memory| memory.domain() == MemoryDomain::System));
    assert_eq!(compiled.report.sram, None);
}
