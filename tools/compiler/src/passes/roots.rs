// SPDX-License-Identifier: MIT OR Apache-2.0

//! Roots in half precision, as in normalisations, which divide by the root of a mean of squares.
//!
//! Half precision ends at 65,504, the square of 256. So the squares are made smaller by a power of 4, as is everything up to the root,
//! and the root is made larger by the power of 2.
//!
//! A linear table of x^-0.5 is near over few octaves only. Where the arguments have more, or are unknown, the table has one line per
//! octave, with errors of 2 %, and a step of Newton's method follows: y = z (3 - x z^2) / 2.

use crate::bounds::{bounds, Bounds};
use crate::ir::{Binary, Graph, Node, Op, PoolKind, Preprocess, Range, Ranges, Tensor, TensorId, Unary};
use crate::numbers::fp16::GREATEST;

/// The largest square that needs no other units. Sums of a few squares are below the end.
const LARGEST: f32 = 16384.0;
/// The units of squares of unknown size: the squares of 0.03 to 1,000 are then normal numbers.
const UNKNOWN: f32 = 1.0 / 16.0;
/// The ratio of the largest argument to the least, up to which a linear table is used.
const NARROW: f32 = 64.0;

/// The graph whose roots half precision can compute, and its ranges. `None` if it is the same. `inputs` has the preprocessing of each
/// input that is given as a picture's bytes.
pub(crate) fn computable(graph: &Graph, ranges: &Ranges, inputs: &[Option<Preprocess>]) -> Option<(Graph, Ranges)> {
    // Whether it is the reciprocal of a root.
    let inverse = |node: &Node| match node.op {
        Op::Unary(Unary::Power(power)) => (power.to_bits() == (-0.5_f32).to_bits()).then_some(true),
        Op::Unary(Unary::Sqrt) => Some(false),
        _ => None,
    };
    let roots: Vec<_> = graph.nodes.iter().enumerate().filter_map(|(k, node)| Some((k, inverse(node)?))).collect();
    if roots.is_empty() {
        return None;
    }
    let (bounds, readers) = (bounds(graph, inputs), graph.readers());
    let mut new = Builder { bounds, graph: graph.clone(), ranges: ranges.clone(), added: Vec::new() };
    for (k, inverse) in roots {
        let units = squares(graph, &readers, k).and_then(|squares| new.reduce(&squares));
        new.root(k, inverse, units);
    }
    let Builder { graph: mut found, ranges, mut added, .. } = new;
    if added.is_empty() {
        return None;
    }
    // In the order of execution: those at the same place are in the order in which they were added.
    added.sort_by_key(|(at, _)| *at);
    let mut added = added.into_iter().peekable();
    let mut nodes = Vec::new();
    for (k, node) in std::mem::take(&mut found.nodes).into_iter().enumerate() {
        nodes.extend(std::iter::from_fn(|| added.next_if(|(at, _)| *at == k)).map(|(_, node)| node));
        nodes.push(node);
    }
    nodes.extend(added.map(|(_, node)| node));
    found.nodes = nodes;
    Some((found, ranges))
}

/// A sum or mean of squares.
struct Squares {
    /// The node that squares, and the tensors from there to the sum.
    node: usize,
    tensors: Vec<TensorId>,
    /// The constants that are added on the way: the node, and which of its inputs.
    addends: Vec<(usize, usize)>,
}

/// The squares whose sum or mean a function reads, if nothing else reads them.
fn squares(graph: &Graph, readers: &[Vec<usize>], function: usize) -> Option<Squares> {
    let (mut tensors, mut addends) = (Vec::new(), Vec::new());
    let mut id = graph.nodes[function].inputs[0];
    loop {
        let kept = graph.outputs.contains(&id) || graph.tensor(id).quantization.is_some();
        if kept || readers[id.0].len() != 1 {
            return None;
        }
        tensors.push(id);
        let node = graph.producer(id)?.0;
        let Node { op, inputs, .. } = &graph.nodes[node];
        let constant = |at: usize| inputs.get(at).is_some_and(|&id| graph.constant(id).is_some());
        match op {
            Op::Binary(Binary::Mul) if inputs[0] == inputs[1] => return Some(Squares { node, tensors, addends }),
            Op::Binary(Binary::Add) if constant(1) => addends.push((node, 1)),
            Op::Convolution(_) if constant(1) && (inputs.len() < 3 || constant(2)) => {
                addends.extend((inputs.len() > 2).then_some((node, 2)));
            }
            Op::Binary(Binary::Mul) if constant(1) => (),
            Op::Pool(pool) if pool.kind != PoolKind::Max => (),
            Op::Reshape { .. } | Op::Transpose { .. } => (),
            _ => return None,
        }
        id = inputs[0];
    }
}

