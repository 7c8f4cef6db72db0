// SPDX-License-Identifier: MIT OR Apache-2.0

//! The order of the passes: from a graph to a loadable.
//!
//! ```text
//! Graph, Ranges ─masks, roots, separable, strided→ Graph ─build→ Net ─siblings, fuse, crop, inputs, widen→ Net ─place, shares→ Placed ─scales→ Scales
//!   ─numbers→ Numbers ─lower(bands)→ Program ─fly, pictures, prefetch→ Program ─plan→ Planned ─check, emit→ bytes, Report
//! ```
//!
//! Bands of lines and SRAM are candidates (`Candidates`): the program is lowered without and with them, and the better one is
//! kept. Winograd's mode is chosen per convolution by its cost ([`crate::codegen::winograd`]), and the layers of mixed precision and
//! the convolutions of a budget by what they lose on the model ([`crate::evaluate::mixed`], [`crate::evaluate::budget`]).

use std::collections::{HashMap, HashSet};

use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;

use crate::bounds::bounds;
use crate::build::nodes::{self, Known};
use crate::codegen::lowering::Lowering;
use crate::error::Error;
use crate::ir::{self, Graph, Range, Ranges};
use crate::net::step::{Net, Step, TensorId};
use crate::net::verify::verify;
use crate::numbers::doubts::doubts;
use crate::numbers::fp16;
use crate::numbers::quantizer::{Numbers, Quantizer};
use crate::options::{Optimize, Options, Shares, Winograd};
use crate::output::compiled::{Compiled, Lowered};
use crate::output::layout::{Layout, Stored};
use crate::output::loadable;
use crate::output::report::{self, Division, RunReport};
use crate::passes::batch;
use crate::passes::crop::crop;
use crate::passes::fuse::fuse;
use crate::passes::inputs::inputs;
use crate::passes::masks;
use crate::passes::place::place;
use crate::passes::roots;
use crate::passes::scales::{scales, unsaturated};
use crate::passes::separable;
use crate::passes::shares::shares;
use crate::passes::siblings::siblings;
use crate::passes::strided;
use crate::passes::widen::widen;
use crate::schedule::cost::{Cost, Sram};
use crate::schedule::memory::Plan;
use crate::schedule::prefetch::{self, Bands};
use crate::schedule::program::{Cube, Program};
use crate::schedule::stripes::{self, Stripe};
use crate::schedule::{check, fly, memory, pictures};
use crate::target::Target;

/// The passes after which the network of steps can be looked at.
pub const PASSES: [&str; 7] = ["build", "siblings", "fuse", "crop", "inputs", "widen", "place"];

/// Called after each of [`PASSES`] with the network as it then is.
pub type Observe<'o> = &'o mut dyn FnMut(&str, &Net);

/// Compiles a graph.
///
/// # Errors
///
/// When the configuration cannot compute it, with the node or the tensor, or when it is too large.
pub fn compile(graph: &Graph, ranges: &Ranges, options: &Options) -> Result<Compiled, Error> {
    observed(graph, ranges, options, &mut |_, _| {})
}

/// As [`compile`], and calls `observe` after each pass over the network of steps.
///
/// # Errors
///
/// As [`compile`].
pub fn observed(graph: &Graph, ranges: &Ranges, options: &Options, observe: Observe<'_>) -> Result<Compiled, Error> {
    let refused = match at_once(graph, ranges, options, &mut *observe) {
        Err(refused @ (Error::Refused(_) | Error::Unsupported { .. })) if options.wide.is_empty() => refused,
        other => return other,
    };
    // A batch that cannot be computed at once may be pictures that are computed one after another.
    let Some((one, count)) = batch::picture(graph) else { return Err(refused) };
    let pictures = options.pictures.saturating_mul(count);
    if pictures > batch::MOST_PICTURES {
        return Err(refused);
    }
    at_once(&one, ranges, &Options { pictures, ..options.clone() }, observe).map_err(|_| refused)
}

/// Compiles a graph whose batch, if it has one, becomes channels.
fn at_once(graph: &Graph, ranges: &Ranges, options: &Options, observe: Observe<'_>) -> Result<Compiled, Error> {
    let (masked, rooted) = if options.precision == Precision::Fp16 {
        (None, roots::computable(graph, ranges, &options.inputs))
    } else {
        (masks::limited(graph, ranges), None)
    };
    let graph = masked.as_ref().unwrap_or(graph);
    let (graph, ranges) = rooted.as_ref().map_or((graph, ranges), |(graph, ranges)| (graph, ranges));
    if options.optimize != Optimize::Time || !options.wide.is_empty() {
        return faster(graph, ranges, options, observe);
    }
    let joined = separable::join(graph, |pair| cycles(pair, options));
    let graph = joined.as_ref().unwrap_or(graph);
    let moved = strided::move_up(graph, ranges, |part| cycles(part, options));
    let (graph, ranges) = moved.as_ref().map_or((graph, ranges), |(graph, ranges)| (graph, ranges));
    faster(graph, ranges, options, observe)
}

