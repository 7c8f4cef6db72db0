// SPDX-License-Identifier: MIT OR Apache-2.0

//! The program as a user meets it: what it prints, what it writes, and one clear sentence for every mistake.

use std::path::Path;
use std::process::{Command, Output};
use std::{fs, io};

use tempfile::TempDir;

/// The project's own network.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/lenet");

/// A folder that is removed when the test ends.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_nvdla_runtime"))
            .args(arguments)
            .current_dir(self.0.path())
            .env_remove("RUST_LOG")
            .output()
            .unwrap()
    }

    /// A run that must succeed; its standard output.
    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// A run that must fail with an exit status that says why; its standard error.
    fn fail(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let error = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(2..=6)), "{arguments:?}: {:?} {error}", output.status);
        assert!(!error.contains("panicked"), "{error}");
        error.lines().filter(|line| !line.starts_with("warning")).collect::<Vec<_>>().join("\n")
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.0.path().join(name)).unwrap()
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.path().join(name), bytes).unwrap();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn example(file: &str) -> String {
    Path::new(EXAMPLE).join(file).to_string_lossy().into_owned()
}

fn lenet() -> String {
    example("lenet.nv_small.nvdla")
}

fn seven() -> String {
    example("images/seven.pgm")
}

#[test]
fn an_image_is_classified() {
    let folder = Folder::new();
    let output = folder.succeed(&["--loadable", &lenet(), "--image", &seven(), "--top", "3"]);
    let model = "device: the built-in model of nv_small";
    assert!(output.contains(model) || output.contains("device: /dev/dri/"), "{output}");
    assert!(output.contains("task 0 (NVDLA, ") && output.contains(" ms\n"), "{output}");
    assert!(output.contains("wrote output.dimg"), "{output}");
    let classes: Vec<_> = output.lines().skip_while(|line| !line.starts_with("output \"")).skip(1).take(3).collect();
    assert!(classes[0].trim_start().starts_with("7 "), "{output}");
    assert_eq!(&folder.read("output.dimg")[..8], b"DIMG\0\0\0\0");
}

#[test]
fn the_model_says_why_it_runs() {
    let folder = Folder::new();
    let output = folder.succeed(&["--loadable", &lenet(), "--image", &seven(), "--device", "model"]);
    assert!(output.contains("device: the built-in model of nv_small: "), "{output}");
    assert!(output.contains("the loadable is for nv_small ("), "{output}");
    let large = example("lenet.nv_large.nvdla");
    let output = folder.succeed(&["--loadable", &large, "--image", &seven(), "--device", "model:nv_large"]);
    assert!(output.contains("device: the built-in model of nv_large: selected by the user"), "{output}");
}

#[test]
fn json_has_everything() {
    let folder = Folder::new();
    folder.write("labels.txt", b"zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n");
    let output = folder.succeed(&[
        "--loadable",
        &lenet(),
        "--image",
        &seven(),
        "--labels",
        "labels.txt",
        "--json",
        "--repeat",
        "2",
        "--device",
        "model",
    ]);
    let object: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(object["device"]["kind"], "model");
    assert_eq!(object["device"]["configuration"], "nv_small");
    assert_eq!(object["runs"], 2);
    assert_eq!(object["tasks"].as_array().unwrap().len(), 2);
    assert!(object["tasks"][0]["milliseconds"]["median"].as_f64().unwrap() > 0.0);
    let best = &object["outputs"][0]["best"][0][0];
    assert_eq!((&best["class"], &best["label"]), (&serde_json::json!(7), &serde_json::json!("seven")));
    assert_eq!(object["wrote"][0], "output.dimg");
}

#[test]
fn raw_tensors_go_in_and_out() {
    let folder = Folder::new();
    // The input tensor of an image, dumped and given as --input, gives the same output.
    folder.succeed(&["--loadable", &lenet(), "--image", &seven(), "--output", "prob=prob.bin", "--dump", "surfaces"]);
    let first = folder.read("prob.bin");
    let image = fs::read(seven()).unwrap();
    let mut input = Vec::new();
    for line in image[image.len() - 784..].chunks(28) {
        input.extend(line.iter().map(|&sample| ((u32::from(sample) * 254 + 255) / 510) as u8));
        input.extend([0; 4]);
    }
    folder.write("in.bin", &input);
    let arguments =
        ["--loadable", &lenet(), "--input", "data=in.bin", "--output", "again.bin", "--compare", "surfaces"];
    let output = folder.succeed(&arguments);
    assert_eq!(folder.read("again.bin"), first);
    assert!(output.contains(" surfaces: 0 differ, 0 have no file"), "{output}");
}

#[test]
fn a_surface_that_differs_is_named() {
    let folder = Folder::new();
    folder.succeed(&["--loadable", &lenet(), "--image", &seven(), "--dump", "surfaces"]);
    let mut files: Vec<_> =
        fs::read_dir(folder.0.path().join("surfaces")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "bin"));
    files.sort();
    let file = &files[0];
    let mut surface = fs::read(file).unwrap();
    let expected = surface[9].wrapping_add(1);
    let got = surface[9] as i8;
    surface[9] = expected;
    fs::write(file, &surface).unwrap();
    let error = folder.fail(&["--loadable", &lenet(), "--image", &seven(), "--compare", "surfaces"]);
    let values = format!(
        "at byte 0x9 (c 1, y 0, x 1): expected {}, got {got} (1 of {} bytes differ)",
        expected as i8,
        surface.len()
    );
    assert!(error.contains("1 of ") && error.contains("surfaces differ; the first: operation "), "{error}");
    assert!(error.contains(&values), "{error}\n{values}");

    fs::write(file, &surface[1..]).unwrap();
    let error = folder.fail(&["--loadable", &lenet(), "--image", &seven(), "--compare", "surfaces"]);
    assert!(error.contains(&format!("expected {} bytes", surface.len() - 1)), "{error}");
    fs::create_dir(folder.0.path().join("empty")).unwrap();
    let error = folder.fail(&["--loadable", &lenet(), "--image", &seven(), "--compare", "empty"]);
    assert_eq!(error, "error: empty has no surface to compare with: no file op_t<task>_<operation>_<UNIT>.bin");
}

#[test]
fn rawdump_is_text() {
    let folder = Folder::new();
    folder.succeed(&["--loadable", &lenet(), "--image", &seven(), "--rawdump"]);
    let dump = text(&folder.read("output.dimg"));
    assert!(dump.ends_with(' '), "{dump}");
    let values: Vec<i8> = dump.split_ascii_whitespace().map(|value| value.parse().unwrap()).collect();
    assert_eq!(values.len(), 10);
    assert_eq!(values.iter().max(), Some(&values[7]));
}

