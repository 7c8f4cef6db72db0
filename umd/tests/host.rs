// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the host computes besides the hardware's tasks, compared with the results of NVIDIA's runtime: input tensors from images,
//! emulated tasks, `.dimg` files.

use std::{fs, path::PathBuf};

use nvdla_runtime::device;
use nvdla_runtime::dimg::{Dimg, SurfaceFormat, Tensor};
use nvdla_runtime::emulator;
use nvdla_runtime::image::{Encoder, Picture, Settings, Target};
use nvdla_runtime::loadable::{DataType, Interface, Loadable, PixelFormat};
use nvdla_runtime::operations;
use nvdla_runtime::profile::{Conditions, Profile};
use nvdla_uapi::desc::OpType;
use nvdla_uapi::emu;

/// The folders of the reference's loadables, sorted.
fn cases(reference: &std::path::Path) -> Vec<PathBuf> {
    let mut folders: Vec<_> = fs::read_dir(reference.join("loadables"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("net.nvdla").is_file())
        .collect();
    folders.sort();
    folders
}

#[test]
fn images_become_the_reference_inputs() {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    let eight = Picture::open(reference.join("images/digits/eight.pgm")).unwrap();
    let mut formats = std::collections::BTreeMap::<String, u32>::new();
    for folder in cases(&reference) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        // These networks' inputs are this digit, except for formats that the reference program cannot fill.
        if !name.starts_with("lenet") && !name.starts_with("mnist") {
            continue;
        }
        let loadable = Loadable::open(folder.join("net.nvdla")).unwrap();
        let tensor = loadable.tensors().iter().find(|tensor| tensor.name() == "data").unwrap();
        let random = [PixelFormat::R10, PixelFormat::A16B16G16R16, PixelFormat::R16_F, PixelFormat::B8G8R8X8];
        if random.contains(&tensor.pixel_format()) {
            continue;
        }
        let golden = fs::read(folder.join("in0.bin")).unwrap();
        let first = golden.len() / tensor.n() as usize;
        let mut bytes = vec![0xee; first];
        Encoder::new(&Target::from(tensor), &Settings::default()).unwrap().encode(&eight, &mut bytes).unwrap();
        assert!(bytes == golden[..first], "{name}");
        *formats.entry(format!("{} {}", tensor.pixel_format(), tensor.data_type())).or_default() += 1;
    }
    eprintln!("inputs that match, by format: {formats:?}");
    assert!(formats.len() >= 6, "{formats:?}");
}

#[test]
fn outputs_become_the_reference_files() {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    let mut count = 0;
    for folder in cases(&reference) {
        let loadable = Loadable::open(folder.join("net.nvdla")).unwrap();
        for memory in loadable.outputs() {
            let tensor = loadable.tensor(memory.tensor_desc_id()).unwrap();
            let bytes = fs::read(folder.join(format!("out{}.bin", memory.bind_id()))).unwrap();
            let golden = fs::read(folder.join(format!("out{}.dimg", memory.bind_id()))).unwrap();
            let format = match (tensor.pixel_format(), tensor.data_type()) {
                (_, DataType::Half) => SurfaceFormat::FeatureFp16,
                (PixelFormat::FEATURE_X8, _) => SurfaceFormat::FeatureInt8x8,
                _ => SurfaceFormat::FeatureInt8,
            };
            let file = Tensor {
                format,
                width: tensor.w() as u32,
                height: tensor.h() as u32,
                channels: tensor.c() as u32,
                line_stride: tensor.stride_1(),
                surface_stride: tensor.stride_2(),
                atom: None,
                bytes: &bytes,
            }
            .to_dimg()
            .unwrap();
            assert!(file == golden, "{}", folder.display());
            count += 1;
        }
    }
    eprintln!("{count} .dimg files match");
    assert!(count >= 302);
    for entry in fs::read_dir(reference.join("regression")).unwrap() {
        let golden = fs::read(entry.unwrap().path().join("golden.dimg")).unwrap();
        assert!(!Dimg::parse(&golden).unwrap().elements.is_empty());
    }
}

/// A task's memory outside any session: the loadable's memories, seen through the task's address list.
struct Memories {
    memories: Vec<Vec<u8>>,
    /// Position of the memory, and offset in it.
    addresses: Vec<(usize, usize)>,
}

impl emulator::Memory for Memories {
    fn size(&self, index: usize) -> Option<u64> {
        self.addresses.get(index).map(|&(memory, offset)| (self.memories[memory].len() - offset) as u64)
    }

    fn read(&self, index: usize, offset: u64, into: &mut [u8]) -> bool {
        let Some(&(memory, start)) = self.addresses.get(index) else { return false };
        let from = self.memories[memory][start..].get(offset as usize..).and_then(|rest| rest.get(..into.len()));
        from.map(|from| into.copy_from_slice(from)).is_some()
    }

