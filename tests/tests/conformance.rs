// SPDX-License-Identifier: MIT OR Apache-2.0

//! Conformance: every loadable of the reference data gives exactly the reference's outputs and surfaces, and every bad
//! one is refused.
//!
//! One test per case, named `CONFIGURATION::SET/NAME`: `cargo test -p nvdla-tests --test conformance -- nv_small` runs
//! the cases of nv_small. `NVDLA_DEVICE` selects the device (see `--device` of `nvdla_runtime`); by default it is the
//! model of the case's configuration. The last lines have the number of comparisons.

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::{Arc, Mutex},
};

use libtest_mimic::{Arguments, Trial};
use nvdla_tests::{
    case::{self, Case, Compared, Expected},
    reference::{find, Reference},
};

/// What the cases of a configuration have compared.
type Counts = Arc<Mutex<BTreeMap<&'static str, (usize, usize, Compared)>>>;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let counts = Counts::default();
    let trials = match find() {
        Reference::Found(path) => match case::all(&path) {
            Ok(cases) if cases.is_empty() => {
                vec![Trial::test("reference_data", move || Err(format!("{} has no cases", path.display()).into()))]
            }
            Ok(cases) => cases.into_iter().map(|case| trial(case, &counts)).collect(),
            Err(why) => vec![Trial::test("reference_data", || Err(why.into()))],
        },
        Reference::Missing(why) => vec![Trial::test("reference_data", || Err(why.into()))],
        Reference::Skipped(why) => {
            println!("skipped: {why}");
            Vec::new()
        }
    };
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Ok(counts) = counts.lock() {
        for (config, (passed, refused, compared)) in counts.iter() {
            println!(
                "{config}: {passed} loadables equal ({} outputs, {} surfaces), {refused} refused as they must be, {} \
                 differences where the order of accesses decides",
                compared.outputs, compared.surfaces, compared.may_differ
            );
        }
    }
    // `cargo test` passes its filter to every test program, so a filter without a match is no failure. If a device is
    // named, cases are expected to run on it, and no match is a failure.
    if std::env::var_os("NVDLA_DEVICE").is_some() && !arguments.list && conclusion.num_passed == 0 {
        println!("no case ran: {} do not match what was asked for", conclusion.num_filtered_out);
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

fn trial(case: Case, counts: &Counts) -> Trial {
    let counts = Arc::clone(counts);
    let kind = match case.expected {
        Expected::Golden => "",
        Expected::OrderDependent => "order dependent",
        Expected::Racing => "racing",
        Expected::Dimg => "dimg",
        Expected::Refused(_) => "refused",
    };
    Trial::test(format!("{}::{}", case.config.name, case.name), move || {
        let compared = case.run()?;
        if let Ok(mut counts) = counts.lock() {
            let (passed, refused, sum) = counts.entry(case.config.name).or_default();
            match case.expected {
                Expected::Refused(_) => *refused += 1,
                _ => *passed += 1,
            }
            sum.outputs += compared.outputs;
            sum.surfaces += compared.surfaces;
            sum.may_differ += compared.may_differ;
        }
        Ok(())
    })
    .with_kind(kind)
}