#[test]
fn images_that_cannot_be_used() {
    let folder = Folder::new();
    let run = |file: &str| folder.fail(&["--loadable", &lenet(), "--image", file]);
    assert_eq!(run("nowhere.pgm"), "error: cannot read the image nowhere.pgm: No such file or directory (os error 2)");
    folder.write("text.png", b"this is no picture");
    assert!(run("text.png").starts_with("error: text.png is not a pgm, ppm, png or jpeg image that can be decoded: "));
    folder.write("short.pgm", b"P5\n28 28\n255\nabc");
    assert!(run("short.pgm").starts_with("error: short.pgm is not a pgm"), "{}", run("short.pgm"));
    folder.write("empty.jpg", b"");
    assert!(run("empty.jpg").starts_with("error: empty.jpg is not a pgm"));
    // Its first picture.
    assert!(run(".").starts_with("error: ./empty.jpg is not a pgm"), "{}", run("."));

    let mut wide = b"P5\n56 28\n255\n".to_vec();
    wide.extend([255; 56 * 28]);
    folder.write("wide.pgm", &wide);
    assert_eq!(
        run("wide.pgm"),
        "error: wide.pgm: the image has 56 x 28 pixels and the input tensor \"data\" 28 x 28; the option resize scales it"
    );
    folder.succeed(&["--loadable", &lenet(), "--image", "wide.pgm", "--resize"]);
    let twice = folder.fail(&["--loadable", &lenet(), "--image", &seven(), "--image", &seven()]);
    assert_eq!(twice, "error: --image was given 2 times, and the input \"data\" takes 1");
}

#[test]
fn options_that_cannot_be_used() {
    let folder = Folder::new();
    let lenet = lenet();
    let seven = seven();
    let run = |more: &[&str]| folder.fail(&[&["--loadable", &lenet, "--image", &seven], more].concat());
    assert!(folder.fail(&[]).contains("--loadable"));
    assert!(run(&["--no-such-option"]).contains("--no-such-option"));
    assert!(run(&["--repeat", "0"]).contains("--repeat"));
    assert!(run(&["--timeout", "0"]).contains("a task needs at least 1 ms"));
    assert!(run(&["--normalize", "half"]).contains("--normalize"));
    assert_eq!(run(&["--normalize", "0"]), "error: normalize is 0; samples cannot be divided by it");
    assert_eq!(run(&["--mean", "1,2,3,4,5"]), "error: --mean has 5 numbers, and an image at most 4 channels");
    assert!(run(&["--mean", "nan"]).contains("not a number"));
    assert!(run(&["--device", "model:nv_huge"]).contains("there is no configuration \"nv_huge\"; there are nv_full"));
    assert!(run(&["--device", "/dev/no-such-node"]).starts_with("error: cannot open /dev/no-such-node: No such file"));
    assert!(run(&["--device", "/dev/null"]).starts_with("error: "));
    let error = run(&["--device", "nv_small"]);
    assert!(error.contains("nv_small is a configuration and no device; model:nv_small is its model"), "{error}");
    assert!(run(&["--input", "other=x.bin"]).contains("there is no input other; the loadable has \"data\""));
    assert!(run(&["--output", "other=x.bin"]).contains("there is no output other; the loadable has \"prob\""));
    assert!(run(&["--input", "x.bin"]).starts_with("error: cannot read the input x.bin: No such file"));
    folder.write("x.bin", &[0; 10]);
    let error = run(&["--input", "x.bin"]);
    assert!(error.contains("input 0 (\"data\"): it has 896 bytes, 10 were given"), "{error}");
    folder.write("x.bin", &[0; 896]);
    assert_eq!(run(&["--input", "x.bin"]), "error: --image and --input both fill the input \"data\"");
    assert!(run(&["--labels", "none.txt"]).starts_with("error: cannot read the labels none.txt: No such file"));
    folder.write("few.txt", b"a\nb\n");
    assert_eq!(run(&["--labels", "few.txt"]), "error: few.txt has 2 labels, and the output \"prob\" has 10 classes");
    assert!(run(&["--compare", "none"]).starts_with("error: cannot read none: No such file"));
    assert!(run(&["--dump", "x.bin"]).starts_with("error: cannot make the folder x.bin: "));
    assert!(run(&["--output", "no/such/folder.bin"]).starts_with("error: cannot write no/such/folder.bin: No such"));
    // Before a simulator is started.
    let error = run(&["--device", "rtl:no/such/simulator", "--trace-fst", "no/such/waves.fst"]);
    assert!(error.starts_with("error: cannot write no/such/waves.fst: No such"), "{error}");
}

#[test]
fn loadables_that_cannot_be_used() {
    let folder = Folder::new();
    let run = |file: &str| folder.fail(&["--loadable", file]);
    let missing = run("none.nvdla");
    assert!(missing.starts_with("error: ") && missing.contains("none.nvdla"), "{missing}");
    assert!(missing.contains("No such file"), "{missing}");
    folder.write("empty.nvdla", b"");
    assert!(run("empty.nvdla").starts_with("error: empty.nvdla: "), "{}", run("empty.nvdla"));
    folder.write("text.nvdla", b"not a loadable at all, but long enough to be one");
    assert!(run("text.nvdla").starts_with("error: text.nvdla: "), "{}", run("text.nvdla"));
    let whole = fs::read(lenet()).unwrap();
    folder.write("cut.nvdla", &whole[..whole.len() / 2]);
    assert!(run("cut.nvdla").starts_with("error: cut.nvdla: "), "{}", run("cut.nvdla"));
    assert!(run(".").starts_with("error: "));
    assert!(!folder.0.path().join("output.dimg").exists(), "nothing is written when nothing ran");
}

#[test]
fn a_task_that_takes_too_long_is_named() {
    let folder = Folder::new();
    // A fast machine may end in time.
    let output = folder.run(&["--loadable", &lenet(), "--image", &seven(), "--timeout", "1"]);
    if !output.status.success() {
        let error = text(&output.stderr);
        assert!(error.contains("task 0 failed: the task did not end within 1ms"), "{error}");
    }
}

