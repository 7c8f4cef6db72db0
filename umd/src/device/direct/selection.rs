// SPDX-License-Identifier: MIT OR Apache-2.0

//! The texts with which a user names a device that this process drives directly.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::str::FromStr;

use thiserror::Error as ThisError;

/// A device that this process drives directly.
///
/// ```
/// use nvdla_runtime::device::DirectSelection;
///
/// let selection: DirectSelection = "uio:/dev/uio0,memory=64M@0x30000000".parse()?;
/// assert_eq!(selection, DirectSelection::Uio { node: "/dev/uio0".into(), memory: Some(0x3000_0000..0x3400_0000) });
/// assert_eq!(selection.to_string(), "uio:/dev/uio0,memory=0x4000000@0x30000000");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectSelection {
    /// The UNIX socket of a simulator that serves a vfio-user device: `vfio-user:PATH`.
    VfioUser(PathBuf),
    /// A device on the PCI or platform bus that is bound to the kernel's VFIO: `vfio:NAME`, by its name on the bus.
    Vfio(String),
    /// A device that is bound to the kernel's UIO: `uio:NODE[,memory=SIZE@START]`.
    Uio {
        /// The node in `/dev`.
        node: PathBuf,
        /// Physical addresses of the memory that is reserved for the device; none to use the device's second mapping.
        memory: Option<Range<u64>>,
    },
}

/// A text that does not name a device.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
#[error("\"{text}\" does not name a device: {why}")]
pub struct DirectSelectionError {
    /// What was given.
    text: String,
    /// What is wrong with it.
    why: String,
}

impl DirectSelection {
    /// The device that a text with one of the three prefixes names; `None` for any other text.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, DirectSelectionError>> {
        let error = |why: &str| Err(DirectSelectionError { text: text.into(), why: why.into() });
        Some(match text.split_once(':')? {
            ("vfio-user" | "vfio" | "uio", "") => error("nothing follows the colon"),
            ("vfio-user", path) => Ok(Self::VfioUser(path.into())),
            ("vfio", name) if name.contains('/') => error("give the device's name on its bus, such as 0000:00:05.0"),
            ("vfio", name) => Ok(Self::Vfio(name.into())),
            ("uio", rest) => match rest.split_once(',') {
                None => Ok(Self::Uio { node: rest.into(), memory: None }),
                Some((node, option)) => match option.strip_prefix("memory=").and_then(memory) {
                    Some(memory) => Ok(Self::Uio { node: node.into(), memory: Some(memory) }),
                    None => {
                        error("the only option is memory=SIZE@START, in whole pages, such as memory=64M@0x30000000")
                    }
                },
            },
            _ => return None,
        })
    }
}

/// The addresses of `SIZE@START`.
fn memory(text: &str) -> Option<Range<u64>> {
    let (size, start) = text.split_once('@')?;
    let (size, start) = (number(size)?, number(start)?);
    let page = super::window::page_size();
    let fits = size > 0 && size.is_multiple_of(page) && start.is_multiple_of(page);
    fits.then_some(start..start.checked_add(size)?)
}

/// A decimal or hexadecimal number, which may end in K, M or G.
fn number(text: &str) -> Option<u64> {
    let shift = match text.chars().last()? {
        'K' | 'k' => 10,
        'M' | 'm' => 20,
        'G' | 'g' => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    let number = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    number.checked_mul(1 << shift)
}

impl FromStr for DirectSelection {
    type Err = DirectSelectionError;

    fn from_str(text: &str) -> Result<Self, DirectSelectionError> {
        Self::parse(text).unwrap_or_else(|| {
            let why = "it begins with neither vfio:, vfio-user: nor uio:".into();
            Err(DirectSelectionError { text: text.into(), why })
        })
    }
}

impl fmt::Display for DirectSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VfioUser(socket) => write!(f, "vfio-user:{}", socket.display()),
            Self::Vfio(name) => write!(f, "vfio:{name}"),
            Self::Uio { node, memory: None } => write!(f, "uio:{}", node.display()),
            Self::Uio { node, memory: Some(memory) } => {
                let (start, size) = (memory.start, memory.end - memory.start);
                write!(f, "uio:{},memory={size:#x}@{start:#x}", node.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_may_write() {
        assert_eq!("vfio:0000:00:05.0".parse(), Ok(DirectSelection::Vfio("0000:00:05.0".into())));
        assert_eq!("vfio-user:/tmp/s:1".parse(), Ok(DirectSelection::VfioUser("/tmp/s:1".into())));
        assert_eq!("uio:/dev/uio0".parse(), Ok(DirectSelection::Uio { node: "/dev/uio0".into(), memory: None }));
        assert!(DirectSelection::parse("/dev/dri/renderD128").is_none() && DirectSelection::parse("rtl:x").is_none());
        let all = "uio:/dev/uio0,memory=1G@1G".parse();
        assert_eq!(all, Ok(DirectSelection::Uio { node: "/dev/uio0".into(), memory: Some(1 << 30..2 << 30) }));
    }

    #[test]
    fn invalid_selections_are_refused() {
        for text in [
            "vfio:",
            "uio:",
            "vfio:/dev/vfio/3",
            "uio:/dev/uio0,memory=64M",
            "uio:/dev/uio0,memory=64@0x1000",
            "uio:/dev/uio0,memory=0@0x1000",
            "uio:/dev/uio0,memory=M@0x1000",
            "uio:/dev/uio0,memory=16G@0xfffffffffffff000",
            "uio:/dev/uio0,memory=99999999999G@0",
            "uio:/dev/uio0,irq=3",
            "other",
        ] {
            assert!(text.parse::<DirectSelection>().is_err(), "{text}");
        }
    }
}