    fn write(&mut self, index: usize, offset: u64, from: &[u8]) -> bool {
        let Some(&(memory, start)) = self.addresses.get(index) else { return false };
        let into =
            self.memories[memory][start..].get_mut(offset as usize..).and_then(|rest| rest.get_mut(..from.len()));
        into.map(|into| into.copy_from_slice(from)).is_some()
    }
}

#[test]
fn emulated_tasks_compute_the_reference_outputs() {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    let (mut softmaxes, mut powers) = (0, 0);
    for folder in cases(&reference) {
        let loadable = Loadable::open(folder.join("net.nvdla")).unwrap();
        let Some(task) = loadable.tasks().iter().find(|task| task.interface() == Interface::Emu1) else { continue };
        let memories = loadable
            .memories()
            .iter()
            .map(|memory| {
                let mut bytes = vec![0; memory.size() as usize];
                for (blob, offset) in loadable.contents(memory) {
                    bytes[offset as usize..][..blob.data().len()].copy_from_slice(blob.data());
                }
                bytes
            })
            .collect();
        let addresses = task
            .address_list()
            .iter()
            .map(|id| {
                let address = loadable.address(id).unwrap();
                (loadable.memory_position(address.mem_id()).unwrap(), address.offset() as usize)
            })
            .collect();
        let mut memories = Memories { memories, addresses };

        // The task's only input is the output of the last operation before it, which the reference has if it is small.
        let list = |position: u16, bytes: usize| {
            let mut list = vec![0; bytes];
            assert!(emulator::Memory::read(&memories, position.into(), 0, &mut list));
            list
        };
        let network = emu::Network::parse(&list(0, emu::NETWORK_SIZE)).unwrap();
        let source = emu::Buffer::parse(&list(network.buffers, emu::BUFFERS_SIZE), emu::Form::WithScales).unwrap();
        let operation =
            emu::Operation::parse(&list(network.operations, emu::OPERATION_SIZE), emu::Form::WithScales).unwrap();
        let mut surfaces: Vec<_> = fs::read_dir(folder.join("surfaces"))
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("op_t0"))
            .collect();
        surfaces.sort();
        let last = loadable.blob("task-0-op_list").unwrap().data().len() / 116 - 1;
        let Some(surface) = surfaces.last().filter(|path| path.to_string_lossy().contains(&format!("_{last:03}_")))
        else {
            continue;
        };
        if network.num_operations != 1 {
            continue;
        }
        let surface = fs::read(surface).unwrap();
        assert!(emulator::Memory::write(
            &mut memories,
            source.address_index.into(),
            source.address_offset.into(),
            &surface
        ));

        assert_eq!(emulator::run(&mut memories).unwrap(), 1);
        let output = loadable.outputs().next().unwrap();
        let got = &memories.memories[loadable.memory_position(output.id()).unwrap()];
        let golden = fs::read(folder.join(format!("out{}.bin", output.bind_id()))).unwrap();
        assert!(got[..golden.len()] == golden, "{}", folder.display());
        match operation.kind {
            emu::Kind::Softmax { .. } => softmaxes += 1,
            emu::Kind::Power { .. } => powers += 1,
        }
    }
    eprintln!("{softmaxes} softmax and {powers} power tasks match");
    assert!(softmaxes > 10 && powers > 0);
}

#[test]
fn every_network_has_an_estimate() {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    let mut count = 0;
    for folder in cases(&reference) {
        let loadable = Loadable::open(folder.join("net.nvdla")).unwrap();
        let config = device::recognise(&loadable).config;
        let profile = Profile::new(&loadable, config, Conditions::default()).unwrap();
        let operations = operations::operations(&loadable).unwrap();
        assert_eq!(profile.rows.len(), operations.len());
        // Groups follow one another, with register accesses between them, and members of a group start together.
        let mut groups: Vec<_> = profile.rows.iter().map(|row| (row.start, row.group)).collect();
        groups.sort_unstable();
        groups.dedup();
        for pair in groups.windows(2) {
            assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{}: {pair:?}", folder.display());
        }
        assert_eq!(groups.last().map(|(start, cycles)| start + cycles), Some(profile.cycles()), "{}", folder.display());
        for row in profile.rows.iter().filter(|row| row.unit == OpType::Conv) {
            let fused = profile.rows.iter().find(|other| (other.task, other.source) == (row.task, Some(row.operation)));
            let fused = fused.unwrap_or_else(|| panic!("{}: {} has no SDP", folder.display(), row.operation));
            assert_eq!((fused.start, fused.unit), (row.start, OpType::Sdp), "{}", folder.display());
        }
        assert!(profile.cycles() > 0);
        assert!(profile.to_trace().contains("\"ph\":\"X\""));
        count += profile.rows.len();
    }
    eprintln!("{count} operations estimated");
}
