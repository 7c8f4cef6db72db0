// SPDX-License-Identifier: MIT OR Apache-2.0

//! Writes the output tensors, and finds the best classes.

use crate::args::Args;
use crate::failure::{cannot, problem, Failure};
use nix::unistd::{access, AccessFlags};
use nvdla_runtime::device::Device;
use nvdla_runtime::dimg::{SurfaceFormat, Tensor};
use nvdla_runtime::labels::{best, Error as LabelsError, Labels};
use nvdla_runtime::loadable::{DataType, PixelFormat};
use nvdla_runtime::npy;
use nvdla_runtime::session::{Direction, Session, TensorInfo};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tracing::warn;

/// The file that NVIDIA's program writes.
const OUTPUT_DIMG: &str = "output.dimg";

/// The files to which outputs are written.
pub(crate) struct Outputs {
    files: Vec<(usize, PathBuf)>,
    labels: Option<Labels>,
    top: usize,
    /// Whether `output.dimg` is written.
    dimg: bool,
}

/// An element of an output, among the best of its image.
pub(crate) struct Class {
    pub(crate) channel: usize,
    pub(crate) y: usize,
    pub(crate) x: usize,
    pub(crate) value: f32,
    pub(crate) label: Option<String>,
}

impl Outputs {
    /// Checks that the requested outputs exist and that their files can be written.
    pub(crate) fn new<D: Device>(
        args: &Args,
        session: &Session<D>,
        labels: Option<Labels>,
        dimg: bool,
    ) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for argument in &args.output {
            let (index, file) = session.find_named(Direction::Output, argument)?;
            files.push((index, PathBuf::from(file)));
        }
        if let Some(folder) = &args.output_dir {
            std::fs::create_dir_all(folder).map_err(cannot("make the folder", folder))?;
            for tensor in session.outputs() {
                let plain = |c: char| if c == '/' || c.is_control() { '_' } else { c };
                let name: String = tensor.name.chars().map(plain).collect();
                files.push((tensor.index, folder.join(format!("{name}.npy"))));
            }
        }
        if files.iter().filter(|(_, path)| is_stdout(path)).count() > 1 {
            return Err(problem("--output: only one output can go to the standard output"));
        }
        for (_, path) in files.iter().filter(|(_, path)| !is_stdout(path)) {
            check_writable(path)?;
        }
        if let Some(Some(path)) = &args.profile {
            check_writable(path)?;
        }
        if let (Some(labels), Some(path)) = (&labels, &args.labels) {
            for tensor in session.outputs().filter(|tensor| is_classes(tensor)) {
                if labels.len() < tensor.c as usize {
                    return Err(Box::new(LabelsError::TooFew {
                        path: path.clone(),
                        labels: labels.len(),
                        output: tensor.name.clone(),
                        classes: tensor.c as usize,
                    }));
                }
            }
        }
        Ok(Self { files, labels, top: args.top, dimg })
    }

    /// Whether an output is written to the standard output.
    pub(crate) fn takes_stdout(&self) -> bool {
        self.files.iter().any(|(_, path)| is_stdout(path))
    }

    /// Writes `output.dimg` and the requested files, and calls `wrote` for each. After a file that cannot be written, the others
    /// are still written, and the first error is returned.
    pub(crate) fn write<D: Device>(
        &self,
        args: &Args,
        session: &Session<D>,
        mut wrote: impl FnMut(&Path),
    ) -> Result<(), Failure> {
        if let Some(tensor) = session.outputs().next().filter(|_| self.dimg) {
            let dimg = dimg(tensor, session.output(0)?);
            let bytes = if args.rawdump { dimg.to_text()?.into_bytes() } else { dimg.to_dimg()? };
            let path = Path::new(OUTPUT_DIMG);
            match std::fs::write(path, bytes) {
                Ok(()) => wrote(path),
                // The user did not request this file, so this is only a warning.
                Err(error) => warn!("cannot write {OUTPUT_DIMG}: {error}"),
            }
        }
        let mut result = Ok(());
        for (index, path) in &self.files {
            match write(session, *index, path) {
                Ok(()) if is_stdout(path) => {}
                Ok(()) => wrote(path),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// The best elements of each image of an output's batch.
    pub(crate) fn best<D: Device>(
        &self,
        session: &Session<D>,
        tensor: &TensorInfo,
    ) -> Result<Vec<Vec<Class>>, Failure> {
        let values = session.output_nchw(tensor.index, 1.0)?;
        let one = values.len() / tensor.n.max(1) as usize;
        let (lines, pixels) = (tensor.h.max(1) as usize, tensor.w.max(1) as usize);
        let class = |values: &[f32], at: usize| Class {
            channel: at / pixels / lines,
            y: at / pixels % lines,
            x: at % pixels,
            value: values[at],
            label: self
                .labels
                .as_ref()
                .filter(|_| is_classes(tensor))
                .and_then(|labels| labels.get(at))
                .map(str::to_owned),
        };
        Ok(values
            .chunks(one.max(1))
            .map(|values| best(values, self.top).into_iter().map(|at| class(values, at)).collect())
            .collect())
    }
}

/// Whether the path means the standard output.
fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Checks before the run that a file can be written.
pub(crate) fn check_writable(path: &Path) -> Result<(), Failure> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let result = if path.exists() {
        access(path, AccessFlags::W_OK)
    } else {
        access(folder, AccessFlags::W_OK | AccessFlags::X_OK)
    };
    result.map_err(|error| cannot("write", path)(error.into()))
}

/// Writes an output in the format that the file's name asks for.
fn write<D: Device>(session: &Session<D>, index: usize, path: &Path) -> Result<(), Failure> {
    if is_stdout(path) {
        return std::io::stdout()
            .write_all(session.output(index)?)
            .map_err(cannot("write", Path::new("standard output")));
    }
    let bytes = if path.extension().is_some_and(|extension| extension == "npy") {
        let values = session.output_f32(index)?;
        let sizes = |tensor: &TensorInfo| tensor.shape().map(|size| size as usize);
        let shape = session.outputs().nth(index).map_or([0; 4], sizes);
        npy::bytes(&shape, &values)
    } else {
        session.output(index)?.to_vec()
    };
    std::fs::write(path, bytes).map_err(cannot("write", path))
}

/// Whether each channel of an output is a class.
pub(crate) fn is_classes(tensor: &TensorInfo) -> bool {
    (tensor.h, tensor.w) == (1, 1)
}

/// The first image of an output's batch, as NVIDIA's program writes it.
///
/// Like that program, this uses only the tensor's format: FEATURE has atoms of 32 bytes. Loadables of interface 0.10 for nv_small
/// have FEATURE and atoms of 8 bytes, so NVIDIA's program writes their elements in another order, and so does this one.
fn dimg<'a>(tensor: &TensorInfo, bytes: &'a [u8]) -> Tensor<'a> {
    let format = match (tensor.data_type, tensor.pixel_format) {
        (DataType::Int8, PixelFormat::FEATURE_X8) => SurfaceFormat::FeatureInt8x8,
        (DataType::Int8, _) => SurfaceFormat::FeatureInt8,
        (DataType::Int16, _) => SurfaceFormat::FeatureInt16,
        _ => SurfaceFormat::FeatureFp16,
    };
    Tensor {
        format,
        width: tensor.w,
        height: tensor.h,
        channels: tensor.c,
        line_stride: tensor.line_stride(),
        surface_stride: tensor.surface_stride(),
        bytes,
    }
}