/// A second operand.
#[derive(Clone, Copy)]
enum Operand {
    Tensor(TensorId),
    Number(f32),
}

/// A graph that is changed.
struct Builder {
    graph: Graph,
    ranges: Ranges,
    /// The bounds of the tensors of the graph as it was.
    bounds: Vec<Bounds>,
    /// The nodes that come before each node of the graph as it was.
    added: Vec<(usize, Node)>,
}

impl Builder {
    /// The values of a tensor, if they are known.
    fn known(&self, id: TensorId) -> Option<[f32; 2]> {
        let of_bounds = self.bounds.get(id.0).map(|&(low, high)| [low, high]);
        let known = self.ranges.get(id).map(|range| [range.min, range.max]).or(of_bounds)?;
        known.iter().all(|end| end.is_finite()).then_some(known)
    }

    fn tensor(&mut self, name: String, shape: Vec<usize>, constant: Option<Vec<f32>>) -> TensorId {
        self.graph.tensors.push(Tensor { name, shape, constant: constant.map(Into::into), quantization: None });
        TensorId(self.graph.tensors.len() - 1)
    }

    /// Adds an operator before a node.
    fn add(&mut self, at: usize, op: Binary, a: TensorId, by: Operand, output: Option<TensorId>) -> TensorId {
        let node = &self.graph.nodes[at.min(self.graph.nodes.len() - 1)];
        let (name, shape) = (node.name.clone(), self.graph.shape(a).to_vec());
        let tensor = format!("{} {}", self.graph.tensor(a).name, self.graph.tensors.len());
        let b = match by {
            Operand::Tensor(id) => id,
            Operand::Number(number) => self.tensor(format!("{tensor} by {number}"), Vec::new(), Some(vec![number])),
        };
        let output = output.unwrap_or_else(|| self.tensor(tensor, shape, None));
        self.added.push((at, Node { name, op: Op::Binary(op), inputs: vec![a, b], output }));
        output
    }

    fn scale(&mut self, id: TensorId, from: TensorId, factor: f32) {
        if let Some(&Range { min, max, scale, span: (low, high), given }) = self.ranges.get(from) {
            let [min, max, scale, low, high] = [min, max, scale, low, high].map(|value| value * factor);
            self.ranges.set(id, Range { min, max, scale, span: (low, high), given });
        }
    }

    /// Makes squares smaller, and all values up to the sum. Returns the factor; none for small squares.
    fn reduce(&mut self, squares: &Squares) -> Option<f32> {
        let Squares { node, tensors, addends } = squares;
        let largest = tensors.iter().map(|&id| self.known(id).map(|[_, high]| high)).collect::<Option<Vec<f32>>>();
        let units = largest.as_ref().map_or(UNKNOWN, |largest| {
            let largest = largest.iter().copied().fold(0.0, f32::max);
            std::iter::successors(Some(1.0_f32), |units| Some(units / 4.0))
                .find(|units| largest * units <= LARGEST || *units < f32::EPSILON)
                .unwrap_or(1.0)
        });
        if units >= 1.0 {
            return None;
        }
        if largest.is_none() {
            let Node { name, output, .. } = &self.graph.nodes[*node];
            let doubt = format!(
                "\"{name}\" ({}): nothing is known of the values that are squared; the squares of those above about {:.0} are too \
                 large for half precision, so results are wrong for them; give samples (--calibrate)",
                self.graph.tensor(*output).name,
                (f64::from(GREATEST) / f64::from(UNKNOWN)).sqrt()
            );
            self.ranges.doubts.push(doubt);
        }
        let x = self.graph.nodes[*node].inputs[0];
        let smaller = self.add(*node, Binary::Mul, x, Operand::Number(units), None);
        self.scale(smaller, x, units);
        self.graph.nodes[*node].inputs[1] = smaller;
        for &id in tensors {
            self.scale(id, id, units);
            self.bounds[id.0] = (self.bounds[id.0].0 * units, self.bounds[id.0].1 * units);
        }
        for &(node, at) in addends {
            let Tensor { name, shape, constant, .. } = self.graph.tensor(self.graph.nodes[node].inputs[at]).clone();
            let values = constant.iter().flat_map(|values| values.iter()).map(|value| value * units).collect();
            self.graph.nodes[node].inputs[at] = self.tensor(format!("{name} * {units}"), shape, Some(values));
        }
        Some(units)
    }

