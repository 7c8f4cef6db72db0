// SPDX-License-Identifier: MIT OR Apache-2.0

//! Writes the report as text.

use std::fmt;

use crate::report::{Location, Memory, Operation, Report, Surface, Task, Tensor};

/// Shows a report.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub &'a Report);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        let operations: usize = report.tasks.iter().map(|task| task.operations.len()).sum();
        writeln!(
            f,
            "loadable {}, {} bytes: {} tasks, {operations} operations, {} multiplications; {} constants of {} bytes",
            report.version,
            report.bytes,
            report.tasks.len(),
            count(report.tasks.iter().map(|task| task.multiplications).sum()),
            report.constants.blobs,
            report.constants.bytes,
        )?;
        for (title, tensors) in [("inputs", &report.inputs), ("outputs", &report.outputs)] {
            writeln!(f, "\n{title}")?;
            tensors.iter().try_for_each(|tensor| self::tensor(f, tensor))?;
        }
        report.tasks.iter().try_for_each(|task| self::task(f, task))?;
        writeln!(f, "\nmemories")?;
        report.memories.iter().try_for_each(|memory| self::memory(f, memory))
    }
}

/// A large number in thousands or millions.
fn count(number: u64) -> String {
    match number {
        0..10_000 => number.to_string(),
        10_000..10_000_000 => format!("{} thousand", number / 1000),
        _ => format!("{} million", number / 1_000_000),
    }
}

fn tensor(f: &mut fmt::Formatter<'_>, tensor: &Tensor) -> fmt::Result {
    let [n, c, h, w] = tensor.nchw;
    write!(
        f,
        "  {} {:?}: {} {}, {n} x {c} x {h} x {w} (n, c, h, w), line stride {}",
        tensor.bind_id, tensor.name, tensor.data_type, tensor.pixel_format, tensor.line_stride
    )?;
    if tensor.surface_stride != 0 {
        write!(f, ", surface stride {}", tensor.surface_stride)?;
    }
    writeln!(f, "; {} bytes at {:#x} of memory {}", tensor.size, tensor.offset, tensor.memory)
}

fn task(f: &mut fmt::Formatter<'_>, task: &Task) -> fmt::Result {
    let executor = match task.interface.as_str() {
        "Dla1" => "NVDLA",
        "Emu1" => "the emulator",
        other => other,
    };
    write!(f, "\ntask {} for {executor}, descriptors {}", task.id, task.descriptors)?;
    write!(f, ", {} operations", task.operations.len())?;
    let list = |values: &[u32]| values.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    if !task.waits_for.is_empty() {
        write!(f, ", waits for event {}", list(&task.waits_for))?;
    }
    if !task.signals.is_empty() {
        write!(f, ", signals event {}", list(&task.signals))?;
    }
    writeln!(f)?;
    for problem in &task.problems {
        writeln!(f, "  PROBLEM: {problem}")?;
    }
    task.operations.iter().try_for_each(|operation| self::operation(f, operation))
}

fn operation(f: &mut fmt::Formatter<'_>, operation: &Operation) -> fmt::Result {
    write!(f, "  {:>3} {:<7} {:<6} {}", operation.index, operation.unit, operation.precision, operation.summary)?;
    if !operation.waits_for.is_empty() {
        let waits: Vec<String> =
            operation.waits_for.iter().map(|wait| format!("{} {}", wait.operation, wait.event)).collect();
        write!(f, "; after {}", waits.join(", "))?;
    }
    if let Some(layer) = &operation.layer {
        write!(f, "; computes {layer}")?;
    }
    writeln!(f)?;
    if let Some(problem) = &operation.problem {
        writeln!(f, "      PROBLEM: {problem}")?;
    }
    operation.surfaces.iter().try_for_each(|surface| self::surface(f, surface))
}

fn surface(f: &mut fmt::Formatter<'_>, surface: &Surface) -> fmt::Result {
    let shape = format!("{} x {} x {}", surface.width, surface.height, surface.channels);
    write!(f, "      {:<12} {shape:<16}", surface.role)?;
    match &surface.place {
        Location::OnTheFly => return writeln!(f, " on the fly"),
        Location::Nowhere { address } => write!(f, " PROBLEM: address {address} is not in the list,")?,
        Location::Memory { memory, offset, holds, sram, .. } => {
            write!(f, " memory {memory} + {offset:#x}")?;
            if *sram {
                f.write_str(" (SRAM)")?;
            }
            if let Some(holds) = holds {
                write!(f, " {}", holds.escape_debug())?;
            }
            f.write_str(",")?;
        }
    }
    write!(f, " {} bytes", surface.size)?;
    if surface.line_stride != 0 {
        write!(f, ", strides {} {}", surface.line_stride, surface.surface_stride)?;
    }
    if let Location::Memory { beyond: Some(beyond), .. } = &surface.place {
        write!(f, ", PROBLEM: {beyond} of them after the memory's end")?;
    }
    writeln!(f)
}

fn memory(f: &mut fmt::Formatter<'_>, memory: &Memory) -> fmt::Result {
    write!(f, "  {:>3} {} bytes, {}", memory.id, memory.size, memory.flags.join(" "))?;
    if memory.domain != "System" {
        write!(f, ", {}", memory.domain)?;
    }
    if let Some(tensor) = &memory.tensor {
        write!(f, " {tensor:?}")?;
    }
    writeln!(f)?;
    for content in &memory.contents {
        writeln!(f, "      {:#08x} {} ({} bytes)", content.offset, content.blob.escape_debug(), content.size)?;
    }
    Ok(())
}
