// SPDX-License-Identifier: MIT OR Apache-2.0

//! The last look at a planned program: no two operations that may run at the same time share bytes that one of them writes,
//! and no convolution's output lies over its own input.
//!
//! It trusts neither the order nor the memory plan: it takes the places of all cubes and the sets of operations that have
//! completed before each one.

use super::memory::Plan;
use super::program::{Cube, Place, Program, Task, Unit};
use crate::error::Error;

/// A cube in the memory that it lies in.
struct Placed {
    cube: Cube,
    buffer: usize,
    /// None if the buffer has a separate memory.
    pool: Option<(u64, u64)>,
}

/// What an operation touches.
struct Touched {
    reads: Vec<Placed>,
    writes: Option<Placed>,
}

/// Checks a program; an error is a mistake of the compiler.
pub fn check(program: &Program, plan: &Plan) -> Result<(), Error> {
    let atoms = program.atoms();
    let (atom, elements) = (atoms.bytes() as u32, atoms.elements() as u32);
    let placed = |cube: &Cube| {
        cube.buffer().map(|buffer| {
            let start = u64::from(plan.buffers[buffer]) + u64::from(cube.offset);
            let pool = (program.buffers[buffer].place == Place::Pool).then(|| (start, start + u64::from(cube.size)));
            Placed { cube: *cube, buffer, pool }
        })
    };
    let shares = |a: &Placed, b: &Placed| match (a.pool, b.pool) {
        _ if a.buffer == b.buffer => a.cube.overlaps(&b.cube, atom, elements),
        (Some(a), Some(b)) => a.0 < b.1 && b.0 < a.1,
        _ => false,
    };
    for (task, order) in program.tasks.iter().zip(&plan.orders) {
        let (Task::Dla(operations), Some(order)) = (task, order) else { continue };
        let touched: Vec<Touched> = operations
            .iter()
            .map(|operation| Touched {
                reads: operation.unit.reads().filter_map(placed).collect(),
                writes: placed(operation.unit.target()),
            })
            .collect();
        for (later, second) in touched.iter().enumerate() {
            for (earlier, first) in touched.iter().enumerate().take(later) {
                if order.before[later].contains(earlier) {
                    continue;
                }
                let wrote = |a: &Touched, b: &Touched| {
                    a.writes.as_ref().is_some_and(|written| b.reads.iter().chain(&b.writes).any(|b| shares(written, b)))
                };
                if wrote(first, second) || wrote(second, first) {
                    let pair = later == earlier + 1 && matches!(operations[earlier].unit, Unit::Convolution { .. });
                    let what = if pair && operations[later].unit.takes_on_the_fly() {
                        "writes over the input of its convolution"
                    } else {
                        "shares bytes with an operation that may run at the same time"
                    };
                    let tensor = |at: usize| &program.steps[operations[at].step].tensor;
                    return Err(Error::Network(format!(
                        "operation {later} (\"{}\") {what}, {earlier} (\"{}\"): a mistake of the compiler",
                        tensor(later),
                        tensor(earlier)
                    )));
                }
            }
        }
    }
    Ok(())
}
