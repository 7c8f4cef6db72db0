// SPDX-License-Identifier: MIT OR Apache-2.0

//! The model under random register accesses.

use nvdla_uapi::config::{Config, NV_FULL};
use nvdla_uapi::reg::{sdp, Block};
use proptest::prelude::*;

use crate::exercise::{play, play_in, Outcome, UNITS};

#[test]
fn every_program_runs_on_every_configuration_that_has_its_unit() {
    for config in Config::ALL {
        for unit in 0..UNITS.len() as u8 {
            let outcome = play(config, &[unit, 7 + unit]);
            let exists = match unit {
                4 => config.rubik,
                5 => config.bdma,
                _ => true,
            };
            let expected = Outcome { runs: usize::from(exists), stops: Vec::new() };
            assert_eq!(outcome, expected, "{} unit {unit}", config.name);
        }
    }
}

/// A convolution writes its output while it reads, where both share no byte, and after it has read everything, where they do.
#[test]
fn outputs_over_the_input_or_the_weights_are_written_last() {
    let registers = Block::Sdp.registers();
    let address = registers.iter().position(|described| described.register == sdp::D_DST_BASE_ADDR_LOW).unwrap();
    let mut beside = 0;
    for place in 0..250 {
        let bytes = [0, 0xff, Block::Sdp as u8, address as u8, 0, place, 7];
        assert_eq!(play(&NV_FULL, &bytes).runs, 1);
        beside += play_in(&NV_FULL, &bytes, Some(0)).1.beside.unwrap();
    }
    assert!((200..250).contains(&beside), "{beside} of 250");
}

proptest! {
       #![proptest_config(ProptestConfig::with_cases(4000))]

       #[test]
       fn random_accesses_neither_panic_nor_reach_outside(
           config in prop::sample::select(&Config::ALL[..]),
           bytes in prop::collection::vec(any::<u8>(), 0..400),
       ) {
           play(config, &bytes);
       }

       #[test]
       fn changed_programs_neither_panic_nor_reach_outside(
           config in prop::sample::select(vec![&NV_FULL, Config::ALL[1], Config::ALL[6]]),
           steps in prop::collection::vec((0u8..7, prop::collection::vec(any::<[u8; 4]>(), 0..4)), 1..6),
       ) {
           let mut bytes = Vec::new();
           for (unit, changes) in steps {
               bytes.push(unit);
               for change in changes {
                   bytes.push(0xff);
                   // A block of the unit.
                   let block = UNITS[usize::from(unit)][usize::from(change[0]) % UNITS[usize::from(unit)].len()];
                   bytes.push(block as u8);
                   bytes.extend(&change[1..]);
               }
               bytes.push(7 + unit);
           }
        play(config, &bytes);
    }
}
