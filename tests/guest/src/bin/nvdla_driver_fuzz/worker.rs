// SPDX-License-Identifier: MIT OR Apache-2.0

//! One of the programs. Its threads share a file of the driver, and open a new one from time to time.

use std::time::{Duration, Instant};

use crate::actions;
use crate::arguments::{Arguments, Outcome};
use crate::program::Program;
use crate::rng::Rng;

/// Does random actions until the time is over or the program is killed.
pub(crate) fn run(arguments: &Arguments, number: usize) -> Outcome {
    let mut rng = Rng::new(arguments.seed);
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    while Instant::now() < end {
        let program = Program::new(number, &mut rng)?;
        let until = end.min(Instant::now() + Duration::from_millis(100 + rng.below(4000)));
        std::thread::scope(|scope| {
            for _ in 0..arguments.threads {
                let (program, mut rng) = (&program, Rng::new(rng.next()));
                scope.spawn(move || {
                    while Instant::now() < until {
                        actions::one(program, &mut rng);
                    }
                });
            }
        });
    }
    Ok(())
}
