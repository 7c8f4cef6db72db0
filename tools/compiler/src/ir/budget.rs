// SPDX-License-Identifier: MIT OR Apache-2.0

//! How much a model may make the compiler compute while it is read. Nodes whose inputs are constant are computed at once, and a
//! model of a few hundred bytes can describe constants of gigabytes and products that take hours.

use nvdla_runtime::Cancel;

/// Bytes of computed constants that every model may have.
const BYTES: u64 = 512 << 20;
/// Bytes of computed constants per byte of the model's files.
const BYTES_PER_BYTE: u64 = 16;
/// Multiplications for computed constants: some seconds.
const WORK: u64 = 1 << 34;

/// What a model has left, and what ends all work on it.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    bytes: u64,
    of: u64,
    work: u64,
    cancel: Cancel,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(0, Cancel::default())
    }
}

/// A budget is not a part of what a network computes.
impl PartialEq for Budget {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Budget {
    /// For a model whose files have that many bytes.
    pub(crate) fn new(files: u64, cancel: Cancel) -> Self {
        let of = files.saturating_mul(BYTES_PER_BYTE).saturating_add(BYTES);
        Self { bytes: of, of, work: WORK, cancel }
    }

    /// Called before a constant of that many bytes is computed by that many multiplications.
    pub(crate) fn spend(&mut self, bytes: u64, work: u64) -> Result<(), String> {
        self.check()?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| {
            format!("the constants that are computed from the model would have more than {} bytes", self.of)
        })?;
        self.work = self.work.checked_sub(work).ok_or_else(|| {
            format!("the constants that are computed from the model take more than {WORK} multiplications")
        })?;
        Ok(())
    }

    /// An error once the compilation is cancelled.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.cancel.is_cancelled() {
            return Err("the compilation was cancelled".to_owned());
        }
        Ok(())
    }

    /// Ends runs of the compiled network on the model.
    pub(crate) fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }
}