#[test]
fn a_profile_has_one_row_per_operation() {
    let folder = Folder::new();
    let arguments = ["--loadable", &lenet(), "--image", &seven(), "--device", "model", "--clock", "100"];
    let output = folder.succeed(&[&arguments[..], &["--profile"]].concat());
    assert!(output.contains("estimate for nv_small at 100 MHz, DRAM 10 GB/s"), "{output}");
    assert!(output.contains("limited by") && output.contains("total: "), "{output}");
    let operations = output.lines().filter(|line| line.contains(" CONV ") || line.contains(" SDP ")).count();
    assert!(operations >= 8, "{output}");

    folder.succeed(&[&arguments[..], &["--profile=trace.json"]].concat());
    let trace: serde_json::Value = serde_json::from_slice(&folder.read("trace.json")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert!(events.iter().filter(|event| event["ph"] == "X").count() >= operations);
    assert!(events.iter().any(|event| event["args"]["name"] == "CONV"));

    let output = folder.succeed(&[&arguments[..], &["--profile", "--json", "--bandwidth", "0.5"]].concat());
    let object: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert!(object["profile"]["cycles"].as_u64().unwrap() > 0);
    assert_eq!(object["profile"]["dram_gb_s"], 0.5);
    assert!(folder.fail(&["--loadable", &lenet(), "--profile", "--clock", "0"]).contains("it must be above 0"));
}

/// The software project's own tests: no image, and the elements of the file that their runtime wrote.
#[test]
fn the_regression_set_has_its_elements() {
    let Some(path) = nvdla_tests::reference::folder().map(|folder| folder.join("regression")) else { return };
    let folder = Folder::new();
    let mut cases: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    for case in &cases {
        folder.succeed(&["--loadable", &case.join("loadable.nvdla").to_string_lossy(), "--device", "model"]);
        let golden = fs::read(case.join("golden.dimg")).unwrap();
        assert!(folder.read("output.dimg")[36..] == golden[36..], "{}", case.display());
    }
    eprintln!("{} files match", cases.len());
    assert_eq!(cases.len(), 11);
}

#[test]
fn help_and_version() {
    let folder = Folder::new();
    for option in ["-h", "--help"] {
        let help = folder.succeed(&[option]);
        for name in [
            "--loadable",
            "--image",
            "--normalize",
            "--mean",
            "--rawdump",
            "--device",
            "--input",
            "--output",
            "--dump",
            "--compare",
            "--top",
            "--labels",
            "--resize",
            "--repeat",
            "--timeout",
            "--run-timeout",
            "--order",
            "--json",
            "--profile",
            "-v",
        ] {
            assert!(help.contains(name), "{name}");
        }
    }
    assert!(folder.succeed(&["--version"]).starts_with("nvdla_runtime "));
}

#[test]
fn a_closed_output_is_no_error() {
    let folder = Folder::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_nvdla_runtime"))
        .args(["--loadable", &lenet(), "--image", &seven()])
        .current_dir(folder.0.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut error = String::new();
    io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut error).unwrap();
    assert!(child.wait().unwrap().success(), "{error}");
    assert!(!error.contains("panicked"), "{error}");
    assert!(!folder.read("output.dimg").is_empty());
}

/// A hostile file's path; none without the reference data.
fn hostile(name: &str) -> Option<String> {
    let path = nvdla_tests::reference::folder()?.join("loadables-hostile").join(name).with_extension("nvdla");
    Some(path.to_string_lossy().into_owned())
}

impl Folder {
    /// A run that may have this much address space and must end within a minute; its standard error.
    fn run_limited(&self, kilobytes: u32, arguments: &[&str]) -> (bool, String) {
        let script = format!("ulimit -v {kilobytes}; exec timeout -s KILL 60 \"$0\" \"$@\"");
        let output = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_nvdla_runtime")])
            .args(arguments)
            .current_dir(self.0.path())
            .env_remove("RUST_LOG")
            .output()
            .unwrap();
        let error = text(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 3..=5)), "{arguments:?}: {:?} {error}", output.status);
        assert!(!error.contains("panicked"), "{error}");
        let printed = [output.stdout, output.stderr].concat();
        let plain = printed.iter().all(|&byte| byte >= b' ' && byte != 0x7f || byte == b'\n');
        assert!(plain, "{arguments:?}: a control character is printed: {:?}", text(&printed));
        (output.status.success(), error)
    }
}

/// Address space for a run of a small file: the program's own code, stacks of its threads, and the file's memories.
const ADDRESS_SPACE: u32 = 4 << 20;

#[test]
fn hostile_files_are_refused_or_bounded() {
    let folder = Folder::new();
    let cases: [(&str, &[&str], &str); 12] = [
        ("channels_max", &[], " needs "),
        ("hang-dimg", &[], " needs "),
        ("abort-1018517", &[], " needs "),
        ("lib_out_c_h_max", &[], " needs "),
        ("lib_in_size_0", &[], " needs "),
        ("lib_in_stride_max", &[], " needs "),
        ("submit_100k", &["--run-timeout", "200"], "error: the run did not end within 200ms: "),
        ("emu_power_endless", &["--timeout", "200"], "the emulated task did not end within 200ms"),
        // A fast machine computes its operations in 0.2 s.
        ("deadline_680", &["--timeout", "20"], "the task did not end within 20ms: "),
        ("escape", &[], ""),
        ("statistics_times", &[], "differ from run to run"),
        ("pdp_parts", &[], "error: task 0 failed: "),
    ];
    for (name, more, expected) in cases {
        let Some(file) = hostile(name) else { return };
        let (succeeded, error) =
            folder.run_limited(ADDRESS_SPACE, &[&["--loadable", &file, "--device", "model"], more].concat());
        assert!(error.contains(expected), "{name}: {error}");
        assert_eq!(succeeded, matches!(name, "escape" | "statistics_times"), "{name}: {error}");
    }
}

#[test]
fn a_name_may_hold_an_equals_sign() {
    let Some(file) = hostile("name_with_equals") else { return };
    let folder = Folder::new();
    folder.write("in.bin", &[1; 896]);
    folder.write("c=d", &[1; 896]);
    for (input, output) in [("a=b=in.bin", "a=b=out.bin"), ("a=b=c=d", "0=e=f"), ("0=c=d", "out.bin")] {
        let arguments = ["--loadable", &file, "--device", "model", "--input", input, "--output", output];
        let printed = folder.succeed(&arguments);
        assert!(printed.contains("wrote out.bin") || printed.contains("wrote e=f"), "{printed}");
    }
    let error = folder.fail(&["--loadable", &file, "--input", "c=d"]);
    assert_eq!(error, "error: there is no input c; the loadable has \"a=b\"");
}

#[test]
fn files_without_an_end_are_refused() {
    let folder = Folder::new();
    let fifo = folder.0.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for (file, why) in [("/dev/zero", "it is a device"), ("fifo", "nothing was written to the pipe for 10 s")] {
        for arguments in [
            vec!["--loadable", file],
            vec!["--loadable", &lenet(), "--device", "model", "--input", file],
            vec!["--loadable", &lenet(), "--device", "model", "--image", file],
            vec!["--loadable", &lenet(), "--device", "model", "--image", &seven(), "--labels", file],
        ] {
            if file == "fifo" && arguments[1] != file && !arguments.contains(&"--input") {
                // Each takes the ten seconds.
                continue;
            }
            let (_, error) = folder.run_limited(ADDRESS_SPACE, &arguments);
            assert!(error.contains(why), "{arguments:?}: {error}");
        }
    }
}

