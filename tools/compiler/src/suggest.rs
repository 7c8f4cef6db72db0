// SPDX-License-Identifier: MIT OR Apache-2.0

//! The outputs with which a refused model can be compiled: what `--check` proposes is tried before.

use std::path::Path;

use crate::compiler::{self, Compiler};
use crate::import::model::{self, Model, Options};
use crate::ir::Unreadable;

/// The most times that a model is read to try proposals.
const MAX_TRIES: usize = 24;

/// The refusals of a model, with those proposed outputs up to which the model is read and compiled.
pub fn tried(path: &Path, options: &Options, compiler: &Compiler, unreadable: Unreadable) -> Unreadable {
    let Unreadable(refusals, mut names) = unreadable;
    let mut left = MAX_TRIES;
    let mut tries = |names: &[String]| {
        if names.is_empty() || left == 0 {
            return Err(Vec::new());
        }
        left -= 1;
        compiles(path, &Options { outputs: names.to_vec(), ..options.clone() }, compiler)
    };
    // A proposal of the reader may be refused by the configuration, which then proposes tensors before.
    for _ in 0..MAX_TRIES / 3 {
        match tries(&names) {
            Ok(()) => return Unreadable(refusals, names),
            Err(before) if !before.is_empty() && before != names => names = before,
            Err(_) => break,
        }
    }
    names.retain(|name| tries(std::slice::from_ref(name)).is_ok());
    if names.len() > 1 && tries(&names).is_err() {
        names.truncate(1);
    }
    Unreadable(refusals, names)
}

/// Whether a model compiles; the error has the names that are proposed instead.
fn compiles(path: &Path, options: &Options, compiler: &Compiler) -> Result<(), Vec<String>> {
    let model = Model::open(path, options).map_err(|error| match error {
        model::Error::Nodes(_, Unreadable(_, names)) => names,
        _ => Vec::new(),
    })?;
    compiler.check(&model).map_err(|error| match error {
        compiler::Error::Lowering(crate::error::Error::Refused(Unreadable(_, names))) => names,
        _ => Vec::new(),
    })
}
