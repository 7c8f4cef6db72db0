// SPDX-License-Identifier: MIT OR Apache-2.0

//! How many labelled samples a compiled network classifies as their labels say, and as the float network does, and what each layer
//! adds to the noise.

use std::fs;
use std::path::{Path, PathBuf};

use nvdla_runtime::device::Device;
use nvdla_runtime::files;
use nvdla_runtime::labels::{self, Labels};
use serde::Serialize;

use crate::calibrate::samples;
use crate::compiler::{Compiler, FEW_SAMPLES};
use crate::evaluate::loss::Loss;
use crate::evaluate::measure::Measured;
use crate::evaluate::mixed;
use crate::float;
use crate::ir::Graph;
use crate::output::compiled::Compiled;

/// The greatest size of a list of samples in bytes.
const MAX_LIST: u64 = 64 << 20;
/// The number of classes that count as the best.
const BEST: usize = 5;

/// Why a network cannot be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The samples cannot be listed or read.
    #[error(transparent)]
    Samples(#[from] crate::calibrate::Error),
    /// The labels cannot be understood.
    #[error("{}: {}", .0.display(), .1)]
    Labels(PathBuf, String),
    /// The options do not fit the network.
    #[error(transparent)]
    Compiler(#[from] crate::compiler::Error),
    /// A run failed.
    #[error("{}: {}", .0.display(), .1)]
    Run(PathBuf, String),
}

/// A sample and its class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labelled {
    /// The picture or array.
    pub path: PathBuf,
    /// The class: an index of the network's first output.
    pub class: usize,
}

/// The samples of a folder with one folder per class, or of a CSV file with a path and a class per line.
///
/// A class is its number, or its name in `labels`. The folders' names are class numbers, or names in `labels`; without either,
/// the folders are the classes in the order of their names. Paths of a CSV file are relative to the file.
pub fn labelled(source: &Path, labels: Option<&Labels>) -> Result<Vec<Labelled>, Error> {
    let refuse = |reason: String| Error::Labels(source.to_owned(), reason);
    let named = |name: &str| labels.and_then(|labels| (0..labels.len()).find(|&class| labels.get(class) == Some(name)));
    let class = |name: &str| name.parse().ok().or_else(|| named(name));
    let mut list = Vec::new();
    if source.is_dir() {
        let entries = fs::read_dir(source).map_err(|error| refuse(error.to_string()))?;
        let mut folders: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        folders.sort();
        let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let known: Vec<Option<usize>> = folders.iter().map(|folder| class(&name(folder))).collect();
        for (position, (folder, known)) in folders.iter().zip(&known).enumerate() {
            let class = match known {
                Some(class) => *class,
                // Either all folders are named by classes, or none is.
                None if labels.is_none() && !known_any(&folders, &class) => position,
                None => return Err(refuse(format!("the folder \"{}\" is no number and no known name", name(folder)))),
            };
            list.extend(samples::found(folder)?.into_iter().map(|path| Labelled { path, class }));
        }
    } else {
        let text = files::read_text(source, MAX_LIST).map_err(|error| refuse(error.to_string()))?;
        let folder = source.parent().unwrap_or(Path::new("."));
        let mut lines = csv::ReaderBuilder::new();
        lines.has_headers(false).flexible(true).comment(Some(b'#')).trim(csv::Trim::All);
        for line in lines.from_reader(without_mark(&text).as_bytes()).records() {
            let line = line.map_err(|error| refuse(error.to_string()))?;
            let number = line.position().map_or(0, csv::Position::line);
            // A path may have commas without quotes.
            let fields: Vec<&str> = line.iter().collect();
            let [path @ .., name] = &fields[..] else { continue };
            if path.is_empty() {
                return Err(refuse(format!("line {number}, \"{name}\", is not a path, a comma and a class")));
            }
            let class = class(name)
                .ok_or_else(|| refuse(format!("line {number}: the class \"{name}\" is no number and no known name")))?;
            list.push(Labelled { path: folder.join(path.join(",")), class });
        }
    }
    if list.is_empty() {
        return Err(refuse("there are no samples".to_owned()));
    }
    Ok(list)
}

