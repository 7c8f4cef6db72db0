// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the user gets to see: lines of text, or one JSON object.

use crate::args::Args;
use crate::failure::Failure;
use crate::inputs::Given;
use crate::outputs::{is_classes, Class, Outputs};
use nvdla_runtime::compare::Comparison;
use nvdla_runtime::device::{Device, DeviceInfo, Kind};
use nvdla_runtime::loadable::Interface;
use nvdla_runtime::profile::{Profile, Row};
use nvdla_runtime::session::{Session, TensorInfo};
use serde_json::{json, Value};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The version of the programs' JSON objects. It changes when a field is removed or changes its meaning.
pub(crate) const VERSION: u32 = 1;

/// Collects what happens.
pub(crate) struct Report<'a> {
    args: &'a Args,
    device: DeviceInfo,
    reason: String,
    inputs: Vec<Given>,
    runs: Vec<nvdla_runtime::session::Report>,
    wrote: Vec<PathBuf>,
    /// The standard output has something else.
    to_stderr: bool,
}

/// The standard output, or error. If its reader closes it, the run continues, because files must still be written.
struct Quiet(Box<dyn Write>);

impl Quiet {
    fn forgive<T>(result: io::Result<T>, otherwise: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(otherwise),
            result => result,
        }
    }
}

impl Write for Quiet {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Self::forgive(self.0.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Self::forgive(self.0.flush(), ())
    }
}

