// SPDX-License-Identifier: MIT OR Apache-2.0

//! The speeds of operations and of a plain copy, one line per operation.

use std::time::Duration;

/// An operation's name, and at each place its speed in GB/s and the ratio to the copy's speed.
type Row = (&'static str, Vec<(f64, f64)>);

/// The lines.
#[derive(Default)]
pub(crate) struct Table(Vec<Row>);

impl Table {
    /// Adds the time of operation number `row` for `bytes`, and the time of a copy of them.
    pub(crate) fn add(&mut self, row: usize, name: &'static str, bytes: u64, [own, copy]: [Duration; 2]) {
        if self.0.len() <= row {
            self.0.push((name, Vec::new()));
        }
        let own = own.as_secs_f64();
        self.0[row].1.push((bytes as f64 / own / 1e9, copy.as_secs_f64() / own));
    }

    /// Prints the lines under the places' names.
    pub(crate) fn print(&self, places: impl IntoIterator<Item = &'static str>) {
        print!("{:<26}", "operation");
        for place in places {
            print!("{:>13}{:>11}", format!("GB/s, {place}"), "of memcpy");
        }
        println!();
        for (name, figures) in &self.0 {
            print!("{name:<26}");
            for (speed, ratio) in figures {
                print!("{speed:>13.2}{ratio:>11.2}");
            }
            println!();
        }
    }
}