/// All passes. Where Winograd's mode was asked for if it is faster, the network without it is compiled, too: each convolution's mode
/// is chosen by that convolution's time, and what it costs its neighbours may be more than it gains.
fn faster(graph: &Graph, ranges: &Ranges, options: &Options, observe: Observe<'_>) -> Result<Compiled, Error> {
    let compiled = passes(graph, ranges, options, observe)?;
    if options.winograd != Some(Winograd::Faster) || options.fast.is_some() {
        return Ok(compiled);
    }
    let without = Options { winograd: Some(Winograd::Never), ..options.clone() };
    let plain = passes(graph, ranges, &without, &mut |_, _| {});
    Ok(plain.ok().filter(|plain| plain.report.cycles < compiled.report.cycles).unwrap_or(compiled))
}

/// The estimated cycles of a part of a graph, whatever its numbers.
fn cycles(graph: &Graph, options: &Options) -> Option<u64> {
    let mut ranges = Ranges::new();
    for id in (0..graph.tensors.len()).map(ir::TensorId).filter(|&id| graph.constant(id).is_none()) {
        ranges.set(id, Range::of(-1.0, 1.0));
    }
    let options = Options { inputs: Vec::new(), ..options.clone() };
    passes(graph, &ranges, &options, &mut |_, _| {}).ok().map(|compiled| compiled.cycles_of_part)
}

/// All passes.
fn passes(graph: &Graph, ranges: &Ranges, options: &Options, observe: Observe<'_>) -> Result<Compiled, Error> {
    let target = Target::new(options)?;
    let Target { config, precision, .. } = target;
    if graph.outputs.is_empty() {
        return Err(Error::Network("the network has no output".to_owned()));
    }

    // The network of steps. A quantized tensor's limits need functions of SDP where its integers do not saturate there, which only
    // the scales show. Each round adds such tensors, so this ends.
    let bounds = bounds(graph, &options.inputs);
    let integers = precision == Precision::Int8;
    let halves = options.shares == Shares::Half;
    let mut limited = HashSet::new();
    let (placed, given, copies, scales) = loop {
        let all = !integers || !options.wide.is_empty();
        let known = Known { bounds: &bounds, limited: (!all).then_some(&limited), integers, halves };
        let mut passes = Passes { config, precision, observe: &mut *observe };
        let mut net = passes.first(graph, ranges, &known)?;
        // Before the sums join a convolution, and once more because each joined step stands where its last part stood.
        passes.run("siblings", &mut net, |net| siblings(net, config, options.optimize));
        passes.run("fuse", &mut net, |net| {
            fuse(net, config);
            siblings(net, config, options.optimize);
        });
        passes.run("crop", &mut net, crop);
        let given = passes.run("inputs", &mut net, |net| inputs(net, options));
        let chosen = options.wide.iter().map(|id| id.0).collect();
        let wide = |id| given.images.contains_key(&id);
        let copies = passes.run("widen", &mut net, |net| widen(net, &chosen, wide, &given.inputs));
        let mut placed = place(net, config, precision, &given.images)?;
        if integers && halves {
            shares(&mut placed.net);
        }
        passes.after("place", &placed.net);

        graph.budget.check().map_err(Error::Network)?;

        // Its numbers.
        let scales = scales(&placed.net, &given.inputs, precision)?;
        let before = limited.len();
        limited.extend(unsaturated(&placed.net, &scales));
        if limited.len() == before {
            break (placed, given, copies, scales);
        }
    };
    let lowering = Lowering::new(&graph.name, &target, &placed, &scales, &given)?;
    let faster = if precision == Precision::Fp16 { Winograd::Faster } else { Winograd::Never };
    let winograd = options.winograd.unwrap_or(faster);
    let mut quantizer = Quantizer {
        net: &placed.net,
        inputs: &given.inputs,
        scales: &scales,
        ranges,
        copies: &copies,
        precision,
        granularity: options.granularity,
        shared: HashMap::new(),
        tables: Vec::new(),
        errors: Vec::new(),
    };
    let wanted = |step: &Step| match &options.fast {
        Some(names) if !names.contains(&placed.net.tensors[step.output].name) => Winograd::Never,
        _ => winograd,
    };
    let numbers = quantizer.steps(|step| lowering.mode(step, &given.images, wanted(step)))?;
    let Quantizer { tables, errors, .. } = quantizer;
    let mut lowered = Lowered { net: placed.net.clone(), numbers, tables, scales: scales.clone() };

    graph.budget.check().map_err(Error::Network)?;

    // Its program.
    let cost = Cost::new(config, &target.conditions);
    let sram = (target.sram > 0).then(|| Sram { size: target.sram, cost: cost.clone() });
    let candidates = Candidates { lowering: &lowering, lowered: &lowered, sram: sram.as_ref(), goal: options.optimize };
    let (Planned { mut program, plan, warnings }, division) = candidates.best()?;
    for input in &mut program.inputs {
        input.channels_last = graph.channels_last.contains(&input.tensor);
    }
    if !options.numbers {
        lowered.numbers = Vec::new();
    }
    check::check(&program, &plan)?;
    let loadable = loadable::emit(&mut program, &plan, &target.conditions)?;
    let mut report = report::report(&program, &plan, &cost, sram.as_ref(), errors);
    report.describe(graph, &lowered.net, &scales, precision);
    report.warnings = warnings;
    if precision == Precision::Fp16 {
        report.warnings.extend(fp16::saturated(&lowered.net));
    }
    report.warnings.extend(doubts(graph, ranges, &bounds, &lowered.net, &report.tables, precision));
    report.division = division;
    let layout = layout(&lowering, &program);
    let cycles_of_part = cost.cycles(&program, |id| program.in_sram(id));
    let cancel = graph.budget.cancel();
    Ok(Compiled { loadable, report, steps: lowered, config, bytes: given.bytes, layout, cycles_of_part, cancel })
}

