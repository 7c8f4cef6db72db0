// SPDX-License-Identifier: MIT OR Apache-2.0

//! The runtime in an application: `cargo run --release --example classify -- net.nvdla input.bin`.

use std::{env, error::Error, fs};

use nvdla_runtime::device::{self, Selection};
use nvdla_runtime::{loadable::Loadable, session::Session};

fn main() -> Result<(), Box<dyn Error>> {
    let [net, input] = env::args().skip(1).collect::<Vec<_>>().try_into().map_err(|_| "usage: classify NET INPUT")?;
    let loadable = Loadable::open(net)?;
    let device = device::open(&Selection::Auto, &loadable)?.device;
    let mut session = Session::new(loadable, device)?;
    session.set_input(0, &fs::read(input)?)?;
    session.run()?;
    let scores = session.output_nchw(0, 1.0)?;
    let best = scores.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    println!("{best:?} on {}", session.device());
    Ok(())
}
