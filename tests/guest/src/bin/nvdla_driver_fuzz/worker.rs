// SPDX-License-Identifier: MIT OR Apache-2.0

//! One of the programs. Its threads share a file of the driver, and open a new one from time to time.

use std::time::{Duration, Instant};

use nvdla_tests::random::Random;

use crate::actions;
use crate::arguments::{Arguments, Outcome};
use crate::program::Program;

/// Does random actions until the time is over or the program is killed.
pub(crate) fn run(arguments: &Arguments, number: usize) -> Outcome {
    let mut random = Random::new(arguments.seed);
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    while Instant::now() < end {
        let program = Program::new(number, &mut random)?;
        let until = end.min(Instant::now() + Duration::from_millis(100 + random.below(4000)));
        std::thread::scope(|scope| {
            for _ in 0..arguments.threads {
                let (program, mut random) = (&program, Random::new(random.next()));
                scope.spawn(move || {
                    while Instant::now() < until {
                        actions::one(program, &mut random);
                    }
                });
            }
        });
    }
    Ok(())
}
