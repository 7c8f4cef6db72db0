// SPDX-License-Identifier: MIT OR Apache-2.0

//! No import circles between the files of a crate: a search through the sources.
//!
//! The files of a crate are the nodes of a graph. It has an edge from file A to file B
//!
//! - where A declares B with `mod b;`: a parent stands above its children, because it chooses among them and passes their
//!   items on (`pub use b::Item`);
//! - where a `use` of A, or a path in A's code that begins with `crate::`, `super::` or `self::`, names B or an item of B.
//!   The file of a path is the longest part of the path that names a file. `use super::Item` is therefore an edge to the
//!   parent, also where the parent only passes `Item` on, and it makes a circle with the parent's `mod`.
//!
//! Items that several files of a folder share are therefore in a file beside them, not in their `mod.rs`. A circle is a
//! strongly connected component with more than one file. Each must be an entry of [`CIRCLES`], which has exactly its files and
//! the reason, and their number may only fall.
//!
//! Files are found as the compiler finds them, from the crate's root by `mod`. Other crates (`crate::uapi` in the engine),
//! modules with a `#[path]`, and tests are left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use nvdla_tests::sources::{is_name, words, Word};

/// Roots of the crates that are searched.
const ROOTS: [&str; 28] = [
    "uapi/src/lib.rs",
    "kmd/engine/src/lib.rs",
    "kmd/linux/main.rs",
    "umd/src/lib.rs",
    "umd/emulator/src/lib.rs",
    "umd/embedded/src/lib.rs",
    "umd/cli/src/lib.rs",
    "umd/capi/src/lib.rs",
    "umd/python/src/lib.rs",
    "umd/frameworks/src/lib.rs",
    "umd/onnxruntime/src/lib.rs",
    "umd/delegate/src/lib.rs",
    "umd/cli/src/bin/nvdla.rs",
    "umd/cli/src/bin/nvdla_runtime.rs",
    "tools/model/src/lib.rs",
    "tools/estimate/src/lib.rs",
    "tools/rtl/src/lib.rs",
    "tools/compiler/src/lib.rs",
    "tools/compiler/src/main.rs",
    "tools/inspect/src/lib.rs",
    "tools/inspect/src/main.rs",
    "tools/trace/src/lib.rs",
    "tools/trace/src/main.rs",
    "tools/vp/src/main.rs",
    "tools/xtask/src/main.rs",
    "tests/src/lib.rs",
    "tests/guest/src/bin/nvdla_driver_test/main.rs",
    "tests/guest/src/bin/nvdla_driver_fuzz/main.rs",
];

/// Modules of the kernel module that no file of it declares: those that are crates elsewhere, and what the kernel's macro
/// `module!` makes.
const OTHERS: [&str; 3] = ["uapi", "engine", "module_parameters"];

/// The circles that there are, each with exactly its files, and why it stays.
const CIRCLES: [(&[&str], &str); 1] = [(
    &["kmd/linux/client.rs", "kmd/linux/driver.rs", "kmd/linux/gem.rs", "kmd/linux/ioctl.rs"],
    "`drm::Driver` names the types of files, buffers and ioctls, which in turn name the driver",
)];

/// The number of files in [`CIRCLES`]. It may only fall.
const FILES_IN_CIRCLES: usize = 4;

/// The path of a module within its crate.
type Module = Vec<String>;

/// A file, the modules that it declares, and the modules or items that its paths name.
#[derive(Debug, Default)]
struct File {
    name: String,
    children: Vec<Module>,
    paths: Vec<Module>,
}

/// The paths of a `use` tree that begins at `at`, relative to `prefix`, and where the tree ends.
fn tree(words: &[Word], mut at: usize, prefix: &[String], into: &mut Vec<Module>) -> usize {
    let mut path = prefix.to_vec();
    while at < words.len() {
        match words[at].text {
            "::" | "*" => {}
            "{" => {
                at += 1;
                while words[at].text != "}" {
                    at = tree(words, at, &path, into);
                    at += usize::from(words[at].text == ",");
                }
                return at + 1;
            }
            "as" => at += 1,
            word if is_name(word) => path.push(word.to_owned()),
            _ => break,
        }
        at += 1;
    }
    into.push(path);
    at
}

/// The absolute form of a path that begins with `crate`, `super` or `self` in module `here`.
fn absolute(path: &[String], here: &[String]) -> Option<Module> {
    let (mut base, mut rest) = match path.first()?.as_str() {
        "crate" => (Vec::new(), &path[1..]),
        "self" => (here.to_vec(), &path[1..]),
        "super" => (here.to_vec(), path),
        _ => return None,
    };
    while rest.first().is_some_and(|word| word == "super") {
        base.pop();
        rest = &rest[1..];
    }
    base.extend(rest.iter().filter(|word| *word != "self").cloned());
    Some(base)
}

