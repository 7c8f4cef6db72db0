// SPDX-License-Identifier: MIT OR Apache-2.0

//! LSTM, GRU and RNN.

use super::reader::{Node, Reader, TensorValue};
use crate::import::at::At;
use crate::import::recurrent::{unroll, Cell, Gate, Layer, State, MOST_STEPS};
use crate::ir::{Op, TensorId, Unary};

/// The inputs after the first: weights, recurrent weights, biases, lengths, first states, first cells, weights of peepholes.
const W: usize = 1;
const R: usize = 2;
const B: usize = 3;
const LENGTHS: usize = 4;
const HIDDEN: usize = 5;
const CELL: usize = 6;
const PEEPHOLES: usize = 7;

/// An activation. Only those that have no attribute in most files.
fn activation(name: &str) -> Result<Unary, String> {
    match name.to_ascii_lowercase().as_str() {
        "sigmoid" => Ok(Unary::Sigmoid),
        "tanh" => Ok(Unary::Tanh),
        "relu" => Ok(Unary::Relu),
        "softsign" => Ok(Unary::Softsign),
        "softplus" => Ok(Unary::Softplus),
        "hardsigmoid" => Ok(Unary::HardSigmoid { alpha: 0.2, beta: 0.5 }),
        _ => Err(format!("the activation {name}")),
    }
}

impl Reader {
    /// A recurrent layer, step by step: the states of all steps, the last state, and of an LSTM its last cell.
    pub(super) fn recurrent(&mut self, n: &Node<'_>, inputs: &[TensorValue]) -> Result<Vec<TensorValue>, String> {
        let (cell, usual) = match n.proto.op_type.as_str() {
            "LSTM" => (Cell::Lstm, &["Sigmoid", "Tanh", "Tanh"][..]),
            "GRU" => (Cell::Gru { reset_last: n.int("linear_before_reset", 0) != 0 }, &["Sigmoid", "Tanh"][..]),
            _ => (Cell::Rnn, &["Tanh"][..]),
        };
        let x = self.real(n, inputs, 0)?;
        let batch_first = n.int("layout", 0) != 0;
        let &[first, second, _] = self.graph.shape(x) else {
            return Err(format!("its input has the shape {:?}, not three dimensions", self.graph.shape(x)));
        };
        let (steps, batch) = if batch_first { (second, first) } else { (first, second) };
        if steps > MOST_STEPS {
            return Err(format!("{steps} steps, one after another; up to {MOST_STEPS} are computed"));
        }
        if n.has(PEEPHOLES) || n.int("input_forget", 0) != 0 || n.attribute("activation_alpha").is_some() {
            return Err("peepholes, input_forget and activation_alpha are not supported".to_owned());
        }
        if let Some(lengths) = Self::list(inputs, LENGTHS)? {
            if lengths.iter().any(|&length| length != steps as i64) {
                return Err(format!("sequences of {lengths:?} of {steps} steps"));
            }
        }
        let backwards = match n.text("direction", "forward").as_str() {
            "forward" => &[false][..],
            "reverse" => &[true],
            "bidirectional" => &[false, true],
            other => return Err(format!("the direction {other}")),
        };
        let names: Vec<String> = n.attribute("activations").map_or_else(
            || usual.repeat(backwards.len()).into_iter().map(str::to_owned).collect(),
            |given| given.strings.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect(),
        );
        if names.len() != usual.len() * backwards.len() {
            return Err(format!("{} activations", names.len()));
        }
        let clip = Some(n.float("clip", 0.0)).filter(|clip| *clip > 0.0);
        let mut ends = Vec::new();
        for (number, &backwards) in backwards.iter().enumerate() {
            let activations = names[number * usual.len()..][..usual.len()].iter().map(|name| activation(name));
            let gates = self.gates(n, inputs, cell, number)?;
            let layer = Layer { cell, gates, activations: activations.collect::<Result<_, _>>()?, clip };
            let first = State {
                hidden: self.initial(n, inputs, (HIDDEN, number, batch_first))?,
                cell: self.initial(n, inputs, (CELL, number, batch_first))?,
            };
            ends.push(unroll(steps, backwards, first, |at, state| {
                let input = self.at(n, x, at, batch_first)?;
                layer.step(&mut At { graph: &mut self.graph, node: &n.name }, input, state)
            })?);
        }
        let wanted = |k: usize| n.proto.output.get(k).is_some_and(|name| self.readers.contains_key(name));
        let [all, hidden, last] = [0, 1, 2].map(wanted);
        let mut outputs = vec![TensorValue::Unknown; 3];
        if all {
            let mut steps = Vec::new();
            for step in 0..ends[0].0.len() {
                let parts: Vec<TensorId> = ends.iter().map(|(shown, _)| shown[step]).collect();
                steps.push(self.directions(n, &parts, batch, batch_first, true)?);
            }
            let axis = usize::from(batch_first);
            let joined = if steps.len() == 1 { steps[0] } else { self.emit(n, Op::Concat { axis }, &steps)? };
            outputs[0] = TensorValue::Real(joined);
        }
        for (k, of) in [(1, hidden), (2, last)] {
            let parts = ends.iter().filter_map(|(_, state)| if k == 1 { state.hidden } else { state.cell });
            let parts: Vec<TensorId> = parts.collect();
            if of && parts.len() == ends.len() {
                outputs[k] = TensorValue::Real(self.directions(n, &parts, batch, batch_first, false)?);
            }
        }
        let known = outputs.iter().rposition(|value| matches!(value, TensorValue::Real(_))).map_or(0, |at| at + 1);
        outputs.truncate(known);
        Ok(outputs)
    }

