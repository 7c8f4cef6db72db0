// SPDX-License-Identifier: MIT OR Apache-2.0

//! The time of a function, on a machine that also runs other programs.

use std::time::{Duration, Instant};

/// The shortest of several times. There are enough of them that the machine was probably idle during one.
pub(crate) fn shortest(mut f: impl FnMut()) -> Duration {
    let (begin, mut shortest) = (Instant::now(), Duration::MAX);
    for run in 0.. {
        if run >= 15 && begin.elapsed() > Duration::from_millis(300) {
            break;
        }
        let start = Instant::now();
        f();
        shortest = shortest.min(start.elapsed());
    }
    shortest
}
