// SPDX-License-Identifier: MIT OR Apache-2.0

//! Writes the output tensors, and finds the best classes.

use super::report::Report;
use super::{cannot, Args, Failure};
use nvdla_runtime::device::Device;
use nvdla_runtime::dimg::{SurfaceFormat, Tensor};
use nvdla_runtime::labels::{best, Error as LabelsError, Labels};
use nvdla_runtime::loadable::{DataType, PixelFormat};
use nvdla_runtime::session::{Direction, Session, TensorInfo};
use std::path::{Path, PathBuf};

/// The file that NVIDIA's program writes.
const OUTPUT_DIMG: &str = "output.dimg";

/// Where outputs go.
pub(crate) struct Outputs {
    files: Vec<(usize, PathBuf)>,
    labels: Option<Labels>,
    top: usize,
}

/// An element of an output, among the best of its batch.
pub(crate) struct Class {
    pub(crate) channel: usize,
    pub(crate) y: usize,
    pub(crate) x: usize,
    pub(crate) value: f32,
    pub(crate) label: Option<String>,
}

impl Outputs {
    /// Checks that the outputs exist which are asked for.
    pub(crate) fn new<D: Device>(args: &Args, session: &Session<D>, labels: Option<Labels>) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for argument in &args.output {
            let (index, file) = session.find_named(Direction::Output, argument)?;
            files.push((index, PathBuf::from(file)));
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
        Ok(Self { files, labels, top: args.top })
    }

    /// Writes `output.dimg` and what else was asked for.
    pub(crate) fn write<D: Device>(
        &self,
        args: &Args,
        session: &Session<D>,
        report: &mut Report<'_>,
    ) -> Result<(), Failure> {
        if let Some(tensor) = session.outputs().next() {
            let dimg = dimg(tensor, session.output(0)?);
            let bytes = if args.rawdump { dimg.to_text()?.into_bytes() } else { dimg.to_dimg()? };
            let path = Path::new(OUTPUT_DIMG);
            std::fs::write(path, bytes).map_err(cannot("write", path))?;
            report.wrote(path);
        }
        for (index, path) in &self.files {
            std::fs::write(path, session.output(*index)?).map_err(cannot("write", path))?;
            report.wrote(path);
        }
        Ok(())
    }

    /// The best elements of each of an output's batch.
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

/// Whether each channel of an output is a class.
pub(crate) fn is_classes(tensor: &TensorInfo) -> bool {
    (tensor.h, tensor.w) == (1, 1)
}

/// The first of an output's batch, as NVIDIA's program writes it.
///
/// Like that program, this goes by the tensor's format alone: FEATURE has atoms of 32 bytes. Loadables of interface 0.10
/// for nv_small have FEATURE and atoms of 8, and their files elements in an order that is nobody's but the same as ever.
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