    /// The gates of a direction: their rows of the weights and biases.
    fn gates(
        &mut self,
        n: &Node<'_>,
        inputs: &[TensorValue],
        cell: Cell,
        direction: usize,
    ) -> Result<Vec<Gate>, String> {
        let count = cell.gates();
        let mut matrix = |k: usize| {
            let id = self.real(n, inputs, k)?;
            let values = self.graph.constant(id).ok_or("its weights are computed by the network")?.clone();
            match *self.graph.shape(id) {
                [directions, rows, columns] if direction < directions && rows % count == 0 => {
                    Ok((rows / count, columns, values))
                }
                ref shape => Err(format!("weights of the shape {shape:?} for {count} gates")),
            }
        };
        let ((hidden, columns, w), (same, states, r)) = (matrix(W)?, matrix(R)?);
        if (same, states) != (hidden, hidden) {
            return Err(format!("recurrent weights of {same} by {states} for {hidden} hidden elements"));
        }
        let biases = match self.optional(n, inputs, B)? {
            Some(id) => self.graph.constant(id).ok_or("its biases are computed by the network")?.to_vec(),
            None => vec![0.0; 2 * count * hidden * (direction + 1)],
        };
        let row = |values: &[f32], gate: usize, columns: usize, of: usize| {
            values
                .get((of + gate) * hidden * columns..)
                .and_then(|rest| rest.get(..hidden * columns))
                .map(<[f32]>::to_vec)
        };
        let mut gates = Vec::new();
        for gate in 0..count {
            let of = direction * count;
            let parts = [
                row(&w, gate, columns, of),
                row(&r, gate, hidden, of),
                row(&biases, gate, 1, 2 * of),
                row(&biases, gate, 1, 2 * of + count),
            ];
            let [Some(w), Some(r), Some(a), Some(b)] = parts else {
                return Err("weights or biases that end too early".to_owned());
            };
            let mut to = At { graph: &mut self.graph, node: &n.name };
            gates.push(Gate::new(&mut to, [&w, &r], [&a, &b])?);
        }
        Ok(gates)
    }

    /// The state of a direction before the first step, `[B, H, 1, 1]`. None: zeros.
    fn initial(
        &mut self,
        n: &Node<'_>,
        inputs: &[TensorValue],
        (k, direction, batch_first): (usize, usize, bool),
    ) -> Result<Option<TensorId>, String> {
        let Some(id) = self.optional(n, inputs, k)? else { return Ok(None) };
        if self.graph.constant(id).is_some_and(|values| values.iter().all(|&value| value == 0.0)) {
            return Ok(None);
        }
        match self.graph.shape(id) {
            [_, _, _] => self.at(n, id, direction, batch_first).map(Some),
            shape => Err(format!("a state of the shape {shape:?}")),
        }
    }

    /// The input of a step of `[T, B, I]`, or the state of a direction of `[D, B, H]`, as `[B, I, 1, 1]`. With the batch first, that is
    /// the first dimension.
    fn at(&mut self, n: &Node<'_>, x: TensorId, index: usize, batch_first: bool) -> Result<TensorId, String> {
        let shape = self.graph.shape(x).to_vec();
        let axis = usize::from(batch_first);
        let part = self.part(n, x, axis, (index, 1))?;
        self.reshape(n, part, &[shape[1 - axis], shape[2], 1, 1])
    }

    /// The states of all directions, each `[B, H, 1, 1]`: `[D, B, H]`, or `[B, D, H]` with the batch first. A step of a sequence has a
    /// dimension of 1 more, the first, or the second with the batch first.
    fn directions(
        &mut self,
        n: &Node<'_>,
        parts: &[TensorId],
        batch: usize,
        batch_first: bool,
        step: bool,
    ) -> Result<TensorId, String> {
        let mut made = Vec::new();
        for &part in parts {
            let hidden = self.graph.shape(part)[1];
            let shape = match (batch_first, step) {
                (false, false) => vec![1, batch, hidden],
                (true, false) => vec![batch, 1, hidden],
                (false, true) => vec![1, 1, batch, hidden],
                (true, true) => vec![batch, 1, 1, hidden],
            };
            made.push(self.reshape(n, part, &shape)?);
        }
        let axis = usize::from(batch_first) + usize::from(step);
        if let [one] = made[..] {
            return Ok(one);
        }
        self.emit(n, Op::Concat { axis }, &made)
    }
}