/// Where the group of brackets that follows `at` ends.
fn group_end(words: &[Word], at: usize) -> usize {
    let mut depth = 0;
    for (index, word) in words.iter().enumerate().skip(at) {
        match word.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" if depth == 1 => return index + 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
    }
    words.len()
}

/// Reads the modules that a source of module `module` declares, and the paths that it names.
fn read(source: &str, module: &[String]) -> File {
    let words = words(source);
    let mut file = File::default();
    let mut here = module.to_vec();
    // Depths of braces at which the modules within this file end.
    let (mut depth, mut inner) = (0, Vec::new());
    // The end of a macro. Relative paths in it are those of its users.
    let mut macro_end = 0;
    let mut at = 0;
    while at < words.len() {
        let before = |back: usize| at.checked_sub(back).map_or("", |at| words[at].text);
        let after = |on: usize| words.get(at + on).map_or("", |word| word.text);
        let starts_path = words[at].text == "crate" || at >= macro_end && matches!(words[at].text, "super" | "self");
        let starts_path = starts_path && after(1) == "::" && before(1) != "::";
        match words[at].text {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                if inner.last() == Some(&depth) {
                    inner.pop();
                    here.pop();
                }
            }
            "macro_rules" => macro_end = group_end(&words, at),
            "mod" if after(2) == ";" => {
                let is_test = (1..=7).rev().map(before).eq(["#", "[", "cfg", "(", "test", ")", "]"]);
                if !is_test && after(1) != "tests" {
                    file.children.push([&here[..], &[after(1).to_owned()]].concat());
                }
            }
            "mod" if after(2) == "{" => {
                here.push(after(1).to_owned());
                inner.push(depth);
            }
            "use" if after(1) != "<" && at >= macro_end => {
                let mut paths = Vec::new();
                at = tree(&words, at + 1, &[], &mut paths);
                file.paths.extend(paths.iter().filter_map(|path| absolute(path, &here)));
                continue;
            }
            // `pub(in crate::x)` names no item.
            _ if starts_path && !(before(1) == "in" && before(2) == "(") => {
                let mut paths = Vec::new();
                let end = (at..words.len())
                    .take_while(|at| words[*at].text == "::" || is_name(words[*at].text))
                    .last()
                    .map_or(at, |last| last + 1);
                tree(&words[..end], at, &[], &mut paths);
                file.paths.extend(paths.iter().filter_map(|path| absolute(path, &here)));
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    file
}

/// The files of the crate with the root `root`, by module.
fn files(base: &Path, root: &str) -> BTreeMap<Module, File> {
    let mut files = BTreeMap::new();
    let folder = Path::new(root).parent().unwrap().to_owned();
    let mut next: Vec<(Module, PathBuf, PathBuf)> = vec![(Vec::new(), root.into(), folder)];
    while let Some((module, path, folder)) = next.pop() {
        let source = fs::read_to_string(base.join(&path)).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut file = read(&source, &module);
        path.to_str().unwrap().clone_into(&mut file.name);
        for child in &file.children {
            let folder: PathBuf = folder.join(child[module.len()..].iter().collect::<PathBuf>());
            let found = [folder.with_extension("rs"), folder.join("mod.rs")];
            next.extend(
                found.into_iter().find(|path| base.join(path).exists()).map(|path| (child.clone(), path, folder)),
            );
        }
        files.insert(module, file);
    }
    files
}

/// For each file, the files that it imports.
fn edges(files: &BTreeMap<Module, File>) -> BTreeMap<&str, Vec<&str>> {
    files
        .values()
        .map(|file| {
            let to = file.children.iter().filter_map(|child| files.get(child));
            let named = file.paths.iter().filter_map(|path| {
                let length = (0..=path.len()).rev().find(|length| files.contains_key(&path[..*length]))?;
                let is_other = length == 0 && path.first().is_some_and(|word| OTHERS.contains(&word.as_str()));
                files.get(&path[..length]).filter(|_| !is_other)
            });
            let mut to: Vec<&str> =
                to.chain(named).map(|to| to.name.as_str()).filter(|name| *name != file.name).collect();
            to.sort_unstable();
            to.dedup();
            (file.name.as_str(), to)
        })
        .collect()
}

/// Tarjan's strongly connected components with more than one member, each sorted.
fn circles<'t>(edges: &BTreeMap<&'t str, Vec<&'t str>>) -> Vec<Vec<&'t str>> {
    struct Search<'e, 't> {
        edges: &'e BTreeMap<&'t str, Vec<&'t str>>,
        // Number and lowest reachable number of each visited node.
        numbers: BTreeMap<&'t str, (usize, usize)>,
        stack: Vec<&'t str>,
        found: Vec<Vec<&'t str>>,
    }
    impl<'t> Search<'_, 't> {
        fn visit(&mut self, node: &'t str) -> usize {
            let number = self.numbers.len();
            self.numbers.insert(node, (number, number));
            self.stack.push(node);
            let mut low = number;
            for to in self.edges.get(node).into_iter().flatten() {
                match self.numbers.get(to) {
                    None => low = low.min(self.visit(to)),
                    Some((number, _)) if self.stack.contains(to) => low = low.min(*number),
                    Some(_) => {}
                }
            }
            if low == number {
                let first = self.stack.iter().position(|other| *other == node).unwrap();
                let mut members = self.stack.split_off(first);
                members.sort_unstable();
                self.found.extend((members.len() > 1).then_some(members));
            }
            low
        }
    }
    let mut search = Search { edges, numbers: BTreeMap::new(), stack: Vec::new(), found: Vec::new() };
    for node in edges.keys() {
        if !search.numbers.contains_key(node) {
            search.visit(node);
        }
    }
    search.found
}

/// The paths of a source of module `a::b`, each as one text.
fn paths(source: &str) -> Vec<String> {
    read(source, &["a".to_owned(), "b".to_owned()]).paths.iter().map(|path| path.join("::")).collect()
}

#[test]
fn paths_are_found() {
    for (code, expected) in [
        ("use crate::x::{y::Z, w::{self, V}};", vec!["x::y::Z", "x::w", "x::w::V"]),
        ("pub(crate) use super::c::D as E;", vec!["a::c::D"]),
        ("use super::super::x::*;", vec!["x"]),
        ("use self::c::D;", vec!["a::b::c::D"]),
        ("fn f() { super::c::d(crate::X) }", vec!["a::c::d", "X"]),
        ("mod inner { use super::X; } use super::Y;", vec!["a::b::X", "a::Y"]),
        ("macro_rules! m { () => { $crate::x::y(super::Z) } } use super::V;", vec!["x::y", "a::V"]),
        ("use std::fs; extern crate c; pub(in crate::x) fn f(self) { self.y() } // use super::X;", vec![]),
        ("#[cfg(test)]\nmod tests { use super::X; }", vec![]),
    ] {
        assert_eq!(paths(code), expected, "{code}");
    }
    let file = read("mod c; #[cfg(test)] mod d; mod tests; pub mod e;", &[]);
    assert_eq!(file.children, [["c"], ["e"]]);
}

#[test]
fn circles_are_found() {
    let edges = |list: &[(&'static str, &[&'static str])]| list.iter().map(|(a, b)| (*a, b.to_vec())).collect();
    assert_eq!(circles(&edges(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])])), Vec::<Vec<&str>>::new());
    assert_eq!(
        circles(&edges(&[("a", &["b"]), ("b", &["c"]), ("c", &["a"]), ("d", &["a", "e"]), ("e", &["d"])])),
        [vec!["a", "b", "c"], vec!["d", "e"]]
    );
}

#[test]
fn files_import_each_other_only_where_it_is_listed() {
    let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = [false; CIRCLES.len()];
    let mut others = String::new();
    for root in ROOTS {
        let files = files(&base, root);
        let edges = edges(&files);
        for circle in circles(&edges) {
            if let Some(listed) = CIRCLES.iter().position(|(files, _)| *files == circle) {
                found[listed] = true;
                continue;
            }
            writeln!(others, "\n{} files of {root} import each other:", circle.len()).unwrap();
            for file in &circle {
                let to: Vec<_> = edges[file].iter().filter(|to| circle.contains(to)).copied().collect();
                writeln!(others, "    {file} -> {}", to.join(", ")).unwrap();
            }
        }
    }
    assert!(others.is_empty(), "circles that are not listed:\n{others}");
    for (found, (files, why)) in found.into_iter().zip(CIRCLES) {
        assert!(found && !why.is_empty(), "no circle of exactly these files any more: {files:?}");
    }
    assert_eq!(CIRCLES.iter().map(|(files, _)| files.len()).sum::<usize>(), FILES_IN_CIRCLES);
}
