// SPDX-License-Identifier: MIT OR Apache-2.0

//! Elements of a framework's tensors from and to real numbers.

use half::f16;
use nvdla_compiler::ir::Quantization;
use nvdla_compiler::partition::Bound;
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, Result};

/// The type of a tensor's elements. Its numbers are ONNX's.
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "i32", into = "i32")]
pub enum Kind {
    Float32 = 1,
    Uint8 = 2,
    Int8 = 3,
    Uint16 = 4,
    Int16 = 5,
    Float16 = 10,
}

impl TryFrom<i32> for Kind {
    type Error = Failure;

    fn try_from(number: i32) -> Result<Self> {
        let all = [Self::Float32, Self::Uint8, Self::Int8, Self::Uint16, Self::Int16, Self::Float16];
        let found = all.into_iter().find(|&kind| kind as i32 == number);
        found.ok_or_else(|| Failure(format!("elements of type {number} are not given to NVDLA")))
    }
}

impl From<Kind> for i32 {
    fn from(kind: Kind) -> Self {
        kind as Self
    }
}

impl Kind {
    /// Bytes of an element.
    fn bytes(self) -> usize {
        match self {
            Self::Float32 => 4,
            Self::Float16 | Self::Int16 | Self::Uint16 => 2,
            Self::Int8 | Self::Uint8 => 1,
        }
    }
}

/// A tensor between a framework and a loadable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Port {
    /// Its name in the model.
    pub tensor: String,
    /// The type of its elements.
    pub kind: Kind,
    /// Its shape in the model.
    pub shape: Vec<usize>,
    /// The number of the loadable's input or output.
    pub index: usize,
    /// Batch, pixels and channels, if its channels are last in the model.
    pub channels_last: Option<[usize; 3]>,
    /// The scale and the zero point of its integers in a quantized model, one for all elements.
    pub scale: Option<(f32, i32)>,
}

impl Port {
    /// Of a tensor with that element type.
    ///
    /// # Errors
    ///
    /// If it has scales per channel.
    pub fn new(bound: &Bound, kind: Kind) -> Result<Self> {
        let scale = match &bound.quantization {
            Some(Quantization { scale, zero_point, limits, .. }) => match (&scale[..], &zero_point[..]) {
                // A reader may shift the integers of uint8 to int8.
                (&[scale], &[zero]) if kind == Kind::Uint8 && limits.0 < 0 => Some((scale, zero - limits.0)),
                (&[scale], &[zero]) => Some((scale, zero)),
                _ => {
                    return Err(Failure(format!("\"{}\" has scales per channel between two processors", bound.tensor)))
                }
            },
            None => None,
        };
        let Bound { tensor, shape, index, channels_last, .. } = bound.clone();
        Ok(Self { tensor, kind, shape, index, channels_last, scale })
    }

