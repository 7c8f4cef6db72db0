// SPDX-License-Identifier: MIT OR Apache-2.0

//! The delegate of one interpreter: it divides the graph, and gives the interpreter a kernel for each group.
//!
//! The interpreter makes one kernel of connected nodes, but it does not always keep a group together: it begins with the node that
//! is first in its order, and gives a node of the group that also needs a node outside it another kernel. So each group is
//! given alone, and one that would be two kernels is compiled as two.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use nvdla_frameworks::device::{self, Devices};
use nvdla_frameworks::divide::{self, Level};
use nvdla_frameworks::kernel::Group;
use nvdla_frameworks::memory;
use nvdla_frameworks::options::{truth, Options, NAMES};
use nvdla_frameworks::{Failure, Result};
use nvdla_runtime::device::Selection;

use crate::context::{Context, Part};
use crate::kernel::Kernel;
use crate::message::say;
use crate::network::{Network, Settings};
use crate::sys;

/// The devices of all delegates of the process, while there are any.
static DEVICES: Mutex<Weak<Devices>> = Mutex::new(Weak::new());

fn devices() -> Arc<Devices> {
    let mut shared = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    shared.upgrade().unwrap_or_else(|| {
        let devices = Arc::default();
        *shared = Arc::downgrade(&devices);
        devices
    })
}

/// A delegate.
pub(crate) struct Delegate {
    settings: Settings,
    /// Whether the reason of each node that stays on the processor is printed.
    verbose: bool,
    /// Kernels that the interpreter has not taken yet, by their nodes.
    made: Mutex<HashMap<Vec<usize>, Box<Kernel>>>,
}

impl Delegate {
    /// Of options by their names.
    pub(crate) fn new(given: &[(String, String)]) -> Result<Self> {
        let (mut options, mut verbose) = (Options::default(), false);
        for (name, value) in given {
            if name == "verbose" {
                verbose = truth(value).map_err(|reason| format!("the option verbose={value}: {reason}"))?;
            } else if NAMES.contains(&name.as_str()) {
                options.set(name, value)?;
            } else {
                return Err(Failure(format!("no option is \"{name}\"; the options are {}, verbose", NAMES.join(", "))));
            }
        }
        let config = device::configuration(&options)?;
        Ok(Self { settings: Settings { options, config, devices: devices() }, verbose, made: Mutex::default() })
    }

    fn log(&self, level: Level, text: &str) {
        match level {
            Level::Warning => say(&format!("WARNING: NVDLA: {text}")),
            Level::Node if self.verbose => say(&format!("INFO: NVDLA {text}")),
            _ => {}
        }
    }

    /// The kernel of a part that was given to the interpreter.
    pub(crate) fn take(&self, part: &Part) -> Option<Box<Kernel>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(part))
    }

    /// Divides an interpreter's graph, and gives it the groups. A graph that the compiler cannot read is no reason to fail.
    ///
    /// # Safety
    ///
    /// The interpreter does not change the graph during the call, its model lives as long as its kernels, and `pointer` is the
    /// delegate's.
    pub(crate) unsafe fn prepare(
        &self,
        context: Context<'static>,
        registration: &dyn Fn() -> sys::Registration,
        pointer: *mut sys::Delegate,
    ) -> Result<()> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let plan = context.plan()?;
        let Settings { options, config, .. } = &self.settings;
        // SAFETY: the caller's.
        let network = unsafe { Network::new(context, &plan, self.settings.clone()) };
        let read = network.and_then(|network| {
            let survey = network.survey(HashMap::new())?;
            let log = |level: Level, text: &str| self.log(level, text);
            let kind = |name: &str| network.kind(name);
            let divided = divide::divide(&survey, &network.compiler(&survey), config, options, &kind, &log)?;
            Ok((Arc::new(network), survey, divided))
        });
        let (network, survey, divided) = match read {
            Ok(read) => read,
            Err(Failure(reason)) => {
                self.log(Level::Warning, &format!("runs no node: {reason}"));
                return Ok(());
            }
        };
        let node_of = |&k: &usize| plan[survey.nodes[k].position];
        let mut count = 0;
        for (members, group) in divided.groups {
            let parts = context.preview(&members.iter().map(node_of).collect::<Vec<_>>())?;
            let mut compiled: Vec<(Vec<usize>, Result<Group>)> = Vec::new();
            if parts.len() == 1 {
                compiled.push((members, Ok(group)));
            } else {
                for part in parts {
                    let some = members.iter().copied().filter(|k| part.nodes.contains(&node_of(k)));
                    let some: Vec<usize> = some.collect();
                    let group = network.group(&survey, &some);
                    compiled.push((some, group));
                }
            }
            for (members, group) in compiled {
                let nodes: Vec<usize> = members.iter().map(node_of).collect();
                let less = |reason: &str| {
                    self.log(Level::Warning, &format!("runs {} nodes less: {reason}", members.len()));
                };
                let parts = context.preview(&nodes)?;
                let (group, part) = match (group, &parts[..]) {
                    (Ok(group), [part]) => (group, part.clone()),
                    (Ok(_), _) => {
                        less("they are not one kernel");
                        continue;
                    }
                    (Err(Failure(reason)), _) => {
                        less(&reason);
                        continue;
                    }
                };
                match network.runner(group, &part) {
                    Ok(runner) => {
                        let key = key(&part);
                        let kernel = Box::new(Kernel::new(Arc::clone(&network), part, members, runner));
                        self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(key, kernel);
                        context.replace(registration(), &nodes, pointer)?;
                        count += 1;
                    }
                    Err(Failure(reason)) if options.device == Selection::Auto => less(&reason),
                    // A device that the user has named must be there.
                    Err(failure) => return Err(failure),
                }
            }
        }
        drop(survey);
        memory::give_back();
        say(&format!("{}: {}", if count == 0 { "WARNING" } else { "INFO" }, divided.summary));
        Ok(())
    }
}

/// What identifies a part: the numbers of its nodes, in order.
fn key(part: &Part) -> Vec<usize> {
    let mut nodes = part.nodes.clone();
    nodes.sort_unstable();
    nodes
}