/// The least, the median and the greatest of some times.
struct Times {
    least: Duration,
    median: Duration,
    greatest: Duration,
}

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |n: usize| times.get(n).copied().unwrap_or_default();
        Self { least: at(0), median: at(times.len() / 2), greatest: at(times.len().saturating_sub(1)) }
    }

    fn to_json(&self) -> Value {
        json!({ "least": ms(self.least), "median": ms(self.median), "greatest": ms(self.greatest) })
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl<'a> Report<'a> {
    pub(crate) fn new<D: Device>(
        args: &'a Args,
        session: &Session<D>,
        reason: String,
        inputs: Vec<Given>,
        to_stderr: bool,
    ) -> Self {
        Self { args, device: session.device(), reason, inputs, runs: Vec::new(), wrote: Vec::new(), to_stderr }
    }

    fn out(&self) -> Quiet {
        Quiet(if self.to_stderr { Box::new(io::stderr().lock()) } else { Box::new(io::stdout().lock()) })
    }

    /// Before the run: what runs, and with what.
    pub(crate) fn start(&self) -> Result<(), Failure> {
        if self.args.json {
            return Ok(());
        }
        let mut out = self.out();
        writeln!(out, "device: {}: {}", self.device, self.reason)?;
        for Given { tensor, files } in &self.inputs {
            let files = if files.is_empty() { "zeros".to_owned() } else { files.join(", ") };
            writeln!(out, "input {:?} ({}): {files}", tensor.name, shape(tensor))?;
        }
        Ok(out.flush()?)
    }

    /// After each run.
    pub(crate) fn add(&mut self, run: nvdla_runtime::session::Report) {
        self.runs.push(run);
    }

    /// After each file.
    pub(crate) fn wrote(&mut self, path: &Path) {
        self.wrote.push(path.to_owned());
    }

    /// After the last run.
    pub(crate) fn finish<D: Device>(
        &self,
        outputs: &Outputs,
        session: &Session<D>,
        comparison: Option<&Comparison>,
        profile: Option<&Profile>,
    ) -> Result<(), Failure> {
        let mut found = Vec::new();
        for tensor in session.outputs().filter(|tensor| tensor.is_feature()) {
            found.push((tensor, outputs.best(session, tensor)?));
        }
        if self.args.json {
            self.as_json(&found, comparison, profile)
        } else {
            self.as_text(&found, comparison, profile)
        }
    }

    /// Times of each task over all runs, and of all of them.
    fn times(&self) -> (Vec<Times>, Times) {
        let tasks = self.runs.first().map_or(0, |run| run.tasks.len());
        let of = |task: usize| self.runs.iter().filter_map(|run| Some(run.tasks.get(task)?.duration)).collect();
        (
            (0..tasks).map(|task| Times::of(of(task))).collect(),
            Times::of(self.runs.iter().map(nvdla_runtime::session::Report::duration).collect()),
        )
    }

    fn as_text(
        &self,
        found: &[(&TensorInfo, Vec<Vec<Class>>)],
        comparison: Option<&Comparison>,
        profile: Option<&Profile>,
    ) -> Result<(), Failure> {
        let mut out = self.out();
        let (tasks, all) = self.times();
        let time = |times: &Times| {
            if self.runs.len() == 1 {
                format!("{:.3} ms", ms(times.median))
            } else {
                format!(
                    "{:.3} ms ({:.3} to {:.3} in {} runs)",
                    ms(times.median),
                    ms(times.least),
                    ms(times.greatest),
                    self.runs.len()
                )
            }
        };
        if let Some(run) = self.runs.first() {
            for (task, times) in run.tasks.iter().zip(&tasks) {
                let plural = if task.operations == 1 { "" } else { "s" };
                writeln!(
                    out,
                    "task {} ({}, {} operation{plural}): {}",
                    task.id,
                    interface(task.interface),
                    task.operations,
                    time(times)
                )?;
            }
            if tasks.len() > 1 {
                writeln!(out, "all tasks: {}", time(&all))?;
            }
        }
        for (tensor, batches) in found {
            for (batch, classes) in batches.iter().enumerate() {
                if classes.is_empty() {
                    continue;
                }
                let which = if batches.len() > 1 { format!(", batch {batch}") } else { String::new() };
                writeln!(out, "output {:?} ({}){which}:", tensor.name, shape(tensor))?;
                for class in classes {
                    if is_classes(tensor) {
                        let label = class.label.as_deref().map(|label| format!("  {label}")).unwrap_or_default();
                        writeln!(out, "  {:>4}  {}{label}", class.channel, class.value)?;
                    } else {
                        writeln!(out, "  (c {}, y {}, x {})  {}", class.channel, class.y, class.x, class.value)?;
                    }
                }
            }
        }
        if let Some(comparison) = comparison {
            writeln!(
                out,
                "compared {} surfaces: {} differ, {} have no file",
                comparison.compared(),
                comparison.differing(),
                comparison.missing()
            )?;
            if let Some(first) = comparison.first() {
                writeln!(out, "first difference: {first}")?;
            }
        }
        if let Some(profile) = profile {
            writeln!(out, "{profile}")?;
        }
        for path in &self.wrote {
            writeln!(out, "wrote {}", path.display())?;
        }
        Ok(out.flush()?)
    }

    fn as_json(
        &self,
        found: &[(&TensorInfo, Vec<Vec<Class>>)],
        comparison: Option<&Comparison>,
        profile: Option<&Profile>,
    ) -> Result<(), Failure> {
        let (tasks, all) = self.times();
        let tasks: Vec<_> = self
            .runs
            .first()
            .into_iter()
            .flat_map(|run| &run.tasks)
            .zip(&tasks)
            .map(|(task, times)| {
                json!({
                    "id": task.id,
                    "interface": interface(task.interface),
                    "operations": task.operations,
                    "milliseconds": times.to_json(),
                })
            })
            .collect();
        let class = |class: &Class| {
            // JSON has no infinities and no NaN.
            let value = if class.value.is_finite() { json!(class.value) } else { json!(class.value.to_string()) };
            let mut object = json!({ "class": class.channel, "y": class.y, "x": class.x, "value": value });
            if let Some(label) = &class.label {
                object["label"] = json!(label);
            }
            object
        };
        let outputs: Vec<_> = found
            .iter()
            .map(|(tensor, batches)| {
                let best: Vec<Vec<Value>> = batches.iter().map(|batch| batch.iter().map(class).collect()).collect();
                json!({ "name": tensor.name, "shape": sizes(tensor), "format": format(tensor), "best": best })
            })
            .collect();
        let inputs: Vec<_> = self
            .inputs
            .iter()
            .map(|Given { tensor, files }| {
                json!({ "name": tensor.name, "shape": sizes(tensor), "format": format(tensor), "files": files })
            })
            .collect();
        let mut object = json!({
            "version": VERSION,
            "loadable": self.args.loadable.display().to_string(),
            "device": {
                "kind": match self.device.kind { Kind::Model => "model", Kind::Rtl => "rtl", Kind::Hardware => "hardware" },
                "configuration": self.device.config.map(|config| config.name),
                "path": self.device.path.as_ref().map(|path| path.display().to_string()),
                "reason": self.reason,
            },
            "inputs": inputs,
            "runs": self.runs.len(),
            "tasks": tasks,
            "milliseconds": all.to_json(),
            "run_milliseconds": self.runs.iter().map(|run| ms(run.duration())).collect::<Vec<_>>(),
            "outputs": outputs,
            "wrote": self.wrote.iter().map(|path| path.display().to_string()).collect::<Vec<_>>(),
        });
        if let Some(comparison) = comparison {
            object["compared"] = json!({
                "surfaces": comparison.compared(),
                "differing": comparison.differing(),
                "missing": comparison.missing(),
                "first": comparison.first().map(ToString::to_string),
            });
        }
        if let Some(profile) = profile {
            object["profile"] = estimate(profile);
        }
        let mut out = self.out();
        serde_json::to_writer_pretty(&mut out, &object).map_err(std::io::Error::from)?;
        writeln!(out)?;
        Ok(out.flush()?)
    }
}

/// A profile's rows and totals.
fn estimate(profile: &Profile) -> Value {
    let row = |row: &Row| {
        let mut object = json!({
            "task": row.task,
            "operation": row.operation,
            "unit": row.unit.name(),
            "layer": row.layer,
            "shape": row.shape,
            "macs": row.macs,
            "dram_bytes": row.bytes.dram,
            "sram_bytes": row.bytes.sram,
            "compute_cycles": row.compute,
            "cycles": row.cycles,
            "limit": row.limit.to_string(),
            "source": row.source,
            "start": row.start,
        });
        if let Some(measured) = row.measured {
            object["measured"] = json!({
                "start": measured.start,
                "cycles": measured.cycles(),
                "read_bytes": measured.read,
                "written_bytes": measured.written,
                "waited_cycles": measured.waited,
            });
        }
        object
    };
    json!({
        "configuration": profile.config.name,
        "clock_mhz": profile.conditions.clock,
        "dram_gb_s": profile.conditions.dram,
        "sram_gb_s": profile.conditions.sram,
        "latency_cycles": profile.conditions.latency,
        "register_write_ns": profile.conditions.register_write,
        "operations": profile.rows.iter().map(row).collect::<Vec<_>>(),
        "macs": profile.macs(),
        "bytes": profile.bytes().total(),
        "cycles": profile.cycles(),
        "milliseconds": profile.milliseconds(),
        "measured_cycles": profile.measured_cycles(),
    })
}

fn interface(interface: Interface) -> &'static str {
    match interface {
        Interface::Dla1 => "NVDLA",
        Interface::Emu1 => "emulator",
        _ => "other",
    }
}

fn sizes(tensor: &TensorInfo) -> [u32; 4] {
    [tensor.n, tensor.c, tensor.h, tensor.w]
}

fn format(tensor: &TensorInfo) -> String {
    format!("{} {}", tensor.pixel_format, tensor.data_type)
}

fn shape(tensor: &TensorInfo) -> String {
    let [n, c, h, w] = sizes(tensor);
    format!("{n} x {c} x {h} x {w}, {}", format(tensor))
}
