// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs a loadable.

use crate::args::Args;
use crate::failure::{cannot, problem, Context, Failure, Shown};
use crate::{exit, inputs, json, outputs, progress, report};
use nvdla_runtime::compare::Comparison;
use nvdla_runtime::device::{self, Device, Kind, Recording, Selection};
use nvdla_runtime::files;
use nvdla_runtime::image::{is_picture, ENDINGS};
use nvdla_runtime::labels::Labels;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::operations;
use nvdla_runtime::operations::races::Edge;
use nvdla_runtime::profile::{Conditions, Profile};
use nvdla_runtime::program::sentence;
use nvdla_runtime::session::{dump_to, Completed, RunOptions, Session};
use nvdla_runtime::ErrorKind;
use nvdla_uapi::config::Config;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tracing::{info, warn};

/// Opens a loadable.
pub(crate) fn open_loadable(path: &Path) -> Result<Loadable, Failure> {
    Ok(Loadable::open(path).map_err(|error| Context::new(path, error))?)
}

/// The device that an option or the environment variable selects.
pub(crate) fn or_environment(selection: Option<Selection>) -> Result<Selection, Failure> {
    match (selection, std::env::var("NVDLA_DEVICE")) {
        (Some(selection), _) => Ok(selection),
        (None, Ok(text)) => text.parse::<Selection>().map_err(|error| problem(format!("NVDLA_DEVICE: {error}"))),
        (None, Err(_)) => Ok(Selection::Auto),
    }
}

/// The pictures of the folder that --image names, in the order of their names; none if it names no folder.
fn pictures(args: &Args) -> Result<Option<Vec<PathBuf>>, Failure> {
    let [folder] = &args.image[..] else { return Ok(None) };
    if !folder.is_dir() {
        return Ok(None);
    }
    let others = [
        ("--output", !args.output.is_empty()),
        ("--dump", args.dump.is_some()),
        ("--record", args.record.is_some()),
        ("--compare", args.compare.is_some()),
        ("--profile", args.profile.is_some()),
    ];
    if let Some((option, _)) = others.iter().find(|(_, given)| *given) {
        let folder = folder.display();
        return Err(problem(format!("{option} is for one run, and --image {folder} is a folder of pictures")));
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot("read", folder))? {
        let path = entry.map_err(cannot("read", folder))?.path();
        if is_picture(&path) {
            found.push(path);
        }
    }
    if found.is_empty() {
        return Err(problem(format!("--image {} has no pictures (.{})", folder.display(), ENDINGS.join(", ."))));
    }
    found.sort();
    Ok(Some(found))
}

/// Runs the loadable; `dimg` says that `output.dimg` is written. With a folder of pictures it runs once for each of them, and each
/// has its own folder of outputs.
pub(crate) fn run(args: &Args, dimg: bool) -> Result<(), Failure> {
    // Everything that can be checked before the run is checked first.
    let labels = args.labels.as_ref().map(Labels::open).transpose()?;
    let pictures = pictures(args)?;
    let mut loadable = Arc::new(open_loadable(&args.loadable)?);
    info!("{}: {} bytes, version {}", args.loadable.display(), loadable.as_bytes().len(), loadable.version());
    let names = outputs::names(args, &loadable, dimg)?;
    let selection = selection(args)?;
    let (opened, recording) = match &args.record {
        None => (device::open(&selection, &loadable)?, None),
        Some(folder) => {
            let recording = Recording::create(folder).map_err(cannot("record in", folder))?;
            (device::open_recorded(&selection, &loadable, &recording)?, Some((recording, folder)))
        }
    };
    let config = opened.device.info().config;
    if args.repair {
        let config = config.unwrap_or_else(|| device::recognise(&loadable).config);
        let repaired = operations::repair(&loadable, config)?;
        repaired.poolings.iter().for_each(|pooling| info!("{pooling}"));
        loadable = Arc::new(repaired.loadable);
    }
    let atom = config.map_or(32, |config| config.memory_atomic);
    let comparison = args.compare.as_ref().map(|folder| Comparison::new(folder, &loadable, atom)).transpose()?;
    let profile = match &args.profile {
        Some(_) => {
            let config = config.unwrap_or_else(|| device::recognise(&loadable).config);
            Some(Profile::new(&loadable, config, conditions(args, &selection, config, &loadable))?)
        }
        None => None,
    };

    let reason = opened.reason;
    let mut session = Session::new(Arc::clone(&loadable), opened.device)?;
    if args.order {
        for Edge { task, from, to } in session.order()? {
            info!("task {task}: operation {to} waits until operation {from} is complete");
        }
    }
    if let Some(pictures) = pictures {
        for picture in pictures {
            let folder = args.output_dir.as_ref().zip(picture.file_name()).map(|(folder, name)| folder.join(name));
            let one = Args { image: vec![picture], output_dir: folder, ..args.clone() };
            let names = outputs::names(&one, &loadable, false)?;
            let outputs = outputs::Outputs::new(&one, &session, labels.clone(), false, names)?;
            rounds(&one, (&loadable, config), &mut session, reason.clone(), &outputs, Watch::default())?;
        }
        return Ok(());
    }
    let outputs = outputs::Outputs::new(args, &session, labels, dimg, names)?;
    rounds(args, (&loadable, config), &mut session, reason, &outputs, Watch { comparison, profile, recording })
}

/// What is made of the runs beside their outputs.
#[derive(Default)]
struct Watch<'a> {
    comparison: Option<Comparison>,
    profile: Option<Profile>,
    recording: Option<(Recording, &'a PathBuf)>,
}

