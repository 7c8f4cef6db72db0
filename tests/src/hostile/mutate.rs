// SPDX-License-Identifier: MIT OR Apache-2.0

//! Changes valid tasks in one to three places, mostly to wrong values near valid ones.

use super::base::{Base, Field, List};
use super::bench::Bench;
use super::choices::Choices;

/// The greatest number of changes of one task.
const CHANGES: usize = 3;

/// Changes the task in the bench, and returns a description of the changes.
pub fn mutate(bench: &mut Bench, base: &Base, others: &[Base], choices: &mut impl Choices) -> Vec<String> {
    let count = [1, 1, 1, 2, 2, 3][choices.below(6)].min(CHANGES);
    (0..count).map(|_| change(bench, base, others, choices)).collect()
}

fn change(bench: &mut Bench, base: &Base, others: &[Base], choices: &mut impl Choices) -> String {
    match choices.below(100) {
        0..=3 => entry(bench, choices),
        4..=7 => swap_operations(bench, base, choices),
        8..=11 => splice(bench, base, others, choices),
        _ => number(bench, base, choices).unwrap_or_else(|| "no field".into()),
    }
}

/// Selects a field; important fields are more likely.
fn pick<'b>(base: &'b Base, choices: &mut impl Choices) -> Option<&'b Field> {
    let list = match choices.below(100) {
        0..=3 => List::Network,
        4..=11 => List::Graph,
        12..=51 => List::Operations,
        52..=96 => List::Surfaces,
        _ => List::Tables,
    };
    // Fields are in the order of lists of each operation: a few attempts from a random position on.
    let length = base.fields.len();
    for _ in 0..8 {
        let from = choices.below(length);
        let found = base.fields[from..].iter().take(600).find(|field| field.list == list);
        if let Some(found) = found {
            let index = found.index;
            let same = |field: &&Field| field.list == list && field.index == index;
            let start = base.fields.iter().position(|field| same(&field))?;
            let count = base.fields[start..].iter().take_while(same).count();
            return base.fields.get(start + choices.below(count));
        }
    }
    base.fields.get(choices.below(length))
}

/// The greatest value of the field.
fn most(field: &Field) -> u64 {
    u64::MAX >> (64 - 8 * field.size.clamp(1, 8))
}

fn is_flag(field: &Field) -> bool {
    field.size == 1
}

/// Sets a number.
fn number(bench: &mut Bench, base: &Base, choices: &mut impl Choices) -> Option<String> {
    let field = pick(base, choices)?;
    let old = bench.value(field)?;
    let atom = u64::from(base.config.memory_atomic);
    // The same field elsewhere, and similar fields.
    let like = |choices: &mut dyn FnMut(usize) -> usize| {
        let from = choices(base.fields.len());
        let all = base.fields[from..].iter().chain(&base.fields[..from]);
        all.take(2000).find(|other| other.name == field.name && other.offset != field.offset)
    };
    let mut below = |count: usize| choices.below(count);
    let choice = below(100);
    let mut exchanged = "";
    let value = match choice {
        0..=6 => 0,
        7..=10 => most(field),
        11..=13 => most(field) / 2,
        14..=15 => most(field) / 2 + 1,
        16..=27 => old.wrapping_add(1),
        28..=39 => old.wrapping_sub(1),
        40..=46 => old.wrapping_add(atom),
        47..=51 => old.wrapping_sub(atom),
        52..=56 => old.wrapping_mul(2),
        57..=60 => old / 2,
        61..=66 => old ^ 1 << below(8 * field.size),
        67..=70 => 1 << below(8 * field.size),
        71..=78 if is_flag(field) => below(8) as u64,
        71..=78 => below(64) as u64,
        79..=90 => {
            exchanged = " of another";
            bench.value(like(&mut below)?)?
        }
        91..=95 => {
            let other = like(&mut below)?;
            let value = bench.value(other)?;
            bench.set(other, old);
            exchanged = " exchanged";
            value
        }
        _ => (below(1 << 16) as u64) << 48 | (below(1 << 16) as u64) << 16 | below(1 << 16) as u64,
    } & most(field);
    bench.set(field, value);
    let Field { list, index, unit, part, name, .. } = field;
    Some(format!("{list:?} {index} ({unit}) {part}.{name}: {old:#x} -> {value:#x}{exchanged}"))
}

/// Changes the address list.
fn entry(bench: &mut Bench, choices: &mut impl Choices) -> String {
    let count = bench.entries.len();
    if count == 0 {
        return "no entry".into();
    }
    let at = choices.below(count);
    let (area, offset, size) = bench.entries[at];
    match choices.below(4) {
        0 => {
            let other = choices.below(count);
            bench.entries.swap(at, other);
            format!("address list: {at} and {other} exchanged")
        }
        1 => {
            let other = choices.below(count);
            bench.entries[at] = bench.entries[other];
            format!("address list: {at} as {other}")
        }
        2 => {
            let less = [1, 8, 32, 64, size / 2, size, 4096][choices.below(7)].min(size);
            bench.entries[at].2 = size - less;
            format!("address list: {at} is {less} bytes shorter")
        }
        _ => {
            let more = [1, 8, 32, 64, size / 2, 4096][choices.below(6)].min(size);
            bench.entries[at] = (area, offset + more, size - more);
            format!("address list: {at} begins {more} bytes later")
        }
    }
}

/// Exchanges the descriptors of two operations in one list.
fn swap_operations(bench: &mut Bench, base: &Base, choices: &mut impl Choices) -> String {
    let list = [List::Graph, List::Operations, List::Surfaces][choices.below(3)];
    let Some(first) = base.fields.iter().position(|field| field.list == list) else { return "no list".into() };
    let of = |index: usize| base.fields.iter().find(|field| field.list == list && usize::from(field.index) == index);
    let operations = base.fields.iter().filter(|field| field.list == list).map(|field| field.index).max();
    let count = usize::from(operations.unwrap_or(0)) + 1;
    let (a, b) = (choices.below(count), choices.below(count));
    let (Some(from), Some(to)) = (of(a), of(b)) else { return "no list".into() };
    let size = match base.fields[first].list {
        List::Graph => 36,
        List::Operations => 116,
        _ => 644,
    };
    bench.exchange((usize::from(from.entry), from.offset), (usize::from(to.entry), to.offset), size);
    format!("{list:?}: {a} and {b} exchanged")
}

/// Copies an operation's descriptor from another task.
fn splice(bench: &mut Bench, base: &Base, others: &[Base], choices: &mut impl Choices) -> String {
    let list = [List::Operations, List::Surfaces][choices.below(2)];
    let Some(field) = pick(base, choices) else { return "no field".into() };
    let Some(other) = others.get(choices.below(others.len())) else { return "no other task".into() };
    let same = |like: &&Field| like.list == list && like.unit == field.unit && like.part.is_empty();
    let (Some(to), Some(from)) =
        (base.fields.iter().find(|like| same(like) && like.index == field.index), other.fields.iter().find(same))
    else {
        return "no such unit in the other task".into();
    };
    // Both are the descriptor's first number that lies in no part.
    let size = if list == List::Operations { 100 } else { 170 };
    let (area, start, _) = other.entries[usize::from(from.entry)];
    let at = start as usize + from.offset;
    let Some(bytes) = other.areas[area].get(at..at + size) else { return "a list at the end of its memory".into() };
    bench.put(usize::from(to.entry), to.offset, bytes);
    format!("{list:?} {} ({}) as in {}", field.index, field.unit, other.name)
}
