// SPDX-License-Identifier: MIT OR Apache-2.0

//! The cases of the conformance suite: a loadable, its inputs, and the expected outputs.
//!
//! A case runs on any device: by default the model of its configuration, or the device that the environment variable
//! `NVDLA_DEVICE` names as in the runtime's `--device`, such as a kernel driver's node or a simulator of the RTL.

use std::{
    borrow::Cow,
    fs,
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use nvdla_model::simulation::Simulation;
use nvdla_runtime::device::{self, Device, Kind, ModelDevice, Selection};
use nvdla_runtime::dimg::{Dimg, SurfaceFormat, Tensor};
use nvdla_runtime::loadable::{DataType, Loadable, PixelFormat};
use nvdla_runtime::session::{Completed, RunOptions, Session, TensorInfo};
use nvdla_uapi::config::Config;

/// Outputs of the reference that depend on memory which the C-model never wrote: the case, the bytes of a line, and the affected
/// bytes of each line. See `tools/model/DISAGREEMENTS.md`.
const UNINITIALISED: [(&str, usize, Range<usize>); 1] =
    [("loadables-2/m_conv3x3_relu.nv_full.fp16.in-R8", 32 * 32, 14 * 32..17 * 32)];

/// The time limit of a task, and the one on a simulator of the RTL, which runs about 20,000 cycles per second.
const TIMEOUT: Duration = Duration::from_secs(600);
const RTL_TIMEOUT: Duration = Duration::from_secs(12 * 3600);

/// The expected result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Bytes of each output and of the surfaces that have a file, in the folder of the loadable.
    Golden,
    /// As `Golden`, but bytes may differ, because they depend on the distance between reads and writes. The run must end.
    OrderDependent,
    /// As `Golden`, but operations race, so bytes may differ on every device. The run must end.
    Racing,
    /// The elements of the `.dimg` file beside the loadable.
    Dimg,
    /// A refusal for this reason, before the device is started.
    Refused(String),
}

/// A case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// The configuration that it is for.
    pub config: &'static Config,
    /// The loadable.
    pub loadable: PathBuf,
    /// Files of the inputs, with their bind ids.
    pub inputs: Vec<(usize, PathBuf)>,
    /// Files of the outputs, with their bind ids.
    pub outputs: Vec<(usize, PathBuf)>,
    /// The expected result.
    pub expected: Expected,
}

/// What a case has compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// The number of outputs with equal bytes.
    pub outputs: usize,
    /// The number of surfaces with equal bytes.
    pub surfaces: usize,
    /// The number of bytes that differ and may differ.
    pub may_differ: usize,
}

/// Every case in the reference data.
///
/// # Errors
///
/// If a manifest cannot be read, or names a file that does not exist.
pub fn all(reference: &Path) -> Result<Vec<Case>, String> {
    let mut cases = regression(&reference.join("regression"))?;
    cases.extend(manifest(&reference.join("loadables"))?);
    cases.extend(manifest(&reference.join("loadables-2"))?);
    cases.extend(manifest(&reference.join("loadables-bad"))?);
    Ok(cases)
}

/// NVIDIA's regression set. The names end in the configuration; those of nv_full have no such ending.
fn regression(folder: &Path) -> Result<Vec<Case>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if !path.is_dir() {
            continue;
        }
        let config = match name.rsplit('_').next() {
            Some("small") => "nv_small",
            Some("large") => "nv_large",
            _ => "nv_full",
        };
        cases.push(Case {
            name: format!("regression/{name}"),
            config: Config::by_name(config).ok_or_else(|| format!("there is no {config}"))?,
            loadable: path.join("loadable.nvdla"),
            inputs: Vec::new(),
            outputs: vec![(0, path.join("golden.dimg"))],
            expected: Expected::Dimg,
        });
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

