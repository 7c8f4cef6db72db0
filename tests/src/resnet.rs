// SPDX-License-Identifier: MIT OR Apache-2.0

//! ResNet-50 with random weights, compiled: the network that inference libraries are compared with.
//!
//! The stride of a stage's first block is in its 3 x 3 convolution, as in the form that libraries ship.

use nvdla_compiler::options::{Optimize, Options};
use nvdla_compiler::pipeline::compile;
use nvdla_compiler::Error;
use nvdla_uapi::config::Config;

use crate::zoo;

/// The greatest value that calibration would find: values with random weights stay below it.
const LARGEST: f32 = 6.0;

/// The loadable, in int8.
pub fn loadable(config: &'static Config) -> Result<Vec<u8>, Error> {
    optimized(config, Optimize::Time)
}

/// The loadable with the network's own layers, each as a whole.
pub fn layers(config: &'static Config) -> Result<Vec<u8>, Error> {
    optimized(config, Optimize::Size)
}

fn optimized(config: &'static Config, optimize: Optimize) -> Result<Vec<u8>, Error> {
    let graph = zoo::graph("resnet50", 224).map_err(Error::Network)?;
    let options = Options { inputs: vec![Some(zoo::preprocess())], optimize, ..Options::new(config) };
    Ok(compile(&graph, &zoo::uniform(&graph, LARGEST), &options)?.loadable)
}

#[cfg(test)]
mod tests {
    use nvdla_runtime::device::ModelDevice;
    use nvdla_runtime::loadable::Loadable;
    use nvdla_runtime::profile::{Conditions, Profile};
    use nvdla_runtime::session::Session;
    use nvdla_uapi::config::NV_FULL;

    use super::*;

    #[test]
    fn it_has_its_size_and_runs() {
        let loadable = Loadable::from_bytes(loadable(&NV_FULL).unwrap()).unwrap();
        let macs = Profile::new(&loadable, &NV_FULL, Conditions::default()).unwrap().macs();
        // 4.09 billion by the usual count; the image's fourth component adds 39 million.
        assert!((4_000_000_000..4_200_000_000).contains(&macs), "{macs}");
        let mut session = Session::new(loadable, ModelDevice::new(&NV_FULL)).unwrap();
        let picture = session.input_mut(0).unwrap();
        picture.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at.wrapping_mul(0x9e37_79b1) >> 13) as u8);
        session.run().unwrap();
        let classes = session.output(0).unwrap();
        let different = classes.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert!(different > 20, "the classes have {different} different values");
        let saturated = classes.iter().filter(|&&byte| byte == 127 || byte == 128).count();
        assert!(saturated < 500, "{saturated} of 1000 classes are saturated");
    }
}
