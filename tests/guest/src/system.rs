// SPDX-License-Identifier: MIT OR Apache-2.0

//! The kernel's information about its messages, memory, devices and modules.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::node::KINDS;

/// Texts in a kernel message that indicate an error in the kernel or the driver.
const ERRORS: [&str; 19] = [
    "BUG:",
    "WARNING:",
    "Oops",
    "KASAN",
    "UBSAN",
    "KCSAN",
    "pagealloc: ",
    "possible circular locking",
    "possible recursive locking",
    "possible irq lock inversion",
    "inconsistent lock state",
    "suspicious RCU",
    "blocked for more than",
    "scheduling while atomic",
    "sleeping function called",
    "nobody cared",
    "refcount_t",
    "rust_kernel: panicked",
    "DMA-API: debugging out of memory",
];

/// Sets whether a device that has no task stays awake.
pub fn stay_awake(device: &Path, awake: bool) -> io::Result<()> {
    fs::write(device.join("power/control"), if awake { "on" } else { "auto" })
}

/// The kernel's messages since some time.
#[derive(Debug)]
pub struct Messages(File);

impl Messages {
    /// Messages from now on.
    pub fn from_now() -> io::Result<Self> {
        let mut messages = Self::from_start()?;
        messages.read()?;
        Ok(messages)
    }

