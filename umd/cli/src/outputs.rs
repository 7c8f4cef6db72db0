// SPDX-License-Identifier: MIT OR Apache-2.0

//! Writes the output tensors, and finds the best classes.

use crate::args::Args;
use crate::failure::{cannot, Failure};
use nvdla_runtime::device::{self, Device};
use nvdla_runtime::dimg::{SurfaceFormat, Tensor};
use nvdla_runtime::files::{self, Names};
use nvdla_runtime::labels::{best, Error as LabelsError, Labels};
use nvdla_runtime::loadable::{DataType, Loadable, PixelFormat};
use nvdla_runtime::session::{Direction, Session, TensorInfo};
use nvdla_runtime::{npy, operations};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use tracing::warn;

/// The file that NVIDIA's program writes.
const OUTPUT_DIMG: &str = "output.dimg";
/// The file with the layers of the files of --dump.
pub(crate) const LAYERS: &str = "layers.txt";

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

/// The files that the options name, apart from those of tensors. An error if the run would overwrite one of them.
pub(crate) fn names(args: &Args, loadable: &Loadable, dimg: bool) -> Result<Names, Failure> {
    let mut names = Names::default();
    names.reads("--loadable", &args.loadable)?;
    for image in &args.image {
        names.reads("--image", image)?;
    }
    if let Some(labels) = &args.labels {
        names.reads("--labels", labels)?;
    }
    // Operations that cannot be read are an error of the run.
    for operation in operations::operations(loadable).unwrap_or_default() {
        let file = operation.file_name();
        if let Some(folder) = &args.compare {
            names.reads("a file of --compare", folder.join(&file))?;
        }
        if let Some(folder) = &args.dump {
            names.writes("a file of --dump", folder.join(&file))?;
        }
    }
    if let Some(folder) = &args.dump {
        names.writes("a file of --dump", folder.join(LAYERS))?;
    }
    if let Some(folder) = &args.record {
        for file in device::Recording::FILES {
            names.writes("a file of --record", folder.join(file))?;
        }
    }
    if dimg {
        names.writes("the file that this program always writes", OUTPUT_DIMG)?;
    }
    if let Some(Some(path)) = &args.profile {
        names.writes("--profile", path)?;
        check_writable(path)?;
    }
    if let Some(path) = &args.trace_fst {
        names.writes("--trace-fst", path)?;
        check_writable(path)?;
    }
    Ok(names)
}

/// The name of an output's file in the folder of --output-dir.
fn file_name(tensor: &str) -> String {
    let plain = |c: char| if c == '/' || c.is_control() { '_' } else { c };
    let name: String = tensor.chars().map(plain).collect();
    format!("{name}.npy")
}

impl Outputs {
    /// Checks that the requested outputs exist, that their files can be written, and that nothing is overwritten.
    pub(crate) fn new<D: Device>(
        args: &Args,
        session: &Session<D>,
        labels: Option<Labels>,
        dimg: bool,
        mut names: Names,
    ) -> Result<Self, Failure> {
        for argument in &args.input {
            let (_, file) = session.find_named(Direction::Input, argument)?;
            names.reads("--input", file)?;
        }
        let mut files = Vec::new();
        for argument in &args.output {
            let (index, file) = session.find_named(Direction::Output, argument)?;
            let path = PathBuf::from(file);
            names.writes("--output", &path)?;
            files.push((index, path));
        }
        if let Some(folder) = &args.output_dir {
            for tensor in session.outputs() {
                let path = folder.join(file_name(&tensor.name));
                names.writes(format!("the output {:?} in --output-dir", tensor.name), &path)?;
                files.push((tensor.index, path));
            }
            std::fs::create_dir_all(folder).map_err(cannot("make the folder", folder))?;
        }
        for (_, path) in files.iter().filter(|(_, path)| !is_stdout(path)) {
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
            let bytes = if args.rawdump { dimg.to_text().map(String::into_bytes) } else { dimg.to_dimg() };
            let path = Path::new(OUTPUT_DIMG);
            // The user did not request this file, so a failure is only a warning.
            match bytes.map(|bytes| files::write(path, bytes)) {
                Ok(Ok(())) => wrote(path),
                Ok(Err(error)) => warn!("cannot write {OUTPUT_DIMG}: {error}"),
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
    files::check_writable(path).map_err(cannot("write", path))
}

/// Writes an output in the format that the file's name asks for.
fn write<D: Device>(session: &Session<D>, index: usize, path: &Path) -> Result<(), Failure> {
    if is_stdout(path) {
        let mut out = std::io::stdout().lock();
        // What is left in the buffer would be lost at the end of the program, without an error.
        return match out.write_all(session.output(index)?).and_then(|()| out.flush()) {
            // A reader who has closed the pipe needs no more.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(cannot("write", Path::new("standard output"))),
        };
    }
    let bytes = if path.extension().is_some_and(|extension| extension == "npy") {
        let values = session.output_f32(index)?;
        let sizes = |tensor: &TensorInfo| tensor.shape().map(|size| size as usize);
        let shape = session.outputs().nth(index).map_or([0; 4], sizes);
        npy::bytes(&shape, &values)
    } else {
        session.output(index)?.to_vec()
    };
    files::write(path, bytes).map_err(cannot("write", path))
}

/// Whether each channel of an output is a class.
pub(crate) fn is_classes(tensor: &TensorInfo) -> bool {
    (tensor.h, tensor.w) == (1, 1)
}

/// The first image of an output's batch, as NVIDIA's program writes it.
///
/// Like that program, this uses only the tensor's format: FEATURE has atoms of 32 bytes. (That program knows no configuration with
/// atoms of 16 bytes.) Loadables of interface 0.10 for nv_small
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
        atom: tensor.atom().filter(|atom| *atom == 16),
        bytes,
    }
}
