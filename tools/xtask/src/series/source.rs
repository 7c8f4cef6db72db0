// SPDX-License-Identifier: MIT OR Apache-2.0

//! The driver's files of this checkout as they are in the kernel's tree.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{ensure, Context, Result};

use super::edits::{self, Edit};
use super::files::{write, Files, DRIVER};
use crate::command;

/// The width of the kernel's lines.
const WIDTH: usize = 100;
/// The folders, with their place in the driver's folder.
const FOLDERS: [(&str, &str); 3] = [("kmd/linux", ""), ("kmd/engine/src", "engine/"), ("uapi/src", "uapi/")];
/// What only user space needs: fast conversions, tasks that the runtime emulates, other devices, estimates of times.
const USER_SPACE: [&str; 5] = ["uapi/layout/bulk", "uapi/layout/tpu", "uapi/emu.rs", "uapi/isa.rs", "engine/writes.rs"];

/// The driver's files, formatted as the kernel's are. `folder` is for that, and need not exist.
pub(super) fn driver(checkout: &Path, tree: &Path, folder: &Path) -> Result<Files> {
    let mut files = collect(checkout)?;
    adapt(&mut files)?;
    write(folder, &Files::new(), &files)?;
    let main = folder.join(DRIVER).join("main.rs");
    let mut rustfmt = Command::new("rustfmt");
    // From the folder of the checkout, whose toolchain is the right one.
    rustfmt.current_dir(checkout).arg("--config-path").arg(tree.join(".rustfmt.toml")).arg(main);
    command::run(&mut rustfmt).context("formatting the driver's files")?;
    for (path, text) in &mut files {
        *text = fs::read_to_string(folder.join(path))?;
        if is_rust(path) {
            *text = narrow(text);
        }
    }
    Ok(files)
}

/// The driver's files as they are in this checkout.
pub(super) fn collect(checkout: &Path) -> Result<Files> {
    let mut files = Files::new();
    for (folder, place) in FOLDERS {
        add(&checkout.join(folder), place, &mut files)?;
    }
    Ok(files)
}

fn add(folder: &Path, place: &str, files: &mut Files) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).context("a name is no text")?;
        let place = format!("{place}{name}");
        if USER_SPACE.contains(&place.as_str()) {
            continue;
        }
        if path.is_dir() {
            add(&path, &format!("{place}/"), files)?;
        } else {
            files.insert(format!("{DRIVER}/{place}"), fs::read_to_string(&path)?);
        }
    }
    Ok(())
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// Changes the files for the kernel's tree, apart from their format.
pub(super) fn adapt(files: &mut Files) -> Result<()> {
    for (path, text) in files.iter_mut().filter(|(path, _)| is_rust(path)) {
        let mut changed = without_items(text, &["#[cfg(feature = \"bulk\")]", "#[cfg(not(MODULE))]"])
            .with_context(|| format!("cannot understand {path}"))?;
        for (old, new) in [
            ("#[cfg(not(feature = \"bulk\"))]\n", ""),
            ("#[cfg_attr(not(feature = \"bulk\"), allow(unused_mut))]", "#[allow(unused_mut)]"),
            ("#![cfg_attr(not(MODULE), no_std)]\n", ""),
            ("#![cfg_attr(not(any(MODULE, test)), no_std)]\n", ""),
            ("`uapi/include/nvdla_drm.h`", "`include/uapi/drm/nvdla_accel.h`"),
        ] {
            changed = changed.replace(old, new);
        }
        let suite = path.strip_prefix(DRIVER).unwrap_or(path).trim_matches('/').trim_end_matches(".rs");
        let suite = suite.trim_end_matches("/mod").replace('/', "_");
        *text = match changed.split_once("#[cfg(test)]\nmod tests {") {
            Some((code, tests)) => {
                let tests =
                    without_messages(tests).with_context(|| format!("cannot understand the tests of {path}"))?;
                format!("{code}#[kernel::macros::kunit_tests(nvdla_{suite})]\nmod tests {{{tests}")
            }
            None => changed,
        };
    }
    edits::edit(files, &edits::driver())
}