    fn bound(&self) -> Bound {
        let Self { tensor, shape, index, channels_last, .. } = self.clone();
        Bound { tensor, shape, index, channels_last, quantization: None }
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// Calls `with` with the real numbers of the loadable's tensor, in the order N, C, H, W. Numbers of 16 and 32 bits that are larger
    /// than `most` become that.
    pub(crate) fn read<R>(&self, bytes: &[u8], most: f32, with: impl FnOnce(&mut [f32]) -> R) -> Result<R> {
        let (needed, given) = (self.elements() * self.kind.bytes(), bytes.len());
        if needed != given {
            return Err(Failure(format!("\"{}\" has {given} bytes, the network needs {needed}", self.tensor)));
        }
        let (scale, zero) = self.scale.map_or((1.0, 0.0), |(scale, zero)| (scale, zero as f32));
        let real = |integer: f32| (integer - zero) * scale;
        let limited = |value: f32| value.clamp(-most, most);
        let mut values: Vec<f32> = match self.kind {
            Kind::Float32 => bytes.as_chunks().0.iter().map(|&bytes| limited(f32::from_ne_bytes(bytes))).collect(),
            Kind::Float16 => {
                bytes.as_chunks().0.iter().map(|&bytes| limited(f16::from_ne_bytes(bytes).to_f32())).collect()
            }
            Kind::Int8 => bytes.iter().map(|&byte| real(f32::from(byte as i8))).collect(),
            Kind::Uint8 => bytes.iter().map(|&byte| real(f32::from(byte))).collect(),
            Kind::Int16 => {
                bytes.as_chunks().0.iter().map(|&bytes| limited(real(f32::from(i16::from_ne_bytes(bytes))))).collect()
            }
            Kind::Uint16 => {
                bytes.as_chunks().0.iter().map(|&bytes| limited(real(f32::from(u16::from_ne_bytes(bytes))))).collect()
            }
        };
        if self.channels_last.is_some() {
            values = self.bound().to_loadable(&values).into_owned();
        }
        Ok(with(&mut values))
    }

    /// Writes the real numbers of the loadable's tensor as the model's elements.
    pub(crate) fn write(&self, values: Vec<f32>, bytes: &mut [u8]) -> Result<()> {
        let values = if self.channels_last.is_some() { self.bound().from_loadable(values) } else { values };
        let (given, needed) = (values.len() * self.kind.bytes(), bytes.len());
        if needed != given {
            return Err(Failure(format!("\"{}\" has {needed} bytes, the network gives {given}", self.tensor)));
        }
        let (scale, zero) = self.scale.map_or((1.0, 0.0), |(scale, zero)| (scale, zero as f32));
        let integer = |value: f32| (value / scale).round_ties_even() + zero;
        let places = |bytes: &mut [u8], each: &dyn Fn(f32) -> [u8; 2]| {
            bytes.as_chunks_mut().0.iter_mut().zip(&values).for_each(|(place, &value)| *place = each(value));
        };
        // Rust's casts limit a number to the type's range.
        match self.kind {
            Kind::Float32 => {
                bytes.as_chunks_mut().0.iter_mut().zip(&values).for_each(|(place, value)| *place = value.to_ne_bytes());
            }
            Kind::Float16 => places(bytes, &|value| f16::from_f32(value).to_ne_bytes()),
            Kind::Int8 => {
                bytes.iter_mut().zip(&values).for_each(|(place, &value)| *place = integer(value) as i8 as u8);
            }
            Kind::Uint8 => {
                bytes.iter_mut().zip(&values).for_each(|(place, &value)| *place = integer(value) as u8);
            }
            Kind::Int16 => places(bytes, &|value| (integer(value) as i16).to_ne_bytes()),
            Kind::Uint16 => places(bytes, &|value| (integer(value) as u16).to_ne_bytes()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(kind: Kind, shape: &[usize], last: bool, scale: Option<(f32, i32)>) -> Port {
        let channels_last = last.then(|| [shape[0], shape[1] * shape[2], shape[3]]);
        Port { tensor: "x".to_owned(), kind, shape: shape.to_vec(), index: 0, channels_last, scale }
    }

    #[test]
    fn elements_come_back() {
        for (kind, bytes, scale) in [
            (Kind::Uint8, vec![0u8, 128, 255, 7, 9, 1], Some((0.5, 128))),
            (Kind::Int8, vec![0u8, 128, 255, 7, 9, 1], Some((0.25, -3))),
            (Kind::Float16, vec![0u8; 12], None),
            (Kind::Float32, vec![0u8; 24], None),
            (Kind::Int16, vec![1u8; 12], Some((2.0, 5))),
            (Kind::Uint16, vec![255u8; 12], Some((2.0, 5))),
        ] {
            for last in [false, true] {
                let port = port(kind, &[1, 1, 3, 2], last, scale);
                let values = port.read(&bytes, f32::INFINITY, |values| values.to_vec()).unwrap();
                let mut found = vec![0; bytes.len()];
                port.write(values, &mut found).unwrap();
                assert_eq!(found, bytes, "{port:?}");
            }
        }
    }

    #[test]
    fn integers_are_rounded_and_limited() {
        let port = port(Kind::Uint8, &[4], false, Some((0.5, 128)));
        let mut bytes = [0; 4];
        port.write(vec![0.25, 0.75, -1000.0, 1000.0], &mut bytes).unwrap();
        assert_eq!(bytes, [128, 130, 0, 255]);
        assert!(port.read(&bytes[1..], f32::INFINITY, |_| ()).is_err());
    }

    #[test]
    fn large_numbers_are_limited() {
        let numbers = [1e6, f32::NEG_INFINITY, 3.0, f32::NAN];
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        let found = port(Kind::Float32, &[4], false, None).read(&bytes, 65504.0, |values| values.to_vec()).unwrap();
        assert_eq!(found[..3], [65504.0, -65504.0, 3.0]);
        assert!(found[3].is_nan());
    }

    #[test]
    fn channels_that_are_last_come_first() {
        let port = port(Kind::Int8, &[1, 1, 3, 2], true, None);
        assert_eq!(
            port.read(&[0, 1, 2, 3, 4, 5], f32::INFINITY, |values| values.to_vec()).unwrap(),
            [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]
        );
    }
}
