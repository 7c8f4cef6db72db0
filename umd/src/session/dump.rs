// SPDX-License-Identifier: MIT OR Apache-2.0

//! Saves the surfaces that each operation wrote, to compare a network layer by layer.

use std::{fs, io, path::PathBuf};

use super::options::Completed;
use crate::files;
use crate::operations::surface_file;

/// A function for [`super::RunOptions::on_operation`] that saves every operation's destination surface in a folder, as
/// `op_t<task>_<operation, 3 digits>_<UNIT>.bin` (with `_roi<region>` from the second region of interest on). Operations that write to no memory leave no file.
///
/// # Errors
///
/// When the folder cannot be made.
pub fn dump_to(folder: impl Into<PathBuf>) -> io::Result<impl FnMut(Completed<'_>) -> io::Result<()>> {
    let folder = folder.into();
    fs::create_dir_all(&folder)?;
    Ok(move |completed: Completed<'_>| match completed.surface {
        Some(bytes) => files::write(folder.join(completed.file_name()), bytes),
        None => Ok(()),
    })
}

impl Completed<'_> {
    /// The name under which the operation's destination is saved.
    pub fn file_name(&self) -> String {
        surface_file(self.task, self.operation, self.unit, self.roi)
    }
}
