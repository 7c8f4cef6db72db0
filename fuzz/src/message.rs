// SPDX-License-Identifier: MIT OR Apache-2.0

//! Changes of a protobuf message that leave it a message: fields are removed, doubled, exchanged, or get other values, and
//! all lengths are written anew. The wire format is that of protobuf's "Encoding" document. Whether bytes are a message
//! is not known without a schema; bytes that can be read as a message are taken as a message.

use crate::{number, Random};

/// The deepest level of messages that is looked at.
const DEPTH: usize = 8;

#[derive(Clone, Debug)]
enum Value {
    Varint(u64),
    Fixed(Vec<u8>),
    Bytes(Vec<u8>),
    Message(Vec<Field>),
}

#[derive(Clone, Debug)]
struct Field {
    tag: u64,
    value: Value,
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn parse(mut bytes: &[u8], depth: usize) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let length = match tag & 7 {
            0 => {
                fields.push(Field { tag, value: Value::Varint(varint(&mut bytes)?) });
                continue;
            }
            1 => 8,
            5 => 4,
            2 => usize::try_from(varint(&mut bytes)?).ok()?,
            _ => return None,
        };
        let content = bytes.get(..length)?;
        bytes = &bytes[length..];
        let inner = || parse(content, depth - 1).filter(|fields| !fields.is_empty()).map(Value::Message);
        let value = match tag & 7 {
            2 if depth > 0 => inner().unwrap_or_else(|| Value::Bytes(content.to_vec())),
            2 => Value::Bytes(content.to_vec()),
            _ => Value::Fixed(content.to_vec()),
        };
        fields.push(Field { tag, value });
    }
    Some(fields)
}

fn put(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn write(fields: &[Field], into: &mut Vec<u8>) {
    for Field { tag, value } in fields {
        put(*tag, into);
        match value {
            Value::Varint(value) => put(*value, into),
            Value::Fixed(bytes) => into.extend_from_slice(bytes),
            Value::Bytes(bytes) => {
                put(bytes.len() as u64, into);
                into.extend_from_slice(bytes);
            }
            Value::Message(fields) => {
                let mut inner = Vec::new();
                write(fields, &mut inner);
                put(inner.len() as u64, into);
                into.extend_from_slice(&inner);
            }
        }
    }
}

/// Calls a function with each list of fields and each place in it.
fn places(fields: &mut Vec<Field>, visit: &mut dyn FnMut(&mut Vec<Field>, usize)) {
    let mut at = 0;
    while at < fields.len() {
        if let Value::Message(inner) = &mut fields[at].value {
            places(inner, visit);
        }
        visit(fields, at);
        at += 1;
    }
}

/// Changes one field of a message; none if the bytes are no message.
pub fn change(bytes: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let mut fields = parse(bytes, DEPTH)?;
    let mut all = Vec::new();
    places(&mut fields, &mut |list, at| all.push(list[at].clone()));
    let wanted = random.below(all.len().max(1));
    let chosen = all.get(wanted)?.clone();
    // Another field with the same kind of content.
    let alike: Vec<&Field> = all.iter().filter(|other| other.tag == chosen.tag).collect();
    let other = alike[random.below(alike.len())].value.clone();
    let action = random.below(8);
    let number = number(random) as u64;
    let (index, byte) = (random.below(usize::MAX), random.next() as u8);
    let mut count = 0;
    places(&mut fields, &mut |list, at| {
        count += 1;
        if count - 1 != wanted || at >= list.len() {
            return;
        }
        match action {
            0 => {
                list.remove(at);
            }
            1 => list.insert(at, chosen.clone()),
            2 if at > 0 => list.swap(at, at - 1),
            3 | 4 => list[at].value = other.clone(),
            _ => match &mut list[at].value {
                Value::Varint(value) => *value = number,
                Value::Fixed(bytes) | Value::Bytes(bytes) if !bytes.is_empty() => {
                    let place = index % bytes.len();
                    bytes[place] = byte;
                }
                value @ (Value::Fixed(_) | Value::Bytes(_) | Value::Message(_)) => *value = other.clone(),
            },
        }
    });
    let mut out = Vec::new();
    write(&fields, &mut out);
    Some(out)
}
