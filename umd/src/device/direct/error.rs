// SPDX-License-Identifier: MIT OR Apache-2.0

//! Why a device cannot be opened without its kernel driver.

use thiserror::Error as ThisError;

use super::selection::DirectSelection;

/// Why a device cannot be opened directly: the step that failed.
#[derive(Debug, ThisError)]
#[error("{selection}: {step}{}", .advice.as_deref().map(|advice| format!(" ({advice})")).unwrap_or_default())]
pub struct OpenError {
    /// The device.
    selection: DirectSelection,
    /// What failed.
    step: String,
    /// What to do.
    advice: Option<String>,
    /// The system's reason.
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl OpenError {
    pub(super) fn new(selection: &DirectSelection, step: impl Into<String>) -> Self {
        Self { selection: selection.clone(), step: step.into(), advice: None, source: None }
    }

    pub(super) fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }
}
