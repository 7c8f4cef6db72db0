// SPDX-License-Identifier: MIT OR Apache-2.0

//! The provider of one session: it claims nodes, and makes runners of them.
//!
//! Claiming compiles on trial and loads the groups onto their device. Making the runners fails only because of the device that the
//! user has named: ONNX Runtime ends the session when that fails.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nvdla_compiler::import::model;
use nvdla_compiler::import::onnx::{proto, survey};
use nvdla_frameworks::device::{self, Devices};
use nvdla_frameworks::divide::{self, Divided, Level};
use nvdla_frameworks::kernel::{Group, Loaded, Runner};
use nvdla_frameworks::memory;
use nvdla_frameworks::tensor::Kind;
use nvdla_frameworks::{c_string, guarded, Failure, Result};
use nvdla_runtime::device::Selection;
use nvdla_runtime::files;
use nvdla_uapi::config::Config;

use crate::api::{Api, Attribute, Graph, Node};
use crate::graph;
use crate::options::{Embedded, Options};
use crate::payload;
use crate::sys;

/// The provider's name.
pub(crate) const NAME: &CStr = c"NvdlaExecutionProvider";
/// The operator of a compiled group.
const CONTEXT: &str = "EPContext";
/// The greatest size of the file beside a model with what an EPContext node needs: that of a model.
const MAX_PAYLOAD: u64 = 2 << 30;

/// The provider of a session.
pub(crate) struct Provider {
    pub(crate) api: Api,
    logger: *const sys::OrtLogger,
    options: Options,
    config: &'static Config,
    devices: Arc<Devices>,
    /// Groups that were claimed, by the smallest name of an output of their nodes, or why their device cannot be used.
    claimed: Mutex<HashMap<String, Result<Loaded>>>,
    /// Whether a graph of the session has groups already.
    compiled: AtomicBool,
}

/// What a group of a session is after [`Provider::compile`].
pub(crate) struct Made {
    pub(crate) runner: Runner,
    /// The EPContext node, if ONNX Runtime asks for one; else null.
    pub(crate) context: *mut sys::OrtNode,
}

impl Provider {
    pub(crate) fn new(
        api: Api,
        logger: *const sys::OrtLogger,
        options: Options,
        devices: Arc<Devices>,
    ) -> Result<Self> {
        let config = device::configuration(&options.common)?;
        Ok(Self { api, logger, options, config, devices, claimed: Mutex::default(), compiled: AtomicBool::default() })
    }

    /// Writes a line to the session's log.
    pub(crate) fn log(&self, level: sys::OrtLoggingLevel, text: &str) {
        self.api.log(self.logger, level, text);
    }

    /// Whether each run is logged.
    pub(crate) fn profiles(&self) -> bool {
        self.options.common.profile
    }

    /// What an EPContext node says of the hardware that it is for.
    pub(crate) fn compatibility(&self) -> CString {
        crate::compatibility::of(self.config)
    }

    /// Claims the nodes of a graph that NVDLA runs.
    pub(crate) fn claim(&self, graph: Graph<'_>, info: *mut sys::OrtEpGraphSupportInfo) -> Result<()> {
        let nodes = self.api.nodes(graph)?;
        let mut others = false;
        for &node in &nodes {
            if self.api.operator(node)? == CONTEXT {
                if self.is_ours(node)? {
                    self.fuse(info, &[node])?;
                }
            } else {
                others = true;
            }
        }
        if !others {
            return Ok(());
        }
        if !self.api.inner_groups {
            if self.api.is_inner(graph)? {
                let text = "NVDLA runs no node of a graph inside a node with ONNX Runtime 1.23";
                self.log(sys::ORT_LOGGING_LEVEL_INFO, text);
                return Ok(());
            }
            // ONNX Runtime ends the session if a name comes again.
            if self.compiled.load(Ordering::Relaxed) {
                let text =
                    "NVDLA runs no more nodes: ONNX Runtime 1.23 gives new groups the names of those that run already";
                self.log(sys::ORT_LOGGING_LEVEL_WARNING, text);
                return Ok(());
            }
        }
        // A model that the compiler cannot read is no reason to end the session: the processor runs it.
        let Divided { groups, summary } = match guarded(|| self.divide(graph, &nodes)) {
            Ok(divided) => divided,
            Err(Failure(reason)) => {
                self.log(sys::ORT_LOGGING_LEVEL_WARNING, &format!("NVDLA runs no node: {reason}"));
                return Ok(());
            }
        };
        let mut count = 0;
        for (positions, group) in groups {
            let loaded = match Loaded::new(group, &self.devices, &self.options.common) {
                Err(Failure(reason)) if self.options.common.device == Selection::Auto => {
                    self.log(sys::ORT_LOGGING_LEVEL_WARNING, &format!("NVDLA runs a group of nodes less: {reason}"));
                    continue;
                }
                // A device that the user has named must be there. ONNX Runtime ignores a failure of this call, and not that of
                // `compile`.
                loaded => loaded,
            };
            let members: Vec<Node<'_>> = positions.iter().map(|&position| nodes[position]).collect();
            let first = self.first_output(&members)?;
            self.fuse(info, &members)?;
            self.claimed.lock().unwrap_or_else(PoisonError::into_inner).insert(first, loaded);
            count += 1;
        }
        memory::give_back();
        let level = if count == 0 { sys::ORT_LOGGING_LEVEL_WARNING } else { sys::ORT_LOGGING_LEVEL_INFO };
        self.log(level, &summary);
        Ok(())
    }