/// A text without the mark of its encoding that some programs write first.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn known_any(folders: &[PathBuf], class: &impl Fn(&str) -> Option<usize>) -> bool {
    folders.iter().filter_map(|folder| folder.file_name()).any(|name| class(&name.to_string_lossy()).is_some())
}

/// How often the label is the best class, and among the best five.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// The best class.
    pub top1: usize,
    /// Among the best five.
    pub top5: usize,
}

impl Counts {
    fn add(&mut self, best: &[usize], class: usize) {
        self.top1 += usize::from(best.first() == Some(&class));
        self.top5 += usize::from(best.contains(&class));
    }
}

/// The noise of a layer, relative to its signal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerNoise {
    /// The tensor that the layer computes.
    pub tensor: String,
    /// The ratio of signal to noise in decibels, with the noise of all layers before.
    pub accumulated: f64,
    /// The same of what the layer itself adds to the noisiest of its inputs.
    pub single: f64,
}

/// What an evaluation found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Samples.
    pub samples: usize,
    /// What the loadable finds.
    pub device: Counts,
    /// What the float network finds; none for a loadable.
    pub float: Option<Counts>,
    /// How often both find the same best class.
    pub agreement: Option<usize>,
    /// The ratio of signal to noise of each output in decibels, over all samples.
    pub outputs: Vec<f64>,
    /// The noise of each layer, on the built-in model, on a few samples.
    pub layers: Vec<LayerNoise>,
}

impl Evaluation {
    /// The share of the samples whose label is the loadable's best class, from 0 to 1.
    pub fn top1(&self) -> f64 {
        self.device.top1 as f64 / self.samples.max(1) as f64
    }

    /// The results as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The text for a user, with several lines.
    pub fn to_text(&self) -> String {
        let percent = |count: usize| format!("{:.2} %", 100.0 * count as f64 / self.samples.max(1) as f64);
        let line = |what: &str, counts: &Counts| {
            format!("{what}: top-1 {}, top-5 {}", percent(counts.top1), percent(counts.top5))
        };
        let mut lines = vec![format!("{} samples", self.samples), line("loadable", &self.device)];
        if let (Some(float), Some(agreement)) = (&self.float, self.agreement) {
            lines.extend([line("float", float), format!("same best class: {}", percent(agreement))]);
        }
        let outputs = self.outputs.iter().enumerate();
        lines.extend(outputs.map(|(k, decibels)| format!("output {k}: {decibels:.1} dB")));
        let layer = |LayerNoise { tensor, accumulated, single }: &LayerNoise| {
            format!("{accumulated:>6.1} dB, alone {single:>6.1} dB: {tensor}")
        };
        lines.extend(self.layers.iter().map(layer));
        lines.join("\n") + "\n"
    }
}

fn failed(path: &Path) -> impl FnOnce(String) -> Error + '_ {
    move |reason| Error::Run(path.to_owned(), reason)
}

