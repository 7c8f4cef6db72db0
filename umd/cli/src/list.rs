// SPDX-License-Identifier: MIT OR Apache-2.0

//! `nvdla list`: the devices of this machine.
//!
//! Devices with this project's module or the first driver have a render node. PCI functions without a render node are found in
//! sysfs by vendor and device number; they may be bound to the kernel's VFIO or UIO. The load of a render node comes from the
//! fdinfo of the processes that have it open (the kernel's `Documentation/gpu/drm-usage-stats.rst`). A user other than root can
//! read only the fdinfo of their own processes.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nvdla_runtime::device::{discover, Device as _, KernelDevice};
use nvdla_runtime::program::{print, sentence};
use nvdla_uapi::config::Config;

use crate::failure::Failure;
use crate::json::{List, Listed, Output, VERSION};

/// How long the load of devices is measured.
const MEASUREMENT_PERIOD: Duration = Duration::from_millis(200);
/// The vendor and device numbers of NVDLA's PCI functions, as text in sysfs.
const NUMBER: (&str, &str) = ("0x10de", "0x4e56");

/// Options of `nvdla list`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Print the results as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let nodes = discover();
    let loads = loads(&nodes);
    let mut devices = Vec::new();
    for (path, load) in nodes.iter().zip(loads) {
        let (configuration, driver, health) = match KernelDevice::open(path) {
            Ok(device) => {
                let driver = if device.has_queue() { "this project's" } else { "the first" };
                (device.info().config.map(|config| config.name), Some(driver.to_owned()), "answers".to_owned())
            }
            Err(error) => (None, None, sentence(&error)),
        };
        let (path, kind) = (path.display().to_string(), "render node");
        devices.push(Listed { path, kind, configuration, driver, load, health });
    }
    devices.extend(functions(Path::new("/sys/bus/pci/devices")));
    let models = Config::ALL.map(|config| config.name);
    if args.json {
        let list = Output::List(List { version: VERSION, devices, models: models.into() });
        return Ok(print(&(serde_json::to_string_pretty(&list)? + "\n"))?);
    }
    let mut out = String::new();
    if devices.is_empty() {
        writeln!(out, "no NVDLA device was found")?;
    }
    for Listed { path, kind, configuration, driver, load, health } in &devices {
        let configuration = configuration.unwrap_or("configuration unknown");
        let driver = driver.as_deref().unwrap_or("none");
        let load = load.map_or_else(|| "load unknown".to_owned(), |load| format!("load {:.0} %", load * 100.0));
        writeln!(out, "{path}  {kind}  {configuration}  driver: {driver}  {load}  {health}")?;
    }
    for model in models {
        writeln!(out, "model:{model}  built-in model")?;
    }
    Ok(print(&out)?)
}

/// The fraction of time that the device of each node is busy. None if this user can read no process that has the node open.
fn loads(nodes: &[PathBuf]) -> Vec<Option<f64>> {
    if nodes.is_empty() {
        return Vec::new();
    }
    let (before, since) = (busy(), Instant::now());
    std::thread::sleep(MEASUREMENT_PERIOD);
    let (after, took) = (busy(), since.elapsed().as_nanos() as f64);
    let load = |node: &PathBuf| {
        // A client that was opened during the measurement counts from zero. One that was closed does not count.
        let clients = after.iter().filter(|((of, _), _)| of == node);
        let worked = clients.map(|(client, now)| now.saturating_sub(before.get(client).copied().unwrap_or(0)));
        (worked.sum::<u64>() as f64 / took).min(1.0)
    };
    nodes.iter().map(|node| Some(load(node))).collect()
}

/// The busy time of devices in nanoseconds, per node and client number.
fn busy() -> HashMap<(PathBuf, String), u64> {
    let mut found = HashMap::new();
    let entries = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    for process in entries("/proc".into()) {
        for fd in entries(process.path().join("fd")) {
            let Ok(node) = fs::read_link(fd.path()) else { continue };
            if !node.starts_with("/dev/dri") && !node.starts_with("/dev/accel") {
                continue;
            }
            let text = fs::read_to_string(process.path().join("fdinfo").join(fd.file_name()));
            if let Some((client, nanoseconds)) = text.ok().as_deref().and_then(usage) {
                found.insert((node, client), nanoseconds);
            }
        }
    }
    found
}

