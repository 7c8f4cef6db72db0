// SPDX-License-Identifier: MIT OR Apache-2.0

//! The results of a run as text or as one JSON object.

use crate::args::Args;
use crate::failure::Failure;
use crate::inputs::GivenInput;
use crate::json;
use crate::outputs::{is_classes, Class, Outputs};
use nvdla_runtime::compare::Comparison;
use nvdla_runtime::device::{Device, DeviceInfo};
use nvdla_runtime::loadable::Interface;
use nvdla_runtime::profile::Profile;
use nvdla_runtime::program::not_printed;
use nvdla_runtime::session::{Session, TensorInfo};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Collects the results of all runs and prints them.
pub(crate) struct Report<'a> {
    args: &'a Args,
    device: DeviceInfo,
    reason: String,
    inputs: Vec<GivenInput>,
    runs: Vec<nvdla_runtime::session::Report>,
    wrote: Vec<PathBuf>,
    /// The results go to the standard error, because an output tensor goes to the standard output.
    to_stderr: bool,
}

/// The standard output, or error. If its reader closes it, the run continues, because files must still be written.
struct Quiet(Box<dyn Write>);

impl Quiet {
    fn forgive<T>(result: io::Result<T>, otherwise: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(otherwise),
            result => result.map_err(|error| not_printed(&error)),
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

/// The least, the median and the greatest of several times.
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

    fn to_json(&self) -> json::Times {
        json::Times { least: ms(self.least), median: ms(self.median), greatest: ms(self.greatest) }
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
        inputs: Vec<GivenInput>,
        to_stderr: bool,
    ) -> Self {
        Self { args, device: session.device(), reason, inputs, runs: Vec::new(), wrote: Vec::new(), to_stderr }
    }

    fn out(&self) -> Quiet {
        Quiet(if self.to_stderr { Box::new(io::stderr().lock()) } else { Box::new(io::stdout().lock()) })
    }

    /// Prints the device and the inputs, before the first run.
    pub(crate) fn start(&self) -> Result<(), Failure> {
        if self.args.json {
            return Ok(());
        }
        let mut out = self.out();
        writeln!(out, "device: {}: {}", self.device, self.reason)?;
        for GivenInput { tensor, files } in &self.inputs {
            let files = if files.is_empty() { "zeros".to_owned() } else { files.join(", ") };
            writeln!(out, "input {:?} ({}): {files}", tensor.name, shape(tensor))?;
        }
        Ok(out.flush()?)
    }

    /// Adds the result of a run.
    pub(crate) fn add(&mut self, run: nvdla_runtime::session::Report) {
        self.runs.push(run);
    }

    /// Adds a file that was written.
    pub(crate) fn wrote(&mut self, path: &Path) {
        self.wrote.push(path.to_owned());
    }

    /// Prints the results, after the last run.
    pub(crate) fn finish<D: Device>(
        &self,
        outputs: &Outputs,
        session: &Session<D>,
        comparison: Option<&Comparison>,
        profile: Option<&Profile>,
        error: Option<json::Error>,
    ) -> Result<(), Failure> {
        let mut found = Vec::new();
        for tensor in session.outputs().filter(|tensor| tensor.is_feature()) {
            found.push((tensor, outputs.best(session, tensor)?));
        }
        if self.args.json {
            self.as_json(&found, comparison, profile, error)
        } else {
            self.as_text(&found, comparison, profile)
        }
    }

    /// The times of each task over all runs, and of all tasks together.
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
        error: Option<json::Error>,
    ) -> Result<(), Failure> {
        let (tasks, all) = self.times();
        let tasks: Vec<_> = self
            .runs
            .first()
            .into_iter()
            .flat_map(|run| &run.tasks)
            .zip(&tasks)
            .map(|(task, times)| json::Task {
                id: task.id,
                interface: interface(task.interface),
                operations: task.operations,
                milliseconds: times.to_json(),
            })
            .collect();
        let best = |class: &Class| json::Best {
            class: class.channel,
            y: class.y,
            x: class.x,
            value: class.value.into(),
            label: class.label.clone(),
        };
        let output = |(tensor, batches): &(&TensorInfo, Vec<Vec<Class>>)| json::Tensor {
            name: tensor.name.clone(),
            shape: tensor.shape(),
            format: format(tensor),
            best: batches.iter().map(|batch| batch.iter().map(best).collect()).collect(),
        };
        let input = |GivenInput { tensor, files }: &GivenInput| json::Input {
            name: tensor.name.clone(),
            shape: tensor.shape(),
            format: format(tensor),
            files: files.clone(),
        };
        let object = json::Output::Run(json::Run {
            version: json::VERSION,
            loadable: self.args.loadable.display().to_string(),
            device: json::Device::new(&self.device, &self.reason),
            inputs: self.inputs.iter().map(input).collect(),
            runs: self.runs.len(),
            tasks,
            milliseconds: all.to_json(),
            run_milliseconds: self.runs.iter().map(|run| ms(run.duration())).collect(),
            outputs: found.iter().map(output).collect(),
            wrote: self.wrote.iter().map(|path| path.display().to_string()).collect(),
            error,
            compared: comparison.map(|comparison| json::Compared {
                surfaces: comparison.compared(),
                differing: comparison.differing(),
                missing: comparison.missing(),
                first: comparison.first().map(ToString::to_string),
            }),
            profile: profile.map(json::Estimate::from),
        });
        let mut out = self.out();
        serde_json::to_writer_pretty(&mut out, &object).map_err(std::io::Error::from)?;
        writeln!(out)?;
        Ok(out.flush()?)
    }
}

fn interface(interface: Interface) -> &'static str {
    match interface {
        Interface::Dla1 => "NVDLA",
        Interface::Emu1 => "emulator",
        _ => "other",
    }
}

fn format(tensor: &TensorInfo) -> String {
    format!("{} {}", tensor.pixel_format, tensor.data_type)
}

fn shape(tensor: &TensorInfo) -> String {
    let [n, c, h, w] = tensor.shape();
    format!("{n} x {c} x {h} x {w}, {}", format(tensor))
}
