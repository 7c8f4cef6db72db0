// SPDX-License-Identifier: MIT OR Apache-2.0

//! The JSON objects that the programs show with `--json`. `nvdla schema` prints their schema, which is also
//! `docs/nvdla.schema.json`.

use nvdla_runtime::device::{DeviceInfo, Kind};
use nvdla_runtime::profile::{Profile, Row};
use schemars::JsonSchema;
use serde::Serialize;

/// The version of the objects. It changes when a field is removed or its meaning changes.
pub(crate) const VERSION: u32 = nvdla_runtime::program::JSON_VERSION;

/// The output of a program with --json
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(title = "nvdla --json")]
#[allow(clippy::large_enum_variant)] // there is one per program
pub(crate) enum Output {
    /// Of `nvdla run` and `nvdla_runtime`
    Run(Run),
    /// Of `nvdla bench`
    Bench(Bench),
    /// Of `nvdla list`
    List(List),
    /// Of `nvdla compile`
    #[allow(dead_code)] // for the schema; the other program prints it
    Compiled(Compiled),
    /// Of `nvdla compile --check`
    #[allow(dead_code)] // as above
    Checked(Checked),
    /// Of `nvdla compile --partition`
    #[allow(dead_code)] // as above
    Divided(Divided),
    /// Of `nvdla evaluate`
    #[allow(dead_code)] // as above
    Evaluated(Evaluated),
    /// Of `nvdla inspect`
    #[allow(dead_code)] // as above
    Inspected(Inspected),
    /// Of `nvdla inspect --check`
    #[allow(dead_code)] // as above
    Examined(Examined),
    /// Of `nvdla trace`
    #[allow(dead_code)] // as above
    Traced(Traced),
    /// Of a program that fails without results
    #[allow(dead_code)] // for the schema; the library prints it
    Failed(Failed),
}

/// A loadable that was compiled
#[derive(Serialize, JsonSchema)]
#[allow(dead_code)] // for the schema
pub(crate) struct Compiled {
    pub(crate) version: u32,
    pub(crate) compiled: Loadable,
}

/// A loadable
#[derive(Serialize, JsonSchema)]
#[allow(dead_code, clippy::struct_field_names)] // for the schema
pub(crate) struct Loadable {
    /// The file
    pub(crate) loadable: String,
    pub(crate) network: String,
    pub(crate) configuration: String,
    pub(crate) precision: String,
    pub(crate) bytes: usize,
    /// Pictures per run
    pub(crate) pictures: u32,
    /// Number of operations
    pub(crate) operations: usize,
    pub(crate) activation_bytes: u64,
    pub(crate) estimated_cycles: u64,
    pub(crate) warnings: Vec<String>,
    /// The inputs and outputs that have another shape or order in the loadable than in the model
    pub(crate) reshaped: Vec<String>,
}

/// A model whose nodes a configuration can all compute
#[derive(Serialize, JsonSchema)]
#[allow(dead_code)] // for the schema
pub(crate) struct Checked {
    pub(crate) version: u32,
    pub(crate) checked: Model,
}

/// A model
#[derive(Serialize, JsonSchema)]
#[allow(dead_code, clippy::struct_field_names)] // for the schema
pub(crate) struct Model {
    /// The file
    pub(crate) model: String,
    pub(crate) configuration: String,
    /// Number of nodes
    pub(crate) nodes: usize,
}

/// A network that was divided between NVDLA and the processor
#[derive(Serialize, JsonSchema)]
#[allow(dead_code)] // for the schema
pub(crate) struct Divided {
    pub(crate) version: u32,
    pub(crate) divided: Groups,
}

/// The groups of nodes that NVDLA computes
#[derive(Serialize, JsonSchema)]
#[allow(dead_code, clippy::struct_field_names)] // for the schema
pub(crate) struct Groups {
    /// The folder with the loadables
    pub(crate) folder: String,
    pub(crate) configuration: String,
    /// Number of nodes of the network
    pub(crate) nodes: usize,
    pub(crate) nodes_in_groups: usize,
    /// Number of groups
    pub(crate) groups: usize,
    pub(crate) estimated_cycles: u64,
    pub(crate) warnings: Vec<String>,
}

