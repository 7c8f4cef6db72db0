// SPDX-License-Identifier: MIT OR Apache-2.0

//! The inputs and outputs of a session: their bytes, their numbers, and memory of the application.

use std::sync::Arc;

use super::convert;
use super::error::Error;
use super::state::{Bound, Session};
use super::tensor::{Direction, TensorError, TensorInfo};
use crate::device::{Device, Handle};
use crate::half::{self, f16};
use crate::npy;

impl<D: Device> Session<D> {
    /// The inputs, by bind id.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.inputs.iter().map(|bound| &bound.info)
    }

    /// The outputs, by bind id.
    pub fn outputs(&self) -> impl ExactSizeIterator<Item = &TensorInfo> {
        self.outputs.iter().map(|bound| &bound.info)
    }

    /// The number of the input or output of that name. A decimal number is returned as it is, if such a tensor exists.
    ///
    /// # Errors
    ///
    /// If there is none; the error lists the tensors that exist.
    pub fn find(&self, direction: Direction, which: &str) -> Result<usize, Error> {
        let tensors = self.bound(direction);
        let by_name = tensors.iter().position(|bound| bound.info.name == which);
        let by_number = || which.parse().ok().filter(|&index: &usize| index < tensors.len());
        by_name.or_else(by_number).ok_or_else(|| self.no_tensor(direction, which))
    }

    /// Splits `NAME=VALUE` into a tensor and a value. A value without a name belongs to the first tensor.
    ///
    /// A name may contain equals signs: the longest name with which `argument` begins is used. If there is none, the
    /// part before the first equals sign is looked up as in [`Self::find`]: a number, or an error.
    ///
    /// # Errors
    ///
    /// As [`Self::find`].
    pub fn find_named<'a>(&self, direction: Direction, argument: &'a str) -> Result<(usize, &'a str), Error> {
        let value = |name: &str| argument.strip_prefix(name)?.strip_prefix('=');
        let named = self.bound(direction).iter().enumerate();
        let named = named.filter_map(|(index, bound)| Some((index, bound.info.name.len(), value(&bound.info.name)?)));
        if let Some((index, _, value)) = named.max_by_key(|&(index, length, _)| (length, std::cmp::Reverse(index))) {
            return Ok((index, value));
        }
        match argument.split_once('=') {
            Some((which, value)) => Ok((self.find(direction, which)?, value)),
            None => Ok((self.find(direction, "0")?, argument)),
        }
    }

    /// Writes an input's bytes, as they lie in memory.
    ///
    /// # Errors
    ///
    /// When there is no such input, or it has another size.
    pub fn set_input(&mut self, index: usize, bytes: &[u8]) -> Result<(), Error> {
        let into = self.input_mut(index)?;
        if into.len() != bytes.len() {
            let source = TensorError::Size { needed: into.len() as u64, given: bytes.len() as u64 };
            return Err(self.tensor_error(Direction::Input, index, source));
        }
        into.copy_from_slice(bytes);
        Ok(())
    }

    /// An input's bytes, to be written in place.
    ///
    /// # Errors
    ///
    /// When there is no such input.
    pub fn input_mut(&mut self, index: usize) -> Result<&mut [u8], Error> {
        let (handle, range) = self.place(Direction::Input, index)?;
        Ok(self.device.bytes_mut(handle).get_mut(range).unwrap_or_default())
    }

    /// Writes an input from numbers in NCHW order. Each number is `scale` times its element.
    ///
    /// # Errors
    ///
    /// When there is no such input, it has another number of elements, or a format without plain numbers.
    pub fn set_input_nchw(&mut self, index: usize, values: &[f32], scale: f32) -> Result<(), Error> {
        let Some(info) = self.inputs.get(index).map(|bound| bound.info.clone()) else {
            return Err(self.no_tensor(Direction::Input, &index.to_string()));
        };
        let result = convert::encode(&info, values, scale, self.input_mut(index)?);
        result.map_err(|source| self.tensor_error(Direction::Input, index, source))
    }

    /// An output as numbers in NCHW order: each element times `scale`.
    ///
    /// # Errors
    ///
    /// When there is no such output, or it has a format without plain numbers.
    pub fn output_nchw(&self, index: usize, scale: f32) -> Result<Vec<f32>, Error> {
        let bytes = self.output(index)?;
        let Some(bound) = self.outputs.get(index) else {
            return Err(self.no_tensor(Direction::Output, &index.to_string()));
        };
        let values = convert::decode(&bound.info, scale, bytes);
        values.map_err(|source| self.tensor_error(Direction::Output, index, source))
    }

    /// Writes an input from numbers in NCHW order, with the scale and zero point that the compiler has stored in the
    /// loadable. Without them each number is its element.
    ///
    /// # Errors
    ///
    /// As [`Self::set_input_nchw`].
    pub fn set_input_f32(&mut self, index: usize, values: &[f32]) -> Result<(), Error> {
        let Some(info) = self.inputs.get(index).map(|bound| bound.info.clone()) else {
            return Err(self.no_tensor(Direction::Input, &index.to_string()));
        };
        let result = convert::quantise(&info, values, self.input_mut(index)?);
        result.map_err(|source| self.tensor_error(Direction::Input, index, source))
    }

    /// Writes an input from an array, as [`Self::set_input_f32`] does. Its dimensions are those of the tensor, N, C, H and W;
    /// adjacent ones may be joined, and dimensions of 1 may be left out. An array for an input that was compiled for pictures may
    /// have the network's own channels, in the network's order. Where the loadable says that the model has the channels last, an
    /// array N, H, W and C is accepted too, if its dimensions cannot be those of the tensor.
    ///
    /// # Errors
    ///
    /// As [`Self::set_input_f32`], and if the array has other dimensions, for example its channels last.
    pub fn set_input_array(&mut self, index: usize, shape: &[usize], values: &[f32]) -> Result<(), Error> {
        if let Some(needed) = self.inputs.get(index).map(|bound| bound.info.shape()) {
            let mut dims = needed.map(|extent| extent as usize);
            let elements =
                |dims: [usize; 4]| dims.iter().try_fold(1_usize, |product, &extent| product.checked_mul(extent));
            // The network may have fewer channels than the tensor in memory.
            if let Some(own) = self.inputs.get(index).and_then(|bound| bound.info.own_channels()) {
                let network = [dims[0], own as usize, dims[2], dims[3]];
                if elements(network) == Some(values.len()) {
                    dims = network;
                }
            }
            if elements(dims) == Some(values.len()) {
                let last = self.inputs.get(index).is_some_and(|bound| bound.info.is_channels_last());
                let Some(values) = npy::in_order(shape, values.into(), &dims, last) else {
                    let source = TensorError::Shape { needed, given: shape.to_vec() };
                    return Err(self.tensor_error(Direction::Input, index, source));
                };
                return self.set_input_f32(index, &values);
            }
        }
        self.set_input_f32(index, values)
    }

    /// Writes an input from half-precision numbers in NCHW order: see [`Self::set_input_f32`]. The elements of an input in
    /// half precision that has no scale are the given numbers, bit for bit; a signalling NaN becomes a quiet one.
    ///
    /// # Errors
    ///
    /// As [`Self::set_input_f32`].
    pub fn set_input_f16(&mut self, index: usize, values: &[f16]) -> Result<(), Error> {
        let values: Vec<_> = values.iter().map(|&value| half::to_f32(value)).collect();
        self.set_input_f32(index, &values)
    }

    /// An output as numbers in NCHW order, with the scale and zero point that the compiler has stored in the loadable.
    /// Without them each number is its element.
    ///
    /// # Errors
    ///
    /// As [`Self::output_nchw`].
    pub fn output_f32(&self, index: usize) -> Result<Vec<f32>, Error> {
        let bytes = self.output(index)?;
        let Some(bound) = self.outputs.get(index) else {
            return Err(self.no_tensor(Direction::Output, &index.to_string()));
        };
        let values = convert::dequantise(&bound.info, bytes);
        values.map_err(|source| self.tensor_error(Direction::Output, index, source))
    }

    /// An output as half-precision numbers in NCHW order: see [`Self::output_f32`]. The numbers of an output in half precision
    /// that has no scale are its elements, bit for bit; a signalling NaN becomes a quiet one.
    ///
    /// # Errors
    ///
    /// As [`Self::output_f32`].
    pub fn output_f16(&self, index: usize) -> Result<Vec<f16>, Error> {
        let values = self.output_f32(index)?;
        Ok(values.into_iter().map(half::from_f32).collect())
    }

    /// An output's bytes, as they lie in memory.
    ///
    /// # Errors
    ///
    /// When there is no such output.
    pub fn output(&self, index: usize) -> Result<&[u8], Error> {
        let (handle, range) = self.place(Direction::Output, index)?;
        Ok(self.device.bytes(handle).get(range).unwrap_or_default())
    }

    /// Makes a buffer on the device, for [`Self::bind`]. It lives as long as the session.
    ///
    /// # Errors
    ///
    /// When the device lacks memory.
    pub fn allocate(&mut self, size: u64) -> Result<Handle, crate::device::Error> {
        let handle = self.device.allocate(size)?;
        self.extra.push(handle);
        Ok(handle)
    }

    /// The bytes of a buffer that [`Self::allocate`] made.
    pub fn buffer_mut(&mut self, handle: Handle) -> &mut [u8] {
        if self.extra.contains(&handle) {
            self.device.bytes_mut(handle)
        } else {
            &mut []
        }
    }

    /// From the next run on, uses a buffer from [`Self::allocate`] as the memory of an input or output.
    ///
    /// # Errors
    ///
    /// When there is no such tensor or buffer, or the buffer is too small.
    pub fn bind(&mut self, direction: Direction, index: usize, handle: Handle) -> Result<(), Error> {
        let Some(bound) = self.bound(direction).get(index) else {
            return Err(self.no_tensor(direction, &index.to_string()));
        };
        let (memory, restrided) = (bound.memory, bound.restrided);
        let end = bound.info.offset.saturating_add(bound.info.size);
        let given = if self.extra.contains(&handle) { self.device.bytes(handle).len() as u64 } else { 0 };
        let own = self.memories.get(memory).map_or(0, |memory| memory.size);
        // With changed strides the tensor may need more or less than its own memory.
        let needed = if restrided { end } else { own };
        if given < needed {
            return Err(self.tensor_error(direction, index, TensorError::Buffer { needed, given }));
        }
        if let Some(memory) = self.memories.get_mut(memory) {
            memory.bound = Some((handle, given));
        }
        Ok(())
    }

    /// Changes the strides of a bound tensor, and every descriptor that contains them (relocations).
    ///
    /// The tensor's size changes accordingly. If it exceeds that of its memory, bind a larger buffer first.
    ///
    /// # Errors
    ///
    /// When there is no such tensor, lines or surfaces would overlap, or the tensor would leave its memory.
    pub fn set_strides(&mut self, direction: Direction, index: usize, line: u32, surface: u32) -> Result<(), Error> {
        let Some(bound) = self.bound(direction).get(index) else {
            return Err(self.no_tensor(direction, &index.to_string()));
        };
        let memory = bound.memory;
        let room = self.memories.get(memory).map_or(0, |memory| memory.bound.map_or(memory.size, |(_, size)| size));
        let info = match bound.info.with_strides(line, surface, room) {
            Ok(info) => info,
            Err(source) => return Err(self.tensor_error(direction, index, source)),
        };
        // Check everything before anything changes.
        self.check_relocations(memory)?;
        let bound = match direction {
            Direction::Input => self.inputs.get_mut(index),
            Direction::Output => self.outputs.get_mut(index),
        };
        if let Some(bound) = bound {
            bound.restrided = true;
            bound.info = info;
        }
        let loadable = Arc::clone(&self.loadable);
        let targets: Vec<_> =
            loadable.relocations().iter().filter_map(|r| loadable.memory_position(r.write_id())).collect();
        for &memory in &targets {
            self.own(memory)?;
        }
        self.fill(|memory| targets.contains(&memory));
        self.prepare_descriptors()
    }

    fn bound(&self, direction: Direction) -> &[Bound] {
        match direction {
            Direction::Input => &self.inputs,
            Direction::Output => &self.outputs,
        }
    }

    fn no_tensor(&self, direction: Direction, which: &str) -> Error {
        let names: Vec<_> = self.bound(direction).iter().map(|bound| format!("{:?}", bound.info.name)).collect();
        let known = if names.is_empty() { "none".into() } else { names.join(", ") };
        Error::NoTensor { direction, which: which.into(), known }
    }

    fn tensor_error(&self, direction: Direction, index: usize, source: TensorError) -> Error {
        let name = self.bound(direction).get(index).map(|bound| bound.info.name.clone()).unwrap_or_default();
        Error::Tensor { direction, index, name, source }
    }

    /// The buffer of a bound tensor, and the range of the tensor in it.
    pub(super) fn place(&self, direction: Direction, index: usize) -> Result<(Handle, std::ops::Range<usize>), Error> {
        let found = self.bound(direction).get(index).and_then(|bound| {
            let handle = self.memories.get(bound.memory)?.handle()?;
            let start = usize::try_from(bound.info.offset).ok()?;
            let end = start.checked_add(usize::try_from(bound.info.size).ok()?)?;
            Some((handle, start..end))
        });
        found.ok_or_else(|| self.no_tensor(direction, &index.to_string()))
    }
}
