// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the series changes in the driver's files and in the kernel's, and the messages of its patches.

use anyhow::{ensure, Context, Result};

use super::files::Files;

/// A change of a file, whose old text must be there exactly once.
pub(super) struct Edit {
    path: &'static str,
    from: &'static str,
    /// The end of the old text if it is longer than `from`; it stays.
    to: Option<&'static str>,
    new: String,
}

impl Edit {
    /// Replaces text.
    pub(super) fn replace(path: &'static str, old: &'static str, new: &str) -> Self {
        Self { path, from: old, to: None, new: new.into() }
    }

    /// Removes what begins with one text, up to another one; to the end of the file if that is empty.
    pub(super) fn cut(path: &'static str, from: &'static str, to: &'static str) -> Self {
        Self { path, from, to: Some(to), new: String::new() }
    }

    /// Inserts text before another one.
    pub(super) fn before(path: &'static str, at: &'static str, new: &str) -> Self {
        Self { path, from: at, to: None, new: format!("{new}{at}") }
    }

    /// The changed text.
    pub(super) fn apply(&self, text: &str) -> Result<String> {
        let Self { from, to, new, .. } = self;
        let count = text.matches(from).count();
        ensure!(count == 1, "\"{from}\" is there {count} times");
        let (head, tail) = text.split_once(from).unwrap_or_default();
        let tail = match to {
            None => tail,
            Some("") => "",
            Some(to) => {
                let at = tail.find(to);
                ensure!(at.is_some(), "\"{to}\" does not follow \"{from}\"");
                &tail[at.unwrap_or_default()..]
            }
        };
        Ok(format!("{head}{new}{tail}"))
    }
}

/// Applies edits to the files.
pub(super) fn edit(files: &mut Files, edits: &[Edit]) -> Result<()> {
    for edit in edits {
        let path = edit.path;
        let text = files.get_mut(path).with_context(|| format!("there is no {path}"))?;
        *text = edit.apply(text).with_context(|| path.to_owned())?;
    }
    Ok(())
}

/// The driver's files in the kernel: without NVIDIA's submission, with an accel node, with the paths of the kernel's tree.
pub(super) fn driver() -> Vec<Edit> {
    const MAIN: &str = "drivers/accel/nvdla/main.rs";
    const IOCTL: &str = "drivers/accel/nvdla/ioctl.rs";
    const DRIVER: &str = "drivers/accel/nvdla/driver.rs";
    vec![
        Edit::replace(MAIN, "\"../../uapi/src/lib.rs\"", "\"uapi/lib.rs\""),
        Edit::replace(MAIN, "\"../engine/src/lib.rs\"", "\"engine/lib.rs\""),
        Edit::cut(MAIN, "//! The module makes a device", "\n// The parts of the two"),
        Edit::replace(
            MAIN,
            "//! The kernel module of NVDLA.\n//!\n",
            "//! The driver of NVDLA.\n//!\n//! It makes a device available to user space as a DRM accel node: buffers, tasks, fences. The engine interprets tasks and \
             programs registers.\n",
        ),
        Edit::replace(MAIN, "// The parts of the two that only user space needs are unused here.\n", "// Parts of the two are the same in user space and unused here.\n"),
        Edit::replace(DRIVER, "const FEAT_RENDER: bool = true;", "const FEAT_ACCEL: bool = true;"),
        Edit::replace(IOCTL, "//! The ioctls: NVIDIA's four, compatible with existing user space, and the driver's own four.", "//! The ioctls."),
        Edit::replace(IOCTL, "    (0x00, NVDLA_SUBMIT, first::SubmitArgs, free submit_first),\n", ""),
        Edit::replace(
            IOCTL,
            "        /// The ioctl table, indexed by driver command.\n        pub(crate) const TABLE: &[ioctl::DrmIoctlDescriptor] = &[$(",
            "        /// The ioctl table, indexed by driver command. There is no command 0.\n        pub(crate) const TABLE: \
             &[ioctl::DrmIoctlDescriptor] = &[pin_init::zeroed(), $(",
        ),
        Edit::cut(IOCTL, "/// NVIDIA's submission: runs tasks one after another", "/// Describes the device."),
        Edit::replace("drivers/accel/nvdla/gem.rs", "    error::from_err_ptr,\n", ""),
        Edit::cut("drivers/accel/nvdla/gem.rs", "/// The buffer behind a dma-buf descriptor.", "/// Charges a client for another"),
        Edit::replace(
            "drivers/accel/nvdla/ffi.rs",
            "    pub(crate) fn nvdla_gem_from_fd(drm: *mut bindings::drm_device, fd: c_int) -> *mut bindings::drm_gem_object;\n",
            "",
        ),
        Edit::cut("drivers/accel/nvdla/gem.c", "\n/*\n * The object behind a dma-buf descriptor", ""),
        Edit::replace("drivers/accel/nvdla/helpers.h", "struct drm_gem_object *nvdla_gem_from_fd(struct drm_device *drm, int fd);\n", ""),
        Edit::cut("drivers/accel/nvdla/accelerator.rs", "    /// Waits until a client's task has ended, without a time limit", "    /// Suspends the device with the machine"),
        Edit::replace("drivers/accel/nvdla/job.rs", "    /// Nanoseconds after the task starts.\n    Relative(u64),\n", ""),
        Edit::replace(
            "drivers/accel/nvdla/job.rs",
            "            Self::Relative(nanoseconds) => now.saturating_add(nanoseconds),\n",
            "",
        ),
    ]
}

