// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compares the float evaluation of models with outputs that another program computed.
//!
//!     cargo run --release -p nvdla-compiler --example compare -- FOLDER...
//!
//! Each folder has a model (`model.onnx`, or `model.param` and `model.bin`), its inputs `input_0.npy`, … and the
//! expected outputs `output_0.npy`, …; a folder without a model is searched for such folders. `scripts/node_cases.py`
//! and `scripts/networks.py` write them. The difference that is printed is the largest, relative to the output's largest
//! value, or to 0.01 if that is smaller.

use std::path::{Path, PathBuf};
use std::time::Instant;

use nvdla_compiler::model::{Model, Options};
use nvdla_compiler::{float, npy};

/// The largest difference that counts as equal.
const LIMIT: f32 = 1e-4;

fn arrays(folder: &Path, name: &str) -> Result<Vec<npy::Array>, String> {
    let path = |k: usize| folder.join(format!("{name}_{k}.npy"));
    (0..).map(path).take_while(|path| path.exists()).map(|path| npy::read(&path)).collect()
}

/// The largest difference of an output, relative to its largest value.
fn compare(folder: &Path, model: &Path) -> Result<(f32, String), String> {
    let model = Model::open(model, &Options::default()).map_err(|error| error.to_string())?;
    let inputs: Vec<_> = arrays(folder, "input")?.into_iter().map(|array| array.values).collect();
    let start = Instant::now();
    let outputs = float::run(&model.graph, &inputs, &mut |_, _| {})?;
    let time = start.elapsed();
    let mut worst = 0.0f32;
    for (k, (expected, &id)) in arrays(folder, "output")?.iter().zip(&model.graph.outputs).enumerate() {
        if expected.shape != model.graph.shape(id) {
            return Err(format!("output {k} is {:?}, not {:?}", model.graph.shape(id), expected.shape));
        }
        let largest = expected.values.iter().filter(|x| x.is_finite()).fold(0.0f32, |max, x| max.max(x.abs()));
        for (a, b) in outputs[k].iter().zip(&expected.values) {
            // Infinities are the same when their bits are.
            let same = a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
            let difference = if same { 0.0 } else { (a - b).abs() / largest.max(1e-2) };
            worst = if difference.is_nan() { f32::INFINITY } else { worst.max(difference) };
        }
    }
    Ok((worst, format!("{} nodes, {:.1} ms", model.graph.nodes.len(), time.as_secs_f64() * 1e3)))
}

fn cases(folder: &Path, found: &mut Vec<(PathBuf, PathBuf)>) {
    if let Some(model) =
        ["model.onnx", "model.param"].map(|name| folder.join(name)).into_iter().find(|path| path.exists())
    {
        found.push((folder.to_owned(), model));
        return;
    }
    let Ok(entries) = folder.read_dir() else { return };
    let mut entries: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    entries.sort();
    for folder in entries {
        cases(&folder, found);
    }
}

fn main() {
    let mut found = Vec::new();
    for folder in std::env::args_os().skip(1) {
        cases(Path::new(&folder), &mut found);
    }
    let (mut equal, mut different, mut refused) = (0, 0, 0);
    for (folder, model) in found {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match compare(&folder, &model) {
            Ok((difference, what)) if difference <= LIMIT => {
                equal += 1;
                println!("equal      {name}: {difference:.1e}, {what}");
            }
            Ok((difference, what)) => {
                different += 1;
                println!("DIFFERENT  {name}: {difference:.1e}, {what}");
            }
            Err(reason) => {
                refused += 1;
                println!("refused    {name}: {}", reason.replace('\n', ";"));
            }
        }
    }
    println!("{equal} equal, {different} different, {refused} refused");
}
