// SPDX-License-Identifier: MIT OR Apache-2.0

//! No address arithmetic on layouts outside `uapi::layout`: a search through the sources.
//!
//! The test examines each product, quotient, remainder, rounding and division with rounding in all Rust sources except
//! tests: engine, module, runtime, model, tools, and `uapi` without its layouts. It finds one if the name of an operand
//! belongs to a layout: a stride, an atom, a surface, a view, bytes of lines, planes, elements or pixels, a kernel
//! group or a small cube; the number 32, the documents' atom; and in divisions, lanes. Each match must be in
//! [`ALLOWED`], with the reason why it is no layout's formula, and each entry must have a match.
//!
//! Tests are not examined, because they contain a second implementation of the layouts on purpose.

use std::fs;
use std::path::Path;

use nvdla_tests::sources::{is_name, sources, words, Word};

/// Folders that are searched.
const FOLDERS: [&str; 12] = [
    "uapi/src",
    "kmd/engine/src",
    "kmd/linux",
    "umd/src",
    "tools/model/src",
    "tools/compiler/src",
    "tools/inspect/src",
    "tools/vp/src",
    "tools/trace/src",
    "tools/xtask/src",
    "fuzz",
    "examples",
];

/// The folder of the layouts.
const LAYOUTS: &str = "uapi/src/layout";
/// Files with other arithmetic. The footprint computes ranges a second time on purpose, from registers as the RTL does, because
/// it must be right for values that no layout has. Two files of the compiler: SDP's copies, which take the columns of a tensor
/// for lines and its lines for surfaces, and the comparison of two cubes in a buffer. Random graphs compare their bytes with
/// plain loops (`compiled.rs`).
const EXEMPT: [&str; 3] =
    ["kmd/engine/src/footprint/", "tools/compiler/src/codegen/sdp.rs", "tools/compiler/src/schedule/program.rs"];

/// A file, a piece of code that is found there (as words with spaces between), and why it is no address formula.
const ALLOWED: [(&str, &str, &str); 24] = [
    ("uapi/src/config.rs", "self . pdp_line_atoms / if lines", "how many atoms a line of PDP's buffer may have"),
    ("tools/model/src/bdma.rs", "registers . get ( CFG_LINE )", "a register that counts a line's bytes in 32s"),
    ("tools/model/src/conv/pixel.rs", "format . bytes_per_pixel [ 0 ]", "bits of a pixel in a register"),
    ("tools/model/src/conv/fast/avx512.rs", "* 32", "index into a panel of weights that the model makes for itself"),
    ("tools/model/src/conv/fast/fp16/winograd.rs", "surface * surface_lanes", "index into a block of sums"),
    ("tools/model/src/conv/fast/parts.rs", "div_ceil ( lanes )", "shares out the sums of an output among threads"),
    ("tools/model/src/conv/fast/parts.rs", "N / lanes", "the same"),
    ("tools/model/src/conv/fast/parts.rs", "surfaces . div_ceil ( per_panel )", "the same"),
    ("tools/model/src/conv/fast/parts.rs", "self . groups * self . surfaces", "the same"),
    ("tools/model/src/conv/fast/parts.rs", "first ) ) * surface", "the same"),
    ("tools/model/src/pdp/fast/bands.rs", "height * setup . surfaces", "counts the lines of an output"),
    ("tools/model/src/conv/fast/direct.rs", "kernel / lanes", "the surface of sums that a panel begins in"),
    ("tools/model/src/conv/fast/direct.rs", "part . surfaces ( ) . len ( ) * lanes", "the kernels of a part"),
    ("tools/model/src/sdp/vector/flying.rs", "kernels / operation . lanes", "surfaces whose sums SDP takes together"),
    ("tools/model/src/sdp/vector/load.rs", "lanes / 2", "half of a working vector"),
    ("tools/model/src/sdp/vector/store.rs", "lanes / 2", "half of a working vector"),
    ("tools/model/src/sdp/vector/strips.rs", "surfaces", "numbers the pieces that threads share"),
    ("tools/model/src/sdp/vector/walk.rs", "CHUNK / lanes", "atoms of a working vector"),
    ("tools/model/src/sdp/vector/walk.rs", "2 * at . surface", "which two surfaces make one of wider elements"),
    ("tools/model/src/stream.rs", "lanes", "sizes of what CACC and SDP hand on, which never lies in memory"),
    ("tools/compiler/src/codegen/convolution.rs", "most_atomics / x . count", "how many lines an operation may have"),
    (
        "tools/compiler/src/codegen/convolution.rs",
        "group_kernels . min ( count )",
        "whether a kernel group fits the buffer",
    ),
    ("tools/inspect/src/layout/feature.rs", "n as usize * cube . surfaces ( )", "numbers colours"),
    ("tools/inspect/src/layout/feature.rs", "/ atom", "how many atoms wide a gap is drawn"),
];