/// The cases that a `manifest.json` lists.
fn manifest(folder: &Path) -> Result<Vec<Case>, String> {
    let file = folder.join("manifest.json");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let broken = |what: &str| format!("{}: {what}", file.display());
    let kind = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let mut cases = Vec::new();
    for entry in json.as_array().ok_or_else(|| broken("not a list"))? {
        let text = |field: &str| entry[field].as_str().map(str::to_owned);
        let name = text("name").ok_or_else(|| broken("an entry without a name"))?;
        let config = text("configuration").ok_or_else(|| broken(&format!("{name} has no configuration")))?;
        let config = Config::by_name(&config).ok_or_else(|| broken(&format!("{name} is for {config}")))?;
        let here = folder.join(&name);
        let tensors = |list: &str, prefix: &str| -> Result<Vec<(usize, PathBuf)>, String> {
            let tensors = entry[list].as_array().map(Vec::as_slice).unwrap_or_default();
            let tensor = |tensor: &serde_json::Value| {
                let file = tensor["file"].as_str()?;
                let number = file.strip_prefix(prefix)?.strip_suffix(".bin")?.parse().ok()?;
                Some((number, here.join(file)))
            };
            let found: Option<Vec<_>> = tensors.iter().map(tensor).collect();
            found.ok_or_else(|| broken(&format!("{name} names a file of {list} in another way")))
        };
        let expected = match (text("why"), entry["order_dependent"].as_bool()) {
            // These files have the results with additional edges, which decide the race.
            _ if here.join("out0-ordered.bin").is_file() => Expected::Racing,
            (Some(why), _) => Expected::Refused(why),
            (None, Some(true)) => Expected::OrderDependent,
            (None, _) => Expected::Golden,
        };
        cases.push(Case {
            name: format!("{kind}/{name}"),
            config,
            loadable: here.join("net.nvdla"),
            inputs: tensors("inputs", "in")?,
            outputs: tensors("outputs", "out")?,
            expected,
        });
    }
    Ok(cases)
}

/// The simulator of the RTL that `NVDLA_DEVICE` names (`rtl:PROGRAM`), if it is of this configuration, else the model.
///
/// # Panics
///
/// If the simulator does not start.
pub fn model_or_rtl(config: &'static Config) -> ModelDevice {
    let named = std::env::var("NVDLA_DEVICE").ok();
    let program = named.as_deref().and_then(|name| name.strip_prefix("rtl:"));
    let simulator = program.map(|program| {
        let selection = program.parse().unwrap_or_else(|error| panic!("NVDLA_DEVICE: {error}"));
        nvdla_rtl::Simulator::start(&selection).unwrap_or_else(|error| panic!("NVDLA_DEVICE: {error}"))
    });
    match simulator.filter(|simulator| simulator.config().name == config.name) {
        Some(simulator) => ModelDevice::rtl(simulator),
        None => ModelDevice::new(config),
    }
}

/// The message of an error and its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

impl Case {
    /// Runs the case on the device that the environment names.
    ///
    /// # Errors
    ///
    /// If the result is not the expected one; the text describes the differences.
    pub fn run(&self) -> Result<Compared, String> {
        let selection = match std::env::var("NVDLA_DEVICE") {
            Ok(text) => text.parse().map_err(|error| format!("NVDLA_DEVICE: {error}"))?,
            Err(_) => Selection::Model(Some(self.config)),
        };
        self.run_on(&selection, &mut |_| {})
    }