    /// All messages since the start.
    pub fn from_start() -> io::Result<Self> {
        Ok(Self(File::options().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg")?))
    }

    /// The messages since the last call, one per line.
    pub fn read(&mut self) -> io::Result<Vec<String>> {
        let mut messages = Vec::new();
        let mut record = [0; 8192];
        loop {
            match self.0.read(&mut record) {
                Ok(length) => {
                    let text = String::from_utf8_lossy(&record[..length]);
                    // The prefix ends at the first semicolon. The lines after the first are properties.
                    let line = text.split_once(';').map_or(&*text, |(_, message)| message).lines().next();
                    messages.push(line.unwrap_or_default().to_owned());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(messages),
                // Older messages were overwritten; the remaining ones follow.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// `dma_buf_vmap()` of the dma-buf core has a `WARN_ON_ONCE` on what an exporter's `vmap` returns. An exporter that finds no
/// memory returns `ENOMEM`, so the core itself warns, for every importer. The test of imports with failing allocations
/// causes this warning once. On a kernel without fault injection it counts as a failure.
const VMAP_WITHOUT_MEMORY: &str = " at dma_buf_vmap+";

/// `get_cred()` writes the same 0 into `non_rcu` of shared credentials without a lock (`include/linux/cred.h`). Two threads of a
/// process that create a file each, such as the file of a dma-buf, do so in `init_file()`. KCSAN reports this race of the
/// kernel's own.
const CREDENTIALS_OF_FILES: &str = "KCSAN: data-race in init_file / init_file";

/// The lines of a kernel's report that are shown: the stacks of both sides of a race.
const REPORT_LINES: usize = 40;

/// The messages that indicate an error, each with the lines after it.
pub fn splats(messages: &[String]) -> Vec<String> {
    let expected = |message: &str| {
        Path::new(FAIL_NTH).exists() && message.contains(VMAP_WITHOUT_MEMORY) || message.contains(CREDENTIALS_OF_FILES)
    };
    let is_error = |message: &str| ERRORS.iter().any(|error| message.contains(error)) && !expected(message);
    let report = |index: usize| messages[index..].iter().take(REPORT_LINES).cloned().collect::<Vec<_>>().join("\n");
    (0..messages.len()).filter(|&index| is_error(&messages[index])).map(report).collect()
}

/// A value of `/proc/meminfo` in kB.
pub fn meminfo(key: &str) -> io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')?.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).ok_or_else(|| io::Error::other(format!("meminfo has no {key}")))
}

/// Lets this process have that many files open.
pub fn allow_files(count: u64) -> io::Result<()> {
    use nix::sys::resource::{getrlimit, setrlimit, Resource};
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < count {
        setrlimit(Resource::RLIMIT_NOFILE, count, hard.max(count))?;
    }
    Ok(())
}

/// Active objects of slab caches: name and count.
pub fn slabs() -> io::Result<Vec<(String, u64)>> {
    let text = fs::read_to_string("/proc/slabinfo")?;
    let lines = text.lines().skip(2).filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
    });
    Ok(lines.collect())
}

/// kmemleak's file.
const KMEMLEAK: &str = "/sys/kernel/debug/kmemleak";

/// Whether the kernel checks for leaks.
pub fn has_kmemleak() -> bool {
    Path::new(KMEMLEAK).exists()
}

/// Returns kmemleak's report; `None` on a kernel without it.
///
/// # Errors
///
/// If kmemleak has disabled itself, which it does when one of its own allocations fails.
pub fn leaks() -> io::Result<Option<String>> {
    if !has_kmemleak() {
        return Ok(None);
    }
    let file = Path::new(KMEMLEAK);
    // An object is reported if it was unreferenced in two scans and is older than five seconds.
    for _ in 0..2 {
        fs::write(file, "scan")?;
        sleep(Duration::from_secs(6));
    }
    fs::read_to_string(file).map(Some)
}

/// The number of dma-bufs.
pub fn dma_bufs() -> io::Result<u64> {
    let text = fs::read_to_string("/sys/kernel/debug/dma_buf/bufinfo")?;
    let total = text.lines().find_map(|line| line.strip_prefix("Total ")?.split_once(" objects"));
    total.and_then(|(total, _)| total.parse().ok()).ok_or_else(|| io::Error::other(format!("no total in:\n{text}")))
}

/// A control group with a common memory limit for its processes. It is removed when it is dropped, after its processes
/// have ended.
#[derive(Debug)]
pub struct Group(PathBuf);

impl Group {
    /// The folder of control groups.
    const ROOT: &'static str = "/sys/fs/cgroup";

    /// Makes a group of that name.
    pub fn with_memory(name: &str, bytes: u64) -> io::Result<Self> {
        let root = Path::new(Self::ROOT);
        if !root.join("cgroup.subtree_control").exists() {
            let _ = std::process::Command::new("mount").args(["-t", "cgroup2", "cgroup", Self::ROOT]).status()?;
        }
        fs::write(root.join("cgroup.subtree_control"), "+memory")?;
        let group = root.join(name);
        fs::create_dir(&group)?;
        fs::write(group.join("memory.max"), bytes.to_string())?;
        Ok(Self(group))
    }

    /// Adds a process to it.
    pub fn add(&self, process: u32) -> io::Result<()> {
        fs::write(self.0.join("cgroup.procs"), process.to_string())
    }

    /// The memory that it uses in bytes.
    pub fn used(&self) -> io::Result<u64> {
        fs::read_to_string(self.0.join("memory.current"))?.trim().parse().map_err(io::Error::other)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The file that sets which of a thread's next allocations fails, counted from the write to it.
const FAIL_NTH: &str = "/proc/thread-self/fail-nth";

/// Repeats a call in which the first allocation fails, then the second, and so on, until none fails, and returns how
/// many failed. `call` says whether it went well, or `None` to end the repetitions. `None` on a kernel without fault injection for
/// allocations.
pub fn failing_allocations(mut call: impl FnMut() -> Option<bool>) -> io::Result<Option<u32>> {
    const MAX_ALLOCATIONS: u32 = 4000;
    let file = Path::new(FAIL_NTH);
    if !file.exists() {
        return Ok(None);
    }
    for kind in ["failslab", "fail_page_alloc"] {
        let settings = Path::new("/sys/kernel/debug").join(kind);
        fs::write(settings.join("ignore-gfp-wait"), "N")?;
        fs::write(settings.join("verbose"), "0")?;
    }
    fs::write("/sys/kernel/debug/fail_page_alloc/min-order", "0")?;
    for number in 1..MAX_ALLOCATIONS {
        // The file stays open: opening it allocates memory, and the count must include the call's allocations only.
        let counter = File::options().read(true).write(true).open(file)?;
        counter.write_all_at(number.to_string().as_bytes(), 0)?;
        let well = call();
        // The remaining count shows whether an allocation has failed.
        let mut left = [0; 16];
        let length = counter.read_at(&mut left, 0)?;
        counter.write_all_at(b"0", 0)?;
        let Some(well) = well else { return Ok(Some(number)) };
        if left[..length].trim_ascii() != b"0" {
            return if well { Ok(Some(number - 1)) } else { Err(io::Error::other("it failed with all its memory")) };
        }
    }
    Err(io::Error::other(format!("more than {MAX_ALLOCATIONS} allocations")))
}

/// The folder of the kernel's trace events, which is mounted if it is not.
pub fn tracing() -> Option<PathBuf> {
    const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let found = || PLACES.iter().map(PathBuf::from).find(|path| path.join("events/nvdla/enable").exists());
    found().or_else(|| {
        let _ = std::process::Command::new("mount").args(["-t", "tracefs", "trace", PLACES[0]]).status();
        found()
    })
}

/// The name of a device in `/sys` on its bus.
pub fn bus_name(device: &Path) -> String {
    device.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Whether the device tree assigned the device to the platform driver.
pub fn is_platform(device: &Path) -> bool {
    fs::read_link(device.join("subsystem")).is_ok_and(|bus| bus.ends_with("platform"))
}

/// The PCI function of a device: the device itself, or the function whose first window the device tree names as its registers.
pub fn pci_function(device: &Path) -> io::Result<PathBuf> {
    if !is_platform(device) {
        return Ok(device.to_owned());
    }
    let registers = fs::read(device.join("of_node/reg"))?;
    let start = registers.first_chunk().map(|start| u64::from_be_bytes(*start));
    for entry in fs::read_dir("/sys/bus/pci/devices")? {
        let function = entry?.path();
        let windows = fs::read_to_string(function.join("resource"))?;
        let first = windows.split_whitespace().next().and_then(|first| first.strip_prefix("0x"));
        if start.is_some() && first.and_then(|first| u64::from_str_radix(first, 16).ok()) == start {
            return Ok(function);
        }
    }
    Err(io::Error::other(format!("no PCI function has its window at {start:x?}, where {} is", device.display())))
}

/// A file of the driver on the device's bus.
fn driver_file(device: &Path, name: &str) -> PathBuf {
    let bus = if is_platform(device) { "platform" } else { "pci" };
    Path::new("/sys/bus").join(bus).join("drivers/nvdla").join(name)
}

/// Unbinds a device from the driver.
pub fn unbind(device: &Path) -> io::Result<()> {
    fs::write(driver_file(device, "unbind"), bus_name(device))
}

/// Binds a device to the driver.
pub fn bind(device: &Path) -> io::Result<()> {
    fs::write(driver_file(device, "bind"), bus_name(device))
}

/// How long something may take that must happen. It is far above what it takes on a loaded machine, and ends a test that hangs.
pub const HANG: Duration = Duration::from_secs(120);

/// Whether the machine's clock counts instructions (`cargo xtask vm --instructions`).
pub fn counts_instructions() -> bool {
    std::env::var_os("NVDLA_CLOCK").is_some_and(|clock| clock == "instructions")
}

/// Waits for the node of a device in `/sys`.
pub fn node_of(device: &Path) -> io::Result<PathBuf> {
    let start = Instant::now();
    loop {
        let node = KINDS.into_iter().find_map(|kind| {
            let entries = fs::read_dir(device.join(kind.class)).into_iter().flatten().flatten();
            let mut names = entries.map(|entry| entry.file_name());
            let name = names.find(|name| name.to_string_lossy().starts_with(kind.prefix))?;
            Some(Path::new(kind.folder).join(name)).filter(|node| node.exists())
        });
        if let Some(node) = node {
            return Ok(node);
        }
        if start.elapsed() > HANG {
            return Err(io::Error::other(format!("{} has no node", device.display())));
        }
        sleep(Duration::from_millis(5));
    }
}

/// Removes the module.
pub fn remove_module() -> nix::Result<()> {
    nix::kmod::delete_module(&name(), nix::kmod::DeleteModuleFlags::O_NONBLOCK)
}

/// Inserts the module with these parameters.
pub fn insert_module(parameters: &str) -> io::Result<()> {
    let file = File::open("/nvdla.ko")?;
    let parameters = CString::new(parameters).map_err(io::Error::other)?;
    Ok(nix::kmod::finit_module(&file, &parameters, nix::kmod::ModuleInitFlags::empty())?)
}

fn name() -> CString {
    c"nvdla".to_owned()
}

/// Binds every NVDLA without a driver to the driver.
pub fn bind_all() -> io::Result<()> {
    for bus in ["pci", "platform"] {
        for entry in fs::read_dir(Path::new("/sys/bus").join(bus).join("devices"))? {
            let device = fs::canonicalize(entry?.path())?;
            if is_nvdla(&device) && !is_refused(&device) && !device.join("driver").exists() {
                bind(&device)?;
                node_of(&device)?;
            }
        }
    }
    Ok(())
}

/// Whether a device is one for the driver. A PCI function that the device tree assigns to the platform driver is not.
fn is_nvdla(device: &Path) -> bool {
    let read = |file: &str| fs::read_to_string(device.join(file)).unwrap_or_default();
    let is = |file: &str, text: &str| read(file).trim() == text;
    read("of_node/compatible").starts_with("nvidia,nv")
        || is("vendor", "0x10de") && is("device", "0x4e56") && is("driver_override", "(null)")
}

/// Whether the driver must not bind the device: its node names an IOMMU and reserved memory.
fn is_refused(device: &Path) -> bool {
    ["iommus", "memory-region"].iter().all(|property| crate::tree::names(device, property))
}

/// Whether an IOMMU translates the device's addresses.
pub fn is_translated(device: &Path) -> bool {
    fs::read_to_string(device.join("iommu_group/type")).is_ok_and(|kind| kind.trim().starts_with("DMA"))
}
