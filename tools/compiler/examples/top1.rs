// SPDX-License-Identifier: MIT OR Apache-2.0

//! Counts the pictures of digits that a loadable of examples/lenet classifies correctly. The name of each file begins
//! with its digit.
//!
//! ```text
//! cargo run --release -p nvdla-compiler --example top1 -- examples/lenet/lenet.nv_small.nvdla examples/lenet/images
//! ```

use std::error::Error;
use std::fs;

use nvdla_compiler::quantize::image_value;
use nvdla_runtime::device::{self, Selection};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::Session;

const DIGITS: [&str; 10] = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];

fn main() -> Result<(), Box<dyn Error>> {
    let [net, folder] = std::env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "usage: top1 NET DIR")?;
    let loadable = Loadable::open(net)?;
    let device = device::open(&Selection::Auto, &loadable)?.device;
    let mut session = Session::new(loadable, device)?;
    let stride = session.inputs().next().ok_or("no input")?.line_stride() as usize;
    let (mut right, mut all) = (0, 0);
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let Some(digit) = DIGITS.iter().position(|digit| name.starts_with(digit)) else { continue };
        let picture = image::open(&path)?.to_luma8();
        for (line, row) in session.input_mut(0)?.chunks_exact_mut(stride).zip(picture.rows()) {
            for (element, pixel) in line.iter_mut().zip(row) {
                *element = image_value(pixel.0[0]) as u8;
            }
        }
        session.run()?;
        let scores = session.output_nchw(0, 1.0)?;
        // Of equal ones the first.
        let best = (0..scores.len()).rev().max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        right += usize::from(best == Some(digit));
        all += 1;
    }
    println!("{right} of {all} on {}", session.device());
    Ok(())
}
