// SPDX-License-Identifier: MIT OR Apache-2.0

//! The compiler for Python: a trained network in, the bytes of a loadable out.

use std::path::PathBuf;

use nvdla_compiler::compiler::{Compiler, MIXED_SHARE};
use nvdla_compiler::import::model::{Model, Options};
use nvdla_compiler::ir::{Color, Fit, Preprocess};
use nvdla_compiler::options::Optimize;
use nvdla_runtime::configuration;
use nvdla_uapi::reg::values::Precision;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::failure::{Failure, Raise as _};

/// Compiles a network; `color` is none if the network's input is not a picture.
#[pyfunction]
#[pyo3(signature = (model, config, precision, calibrate, mean, std, color, resize, optimize, sram))]
#[allow(clippy::needless_pass_by_value)] // Python's arguments come by value
pub(crate) fn compile<'py>(
    py: Python<'py>,
    model: PathBuf,
    config: &str,
    precision: &str,
    calibrate: Option<PathBuf>,
    mean: Vec<f32>,
    std: Vec<f32>,
    color: Option<&str>,
    resize: Option<&str>,
    optimize: &str,
    sram: u64,
) -> PyResult<Bound<'py, PyBytes>> {
    let loadable = py.detach(|| -> Result<Vec<u8>, Failure> {
        let config = configuration::find(config).map_err(|error| Failure::argument(error.to_string()))?;
        let compiler = Compiler::new(config);
        let mut compiler = match precision {
            "int8" => compiler,
            "fp16" => compiler.precision(Precision::Fp16),
            "mixed" => compiler.mixed(MIXED_SHARE),
            other => {
                return Err(Failure::argument(format!("there is no precision {other:?}; there are int8, fp16, mixed")))
            }
        };
        let color = match color {
            None => None,
            Some("rgb") => Some(Color::Rgb),
            Some("bgr") => Some(Color::Bgr),
            Some("gray") => Some(Color::Gray),
            Some(other) => {
                return Err(Failure::argument(format!("there is no colour order {other:?}; there are rgb, bgr, gray")))
            }
        };
        let fit = match resize {
            None => Fit::Exact,
            Some("stretch") => Fit::Stretch,
            Some("crop") => Fit::Crop,
            Some(other) => {
                return Err(Failure::argument(format!("there is no resize mode {other:?}; there are stretch, crop")))
            }
        };
        let optimize = match optimize {
            "time" => Optimize::Time,
            "memory" => Optimize::Memory,
            other => return Err(Failure::argument(format!("there is no goal {other:?}; there are time, memory"))),
        };
        compiler = compiler.optimize(optimize).sram(sram);
        let model = Model::open(&model, &Options::default())?;
        if let Some(color) = color {
            compiler = compiler.preprocess(Preprocess { mean, std, color, fit });
        }
        if let Some(folder) = calibrate {
            compiler = compiler.calibrate(folder);
        }
        Ok(compiler.compile(&model)?.loadable)
    });
    Ok(PyBytes::new(py, &loadable.raise(py)?))
}