/// The client number and the busy time of NVDLA's engine from the fdinfo text of a file descriptor.
fn usage(fdinfo: &str) -> Option<(String, u64)> {
    let value = |key: &str| {
        let pairs = fdinfo.lines().filter_map(|line| line.split_once(':'));
        pairs.filter(|(name, _)| *name == key).map(|(_, value)| value.trim()).next()
    };
    (value("drm-driver")? == "nvdla").then_some(())?;
    let nanoseconds = value("drm-engine-dla")?.strip_suffix("ns")?.trim().parse().ok()?;
    Some((value("drm-client-id")?.to_owned(), nanoseconds))
}

/// NVDLA's PCI functions that have no render node.
fn functions(folder: &Path) -> Vec<Listed> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (function, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let number = |file: &str| fs::read_to_string(function.join(file)).unwrap_or_default();
        if (number("vendor").trim(), number("device").trim()) != NUMBER {
            continue;
        }
        let driver = fs::read_link(function.join("driver")).ok();
        let driver = driver.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let (path, kind, health) = match driver.as_deref() {
            Some("nvdla") => continue,
            Some("vfio-pci") => (format!("vfio:{name}"), "VFIO", "not opened".to_owned()),
            Some("uio_pci_generic") => {
                let node = fs::read_dir(function.join("uio")).ok().and_then(|mut nodes| nodes.next()?.ok());
                let node = node.map_or_else(|| "?".into(), |node| node.file_name().to_string_lossy().into_owned());
                (format!("uio:/dev/{node}"), "UIO", "not opened; memory=SIZE@START must be given".to_owned())
            }
            _ => (
                name,
                "PCI function",
                "cannot be used: it is bound to none of nvdla, vfio-pci and uio_pci_generic".to_owned(),
            ),
        };
        found.push(Listed { path, kind, configuration: None, driver, load: None, health });
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_client_is_in_its_fdinfo() {
        let text = "pos:\t0\ndrm-driver:\tnvdla\ndrm-client-id:\t3\ndrm-engine-dla:\t39231586 ns\n";
        assert_eq!(usage(text), Some(("3".to_owned(), 39_231_586)));
        assert_eq!(usage(&text.replace("nvdla", "i915")), None);
        assert_eq!(usage("pos:\t0\n"), None);
    }

    #[test]
    fn functions_are_found_by_number_and_driver() {
        let folder = std::env::temp_dir().join(format!("nvdla-list-{}", std::process::id()));
        let add = |name: &str, device: &str, driver: Option<&str>| {
            let function = folder.join(name);
            fs::create_dir_all(function.join("uio/uio3")).unwrap();
            fs::write(function.join("vendor"), "0x10de\n").unwrap();
            fs::write(function.join("device"), device).unwrap();
            if let Some(driver) = driver {
                std::os::unix::fs::symlink(format!("/drivers/{driver}"), function.join("driver")).unwrap();
            }
        };
        add("0000:00:01.0", "0x4e56\n", Some("vfio-pci"));
        add("0000:00:02.0", "0x4e56\n", Some("uio_pci_generic"));
        add("0000:00:03.0", "0x4e56\n", Some("nvdla"));
        add("0000:00:04.0", "0x4e56\n", None);
        add("0000:00:05.0", "0x1234\n", None);
        let found: Vec<_> = functions(&folder).into_iter().map(|listed| (listed.path, listed.kind)).collect();
        fs::remove_dir_all(&folder).unwrap();
        let expected = [("0000:00:04.0", "PCI function"), ("uio:/dev/uio3", "UIO"), ("vfio:0000:00:01.0", "VFIO")];
        assert_eq!(found, expected.map(|(path, kind)| (path.to_owned(), kind)));
    }
}
