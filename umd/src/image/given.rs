// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a loadable says of its pictures ([`Pictures`]), and what a caller says. A network compiled by this project's compiler
//! carries mean, standard deviation, order of channels and fitting; a caller may repeat them, and may not contradict them. For
//! other loadables the caller's settings count.

use super::encode::{Order, Settings};
use super::error::Error;
use crate::loadable::names::{Color, Fit, Pictures};
use crate::session::TensorInfo;

/// What a caller says of pictures. `None`: nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    /// One number for all channels, or one per channel.
    pub mean: Option<Vec<f32>>,
    /// The divisor.
    pub normalize: Option<f32>,
    /// The order of the network's channels.
    pub order: Option<Order>,
    /// Whether pictures of another size are scaled.
    pub resize: bool,
}

impl Given {
    /// The settings for an input.
    ///
    /// # Errors
    ///
    /// When the caller contradicts the loadable.
    pub fn settings(&self, tensor: &TensorInfo) -> Result<Settings, Error> {
        match tensor.meaning.as_ref().and_then(|meaning| meaning.pictures.as_ref()) {
            Some(pictures) => self.agreed(&tensor.name, pictures),
            None => Ok(self.alone()),
        }
    }

    /// The settings for a loadable that says nothing.
    fn alone(&self) -> Settings {
        let mut mean = [0.0; 4];
        mean.iter_mut().zip(self.mean.iter().flatten()).for_each(|(into, &mean)| *into = mean);
        Settings {
            mean,
            normalize: self.normalize.unwrap_or(1.0),
            order: self.order.unwrap_or_default(),
            fit: if self.resize { Fit::Stretch } else { Fit::Exact },
            grey_everywhere: false,
        }
    }

    /// The network subtracts the mean and divides, so the tensor gets bytes.
    fn agreed(&self, tensor: &str, pictures: &Pictures) -> Result<Settings, Error> {
        let contradiction = |what: &'static str, given: String, known: String| {
            Err(Error::Contradiction { tensor: tensor.to_owned(), what, given, known })
        };
        let channels = || 0..pictures.channels as usize;
        let same = |a: f32, b: f64| (f64::from(a) - b).abs() <= 1e-4 * b.abs().max(1.0);
        let listed = |of: &dyn Fn(usize) -> f64| channels().map(|k| of(k).to_string()).collect::<Vec<_>>().join(", ");
        if let Some(mean) = self.mean.as_ref().filter(|mean| !mean.is_empty()) {
            let of = |k: usize| if mean.len() == 1 { mean[0] } else { mean.get(k).copied().unwrap_or(0.0) };
            if !channels().all(|k| same(of(k), pictures.channel(k).0)) {
                let given = mean.iter().map(f32::to_string).collect::<Vec<_>>().join(", ");
                return contradiction("mean", given, listed(&|k| pictures.channel(k).0));
            }
        }
        if let Some(normalize) = self.normalize {
            if !normalize.is_normal() {
                return Err(Error::Normalize(normalize));
            }
            if !channels().all(|k| same(normalize, pictures.channel(k).1)) {
                return contradiction("divisor", normalize.to_string(), listed(&|k| pictures.channel(k).1));
            }
        }
        if let (Some(order), false) = (self.order, pictures.color == Color::Gray || pictures.channels < 3) {
            let color = if order == Order::Rgb { Color::Rgb } else { Color::Bgr };
            if color != pictures.color {
                return contradiction("order of channels", color.name().to_owned(), pictures.color.name().to_owned());
            }
        }
        let fit = if pictures.fit == Fit::Exact && self.resize { Fit::Stretch } else { pictures.fit };
        // In memory blue is first, whatever order the network has.
        Ok(Settings { fit, grey_everywhere: true, ..Settings::default() })
    }
}