    /// Runs the case on a device. `observe` is called with the operations of the first run, if the device reports them.
    ///
    /// # Errors
    ///
    /// As [`Case::run`].
    pub fn run_on(&self, selection: &Selection, observe: &mut dyn FnMut(&Completed<'_>)) -> Result<Compared, String> {
        let loadable = Loadable::open(&self.loadable).map_err(|error| chain(&error))?;
        let device = device::open(selection, &loadable).map_err(|error| chain(&error))?.device;
        let observes = device.can_observe();
        let kind = device.info().kind;
        let mut session = match (Session::new(loadable, device), &self.expected) {
            (Ok(session), _) => session,
            (Err(error), Expected::Refused(_)) => return refusal(&chain(&error)),
            (Err(error), _) => return Err(chain(&error)),
        };
        for (index, file) in &self.inputs {
            let bytes = read(file)?;
            session.set_input(*index, &bytes).map_err(|error| chain(&error))?;
        }
        let mut surfaces = Surfaces { folder: self.loadable.with_file_name("surfaces"), ..Surfaces::default() };
        let mut on_operation = |completed: Completed<'_>| {
            observe(&completed);
            surfaces.compare(self, completed);
            Ok(())
        };
        let timeout = Some(if kind == Kind::Rtl { RTL_TIMEOUT } else { TIMEOUT });
        let result = session.run_with(RunOptions {
            run_timeout: timeout,
            timeout,
            on_operation: if observes { Some(&mut on_operation) } else { None },
            ..RunOptions::default()
        });
        match (result, &self.expected) {
            (Ok(_), Expected::Refused(why)) => return Err(format!("it ran, though {why}")),
            (Ok(_), _) => {}
            (Err(error), Expected::Refused(_)) => return refusal(&chain(&error)),
            (Err(error), _) => return Err(chain(&error)),
        }
        let mut compared = Compared { surfaces: surfaces.equal, ..Compared::default() };
        let mut wrong = surfaces.different;
        if observes && self.expected != Expected::Dimg {
            let files = fs::read_dir(&surfaces.folder).map_or(0, Iterator::count);
            let seen = surfaces.equal + wrong.len();
            if seen != files {
                wrong.push(format!("{seen} surfaces were written, the reference has {files}"));
            }
        }
        let first = self.outputs_of(&session)?;
        for ((index, file), output) in self.outputs.iter().zip(&first) {
            let golden = read(file)?;
            let difference = if self.expected == Expected::Dimg {
                let info = session.outputs().nth(*index).ok_or("no such output")?;
                compare_dimg(info, output, &golden)
            } else {
                difference(&self.initialised(output), &self.initialised(&golden))
            };
            match difference {
                None => compared.outputs += 1,
                Some(difference) => wrong.push(format!("output {index}: {difference}")),
            }
        }
        // A second run without loading, with a run of other numbers in between: a session must keep nothing from an earlier run.
        // The RTL takes seconds to minutes per run, and its session code is the model's.
        if kind != Kind::Rtl {
            for (index, _) in &self.inputs {
                session.input_mut(*index).map_err(|error| chain(&error))?.fill(0x55);
            }
            session.run().map_err(|error| chain(&error))?;
            for (index, file) in &self.inputs {
                session.set_input(*index, &read(file)?).map_err(|error| chain(&error))?;
            }
            session.run().map_err(|error| chain(&error))?;
            for (at, (again, first)) in self.outputs_of(&session)?.iter().zip(&first).enumerate() {
                if let Some(difference) = difference(again, first) {
                    wrong.push(format!("output {at} of another run: {difference}"));
                }
            }
        }
        // The model reads before it writes; other devices need not.
        if self.expected == Expected::Racing || self.expected == Expected::OrderDependent && kind != Kind::Model {
            compared.may_differ = wrong.len();
            wrong.clear();
        }
        match wrong.split_first() {
            None => Ok(compared),
            Some((first, rest)) => {
                let shown: Vec<_> = std::iter::once(first).chain(rest.iter().take(4)).map(String::as_str).collect();
                let more = if rest.len() > 4 { format!("\n(and {} more)", rest.len() - 4) } else { String::new() };
                Err(format!("{}{more}", shown.join("\n")))
            }
        }
    }
}

