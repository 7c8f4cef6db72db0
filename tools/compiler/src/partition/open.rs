// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads a model's file for a division.

use std::path::Path;

use nvdla_runtime::files;

use crate::import::format::{Failure, MAX_MODEL};
use crate::import::model::{Error, Options};
use crate::import::{onnx, tflite};
use crate::survey::Survey;

/// Reads an ONNX model (`.onnx`) or a TFLite model (`.tflite`).
///
/// # Errors
///
/// If the file cannot be read, or is not such a model.
pub fn survey(path: &Path, options: &Options) -> Result<Survey, Error> {
    let malformed = |reason: String| Error::Malformed(path.to_owned(), reason);
    let bytes = || files::read(path, MAX_MODEL).map_err(|source| Error::File(path.to_owned(), source));
    let read = match path.extension().and_then(|extension| extension.to_str()) {
        Some("onnx") => {
            let folder = path.parent().map(|folder| if folder == Path::new("") { Path::new(".") } else { folder });
            onnx::survey::survey(bytes()?.into(), folder, options)
        }
        Some("tflite") => tflite::survey::survey(&bytes()?, options),
        _ => {
            return Err(malformed(
                "the extension is neither .onnx nor .tflite; other models are not divided".to_owned(),
            ))
        }
    };
    read.map_err(|error| match error {
        Failure::Malformed(reason) => malformed(reason),
        Failure::Nodes(nodes) => Error::Nodes(path.to_owned(), nodes),
        Failure::File(other, source) => Error::File(other, source),
    })
}
