// SPDX-License-Identifier: MIT OR Apache-2.0

//! The type of a test, and functions that fail with a message if an expectation is not met.

use std::fmt::Debug;

use libtest_mimic::Failed;
use nix::errno::Errno;
use nvdla_guest::control::{Control, Knob};
use nvdla_guest::node::{nodes, now_ns, Node, Options};
use nvdla_guest::test_task::TestTask;

/// A test: its name and its function.
pub(crate) type Test = (&'static str, fn() -> Result<(), Failed>);

/// Fails unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+).into());
        }
    };
}
pub(crate) use ensure;

/// Fails unless the two are equal.
// By value, so that a test reads as a sentence.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn equal<T: PartialEq + Debug>(what: &str, found: T, wanted: T) -> Result<(), Failed> {
    ensure!(found == wanted, "{what}: {found:?} instead of {wanted:?}");
    Ok(())
}

/// Fails unless the call was refused with this error.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn refused<T: Debug>(what: &str, found: Result<T, Errno>, wanted: Errno) -> Result<(), Failed> {
    match found {
        Err(error) if error == wanted => Ok(()),
        Err(error) => Err(format!("{what}: {error} instead of {wanted}").into()),
        Ok(value) => Err(format!("{what}: gave {value:?} instead of {wanted}").into()),
    }
}

/// Options with a deadline in this many milliseconds.
pub(crate) fn within(milliseconds: u64) -> Options<'static> {
    Options { deadline_ns: now_ns() + milliseconds * 1_000_000, out_fence: true, ..Options::default() }
}

/// Sets a knob and lets `attempt` run a task that exceeds its deadline, until the device has met the fault. Returns the result of
/// that attempt.
///
/// `attempt` gets the milliseconds until the task's deadline. On a loaded machine a deadline may pass before the task is started.
/// Such a task ends without the device, and the knob stays armed. The next attempt then has a later deadline.
pub(crate) fn met<T>(
    control: &Control,
    (knob, value): (Knob, u32),
    milliseconds: u64,
    mut attempt: impl FnMut(u64) -> Result<T, Failed>,
) -> Result<T, Failed> {
    let starts = control.counts().starts;
    for factor in [1, 10, 100] {
        control.set(knob, value);
        let result = attempt(milliseconds * factor)?;
        // These knobs count down with each fault.
        let counts_down = matches!(knob, Knob::Hang | Knob::Lose | Knob::Refuse);
        if control.counts().starts != starts && !(counts_down && control.get(knob) == value) {
            return Ok(result);
        }
    }
    Err(format!("the device has not met the fault {knob:?}").into())
}

/// The first device on the bus, opened.
pub(crate) fn first() -> Result<Node, Failed> {
    nth(0)
}

/// The second device on the bus, opened.
pub(crate) fn second() -> Result<Node, Failed> {
    nth(1)
}

fn nth(number: usize) -> Result<Node, Failed> {
    let mut found = Vec::new();
    for path in nodes() {
        let node = Node::open(&path)?;
        found.push((node.device()?, node));
    }
    // The names of nodes follow the order of the bindings, which earlier tests may have changed.
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    if number >= found.len() {
        return Err(format!("the tests need {} devices: {found:?}", number + 1).into());
    }
    Ok(found.swap_remove(number).1)
}

/// Fails unless the device runs a task with the right result.
pub(crate) fn works(node: &Node) -> Result<(), Failed> {
    let mut test_task = TestTask::copies(node, 2)?;
    test_task.fill(42);
    equal("a task's end", test_task.run(node)?, 0)?;
    Ok(test_task.check(42)?)
}