impl Case {
    /// The bytes, with zero for those that depend on the reference's uninitialised memory.
    fn initialised<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let Some((_, line, columns)) = UNINITIALISED.iter().find(|(name, ..)| *name == self.name) else {
            return Cow::Borrowed(bytes);
        };
        let mut bytes = bytes.to_vec();
        for line in bytes.chunks_exact_mut(*line) {
            line[columns.clone()].fill(0);
        }
        Cow::Owned(bytes)
    }

    /// The bytes of the outputs that the case compares.
    fn outputs_of<D: Device>(&self, session: &Session<D>) -> Result<Vec<Vec<u8>>, String> {
        let bytes = |(index, _): &(usize, PathBuf)| session.output(*index).map(<[u8]>::to_vec);
        self.outputs.iter().map(bytes).collect::<Result<_, _>>().map_err(|error| chain(&error))
    }
}

/// A refusal must name an operation, a surface or a field, with values.
fn refusal(message: &str) -> Result<Compared, String> {
    let names = ["operation", "surface", "list", "address", "graph"].iter().any(|word| message.contains(word));
    let values = message.chars().any(|character| character.is_ascii_digit());
    let started = message.contains("the device stopped");
    if names && values && !started {
        println!("refused: {message}");
        Ok(Compared::default())
    } else {
        Err(format!("refused, but not by what is wrong: {message}"))
    }
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    fs::read(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// Compares the surfaces of a run with files.
#[derive(Default)]
struct Surfaces {
    folder: PathBuf,
    equal: usize,
    different: Vec<String>,
}

impl Surfaces {
    fn compare(&mut self, case: &Case, completed: Completed<'_>) {
        let name = completed.file_name();
        // Only small surfaces have a file.
        let (Some(bytes), Ok(golden)) = (completed.surface, fs::read(self.folder.join(&name))) else { return };
        match difference(&case.initialised(bytes), &case.initialised(&golden)) {
            None => self.equal += 1,
            Some(difference) => self.different.push(format!("surface {name}: {difference}")),
        }
    }
}

/// Describes how bytes differ from the expected ones.
fn difference(found: &[u8], golden: &[u8]) -> Option<String> {
    if found == golden {
        return None;
    }
    if found.len() != golden.len() {
        return Some(format!("{} bytes, the reference has {}", found.len(), golden.len()));
    }
    let mut different = found.iter().zip(golden).enumerate().filter(|(_, (a, b))| a != b);
    let (first, (a, b)) = different.next()?;
    let count = different.count() + 1;
    Some(format!("{count} of {} bytes differ, the first at {first:#x}: {a:#04x} instead of {b:#04x}", golden.len()))
}

/// Describes how an output's elements differ from those of a `.dimg` file. Headers of the regression set use older numbers for
/// their formats, so only the elements are compared.
fn compare_dimg(info: &TensorInfo, bytes: &[u8], file: &[u8]) -> Option<String> {
    // The program that wrote the files used only the tensor's format, and treated nv_small's cubes of the regression set, which
    // are called FEATURE, as having atoms of 32 bytes.
    let format = match (info.data_type, info.pixel_format) {
        (DataType::Half, _) => SurfaceFormat::FeatureFp16,
        (DataType::Int16, _) => SurfaceFormat::FeatureInt16,
        (_, PixelFormat::FEATURE_X8) => SurfaceFormat::FeatureInt8x8,
        _ => SurfaceFormat::FeatureInt8,
    };
    let tensor = Tensor {
        format,
        width: info.w,
        height: info.h,
        channels: info.c,
        line_stride: info.line_stride(),
        surface_stride: info.surface_stride(),
        atom: None,
        bytes,
    };
    let written = match tensor.to_dimg() {
        Ok(written) => written,
        Err(error) => return Some(chain(&error)),
    };
    match (Dimg::parse(&written), Dimg::parse(file)) {
        (Ok(written), Ok(golden)) => difference(written.elements, golden.elements),
        (Err(error), _) | (_, Err(error)) => Some(chain(&error)),
    }
}