/// What an evaluation has found
#[derive(Serialize, JsonSchema)]
#[allow(dead_code)] // for the schema
pub(crate) struct Evaluated {
    pub(crate) version: u32,
    pub(crate) evaluated: Evaluation,
}

/// How a compiled network does on labelled samples
#[derive(Serialize, JsonSchema)]
#[allow(dead_code)] // for the schema
pub(crate) struct Evaluation {
    /// Number of samples
    pub(crate) samples: usize,
    /// What the loadable finds
    pub(crate) device: Found,
    /// What the float network finds
    pub(crate) float: Option<Found>,
    /// How often both find the same best class
    pub(crate) agreement: Option<usize>,
    /// The ratio of signal to noise of each output in decibels; null if there is no noise
    pub(crate) outputs: Vec<Option<f64>>,
    /// The noise of each layer
    pub(crate) layers: Vec<Noise>,
}

/// Numbers of samples whose label is among the best classes
#[derive(Serialize, JsonSchema)]
#[allow(dead_code)] // for the schema
pub(crate) struct Found {
    /// The best class
    pub(crate) top1: usize,
    /// Among the best five
    pub(crate) top5: usize,
}

/// The noise of a layer, as ratios of signal to noise in decibels; null if there is no noise
#[derive(Serialize, JsonSchema)]
#[allow(dead_code)] // for the schema
pub(crate) struct Noise {
    pub(crate) tensor: String,
    /// With the noise of all layers before
    pub(crate) accumulated: Option<f64>,
    /// What the layer itself adds
    pub(crate) single: Option<f64>,
}

/// What a loadable holds
#[derive(Serialize, JsonSchema)]
#[allow(dead_code)] // for the schema
pub(crate) struct Inspected {
    pub(crate) inputs: Vec<serde_json::Value>,
    pub(crate) outputs: Vec<serde_json::Value>,
    pub(crate) tasks: Vec<serde_json::Value>,
    #[serde(flatten)]
    pub(crate) more: serde_json::Map<String, serde_json::Value>,
}

/// The races of a loadable, and the rules that it breaks
#[derive(Serialize, JsonSchema)]
#[allow(dead_code, clippy::struct_field_names)] // for the schema
pub(crate) struct Examined {
    pub(crate) races: Vec<serde_json::Value>,
    pub(crate) over_own_input: Vec<serde_json::Value>,
    /// Tasks with too many pairs of operations to examine
    pub(crate) not_examined: Vec<u16>,
    pub(crate) statistics: Vec<String>,
    pub(crate) configuration: Option<String>,
    pub(crate) refused: Vec<serde_json::Value>,
}

/// Traces that were played
#[derive(Serialize, JsonSchema)]
#[allow(dead_code)] // for the schema
pub(crate) struct Traced {
    pub(crate) version: u32,
    pub(crate) traces: Vec<Trace>,
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}

/// A trace
#[derive(Serialize, JsonSchema)]
#[allow(dead_code)] // for the schema
pub(crate) struct Trace {
    pub(crate) name: String,
    /// Why it failed; null if it passed
    pub(crate) failure: Option<String>,
}

/// A program that failed
#[derive(Serialize, JsonSchema)]
#[allow(dead_code)] // for the schema; the library prints it
pub(crate) struct Failed {
    pub(crate) version: u32,
    pub(crate) error: Error,
}

/// What went wrong
#[derive(Serialize, JsonSchema)]
pub(crate) struct Error {
    /// argument, file, loadable, refused, memory, device, deadline, busy, unsupported or cancelled; null for anything else
    pub(crate) kind: Option<&'static str>,
    pub(crate) message: String,
    /// The exit status
    pub(crate) status: u8,
}

/// A run, or several with the same inputs
#[derive(Serialize, JsonSchema)]
#[allow(clippy::struct_field_names)] // the names of the format
pub(crate) struct Run {
    pub(crate) version: u32,
    pub(crate) loadable: String,
    pub(crate) device: Device,
    pub(crate) inputs: Vec<Input>,
    /// Number of runs
    pub(crate) runs: usize,
    pub(crate) tasks: Vec<Task>,
    /// Of all tasks together
    pub(crate) milliseconds: Times,
    /// Of each run
    pub(crate) run_milliseconds: Vec<f64>,
    pub(crate) outputs: Vec<Tensor>,
    /// The files that were written
    pub(crate) wrote: Vec<String>,
    /// What failed after the runs: a file that cannot be written, surfaces that differ
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Error>,
    /// With --compare
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compared: Option<Compared>,
    /// With --profile
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) profile: Option<Estimate>,
}