    fn fuse(&self, info: *mut sys::OrtEpGraphSupportInfo, nodes: &[Node<'_>]) -> Result<()> {
        let pointers: Vec<_> = nodes.iter().map(|node| node.pointer()).collect();
        let options =
            sys::OrtNodeFusionOptions { ort_version_supported: crate::api::VERSION, drop_constant_initializers: true };
        let add = self.api.provider.EpGraphSupportInfo_AddNodesToFuse.ok_or("ONNX Runtime fuses no nodes")?;
        // SAFETY: the info and the nodes are of this call, and the other values live until the function returns.
        self.api.done(unsafe { add(info, pointers.as_ptr(), pointers.len(), &raw const options) })
    }

    /// The name that identifies a group: the smallest name of an output. ONNX Runtime may order the nodes anew.
    fn first_output(&self, nodes: &[Node<'_>]) -> Result<String> {
        let mut least: Option<String> = None;
        for &node in nodes {
            for output in self.api.outputs(node)?.into_iter().flatten() {
                let name = self.api.name(output)?;
                if !name.is_empty() && least.as_ref().is_none_or(|least| name < *least) {
                    least = Some(name);
                }
            }
        }
        least.ok_or_else(|| "a group of nodes has no output".into())
    }

    /// The groups, each with the positions of its nodes in the graph, and a summary.
    fn divide(&self, graph: Graph<'_>, nodes: &[Node<'_>]) -> Result<Divided> {
        let model = graph::model(self.api, graph, nodes)?;
        let kinds = kinds(&model);
        let survey = survey::of_model(&model, None, &model::Options::default(), false);
        drop(model);
        let survey = survey.map_err(|error| Failure(error.to_string()))?;
        let compiler = divide::compiler(&survey, self.config, &self.options.common);
        let log = |level, text: &str| match level {
            Level::Warning => self.log(sys::ORT_LOGGING_LEVEL_WARNING, &format!("NVDLA: {text}")),
            _ => self.log(sys::ORT_LOGGING_LEVEL_INFO, &format!("NVDLA {text}")),
        };
        let kind = |name: &str| kinds.get(name).and_then(|&kind| Kind::try_from(kind).ok());
        let mut divided = divide::divide(&survey, &compiler, self.config, &self.options.common, &kind, &log)?;
        for (nodes, _) in &mut divided.groups {
            for k in nodes {
                *k = survey.nodes[*k].position;
            }
        }
        Ok(divided)
    }

    fn is_ours(&self, node: Node<'_>) -> Result<bool> {
        let Some(source) = self.api.attribute(node, c"source") else { return Ok(false) };
        Ok(self.api.attribute_bytes(source, sys::ORT_OP_ATTR_STRING)? == NAME.to_bytes())
    }

    /// The runner of a fused graph, and the EPContext node for it.
    pub(crate) fn compile(&self, graph: Graph<'_>, fused: Node<'_>, wants_context: bool) -> Result<Made> {
        self.compiled.store(true, Ordering::Relaxed);
        let nodes = self.api.nodes(graph)?;
        let is_context = matches!(&nodes[..], [node] if self.api.operator(*node)? == CONTEXT);
        let loaded = if is_context {
            let group = self.payload(graph, nodes[0])?;
            if let Some(config) = self.options.common.config.filter(|config| config.name != group.header.configuration)
            {
                return Err(Failure(format!(
                    "the EPContext node \"{}\" is compiled for {}, and the option config is {}",
                    self.api.node_name(nodes[0])?,
                    group.header.configuration,
                    config.name
                )));
            }
            Loaded::new(group, &self.devices, &self.options.common)?
        } else {
            let first = self.first_output(&nodes)?;
            let claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner).remove(&first);
            claimed.ok_or_else(|| Failure(format!("the nodes that compute \"{first}\" were not claimed")))??
        };
        let names = |values: Vec<Option<crate::api::ValueInfo<'_>>>| {
            values
                .into_iter()
                .map(|value| value.map_or(Ok(String::new()), |value| self.api.name(value)))
                .collect::<Result<Vec<_>>>()
        };
        let (inputs, outputs) = (names(self.api.inputs(fused)?)?, names(self.api.outputs(fused)?)?);
        let context = match &self.options.context {
            Some(place) if wants_context && !is_context => {
                self.context(graph, fused, place, &loaded, &inputs, &outputs)?
            }
            _ => ptr::null_mut(),
        };
        Ok(Made { runner: Runner::new(loaded, &inputs, &outputs)?, context })
    }

    /// Reads the payload of an EPContext node.
    fn payload(&self, graph: Graph<'_>, node: Node<'_>) -> Result<Group> {
        let text = |attribute: Attribute<'_>| self.api.attribute_bytes(attribute, sys::ORT_OP_ATTR_STRING);
        let payload =
            self.api.attribute(node, c"ep_cache_context").ok_or("an EPContext node has no ep_cache_context")?;
        let payload = text(payload)?;
        let mode = self.api.attribute(node, c"embed_mode");
        let mode = mode.map(|mode| self.api.attribute_bytes(mode, sys::ORT_OP_ATTR_INT)).transpose()?;
        let beside = mode.is_some_and(|mode| mode.iter().all(|&byte| byte == 0));
        if !beside {
            return payload::read(payload);
        }
        // A model is untrusted: the file must be beside it.
        let name = String::from_utf8(payload).map_err(|_| "an EPContext node's file has no name in UTF-8")?;
        if name.is_empty() || name.contains(['/', '\\']) || name == ".." {
            return Err(Failure(format!("the EPContext node's file \"{name}\" is not beside the model")));
        }
        let path = self.api.model_path(graph)?;
        let folder = Path::new(&path).parent().unwrap_or(Path::new(""));
        let path = folder.join(&name);
        let bytes = files::read(&path, MAX_PAYLOAD).map_err(|error| Failure(format!("{}: {error}", path.display())))?;
        payload::read(bytes)
    }

    /// Makes an EPContext node.
    fn context(
        &self,
        graph: Graph<'_>,
        fused: Node<'_>,
        place: &Embedded,
        loaded: &Loaded,
        inputs: &[String],
        outputs: &[String],
    ) -> Result<*mut sys::OrtNode> {
        let name = self.api.node_name(fused)?;
        let payload = payload::write(&loaded.header, loaded.loadable())?;
        let beside = match place {
            Embedded::Beside(model) if model.as_os_str().is_empty() => {
                // A model of the process's memory has no path, and so no file beside it.
                let own = self.api.model_path(graph)?;
                let own = Path::new(&own);
                own.file_stem().map(|stem| own.with_file_name(format!("{}_ctx.onnx", stem.to_string_lossy())))
            }
            Embedded::Beside(model) => Some(model.clone()),
            Embedded::Node => None,
        };
        let (embedded, text) = match beside {
            None => (1, payload),
            Some(model) => {
                let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' };
                let node: String = name.chars().map(plain).collect();
                // Models that are compiled from the same one, for example for two configurations, have nodes of the same names.
                let file = format!("{}_{node}.nvdla", model.file_stem().unwrap_or_default().to_string_lossy());
                let path = model.with_file_name(&file);
                files::write(&path, payload).map_err(|error| Failure(format!("{}: {error}", path.display())))?;
                (0, file.into_bytes())
            }
        };
        let attributes = [
            self.api.int_attribute(c"main_context", 1)?,
            self.api.int_attribute(c"embed_mode", embedded)?,
            self.api.text_attribute(c"ep_cache_context", &text)?,
            self.api.text_attribute(c"source", NAME.to_bytes())?,
            self.api.text_attribute(c"partition_name", name.as_bytes())?,
            self.api.text_attribute(c"hardware_architecture", loaded.header.configuration.as_bytes())?,
            self.api.text_attribute(c"ep_sdk_version", env!("CARGO_PKG_VERSION").as_bytes())?,
        ];
        self.api.make_node(&c_string(CONTEXT), c"com.microsoft", &c_string(&name), inputs, outputs, attributes)
    }
}

/// The element types of a model's tensors.
fn kinds(model: &proto::Model) -> HashMap<String, i32> {
    let infos = model.graph.iter().flat_map(|graph| graph.value_info.iter().chain(&graph.input));
    let kind =
        |info: &proto::ValueInfo| Some((info.name.clone(), info.r#type.as_ref()?.tensor_type.as_ref()?.elem_type));
    infos.filter_map(kind).collect()
}