/// Parts of names that belong to a layout, at any place in a name.
const PARTS: [&str; 20] = [
    "line_stride",
    "surf_stride",
    "surface_stride",
    "plane_stride",
    "planar_stride",
    "cube_stride",
    "group_stride",
    "uv_stride",
    "line_bytes",
    "surface_bytes",
    "plane_bytes",
    "atom",
    "pitch",
    "stride_bytes",
    "view",
    "bytes_per_pixel",
    "pixel_bytes",
    "element_bytes",
    "cube_channels",
    "group_kernels",
];
/// Whole names that do, in products and quotients.
const NAMES: [&str; 3] = ["surface", "surfaces", "32"];
/// Whole names that do where something is divided: channels into surfaces.
const DIVISORS: [&str; 1] = ["lanes"];
/// Names that contain one of [`PARTS`] and mean something else: sizes of the multipliers, atomic operations.
const OTHERS: [&str; 8] =
    ["atoms", "Atoms", "atomic_c", "atomic_k", "mac_atomic_c", "mac_atomic_k", "AtomicU32", "AtomicU64"];
/// Methods and functions that calculate.
const CALCULATIONS: [&str; 12] = [
    "div_ceil",
    "next_multiple_of",
    "checked_next_multiple_of",
    "is_multiple_of",
    "checked_mul",
    "wrapping_mul",
    "saturating_mul",
    "checked_div",
    "checked_rem",
    "round_up",
    "multiply_add",
    "mul_add",
];

fn speaks_of_layouts(words: &[Word], divides: bool) -> bool {
    words.iter().any(|Word { text, .. }| {
        let lower = text.to_ascii_lowercase();
        !OTHERS.contains(text)
            && (PARTS.iter().any(|part| lower.contains(part))
                || NAMES.contains(text)
                || divides && DIVISORS.contains(text))
    })
}

