// SPDX-License-Identifier: MIT OR Apache-2.0

//! Kinds of the compiler's errors, for programs that react to them.

use std::error::Error as StdError;

use nvdla_runtime::{labels, ErrorKind};

use crate::compiler;
use crate::evaluate::{classes, mixed};
use crate::import::model;
use crate::ir::Unreadable;

/// The kind of an error of this library, or else of one of its causes.
pub fn kind_of(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    let mut next = Some(error);
    while let Some(error) = next {
        let kind = of_model(error).or_else(|| of_compiler(error)).or_else(|| of_evaluation(error));
        if kind.is_some() {
            return kind;
        }
        next = error.source();
    }
    nvdla_runtime::kind_of(error)
}

fn of_model(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    Some(match error.downcast_ref()? {
        model::Error::File(..) | model::Error::Malformed(..) => ErrorKind::File,
        model::Error::Process(..) => ErrorKind::Unsupported,
        model::Error::Nodes(..) => ErrorKind::Refused,
    })
}

fn of_evaluation(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    if error.is::<labels::Error>() {
        return Some(ErrorKind::File);
    }
    match error.downcast_ref()? {
        classes::Error::Samples(_) | classes::Error::Labels(..) => Some(ErrorKind::File),
        classes::Error::Compiler(error) => of_compiler(error),
        classes::Error::Run(..) => Some(ErrorKind::Device),
    }
}

fn of_compiler(error: &(dyn StdError + 'static)) -> Option<ErrorKind> {
    if let Some(crate::error::Error::NoRange(_)) = error.downcast_ref() {
        return Some(ErrorKind::Argument);
    }
    if error.is::<crate::error::Error>() || error.is::<crate::ir::Unreadable>() {
        return Some(ErrorKind::Refused);
    }
    Some(match error.downcast_ref()? {
        compiler::Error::NoScales
        | compiler::Error::NoSamples
        | compiler::Error::Preprocess(..)
        | compiler::Error::Lowering(crate::error::Error::NoRange(_)) => ErrorKind::Argument,
        compiler::Error::Calibration(_) => ErrorKind::File,
        compiler::Error::Lowering(_)
        | compiler::Error::Mixed(mixed::Failure::Lowering(_))
        | compiler::Error::Budget(mixed::Failure::Lowering(_)) => ErrorKind::Refused,
        compiler::Error::Mixed(mixed::Failure::Measuring(_))
        | compiler::Error::Budget(mixed::Failure::Measuring(_)) => ErrorKind::Device,
    })
}

/// The nodes that an error of this library, or one of its causes, refuses.
pub fn refusals_of<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Unreadable> {
    let mut next = Some(error);
    while let Some(error) = next {
        let found = match (error.downcast_ref(), error.downcast_ref(), error.downcast_ref()) {
            (Some(model::Error::Nodes(_, unreadable)), ..)
            | (_, Some(compiler::Error::Lowering(crate::error::Error::Refused(unreadable))), _)
            | (.., Some(crate::error::Error::Refused(unreadable))) => Some(unreadable),
            _ => error.downcast_ref(),
        };
        if found.is_some() {
            return found;
        }
        next = error.source();
    }
    None
}
