// SPDX-License-Identifier: GPL-2.0-only OR MIT

use nvdla_uapi::layout::{Document, Rule};
use std::fs;
use std::path::Path;

#[test]
fn every_rule_names_its_document() {
    for rule in Rule::ALL {
        assert!(!rule.subject().is_empty() && !rule.section().is_empty(), "{rule:?}");
        assert!(matches!(rule.document(), Document::Nvdla | Document::Tpu | Document::Caller));
    }
}

/// All Rust text under a folder.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text += &sources(&path);
        } else {
            text += &fs::read_to_string(path).unwrap();
        }
    }
    text
}

#[test]
fn the_table_of_rules_names_what_exists() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(here.join("../docs/layouts/rules.md")).unwrap();
    let code = sources(&here.join("src/layout"));
    let mut rows = 0;
    for line in page.lines().filter(|line| line.starts_with('|') && line.contains('`')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, function, test] = cells[..] else { panic!("not three columns: {line}") };
        let name = function.rsplit("::").next().unwrap();
        assert!(
            code.contains(&format!("fn {name}(")) || code.contains(&format!("fn {name}<")),
            "no function {function}"
        );
        let (text, name) = if let Some((file, name)) = test.split_once(": ") {
            (fs::read_to_string(here.join("..").join(file)).unwrap(), name)
        } else {
            let (module, name) = test.split_once("::").unwrap();
            (fs::read_to_string(here.join(format!("tests/layout/{module}.rs"))).unwrap(), name)
        };
        assert!(text.contains(&format!("fn {name}(")), "no test {test}");
        rows += 1;
    }
    assert!(rows > 70, "{rows} rules");
}