/// Evaluates a network that was compiled, on a device. `graph` is the network that was compiled; `progress` is called with the
/// number of samples that are done.
pub fn evaluate<D: Device>(
    compiler: &Compiler,
    graph: &Graph,
    compiled: &Compiled,
    device: D,
    list: &[Labelled],
    progress: &mut dyn FnMut(usize),
) -> Result<Evaluation, Error> {
    let classes = graph.outputs.first().map_or(0, |&output| graph.tensor(output).elements());
    if let Some(Labelled { path, class }) = list.iter().find(|sample| sample.class >= classes) {
        let reason =
            format!("its class is {class}, and the network's first output has {classes}, of which the first is 0");
        return Err(Error::Labels(path.clone(), reason));
    }
    let inputs = compiler.inputs(graph)?;
    let preprocess: Vec<_> = inputs.iter().cloned().map(Option::unwrap_or_default).collect();
    let path = |k: usize| list.get(k).map(|sample| sample.path.clone()).unwrap_or_default();
    let mut measured = Measured::on(compiled, &inputs, device).map_err(failed(&path(0)))?;
    let (mut device, mut float, mut agreement) = (Counts::default(), Counts::default(), 0);
    let mut losses = vec![Loss::default(); graph.outputs.len()];
    let mut few = Vec::new();
    for (k, Labelled { path, class }) in list.iter().enumerate() {
        let sample = samples::read(path, graph, &preprocess)?;
        let found = measured.run(&sample).map_err(failed(path))?;
        let expected = float::run(graph, &sample, &mut |_, _| {}).map_err(failed(path))?;
        losses
            .iter_mut()
            .zip(found.iter().zip(&expected))
            .for_each(|(loss, (found, expected))| loss.add(found, expected));
        let both = [&found[0], &expected[0]].map(|values| labels::best(values, BEST));
        device.add(&both[0], *class);
        float.add(&both[1], *class);
        agreement += usize::from(both[0].first() == both[1].first());
        // Samples of different classes: the list is in the order of the classes.
        if k % list.len().div_ceil(FEW_SAMPLES) == 0 {
            few.push(sample);
        }
        progress(k + 1);
    }
    let mut model = Measured::new(compiled, &inputs).map_err(failed(&path(0)))?;
    let by_number = model.losses_by_number(graph, &few).map_err(failed(&path(0)))?;
    let decibels = |ratio: f64| -10.0 * ratio.max(1e-30).log10();
    let noises = mixed::noises(graph, compiled, &by_number).into_iter();
    let layers = noises.map(|(id, accumulated, single)| LayerNoise {
        tensor: graph.tensor(id).name.clone(),
        accumulated: decibels(accumulated),
        single: decibels(single),
    });
    Ok(Evaluation {
        samples: list.len(),
        device,
        float: Some(float),
        agreement: Some(agreement),
        outputs: losses.iter().map(Loss::decibels).collect(),
        layers: layers.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_come_from_folders_or_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        };
        for path in ["named/cat/a.png", "named/dog/b.png", "named/dog/c.npy", "numbers/7/a.png", "numbers/x/a.png"] {
            put(path);
        }
        let classes = |source: &str, labels: Option<&Labels>| -> Result<Vec<usize>, Error> {
            Ok(labelled(&folder.path().join(source), labels)?.iter().map(|sample| sample.class).collect())
        };
        assert_eq!(classes("named", None).unwrap(), [0, 1, 1]);
        let labels = Labels::parse("dog\ncow\ncat\n");
        assert_eq!(classes("named", Some(&labels)).unwrap(), [2, 0, 0]);
        assert!(classes("numbers", None).unwrap_err().to_string().contains("\"x\" is no number"));
        fs::write(folder.path().join("table.csv"), "# files\na.png,3\nsub/b.png, cat\n").unwrap();
        assert_eq!(classes("table.csv", Some(&labels)).unwrap(), [3, 2]);
        assert!(classes("table.csv", None).unwrap_err().to_string().contains("line 3"));
        // As spreadsheets write it.
        let text = "\u{feff}\"a, b.png\",3\r\n\"c.png\",\"cat\"\r\n\r\nd,e.png,0\r\n";
        fs::write(folder.path().join("quoted.csv"), text).unwrap();
        let list = labelled(&folder.path().join("quoted.csv"), Some(&labels)).unwrap();
        let found: Vec<_> =
            list.iter().map(|sample| (sample.path.file_name().unwrap().to_str().unwrap(), sample.class)).collect();
        assert_eq!(found, [("a, b.png", 3), ("c.png", 2), ("d,e.png", 0)]);
        assert!(classes("named/cat", None).unwrap_err().to_string().contains("there are no samples"));
        fs::create_dir(folder.path().join("named/empty")).unwrap();
        assert_eq!(classes("named", None).unwrap(), [0, 1, 1]);
        let list = labelled(&folder.path().join("table.csv"), Some(&labels)).unwrap();
        assert_eq!(list[1].path, folder.path().join("sub/b.png"));
    }

    #[test]
    fn counts_are_of_the_best_classes() {
        let mut counts = Counts::default();
        counts.add(&[4, 2], 4);
        counts.add(&[4, 2], 2);
        counts.add(&[4, 2], 1);
        assert_eq!(counts, Counts { top1: 1, top5: 2 });
    }
}