/// The passes over the network of steps, with what happens after each of them.
struct Passes<'o> {
    config: &'static Config,
    precision: Precision,
    observe: Observe<'o>,
}

impl Passes<'_> {
    /// The network as it is built.
    fn first(&mut self, graph: &Graph, ranges: &Ranges, known: &Known<'_>) -> Result<Net, Error> {
        let net = nodes::build(graph, ranges, known, self.config).map_err(Error::Refused)?;
        self.after("build", &net);
        Ok(net)
    }

    /// Runs a pass.
    fn run<T>(&mut self, name: &str, net: &mut Net, pass: impl FnOnce(&mut Net) -> T) -> T {
        let result = pass(net);
        self.after(name, net);
        result
    }

    /// Shows the network to the observer. In debug builds and tests the network must be a valid one after every pass.
    fn after(&mut self, name: &str, net: &Net) {
        if cfg!(debug_assertions) {
            if let Err(wrong) = verify(net) {
                panic!("after the pass {name:?} for {} in {:?}: {wrong}", self.config.name, self.precision);
            }
        }
        (self.observe)(name, net);
    }
}

/// A program with its memory and its order.
struct Planned {
    program: Program,
    plan: Plan,
    warnings: Vec<String>,
}

/// The programs that compute a network, of which the best for the goal is kept.
struct Candidates<'a> {
    lowering: &'a Lowering<'a>,
    lowered: &'a Lowered,
    sram: Option<&'a Sram>,
    goal: Optimize,
}

