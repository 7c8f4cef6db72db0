// SPDX-License-Identifier: MIT OR Apache-2.0

//! The program: its options and their old spellings, its reports, and its error messages.

// The module of another crate, in which the function is public.
#[allow(unreachable_pub)]
#[path = "../../../tests/src/schema.rs"]
mod schema;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use nvdla_compiler::import::onnx::proto;
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::profile::Conditions;
use nvdla_uapi::config::Config;
use prost::Message as _;
use tempfile::TempDir;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nvdla_compiler")).args(arguments).output().unwrap()
}

fn error(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn example(file: &str) -> String {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/lenet")).join(file).to_string_lossy().into_owned()
}

/// A temporary folder per test, removed when the test ends.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_string_lossy().into_owned()
    }
}

#[test]
fn old_spellings_make_the_same_loadable() {
    let folder = Folder::new();
    let (model, scales) = (example("lenet.onnx"), example("lenet.scales.json"));
    let (new, old) = (folder.path("new.nvdla"), folder.path("old.nvdla"));
    let picture = ["--mean", "0", "--std", "255", "--color", "gray"];
    let arguments = [&model[..], "-o", &new, "--config", "nv_small", "--precision", "int8", "--calibtable", &scales];
    let output = run(&[&arguments[..], &picture].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("lenet for nv_small, int8, "));
    let arguments = ["--model", &model, "--out", &old, "--configtarget", "nv_small", "--cprecision", "int8"];
    let output = run(&[&arguments[..], &["--calibtable", &scales, "--batch", "1"], &picture].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(fs::read(&new).unwrap() == fs::read(&old).unwrap());
    assert!(
        error(&["--model", &model, "--out", &old, "--configtarget", "nv_small", "--batch", "0"]).contains("--batch")
    );
}

#[test]
fn a_mistyped_configuration_lists_all() {
    for option in ["--config", "--configtarget"] {
        let error = error(&[&example("lenet.onnx"), "-o", "none.nvdla", option, "nv_smal"]);
        assert_eq!(Config::ALL.len(), 7);
        for config in Config::ALL {
            assert!(error.contains(config.name), "{error}");
        }
    }
}

#[test]
fn check_writes_nothing() {
    let output = run(&[&example("lenet.onnx"), "--config", "nv_small", "--check"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("nv_small maps all "));
}

#[test]
fn mistakes_are_explained() {
    let model = example("lenet.onnx");
    let compile = |more: &[&str]| error(&[&[&model[..], "-o", "none.nvdla", "--config", "nv_small"], more].concat());
    assert!(compile(&[]).contains("int8 needs the range of each activation"));
    assert!(compile(&["--precision", "fp16"]).contains("nv_small has no Fp16"));
    assert!(compile(&["--calibrate", "/none/there"]).contains("cannot read the samples of /none/there"));
    assert!(compile(&["--calibtable", "/none/there"]).contains("cannot read /none/there"));
    assert!(compile(&["--outputs", "nothing"]).contains("nothing"));
    let scales = example("lenet.scales.json");
    assert!(compile(&["--calibtable", &scales, "--sram", "64K"]).contains("nv_small has no memory interface for SRAM"));
    for size in ["64Q", "K", "", "1.5M", "99999999999999999999M"] {
        assert!(compile(&["--sram", size]).contains("is not a number of bytes, such as 65536, 512K or 1M"), "{size}");
    }
    let scaled = |output: &str| error(&[&model, "-o", output, "--config", "nv_small", "--calibtable", &scales]);
    assert!(scaled("/none/there").contains("cannot write /none/there"));
    assert!(scaled("-").contains("--output - is no file"));
    let none = error(&["/none/there.onnx", "-o", "none.nvdla", "--config", "nv_small"]);
    assert!(none.contains("cannot read /none/there.onnx: No such file"), "{none}");
    let other = error(&[&example("README.md"), "-o", "none.nvdla", "--config", "nv_small"]);
    assert!(other.contains("the extension is none of .onnx, .tflite, .param"), "{other}");
}

#[test]
fn the_report_and_the_names_speak_of_nodes() {
    let folder = Folder::new();
    let (file, report) = (folder.path("lenet.nvdla"), folder.path("report"));
    let (model, scales) = (example("lenet.onnx"), example("lenet.scales.json"));
    let output = run(&[
        &model,
        "-o",
        &file,
        "--config",
        "nv_small",
        "--calibtable",
        &scales,
        "--std",
        "255",
        "--report",
        &report,
    ]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json = fs::read_to_string(Path::new(&report).join("report.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let operations = json["operations"].as_array().unwrap();
    assert_eq!(operations[0]["nodes"], serde_json::json!(["conv1", "relu1"]));
    assert!(operations[0]["cycles"].as_u64().unwrap() > 0 && !operations[0]["limit"].as_str().unwrap().is_empty());
    assert_eq!(json["graph"].as_array().unwrap().last().unwrap()["name"], "prob");
    assert!(json["pool"].as_u64().unwrap() >= json["pool_bound"].as_u64().unwrap());
    assert!(!json["buffers"].as_array().unwrap().is_empty());
    let page = fs::read_to_string(Path::new(&report).join("report.html")).unwrap();
    assert!(page.contains("conv1, relu1") && page.contains("<svg") && page.contains("<rect"), "{page}");

    let names = Loadable::open(&file).unwrap().names().unwrap();
    assert_eq!(names.layer(0, 1).unwrap().to_string(), "conv1, relu1");
    assert_eq!(names.layer(1, 0).unwrap().to_string(), "prob");
    assert_eq!((names.inputs[0].tensor.as_str(), names.outputs[0].tensor.as_str()), ("data", "prob"));
    assert!((names.inputs[0].scale[0] - 1.0 / 127.0).abs() < 1e-9, "{:?}", names.inputs);
    assert_eq!(names.inputs[0].zero_point, [0.0]);
}

#[test]
fn tensors_in_sram_are_reported() {
    let folder = Folder::new();
    let compile = |name: &str, sram: &str| {
        let (file, report) = (folder.path(name), folder.path(&format!("{name} report")));
        let options = ["-o", &file, "--config", "nv_full", "--precision", "fp16", "--report", &report, "--sram", sram];
        let output = run(&[&[&example("lenet.onnx")[..]], &options[..]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let json = fs::read_to_string(Path::new(&report).join("report.json")).unwrap();
        let page = fs::read_to_string(Path::new(&report).join("report.html")).unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        (fs::read(&file).unwrap(), serde_json::from_str::<serde_json::Value>(&json).unwrap(), page, printed)
    };
    let (without, json, page, printed) = compile("without.nvdla", "0");
    assert!(json["sram"].is_null() && !page.contains("SRAM") && !printed.contains("SRAM"));
    let (with, json, page, printed) = compile("with.nvdla", "4K");
    assert!(with != without && with == compile("again.nvdla", "4096").0);
    let inside: Vec<_> = json["buffers"].as_array().unwrap().iter().filter(|buffer| buffer["sram"] == true).collect();
    let ends = inside.iter().map(|buffer| buffer["offset"].as_u64().unwrap() + buffer["size"].as_u64().unwrap());
    let sram = &json["sram"];
    assert_eq!(sram["limit"], 4096);
    assert_eq!(ends.max(), sram["pool"].as_u64());
    assert!((1..=4096).contains(&sram["pool"].as_u64().unwrap()));
    assert!(sram["cycles"].as_u64() < sram["cycles_in_dram"].as_u64());
    assert!(page.contains("<h2>SRAM</h2>") && page.matches("<svg").count() == 2, "{page}");
    assert!(printed.contains(&format!("SRAM: {} of 4096 bytes, {} tensors", sram["pool"], inside.len())), "{printed}");
}

/// A network of one convolution in NCNN's format, with weights that are all `weight`.
fn convolution(folder: &Folder, name: &str, weight: f32) -> String {
    let param = "7767517\n2 2\nInput in 0 1 in 0=8 1=8 2=4\nConvolution conv 1 1 in out 0=8 1=3 4=1 5=0 6=288\n";
    let path = folder.path(&format!("{name}.param"));
    fs::write(&path, param).unwrap();
    let weights = [[0; 4].to_vec(), weight.to_le_bytes().repeat(288)].concat();
    fs::write(folder.path(&format!("{name}.bin")), weights).unwrap();
    path
}

/// The loadable has the conditions that it was compiled for, unless they are the defaults.
#[test]
fn conditions_are_remembered() {
    let folder = Folder::new();
    let model = example("lenet.onnx");
    let board = folder.path("board.json");
    let text = r#"{"name": "board", "base": "nv_full", "conditions": {"dram_gb_s": 3.5, "latency_cycles": 7}}"#;
    fs::write(&board, text).unwrap();
    let compiled = |config: &str, options: &[&str]| {
        let file = folder.path("model.nvdla");
        let output = run(&[&[&model, "-o", &file, "--config", config, "--precision", "fp16"], options].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Loadable::open(&file).unwrap().names().unwrap().conditions
    };
    let usual = Conditions::default();
    assert_eq!(compiled("nv_full", &[]), usual);
    let slow = Conditions { dram: 2.0, clock: 200.0, ..usual };
    assert_eq!(compiled("nv_full", &["--bandwidth", "2", "--clock", "200"]), slow);
    assert_eq!(compiled(&board, &[]), Conditions { dram: 3.5, latency: 7, ..usual });
    assert_eq!(compiled(&board, &["--latency", "9"]), Conditions { dram: 3.5, latency: 9, ..usual });
    let file = folder.path("other.nvdla");
    assert!(error(&[&model, "-o", &file, "--config", "nv_small", "--bandwidth", "0"]).contains("it must be above 0"));
}

#[test]
fn infinite_weights_are_refused() {
    let folder = Folder::new();
    let (net, out) = (convolution(&folder, "net", f32::INFINITY), folder.path("net.nvdla"));
    let arguments = [&net[..], "-o", &out, "--config", "nv_full", "--precision", "fp16"];
    let output = run(&arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("value 0 of its constant") && text.contains("is inf"), "{text}");
    convolution(&folder, "net", 1e6);
    let output = run(&arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("warning: ") && text.contains("beyond half precision"), "{text}");
}

#[test]
fn no_file_of_the_model_is_overwritten() {
    let folder = Folder::new();
    let net = convolution(&folder, "net", 1.0);
    let (bin, scales) = (folder.path("net.bin"), folder.path("scales.json"));
    fs::write(&scales, "{}").unwrap();
    let before = [&net, &bin, &scales].map(|path| fs::read(path).unwrap());
    let common = [&net[..], "--config", "nv_small", "--calibtable", &scales];
    for more in [
        &["-o", &net][..],
        &["-o", &bin],
        &["-o", &scales],
        &["-o", &folder.path("o"), "--save-calibration", &scales],
        &["-o", &folder.path("o"), "--save-calibration", &folder.path("./o")],
        &["-o", &folder.path("r/report.json"), "--report", &folder.path("r")],
    ] {
        let output = run(&[&common[..], more].concat());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{more:?}: {text}");
        assert!(text.contains("are one file"), "{more:?}: {text}");
    }
    assert_eq!(before, [&net, &bin, &scales].map(|path| fs::read(path).unwrap()));

    // External data, labelled samples, and the files of a division.
    let (onnx, data, inner) = (folder.path("net.onnx"), folder.path("weights.data"), folder.path("inner.data"));
    let weights = |file: &str| {
        let location = proto::Entry { key: "location".into(), value: file.into() };
        proto::Tensor { data_location: 1, external_data: vec![location], ..Default::default() }
    };
    let branch = proto::Graph { initializer: vec![weights("inner.data")], ..Default::default() };
    let branch = proto::Attribute { name: "then_branch".into(), g: Some(Box::new(branch)), ..Default::default() };
    let node = vec![proto::Node { op_type: "If".into(), attribute: vec![branch], ..Default::default() }];
    let graph = proto::Graph { initializer: vec![weights("weights.data")], node, ..Default::default() };
    fs::write(&onnx, proto::Model { graph: Some(graph), ..Default::default() }.encode_to_vec()).unwrap();
    fs::write(&inner, [0; 4]).unwrap();
    fs::write(&data, [0; 4]).unwrap();
    let (sample, list) = (folder.path("seven.pgm"), folder.path("list.csv"));
    fs::copy(example("images/seven.pgm"), &sample).unwrap();
    fs::write(&list, "seven.pgm,7\n").unwrap();
    fs::create_dir(folder.path("divided")).unwrap();
    fs::hard_link(&onnx, folder.path("divided/partition.json")).unwrap();
    let files = [&onnx, &data, &inner, &sample, &list];
    let before = files.map(|path| fs::read(path).unwrap());
    let evaluated = ["evaluate", &onnx, "--config", "nv_full", "--precision", "fp16", "--labels-dir", &list, "-o"];
    let divided = folder.path("divided");
    for arguments in [
        &[&onnx, "--config", "nv_full", "-o", &data][..],
        &[&onnx, "--config", "nv_full", "-o", &inner],
        &[&evaluated[..], &[&onnx]].concat(),
        &[&evaluated[..], &[&data]].concat(),
        &[&evaluated[..], &[&sample]].concat(),
        &[&evaluated[..], &[&list]].concat(),
        &[&onnx, "--config", "nv_full", "--precision", "fp16", "--partition", "-o", &divided],
    ] {
        let text = error(arguments);
        assert!(text.contains("are one file"), "{arguments:?}: {text}");
    }
    assert_eq!(before, files.map(|path| fs::read(path).unwrap()));
}

#[test]
fn files_without_an_end_are_refused() {
    let folder = Folder::new();
    let out = folder.path("net.nvdla");
    let net = convolution(&folder, "net", 1.0);
    let weights = folder.path("net.bin");
    let onnx = folder.path("zero.onnx");
    std::os::unix::fs::symlink("/dev/zero", &onnx).unwrap();
    fs::remove_file(&weights).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &weights).unwrap();
    for model in [&onnx, &net] {
        let output = run(&[model, "-o", &out, "--config", "nv_full", "--precision", "fp16"]);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(text.contains("it is a device"), "{text}");
    }
    convolution_again(&folder);
    let table = ["-o", &out, "--config", "nv_small", "--calibtable", "/dev/zero"];
    assert!(error(&[&[&net[..]], &table[..]].concat()).contains("it is a device"));
    let list = ["evaluate", &net, "--config", "nv_full", "--precision", "fp16", "--labels-dir", "/dev/zero", "--json"];
    let output = run(&list);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let shown = schema::object(&String::from_utf8_lossy(&output.stdout));
    assert!(shown["error"]["message"].as_str().unwrap().contains("it is a device"), "{shown}");
    // A table that is no table stops a division too.
    let empty = folder.path("empty.json");
    fs::write(&empty, "").unwrap();
    let divided = ["--partition", "-o", &folder.path("divided"), "--config", "nv_small", "--calibtable", &empty];
    assert!(error(&[&[&example("lenet.onnx")[..]], &divided[..]].concat()).contains("empty.json: the table of scales"));
    for file in ["0.npy", "0.pgm", "0.png", "0.jpg"] {
        let samples = folder.path(&format!("samples of {file}"));
        fs::create_dir(&samples).unwrap();
        std::os::unix::fs::symlink("/dev/zero", Path::new(&samples).join(file)).unwrap();
        let sampled = ["-o", &out, "--config", "nv_small", "--calibrate", &samples];
        assert!(error(&[&[&net[..]], &sampled[..]].concat()).contains("it is a device"), "{file}");
    }
    assert!(!Path::new(&out).exists());
}

/// Makes the weights a file again.
fn convolution_again(folder: &Folder) {
    fs::remove_file(folder.path("net.bin")).unwrap();
    convolution(folder, "net", 1.0);
}

#[test]
fn results_and_errors_are_one_object() {
    let folder = Folder::new();
    let (net, out) = (convolution(&folder, "net", 1.0), folder.path("net.nvdla"));
    let shown = |arguments: &[&str]| {
        let output = run(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), schema::object(&text))
    };
    let common = [&net[..], "-o", &out, "--config", "nv_full", "--precision", "fp16", "--json"];
    let (code, object) = shown(&common);
    assert_eq!((code, &object["compiled"]["configuration"]), (Some(0), &"nv_full".into()), "{object}");
    let (code, object) = shown(&[&common[..], &["--check"]].concat());
    assert_eq!((code, &object["checked"]["nodes"]), (Some(0), &1.into()), "{object}");
    for (arguments, status, kind) in [
        (&["none.onnx", "-o", &out, "--config", "nv_full", "--json"][..], 3, "file"),
        (&[&net, "-o", &out, "--config", "nv_full", "--json"], 2, "argument"),
        (&[&net, "-o", &out, "--config", "nv_tiny", "--json"], 2, "argument"),
        (&[&net, "-o", &out, "--config", "nv_small", "--precision", "fp16", "--json"], 4, "refused"),
    ] {
        let (code, object) = shown(arguments);
        assert_eq!(code, Some(status), "{object}");
        assert_eq!((&object["error"]["status"], &object["error"]["kind"]), (&status.into(), &kind.into()), "{object}");
    }
    // A failure after the results, which have one object.
    let list = folder.path("list.csv");
    fs::write(&list, format!("{},3\n", example("images/seven.pgm"))).unwrap();
    let (model, table) = (example("lenet.onnx"), example("lenet.scales.json"));
    let evaluated =
        ["evaluate", &model, "--config", "nv_small", "--calibtable", &table, "--labels-dir", &list, "--json"];
    let (code, object) = shown(&[&evaluated[..], &["--min-top1", "50"]].concat());
    assert_eq!((code, &object["evaluated"]["device"]["top1"]), (Some(1), &0.into()), "{object}");
    let (code, object) = shown(&[&evaluated[..], &["--min-top1", "nan"]].concat());
    assert_eq!((code, &object["error"]["kind"]), (Some(2), &"argument".into()), "{object}");
    let divided = folder.path("divided");
    let partition = [&model[..], "--partition", "-o", &divided, "--config", "nv_full", "--precision", "fp16", "--json"];
    let (code, object) = shown(&partition);
    assert_eq!((code, &object["divided"]["configuration"]), (Some(0), &"nv_full".into()), "{object}");
    assert!(object["divided"]["nodes_in_groups"].as_u64() <= object["divided"]["nodes"].as_u64(), "{object}");
    for arguments in [&common[..7], &evaluated[..evaluated.len() - 1], &partition[..partition.len() - 1]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_nvdla_compiler")).args(arguments).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// y = relu(conv(x)), between operators that no configuration computes.
fn refused_at_both_ends(path: &str) {
    let node = |operator: &str, inputs: &[&str], output: &str| proto::Node {
        op_type: operator.into(),
        input: inputs.iter().map(|&name| name.into()).collect(),
        output: vec![output.into()],
        name: output.into(),
        ..Default::default()
    };
    let value = |name: &str| {
        let dim = |extent| proto::Dimension { dim_value: Some(extent), dim_param: String::new() };
        let shape = Some(proto::Shape { dim: [1, 2, 4, 4].map(dim).into() });
        let r#type = Some(proto::Type { tensor_type: Some(proto::TensorType { elem_type: 1, shape }) });
        proto::ValueInfo { name: name.into(), r#type }
    };
    let raw: Vec<u8> = [1f32; 6].iter().flat_map(|weight| weight.to_le_bytes()).collect();
    let weights = proto::Tensor {
        dims: vec![3, 2, 1, 1],
        data_type: 1,
        name: "w".into(),
        raw_data: raw.into(),
        ..Default::default()
    };
    let graph = proto::Graph {
        node: vec![
            node("Det", &["x"], "before"),
            node("Conv", &["before", "w"], "conv"),
            node("Relu", &["conv"], "middle"),
            node("Det", &["middle"], "y"),
        ],
        name: "test".into(),
        initializer: vec![weights],
        input: vec![value("x")],
        output: vec![value("y")],
        ..Default::default()
    };
    let opset_import = vec![proto::OperatorSet { domain: String::new(), version: 13 }];
    let model = proto::Model { graph: Some(graph), opset_import, functions: Vec::new() };
    fs::write(path, model.encode_to_vec()).unwrap();
}

/// `--inputs` cuts the front of a network as `--outputs` cuts its back, and what is proposed for `--outputs` compiles.
#[test]
fn networks_are_cut_at_both_ends() {
    let folder = Folder::new();
    let (model, file) = (folder.path("model.onnx"), folder.path("net.nvdla"));
    refused_at_both_ends(&model);
    let check =
        |more: &[&str]| run(&[&[&model[..], "--config", "nv_full", "--precision", "fp16", "--check"], more].concat());
    let front = ["--inputs", "before", "--shape", "before=1x2x4x4"];
    let output = check(&front);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("Det"), "{text}");
    let proposed = text.split("with these outputs: ").nth(1).expect(&text).lines().next().unwrap().trim().to_owned();
    assert_eq!(proposed, "middle");
    let both = [&front[..], &["--outputs", &proposed]].concat();
    assert!(check(&both).status.success());
    // Without the front nothing can be computed, so nothing is proposed.
    let text = String::from_utf8_lossy(&check(&[]).stderr).into_owned();
    assert!(text.contains("before") && !text.contains("with these outputs"), "{text}");
    let compiled = run(&[&[&model[..], "-o", &file, "--config", "nv_full", "--precision", "fp16"], &both[..]].concat());
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let loadable = Loadable::open(&file).unwrap();
    assert_eq!((loadable.inputs().count(), loadable.outputs().count()), (1, 1));
    let unknown = check(&["--inputs", "nothing"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("nothing"));
}
