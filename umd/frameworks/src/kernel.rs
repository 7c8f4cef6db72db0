// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs a compiled group in place of the nodes that it computes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use half::f16;
use nvdla_runtime::loadable::{DataType, Loadable};
use nvdla_runtime::program::sentence;
use nvdla_runtime::session::RunOptions;
use nvdla_runtime::{Context, Network};

use serde::{Deserialize, Serialize};

use crate::device::Devices;
use crate::failure::{Failure, Result};
use crate::options::Options;
use crate::tensor::{Kind, Port};

/// The version of [`Header`].
pub const VERSION: u32 = 1;

/// A compiled group.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What a plugin must know of it.
    pub header: Header,
    /// The loadable.
    pub loadable: Vec<u8>,
}

/// What a plugin must know of a compiled group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`VERSION`].
    pub version: u32,
    /// The configuration that the loadable is for.
    pub configuration: String,
    /// The tensors that it reads.
    pub inputs: Vec<Port>,
    /// The tensors that it computes.
    pub outputs: Vec<Port>,
    /// The number of nodes of the model that it computes.
    pub nodes: usize,
    /// The batch of its tensors, if its pictures do not depend on each other; else 1.
    #[serde(default = "one")]
    pub pictures: usize,
}

fn one() -> usize {
    1
}

impl Header {
    /// Of a group with that many nodes, whose tensors have that many independent pictures.
    pub fn new(configuration: &str, inputs: Vec<Port>, outputs: Vec<Port>, nodes: usize, pictures: usize) -> Self {
        Self { version: VERSION, configuration: configuration.to_owned(), inputs, outputs, nodes, pictures }
    }
}

/// The inputs and outputs of a node that runs.
pub trait Tensors {
    /// The type and the bytes of an input.
    ///
    /// # Errors
    ///
    /// If the framework does not give it.
    fn input(&self, place: usize) -> Result<(Kind, &[u8])>;

    /// Makes an output of a shape, and calls `fill` with its bytes, unless nothing reads it.
    ///
    /// # Errors
    ///
    /// If the framework does not take it, or those of `fill`.
    fn output(&self, place: usize, shape: &[usize], fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()>;
}

/// A group on its device, with a context for its first run.
#[allow(missing_debug_implementations)]
pub struct Loaded {
    /// What it is.
    pub header: Header,
    network: Network,
    context: Context,
    timeout: Option<Duration>,
}

impl Loaded {
    /// Loads a group.
    ///
    /// # Errors
    ///
    /// If the loadable is malformed, or its device cannot be used.
    pub fn new(group: Group, devices: &Devices, options: &Options) -> Result<Self> {
        let Group { header, loadable } = group;
        let loadable = Loadable::from_bytes(loadable).map_err(|error| Failure(sentence(&error)))?;
        let loadable = Arc::new(loadable);
        let device = devices.open(options, &header.configuration, &loadable)?;
        let network = Network::new(loadable, &device).map_err(|error| Failure(sentence(&error)))?;
        let context = network.context().map_err(|error| Failure(sentence(&error)))?;
        Ok(Self { header, network, context, timeout: options.timeout })
    }

    /// Its loadable.
    pub fn loadable(&self) -> &[u8] {
        self.network.loadable().as_bytes()
    }
}

/// A group in place of a node.
#[allow(missing_debug_implementations)]
pub struct Runner {
    network: Network,
    /// For each input of the loadable, the number of the node's input, the tensor, and the greatest number that it holds.
    inputs: Vec<(usize, Port, f32)>,
    /// For each output of the node, the tensor; None for one that the group does not compute, because nothing reads it.
    outputs: Vec<Option<Port>>,
    /// The batch of its tensors, if its pictures do not depend on each other and may have NaN; else 1.
    pictures: usize,
    /// The time limit of a run.
    timeout: Option<Duration>,
    /// Contexts that no run uses. There are as many as runs at the same time.
    free: Mutex<Vec<Context>>,
}

/// The times of a run, in microseconds.
#[derive(Debug)]
pub struct Times {
    /// To give the inputs to the device.
    pub inputs: u128,
    /// Of the device.
    pub run: u128,
    /// To take the outputs.
    pub outputs: u128,
}

impl Runner {
    /// A loaded group for a node with inputs and outputs of these names.
    ///
    /// # Errors
    ///
    /// If an input is missing, or the tensors are not those of the loadable.
    pub fn new(loaded: Loaded, inputs: &[String], outputs: &[String]) -> Result<Self> {
        let Loaded { header, network, context, timeout } = loaded;
        let Header { inputs: given, outputs: computed, pictures, .. } = header;
        let place = |port: Port| {
            let found = inputs.iter().position(|name| *name == port.tensor);
            let place = found.ok_or_else(|| Failure(format!("the node has no input \"{}\"", port.tensor)))?;
            let info = context.inputs().nth(port.index);
            let info = info.ok_or_else(|| Failure(format!("the loadable has no input {}", port.index)))?;
            // Beyond it a number would be an infinity, and its product with a small factor too.
            let most = if info.data_type == DataType::Half { f16::MAX.to_f32() } else { f32::INFINITY };
            Ok((place, agrees(port, info.shape())?, most))
        };
        let inputs = given.into_iter().map(place).collect::<Result<Vec<_>>>()?;
        if inputs.len() != context.inputs().len() {
            let (given, needed) = (inputs.len(), context.inputs().len());
            return Err(Failure(format!("the loadable has {needed} inputs, the node gives {given}")));
        }
        let port = |name: &String| {
            let Some(port) = computed.iter().find(|port| port.tensor == *name).cloned() else { return Ok(None) };
            let info = context.outputs().nth(port.index);
            let info = info.ok_or_else(|| Failure(format!("the loadable has no output {}", port.index)))?;
            agrees(port, info.shape()).map(Some)
        };
        let outputs = outputs.iter().map(port).collect::<Result<Vec<_>>>()?;
        // Integers are never NaN.
        let half = context.inputs().all(|info| info.data_type == DataType::Half);
        let mut ports = inputs.iter().map(|(_, port, _)| port).chain(outputs.iter().flatten());
        let outermost = |port: &Port| {
            port.shape.first() == Some(&pictures) && port.channels_last.is_none_or(|[batch, ..]| batch == pictures)
        };
        let pictures = if half && ports.all(outermost) { pictures } else { 1 };
        Ok(Self { network, inputs, outputs, pictures, timeout, free: Mutex::new(vec![context]) })
    }

