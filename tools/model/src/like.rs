// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which of the hardware project's two implementations the model follows where they differ (`DISAGREEMENTS.md`).

use std::str::FromStr;

/// The implementation that the model follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Like {
    /// The RTL, as which silicon behaves.
    #[default]
    Rtl,
    /// The C-model, which has made the results of the hardware project's traces.
    CModel,
}

/// The text names no implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the model follows rtl or cmodel")]
pub struct UnknownLike;

impl FromStr for Like {
    type Err = UnknownLike;

    fn from_str(text: &str) -> Result<Self, UnknownLike> {
        match text {
            "rtl" => Ok(Self::Rtl),
            "cmodel" => Ok(Self::CModel),
            _ => Err(UnknownLike),
        }
    }
}