/// Fills the inputs, runs as often as --repeat says, and writes and shows the results.
fn rounds<D: Device>(
    args: &Args,
    (loadable, config): (&Loadable, Option<&Config>),
    session: &mut Session<D>,
    reason: String,
    outputs: &outputs::Outputs,
    Watch { mut comparison, mut profile, recording }: Watch<'_>,
) -> Result<(), Failure> {
    let inputs = inputs::set(args, session)?;
    let dump_into = |folder: PathBuf| dump_to(folder.clone()).map_err(cannot("make the folder", &folder));
    let mut dump = args.dump.clone().map(dump_into).transpose()?;
    if let (Some(folder), Some(names)) = (&args.dump, loadable.names()) {
        // A line of layers.txt: a file of the folder, and its layer.
        let line = |operation: operations::NetworkOperation| {
            let layer = names.layer(operation.task, operation.index)?;
            Some(format!("{}  {layer}\n", operation.file_name()))
        };
        let lines: String = operations::operations(loadable)?.into_iter().filter_map(line).collect();
        let path = folder.join(outputs::LAYERS);
        files::write(&path, lines).map_err(cannot("write", &path))?;
    }

    let mut report = report::Report::new(args, session, reason, inputs, outputs.takes_stdout());
    report.start()?;
    let mut progress = progress::Progress::new(session.operations(), args.repeat);
    // A device that does not report completed operations runs without an observer. The built-in model is faster without one.
    let observes = session.device().kind != Kind::Hardware && (progress.is_wanted() || profile.is_some());
    for round in 0..args.repeat {
        let last = round + 1 == args.repeat;
        let mut observe = |completed: Completed<'_>| -> io::Result<()> {
            progress.operation(&completed);
            if let Some(profile) = &mut profile {
                profile.measure(&completed);
            }
            if let (Some(comparison), true) = (&mut comparison, last) {
                comparison.look_at(&completed)?;
            }
            match (&mut dump, last) {
                (Some(dump), true) => dump(completed),
                _ => Ok(()),
            }
        };
        let wanted = observes || args.dump.is_some() || args.compare.is_some();
        let on_operation = wanted.then_some(&mut observe as _);
        let options =
            RunOptions { timeout: args.timeout, run_timeout: args.run_timeout, on_operation, ..RunOptions::default() };
        report.add(session.run_with(options).inspect_err(|_| suggest(loadable, config))?);
    }
    progress.finish();
    // The results are shown even if a file cannot be written.
    let mut written = outputs.write(args, session, |path| report.wrote(path));
    if let (Some(profile), Some(Some(path))) = (&profile, &args.profile) {
        match files::write(path, profile.to_trace()).map_err(cannot("write", path)) {
            Ok(()) => report.wrote(path),
            Err(error) => written = written.and(Err(error)),
        }
    }
    if let Some((recording, folder)) = recording {
        match recording.finish().map_err(cannot("record in", folder)) {
            Ok(()) => report.wrote(folder),
            Err(error) => written = written.and(Err(error)),
        }
    }
    let verdict = |comparison: &Comparison| comparison.verdict().map_err(Failure::from);
    let result = written.and_then(|()| comparison.as_ref().map_or(Ok(()), verdict));
    let error = result.as_ref().err().map(|error| {
        let (kind, status) = exit::of(error.as_ref());
        json::Error { kind: kind.map(ErrorKind::name), message: sentence(error.as_ref()), status }
    });
    report.finish(outputs, session, comparison.as_ref(), profile.as_ref(), error)?;
    result.map_err(|error| Box::new(Shown(error)) as Failure)
}

/// Suggests the model if the device has another configuration than the loadable.
fn suggest(loadable: &Loadable, config: Option<&Config>) {
    let recognised = device::recognise(loadable);
    let name = recognised.config.name;
    if let Some(config) = config.filter(|config| config.name != name) {
        let device = config.name;
        warn!(
            "the loadable is for {recognised}, and the device is {device}; --device model:{name} runs it on the model"
        );
    }
}

/// The device that the options select.
fn selection(args: &Args) -> Result<Selection, Failure> {
    let mut selection = or_environment(args.device.clone())?;
    match (&mut selection, &args.trace_fst) {
        (_, None) => {}
        (Selection::Rtl(simulator), Some(file)) => {
            (simulator.trace, simulator.trace_from) = (Some(file.clone()), args.trace_from);
        }
        (_, Some(_)) => return Err(problem("--trace-fst needs a simulator of the RTL: --device rtl:PROGRAM")),
    }
    Ok(selection)
}

/// The hardware conditions from the options; what they leave out comes from the simulator, or from the loadable.
fn conditions(args: &Args, selection: &Selection, config: &Config, loadable: &Loadable) -> Conditions {
    let mut usual = loadable.names().map_or_else(Conditions::default, |names| names.conditions);
    if let Selection::Rtl(simulator) = selection {
        let clock = args.board.clock.unwrap_or(usual.clock);
        // Converts bytes per cycle to GB/s. Without a limit both directions have the width of the bus.
        let bandwidth = |limit: f64, width: u32| {
            let bytes = if limit > 0.0 { limit } else { 2.0 * f64::from(width / 8) };
            bytes * clock / 1e3
        };
        let memory = simulator.memory();
        usual.latency = memory.latency;
        usual.dram = bandwidth(memory.bandwidth, config.primary.width);
        usual.sram = bandwidth(memory.sram_bandwidth, config.secondary.unwrap_or(config.primary).width);
        // A posted write takes a cycle or two (docs/rtl.md).
        usual.register_write = 2e3 / clock;
    }
    args.board.conditions(usual)
}
