// SPDX-License-Identifier: MIT OR Apache-2.0

//! The pictures in `docs/layouts` must equal the output of the commands in its README.
//!
//! `UPDATE_PICTURES=1 cargo test -p nvdla-inspect --test layouts` rewrites them.

use std::fs;
use std::path::Path;

use clap::Parser;
use nvdla_inspect::layout::{picture, svg, Arguments};

/// The command line after `nvdla_inspect layout`.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    layout: Arguments,
}

#[test]
fn pictures_are_what_their_commands_draw() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/layouts");
    let page = fs::read_to_string(docs.join("README.md")).expect("the page of pictures");
    let mut drawn = Vec::new();
    for line in page.lines() {
        let Some(command) = line.trim().strip_prefix("nvdla_inspect layout") else { continue };
        let Some((command, file)) = command.split_once(" --svg docs/layouts/") else { continue };
        let arguments = std::iter::once("layout").chain(command.split_whitespace());
        let arguments = Line::try_parse_from(arguments).unwrap_or_else(|error| panic!("{command}: {error}"));
        let picture = picture(&arguments.layout).unwrap_or_else(|error| panic!("{command}: {error}"));
        assert!(!picture.text(false).is_empty() && picture.text(true).contains("\x1b["));
        let svg = svg(&picture);
        if std::env::var_os("UPDATE_PICTURES").is_some() {
            fs::write(docs.join(file), &svg).expect("the picture");
        }
        let kept = fs::read_to_string(docs.join(file)).unwrap_or_default();
        assert!(kept == svg, "docs/layouts/{file} is not what `nvdla_inspect layout{command}` draws");
        drawn.push(file.to_owned());
    }
    assert!(drawn.len() > 40, "{} commands", drawn.len());
    for entry in fs::read_dir(&docs).expect("the folder of pictures") {
        let name = entry.expect("an entry").file_name().into_string().expect("a name");
        if Path::new(&name).extension().is_some_and(|extension| extension == "svg") {
            assert!(drawn.contains(&name), "no command draws {name}");
            assert!(page.contains(&format!("({name})")), "the page does not show {name}");
        }
    }
}

#[test]
fn a_broken_rule_is_named() {
    let error = |line: &str| {
        let line = Line::try_parse_from(line.split_whitespace()).unwrap_or_else(|error| panic!("{error}"));
        picture(&line.layout).expect_err("a broken rule").to_string()
    };
    assert!(error("layout feature --line-stride 100").contains("must be a multiple of 32 (In-memory data formats"));
    assert!(error("layout image --post-extension 3").contains("must be one of 1, 2, 4"));
    assert!(error("layout tpu matrix --w 41").contains("must be at most 40 (TPU local memory, Matrix Layout)"));
    assert!(error("layout pixel --format T_R11").contains("T_R12"));
    assert!(error("layout direct --config nv_tiny").contains("nv_small"));
    assert!(error("layout tpu aligned --shape 1,2,3").contains("this has 3"));
}
