// SPDX-License-Identifier: MIT OR Apache-2.0

//! The header for programs in C and the types for programs in Rust are one interface: a C compiler says where it puts each
//! field, and Rust's must lie there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use nvdla_uapi::ioctl::{GemCreateArgs, GemDestroyArgs, GemMapOffsetArgs, GEM_CREATE, GEM_DESTROY, GEM_MMAP};
use nvdla_uapi::queue::{
    Access, Address, Query, Submit, Sync, Task, Wait, ACCESS_COMMAND, ACCESS_END, ACCESS_READ, ACCESS_WRITE,
    ADDRESS_READ, ADDRESS_WRITE, GEM_CREATE_CACHED, GEM_CREATE_SRAM, MAX_IMPLICIT, MAX_IN_FENCES, MAX_QUEUED,
    MAX_RECORD, MAX_SYNCS, MAX_TASKS, QUERY_COMMAND, QUERY_MODEL, QUERY_UNCACHED, SUBMIT_COMMAND, SUBMIT_OUT_FENCE,
    SUBMIT_URGENT, WAIT_COMMAND,
};

/// The values in Rust, by the C expression that must have the same value.
fn expected() -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    macro_rules! structure {
        ($type:ty, $name:literal, $($field:ident)*) => {
            all.insert(concat!("sizeof(struct ", $name, ")").to_string(), size_of::<$type>() as u64);
            $(
                all.insert(
                    format!("offsetof(struct {}, {})", $name, stringify!($field)),
                    offset_of!($type, $field) as u64,
                );
            )*
        };
    }
    structure!(Query, "drm_nvdla_query", config hardware_version flags max_addresses max_tasks max_queued max_in_fences
        default_timeout_ns max_timeout_ns sram_size);
    structure!(GemCreateArgs, "drm_nvdla_gem_create", handle flags size);
    structure!(GemMapOffsetArgs, "drm_nvdla_gem_mmap", handle reserved offset);
    structure!(GemDestroyArgs, "drm_nvdla_gem_destroy", handle);
    structure!(Address, "drm_nvdla_address", handle flags offset);
    structure!(Sync, "drm_nvdla_sync", handle flags point);
    structure!(Access, "drm_nvdla_access", handle flags deadline_ns);
    structure!(Task, "drm_nvdla_task", addresses num_addresses address_size flags reserved);
    structure!(Submit, "drm_nvdla_submit", tasks num_tasks task_size in_fences num_in_fences flags deadline_ns sequence
        out_fence reserved in_syncs out_syncs num_in_syncs num_out_syncs sync_size refused_reason refused_task
        refused_operation);
    structure!(Wait, "drm_nvdla_wait", sequence deadline_ns status reserved);
    let read_write = |command: u32, size: usize| 3 << 30 | (size as u64) << 16 | 0x64 << 8 | u64::from(0x40 + command);
    for (name, value) in [
        ("NVDLA_MAX_TASKS", u64::from(MAX_TASKS)),
        ("NVDLA_MAX_IN_FENCES", u64::from(MAX_IN_FENCES)),
        ("NVDLA_MAX_QUEUED", u64::from(MAX_QUEUED)),
        ("NVDLA_QUERY_MODEL", u64::from(QUERY_MODEL)),
        ("NVDLA_QUERY_UNCACHED", u64::from(QUERY_UNCACHED)),
        ("NVDLA_MAX_SYNCS", u64::from(MAX_SYNCS)),
        ("NVDLA_MAX_IMPLICIT", u64::from(MAX_IMPLICIT)),
        ("NVDLA_MAX_RECORD", u64::from(MAX_RECORD)),
        ("NVDLA_GEM_CREATE_SRAM", u64::from(GEM_CREATE_SRAM)),
        ("NVDLA_GEM_CREATE_CACHED", u64::from(GEM_CREATE_CACHED)),
        ("NVDLA_ADDRESS_READ", u64::from(ADDRESS_READ)),
        ("NVDLA_ADDRESS_WRITE", u64::from(ADDRESS_WRITE)),
        ("NVDLA_ACCESS_READ", u64::from(ACCESS_READ)),
        ("NVDLA_ACCESS_WRITE", u64::from(ACCESS_WRITE)),
        ("NVDLA_ACCESS_END", u64::from(ACCESS_END)),
        ("DRM_IOCTL_NVDLA_GEM_CREATE", u64::from(GEM_CREATE)),
        ("DRM_IOCTL_NVDLA_GEM_MMAP", u64::from(GEM_MMAP)),
        ("DRM_IOCTL_NVDLA_GEM_DESTROY", u64::from(GEM_DESTROY)),
        ("DRM_IOCTL_NVDLA_ACCESS", read_write(ACCESS_COMMAND, size_of::<Access>())),
        ("NVDLA_SUBMIT_OUT_FENCE", u64::from(SUBMIT_OUT_FENCE)),
        ("NVDLA_SUBMIT_URGENT", u64::from(SUBMIT_URGENT)),
        ("DRM_IOCTL_NVDLA_QUERY", read_write(QUERY_COMMAND, size_of::<Query>())),
        ("DRM_IOCTL_NVDLA_SUBMIT_TASKS", read_write(SUBMIT_COMMAND, size_of::<Submit>())),
        ("DRM_IOCTL_NVDLA_WAIT", read_write(WAIT_COMMAND, size_of::<Wait>())),
    ] {
        all.insert(name.to_string(), value);
    }
    all
}

#[test]
fn the_header_is_the_interface() {
    let expected = expected();
    let mut program =
        String::from("#include <stddef.h>\n#include <stdio.h>\n#include \"nvdla_drm.h\"\nint main(void) {\n");
    for expression in expected.keys() {
        writeln!(program, "printf(\"%s=%llu\\n\", \"{expression}\", (unsigned long long)({expression}));").unwrap();
    }
    program.push_str("return 0; }\n");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, binary) = (folder.join("header.c"), folder.join("header"));
    std::fs::write(&source, program).unwrap();
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../uapi/include");
    let compiled = Command::new("cc")
        .args(["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(headers)
        .arg("-o")
        .args([&binary, &source])
        .output()
        .expect("a C compiler, which Rust links with too");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let printed = String::from_utf8(Command::new(&binary).output().unwrap().stdout).unwrap();
    let found: BTreeMap<_, _> = printed
        .lines()
        .map(|line| line.split_once('=').expect("name=value"))
        .map(|(name, value)| (name.to_string(), value.parse::<u64>().unwrap()))
        .collect();
    assert_eq!(found, expected);
}

/// `cargo xtask vm --share` runs it on the driver; here it is only compiled, and says how it is used.
#[test]
fn a_program_in_c_needs_no_other_header() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("buffers");
    let compiled = Command::new("cc")
        .args(["-std=c99", "-D_GNU_SOURCE", "-pedantic", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(checkout.join("uapi/include"))
        .arg(checkout.join("tests/guest/programs/buffers.c"))
        .arg("-o")
        .arg(&binary)
        .output()
        .expect("a C compiler, which Rust links with too");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    assert_eq!(Command::new(&binary).output().unwrap().status.code(), Some(2));
}
