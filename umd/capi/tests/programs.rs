// SPDX-License-Identifier: MIT OR Apache-2.0

//! The committed header is what cbindgen generates, and programs in C99 and C++17 run with an installed library. They are
//! compiled with the flags of pkg-config, under AddressSanitizer and UndefinedBehaviorSanitizer. The script `install` installs
//! the library of this build into a temporary folder.

use std::env;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn the_header_is_up_to_date() {
    let config = cbindgen::Config::from_file(here().join("cbindgen.toml")).unwrap();
    let sources = ["status.rs", "tensor.rs", "lib.rs"].map(|name| here().join("src").join(name));
    let builder = sources.into_iter().fold(cbindgen::Builder::new().with_config(config), cbindgen::Builder::with_src);
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    let path = here().join("include/nvdla.h");
    if env::var_os("NVDLA_HEADER").is_some_and(|value| value == "write") {
        fs::write(&path, &header).unwrap();
    }
    let found = fs::read(&path).unwrap_or_default();
    assert!(found == header, "include/nvdla.h is out of date; NVDLA_HEADER=write cargo test -p nvdla-capi writes it");
}

/// Runs a command, which must succeed, and returns its output.
fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{}{}", text(&stdout), text(&stderr));
    text(&stdout)
}

/// Whether a tool is installed.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: {tool} is not installed");
    }
    found
}

#[test]
fn programs_in_c_and_cpp_classify_the_seven() {
    if !["pkg-config", "cc", "c++"].into_iter().all(has) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    // The library is in the folder of this test.
    let built = env::current_exe().unwrap();
    succeed(Command::new(here().join("install")).arg(&prefix).arg(built.parent().unwrap()));
    let flags = succeed(
        Command::new("pkg-config")
            .args(["--cflags", "--libs", "nvdla"])
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")),
    );
    let example = here().join("../../examples/lenet");
    let run = |program: &Path, device: &[&str]| {
        succeed(
            Command::new(program)
                .args([example.join("lenet.nv_small.nvdla"), example.join("images/seven.pgm")])
                .args(device)
                .env("LD_LIBRARY_PATH", prefix.join("lib")),
        )
    };
    for (compiler, standard, source) in [("cc", "-std=c99", "classify.c"), ("c++", "-std=c++17", "classify.cpp")] {
        let program = folder.path().join(source).with_extension("program");
        succeed(
            Command::new(compiler)
                .args([standard, "-D_POSIX_C_SOURCE=200112L", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g"])
                .args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-pthread"])
                .arg(here().join("tests/programs").join(source))
                .arg("-o")
                .arg(&program)
                .args(flags.split_whitespace()),
        );
        let output = run(&program, &["model:nv_small"]);
        assert_eq!(output, "device: the built-in model of nv_small\nclass 7\n", "{source}");
    }
    // The examples of the document are whole programs.
    let document = fs::read_to_string(here().join("../../docs/library.md")).unwrap();
    for (compiler, standard, language) in [("cc", "-std=c99", "c"), ("c++", "-std=c++17", "cpp")] {
        let fence = format!("```{language}\n");
        let start = document.find(&fence).unwrap() + fence.len();
        let source = folder.path().join("example").with_extension(language);
        fs::write(&source, &document[start..start + document[start..].find("```").unwrap()]).unwrap();
        let program = source.with_extension(format!("{language}.program"));
        succeed(
            Command::new(compiler).arg(standard).arg(&source).arg("-o").arg(&program).args(flags.split_whitespace()),
        );
        assert_eq!(run(&program, &[]), "class 7\n", "{language}");
    }
}
