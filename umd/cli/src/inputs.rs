// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fills the input tensors from images and files.

use crate::args::{Args, ChannelOrder};
use crate::failure::{cannot, problem, Context, Failure};
use nvdla_runtime::device::Device;
use nvdla_runtime::files;
use nvdla_runtime::image::{Encoder, Given, Order, PictureFile, Target};
use nvdla_runtime::npy;
use nvdla_runtime::session::{self, Direction, Session, TensorError, TensorInfo};
use std::io::ErrorKind;
use std::path::Path;
use tracing::{info, warn};

/// An input tensor, and the files that fill it.
pub(crate) struct GivenInput {
    /// The tensor.
    pub(crate) tensor: TensorInfo,
    /// The files, or none.
    pub(crate) files: Vec<String>,
}

/// Fills every input. An input without a file is zero, as in NVIDIA's program.
pub(crate) fn set<D: Device>(args: &Args, session: &mut Session<D>) -> Result<Vec<GivenInput>, Failure> {
    let mut given: Vec<_> =
        session.inputs().map(|tensor| GivenInput { tensor: tensor.clone(), files: Vec::new() }).collect();
    for argument in &args.input {
        let (index, file) = session.find_named(Direction::Input, argument)?;
        let file = Path::new(file);
        let size = given[index].tensor.size;
        if file.extension().is_some_and(|extension| extension == "npy") {
            let bytes = files::read(file, npy::largest(size)).map_err(cannot("read the input", file))?;
            let array = npy::parse(&bytes).map_err(|reason| {
                cannot("read the input", file)(std::io::Error::new(ErrorKind::InvalidData, reason))
            })?;
            session.set_input_array(index, &array.shape, &array.values)?;
            given[index].files.push(file.display().to_string());
            continue;
        }
        let bytes = match files::read(file, size) {
            // For a regular file the error gives its size.
            Err(error) if error.kind() == ErrorKind::FileTooLarge => match std::fs::metadata(file) {
                Ok(found) if found.is_file() => {
                    let source = TensorError::Size { needed: size, given: found.len() };
                    let name = given[index].tensor.name.clone();
                    return Err(Box::new(session::Error::Tensor { direction: Direction::Input, index, name, source }));
                }
                _ => Err(error),
            },
            result => result,
        };
        session.set_input(index, &bytes.map_err(cannot("read the input", file))?)?;
        given[index].files.push(file.display().to_string());
    }
    if !args.image.is_empty() {
        let Some(first) = given.first_mut() else {
            return Err(problem("--image: the loadable has no input"));
        };
        if !first.files.is_empty() {
            return Err(problem(format!("--image and --input both fill the input {:?}", first.tensor.name)));
        }
        images(args, &first.tensor, session.input_mut(0)?)?;
        first.files.extend(args.image.iter().map(|file| file.display().to_string()));
    }
    for GivenInput { tensor, files } in &given {
        if files.is_empty() {
            warn!("the input {:?} gets neither --image nor --input: it is all zero", tensor.name);
        }
    }
    Ok(given)
}

/// Fills the first input with one image for each image of its batch.
fn images(args: &Args, tensor: &TensorInfo, bytes: &mut [u8]) -> Result<(), Failure> {
    let batch = tensor.n.max(1) as usize;
    if args.image.len() > batch {
        return Err(problem(format!(
            "--image was given {} times, and the input {:?} takes {batch}",
            args.image.len(),
            tensor.name
        )));
    }
    if args.mean.len() > 4 {
        return Err(problem(format!("--mean has {} numbers, and an image at most 4 channels", args.mean.len())));
    }
    if args.mean.iter().any(|mean| !mean.is_finite()) {
        return Err(problem(format!("--mean has a value that is not a number: {:?}", args.mean)));
    }
    let order = args.channel_order.map(|order| match order {
        ChannelOrder::Bgr => Order::Bgr,
        ChannelOrder::Rgb => Order::Rgb,
    });
    let mean = (!args.mean.is_empty()).then(|| args.mean.clone());
    let settings = Given { mean, normalize: args.normalize, order, resize: args.resize }.settings(tensor)?;
    let target = Target::from(tensor);
    let encoder = Encoder::new(&target, &settings)?;
    let changed = settings.mean.iter().any(|mean| *mean != 0.0) || settings.normalize.to_bits() != 1.0_f32.to_bits();
    if encoder.is_bytes() && changed {
        warn!(
            "--mean and --normalize have no effect on the input {:?}: its 8 bits hold 0 to {} for samples of 0 to 255",
            tensor.name,
            if target.unsigned { 255 } else { 127 }
        );
    }
    if args.image.len() < batch {
        warn!("the input {:?} takes {batch} images and gets {}: the rest is zero", tensor.name, args.image.len());
    }
    let one = bytes.len() / batch;
    for (file, bytes) in args.image.iter().zip(bytes.chunks_exact_mut(one.max(1))) {
        let picture = PictureFile::open(file)?;
        encoder.check_size(picture.width(), picture.height()).map_err(|error| Context::new(file, error))?;
        let picture = picture.decode(args.background)?;
        info!(
            "{}: {} x {} pixels of {} samples",
            file.display(),
            picture.width(),
            picture.height(),
            picture.channels()
        );
        encoder.encode(&picture, bytes).map_err(|error| Context::new(file, error))?;
    }
    Ok(())
}