    /// The tensors that it reads, each with the number of the node's input.
    pub fn inputs(&self) -> impl Iterator<Item = (usize, &Port)> {
        self.inputs.iter().map(|(place, port, _)| (*place, port))
    }

    /// The tensors of the node's outputs; None for one that the group does not compute.
    pub fn outputs(&self) -> &[Option<Port>] {
        &self.outputs
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Context>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a context the inputs of a node, with zeros for the pictures that are `left`. Returns the pictures that have NaN.
    fn give(&self, tensors: &impl Tensors, context: &mut Context, left: &[usize]) -> Result<Vec<usize>> {
        let mut found = Vec::new();
        for (place, port, most) in &self.inputs {
            let (kind, bytes) = tensors.input(*place)?;
            if kind != port.kind {
                return Err(Failure(format!(
                    "\"{}\" has elements of type {kind:?}, the network needs {:?}",
                    port.tensor, port.kind
                )));
            }
            let set = |values: &mut [f32]| {
                if self.pictures > 1 {
                    for (k, picture) in values.chunks_exact_mut((port.elements() / self.pictures).max(1)).enumerate() {
                        if left.contains(&k) {
                            picture.fill(0.0);
                        } else if picture.iter().fold(false, |any, value| any | value.is_nan()) {
                            found.push(k);
                        }
                    }
                }
                context.set_input_f32(port.index, values)
            };
            port.read(bytes, *most, set)?.map_err(|error| Failure(sentence(&error)))?;
        }
        Ok(found)
    }

    /// Runs the group with a node's inputs.
    ///
    /// The device may compute the pictures of a batch as channels of one tensor, where a factor of 0 keeps them apart. That does not keep
    /// NaN away from other pictures. If some pictures have NaN, a second run without them computes the others.
    ///
    /// # Errors
    ///
    /// If an input does not fit, or the device fails.
    pub fn run(&self, tensors: &impl Tensors) -> Result<Times> {
        let fail = |error: nvdla_runtime::session::Error| Failure(sentence(&error));
        let waiting = self.free().pop();
        let mut context = match waiting {
            Some(context) => context,
            None => self.network.context().map_err(fail)?,
        };
        let start = Instant::now();
        let spoiled = self.give(tensors, &mut context, &[])?;
        let inputs = start.elapsed().as_micros();
        // A context whose run has failed is not used again.
        let options = || RunOptions { run_timeout: self.timeout, ..RunOptions::default() };
        context.run_with(options()).map_err(fail)?;
        let mut with_nan = Vec::new();
        if !spoiled.is_empty() {
            let all =
                self.outputs.iter().map(|port| port.as_ref().map(|port| context.output_f32(port.index)).transpose());
            with_nan = all.collect::<std::result::Result<Vec<_>, _>>().map_err(fail)?;
            self.give(tensors, &mut context, &spoiled)?;
            context.run_with(options()).map_err(fail)?;
        }
        let run = start.elapsed().as_micros() - inputs;
        for (place, port) in self.outputs.iter().enumerate() {
            match port {
                Some(port) => tensors.output(place, &port.shape, |bytes| {
                    let mut values = context.output_f32(port.index).map_err(fail)?;
                    if let Some(Some(all)) = with_nan.get(place) {
                        let one = values.len() / self.pictures;
                        for picture in spoiled.iter().map(|k| k * one..(k + 1) * one) {
                            values[picture.clone()].copy_from_slice(&all[picture]);
                        }
                    }
                    port.write(values, bytes)
                })?,
                // A tensor all the same: a reader, which only a changed model can have, must not find none.
                None => tensors.output(place, &[0], |_| Ok(()))?,
            }
        }
        let outputs = start.elapsed().as_micros() - inputs - run;
        self.free().push(context);
        Ok(Times { inputs, run, outputs })
    }
}

/// Checks that a tensor has as many elements as the loadable's.
fn agrees(port: Port, shape: [u32; 4]) -> Result<Port> {
    let needed: usize = shape.iter().map(|&extent| extent as usize).product();
    if port.elements() == needed {
        Ok(port)
    } else {
        Err(Failure(format!("\"{}\" is {:?}, the loadable's tensor {shape:?}", port.tensor, port.shape)))
    }
}
