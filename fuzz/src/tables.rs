// SPDX-License-Identifier: MIT OR Apache-2.0

//! Changes of a FlatBuffers file that leave its tables in place: a field of a table is removed, gets another number, or exchanges
//! its contents with another field. The layout is that of FlatBuffers' "Internals" document. Which fields are tables is not known
//! without a schema; a field that can be read as a table, or as a vector of tables, is taken as one.

use crate::{self as shared, Random};

/// The deepest level of tables that is looked at.
const DEPTH: usize = 6;
/// The greatest number of entries of a vector that are looked at.
const ENTRIES: usize = 64;

/// Places in the file that may be changed.
#[derive(Default)]
struct Places {
    /// Entries of vtables: 2 bytes, 0 for a field that the file does not have.
    entries: Vec<usize>,
    /// Fields of tables.
    fields: Vec<usize>,
    /// Numbers of vectors: 4 bytes.
    numbers: Vec<usize>,
    /// Distances to tables, in vectors.
    tables: Vec<usize>,
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
}

fn walk(bytes: &[u8], at: usize, depth: usize, places: &mut Places) -> Option<()> {
    let back = number(bytes, at)? as u32 as i32;
    let vtable = usize::try_from(at as i64 - i64::from(back)).ok()?;
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?)));
    let (size, table) = (short(vtable)?, short(vtable + 2)?);
    if size < 4 || size % 2 != 0 || table < 4 || at + table > bytes.len() || vtable + size > bytes.len() {
        return None;
    }
    let slots: Vec<usize> = (vtable + 4..vtable + size).step_by(2).collect();
    if slots.iter().any(|&slot| short(slot).is_none_or(|distance| distance >= table)) {
        return None;
    }
    for slot in slots {
        let distance = short(slot)?;
        if distance == 0 {
            continue;
        }
        let field = at + distance;
        places.entries.push(slot);
        places.fields.push(field);
        let Some(target) = number(bytes, field).filter(|&to| to > 0).map(|to| field + to) else { continue };
        if depth == 0 || target + 4 > bytes.len() || walk(bytes, target, depth - 1, places).is_some() {
            continue;
        }
        let count = number(bytes, target)?.min(ENTRIES);
        for entry in (0..count).map(|k| target + 4 + 4 * k).filter(|entry| entry + 4 <= bytes.len()) {
            match number(bytes, entry).and_then(|to| walk(bytes, entry.checked_add(to)?, depth - 1, places)) {
                Some(()) => places.tables.push(entry),
                None => places.numbers.push(entry),
            }
        }
    }
    Some(())
}

/// Changes one place of a file; none if the bytes are no tables.
pub fn change(bytes: &[u8], random: &mut Random) -> Option<Vec<u8>> {
    let mut places = Places::default();
    walk(bytes, number(bytes, 0)?, DEPTH, &mut places)?;
    let mut out = bytes.to_vec();
    let mut pick = |list: &[usize]| list.get(random.below(list.len().max(1))).copied();
    let (entry, field, value) = (pick(&places.entries)?, pick(&places.fields)?, pick(&places.numbers));
    let tables = (pick(&places.tables), pick(&places.tables));
    let wanted = shared::number(random);
    let put = |out: &mut [u8], at: usize, new: &[u8]| {
        if let Some(old) = out.get_mut(at..at + new.len()) {
            old.copy_from_slice(new);
        }
    };
    match random.below(8) {
        0 => put(&mut out, entry, &[0, 0]),
        1 => put(&mut out, field, &[wanted as u8]),
        2 => put(&mut out, field, &(wanted as i32).to_le_bytes()),
        3 => put(&mut out, field, &((random.below(64) as f32 - 16.0) / 8.0).to_le_bytes()),
        // One table instead of another of a vector.
        4 => {
            let (at, other) = (tables.0?, tables.1?);
            let target = (other + number(bytes, other)?).checked_sub(at)? as u32;
            put(&mut out, at, &target.to_le_bytes());
        }
        _ => put(&mut out, value?, &(wanted as i32).to_le_bytes()),
    }
    Some(out)
}
