// SPDX-License-Identifier: MIT OR Apache-2.0

//! The payload of an EPContext node: a compiled group with what the provider must know of it.
//!
//! It begins with [`MAGIC`], then has the length of a JSON text in four bytes (little endian), the text, and the loadable.

use nvdla_frameworks::kernel::{Group, Header, VERSION};
use nvdla_frameworks::{Failure, Result};

const MAGIC: &[u8; 8] = b"NVDLA-EP";

/// The payload of a group.
pub(crate) fn write(header: &Header, loadable: &[u8]) -> Result<Vec<u8>> {
    let text = serde_json::to_vec(header).map_err(|error| Failure(error.to_string()))?;
    let length = u32::try_from(text.len()).map_err(|_| Failure("a payload's text is too long".to_owned()))?;
    Ok([&MAGIC[..], &length.to_le_bytes(), &text, loadable].concat())
}

/// Reads a payload.
///
/// # Errors
///
/// If it is none, or of another version.
pub(crate) fn read(mut bytes: Vec<u8>) -> Result<Group> {
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
    // In place, because a second copy of a loadable would double the memory that opening needs.
    bytes.drain(..bytes.len() - loadable.len());
    Ok(Group { header, loadable: bytes })
}

#[cfg(test)]
mod tests {
    use nvdla_frameworks::tensor::{Kind, Port};

    use super::*;

    #[test]
    fn a_payload_comes_back_and_a_changed_one_is_refused() {
        let port = Port {
            tensor: "x".to_owned(),
            kind: Kind::Float32,
            shape: vec![1, 2],
            index: 0,
            channels_last: Some([1, 1, 2]),
            scale: Some((0.5, 3)),
        };
        let header = Header::new("nv_small", vec![port.clone()], vec![port], 4, 1);
        let group = Group { header, loadable: vec![0, 1, 0, 2] };
        let bytes = write(&group.header, &group.loadable).unwrap();
        assert_eq!(read(bytes.clone()).unwrap(), group);
        for length in 0..bytes.len() - group.loadable.len() {
            assert!(read(bytes[..length].to_vec()).is_err());
        }
        let version = b"\"version\":1";
        let place = bytes.windows(version.len()).position(|window| window == version).unwrap();
        let mut changed = bytes.clone();
        changed[place + version.len() - 1] = b'2';
        let Failure(reason) = read(changed).unwrap_err();
        assert!(reason.contains("it has the version 2"), "{reason}");
        let header = Header {
            inputs: vec![Port { shape: vec![usize::MAX, 2], ..group.header.inputs[0].clone() }],
            ..group.header.clone()
        };
        assert!(read(write(&header, &[]).unwrap()).is_err());
        let header = Header {
            inputs: vec![Port { channels_last: Some([1, usize::MAX, 2]), ..group.header.inputs[0].clone() }],
            ..group.header
        };
        assert!(read(write(&header, &[]).unwrap()).is_err());
    }
}