impl Candidates<'_> {
    /// The best program, and its division into bands.
    fn best(&self) -> Result<(Planned, Option<Division>), Error> {
        let mut lowered = self.lower(&[], &HashSet::new())?;
        let (flights, flying) = self.flights(&lowered.0)?;
        if !flights.is_empty() {
            lowered = self.lower(&flights, &flying)?;
        }
        let whole = self.planned(lowered)?;
        let for_memory = matches!(self.goal, Optimize::Memory | Optimize::Pool(_));
        let for_time = self.goal == Optimize::Time && self.sram.is_some();
        if !for_memory && !for_time {
            return Ok((whole, None));
        }
        let pool = whole.plan.activations();
        let cycles = match self.sram {
            Some(sram) => sram.cycles(&whole.program),
            None => self.lowering.cost.cycles_again(&whole.program, |id| whole.program.in_sram(id)),
        };
        let Lowering { placed, buffers, cost, .. } = self.lowering;
        let numbers: &[Numbers] = &self.lowered.numbers;
        let (stripes, flying) = stripes::choose(placed, numbers, buffers, &whole.program, (cost, self.sram), self.goal);
        let striped = self.planned(self.lower(&stripes, &flying)?)?;
        let better = match self.sram {
            // The bands also move fewer bytes in DRAM, which may be slower than assumed.
            Some(sram) if for_time => sram.cycles(&striped.program) < cycles + cycles / 50,
            _ => striped.plan.activations() < pool,
        };
        let (best, stripes) = if better { (striped, stripes) } else { (whole, Vec::new()) };
        let run = |stripe: &Stripe| RunReport {
            first: stripe.steps.start,
            last: stripe.steps.end - 1,
            bands: stripe.bands.len(),
        };
        let division = Division { pool, cycles, runs: stripes.iter().map(run).collect() };
        Ok((best, Some(division).filter(|division| for_memory || !division.runs.is_empty())))
    }

    /// The convolutions and poolings that take less time in bands than in `program`, because the pooling then takes its input on the
    /// fly.
    fn flights(&self, program: &Program) -> Result<(Vec<Stripe>, HashSet<TensorId>), Error> {
        let (mut chosen, mut flying) = (Vec::new(), HashSet::new());
        let most = self.goal == Optimize::Prefetch;
        if self.sram.is_some() || !(most || self.goal == Optimize::Time) {
            return Ok((chosen, flying));
        }
        let Lowering { placed, buffers, cost, .. } = self.lowering;
        let numbers: &[Numbers] = &self.lowered.numbers;
        let cycles = |mut program: Program| {
            fly::join(&mut program);
            cost.cycles(&program, |_| false)
        };
        for (root, stripes) in stripes::flights(placed, numbers, buffers, program, cost) {
            let Some(steps) = stripes.first().map(|stripe| stripe.steps.clone()) else { continue };
            let inside = HashSet::from([root]);
            let whole = cycles(self.lowering.clone().part(numbers, steps)?);
            let mut best = None;
            for stripe in stripes {
                let cycles = cycles(self.lowering.clone().bands(numbers, &stripe, &inside)?);
                if (most || cycles < whole) && best.as_ref().is_none_or(|(least, _)| cycles < *least) {
                    best = Some((cycles, stripe));
                }
            }
            if let Some((_, stripe)) = best {
                flying.insert(root);
                chosen.push(stripe);
            }
        }
        Ok((chosen, flying))
    }

    /// The program with these runs of steps in bands.
    fn lower(&self, stripes: &[Stripe], flying: &HashSet<TensorId>) -> Result<(Program, Vec<String>), Error> {
        let Lowered { numbers, tables, .. } = self.lowered;
        self.lowering.clone().program(numbers, tables, stripes, flying)
    }

    /// A lowered program with its poolings on the fly, its pictures, its bands, its memory and its order.
    fn planned(&self, (mut program, warnings): (Program, Vec<String>)) -> Result<Planned, Error> {
        fly::join(&mut program);
        let count = self.lowering.pictures;
        pictures::repeat(&mut program, count)?;
        let bands = match self.goal {
            Optimize::Time => Bands::Fastest,
            Optimize::Prefetch => Bands::Most,
            Optimize::Size | Optimize::Memory | Optimize::Pool(_) => {
                let plan = memory::plan(&mut program, self.sram)?;
                return Ok(Planned { program, plan, warnings });
            }
        };
        let Some(sram) = self.sram else {
            // The search adds the times of neighbours, which is not exact.
            let cycles = |program: &Program| self.lowering.cost.cycles_again(program, |_| false);
            let mut divided = program.clone();
            prefetch::divide(&mut divided, &self.lowering.cost, bands, count);
            if bands == Bands::Most || cycles(&divided) < cycles(&program) {
                program = divided;
            }
            let plan = memory::plan(&mut program, None)?;
            return Ok(Planned { program, plan, warnings });
        };
        // How long a layer's input is fetched depends on the memory in which it lies, and the choice of buffers for SRAM depends
        // on the bands.
        let plan = memory::plan(&mut program, Some(sram))?;
        let mut divided = program.clone();
        prefetch::divide(&mut divided, &sram.cost, bands, count);
        let new_plan = memory::plan(&mut divided, Some(sram))?;
        if bands == Bands::Most || sram.cycles(&divided) < sram.cycles(&program) {
            return Ok(Planned { program: divided, plan: new_plan, warnings });
        }
        Ok(Planned { program, plan, warnings })
    }
}

/// The places of the tensors that operations write.
fn layout(lowering: &Lowering<'_>, program: &Program) -> Layout {
    let steps = &lowering.placed.net.steps;
    let tensors: Vec<Stored> = steps.iter().map(|step| lowering.stored(step.output)).collect();
    let written = program.written();
    let touched: HashSet<usize> = written.iter().flatten().filter_map(Cube::buffer).collect();
    let layout = Layout {
        atom: program.config.memory_atomic as usize,
        written,
        buffers: program.buffers.iter().map(|buffer| buffer.size).collect(),
        tensors: tensors.into_iter().filter(|stored| touched.contains(&stored.buffer)).collect(),
    };
    layout.without(&program.emulated())
}
