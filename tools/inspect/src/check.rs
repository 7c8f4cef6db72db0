// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks a loadable for properties that make its results depend on time (operations that race, and statistics that overwrite
//! other bytes), and for operations that a device of a configuration refuses.

use std::fmt;
use std::sync::Arc;

use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::operations::{self, races};
use nvdla_runtime::session::{self, Error};
use nvdla_uapi::config::Config;
use serde::Serialize;

/// The results of the checks.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Operations that access the same bytes in no fixed order.
    pub races: Vec<Race>,
    /// Operations connected on the fly, of which one writes what another one still reads.
    pub over_own_input: Vec<Race>,
    /// Ids of tasks with too many pairs of operations to examine.
    pub not_examined: Vec<u16>,
    /// Statistics that overwrite other bytes: these bytes differ from run to run.
    pub statistics: Vec<String>,
    /// The configuration whose rules were checked.
    pub configuration: Option<&'static str>,
    /// The rules of the configuration that are broken.
    pub refused: Vec<Refused>,
}

/// A rule that is broken.
#[derive(Clone, Debug, Serialize)]
pub struct Refused {
    /// The task's id.
    pub task: u16,
    /// The rule, and where it is broken.
    pub message: String,
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
    /// The byte after the last shared one.
    pub end: u64,
    /// The race as a sentence.
    #[serde(skip)]
    sentence: String,
}

/// An operation's access to the shared bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Party {
    /// Position in the operation list.
    pub operation: usize,
    /// The unit.
    pub unit: &'static str,
    /// The surface.
    pub surface: &'static str,
    /// Whether it writes the surface.
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
    /// Checks a loadable, and validates it for a configuration as a device does.
    ///
    /// # Errors
    ///
    /// When a descriptor of a task for NVDLA is missing or cannot be read.
    pub fn of(loadable: &Arc<Loadable>, config: Option<&'static Config>) -> Result<Self, Error> {
        let refused = match config {
            Some(config) => session::refusals(Arc::clone(loadable), config)?,
            None => Vec::new(),
        };
        let refused = refused.into_iter();
        let message = |refusal: &session::Refusal| format!("{}{}", refusal.error, refusal.hint());
        let refused = refused.map(|refusal| Refused { task: refusal.task, message: message(&refusal) });
        let races::Races { pairs, over_own_input, not_examined } = races::races(loadable)?;
        let list = |races: Vec<races::Race>| races.into_iter().map(Race::from).collect();
        let statistics = operations::statistics(loadable)?;
        let statistics = statistics.iter().map(ToString::to_string).collect();
        Ok(Self {
            races: list(pairs),
            over_own_input: list(over_own_input),
            not_examined,
            statistics,
            configuration: config.map(|config| config.name),
            refused: refused.collect(),
        })
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { races, over_own_input, not_examined, statistics, configuration, refused } = self;
        if let Some(configuration) = configuration {
            match refused.len() {
                0 => writeln!(f, "{configuration} accepts every task")?,
                1 => writeln!(f, "{configuration} refuses 1 operation or task:")?,
                count => writeln!(f, "{configuration} refuses {count} operations or tasks:")?,
            }
            refused.iter().try_for_each(|refused| writeln!(f, "  task {}: {}", refused.task, refused.message))?;
        }
        match races.len() {
            0 => writeln!(f, "no operations race")?,
            1 => writeln!(f, "1 pair of operations races: nothing fixes which comes first")?,
            count => writeln!(f, "{count} pairs of operations race: nothing fixes which comes first")?,
        }
        races.iter().try_for_each(|race| writeln!(f, "  {}", race.sentence))?;
        if !over_own_input.is_empty() {
            writeln!(f, "overwritten while still being read, by units that work on the same data:")?;
            over_own_input.iter().try_for_each(|race| writeln!(f, "  {}", race.sentence))?;
        }
        for task in not_examined {
            writeln!(f, "task {task} has too many pairs of operations to examine")?;
        }
        statistics.iter().try_for_each(|found| writeln!(f, "{found}: these bytes differ from run to run"))
    }
}
