// SPDX-License-Identifier: MIT OR Apache-2.0

//! Valid tasks as a starting point, and the positions of the fields of their descriptors.

use std::path::Path;

use nvdla_engine::TaskMemory;
use nvdla_runtime::loadable::Loadable;
use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{
    sdp_op, BdmaOp, BdmaSurface, CdpOp, CdpSurface, CommonOp, ConvOp, ConvSurface, Descriptor, Lut, Network, OpType,
    Operation, Part, PdpOp, PdpSurface, RubikOp, RubikSurface, SdpOp, SdpSurface, Surface, Wire,
};
use nvdla_uapi::reg::values::Precision;

use super::choices::Seeded;
use super::network;
use super::steps;
use crate::build::{every_unit, Net};
use crate::tasks::HostTask;

/// The page size that all drivers' buffers are a multiple of.
const PAGE: usize = 4096;

/// The list of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// The network descriptor.
    Network,
    /// The dependency graph.
    Graph,
    /// The operation list.
    Operations,
    /// The surface list.
    Surfaces,
    /// The lookup tables.
    Tables,
}

/// One number of a descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The list.
    pub list: List,
    /// Position in the list.
    pub index: u16,
    /// The unit of the operation; BDMA for the network and the tables.
    pub unit: OpType,
    /// The name of the part that holds it; empty if it is in the descriptor itself.
    pub part: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The position of its list in the address list.
    pub entry: u16,
    /// Bytes from that address.
    pub offset: usize,
    /// Bytes.
    pub size: usize,
}

/// A valid task.
#[derive(Clone, Debug)]
pub struct Base {
    /// Its origin.
    pub name: String,
    /// The configuration that it is for.
    pub config: &'static Config,
    /// Memories.
    pub areas: Vec<Vec<u8>>,
    /// The address list: memory, offset, size.
    pub entries: Vec<(usize, u64, u64)>,
    /// The fields of its descriptors.
    pub fields: Vec<Field>,
    /// The number of the model's steps for it ([`steps::of_task`]).
    pub steps: u64,
}

impl Base {
    /// The task, if the engine accepts it.
    pub fn new(name: &str, config: &'static Config, task: &HostTask) -> Option<Self> {
        task.parse(config).ok()?;
        // Entries of one memory overlap; memories do not.
        let buffers: Vec<_> = (0..task.count()).filter_map(|index| task.buffer(index)).collect();
        let mut spans: Vec<(u64, u64)> = buffers.iter().map(|b| (b.address, b.address + b.size)).collect();
        spans.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (start, end) in spans {
            match merged.last_mut() {
                Some(last) if start < last.1 => last.1 = last.1.max(end),
                _ => merged.push((start, end)),
            }
        }
        let mut areas: Vec<Vec<u8>> = merged.iter().map(|(start, end)| vec![0; (end - start) as usize]).collect();
        let mut entries = Vec::new();
        for (index, buffer) in buffers.iter().enumerate() {
            // Empty buffers are in no memory, and name the first.
            let found = merged.iter().position(|&(start, end)| start <= buffer.address && buffer.address < end);
            let area = found.unwrap_or(0);
            let offset = buffer.address.saturating_sub(merged[area].0);
            if found.is_some() {
                let at = offset as usize;
                task.read(index, 0, &mut areas[area][at..at + buffer.size as usize]).ok()?;
            }
            entries.push((area, offset, buffer.size));
        }
        let (fields, steps) = (fields(task)?, steps::of_task(task));
        Some(Self { name: name.to_owned(), config, areas, entries, fields, steps })
    }

    /// The tasks of a loadable that the engine accepts.
    pub fn of_loadable(name: &str, config: &'static Config, loadable: &Loadable) -> Vec<Self> {
        HostTask::all(loadable).iter().filter_map(|task| Self::new(name, config, task)).collect()
    }

