// SPDX-License-Identifier: MIT OR Apache-2.0

//! The payload of an EPContext node: a compiled group with what the provider must know of it.
//!
//! It begins with [`MAGIC`], then has the length of a JSON text in four bytes (little endian), the text, and the loadable.

use serde::{Deserialize, Serialize};

use crate::api::{Failure, Result};
use crate::tensor::Port;

const MAGIC: &[u8; 8] = b"NVDLA-EP";

/// The version of the payload's format.
pub(crate) const VERSION: u32 = 1;

/// A compiled group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Group {
    pub(crate) header: Header,
    pub(crate) loadable: Vec<u8>,
}

/// What the payload says of its loadable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    version: u32,
    /// The configuration that the loadable is for.
    pub(crate) configuration: String,
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    /// The number of nodes of the model that it computes.
    pub(crate) nodes: usize,
}

impl Header {
    pub(crate) fn new(configuration: &str, inputs: Vec<Port>, outputs: Vec<Port>, nodes: usize) -> Self {
        Self { version: VERSION, configuration: configuration.to_owned(), inputs, outputs, nodes }
    }

    /// The payload with the loadable.
    pub(crate) fn payload(&self, loadable: &[u8]) -> Result<Vec<u8>> {
        let text = serde_json::to_vec(self).map_err(|error| Failure(error.to_string()))?;
        let length = u32::try_from(text.len()).map_err(|_| Failure("a payload's text is too long".to_owned()))?;
        Ok([&MAGIC[..], &length.to_le_bytes(), &text, loadable].concat())
    }
}

impl Group {
    /// Reads a payload.
    ///
    /// # Errors
    ///
    /// If it is none, or of another version.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let fail = |reason: &str| Failure(format!("the EPContext node's payload: {reason}"));
        let rest = bytes.strip_prefix(MAGIC).ok_or_else(|| fail("it is not of this provider"))?;
        let (length, rest) = rest.split_first_chunk().ok_or_else(|| fail("it is cut"))?;
        let length = u32::from_le_bytes(*length) as usize;
        let (text, loadable) = rest.split_at_checked(length).ok_or_else(|| fail("it is cut"))?;
        let value: serde_json::Value = serde_json::from_slice(text).map_err(|error| fail(&error.to_string()))?;
        if value["version"].as_u64() != Some(u64::from(VERSION)) {
            return Err(fail(&format!("it has the version {}, this provider reads {VERSION}", value["version"])));
        }
        let header: Header = serde_json::from_value(value).map_err(|error| fail(&error.to_string()))?;
        let sized = |shape: &[usize]| shape.iter().try_fold(1usize, |product, &extent| product.checked_mul(extent));
        for port in header.inputs.iter().chain(&header.outputs) {
            let count = sized(&port.shape).filter(|&count| count <= 1 << 31);
            let count = count.ok_or_else(|| fail("a tensor has more than 2^31 elements"))?;
            if port.channels_last.is_some_and(|last| sized(&last) != Some(count)) {
                return Err(fail("a tensor has another number of elements with its channels last"));
            }
        }
        Ok(Self { header, loadable: loadable.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_comes_back_and_a_changed_one_is_refused() {
        let port = Port {
            tensor: "x".to_owned(),
            kind: 1,
            shape: vec![1, 2],
            index: 0,
            channels_last: Some([1, 1, 2]),
            scale: Some((0.5, 3)),
        };
        let header = Header::new("nv_small", vec![port.clone()], vec![port], 4);
        let group = Group { header, loadable: vec![0, 1, 0, 2] };
        let bytes = group.header.payload(&group.loadable).unwrap();
        assert_eq!(Group::from_bytes(&bytes).unwrap(), group);
        for length in 0..bytes.len() - group.loadable.len() {
            assert!(Group::from_bytes(&bytes[..length]).is_err());
        }
        let version = b"\"version\":1";
        let place = bytes.windows(version.len()).position(|window| window == version).unwrap();
        let mut changed = bytes.clone();
        changed[place + version.len() - 1] = b'2';
        let Failure(reason) = Group::from_bytes(&changed).unwrap_err();
        assert!(reason.contains("it has the version 2"), "{reason}");
        let header = Header {
            inputs: vec![Port { shape: vec![usize::MAX, 2], ..group.header.inputs[0].clone() }],
            ..group.header.clone()
        };
        assert!(Group::from_bytes(&header.payload(&[]).unwrap()).is_err());
        let header = Header {
            inputs: vec![Port { channels_last: Some([1, usize::MAX, 2]), ..group.header.inputs[0].clone() }],
            ..group.header
        };
        assert!(Group::from_bytes(&header.payload(&[]).unwrap()).is_err());
    }
}
