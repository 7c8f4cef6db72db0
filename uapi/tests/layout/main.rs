// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Every layout against a second, deliberately naive implementation that was written from the documents alone: it
//! builds the memory image slot by slot in the order that the document's sentences give.
//!
//! `docs/layouts/rules.md` says which test holds which rule.

mod align;
mod bulk;
mod compress;
mod convert;
mod feature;
mod naive;
mod operand;
mod parts;
mod pixel;
mod precision;
mod rules;
mod tpu;
mod traces;
mod weight;