/// The text without the items and statements that follow one of the attributes.
fn without_items(text: &str, attributes: &[&str]) -> Result<String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some((at, attribute)) =
        attributes.iter().filter_map(|attribute| Some((rest.find(attribute)?, attribute))).min()
    {
        // The comments of the item go with it.
        let mut head = rest[..at].trim_end_matches(' ');
        while let Some(before) = head.strip_suffix('\n') {
            let line = before.rfind('\n').map_or(0, |end| end + 1);
            if !before[line..].trim_start().starts_with("//") || before[line..].trim_start().starts_with("//!") {
                break;
            }
            head = &before[..line];
        }
        result += head;
        let item = &rest[at + attribute.len()..];
        let mut depth = 0i32;
        let mut end = None;
        for (place, character) in item.char_indices() {
            match character {
                '{' | '(' | '[' => depth += 1,
                '}' | ')' | ']' => depth -= 1,
                _ => {}
            }
            // An item ends with a semicolon or a block; the attributes between end with a bracket.
            if depth == 0 && matches!(character, ';' | '}') {
                end = Some(place + 1);
                break;
            }
        }
        let end = end.with_context(|| format!("what follows {attribute} has no end"))?;
        // A list of imports has both.
        let after = item[end..].strip_prefix(';').unwrap_or(&item[end..]);
        rest = after.strip_prefix('\n').unwrap_or(after);
    }
    Ok(result + rest)
}

/// The text with assertions that have no messages, because those of KUnit take none.
fn without_messages(text: &str) -> Result<String> {
    let mut result = String::new();
    let mut rest = text;
    let next = |rest: &str| {
        let found =
            [("assert!(", 1), ("assert_eq!(", 2)].map(|(name, count)| Some((rest.find(name)? + name.len(), count)));
        found.into_iter().flatten().min()
    };
    while let Some((start, count)) = next(rest) {
        let (mut depth, mut commas, mut quoted, mut before) = (0, 0, false, ' ');
        let (mut message, mut end) = (None, None);
        for (place, character) in rest[start..].char_indices() {
            match character {
                '"' if before != '\\' => quoted = !quoted,
                _ if quoted => {}
                ')' if depth == 0 => {
                    end = Some(start + place);
                    break;
                }
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                ',' if depth == 0 => {
                    commas += 1;
                    if commas == count {
                        message = Some(start + place);
                    }
                }
                _ => {}
            }
            before = character;
        }
        let end = end.context("an assertion has no end")?;
        result += &rest[..message.unwrap_or(end)];
        rest = &rest[end..];
    }
    Ok(result + rest)
}

/// Breaks the comments whose lines are too long for the kernel.
fn narrow(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut result = String::new();
    let mut at = 0;
    while at < lines.len() {
        let Some((start, first)) = comment(lines[at]) else {
            result += lines[at];
            result.push('\n');
            at += 1;
            continue;
        };
        // A paragraph: lines of the same kind that are neither empty nor parts of a table, an example or a heading. An element of a
        // list is one too; its other lines are indented.
        let plain = |words: &str| {
            let is_link =
                words.split_once("]: ").is_some_and(|(_, target)| words.starts_with('[') && !target.contains(' '));
            !words.is_empty() && !words.starts_with(['|', '-', '*', ' ', '#']) && !words.starts_with("```") && !is_link
        };
        let indent = if first.starts_with("- ") { "  " } else { "" };
        let belongs = |words: &str| words.strip_prefix(indent).is_some_and(plain);
        let is_paragraph = plain(first) || first.strip_prefix("- ").is_some_and(plain);
        let mut paragraph = vec![first];
        let mut end = at + 1;
        while is_paragraph && end < lines.len() {
            match comment(lines[end]) {
                Some((other, words)) if other == start && belongs(words) => paragraph.push(words.trim_start()),
                _ => break,
            }
            end += 1;
        }
        if !is_paragraph || lines[at..end].iter().all(|line| line.chars().count() <= WIDTH) {
            result.extend(lines[at..end].iter().flat_map(|line| [line, "\n"]));
        } else {
            let more = format!("{start}{indent}");
            let mut line = start.to_owned();
            for word in paragraph.iter().flat_map(|words| words.split(' ')) {
                if line.chars().count() + 1 + word.chars().count() > WIDTH && line != more {
                    result += &line;
                    result.push('\n');
                    line.clone_from(&more);
                }
                line.push(' ');
                line += word;
            }
            result += &line;
            result.push('\n');
        }
        at = end;
    }
    result
}