#[test]
fn the_standard_input_is_a_file_too() {
    let folder = Folder::new();
    let mut child = Command::new(env!("CARGO_BIN_EXE_nvdla_runtime"))
        .args(["--loadable", &lenet(), "--image", "-", "--device", "model"])
        .current_dir(folder.0.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    io::Write::write_all(&mut child.stdin.take().unwrap(), &fs::read(seven()).unwrap()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let output = text(&output.stdout);
    assert!(output.lines().any(|line| line.trim_start().starts_with("7 ")), "{output}");
}

/// The program `nvdla`, with its exit status and its outputs.
fn nvdla(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_nvdla"))
        .args(arguments)
        .current_dir(folder.0.path())
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn the_exit_status_says_what_went_wrong() {
    let folder = Folder::new();
    let (lenet, seven, large) = (lenet(), seven(), example("lenet.nv_large.nvdla"));
    let run = |more: &[&str]| nvdla(&folder, &[&["run", "--loadable", &lenet, "--image", &seven], more].concat());
    let (code, shown, _) = run(&["--device", "model", "--dump", "surfaces"]);
    assert_eq!(code, Some(0));
    assert!(shown.contains("     7  126"), "{shown}");
    assert!(!folder.0.path().join("output.dimg").exists(), "only nvdla_runtime writes it");
    assert_eq!(run(&["--no-such-option"]).0, Some(2));
    assert_eq!(run(&["--mean", "nan"]).0, Some(2));
    assert_eq!(run(&["--output", "no/folder.bin"]).0, Some(3));
    assert_eq!(nvdla(&folder, &["run", "--loadable", "none.nvdla"]).0, Some(3));
    assert_eq!(nvdla(&folder, &["run", "--loadable", &large, "--device", "model:nv_small"]).0, Some(4));
    assert_eq!(run(&["--device", "/dev/null"]).0, Some(5));
    let surface = folder.0.path().join("surfaces/op_t0_002_PDP.bin");
    let mut bytes = fs::read(&surface).unwrap();
    bytes[0] ^= 1;
    fs::write(&surface, bytes).unwrap();
    assert_eq!(run(&["--compare", "surfaces"]).0, Some(6));
    let (code, shown, error) = nvdla(&folder, &["run", "--loadable", "none.nvdla", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((code, &object["version"], &object["error"]["status"]), (Some(3), &1.into(), &3.into()), "{error}");
    assert_eq!(object["error"]["kind"], "file");
}

#[test]
fn json_has_a_schema() {
    let folder = Folder::new();
    let (code, shown, _) = nvdla(&folder, &["schema"]);
    assert_eq!(code, Some(0));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/nvdla.schema.json");
    if std::env::var_os("NVDLA_SCHEMA").is_some_and(|value| value == "write") {
        fs::write(&path, &shown).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == shown, "docs/nvdla.schema.json is out of date; nvdla schema prints it");
    let (lenet, seven) = (lenet(), seven());
    let shown = [
        ("tasks", vec!["run", "--loadable", &lenet, "--image", &seven, "--device", "model", "--json"]),
        ("tasks", vec!["run", "--loadable", &lenet, "--device", "model", "--profile", "--dump", "d", "--json"]),
        ("tasks", vec!["run", "--loadable", &lenet, "--device", "model", "--compare", "d", "--json"]),
        // The surfaces of another input.
        ("error", vec!["run", "--loadable", &lenet, "--image", &seven, "--compare", "d", "--json"]),
        ("milliseconds", vec!["bench", "--loadable", &lenet, "--device", "model", "--iterations", "1", "--json"]),
        ("devices", vec!["list", "--json"]),
        ("error", vec!["run", "--loadable", "none", "--json"]),
        ("error", vec!["run", "--json"]),
        ("error", vec!["bench", "--no-such-option", "--json"]),
    ];
    for (field, arguments) in shown {
        let (_, shown, _) = nvdla(&folder, &arguments);
        let object = nvdla_tests::schema::object(&shown);
        assert!(object[field].is_object() || object[field].is_array(), "{arguments:?}: {shown}");
    }
}

#[test]
fn manual_pages_and_completions() {
    let folder = Folder::new();
    let (code, ..) = nvdla(&folder, &["man", "pages"]);
    assert_eq!(code, Some(0));
    let page = String::from_utf8(folder.read("pages/nvdla-bench.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("in\\-flight"), "{page}");
    for shell in ["bash", "zsh", "fish"] {
        let (code, shown, _) = nvdla(&folder, &["completions", shell]);
        assert_eq!(code, Some(0));
        assert!(shown.contains("in-flight") && shown.contains("nvdla"), "{shell}: {shown}");
    }
    assert_eq!(nvdla(&folder, &["completions", "none"]).0, Some(2));
    // The options of the programs behind a command, and the values of options.
    for (command, option) in [("compile", "calibtable"), ("inspect", "check"), ("trace", "counters")] {
        let page = String::from_utf8(folder.read(&format!("pages/nvdla-{command}.1"))).unwrap();
        assert!(page.contains(&format!("\\-\\-{option}")), "{page}");
        for shell in ["bash", "zsh", "fish"] {
            let (_, shown, _) = nvdla(&folder, &["completions", shell]);
            assert!(shown.contains(option), "{shell}: {option}");
        }
    }
    let (_, shown, _) = nvdla(&folder, &["completions", "bash"]);
    assert!(shown.contains("model:nv_medium_512") && shown.contains("vfio-user:"), "{shown}");
}

#[test]
fn arrays_go_in_and_come_out_as_numpy_writes_them() {
    let folder = Folder::new();
    let (lenet, seven) = (lenet(), seven());
    let (code, ..) = nvdla(&folder, &["run", "--loadable", &lenet, "--image", &seven, "--output-dir", "out"]);
    assert_eq!(code, Some(0));
    let scores = nvdla_runtime::npy::parse(&folder.read("out/prob.npy")).unwrap();
    assert_eq!(scores.shape, [1, 10, 1, 1]);
    let sum: f32 = scores.values.iter().sum();
    assert!(scores.values[7] > 0.9 && (0.9..1.1).contains(&sum), "probabilities: {:?}", scores.values);
    // The real numbers of the input's elements, by the scale that the compiler has stored in the loadable.
    let names = nvdla_runtime::loadable::Loadable::open(&lenet).unwrap().names().unwrap();
    let (scale, zero) = (names.inputs[0].scale[0], names.inputs[0].zero_point[0]);
    let image = fs::read(seven).unwrap();
    let element = |&sample: &u8| f64::from((u32::from(sample) * 254 + 255) / 510);
    let pixels: Vec<f32> =
        image[image.len() - 784..].iter().map(|sample| ((element(sample) - zero) * scale) as f32).collect();
    folder.write("in.npy", &nvdla_runtime::npy::bytes(&[1, 1, 28, 28], &pixels));
    let (code, shown, error) = nvdla(&folder, &["run", "--loadable", &lenet, "--input", "in.npy", "--output", "-"]);
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(shown.len(), 16, "the output's bytes, and nothing else");
    assert_eq!(shown.as_bytes()[7], 126);
    assert!(error.contains("     7  126"), "{error}");
    folder.write("short.npy", &nvdla_runtime::npy::bytes(&[1, 1, 28, 27], &pixels[..756]));
    let (code, _, error) = nvdla(&folder, &["run", "--loadable", &lenet, "--input", "short.npy"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("it has 784 elements, 756 were given"), "{error}");
    folder.write("turned.npy", &nvdla_runtime::npy::bytes(&[14, 28, 2], &pixels));
    let (code, _, error) = nvdla(&folder, &["run", "--loadable", &lenet, "--input", "turned.npy"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("it is [1, 1, 28, 28] (N, C, H, W), an array of [14, 28, 2] was given"), "{error}");
}

#[test]
fn a_picture_is_read_in_all_eight_bits_where_the_loadable_says_so() {
    use nvdla_compiler::compiler::Compiler;
    use nvdla_compiler::import::model::{Model, Options};
    use nvdla_compiler::ir::{Color, Preprocess};

    let model = Model::open(example("lenet.onnx").as_ref(), &Options::default()).unwrap();
    let preprocess = Preprocess { std: vec![255.0], color: Color::Gray, ..Preprocess::default() };
    let compiler = Compiler::new(&nvdla_uapi::config::NV_SMALL)
        .preprocess(preprocess)
        .table(fs::read_to_string(example("lenet.scales.json")).unwrap())
        .bytes(nvdla_compiler::options::Bytes::Eight)
        .shares(nvdla_compiler::options::Shares::Int8);
    let folder = Folder::new();
    folder.write("net.nvdla", &compiler.compile(&model).unwrap().loadable);
    let run = |input: &[&str]| {
        let given = [&["run", "--loadable", "net.nvdla", "--output", "-"], input].concat();
        let (code, shown, error) = nvdla(&folder, &given);
        assert_eq!((code, shown.len()), (Some(0), 16), "{error}");
        shown
    };
    // The picture, its bytes (lines of 28, which are 32 apart), and the numbers that they stand for.
    let seven = seven();
    let image = fs::read(&seven).unwrap();
    let pixels = &image[image.len() - 784..];
    folder.write("in.bin", &pixels.chunks_exact(28).flat_map(|line| [line, &[0; 4]].concat()).collect::<Vec<u8>>());
    folder.write("zero.bin", &[0; 28 * 32]);
    let values: Vec<f32> = pixels.iter().map(|&byte| f32::from(byte) / 255.0).collect();
    folder.write("in.npy", &nvdla_runtime::npy::bytes(&[1, 1, 28, 28], &values));
    let scores = run(&["--image", &seven]);
    assert!(scores.as_bytes()[7] > 100, "{scores:?}");
    assert_eq!(scores, run(&["--input", "in.bin"]));
    assert_eq!(scores, run(&["--input", "in.npy"]));
    assert_ne!(scores, run(&["--input", "zero.bin"]));
}

/// LeNet in int8 for a configuration.
fn lenet_for(config: &'static nvdla_uapi::config::Config) -> Vec<u8> {
    use nvdla_compiler::ir::{Color, Preprocess};
    let model = nvdla_compiler::import::model::Model::open(
        example("lenet.onnx").as_ref(),
        &nvdla_compiler::import::model::Options::default(),
    )
    .unwrap();
    let preprocess = Preprocess { std: vec![255.0], color: Color::Gray, ..Preprocess::default() };
    let table = fs::read_to_string(example("lenet.scales.json")).unwrap();
    let compiler = nvdla_compiler::compiler::Compiler::new(config).preprocess(preprocess).table(table);
    compiler.compile(&model).unwrap().loadable
}

#[test]
fn a_loadable_is_run_on_the_configuration_that_it_was_compiled_for() {
    let folder = Folder::new();
    // The emulator's softmax has no format with nv_medium_512's atoms of 16 bytes.
    for config in nvdla_uapi::config::Config::ALL.into_iter().filter(|config| config.memory_atomic != 16) {
        folder.write("net.nvdla", &lenet_for(config));
        let (code, shown, error) = nvdla(&folder, &["run", "--loadable", "net.nvdla", "--image", &seven()]);
        assert_eq!(code, Some(0), "{}: {error}", config.name);
        let device = format!("device: the built-in model of {}: ", config.name);
        assert!(shown.starts_with(&device), "{shown}");
        let best = shown.lines().skip_while(|line| !line.starts_with("output")).nth(1).unwrap();
        assert!(best.trim_start().starts_with("7 "), "{shown}");
    }
    let (code, _, error) = nvdla(&folder, &["run", "--loadable", "net.nvdla", "--device", "model:nv_large"]);
    assert_eq!(code, Some(4), "{error}");
    let suggestion = "the loadable is for nv_small (its compiler has named it), and the device is nv_large; \
                      --device model:nv_small runs it on the model";
    assert!(error.contains(suggestion), "{error}");
}

#[test]
fn a_file_describes_a_configuration() {
    let folder = Folder::new();
    let path = folder.0.path().join("board.json").display().to_string();
    for (base, c, k) in [("nv_small", 8, 8), ("nv_small", 16, 8), ("nv_large", 64, 8), ("nv_large", 32, 32)] {
        let text = format!(
            r#"{{"name": "board", "base": "{base}", "mac_atomic_c": {c}, "mac_atomic_k": {k}, "primary": {{"latency": 10}}}}"#
        );
        folder.write("board.json", text.as_bytes());
        folder.write("net.nvdla", &lenet_for(nvdla_runtime::configuration::find(&path).unwrap()));
        let device = "model:board.json";
        let arguments = ["run", "--loadable", "net.nvdla", "--image", &seven(), "--profile", "--device", device];
        let (code, shown, error) = nvdla(&folder, &arguments);
        assert_eq!(code, Some(0), "{text}: {error}");
        assert!(shown.starts_with("device: the built-in model of board: selected by the user"), "{shown}");
        let best = shown.lines().skip_while(|line| !line.starts_with("output")).nth(1).unwrap();
        assert!(best.trim_start().starts_with("7 "), "{text}: {shown}");
        assert!(shown.lines().any(|line| line.contains("board") && line.contains("MHz")), "{shown}");
    }
    folder.write("board.json", br#"{"name": "board", "base": "nv_small", "mac_atomic_c": 9}"#);
    let (code, _, error) = nvdla(&folder, &["run", "--loadable", &lenet(), "--device", "model:board.json"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("the configuration board.json: mac_atomic_c is 9; it is 8, 16, 32 or 64"), "{error}");
}

#[test]
fn runs_are_counted_and_timed() {
    let folder = Folder::new();
    let lenet = lenet();
    let arguments =
        ["bench", "--loadable", &lenet, "--device", "model", "--iterations", "20", "--in-flight", "4", "--json"];
    let (code, shown, error) = nvdla(&folder, &arguments);
    assert_eq!(code, Some(0), "{error}");
    let object: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(object["iterations"], 20);
    let time = |name: &str| object["milliseconds"][name].as_f64().unwrap();
    assert!(time("least") > 0.0 && time("least") <= time("p50") && time("p50") <= time("p99"), "{shown}");
    assert!(object["shared_bytes"].as_u64().unwrap() > 50_000, "{shown}");
    let (submit, work) =
        (object["submit_microseconds"].as_f64().unwrap(), object["device_microseconds"].as_f64().unwrap());
    assert!(object["queue"] == false && work > 10.0 && submit > 0.0, "{shown}");
    let (code, shown, _) = nvdla(&folder, &["list"]);
    assert_eq!(code, Some(0));
    assert!(shown.contains("model:nv_small"), "{shown}");
}

#[test]
fn a_model_is_compiled_and_measured() {
    let folder = Folder::new();
    let (model, lenet) = (example("lenet.onnx"), lenet());
    let arguments = ["bench", &model, "--config", "nv_small", "--device", "model", "--iterations", "2", "--json"];
    let (code, shown, error) = nvdla(&folder, &arguments);
    assert_eq!(code, Some(0), "{error}");
    let object: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&object["iterations"], &object["loadable"]), (&2.into(), &model.as_str().into()));
    for (options, status, text) in [
        (vec![&model[..]], 2, "--config"),
        (vec![&model, "--config", "nv_small", "--loadable", &lenet], 2, "cannot be used with"),
        (vec!["--loadable", &lenet, "--precision", "fp16"], 2, "MODEL"),
        (vec![&model, "--config", "nv_small", "--precision", "fp16"], 4, "nv_small has no Fp16"),
        (vec!["missing.onnx", "--config", "nv_small"], 3, "missing.onnx"),
        (vec![&lenet, "--config", "nv_small"], 3, "lenet.nv_small.nvdla"),
    ] {
        let (code, _, error) = nvdla(&folder, &[&["bench"], &options[..]].concat());
        assert!(code == Some(status) && error.contains(text), "{options:?}: {code:?}, {error}");
    }
}

/// One run and one folder of outputs per picture.
#[test]
fn a_folder_of_pictures() {
    let folder = Folder::new();
    for digit in ["seven", "two"] {
        let picture = fs::read(example(&format!("images/{digit}.pgm"))).unwrap();
        folder.write(&format!("{digit}.pgm"), &picture);
    }
    folder.write("notes.txt", b"no picture");
    let lenet = lenet();
    let run = ["run", "--loadable", &lenet, "--image", ".", "--device", "model", "--top", "1"];
    let (code, shown, error) = nvdla(&folder, &[&run[..], &["--output-dir", "out"]].concat());
    assert_eq!(code, Some(0), "{error}");
    let classes: Vec<&str> = shown.lines().filter_map(|line| line.trim_start().split("  ").next()).collect();
    let (seven, two) = (shown.find("seven.pgm").unwrap(), shown.find("two.pgm").unwrap());
    assert!(seven < two && classes.contains(&"7") && classes.contains(&"2"), "{shown}");
    let of = |name: &str| fs::read_dir(folder.0.path().join("out").join(name)).unwrap().count();
    assert_eq!([of("seven.pgm"), of("two.pgm")], [1, 1]);
    let (_, shown, _) = nvdla(&folder, &[&run[..], &["--json"]].concat());
    let objects: Vec<serde_json::Value> =
        serde_json::Deserializer::from_str(&shown).into_iter().map(Result::unwrap).collect();
    assert_eq!(objects.len(), 2);
    assert_eq!(objects[1]["inputs"][0]["files"][0], "./two.pgm");
    let (code, _, error) = nvdla(&folder, &[&run[..], &["--output", "y.npy"]].concat());
    assert!(code == Some(2) && error.contains("--output is for one run, and --image . is a folder"), "{error}");
    fs::create_dir(folder.0.path().join("empty")).unwrap();
    let (code, _, error) = nvdla(&folder, &["run", "--loadable", &lenet, "--image", "empty"]);
    assert!(code == Some(2) && error.contains("--image empty has no pictures (.jpeg, .jpg"), "{error}");
}

#[test]
fn verbose_runs_show_their_parts() {
    let folder = Folder::new();
    let (lenet, seven) = (lenet(), seven());
    let lines = |options: &[&str], start: &str| {
        let arguments = [&["run", "--loadable", &lenet, "--image", &seven, "--device", "model"], options].concat();
        let (code, _, error) = nvdla(&folder, &arguments);
        assert_eq!(code, Some(0), "{error}");
        error.lines().filter(|line| line.starts_with(start)).count()
    };
    assert_eq!(lines(&[], ""), 0);
    assert!(lines(&["-v"], "info: ") >= 2);
    assert_eq!(lines(&["-v"], "debug: "), 0);
    assert_eq!(lines(&["-vv"], "debug: task id="), 2);
    assert_eq!(lines(&["-vv"], "debug: run device=the built-in model of nv_small tasks=2: "), 1);
    assert_eq!(lines(&["-vv"], "trace: "), 0);
    assert_eq!(lines(&["-vvv"], "trace: operation number="), 10);
}

#[test]
fn hardware_is_not_recorded() {
    let folder = Folder::new();
    let arguments = ["run", "--loadable", &lenet(), "--image", &seven(), "--record", "trace", "--device"];
    let (code, shown, error) = nvdla(&folder, &[&arguments[..], &["model"]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(shown.contains("wrote trace"), "{shown}");
    let trace = String::from_utf8(folder.read("trace/trace.txt")).unwrap();
    assert_eq!(trace.lines().filter(|line| line.starts_with("compare dram ")).count(), 4, "{trace}");
    let (code, _, error) = nvdla(&folder, &[&arguments[..], &["vfio:0000:00:01.0"]].concat());
    assert_eq!(code, Some(5), "{error}");
    assert!(error.contains("only the model and simulators of the RTL can be recorded"), "{error}");
}

#[test]
fn a_folder_that_cannot_be_written_is_no_failure_after_a_good_run() {
    let folder = Folder::new();
    // A folder has the file's name, because a folder without write permission does not stop root.
    fs::create_dir(folder.0.path().join("output.dimg")).unwrap();
    let output = folder.run(&["--loadable", &lenet(), "--image", &seven(), "--device", "model"]);
    assert!(output.status.success());
    assert!(text(&output.stderr).contains("warning: cannot write output.dimg: "), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("     7  126"));
}

#[test]
fn a_jpeg_that_is_cut_off_is_refused() {
    let folder = Folder::new();
    folder.write("cut.jpg", &[0xff, 0xd8, 0xff, 0xd9]);
    let error = folder.fail(&["--loadable", &lenet(), "--image", "cut.jpg"]);
    assert!(error.starts_with("error: cut.jpg "), "{error}");
}

/// A network whose output has several surfaces, lines and columns, for a configuration.
fn wide_for(config: &'static nvdla_uapi::config::Config) -> Vec<u8> {
    use nvdla_compiler::compiler::Compiler;
    use nvdla_compiler::import::model::Model;
    use nvdla_compiler::ir::{Convolution, Graph, Op, Padding, Range, Ranges};

    let mut graph = Graph::new("wide");
    let input = graph.input("in", &[1, 3, 6, 9]).unwrap();
    let weights: Vec<f32> = (0..40 * 3 * 2 * 3).map(|at| ((at * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let weights = graph.add_constant("weights", &[40, 3, 2, 3], weights).unwrap();
    let convolution =
        Convolution { kernel: [2, 3], stride: [1, 1], dilation: [1, 1], group: 1, padding: Padding::default() };
    let output = graph.add("conv", Op::Convolution(convolution), &[input, weights], "out").unwrap();
    graph.outputs.push(output);
    let mut ranges = Ranges::new();
    ranges.set(input, Range::of(-1.0, 1.0));
    ranges.set(output, Range::of(-8.0, 8.0));
    let model = Model { graph, reshaped: Vec::new() };
    Compiler::new(config).compile_with(&model, &ranges).unwrap().loadable
}

#[test]
fn every_way_out_has_the_elements_on_every_configuration() {
    for config in nvdla_uapi::config::Config::ALL {
        let folder = Folder::new();
        folder.write("net.nvdla", &wide_for(config));
        let input: Vec<f32> = (0..3 * 6 * 9).map(|at| ((at * 29 % 83) as f32 - 41.0) / 41.0).collect();
        folder.write("in.npy", &nvdla_runtime::npy::bytes(&[1, 3, 6, 9], &input));
        let arguments = ["--loadable", "net.nvdla", "--input", "in.npy", "--device", "model"];
        let ways = ["--output", "out.bin", "--output", "out.npy", "--output-dir", "all", "--dump", "dump"];
        folder.succeed(&[&arguments[..], &ways].concat());
        let (memory, atom) = (folder.read("out.bin"), config.memory_atomic as usize);
        let (lines, columns) = (5, 7);
        // Element (c, y, x) of a packed feature cube of bytes.
        let element =
            |c: usize, y: usize, x: usize| memory[(c / atom * lines + y) * columns * atom + x * atom + c % atom] as i8;
        let mut elements = Vec::new();
        for c in 0..40 {
            for y in 0..lines {
                elements.extend((0..columns).map(|x| element(c, y, x)));
            }
        }
        assert!(elements.iter().collect::<std::collections::HashSet<_>>().len() > 50, "{}: {elements:?}", config.name);
        let bytes: Vec<u8> = elements.iter().map(|&element| element as u8).collect();
        assert_eq!(folder.read("output.dimg")[36..], bytes, "{}", config.name);
        let names = nvdla_runtime::loadable::Loadable::from_bytes(folder.read("net.nvdla")).unwrap().names().unwrap();
        let (scale, zero) = (&names.outputs[0].scale, &names.outputs[0].zero_point);
        let at = |list: &[f64], c: usize| list.get(c).copied().unwrap_or(list[0]) as f32;
        let numbers = elements.iter().enumerate().map(|(k, &element)| {
            let c = k / lines / columns;
            (f32::from(element) - at(zero, c)) * at(scale, c)
        });
        let array = nvdla_runtime::npy::parse(&folder.read("out.npy")).unwrap();
        assert_eq!(array.shape, [1, 40, lines, columns]);
        assert_eq!(array.values, numbers.collect::<Vec<_>>(), "{}", config.name);
        assert_eq!(folder.read("all/out.npy"), folder.read("out.npy"), "{}", config.name);
        let mut dumped: Vec<_> =
            fs::read_dir(folder.0.path().join("dump")).unwrap().map(|e| e.unwrap().path()).collect();
        dumped.retain(|path| path.extension().is_some_and(|extension| extension == "bin"));
        dumped.sort();
        assert_eq!(fs::read(dumped.last().unwrap()).unwrap(), memory, "{}", config.name);
        folder.succeed(&[&arguments[..], &["--rawdump"]].concat());
        let text = text(&folder.read("output.dimg"));
        let shown: Vec<i8> = text.split_ascii_whitespace().map(|value| value.parse().unwrap()).collect();
        assert_eq!(shown, elements, "{}", config.name);
    }
}

#[test]
fn no_file_is_written_twice_or_read_and_written() {
    let folder = Folder::new();
    let (lenet, seven) = (lenet(), seven());
    fs::copy(&lenet, folder.0.path().join("net.nvdla")).unwrap();
    fs::copy(&seven, folder.0.path().join("seven.pgm")).unwrap();
    let run = |more: &[&str]| {
        nvdla(
            &folder,
            &[&["run", "--loadable", "net.nvdla", "--image", "seven.pgm", "--device", "model"], more].concat(),
        )
    };
    for more in [
        &["--output", "net.nvdla"][..],
        &["--output", "./seven.pgm"],
        &["--output", "prob=f", "--output", "prob=f"],
        &["--output", "f.npy", "--output", "./f.npy"],
        &["--output", "out/prob.npy", "--output-dir", "out"],
        &["--output", "f", "--profile=f"],
        &["--profile=net.nvdla"],
        &["--dump", "d", "--output", "d/layers.txt"],
        &["--dump", "d", "--output", "d/op_t0_002_PDP.bin"],
        &["--record", "r", "--output", "r/memory.bin"],
        &["--output", "-", "--output", "-"],
    ] {
        let (code, shown, error) = run(more);
        assert_eq!(code, Some(2), "{more:?}: {shown}{error}");
        assert!(error.contains("are one file"), "{more:?}: {error}");
    }
    fs::remove_dir(folder.0.path().join("r")).unwrap();
    let left: Vec<_> = fs::read_dir(folder.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "nothing ran, and nothing was written: {left:?}");
    assert_eq!(folder.read("net.nvdla"), fs::read(&lenet).unwrap());
    assert_eq!(folder.read("seven.pgm"), fs::read(&seven).unwrap());
    // nvdla_runtime always writes output.dimg.
    let error = folder.fail(&["--loadable", &lenet, "--image", &seven, "--output", "output.dimg"]);
    assert!(error.contains("are one file"), "{error}");
    // A name that no file can have is refused before the run.
    let long = "n".repeat(256);
    let (code, _, error) = run(&["--output", &long, "-v"]);
    assert_eq!(code, Some(3), "{error}");
    assert!(error.contains("File name too long"), "{error}");
    assert!(!error.contains("task"), "{error}");
}

#[test]
fn outputs_with_names_that_make_one_file_name_are_refused() {
    use nvdla_compiler::compiler::Compiler;
    use nvdla_compiler::import::model::Model;
    use nvdla_compiler::ir::{Graph, Op, Range, Ranges, Unary};

    let long = format!("{}/", "n".repeat(251));
    for names in [["a/b", "a_b"], [&long, "short"]] {
        let mut graph = Graph::new("two");
        let input = graph.input("in", &[1, 8, 2, 2]).unwrap();
        let mut ranges = Ranges::new();
        ranges.set(input, Range::of(-1.0, 1.0));
        for (name, unary) in names.iter().zip([Unary::Relu, Unary::Clip(-0.5, 0.5)]) {
            let output = graph.add(*name, Op::Unary(unary), &[input], *name).unwrap();
            ranges.set(output, Range::of(-1.0, 1.0));
            graph.outputs.push(output);
        }
        let model = Model { graph, reshaped: Vec::new() };
        let folder = Folder::new();
        let loadable = Compiler::new(&nvdla_uapi::config::NV_SMALL).compile_with(&model, &ranges).unwrap().loadable;
        folder.write("net.nvdla", &loadable);
        let (code, _, error) = nvdla(&folder, &["run", "--loadable", "net.nvdla", "--output-dir", "out"]);
        if names[0] == "a/b" {
            assert_eq!(code, Some(2), "{error}");
            assert!(error.contains("the output \"a/b\"") && error.contains("the output \"a_b\""), "{error}");
        } else {
            assert_eq!(code, Some(3), "{error}");
            assert!(error.contains("File name too long"), "{error}");
        }
        assert!(fs::read_dir(folder.0.path().join("out")).map_or(0, Iterator::count) == 0);
    }
}

#[test]
fn a_full_disk_is_an_error_and_no_panic() {
    let folder = Folder::new();
    let (lenet, seven) = (lenet(), seven());
    let full = || std::process::Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    for arguments in [
        &["run", "--loadable", &lenet, "--image", &seven, "--device", "model"][..],
        &["run", "--loadable", &lenet, "--image", &seven, "--device", "model", "--json"],
        &["run", "--loadable", &lenet, "--image", &seven, "--device", "model", "--output", "-"],
        &["bench", "--loadable", &lenet, "--device", "model", "--iterations", "1"],
        &["list"],
        &["list", "--json"],
        &["schema"],
        &["completions", "bash"],
        &["--help"],
        &["--version"],
    ] {
        let run = |out: std::process::Stdio, error: std::process::Stdio| {
            Command::new(env!("CARGO_BIN_EXE_nvdla"))
                .args(arguments)
                .current_dir(folder.0.path())
                .stdout(out)
                .stderr(error)
                .output()
                .unwrap()
        };
        let output = run(full(), std::process::Stdio::piped());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {error}");
        assert!(error.contains("No space left on device") && !error.contains("panicked"), "{arguments:?}: {error}");
        // Nothing can be told, and the status still tells it.
        assert_eq!(run(full(), full()).status.code(), Some(3), "{arguments:?}");
        // A reader who has gone needs no more.
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        assert_eq!(run(writer.into(), std::process::Stdio::piped()).status.code(), Some(0), "{arguments:?}");
    }
    let (code, _, error) =
        nvdla(&folder, &["run", "--loadable", &lenet, "--image", &seven, "--device", "model", "--output", "/dev/full"]);
    assert_eq!(code, Some(3), "{error}");
    let (code, _, error) = nvdla(&folder, &["bench", "--loadable", &lenet, "--duration", "1e300", "--iterations", "1"]);
    assert_eq!(code, Some(0), "{error}");
}

#[test]
fn a_run_prints_one_object() {
    let folder = Folder::new();
    let (lenet, seven) = (lenet(), seven());
    let run = |more: &[&str]| {
        nvdla(
            &folder,
            &[&["run", "--loadable", &lenet, "--image", &seven, "--device", "model", "--json"], more].concat(),
        )
    };
    assert_eq!(run(&["--dump", "surfaces"]).0, Some(0));
    let surface = folder.0.path().join("surfaces/op_t0_002_PDP.bin");
    let mut bytes = fs::read(&surface).unwrap();
    bytes[0] ^= 1;
    fs::write(&surface, bytes).unwrap();
    for (more, status) in [(["--compare", "surfaces"], 6), (["--output", "/dev/full"], 3)] {
        let (code, shown, error) = run(&more);
        assert_eq!(code, Some(status), "{error}");
        let object: serde_json::Value = serde_json::from_str(&shown).unwrap_or_else(|why| panic!("{why}: {shown}"));
        assert_eq!((&object["error"]["status"], object["runs"].as_u64()), (&status.into(), Some(1)), "{shown}");
    }
}

#[test]
fn threads_that_cannot_be_started_are_an_error() {
    let folder = Folder::new();
    let (lenet, seven) = (lenet(), seven());
    for arguments in [
        &["run", "--loadable", &lenet, "--image", &seven, "--device", "model"][..],
        &["bench", "--loadable", &lenet, "--device", "model", "--iterations", "1", "--warmup", "0"],
    ] {
        // No machine has room for the stack of a thread of this size.
        let output = Command::new(env!("CARGO_BIN_EXE_nvdla"))
            .args(arguments)
            .current_dir(folder.0.path())
            .env("RUST_MIN_STACK", (1_u64 << 50).to_string())
            .output()
            .unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{error}");
        assert!(error.contains("a thread for ") && !error.contains("panicked"), "{error}");
    }
}