    /// Makes a root, or the reciprocal of one, computable. Its argument may be in other units.
    fn root(&mut self, k: usize, inverse: bool, units: Option<f32>) {
        let (x, y) = (self.graph.nodes[k].inputs[0], self.graph.nodes[k].output);
        let known = self.known(x);
        let narrow = |[low, high]: [f32; 2]| low > 0.0 && high <= low * NARROW;
        let wide = if inverse { !known.is_some_and(narrow) } else { known.is_none() };
        if units.is_none() && !wide {
            return;
        }
        let root = units.unwrap_or(1.0).sqrt();
        let factor = if inverse { root } else { 1.0 / root };
        let Tensor { name, shape, .. } = self.graph.tensor(y).clone();
        let part = self.tensor(format!("{name} of the table"), shape, None);
        self.graph.nodes[k].output = part;
        let last = Some(y);
        if !wide {
            self.scale(part, y, 1.0 / factor);
            self.add(k + 1, Binary::Mul, part, Operand::Number(factor), last);
            return;
        }
        self.graph.nodes[k].op = Op::Unary(Unary::Octaves(-0.5));
        let near = self.add(k + 1, Binary::Mul, x, Operand::Tensor(part), None);
        let square = self.add(k + 1, Binary::Mul, near, Operand::Tensor(part), None);
        let less = self.add(k + 1, Binary::Mul, square, Operand::Number(-0.5 * factor), None);
        let slope = self.add(k + 1, Binary::Add, less, Operand::Number(1.5 * factor), None);
        // x^0.5 is x times x^-0.5.
        self.add(k + 1, Binary::Mul, slope, Operand::Tensor(if inverse { part } else { near }), last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::float;
    use crate::ir::Pool;

    /// x / sqrt(mean(x * x) + e), with the mean over columns. The tensors from the squares to the root's argument.
    fn normalised() -> (Graph, [TensorId; 3]) {
        let mut graph = Graph::new("norm");
        let x = graph.input("x", &[1, 2, 1, 4]).unwrap();
        let squares = graph.add("squares", Op::Binary(Binary::Mul), &[x, x], "squares").unwrap();
        let mean = Pool::new(PoolKind::Average { count_include_pad: false }, [1, 4]);
        let mean = graph.add("mean", Op::Pool(mean), &[squares], "mean").unwrap();
        let epsilon = graph.add_constant("epsilon", &[], vec![0.5]).unwrap();
        let sum = graph.add("sum", Op::Binary(Binary::Add), &[mean, epsilon], "sum").unwrap();
        let root = graph.add("root", Op::Unary(Unary::Power(-0.5)), &[sum], "root").unwrap();
        let y = graph.add("y", Op::Binary(Binary::Mul), &[x, root], "y").unwrap();
        graph.outputs.push(y);
        (graph, [squares, mean, sum])
    }

    /// Squares have other units, and results are the same. With a least argument, the table is linear and no step follows.
    #[test]
    fn squares_are_small_and_results_the_same() {
        let (graph, squares) = normalised();
        let input = vec![vec![1.0, -2.0, 700.0, 30.0, 0.1, 0.2, 0.3, 0.4]];
        let expected = float::run(&graph, &input, &mut |_, _| {}).unwrap();
        let cases = [(None, 16.0, 6), (Some([0.5, 490_000.0]), 64.0, 6), (Some([1e5, 490_000.0]), 64.0, 2)];
        for (known, units, added) in cases {
            let mut ranges = Ranges::new();
            if let Some([low, high]) = known {
                for id in squares {
                    ranges.set(id, Range { min: low, ..Range::of(0.0, high) });
                }
            }
            let (found, ranges) = computable(&graph, &ranges, &[None]).unwrap();
            found.check().unwrap();
            assert_eq!(found.nodes.len(), graph.nodes.len() + added);
            if let Some([_, high]) = known {
                let scaled = |id| (ranges.get(id).unwrap().max - high / units).abs() < 1e-3;
                assert!(squares.into_iter().all(scaled));
            }
            let mut most = 0.0_f32;
            let mut seen = |id: TensorId, values: &[f32]| {
                if id == squares[0] {
                    most = values.iter().fold(most, |most, &value| most.max(value));
                }
            };
            let result = float::run(&found, &input, &mut seen).unwrap();
            assert!((most - 490_000.0 / units).abs() < 1e-3, "{most}");
            for (a, b) in result[0].iter().zip(&expected[0]) {
                assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "{a} instead of {b}");
            }
        }
    }

    /// Squares that others read keep their units, and what is known to be small and narrow stays as it is.
    #[test]
    fn others_stay() {
        let (graph, squares) = normalised();
        let mut ranges = Ranges::new();
        for id in squares {
            ranges.set(id, Range { min: 0.5, ..Range::of(0.0, 9.0) });
        }
        assert!(computable(&graph, &ranges, &[None]).is_none());
        let mut other = graph;
        other.outputs.push(squares[0]);
        let (found, _) = computable(&other, &Ranges::new(), &[None]).unwrap();
        let [square, ..] = &found.nodes[..] else { panic!() };
        assert_eq!(square.inputs, [TensorId(0); 2]);
    }
}
