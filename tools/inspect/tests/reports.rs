// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reports of the project's own loadables, of damaged ones, and of all of the reference data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nvdla_inspect::report::{Location, Report};
use nvdla_inspect::text::Text;
use nvdla_runtime::loadable::{Interface, Loadable};
use nvdla_tests::random::Random;

fn lenet(config: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../examples/lenet/lenet.{config}.nvdla"))
}

/// Every problem in a report.
fn problems(report: &Report) -> Vec<String> {
    let mut found = Vec::new();
    for task in &report.tasks {
        found.extend(task.problems.iter().cloned());
        for operation in &task.operations {
            found.extend(operation.problem.iter().cloned());
            for surface in &operation.surfaces {
                match &surface.place {
                    Location::Memory { beyond: Some(beyond), .. } => {
                        found.push(format!("operation {}: {} {beyond} bytes beyond", operation.index, surface.role));
                    }
                    Location::Nowhere { address } => found.push(format!("operation {}: {address}", operation.index)),
                    Location::Memory { .. } | Location::OnTheFly => {}
                }
            }
        }
    }
    found
}

/// The number of operations of each unit.
fn units(report: &Report) -> BTreeMap<String, usize> {
    let mut units = BTreeMap::new();
    for operation in report.tasks.iter().flat_map(|task| &task.operations) {
        *units.entry(operation.unit.clone()).or_default() += 1;
    }
    units
}

#[test]
fn our_lenet() {
    for config in ["nv_small", "nv_large"] {
        let report = Report::of(&Loadable::open(lenet(config)).unwrap());
        assert_eq!(problems(&report), Vec::<String>::new());
        let units: Vec<_> = units(&report).into_iter().collect();
        let expected = [("CONV", 4), ("PDP", 2), ("SDP", 4), ("SOFTMAX", 1)];
        assert_eq!(units, expected.map(|(unit, count)| (unit.to_owned(), count)));
        let per_pixel = [20 * 25 * 24 * 24, 50 * 20 * 25 * 8 * 8, 128 * 800, 10 * 128];
        assert_eq!(report.tasks[0].multiplications, per_pixel.iter().sum::<u64>());
        let text = Text(&report).to_string();
        for line in [
            "0 \"data\": Int8 R8, 1 x 1 x 28 x 28 (n, c, h, w), line stride 32; 896 bytes",
            "20 kernels of 1 x 5 x 5 of an image (R8), stride 1 x 1",
            "maximum of 2 x 2, stride 2 x 2; after 1 OpProgrammed",
            "memory 0 + 0x0 constants, ",
            "computes conv2, relu2",
            "24 x 24 x 20     on the fly",
            "SOFTMAX",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["tasks"][0]["operations"][0]["unit"], "CONV");
        assert_eq!(json["tasks"][0]["operations"][0]["surfaces"][1]["place"]["memory"]["holds"], "constants");
    }
}

/// Descriptors with arbitrary bytes give a report and no panic.
#[test]
fn damaged_descriptors() {
    let good = std::fs::read(lenet("nv_small")).unwrap();
    let loadable = Loadable::from_bytes(good.clone()).unwrap();
    let mut random = Random::new(1);
    let mut random = |count: usize| random.below(count);
    let ranges: Vec<std::ops::Range<usize>> = loadable
        .blobs()
        .iter()
        .filter(|blob| blob.interface() != Interface::None)
        .map(|blob| {
            let begin = blob.data().as_ptr() as usize - loadable.as_bytes().as_ptr() as usize;
            begin..begin + blob.data().len()
        })
        .collect();
    let mut wrong = 0;
    for _ in 0..2000 {
        let mut bytes = good.clone();
        for _ in 0..=random(4) {
            let range = &ranges[random(ranges.len())];
            // Most relevant fields are in the first entries.
            let at = range.start + random(range.len().min(1200));
            bytes[at] = [0, 0xff, 0x80, random(256) as u8][random(4)];
        }
        // The lists of the file are unchanged, so that it can be opened.
        let report = Report::of(&Loadable::from_bytes(bytes).unwrap());
        assert!(!Text(&report).to_string().is_empty());
        assert!(!serde_json::to_string(&report).unwrap().is_empty());
        wrong += usize::from(!problems(&report).is_empty());
    }
    assert!(wrong > 200, "{wrong}");
}

/// All loadables of the reference data: the number of operations of each unit equals that in the manifest, and exactly those that
/// name memory beyond a memory's end have a problem.
#[test]
fn reference_loadables() {
    let Some(reference) = nvdla_tests::reference::folder() else { return };
    let mut seen = 0;
    let manifest = std::fs::read_to_string(reference.join("loadables/manifest.json")).unwrap();
    let manifest: Vec<serde_json::Value> = serde_json::from_str(&manifest).unwrap();
    for entry in manifest {
        let name = entry["name"].as_str().unwrap();
        let report = Report::of(&Loadable::open(reference.join("loadables").join(name).join("net.nvdla")).unwrap());
        assert_eq!(problems(&report), Vec::<String>::new(), "{name}");
        let mut expected: BTreeMap<String, usize> = BTreeMap::new();
        for (unit, count) in entry["ops"].as_object().unwrap() {
            expected.insert(unit.trim_start_matches("EMU_").to_owned(), count.as_u64().unwrap() as usize);
        }
        assert_eq!(units(&report), expected, "{name}");
        assert_eq!(report.inputs.len(), entry["inputs"].as_array().unwrap().len(), "{name}");
        seen += 1;
    }
    assert_eq!(seen, 302);
    for folder in std::fs::read_dir(reference.join("regression")).unwrap() {
        let folder = folder.unwrap().path();
        let report = Report::of(&Loadable::open(folder.join("loadable.nvdla")).unwrap());
        assert_eq!(problems(&report), Vec::<String>::new(), "{}", folder.display());
        assert!(!Text(&report).to_string().is_empty());
        seen += 1;
    }
    println!("{seen} loadables of the reference data");
    let mut beyond = 0;
    for folder in std::fs::read_dir(reference.join("loadables-bad")).unwrap() {
        let file = folder.unwrap().path().join("net.nvdla");
        if file.is_file() {
            // The errors of files that cannot be opened are tested elsewhere.
            if let Ok(loadable) = Loadable::open(&file) {
                let report = Report::of(&loadable);
                assert!(!Text(&report).to_string().is_empty());
                beyond += usize::from(problems(&report).iter().any(|problem| problem.ends_with("beyond")));
            }
        }
    }
    assert_eq!(beyond, 7);
}