/// The module without its driver for PCI.
pub(super) fn without_pci() -> Vec<Edit> {
    const WINDOW: &str = "drivers/accel/nvdla/window.rs";
    const MAIN: &str = "drivers/accel/nvdla/main.rs";
    vec![
        Edit::replace(WINDOW, "    pci::DevresBar,\n", ""),
        Edit::replace(WINDOW, "    /// A PCI device's BAR 0.\n    Pci(DevresBar),\n", ""),
        Edit::cut(
            WINDOW,
            "            Window::Pci(bar) => bar.try_access_with(|io| io.try_read32",
            "            Window::Platform",
        ),
        Edit::cut(
            WINDOW,
            "            Window::Pci(bar) => bar.try_access_with(|io| io.try_write32",
            "            Window::Platform",
        ),
        Edit::replace(MAIN, "mod pci;\n", ""),
        Edit::replace(MAIN, "    #[pin]\n    pci: Registration<kernel::pci::Adapter<pci::Driver>>,\n", ""),
        Edit::replace(MAIN, "            pci <- Registration::new(c\"nvdla\", module),\n", ""),
        Edit::replace(
            MAIN,
            "/// The module: a driver for each bus.",
            "/// The module: the driver for the device tree.",
        ),
    ]
}

/// Accel nodes for Rust drivers.
pub(super) fn accel_node() -> Vec<Edit> {
    const DEVICE: &str = "rust/kernel/drm/device.rs";
    const DRIVER: &str = "rust/kernel/drm/driver.rs";
    vec![
        Edit::before("rust/bindings/bindings_helper.h", "#include <drm/drm_device.h>\n", "#include <drm/drm_accel.h>\n"),
        Edit::before(
            DRIVER,
            "\n/// Information data for a DRM Driver.\n",
            "/// Driver supports accel nodes, i.e.: /dev/accel/accelXX devices.\npub(crate) const FEAT_ACCEL: u32 = \
             bindings::drm_driver_feature_DRIVER_COMPUTE_ACCEL;\n",
        ),
        Edit::replace(
            DRIVER,
            "    const FEAT_RENDER: bool = false;\n",
            "    const FEAT_RENDER: bool = false;\n\n    /// Sets the `DRIVER_COMPUTE_ACCEL` feature for this driver.\n    ///\n    /// When \
             enabled, the driver exposes `/dev/accel/accelXX` nodes to userspace instead of\n    /// nodes under `/dev/dri`. This \
             excludes [`FEAT_RENDER`](Self::FEAT_RENDER), and needs\n    /// `CONFIG_DRM_ACCEL`.\n    const FEAT_ACCEL: bool = \
             false;\n",
        ),
        Edit::replace(
            DEVICE,
            "            features |= drm::driver::FEAT_RENDER;\n        }\n",
            "            features |= drm::driver::FEAT_RENDER;\n        }\n\n        if T::FEAT_ACCEL {\n            \
             assert!(cfg!(CONFIG_DRM_ACCEL) && !T::FEAT_RENDER);\n            features |= drm::driver::FEAT_ACCEL;\n        }\n",
        ),
        Edit::replace(
            DEVICE,
            "    const GEM_FOPS: bindings::file_operations =\n        \
             drm::gem::create_fops(crate::module::this_module::<T::OwnerModule>().as_ptr());\n",
            "    const GEM_FOPS: bindings::file_operations = {\n        #[allow(unused_mut)]\n        let mut fops =\n            \
             drm::gem::create_fops(crate::module::this_module::<T::OwnerModule>().as_ptr());\n\n        \
             #[cfg(CONFIG_DRM_ACCEL)]\n        if T::FEAT_ACCEL {\n            fops.open = Some(bindings::accel_open);\n        \
             }\n\n        fops\n    };\n",
        ),
    ]
}

