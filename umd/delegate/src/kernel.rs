// SPDX-License-Identifier: MIT OR Apache-2.0

//! A group in place of its nodes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nvdla_frameworks::kernel::{Runner, Tensors};
use nvdla_frameworks::tensor::Kind;
use nvdla_frameworks::{Failure, Result};

use crate::context::{bytes, bytes_mut, Context, Part};
use crate::graph;
use crate::message::say;
use crate::network::Network;

/// A group in place of its nodes.
pub(crate) struct Kernel {
    network: Arc<Network>,
    part: Part,
    /// Its nodes in the network's survey.
    members: Vec<usize>,
    /// The group, for the sizes that its inputs had last.
    runner: Mutex<Runner>,
}

impl Kernel {
    pub(crate) fn new(network: Arc<Network>, part: Part, members: Vec<usize>, runner: Runner) -> Self {
        Self { network, part, members, runner: Mutex::new(runner) }
    }

    /// The name of its first output.
    fn name(&self) -> &str {
        self.part.outputs.first().map_or("", |&output| self.network.name(output))
    }

    fn runner(&self) -> MutexGuard<'_, Runner> {
        self.runner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn named<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|Failure(reason)| Failure(format!("\"{}\": {reason}", self.name())))
    }

    /// Tells the interpreter the sizes of the outputs. If an input has another size than before, the group is compiled anew.
    pub(crate) fn prepare(&self, context: Context<'_>) -> Result<()> {
        let mut runner = self.runner();
        let mut changed = false;
        for (place, port) in runner.inputs() {
            changed |= context.shape(place_of(&self.part.inputs, place)?)?.as_ref() != Some(&port.shape);
        }
        if changed {
            let survey = self.network.survey(self.network.shapes(context)?)?;
            let group = self.named(self.network.group(&survey, &self.members))?;
            *runner = self.named(self.network.runner(group, &self.part))?;
        }
        for (&output, port) in self.part.outputs.iter().zip(runner.outputs()) {
            // The interpreter lists outputs that something reads.
            let port = port.as_ref().ok_or_else(|| Failure(format!("tensor {output} is not computed")))?;
            context.resize(output, &port.shape)?;
        }
        Ok(())
    }

    /// Runs the group.
    ///
    /// # Safety
    ///
    /// The interpreter has allocated its tensors, and nothing else accesses them during the call.
    pub(crate) unsafe fn run(&self, context: Context<'_>) -> Result<()> {
        let times = self.named(self.runner().run(&Call { context, part: &self.part }))?;
        if self.network.settings.options.profile {
            say(&format!(
                "INFO: NVDLA ran \"{}\": inputs {} us, run {} us, outputs {} us",
                self.name(),
                times.inputs,
                times.run,
                times.outputs
            ));
        }
        Ok(())
    }
}

/// The tensors of a run.
struct Call<'a> {
    context: Context<'a>,
    part: &'a Part,
}

fn place_of(list: &[usize], place: usize) -> Result<usize> {
    list.get(place).copied().ok_or_else(|| Failure(format!("tensor {place} of {}", list.len())))
}

impl Tensors for Call<'_> {
    fn input(&self, place: usize) -> Result<(Kind, &[u8])> {
        let tensor = self.context.tensor(place_of(&self.part.inputs, place)?)?;
        let kind = graph::given(tensor.kind).ok_or_else(|| Failure(format!("elements of type {}", tensor.kind)))?;
        // SAFETY: that of `Kernel::run`; an input is not written.
        Ok((kind, unsafe { bytes(tensor) }))
    }

    fn output(&self, place: usize, _shape: &[usize], fill: impl FnOnce(&mut [u8]) -> Result<()>) -> Result<()> {
        let tensor = self.context.tensor(place_of(&self.part.outputs, place)?)?;
        // SAFETY: that of `Kernel::run`; only this call writes outputs of the kernel.
        fill(unsafe { bytes_mut(tensor) })
    }
}
