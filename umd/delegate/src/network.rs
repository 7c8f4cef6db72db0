// SPDX-License-Identifier: MIT OR Apache-2.0

//! An interpreter's graph, which groups are compiled from: when the delegate is prepared, and again when a size has changed.

use std::collections::HashMap;
use std::sync::Arc;

use nvdla_compiler::compiler::Compiler;
use nvdla_compiler::import::model;
use nvdla_compiler::import::tflite::file::File;
use nvdla_compiler::import::tflite::survey;
use nvdla_compiler::partition;
use nvdla_compiler::survey::Survey;
use nvdla_frameworks::device::Devices;
use nvdla_frameworks::divide;
use nvdla_frameworks::kernel::{Group, Loaded, Runner};
use nvdla_frameworks::options::Options;
use nvdla_frameworks::tensor::Kind;
use nvdla_frameworks::{guarded, Failure, Result};
use nvdla_uapi::config::Config;

use crate::context::{Context, Part};
use crate::graph;

/// What the delegates of an application are given.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) options: Options,
    pub(crate) config: &'static Config,
    pub(crate) devices: Arc<Devices>,
}

/// An interpreter's graph.
pub(crate) struct Network {
    pub(crate) settings: Settings,
    file: File<'static>,
    /// Bytes of its constants.
    size: u64,
    kinds: HashMap<String, Kind>,
}

impl Network {
    /// The graph of the nodes of a plan.
    ///
    /// # Safety
    ///
    /// The constants and the options of operators live as long as the network: they are the model's, which an application keeps
    /// as long as the interpreter.
    pub(crate) unsafe fn new(context: Context<'static>, plan: &[usize], settings: Settings) -> Result<Self> {
        // SAFETY: the caller's.
        let (file, size) = unsafe { graph::file(context, plan) }?;
        let mut kinds = HashMap::new();
        for (k, tensor) in file.tensors.iter().enumerate() {
            if let Some(kind) = graph::given(context.tensor(k)?.kind) {
                kinds.insert(tensor.name.clone(), kind);
            }
        }
        Ok(Self { settings, file, size, kinds })
    }

    /// What its nodes compute, with the shapes of tensors that are known now.
    pub(crate) fn survey(&self, shapes: HashMap<String, Vec<usize>>) -> Result<Survey> {
        let options = model::Options { shapes, ..model::Options::default() };
        guarded(|| survey::of_file(&self.file, self.size, &options).map_err(|error| Failure(error.to_string())))
    }

    pub(crate) fn compiler(&self, survey: &Survey) -> Compiler {
        divide::compiler(survey, self.settings.config, &self.settings.options)
    }

    pub(crate) fn kind(&self, name: &str) -> Option<Kind> {
        self.kinds.get(name).copied()
    }

    /// Compiles some nodes of a survey as one group.
    pub(crate) fn group(&self, survey: &Survey, nodes: &[usize]) -> Result<Group> {
        let compiler = self.compiler(survey);
        let limits = &self.settings.options.limits;
        let group = guarded(|| partition::group(survey, &compiler, limits, nodes).map_err(Failure))?;
        divide::of_group(group, self.settings.config, &|name| self.kind(name))
    }

    /// A compiled group for the tensors of a part.
    pub(crate) fn runner(&self, group: Group, part: &Part) -> Result<Runner> {
        let loaded = Loaded::new(group, &self.settings.devices, &self.settings.options)?;
        Runner::new(loaded, &self.names(&part.inputs), &self.names(&part.outputs))
    }

    fn names(&self, tensors: &[usize]) -> Vec<String> {
        tensors.iter().map(|&k| self.name(k).to_owned()).collect()
    }

    pub(crate) fn name(&self, tensor: usize) -> &str {
        self.file.tensors.get(tensor).map_or("", |tensor| &tensor.name)
    }

    /// The shapes of all tensors as the interpreter has them now.
    pub(crate) fn shapes(&self, context: Context<'_>) -> Result<HashMap<String, Vec<usize>>> {
        let mut shapes = HashMap::new();
        for (k, tensor) in self.file.tensors.iter().enumerate() {
            // Tensors that a file does not give a size have no dimensions before they are computed.
            if let Some(shape) = context.shape(k)?.filter(|shape| !shape.is_empty() && !shape.contains(&0)) {
                shapes.insert(tensor.name.clone(), shape);
            }
        }
        Ok(shapes)
    }
}
