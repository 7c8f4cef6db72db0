// SPDX-License-Identifier: MIT OR Apache-2.0

//! What makes a loadable's results depend on time: operations that race, and statistics over other bytes.

use std::fmt;

use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::network::{self, races};
use nvdla_runtime::session::Error;
use serde::Serialize;

/// What was found.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Operations that touch the same bytes in no fixed order.
    pub races: Vec<Race>,
    /// Operations of which one writes what another, which hands it its data on the fly, still reads.
    pub over_own_input: Vec<Race>,
    /// Ids of tasks that have too many pairs of operations to look at.
    pub not_examined: Vec<u16>,
    /// Statistics over bytes that are there for something else: these differ from run to run.
    pub statistics: Vec<String>,
}

/// Two operations.
#[derive(Clone, Debug, Serialize)]
pub struct Race {
    /// The task's id.
    pub task: u16,
    /// The operation that comes first in the list.
    pub first: Party,
    /// The other one.
    pub second: Party,
    /// The id of the memory that holds the shared bytes.
    pub memory: u16,
    /// The first shared byte.
    pub start: u64,
    /// The byte behind the last that follow without a gap.
    pub end: u64,
    /// All of that in words.
    #[serde(skip)]
    sentence: String,
}

/// What an operation does to the shared bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Party {
    /// Position in the operation list.
    pub operation: usize,
    /// The unit.
    pub unit: &'static str,
    /// The surface.
    pub surface: &'static str,
    /// Whether it writes.
    pub writes: bool,
}

impl From<races::Race> for Race {
    fn from(race: races::Race) -> Self {
        let party = |party: races::Party| Party {
            operation: party.operation,
            unit: party.unit.name(),
            surface: party.surface,
            writes: party.writes,
        };
        let races::Race { task, first, second, memory, bytes: (start, end) } = race;
        Self { task, first: party(first), second: party(second), memory, start, end, sentence: race.to_string() }
    }
}

impl Check {
    /// Looks through a loadable.
    ///
    /// # Errors
    ///
    /// When a descriptor of a task for NVDLA is missing or cannot be read.
    pub fn of(loadable: &Loadable) -> Result<Self, Error> {
        let races::Races { pairs, over_own_input, not_examined } = races::races(loadable)?;
        let list = |races: Vec<races::Race>| races.into_iter().map(Race::from).collect();
        let statistics = network::statistics(loadable)?;
        let statistics = statistics.iter().map(ToString::to_string).collect();
        Ok(Self { races: list(pairs), over_own_input: list(over_own_input), not_examined, statistics })
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { races, over_own_input, not_examined, statistics } = self;
        match races.len() {
            0 => writeln!(f, "no operations race")?,
            1 => writeln!(f, "1 pair of operations races: nothing fixes which comes first")?,
            count => writeln!(f, "{count} pairs of operations race: nothing fixes which comes first")?,
        }
        races.iter().try_for_each(|race| writeln!(f, "  {}", race.sentence))?;
        if !over_own_input.is_empty() {
            writeln!(f, "written over what is still read, by units that work on the same data:")?;
            over_own_input.iter().try_for_each(|race| writeln!(f, "  {}", race.sentence))?;
        }
        for task in not_examined {
            writeln!(f, "task {task} has too many pairs of operations to look at")?;
        }
        statistics.iter().try_for_each(|found| writeln!(f, "{found}: these bytes differ from run to run"))
    }
}
