// SPDX-License-Identifier: MIT OR Apache-2.0

//! The output of `-v` on the standard error: messages, and how long runs, tasks and operations took.
//!
//! One `-v` shows messages of the level info. The second adds each run and each task, the third each operation. The
//! variable `RUST_LOG` selects levels by module, as in `RUST_LOG=nvdla_runtime=debug`.

use std::fmt::{self, Write as _};
use std::time::Instant;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Prints messages from now on; `verbose` is the number of `-v` options.
pub(crate) fn show(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let wanted = std::env::var("RUST_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let wanted = wanted.unwrap_or_default();
    let wanted = if wanted.default_level().is_some() { wanted } else { wanted.with_default(level) };
    // Fails only if a subscriber is installed already.
    let _ = tracing_subscriber::registry().with(ToStderr.with_filter(wanted)).try_init();
}

/// Writes each message and each ended span as one line.
struct ToStderr;

/// The fields of a message or span as text.
#[derive(Default)]
struct Fields {
    message: String,
    others: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a String does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            // Fields that the log facade adds to a record.
            name if name.starts_with("log.") => Ok(()),
            name => write!(self.others, " {name}={value:?}"),
        };
    }
}

/// A span that has not ended.
struct Open {
    since: Instant,
    fields: Fields,
}

fn line(of: &Metadata<'_>, text: fmt::Arguments<'_>) {
    let level = match *of.level() {
        Level::ERROR => "error",
        Level::WARN => "warning",
        Level::INFO => "info",
        Level::DEBUG => "debug",
        Level::TRACE => "trace",
    };
    nvdla_runtime::program::say(&format!("{level}: {text}"));
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for ToStderr {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        line(event.metadata(), format_args!("{}{}", fields.message, fields.others));
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Open { since: Instant::now(), fields });
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            if let Some(open) = span.extensions_mut().get_mut::<Open>() {
                values.record(&mut open.fields);
            }
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let extensions = span.extensions();
        if let Some(Open { since, fields }) = extensions.get::<Open>() {
            let milliseconds = since.elapsed().as_secs_f64() * 1e3;
            line(span.metadata(), format_args!("{}{}: {milliseconds:.3} ms", span.name(), fields.others));
        }
    }
}
