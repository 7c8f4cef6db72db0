// SPDX-License-Identifier: MIT OR Apache-2.0

//! Samples of a network's input: pictures, and arrays of NumPy.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use nvdla_runtime::image::{is_picture, PictureFile, ENDINGS};

use super::error::Error;
use crate::ir::{Fit, Graph, Preprocess, Tensor, TensorId};
use nvdla_runtime::npy;

/// The samples of a folder, in the order of their names. A sample is a picture or a `.npy` file for a network of one
/// input; for several inputs it is a folder with one `.npy` file per input, named by the input.
///
/// # Errors
///
/// When the folder cannot be read, or has none.
pub fn list(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let paths = found(folder)?;
    if paths.is_empty() {
        let names = ENDINGS.join(", .");
        return Err(Error::Sample(format!("{} has no samples (.{names}, .npy)", folder.display())));
    }
    Ok(paths)
}

/// As [`list`], of a folder that may have none.
pub(crate) fn found(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed =
        |error: std::io::Error| Error::Sample(format!("cannot read the samples of {}: {error}", folder.display()));
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_array = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"));
        if path.is_dir() || is_array || is_picture(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The values of a graph's inputs in a sample. `preprocess` has one entry per input. Pictures are preprocessed; an array already
/// has the input's values.
pub fn read(path: &Path, graph: &Graph, preprocess: &[Preprocess]) -> Result<Vec<Vec<f32>>, Error> {
    let refuse = |reason: String| of_sample(path, reason);
    if graph.inputs.len() == 1 && !path.is_dir() {
        let input = preprocess.first().cloned().unwrap_or_default();
        return one(path, graph, graph.inputs[0], &input).map(|x| vec![x]).map_err(refuse);
    }
    let mut inputs = Vec::new();
    for (k, &id) in graph.inputs.iter().enumerate() {
        let path = path.join(format!("{}.npy", file_of(graph, id).map_err(refuse)?));
        let values = one(&path, graph, id, preprocess.get(k).unwrap_or(&Preprocess::default()));
        inputs.push(values.map_err(|reason| of_sample(&path, reason))?);
    }
    Ok(inputs)
}

/// The name of an input's files. It comes from the model, so only its last component is used, or, if that is the last one of several
/// inputs, the whole name with `_` for each slash.
fn file_of(graph: &Graph, id: TensorId) -> Result<String, String> {
    let name = |id: TensorId| graph.tensor(id).name.as_str();
    let last =
        |name: &str| Path::new(name).file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
    let others = || graph.inputs.iter().copied().filter(|&other| other != id);
    let short = last(name(id));
    if !others().any(|other| last(name(other)) == short) {
        return Ok(short);
    }
    let whole = |id: TensorId| name(id).replace(['/', '\\'], "_");
    match others().find(|&other| whole(other) == whole(id)) {
        Some(other) => Err(format!("the inputs {:?} and {:?} have files of one name", name(id), name(other))),
        None => Ok(whole(id)),
    }
}

/// An error with the sample's name, which some reasons have already.
fn of_sample(path: &Path, reason: String) -> Error {
    let name = path.display().to_string();
    Error::Sample(if reason.contains(&name) { reason } else { format!("{name}: {reason}") })
}

fn one(path: &Path, graph: &Graph, input: TensorId, preprocess: &Preprocess) -> Result<Vec<f32>, String> {
    let Tensor { name, shape, .. } = graph.tensor(input);
    if path.extension().is_some_and(|extension| extension == "npy") {
        let elements = shape.iter().try_fold(1_u64, |product, &extent| product.checked_mul(extent as u64));
        let array = npy::read(path, npy::largest(elements.unwrap_or(u64::MAX)))?;
        let values = npy::in_order(&array.shape, array.values.into(), shape, graph.channels_last.contains(name));
        let refused = || format!("an array of {:?}, the input is {shape:?}", array.shape);
        return values.map(Cow::into_owned).ok_or_else(refused);
    }
    let &[1, channels, height, width] = &shape[..] else {
        return Err(format!("a picture for the input {shape:?}, which is not [1, C, H, W]"));
    };
    picture(path, [channels, height, width], preprocess)
}

/// A picture's values, channel by channel. Transparent parts are white.
fn picture(path: &Path, [channels, height, width]: [usize; 3], preprocess: &Preprocess) -> Result<Vec<f32>, String> {
    preprocess.check(channels)?;
    // The runtime reads pictures in the same way.
    let picture = PictureFile::open(path).and_then(|file| file.decode(Some([u8::MAX; 3])));
    let picture = picture.map_err(|error| error.to_string())?;
    let (w, h) = (width as u32, height as u32);
    let picture = match preprocess.fit {
        Fit::Exact if (picture.width(), picture.height()) != (w, h) => {
            let found = format!("{} x {}", picture.height(), picture.width());
            return Err(format!("a picture of {found}, the input is {height} x {width} (the option resize scales it)"));
        }
        Fit::Exact | Fit::Stretch => picture.resized(w, h),
        Fit::Crop => picture.cropped(w, h),
    };
    let bytes = picture.planes(channels, preprocess.color);
    let bytes = bytes.ok_or_else(|| format!("a picture for an input of {channels} channels"))?;
    let plane = height * width;
    let value = |(k, &byte): (usize, &u8)| {
        let (mean, std) = preprocess.channel(k / plane);
        (f32::from(byte) - mean) / std
    };
    Ok(bytes.iter().enumerate().map(value).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs whose names end alike have files of their own.
    #[test]
    fn each_input_has_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let graph = |names: &[&str]| {
            let mut graph = Graph::new("inputs");
            for name in names {
                graph.input(*name, &[1, 2]).unwrap();
            }
            graph
        };
        for (file, value) in [("left_x", 1.0), ("right_x", 2.0), ("y", 3.0)] {
            let bytes = npy::bytes(&[1, 2], &[value; 2]);
            fs::write(folder.path().join(format!("{file}.npy")), bytes).unwrap();
        }
        let read = |names: &[&str]| read(folder.path(), &graph(names), &[]);
        assert_eq!(read(&["left/x", "right/x", "scope/y"]).unwrap(), [[1.0; 2], [2.0; 2], [3.0; 2]]);
        let error = read(&["left/x", "left_x/x", "left/x/x"]).unwrap_err().to_string();
        assert!(error.contains("files of one name") || error.contains("left_x_x"), "{error}");
        let error = read(&["a/b_c/x", "a_b/c/x"]).unwrap_err().to_string();
        assert!(error.contains("files of one name"), "{error}");
    }
}
