// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kinds of errors, for programs that react to them.

use std::fmt;

#[cfg(feature = "image")]
use crate::image;
use crate::{device, emulator, loadable, operations, session};

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An argument of the caller: no such tensor, a wrong size.
    Argument,
    /// A file cannot be read or written.
    File,
    /// A loadable is malformed, or contains something that this runtime does not support.
    Loadable,
    /// A task breaks a rule of the hardware or of its configuration.
    Refused,
    /// There is not enough memory.
    Memory,
    /// The device cannot be opened, or failed.
    Device,
    /// Something did not end in time.
    Deadline,
    /// A run of the context is in flight.
    Busy,
    /// The device cannot do this.
    Unsupported,
    /// The run was cancelled.
    Cancelled,
}

impl ErrorKind {
    /// Its name, in small letters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Argument => "argument",
            Self::File => "file",
            Self::Loadable => "loadable",
            Self::Refused => "refused",
            Self::Memory => "memory",
            Self::Device => "device",
            Self::Deadline => "deadline",
            Self::Busy => "busy",
            Self::Unsupported => "unsupported",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind of an error of this library, or else of one of its causes.
pub fn kind_of(error: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
    let mut next = Some(error);
    while let Some(error) = next {
        let kind = error
            .downcast_ref::<session::Error>()
            .map(session::Error::kind)
            .or_else(|| error.downcast_ref::<operations::Error>().map(|_| ErrorKind::Loadable))
            .or_else(|| error.downcast_ref::<device::Error>().map(device::Error::kind))
            .or_else(|| error.downcast_ref::<loadable::Error>().map(loadable::Error::kind));
        #[cfg(feature = "image")]
        let kind = kind.or_else(|| error.downcast_ref::<image::Error>().map(image::Error::kind));
        if kind.is_some() {
            return kind;
        }
        next = error.source();
    }
    None
}

impl device::Error {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(_) | Self::NotTaken(_) | Self::TooManyAddresses { .. } | Self::Address { .. } => {
                ErrorKind::Refused
            }
            Self::Allocate { .. } => ErrorKind::Memory,
            Self::TimedOut { .. } | Self::Deadline { .. } => ErrorKind::Deadline,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::NotShared { .. } | Self::NotRecorded | Self::Forked { .. } => ErrorKind::Unsupported,
            Self::Share { source, .. } if source.kind() == std::io::ErrorKind::Unsupported => ErrorKind::Unsupported,
            _ => ErrorKind::Device,
        }
    }
}

impl loadable::Error {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Open { .. } => ErrorKind::File,
            _ => ErrorKind::Loadable,
        }
    }
}

#[cfg(feature = "image")]
impl image::Error {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Contradiction { .. } | Self::Normalize(_) => ErrorKind::Argument,
            _ => ErrorKind::File,
        }
    }
}

impl session::Error {
    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Allocate { source, .. }
            | Self::Task { source, .. }
            | Self::Follow { source }
            | Self::Share { source }
            | Self::Forked(source) => source.kind(),
            Self::Cancelled { .. } | Self::Emulated { source: emulator::Error::Cancelled, .. } => ErrorKind::Cancelled,
            Self::Emulated { .. } if self.is_timeout() => ErrorKind::Deadline,
            Self::RunTime { .. } | Self::NotYet => ErrorKind::Deadline,
            Self::Emulated { .. } => ErrorKind::Refused,
            Self::Save { .. } => ErrorKind::File,
            Self::CannotObserve { .. } | Self::Repeated { .. } => ErrorKind::Unsupported,
            Self::NoTensor { .. } | Self::Tensor { .. } | Self::Taken => ErrorKind::Argument,
            Self::Busy => ErrorKind::Busy,
            Self::Wait { .. } => ErrorKind::Device,
            _ => ErrorKind::Loadable,
        }
    }
}
