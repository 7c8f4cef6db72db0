// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs a compiled group in place of the nodes that it computes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::RunOptions;
use nvdla_runtime::{Context, Network};

use crate::api::{with_causes, Failure, Kernel, Result};
use crate::device::Devices;
use crate::options::Options;
use crate::payload::{Group, Header};
use crate::tensor::Port;

/// A group on its device, with a context for its first run.
pub(crate) struct Loaded {
    pub(crate) header: Header,
    network: Network,
    context: Context,
    timeout: Option<Duration>,
}

impl Loaded {
    /// Loads a group.
    pub(crate) fn new(group: Group, devices: &Devices, options: &Options) -> Result<Self> {
        let Group { header, loadable } = group;
        let loadable = Loadable::from_bytes(loadable).map_err(|error| Failure(with_causes(&error)))?;
        let loadable = Arc::new(loadable);
        let device = devices.open(options, &header.configuration, &loadable)?;
        let network = Network::new(loadable, &device).map_err(|error| Failure(with_causes(&error)))?;
        let context = network.context().map_err(|error| Failure(with_causes(&error)))?;
        Ok(Self { header, network, context, timeout: options.timeout })
    }

    /// The group as the payload of an EPContext node.
    pub(crate) fn payload(&self) -> Result<Vec<u8>> {
        self.header.payload(self.network.loadable().as_bytes())
    }
}

/// A group in place of a node.
pub(crate) struct Runner {
    network: Network,
    /// For each input of the loadable, the number of the node's input, and the tensor.
    inputs: Vec<(usize, Port)>,
    /// For each output of the node, the tensor.
    outputs: Vec<Port>,
    /// The time limit of a run.
    timeout: Option<Duration>,
    /// Contexts that no run uses. There are as many as runs at the same time.
    free: Mutex<Vec<Context>>,
}

/// The times of a run, in microseconds.
#[derive(Debug)]
pub(crate) struct Times {
    pub(crate) inputs: u128,
    pub(crate) run: u128,
    pub(crate) outputs: u128,
}

impl Runner {
    /// A loaded group for a node with inputs and outputs of these names.
    pub(crate) fn new(loaded: Loaded, inputs: &[String], outputs: &[String]) -> Result<Self> {
        let Loaded { header: Header { inputs: given, outputs: computed, .. }, network, context, timeout } = loaded;
        let place = |port: Port| {
            let found = inputs.iter().position(|name| *name == port.tensor);
            let place = found.ok_or_else(|| Failure(format!("the node has no input \"{}\"", port.tensor)))?;
            let info = context.inputs().nth(port.index);
            let info = info.ok_or_else(|| Failure(format!("the loadable has no input {}", port.index)))?;
            Ok((place, agrees(port, info.shape())?))
        };
        let inputs = given.into_iter().map(place).collect::<Result<Vec<_>>>()?;
        if inputs.len() != context.inputs().len() {
            let (given, needed) = (inputs.len(), context.inputs().len());
            return Err(Failure(format!("the loadable has {needed} inputs, the node gives {given}")));
        }
        let port = |name: &String| {
            let port = computed.iter().find(|port| port.tensor == *name).cloned();
            let port = port.ok_or_else(|| Failure(format!("the loadable does not compute \"{name}\"")))?;
            let info = context.outputs().nth(port.index);
            let info = info.ok_or_else(|| Failure(format!("the loadable has no output {}", port.index)))?;
            agrees(port, info.shape())
        };
        let outputs = outputs.iter().map(port).collect::<Result<_>>()?;
        Ok(Self { network, inputs, outputs, timeout, free: Mutex::new(vec![context]) })
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Context>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the group with a node's inputs.
    pub(crate) fn run(&self, kernel: Kernel<'_>) -> Result<Times> {
        let fail = |error: nvdla_runtime::session::Error| Failure(with_causes(&error));
        let waiting = self.free().pop();
        let mut context = match waiting {
            Some(context) => context,
            None => self.network.context().map_err(fail)?,
        };
        let start = Instant::now();
        for (place, port) in &self.inputs {
            let tensor = kernel.input(*place)?;
            if tensor.kind != port.kind {
                return Err(Failure(format!(
                    "\"{}\" has elements of type {}, the network needs {}",
                    port.tensor, tensor.kind, port.kind
                )));
            }
            port.read(tensor.bytes, |values| context.set_input_f32(port.index, values))?.map_err(fail)?;
        }
        let inputs = start.elapsed().as_micros();
        // A context whose run has failed is not used again.
        context.run_with(RunOptions { run_timeout: self.timeout, ..RunOptions::default() }).map_err(fail)?;
        let run = start.elapsed().as_micros() - inputs;
        for (place, port) in self.outputs.iter().enumerate() {
            kernel.output(place, &port.extents(), |bytes| {
                port.write(context.output_f32(port.index).map_err(fail)?, bytes)
            })?;
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
