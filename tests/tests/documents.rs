// SPDX-License-Identifier: MIT OR Apache-2.0

//! The commands of README.md, CONTRIBUTING.md and docs/ can be pasted: each program has the options that a command gives it,
//! each target of Cargo exists, and so does each file of the repository.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 6] = ["nvdla", "nvdla_compiler", "nvdla_inspect", "nvdla_runtime", "nvdla_trace", "nvdla_vp"];
/// The option of Cargo for a kind of target, and the folder that holds these.
const TARGETS: [(&str, &str); 3] = [("--test", "tests"), ("--bench", "benches"), ("--example", "examples")];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

/// The documents, with the path of each.
fn documents() -> Vec<(PathBuf, String)> {
    let root = root();
    let mut paths = vec![root.join("README.md"), root.join("CONTRIBUTING.md")];
    for folder in ["docs", "docs/compiler", "docs/frameworks", "docs/layouts"].map(|folder| root.join(folder)) {
        let files = fs::read_dir(folder).expect("the documents").map(|entry| entry.expect("a document").path());
        paths.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read_to_string(path).expect("a document"))).collect()
}

/// The words of each command in a document: the indented lines, without comments, one command per `&&`.
fn commands(text: &str) -> Vec<Vec<String>> {
    let lines = text.replace("\\\n", " ");
    let indented = lines.lines().filter_map(|line| line.strip_prefix("    ")).flat_map(|line| line.split("&&"));
    let words = indented.map(|line| line.split_whitespace().take_while(|word| !word.starts_with('#')));
    words.map(|words| words.map(str::to_owned).collect::<Vec<_>>()).filter(|words| !words.is_empty()).collect()
}

/// The position of the program in a command, if it runs one of this project's: by its name, by its path, or by `cargo run`.
fn program(words: &[String]) -> Option<(usize, &'static str)> {
    words.iter().enumerate().find_map(|(at, word)| {
        let name = word.rsplit('/').next()?;
        Some((at, *PROGRAMS.iter().find(|program| **program == name)?))
    })
}

/// What a program prints for `--help`, by its subcommand. Cargo puts programs beside the folder of the tests.
struct HelpTexts {
    folder: PathBuf,
    texts: BTreeMap<Vec<String>, String>,
}

impl HelpTexts {
    fn of(&mut self, command: &[String]) -> &str {
        self.texts.entry(command.to_vec()).or_insert_with(|| {
            let path = self.folder.join(&command[0]);
            let output = Command::new(&path).args(&command[1..]).arg("--help").output();
            let output = output.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(output.status.success(), "{command:?} --help: {}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("text")
        })
    }
}

#[test]
fn programs_have_the_options_of_the_commands() {
    let test = std::env::current_exe().expect("this test");
    let folder = test.parent().and_then(Path::parent).expect("Cargo's folder").to_path_buf();
    if let Some(missing) = PROGRAMS.into_iter().find(|program| !folder.join(program).exists()) {
        assert!(std::env::var_os("CI").is_none(), "{missing} is not built");
        eprintln!("skipped: {missing} is not built; `cargo test --workspace` builds all programs");
        return;
    }
    let mut help_texts = HelpTexts { folder, texts: BTreeMap::new() };
    let mut checked = 0;
    for (path, text) in documents() {
        for words in commands(&text) {
            let Some((at, program)) = program(&words) else { continue };
            let arguments: Vec<_> = words[at + 1..].iter().filter(|word| *word != "--").cloned().collect();
            let is_name =
                |word: &&String| word.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
            let mut command = vec![program.to_owned()];
            command.extend(arguments.iter().take_while(is_name).take(if program == "nvdla" { 1 } else { 3 }).cloned());
            for option in arguments.iter().filter(|word| word.starts_with('-') && word.len() > 1) {
                let option = option.split('=').next().unwrap_or(option);
                let help = help_texts.of(&command);
                let known = help
                    .split(|letter: char| letter.is_whitespace() || ",[=".contains(letter))
                    .any(|word| word == option);
                assert!(known, "{}: {words:?}: {command:?} has no option {option}", path.display());
                checked += 1;
            }
        }
    }
    assert!(checked > 150, "only {checked} options were found");
}

#[test]
fn targets_and_files_of_the_commands_exist() {
    let root = root();
    let members = fs::read_to_string(root.join("Cargo.toml")).expect("the workspace's manifest");
    let members = members.split_once("members = [").and_then(|(_, rest)| rest.split_once(']')).expect("members").0;
    let members: Vec<_> =
        members.split('"').filter(|word| word.chars().any(char::is_alphabetic)).map(|name| root.join(name)).collect();
    let (mut targets, mut files) = (0, 0);
    for (path, text) in documents() {
        for words in commands(&text) {
            let is_cargo = words.windows(2).any(|pair| pair[0] == "cargo" && pair[1] != "xtask");
            for pair in words.windows(2).filter(|_| is_cargo) {
                let Some((_, folder)) = TARGETS.iter().find(|(option, _)| *option == pair[0]) else { continue };
                let exists = members.iter().any(|member| {
                    let file = member.join(folder).join(&pair[1]);
                    file.is_dir() || file.with_extension("rs").exists()
                });
                assert!(exists, "{}: {words:?}: there is no {} {}", path.display(), pair[0], pair[1]);
                targets += 1;
            }
            for word in &words {
                let word = word.trim_start_matches("$(").trim_end_matches(')');
                let of_repository =
                    ["examples/", "tools/", "umd/", "tests/", "docs/"].iter().any(|folder| word.starts_with(folder));
                if of_repository {
                    assert!(root.join(word).exists(), "{}: {words:?}: there is no {word}", path.display());
                    files += 1;
                }
            }
        }
    }
    assert!(targets > 15 && files > 60, "only {targets} targets and {files} files were found");
}
