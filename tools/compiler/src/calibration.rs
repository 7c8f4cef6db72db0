// SPDX-License-Identifier: MIT OR Apache-2.0

//! Images for calibration: the bytes that the runtime would read from them.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::graph::{Graph, Op, Shape};

const EXTENSIONS: [&str; 5] = ["pgm", "ppm", "png", "jpg", "jpeg"];

/// Reads every image of a folder, in the order of their names, as the only input of a graph.
pub fn read(folder: &Path, graph: &Graph) -> Result<Vec<Vec<Vec<u8>>>, Error> {
    let inputs: Vec<_> = graph.nodes().filter(|(_, node)| matches!(node.op, Op::Input(_))).collect();
    let [(_, input)] = inputs[..] else {
        return Err(Error::Network(format!("{} inputs, but images calibrate one only", inputs.len())));
    };
    let failed = |source| Error::File { path: folder.to_owned(), source };
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
        if extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str())) {
            paths.push(path);
        }
    }
    if paths.is_empty() {
        return Err(Error::NoImages(folder.to_owned()));
    }
    paths.sort();
    paths.iter().map(|path| Ok(vec![image(path, &input.name, input.shape)?])).collect()
}

/// An image's bytes, channel by channel: grey for one channel; blue, green, red for three, as existing networks have
/// them; a fourth is zero.
fn image(path: &Path, input: &str, shape: Shape) -> Result<Vec<u8>, Error> {
    let refuse = |reason: String| Error::Image { path: path.to_owned(), reason };
    let image = image::open(path).map_err(|error| refuse(error.to_string()))?;
    let found = Shape { channels: shape.channels, height: image.height(), width: image.width() };
    if found != shape {
        return Err(Error::ImageShape { input: input.to_owned(), expected: shape, found });
    }
    match shape.channels {
        1 => Ok(image.to_luma8().into_raw()),
        3 | 4 => {
            let rgb = image.to_rgb8();
            let mut bytes: Vec<u8> =
                [2, 1, 0].iter().flat_map(|&c| rgb.pixels().map(move |pixel| pixel.0[c])).collect();
            bytes.resize(shape.elements(), 0);
            Ok(bytes)
        }
        channels => Err(refuse(format!("an image has one to four channels, the input \"{input}\" {channels}"))),
    }
}