/// A line that is a comment: its beginning with the indentation, and its words.
fn comment(line: &str) -> Option<(&str, &str)> {
    let indent = line.len() - line.trim_start().len();
    let mark = ["//!", "///", "//"].into_iter().find(|mark| line[indent..].starts_with(mark))?;
    let (start, words) = line.split_at(indent + mark.len());
    Some((start, words.strip_prefix(' ').unwrap_or(words)))
}

/// The header of the ioctls for the kernel's tree.
pub(super) fn header(text: &str) -> Result<String> {
    let mut text = text.to_owned();
    for edit in [
        Edit::cut("", " NVIDIA's NVDLA_SUBMIT, which", "\n *\n * Records may grow"),
        Edit::cut("", " *\n * uapi/src/queue.rs has the same", " */\n#ifndef"),
        Edit::replace("", "#ifdef __KERNEL__\n#include <drm/drm.h>\n#else\n", "#include \"drm.h\"\n"),
        Edit::cut("", "#include <linux/types.h>\n", "#include \"drm.h\"\n"),
        // The kernel's exception for programs that use its interface.
        Edit::replace("", "GPL-2.0-only OR MIT", "(GPL-2.0-only WITH Linux-syscall-note) OR MIT"),
        Edit::cut("", "#include <linux/ioctl.h>\n", "\n#if defined(__cplusplus)\nextern"),
    ] {
        text = edit.apply(&text)?;
    }
    ensure!(
        text.matches("NVDLA_DRM_H").count() == 2,
        "the header's guard is used {} times",
        text.matches("NVDLA_DRM_H").count()
    );
    Ok(text.replace("NVDLA_DRM_H", "__UAPI_NVDLA_ACCEL_H__"))
}

#[cfg(test)]
mod tests {
    use super::{narrow, without_items, without_messages, WIDTH};

    #[test]
    fn assertions_lose_their_messages() {
        let text =
            "assert!(a(1, 2), \"{x} (\");\nassert_eq!(a, [b, c],);\nassert_eq!(a, \")\", \"{}\", f(2));\nassert!(d);";
        let short = "assert!(a(1, 2));\nassert_eq!(a, [b, c]);\nassert_eq!(a, \")\");\nassert!(d);";
        assert_eq!(without_messages(text).unwrap(), short);
        assert!(without_messages("assert!(a").is_err());
    }

    #[test]
    fn items_are_removed_with_their_comments() {
        let text =
            "a;\n/// Doc.\n#[cfg(x)]\n#[inline]\nfn f(a: [u8; 2]) {\n    g();\n}\nb;\n#[cfg(x)]\nuse c::{d, e};\nd;\n";
        assert_eq!(without_items(text, &["#[cfg(x)]"]).unwrap(), "a;\nb;\nd;\n");
    }

    #[test]
    fn comments_are_narrowed_and_tables_are_not() {
        let words = "word ".repeat(30);
        let text = format!("    /// {}\n    /// end\n    fn f() {{}}\n//! | {words} |\n", words.trim_end());
        let narrowed = narrow(&text);
        let lines: Vec<_> = narrowed.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[0].len() <= WIDTH && lines[1].ends_with("word end"), "{narrowed}");
        let list = narrow(&format!("// - {}\n//   end\n// - next\n", words.trim_end()));
        let lines: Vec<_> = list.lines().collect();
        assert!(
            lines[0].starts_with("// - word") && lines[1].starts_with("//   word") && lines[1].ends_with(" end"),
            "{list}"
        );
        assert_eq!(lines[2], "// - next");
        let lines: Vec<_> = narrowed.lines().collect();
        assert_eq!(lines[2..], text.lines().collect::<Vec<_>>()[2..]);
    }
}
