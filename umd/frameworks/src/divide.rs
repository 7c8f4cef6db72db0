// SPDX-License-Identifier: MIT OR Apache-2.0

//! A framework's network as compiled groups.

use std::path::Path;

use nvdla_compiler::compiler::Compiler;
use nvdla_compiler::partition::{self, picture, Bound, Estimate, Partition};
use nvdla_compiler::survey::Survey;
use nvdla_runtime::files;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;

use crate::failure::{guarded, Failure, Result};
use crate::kernel::{Group, Header};
use crate::options::Options;
use crate::tensor::{Kind, Port};

/// The importance of a line for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Why a node stays on the processor.
    Node,
    /// What NVDLA runs.
    Summary,
    /// Something that the user should change.
    Warning,
}

/// A divided network.
#[derive(Debug)]
pub struct Divided {
    /// The groups, each with the positions of its nodes in the survey, and each after the groups that it depends on.
    pub groups: Vec<(Vec<usize>, Group)>,
    /// What NVDLA runs.
    pub summary: String,
}

/// The compiler of the options for a network.
pub fn compiler(survey: &Survey, config: &'static Config, options: &Options) -> Compiler {
    let mut quantized = survey.graph.tensors.iter().filter_map(|tensor| Some((tensor, tensor.quantization.as_ref()?)));
    let half = config.has_feature_type(Precision::Fp16);
    // Activations of 16 bits would lose half of them in int8.
    let narrow = quantized.clone().all(|(tensor, quantization)| tensor.constant.is_some() || !quantization.is_wide());
    let int8 = (quantized.next().is_some() && narrow) || options.table.is_some() || !half;
    let precision = options.precision.unwrap_or(if int8 { Precision::Int8 } else { Precision::Fp16 });
    let compiler = Compiler::new(config).precision(precision).optimize(options.optimize).sram(options.sram);
    match &options.table {
        Some(table) => compiler.table(table.as_str()),
        None => compiler,
    }
}

/// Divides a network, and writes what `dump_dir` asks for. `kind` is the element type of a tensor; `log` takes lines for the user.
///
/// # Errors
///
/// If the compiler panics, or the files cannot be written.
pub fn divide(
    survey: &Survey,
    compiler: &Compiler,
    config: &'static Config,
    options: &Options,
    kind: &dyn Fn(&str) -> Option<Kind>,
    log: &dyn Fn(Level, &str),
) -> Result<Divided> {
    let divided = guarded(|| Ok(partition::partition(survey, compiler, &options.limits)))?;
    let compiled = divided.groups.iter().flat_map(|group| &group.report.warnings);
    for warning in divided.warnings.iter().chain(compiled) {
        log(Level::Warning, warning);
    }
    for (node, reason) in survey.nodes.iter().zip(&divided.reasons) {
        if let Some(reason) = reason {
            log(Level::Node, &format!("does not run \"{}\" ({}): {reason}", node.name, node.operator));
        }
    }
    if let Some(folder) = &options.dump {
        dump(folder, survey, &divided)?;
    }
    let sum = |of: fn(&Estimate) -> f64| -> f64 { divided.groups.iter().map(|group| of(&group.estimate) * 1e6).sum() };
    let summary = format!(
        "NVDLA ({}) runs {} of {} nodes in {} groups: about {:.0} us and {:.0} us to hand over, {:.0} us on the processor",
        config.name,
        divided.groups.iter().map(|group| group.nodes.len()).sum::<usize>(),
        survey.nodes.len(),
        divided.groups.len(),
        sum(|estimate| estimate.nvdla),
        sum(|estimate| estimate.handover),
        sum(|estimate| estimate.processor)
    );
    let mut groups = Vec::new();
    for group in divided.groups {
        let nodes = group.nodes.clone();
        match of_group(group, config, kind) {
            Ok(group) => groups.push((nodes, group)),
            Err(Failure(reason)) => log(Level::Warning, &format!("runs a group of nodes less: {reason}")),
        }
    }
    Ok(Divided { groups, summary })
}

/// A compiled group of the compiler's as one of a plugin's.
///
/// # Errors
///
/// If a tensor between the group and the processor has a type that is not given to NVDLA.
pub fn of_group(
    group: partition::Group,
    config: &'static Config,
    kind: &dyn Fn(&str) -> Option<Kind>,
) -> Result<Group> {
    let port = |bound: &Bound| {
        let kind = kind(&bound.tensor).ok_or_else(|| Failure(format!("\"{}\" has another type", bound.tensor)))?;
        Port::new(bound, kind)
    };
    let ports = |bounds: &[Bound]| bounds.iter().map(port).collect::<Result<Vec<_>>>();
    let header =
        Header::new(config.name, ports(&group.inputs)?, ports(&group.outputs)?, group.nodes.len(), group.pictures);
    Ok(Group { header, loadable: group.loadable })
}

/// Writes the loadables and the picture of a division.
fn dump(folder: &Path, survey: &Survey, divided: &Partition) -> Result<()> {
    let fail = |error: std::io::Error| Failure(format!("dump_dir {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(fail)?;
    for (k, group) in divided.groups.iter().enumerate() {
        files::write(folder.join(picture::file(k)), &group.loadable).map_err(fail)?;
    }
    files::write(folder.join("partition.json"), picture::json(survey, divided)).map_err(fail)?;
    files::write(folder.join("partition.html"), picture::page(survey, divided)).map_err(fail)
}
