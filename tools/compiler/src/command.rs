// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the commands of the program share: the compiler that the options describe, errors, and results.

use std::error::Error;
use std::path::Path;
use std::{fmt, io};

use nvdla_compiler::arguments::{Arguments, Colors, Goal, Input, Precision, Resizing, Scaling, Softmax, Winograds};
use nvdla_compiler::calibrate::table;
use nvdla_compiler::compiler::{Compiler, MIXED_SHARE};
use nvdla_compiler::ir::{Color, Fit, Preprocess};
use nvdla_compiler::options::{Bytes, Optimize, Shares, Winograd};
use nvdla_compiler::quantize::Granularity;
use nvdla_runtime::files;
use nvdla_runtime::{program, ErrorKind};

/// The preprocessing, if any of its options is given.
fn preprocess(arguments: &Arguments) -> Option<Preprocess> {
    let Arguments { mean, std, color, resize, .. } = arguments;
    if mean.is_empty() && std.is_empty() && color.is_none() && resize.is_none() {
        return None;
    }
    let given = |values: &[f32], default| if values.is_empty() { vec![default] } else { values.to_vec() };
    Some(Preprocess {
        mean: given(mean, 0.0),
        std: given(std, 1.0),
        color: match color {
            Some(Colors::Bgr) => Color::Bgr,
            Some(Colors::Gray) => Color::Gray,
            Some(Colors::Rgb) | None => Color::Rgb,
        },
        fit: match resize {
            Some(Resizing::Stretch) => Fit::Stretch,
            Some(Resizing::Crop) => Fit::Crop,
            None => Fit::Exact,
        },
    })
}

/// Something wrong with an option, or with a file.
#[derive(Debug)]
pub(crate) struct Problem(pub(crate) ErrorKind, pub(crate) String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

impl Error for Problem {}

/// "cannot read FILE", and the reason.
pub(crate) fn cannot<'p>(verb: &'p str, path: &'p Path) -> impl FnOnce(io::Error) -> Problem + 'p {
    move |error| Problem(ErrorKind::File, format!("cannot {verb} {}: {error}", path.display()))
}

pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Problem> {
    files::write(path, bytes).map_err(cannot("write", path))
}

fn granularity(arguments: &Arguments) -> Granularity {
    match arguments.weights {
        Scaling::Kernel => Granularity::Kernel,
        Scaling::Layer => Granularity::Layer,
    }
}

/// Something wrong with an option.
pub(crate) fn argument(text: &str) -> Problem {
    Problem(ErrorKind::Argument, text.to_owned())
}

/// The compiler with the options that do not need samples.
pub(crate) fn compiler(arguments: &Arguments) -> Result<Compiler, Box<dyn Error>> {
    let precision = match arguments.precision {
        Precision::Int8 | Precision::Mixed => nvdla_uapi::reg::values::Precision::Int8,
        Precision::Fp16 => nvdla_uapi::reg::values::Precision::Fp16,
    };
    let mut compiler = Compiler::new(arguments.config.config)
        .precision(precision)
        .granularity(granularity(arguments))
        .bytes(match arguments.input {
            Input::I8 => Bytes::Seven,
            Input::U8 => Bytes::Eight,
        });
    match (arguments.precision, arguments.mixed_layers) {
        (Precision::Mixed, percent) => {
            compiler = compiler.mixed(percent.map_or(MIXED_SHARE, |percent| f64::from(percent) / 100.0));
        }
        (_, Some(_)) => return Err(argument("--mixed-layers goes with --precision mixed").into()),
        _ => {}
    }
    if let Some(method) = arguments.method {
        compiler = compiler.method(method);
    }
    compiler = compiler.shares(match arguments.softmax {
        Softmax::Half => Shares::Half,
        Softmax::Int8 => Shares::Int8,
    });
    if let Some(winograd) = arguments.winograd {
        compiler = compiler.winograd(match winograd {
            Winograds::Never => Winograd::Never,
            Winograds::Faster => Winograd::Faster,
            Winograds::Always => Winograd::Always,
        });
    }
    if let Some(decibels) = arguments.winograd_loss {
        let is_int8 = arguments.precision == Precision::Int8;
        if !is_int8 || arguments.winograd != Some(Winograds::Faster) {
            return Err(argument("--winograd-loss goes with --precision int8 and --winograd faster").into());
        }
        compiler = compiler.winograd_loss(decibels);
    }
    compiler = compiler.optimize(match arguments.optimize {
        Goal::Time => Optimize::Time,
        Goal::Size => Optimize::Size,
        Goal::Memory => Optimize::Memory,
    });
    compiler = compiler
        .sram(arguments.sram)
        .conditions(arguments.board.conditions(arguments.config.conditions))
        .batch(arguments.batch);
    if let Some(preprocess) = preprocess(arguments) {
        compiler = compiler.preprocess(preprocess);
    }
    if let Some(path) = &arguments.calibtable {
        compiler = compiler.table(table::open(path).map_err(cannot("read", path))?);
    }
    Ok(compiler)
}

/// Prints a result. Names in it come from the model.
pub(crate) fn print(text: &str) -> Result<(), Box<dyn Error>> {
    let failed = |error| Problem(ErrorKind::File, format!("cannot write the result: {error}"));
    Ok(program::print(&program::plain(text)).map_err(failed)?)
}