    /// The value of a field, as an unsigned number.
    pub fn value(&self, field: &Field) -> Option<u64> {
        let (area, start, _) = *self.entries.get(usize::from(field.entry))?;
        let at = start as usize + field.offset;
        let mut bytes = [0; 8];
        bytes[..field.size].copy_from_slice(self.areas[area].get(at..at + field.size)?);
        Some(u64::from_le_bytes(bytes))
    }

    /// Extends the task's memories to whole pages, and its entries to the ends of their memories, as a driver has them.
    #[must_use]
    pub fn in_pages(mut self) -> Self {
        for bytes in &mut self.areas {
            bytes.resize(bytes.len().next_multiple_of(PAGE).max(PAGE), 0);
        }
        for (area, offset, size) in &mut self.entries {
            let length = self.areas[*area].len() as u64;
            if *size == 0 {
                // An empty entry is in no memory.
                *offset = 0;
            }
            *size = length - *offset;
        }
        self
    }

    /// Bytes of its memories.
    pub fn bytes(&self) -> usize {
        self.areas.iter().map(Vec::len).sum()
    }
}

/// Adds the numbers of a descriptor's parts.
fn flatten(into: &mut Vec<Field>, parts: &'static [Part], like: Field) {
    for part in parts {
        for element in 0..part.size / part.element {
            let offset = like.offset + part.offset + element * part.element;
            if part.parts.is_empty() {
                into.push(Field { name: part.name, offset, size: part.element, ..like });
            } else {
                flatten(into, part.parts, Field { part: part.name, offset, ..like });
            }
        }
    }
}

fn fields(task: &HostTask) -> Option<Vec<Field>> {
    let mut bytes = [0; Network::SIZE];
    task.read(0, 0, &mut bytes).ok()?;
    let network = Network::parse(&bytes).ok()?;
    let mut fields = Vec::new();
    let none =
        Field { list: List::Network, index: 0, unit: OpType::Bdma, part: "", name: "", entry: 0, offset: 0, size: 0 };
    flatten(&mut fields, Network::PARTS, none);
    let mut luts = Vec::new();
    for index in 0..network.num_operations {
        let at = usize::from(index);
        let mut entry = [0; CommonOp::SIZE];
        task.read(network.dependency_graph_index as usize, (at * CommonOp::SIZE) as u64, &mut entry).ok()?;
        let unit = CommonOp::peek_op_type(&entry).ok()?;
        let here = |list, entry: i16, offset| Field { list, index, unit, entry: entry as u16, offset, ..none };
        let (op, surface) = match unit {
            OpType::Bdma => (BdmaOp::PARTS, BdmaSurface::PARTS),
            OpType::Conv => (ConvOp::PARTS, ConvSurface::PARTS),
            OpType::Sdp => (SdpOp::PARTS, SdpSurface::PARTS),
            OpType::Pdp => (PdpOp::PARTS, PdpSurface::PARTS),
            OpType::Cdp => (CdpOp::PARTS, CdpSurface::PARTS),
            OpType::Rubik => (RubikOp::PARTS, RubikSurface::PARTS),
        };
        let graph = here(List::Graph, network.dependency_graph_index, at * CommonOp::SIZE);
        flatten(&mut fields, CommonOp::PARTS, graph);
        flatten(&mut fields, op, here(List::Operations, network.operation_desc_index, at * Operation::SIZE));
        let surfaces = here(List::Surfaces, network.surface_desc_index, at * Surface::SIZE);
        let first = fields.len();
        flatten(&mut fields, surface, surfaces);
        if unit == OpType::Bdma {
            // Unused transfers have no effect.
            let mut bytes = [0; BdmaSurface::SIZE];
            task.read(network.surface_desc_index as usize, (at * Surface::SIZE) as u64, &mut bytes).ok()?;
            let count = usize::from(BdmaSurface::parse(&bytes).ok()?.num_transfers);
            let numbers = fields[first..].iter().filter(|field| field.part.is_empty()).count();
            fields.truncate(first + numbers + count * 9);
        }
        if let Some(lut) = fields[..first].iter().rev().take(64).find(|field| field.name == "lut_index") {
            let mut bytes = [0; 2];
            task.read(usize::from(lut.entry), lut.offset as u64, &mut bytes).ok()?;
            luts.extend(usize::try_from(i16::from_le_bytes(bytes)));
        }
        if unit == OpType::Sdp {
            // For an unused sub-unit only its enable field has an effect.
            let mut bytes = [0; SdpOp::SIZE];
            let offset = (at * Operation::SIZE) as u64;
            task.read(network.operation_desc_index as usize, offset, &mut bytes).ok()?;
            let used = SdpOp::parse(&bytes).ok()?;
            let off = [("x1_op", used.x1_op), ("x2_op", used.x2_op), ("y_op", used.y_op)];
            let off = off.map(|(name, unit)| (name, unit.is_none()));
            let offsets = [sdp_op::x1_op, sdp_op::x2_op, sdp_op::y_op].map(|part| at * Operation::SIZE + part);
            fields.retain(|field| {
                let here = field.list == List::Operations && field.index == index && !field.part.is_empty();
                let part = offsets.iter().rposition(|&part| field.offset >= part);
                !here || field.name == "enable" || !part.is_some_and(|part| off[part].1)
            });
            fields.retain(|field| {
                let surface = field.list == List::Surfaces && field.index == index;
                !surface || !off.iter().any(|(name, off)| *off && field.part[..2.min(field.part.len())] == name[..2])
            });
        }
    }
    luts.sort_unstable();
    luts.dedup();
    for index in luts {
        let entry = network.lut_data_index as u16;
        let table = Field { list: List::Tables, index: index as u16, entry, offset: index * Lut::SIZE, ..none };
        flatten(&mut fields, Lut::PARTS, table);
    }
    Some(fields)
}

