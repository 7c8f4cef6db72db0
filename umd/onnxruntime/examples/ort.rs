// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs a model through the provider from Rust, with the crate `ort`, and beside it on the processor.
//!
//!     cargo build --release -p nvdla-onnxruntime
//!     cargo run --release -p nvdla-onnxruntime --example ort -- libonnxruntime.so \
//!         target/release/libonnxruntime_ep_nvdla.so model.onnx [OPTION=VALUE...]
//!
//! `libonnxruntime.so` is that of a distribution, or `onnxruntime/capi/libonnxruntime.so.VERSION` of the wheel. The inputs are
//! numbers from a fixed seed. One line per output is printed: its name, and the ratio of signal to noise in decibels. The program
//! fails if one has less than 20.

use std::collections::HashMap;
use std::error::Error;
use std::process::ExitCode;

use ort::environment::Environment;
use ort::session::{Session, SessionInputValue};
use ort::value::{Tensor, ValueType};

const NAME: &str = "NvdlaExecutionProvider";
/// The least ratio of signal to noise, that of int8.
const LEAST: f64 = 20.0;

type Outcome<T> = Result<T, Box<dyn Error>>;
/// The name, the shape and the numbers of an input.
type Given = (String, Vec<i64>, Vec<f32>);

/// Numbers from -1 to 1 for each input (xorshift64).
fn inputs(session: &Session) -> Outcome<Vec<Given>> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let mut all = Vec::new();
    for input in session.inputs() {
        let ValueType::Tensor { shape, .. } = input.dtype() else {
            return Err(format!("the input {:?} is no tensor", input.name()).into());
        };
        let shape: Vec<i64> = shape.iter().map(|&extent| extent.max(1)).collect();
        let values = (0..shape.iter().product::<i64>()).map(|_| next()).collect();
        all.push((input.name().to_owned(), shape, values));
    }
    Ok(all)
}

fn outputs(session: &mut Session) -> Outcome<Vec<(String, Vec<f32>)>> {
    let mut given: HashMap<String, SessionInputValue<'_>> = HashMap::new();
    for (name, shape, values) in inputs(session)? {
        given.insert(name, Tensor::from_array((shape, values))?.into());
    }
    let found = session.run(given)?;
    found.iter().map(|(name, value)| Ok((name.to_owned(), value.try_extract_tensor::<f32>()?.1.to_vec()))).collect()
}

fn decibels(found: &[f32], right: &[f32]) -> f64 {
    let power = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let signal = power(&mut right.iter().map(|&value| f64::from(value)));
    let noise = power(&mut found.iter().zip(right).map(|(&one, &other)| f64::from(one) - f64::from(other)));
    10.0 * (signal / noise.max(1e-30)).log10()
}

fn run() -> Outcome<bool> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [runtime, library, model, rest @ ..] = &arguments[..] else {
        return Err("give libonnxruntime.so, libonnxruntime_ep_nvdla.so, a model, and options".into());
    };
    let mut options = Vec::new();
    for option in rest {
        let (name, value) = option.split_once('=').ok_or_else(|| format!("{option} is no OPTION=VALUE"))?;
        options.push((format!("{NAME}.{name}"), value.to_owned()));
    }
    ort::init_from(runtime)?.commit();
    let environment = Environment::current()?;
    let mut there = Session::builder()?.commit_from_file(model)?;
    let right = outputs(&mut there)?;
    // ONNX Runtime looks for a relative path beside its own library.
    let _library = environment.register_ep_library("nvdla", std::path::absolute(library)?)?;
    let devices = environment.devices().filter(|device| device.ep().is_ok_and(|name| name == NAME));
    let mut here = Session::builder()?.with_devices(devices, Some(&options))?.commit_from_file(model)?;
    let mut good = true;
    for ((name, one), (_, other)) in outputs(&mut here)?.into_iter().zip(right) {
        let near = decibels(&one, &other);
        println!("{name}: {near:.1} dB");
        good &= near >= LEAST;
    }
    Ok(good)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