pub(super) const BINDING: &str = "
NVDLA is an accelerator for neural networks. Its hardware description is
published, and a chip's designer chooses a configuration. The compatible
names it.

The JH7100 has an NVDLA in the configuration nv_full. The example's
address and interrupt are to be confirmed by that SoC's maintainers.
";

pub(super) const HEADER: &str = "
Buffers, a query, asynchronous submission with sync_files,
synchronisation objects and implicit fences, a wait, and accesses by the
processor to cached buffers. Records may grow at their end, as
copy_struct_from_user() has it.
";

pub(super) const NODE: &str = "
A driver of an accelerator has a node under /dev/accel. Its minor
numbers are not those of /dev/dri, and its open function is
accel_open().
";

pub(super) const DEFINITIONS: &str = "
The register map with typed fields, the configurations, the layout of a
task's descriptors, and the layout of tensors in memory. User space has
the same source.

The KUnit suites are the unit tests of these files.
";

pub(super) const ENGINE: &str = "
The engine validates a task, translates it into register values, and
decides which operation starts when. It computes from the register
values which memory the device will access, and refuses a task that
would access other memory. It neither allocates nor blocks, and knows
nothing of Linux. User space has the same source, and tests and fuzzes
it there.
";

pub(super) const WHOLE: &str = "
The driver probes devices in a device tree. A client makes buffers,
which are contiguous for the device, in memory or in the device's SRAM,
and submits tasks to its queue. One task runs at a time, and clients
take turns. Each task has a fence. A task that hangs is ended by a reset
of the device, which leaves a device coredump.

C files are for what the kernel crate has no abstraction for.
";

pub(super) const DOCUMENTATION: &str = "
Describe what a task is, the parts of the driver, timeouts, usage
statistics and module parameters.
";

pub(super) const PCI: &str = "
FPGA cards and virtual devices have NVDLA behind PCI: BAR 0 is the
register window and BAR 4 the SRAM. The device number is not assigned by
NVIDIA, so this patch can be left out.
";

#[cfg(test)]
mod tests {
    use super::Edit;

    #[test]
    fn an_edit_matches_once() {
        assert_eq!(Edit::replace("", "b", "x").apply("abc").unwrap(), "axc");
        assert_eq!(Edit::before("", "b", "x").apply("abc").unwrap(), "axbc");
        assert_eq!(Edit::cut("", "b", "d").apply("abcde").unwrap(), "ade");
        assert_eq!(Edit::cut("", "b", "").apply("abcde").unwrap(), "a");
        assert!(Edit::replace("", "b", "x").apply("abcb").is_err());
        assert!(Edit::replace("", "d", "x").apply("abc").is_err());
        assert!(Edit::cut("", "b", "f").apply("abcde").is_err());
    }
}