/// The device that runs the loadable
#[derive(Serialize, JsonSchema)]
pub(crate) struct Device {
    /// model, rtl or hardware
    pub(crate) kind: &'static str,
    pub(crate) configuration: Option<&'static str>,
    pub(crate) path: Option<String>,
    /// Why this device was chosen
    pub(crate) reason: String,
}

impl Device {
    pub(crate) fn new(info: &DeviceInfo, reason: &str) -> Self {
        Self {
            kind: match info.kind {
                Kind::Model => "model",
                Kind::Rtl => "rtl",
                Kind::Hardware => "hardware",
            },
            configuration: info.config.map(|config| config.name),
            path: info.path.as_ref().map(|path| path.display().to_string()),
            reason: reason.to_owned(),
        }
    }
}

/// An input tensor
#[derive(Serialize, JsonSchema)]
pub(crate) struct Input {
    pub(crate) name: String,
    /// Images, channels, lines, elements per line
    pub(crate) shape: [u32; 4],
    pub(crate) format: String,
    /// The files that it was filled from; none if it is zero
    pub(crate) files: Vec<String>,
}

/// A task
#[derive(Serialize, JsonSchema)]
pub(crate) struct Task {
    pub(crate) id: u16,
    /// NVDLA, emulator or other
    pub(crate) interface: &'static str,
    pub(crate) operations: usize,
    pub(crate) milliseconds: Times,
}

/// Times of several runs
#[derive(Serialize, JsonSchema)]
pub(crate) struct Times {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) greatest: f64,
}

/// An output tensor
#[derive(Serialize, JsonSchema)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// Images, channels, lines, elements per line
    pub(crate) shape: [u32; 4],
    pub(crate) format: String,
    /// The greatest elements of each image
    pub(crate) best: Vec<Vec<Best>>,
}

/// An element of an output
#[derive(Serialize, JsonSchema)]
pub(crate) struct Best {
    /// Its channel
    pub(crate) class: usize,
    pub(crate) y: usize,
    pub(crate) x: usize,
    pub(crate) value: Number,
    /// With --labels
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
}

/// A number; JSON has no infinities and no NaN, which are texts
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Number {
    Finite(f32),
    Other(String),
}

impl From<f32> for Number {
    fn from(value: f32) -> Self {
        if value.is_finite() {
            Self::Finite(value)
        } else {
            Self::Other(value.to_string())
        }
    }
}

/// How surfaces compare with those of a folder
#[derive(Serialize, JsonSchema)]
pub(crate) struct Compared {
    pub(crate) surfaces: usize,
    pub(crate) differing: usize,
    /// Surfaces without a file
    pub(crate) missing: usize,
    /// The first difference
    pub(crate) first: Option<String>,
}

/// An estimate of the time on hardware
#[derive(Serialize, JsonSchema)]
pub(crate) struct Estimate {
    pub(crate) configuration: &'static str,
    pub(crate) clock_mhz: f64,
    pub(crate) dram_gb_s: f64,
    pub(crate) sram_gb_s: f64,
    pub(crate) latency_cycles: u32,
    pub(crate) register_write_ns: f64,
    pub(crate) operations: Vec<Operation>,
    pub(crate) macs: u64,
    pub(crate) bytes: u64,
    pub(crate) cycles: u64,
    /// Of each layer, the cycles of the unit or memory that is busy longest
    pub(crate) bound_layers_cycles: u64,
    /// The cycles of the unit or memory that is busy longest in the whole network
    pub(crate) bound_network_cycles: u64,
    pub(crate) milliseconds: f64,
    /// On a device that counts cycles
    pub(crate) measured_cycles: Option<u64>,
}

