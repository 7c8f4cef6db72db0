// SPDX-License-Identifier: MIT OR Apache-2.0

//! Models, images and files that cannot be used: each gives an error that says what is wrong, none a panic.

use std::path::{Path, PathBuf};
use std::{env, fs, process};

use nvdla_compiler::{calibration, import};

/// A folder of this test's own, removed when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("nvdla-compiler-{name}-{}", process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const MODEL: &str = r#"{
  "format": "nvdla-model 1", "name": "small", "weights": "small.weights",
  "inputs": [{"name": "data", "shape": [1, 4, 4], "image": {"mean": 0, "divisor": 255}}],
  "layers": [
    {"name": "conv", "op": "convolution", "input": "data", "padding": [0, 0, 0, 0],
     "weights": {"offset": 0, "shape": [2, 1, 3, 3]}, "bias": {"offset": 18, "shape": [2]}},
    {"name": "pool", "op": "pooling", "input": "conv", "mode": "max", "window": [2, 2]},
    {"name": "prob", "op": "softmax", "input": "pool"}
  ],
  "outputs": ["prob"]
}"#;

fn numbers() -> Vec<u8> {
    (0..20).flat_map(|n: u8| f32::from(n).to_le_bytes()).collect()
}

#[test]
fn models() {
    let folder = Folder::new("models");
    folder.write("small.weights", &numbers());
    let read = |text: &str| import::read(&folder.write("small.json", text.as_bytes()));
    assert_eq!(read(MODEL).unwrap().len(), 4);
    for (from, to, expected) in [
        ("nvdla-model 1", "nvdla-model 7", "format is \"nvdla-model 7\", this compiler reads \"nvdla-model 1\""),
        ("\"softmax\"", "\"sort\"", "unknown variant `sort`"),
        ("\"window\": [2, 2]", "\"window\": [2]", "invalid length 1"),
        ("\"window\": [2, 2]", "\"windows\": [2, 2]", "unknown field `windows`"),
        ("\"window\": [2, 2]", "\"window\": [9, 2]", "a window of height 9 does not fit 2"),
        ("\"window\": [2, 2]", "\"window\": [0, 2]", "window 0 and stride 1 of the height must not be zero"),
        ("\"input\": \"conv\"", "\"input\": \"pool\"", "\"pool\", which no earlier layer is"),
        ("\"outputs\": [\"prob\"]", "\"outputs\": [\"odd\"]", "no layer has the name of output \"odd\""),
        ("\"outputs\": [\"prob\"]", "\"outputs\": []", "no outputs"),
        ("\"offset\": 18", "\"offset\": 19", "numbers of shape [2] from 19 on leave"),
        ("\"offset\": 18", "\"offset\": 18446744073709551615", "leave"),
        ("[2, 1, 3, 3]", "[4294967295, 4294967295, 4294967295, 3]", "leave"),
        ("[2, 1, 3, 3]", "[2, 9]", "a shape of 4 dimensions is expected"),
        ("[2, 1, 3, 3]", "[1, 1, 3, 3]", "2 biases for 1 kernels"),
        ("\"shape\": [1, 4, 4]", "\"shape\": [2, 4, 4]", "18 weights, but 2 kernels of 2 channels of 3 x 3 have 36"),
        ("\"shape\": [1, 4, 4]", "\"shape\": [1, 0, 4]", "empty, or too large"),
        ("\"shape\": [1, 4, 4]", "\"shape\": [4294967295, 4294967295, 4294967295]", "empty, or too large"),
        ("\"padding\": [0, 0, 0, 0]", "\"padding\": [3, 0, 0, 0]", "padding 3 + 0 of the height must be less than"),
        ("\"padding\": [0, 0, 0, 0]", "\"dilation\": [4294967295, 1]", "does not fit 4"),
        (
            "\"padding\": [0, 0, 0, 0]",
            "\"dilation\": [1073741824, 1], \"padding\": [2147483648, 0, 2147483648, 0]",
            "is too large",
        ),
        ("\"divisor\": 255", "\"divisor\": 0", "divisor 0 positive"),
        ("\"name\": \"pool\"", "\"name\": \"conv\"", "another layer has this name"),
        ("small.weights", "none.weights", "none.weights"),
        ("{", "[", "at line 2"),
    ] {
        assert!(MODEL.contains(from), "{from}");
        let error = read(&MODEL.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(expected), "{from} to {to}: {error}");
    }
    // Cut anywhere, or with any byte changed, the text may be a model or not, but nothing panics.
    for length in 0..MODEL.len() {
        assert!(read(&MODEL[..length]).is_err(), "{length}");
    }
    for at in 0..MODEL.len() {
        let mut bytes = MODEL.as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'9' { b'}' } else { b'9' };
        let _ = import::read(&folder.write("small.json", &bytes));
    }
}

#[test]
fn images() {
    let folder = Folder::new("images");
    folder.write("small.weights", &numbers());
    let graph = import::read(&folder.write("small.json", MODEL.as_bytes())).unwrap();
    let read = || calibration::read(&folder.0, &graph).map_err(|error| error.to_string());
    let expected = format!("no calibration image (.pgm, .ppm, .png, .jpg) in {}", folder.0.display());
    assert_eq!(read().unwrap_err(), expected);
    folder.write("one.pgm", b"P5\n4 4\n255\n0123456789abcdef");
    assert_eq!(read().unwrap(), [[b"0123456789abcdef".to_vec()]]);
    folder.write("two.pgm", b"P5\n2 2\n255\n0123");
    let expected = "calibration image of 1 channels of 2 x 2, but the input \"data\" is 1 channels of 4 x 4";
    assert_eq!(read().unwrap_err(), expected);
    folder.write("two.pgm", b"P5\n2 2\n255");
    assert!(read().unwrap_err().contains("two.pgm"));
    assert!(calibration::read(Path::new("/none/there"), &graph).unwrap_err().to_string().contains("/none/there"));
}
