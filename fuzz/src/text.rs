// SPDX-License-Identifier: MIT OR Apache-2.0

//! Changes of a text of words and lines that leave it one: a word becomes another word of the text or a number, the part
//! of a word behind its equals sign changes, and lines are removed, doubled and exchanged.

use crate::{number, Random};

/// Changes one line or word.
pub fn change(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<Vec<String>> =
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
    let words: Vec<String> = lines.concat();
    if words.is_empty() {
        return text.to_owned();
    }
    let line = random.below(lines.len());
    match random.below(10) {
        0 => {
            lines.remove(line);
        }
        1 => lines.insert(line, lines[line].clone()),
        2 => {
            let other = random.below(lines.len());
            lines.swap(line, other);
        }
        action => {
            let (count, number) = (lines[line].len(), number(random).to_string());
            let other = words[random.below(words.len())].clone();
            if let Some(word) = lines[line].get_mut(random.below(count.max(1))) {
                match word.split_once('=').map(|(key, _)| key.to_owned()) {
                    Some(key) if action < 8 => *word = format!("{key}={number}"),
                    None if action < 6 => *word = number,
                    _ => *word = other,
                }
            }
        }
    }
    // The second line counts layers and tensors.
    let mut text: Vec<String> = lines.iter().map(|line| line.join(" ")).collect();
    if random.below(2) == 0 && text.len() > 2 {
        let mut tensors: Vec<&String> = lines.iter().skip(2).flat_map(|line| line.iter().skip(4)).collect();
        tensors.retain(|word| !word.contains('='));
        tensors.sort();
        tensors.dedup();
        text[1] = format!("{} {}", text.len() - 2, tensors.len());
    }
    text.join("\n") + "\n"
}