/// Where the operand that ends before `end` begins: a chain of names, calls and indices.
fn operand_before(words: &[Word], end: usize) -> usize {
    let mut at = end;
    while at > 0 {
        let word = words[at - 1].text;
        if word == ")"
            || word == "]"
            || word == ">" && at > 2 && words[..at - 1].iter().rev().take(4).any(|w| w.text == "<")
        {
            let mut depth = 0;
            while at > 0 {
                at -= 1;
                match words[at].text {
                    ")" | "]" | ">" => depth += 1,
                    "(" | "[" | "<" => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
            }
        } else if is_name(word) || word == "." || word == "::" || word == "?" {
            if ["return", "let", "in", "if", "else", "match", "mut", "const"].contains(&word) {
                break;
            }
            at -= 1;
        } else {
            break;
        }
        // A name directly before a name ends the operand, unless `as` stands between.
        if at > 0
            && at < end
            && is_name(words[at].text)
            && is_name(words[at - 1].text)
            && words[at].text != "as"
            && words[at - 1].text != "as"
        {
            break;
        }
    }
    at
}

/// Where the operand that begins at `start` ends.
fn operand_after(words: &[Word], start: usize) -> usize {
    let mut at = start;
    while at < words.len() {
        let word = words[at].text;
        if word == "(" || word == "[" {
            let mut depth = 0;
            while at < words.len() {
                match words[at].text {
                    "(" | "[" => depth += 1,
                    ")" | "]" => depth -= 1,
                    _ => {}
                }
                at += 1;
                if depth == 0 {
                    break;
                }
            }
        } else if is_name(word)
            || [".", "::", "?", "&", "-", "*"].contains(&word)
                && (at == start || word != "-" && word != "*" && word != "&")
        {
            at += 1;
        } else {
            break;
        }
    }
    at
}

/// The calculations with layouts in a source: line and words.
fn calculations(source: &str) -> Vec<(usize, String)> {
    let words = words(source);
    let mut found = Vec::new();
    for at in 1..words.len() {
        let word = words[at].text;
        let before = words[at - 1].text;
        let (start, end) = if ["*", "/", "%"].contains(&word)
            && (is_name(before) && !["return", "in", "if", "else", "match", "mut", "=", "as", "let"].contains(&before)
                || [")", "]", "?", ">"].contains(&before))
        {
            let after = if words.get(at + 1).is_some_and(|w| w.text == "=") { at + 2 } else { at + 1 };
            (operand_before(&words, at), operand_after(&words, after))
        } else if CALCULATIONS.contains(&word) && words.get(at + 1).is_some_and(|w| w.text == "(") {
            let start = if before == "." { operand_before(&words, at - 1) } else { at };
            if before == "fn" {
                continue;
            }
            (start, operand_after(&words, at + 1))
        } else {
            continue;
        };
        if speaks_of_layouts(&words[start..end], word != "*" && !word.ends_with("mul")) {
            let text: Vec<&str> = words[start..end].iter().map(|word| word.text).collect();
            found.push((words[at].line, text.join(" ")));
        }
    }
    found
}

/// What a source calculates, without the lines.
fn found(source: &str) -> Vec<String> {
    calculations(source).into_iter().map(|(_, code)| code).collect()
}

#[test]
fn the_search_finds_address_arithmetic() {
    for code in [
        "let at = y * line_stride + x;",
        "let at = u64::from(y) * u64::from(cube.line_stride);",
        "let at = (surface as u64).wrapping_mul(self.surface_stride);",
        "let at = y\n    * self\n        .line_stride;",
        "let at = ((c / atom * height + y) * width + x) * atom + c % atom;",
        "at += x * config.memory_atomic as usize;",
        "let surfaces = channels.div_ceil(lanes);",
        "let size = width * channels.next_multiple_of(32);",
        "let surface = c / 32;",
        "let line = round_up(width * 4, config.memory_atomic);",
        "offset = y.checked_mul(plane_stride)?;",
        "let group = k / geometry.group_kernels;",
        "let x = Some(plane.line_stride).map(|stride| y * stride * ATOM_BYTES);",
    ] {
        assert!(!found(code).is_empty(), "not found: {code}");
    }
    assert_eq!(found("a = b * line_stride; // c * line_stride"), ["b * line_stride"]);
    assert_eq!(found("f(a, height * surface_stride as u64, c)"), ["height * surface_stride as u64"]);
}

#[test]
fn the_search_leaves_other_code_alone() {
    for code in [
        "let x = op.stride.x * y + op.pad;",
        "let cycles = mac_atomic_c * mac_atomic_k;",
        "// y * line_stride\nlet a = \"y * line_stride\";",
        "let line_stride = *stride; f(&line_stride, *atom);",
        "fn f(a: *const u8, line_stride: &'static str) -> *mut u8 { a }",
        "#[cfg(test)]\nmod tests { fn f() { y * line_stride } }",
        "let at = cube.line_offset(surface, y) + atoms.span(x);",
    ] {
        assert!(found(code).is_empty(), "found in {code}: {:?}", found(code));
    }
}

#[test]
fn addresses_come_from_the_layouts() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut paths = Vec::new();
    for folder in FOLDERS {
        sources(&root.join(folder), &mut paths);
    }
    let mut used = [false; ALLOWED.len()];
    let mut others = Vec::new();
    for path in paths {
        let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        if name.starts_with(LAYOUTS) || EXEMPT.iter().any(|folder| name.starts_with(folder)) {
            continue;
        }
        for (line, code) in calculations(&fs::read_to_string(&path).unwrap()) {
            let mut is_allowed = false;
            for (used, (file, text, _)) in used.iter_mut().zip(ALLOWED) {
                let this = name == file && code.contains(text);
                *used |= this;
                is_allowed |= this;
            }
            if !is_allowed {
                others.push(format!("{name}:{line}: {code}"));
            }
        }
    }
    assert!(others.is_empty(), "{} calculations outside of the layouts:\n{}", others.len(), others.join("\n"));
    for (used, (file, text, why)) in used.into_iter().zip(ALLOWED) {
        assert!(used && !why.is_empty(), "{file} has no `{text}` any more");
    }
}
