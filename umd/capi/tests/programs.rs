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
    // What a program should not do.
    let slow = folder.path().join("slow.nvdla");
    fs::write(&slow, slow_network()).unwrap();
    for sanitizer in ["address,undefined", "thread"] {
        let program = folder.path().join("misuse.program");
        succeed(
            Command::new("cc")
                .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-pthread"])
                .arg(format!("-fsanitize={sanitizer}"))
                .arg("-fno-sanitize-recover=all")
                .arg(here().join("tests/programs/misuse.c"))
                .arg("-o")
                .arg(&program)
                .args(flags.split_whitespace()),
        );
        let output = succeed(
            Command::new(&program)
                .arg(example.join("lenet.nv_small.nvdla"))
                .arg(&slow)
                // The library is not instrumented, so ThreadSanitizer sees only the program's side of what they share.
                .env("TSAN_OPTIONS", "ignore_noninstrumented_modules=1")
                .env("LD_LIBRARY_PATH", prefix.join("lib")),
        );
        assert_eq!(output, "held\n", "{sanitizer}");
    }
    // Outputs of several surfaces, lines and columns, on every configuration.
    let program = folder.path().join("outputs.program");
    succeed(
        Command::new("cc")
            .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g", "-fsanitize=address,undefined"])
            .arg(here().join("tests/programs/outputs.c"))
            .arg("-o")
            .arg(&program)
            .args(flags.split_whitespace())
            .arg("-lm"),
    );
    for config in nvdla_uapi::config::Config::ALL {
        let net = folder.path().join("wide.nvdla");
        fs::write(&net, wide_network(config)).unwrap();
        let output = succeed(Command::new(&program).arg(&net).env("LD_LIBRARY_PATH", prefix.join("lib")));
        let line = 7 * config.memory_atomic;
        assert_eq!(output, format!("40 x 5 x 7 in lines of {line} bytes: 0 differ, many values\n"), "{}", config.name);
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
        let told = Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")).output().unwrap();
        let text = String::from_utf8_lossy(&told.stderr).into_owned();
        assert!(told.status.code() == Some(2) && text.contains("NETWORK.nvdla PICTURE"), "{language}: {text}");
        // The thread that runs what the C++ example submits may end after the program.
        if language == "c" && has("valgrind") {
            let checked = Command::new("valgrind")
                .args(["--quiet", "--error-exitcode=9", "--leak-check=full"])
                .arg(&program)
                .args([example.join("lenet.nv_small.nvdla"), example.join("images/seven.pgm")])
                .env("LD_LIBRARY_PATH", prefix.join("lib"))
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&checked.stderr).into_owned();
            assert!(checked.status.success() && text.is_empty(), "{language}: {text}");
        }
    }
}

/// A network whose output has several surfaces, lines and columns.
fn wide_network(config: &'static nvdla_uapi::config::Config) -> Vec<u8> {
    use nvdla_compiler::compiler::Compiler;
    use nvdla_compiler::import::model::Model;
    use nvdla_compiler::ir::{Convolution, Graph, Op, Padding, Range, Ranges};

    let mut graph = Graph::new("wide");
    let input = graph.input("in", &[1, 3, 6, 9]).unwrap();
    let weights: Vec<f32> = (0..40 * 3 * 2 * 3).map(|at| ((at * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let weights = graph.add_constant("weights", &[40, 3, 2, 3], weights).unwrap();
    let (kernel, padding) = ([2, 3], Padding::default());
    let convolution = Convolution { kernel, stride: [1, 1], dilation: [1, 1], group: 1, padding };
    let output = graph.add("conv", Op::Convolution(convolution), &[input, weights], "out").unwrap();
    graph.outputs.push(output);
    let mut ranges = Ranges::new();
    ranges.set(input, Range::of(-1.0, 1.0));
    ranges.set(output, Range::of(-8.0, 8.0));
    let model = Model { graph, reshaped: Vec::new() };
    Compiler::new(config).compile_with(&model, &ranges).unwrap().loadable
}

/// A network that runs for seconds.
fn slow_network() -> Vec<u8> {
    use nvdla_compiler::compiler::Compiler;
    use nvdla_compiler::import::model::Model;
    use nvdla_compiler::ir::{Convolution, Graph, Op, Padding, Ranges};
    use nvdla_compiler::options::Winograd;

    let mut graph = Graph::new("slow");
    let mut last = graph.input("in", &[1, 64, 96, 96]).unwrap();
    let weights = graph.add_constant("weights", &[64, 64, 3, 3], vec![0.01; 64 * 64 * 9]).unwrap();
    for layer in 0..24 {
        let convolution = Convolution {
            kernel: [3, 3],
            stride: [1, 1],
            dilation: [1, 1],
            group: 1,
            padding: Padding { top: 1, bottom: 1, left: 1, right: 1 },
        };
        let name = format!("conv{layer}");
        last = graph.add(name.clone(), Op::Convolution(convolution), &[last, weights], name).unwrap();
    }
    graph.outputs.push(last);
    let model = Model { graph, reshaped: Vec::new() };
    let compiler = Compiler::new(&nvdla_uapi::config::NV_FULL)
        .precision(nvdla_uapi::reg::values::Precision::Fp16)
        .winograd(Winograd::Never);
    compiler.compile_with(&model, &Ranges::new()).unwrap().loadable
}
