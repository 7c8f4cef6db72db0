// SPDX-License-Identifier: MIT OR Apache-2.0

//! The last check of a planned program: no two operations that may run at the same time access the same bytes if one of them
//! writes them, and no convolution's output overwrites its own input.
//!
//! The check uses neither the order nor the memory plan. It uses the places of all cubes, and for each operation the sets of
//! operations that have completed before it reads and before it writes.

use crate::error::Error;
use crate::schedule::memory::Plan;
use crate::schedule::program::{Cube, Program, Storage, Task, Unit};

/// A cube with its place in memory.
struct Placed {
    cube: Cube,
    buffer: usize,
    /// The pool and the bytes in it; none if the buffer has a separate memory.
    pool: Option<(Storage, u64, u64)>,
}

/// The bytes that an operation accesses.
struct Touched {
    reads: Vec<Placed>,
    writes: Option<Placed>,
}

/// Checks a program. An error is a bug of the compiler.
pub fn check(program: &Program, plan: &Plan) -> Result<(), Error> {
    let atom = program.config.memory_atomic;
    let placed = |cube: &Cube| {
        cube.buffer().map(|buffer| {
            let start = u64::from(plan.buffers[buffer]) + u64::from(cube.offset);
            let place = program.buffers[buffer].place;
            let pool = place.is_pool().then(|| (place, start, start + u64::from(cube.size)));
            Placed { cube: *cube, buffer, pool }
        })
    };
    let shares = |a: &Placed, b: &Placed| match (a.pool, b.pool) {
        _ if a.buffer == b.buffer => a.cube.overlaps(&b.cube, atom),
        (Some(a), Some(b)) => a.0 == b.0 && a.1 < b.2 && b.1 < a.2,
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
                let any = |written: &Option<Placed>, others: &[Placed]| {
                    written.as_ref().is_some_and(|written| others.iter().any(|other| shares(written, other)))
                };
                let reads = !order.before[later].contains(earlier) && any(&first.writes, &second.reads);
                let writes = !order.before_write[later].contains(earlier)
                    && (any(&second.writes, &first.reads) || any(&second.writes, first.writes.as_slice()));
                if reads || writes {
                    let pair = later == earlier + 1 && matches!(operations[earlier].unit, Unit::Convolution { .. });
                    let what = if pair && operations[later].unit.takes_on_the_fly() {
                        "writes over the input of its convolution"
                    } else {
                        "shares bytes with an operation that may run at the same time"
                    };
                    let tensor = |at: usize| &program.steps[operations[at].step].tensor;
                    return Err(Error::Network(format!(
                        "operation {later} ({:?}) {what}, {earlier} ({:?}): a bug in the compiler",
                        tensor(later),
                        tensor(earlier)
                    )));
                }
            }
        }
    }
    Ok(())
}