/// Valid tasks for a configuration: those built here, the compiler's, and those of the reference data if it exists.
///
/// # Errors
///
/// When a folder of the reference data cannot be read.
pub fn corpus(config: &'static Config, reference: Option<&Path>) -> Result<Vec<Base>, String> {
    let mut all = own(config, 60)?;
    for (name, path) in files(config, reference)? {
        // Files that the loader or the engine refuses have their own tests.
        let Ok(loadable) = Loadable::open(&path) else { continue };
        all.extend(Base::of_loadable(&name, config, &loadable));
    }
    Ok(all)
}

/// Valid tasks for a configuration that are built here: in code, and compiled from `networks` random networks.
///
/// # Errors
///
/// If the compiler's file is not a loadable.
pub fn own(config: &'static Config, networks: usize) -> Result<Vec<Base>, String> {
    let mut all = Vec::new();
    for precision in [Precision::Int8, Precision::Int16, Precision::Fp16] {
        if config.has_feature_type(precision) {
            all.extend(Base::new(&format!("every unit, {precision:?}"), config, &every_unit(config, precision).task()));
        }
    }
    all.extend(Base::new("nothing", config, &Net::new().task()));
    let mut choices = Seeded::new(1, 0);
    for number in 0..networks {
        // Not every network can be compiled for every configuration.
        let Ok(file) = network::loadable(&network::network(&mut choices)?, config) else { continue };
        let loadable = Loadable::from_bytes(file).map_err(|error| error.to_string())?;
        all.extend(Base::of_loadable(&format!("random network {number}"), config, &loadable));
    }
    Ok(all)
}

/// The loadables for a configuration: the example's, and those of the reference data.
fn files(config: &Config, reference: Option<&Path>) -> Result<Vec<(String, std::path::PathBuf)>, String> {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/lenet");
    let name = if config.name == "nv_full" { "lenet.nvdla".to_owned() } else { format!("lenet.{}.nvdla", config.name) };
    let mut found = vec![(name.clone(), examples.join(name))];
    for set in ["loadables", "loadables-2"] {
        let Some(folder) = reference.map(|reference| reference.join(set)) else { continue };
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if name.split('.').nth(1) == Some(config.name) {
                found.push((name, path.join("net.nvdla")));
            }
        }
    }
    found.retain(|(_, path)| path.is_file());
    found.sort();
    Ok(found)
}
