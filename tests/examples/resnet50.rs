// SPDX-License-Identifier: MIT OR Apache-2.0

//! Writes the ResNet-50 with random weights of the benchmarks: `cargo run --release -p nvdla-tests --example resnet50 -- FILE`.

use nvdla_uapi::config::NV_FULL;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("usage: resnet50 FILE")?;
    std::fs::write(file, nvdla_tests::resnet::loadable(&NV_FULL)?)?;
    Ok(())
}