/// An operation of an estimate
#[derive(Serialize, JsonSchema)]
#[allow(clippy::struct_field_names)] // the names of the format
pub(crate) struct Operation {
    pub(crate) task: u16,
    pub(crate) operation: usize,
    pub(crate) unit: &'static str,
    pub(crate) layer: Option<String>,
    pub(crate) shape: String,
    pub(crate) macs: u64,
    pub(crate) dram_bytes: u64,
    pub(crate) sram_bytes: u64,
    pub(crate) compute_cycles: u64,
    pub(crate) cycles: u64,
    pub(crate) limit: String,
    /// The operation that passes its output to this one on the fly
    pub(crate) source: Option<usize>,
    pub(crate) start: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) measured: Option<Measured>,
}

/// What an operation took on a device that counts cycles
#[derive(Serialize, JsonSchema)]
pub(crate) struct Measured {
    pub(crate) start: u64,
    pub(crate) cycles: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) waited_cycles: u64,
}

impl From<&Row> for Operation {
    fn from(row: &Row) -> Self {
        Self {
            task: row.task,
            operation: row.operation,
            unit: row.unit.name(),
            layer: row.layer.clone(),
            shape: row.shape.clone(),
            macs: row.macs,
            dram_bytes: row.bytes.dram,
            sram_bytes: row.bytes.sram,
            compute_cycles: row.compute,
            cycles: row.cycles,
            limit: row.limit.to_string(),
            source: row.source,
            start: row.start,
            measured: row.measured.map(|measured| Measured {
                start: measured.start,
                cycles: measured.cycles(),
                read_bytes: measured.read,
                written_bytes: measured.written,
                waited_cycles: measured.waited,
            }),
        }
    }
}

impl From<&Profile> for Estimate {
    fn from(profile: &Profile) -> Self {
        let bounds = profile.bounds();
        Self {
            configuration: profile.config.name,
            clock_mhz: profile.conditions.clock,
            dram_gb_s: profile.conditions.dram,
            sram_gb_s: profile.conditions.sram,
            latency_cycles: profile.conditions.latency,
            register_write_ns: profile.conditions.register_write,
            operations: profile.rows.iter().map(Operation::from).collect(),
            macs: profile.macs(),
            bytes: profile.bytes().total(),
            cycles: profile.cycles(),
            bound_layers_cycles: bounds.layers,
            bound_network_cycles: bounds.whole,
            milliseconds: profile.milliseconds(),
            measured_cycles: profile.measured_cycles(),
        }
    }
}

/// A measurement of many runs
#[derive(Serialize, JsonSchema)]
pub(crate) struct Bench {
    pub(crate) version: u32,
    pub(crate) loadable: String,
    pub(crate) device: String,
    /// Number of runs in flight at the same time
    pub(crate) in_flight: u16,
    /// Runs per context before the measurement
    pub(crate) warmup: u32,
    pub(crate) iterations: u64,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    /// From the submission of a run to its end
    pub(crate) milliseconds: Distribution,
    /// Mean time after which the call that submits a run returns
    pub(crate) submit_microseconds: f64,
    /// Mean time per run in the device's own calls: the driver's ioctls, or the work itself on a device without a queue
    pub(crate) device_microseconds: f64,
    /// The device has a queue
    pub(crate) queue: bool,
    /// Constants that all contexts share
    pub(crate) shared_bytes: u64,
    /// Bytes of the process in memory
    pub(crate) resident_bytes: Option<u64>,
}

/// Times of many runs
#[derive(Serialize, JsonSchema)]
pub(crate) struct Distribution {
    pub(crate) mean: f64,
    pub(crate) least: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) greatest: f64,
}

/// The devices of this machine
#[derive(Serialize, JsonSchema)]
pub(crate) struct List {
    pub(crate) version: u32,
    pub(crate) devices: Vec<Listed>,
    /// The configurations of the built-in model
    pub(crate) models: Vec<&'static str>,
}

/// A device
#[derive(Serialize, JsonSchema)]
pub(crate) struct Listed {
    /// The argument for --device, or the name of a PCI function that no driver for NVDLA is bound to
    pub(crate) path: String,
    /// render node, VFIO, UIO or PCI function
    pub(crate) kind: &'static str,
    pub(crate) configuration: Option<&'static str>,
    /// "this project's" or "the first" for a render node, else the kernel driver that is bound to the function
    pub(crate) driver: Option<String>,
    /// The fraction of time that the device is busy, from 0 to 1, by the processes that this user may see
    pub(crate) load: Option<f64>,
    /// "answers", or why the device does not answer
    pub(crate) health: String,
}
