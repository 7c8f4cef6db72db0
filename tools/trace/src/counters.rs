// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compares the status counters that some traces list beside their golden results.
//!
//! `counters.txt` has one line per counter: register group, register, value after the trace's last interrupt.

use nvdla_model::simulation::Simulation;
use nvdla_runtime::files;
use nvdla_uapi::reg::cdma::S_POINTER;

use crate::player::Played;
use crate::trace::{LineError, ParseError, Trace, Words, MAX_TEXT};

/// Compares the device's counters with the trace's list. Returns a description of each counter that differs; an empty list if the
/// trace has no list.
pub fn check<D: Simulation>(trace: &Trace, played: &mut Played<D>) -> Result<Vec<String>, ParseError> {
    let path = trace.folder.join("counters.txt");
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let text = files::read_text(&path, MAX_TEXT).map_err(|error| ParseError::File { path, error })?;
    let mut differing = Vec::new();
    for (line, text) in (1..).zip(text.lines()).filter(|(_, text)| !text.starts_with('#')) {
        let difference = check_line(text, played).map_err(|error| match error {
            LineError::What(what) => ParseError::Line { line, what, text: text.to_owned() },
            LineError::File(error) => error,
        })?;
        differing.extend(difference);
    }
    Ok(differing)
}

fn check_line<D: Simulation>(text: &str, played: &mut Played<D>) -> Result<Option<String>, LineError> {
    let mut words = Words(text.split_whitespace());
    let group = words.value("group")?;
    let register = words.register()?;
    let expected = words.value("value")?;
    let model = &mut played.device;
    let Some(base) = register.block.base(model.config().family) else {
        return Err(format!("{} has no {}", model.config().name, register.block.name()).into());
    };
    model.write(base + u32::from(S_POINTER.offset), group);
    let found = model.read(base + u32::from(register.register.register.offset));
    Ok((found != expected).then(|| {
        let (block, name) = (register.block.name(), register.register.name);
        format!("{block}.{name} of group {group} reads {found}, {expected} expected")
    }))
}
