// SPDX-License-Identifier: MIT OR Apache-2.0

//! LSTM, GRU and RNN over the rows of a blob.

use super::reader::{Layer, Reader};
use crate::import::at::At;
use crate::import::recurrent::{self, unroll, Cell, Gate, State, MOST_STEPS};
use crate::ir::{Op, TensorId, Unary};

impl Reader<'_> {
    /// The states of all steps, the last state of each direction, and of an LSTM its last cell.
    pub(super) fn recurrent(&mut self, l: &Layer<'_>, inputs: &[TensorId]) -> Result<Vec<TensorId>, String> {
        let hidden = l.size(0, 0)?;
        // The gates in NCNN's order, as the formulas have them.
        let (cell, order, activations) = match l.kind {
            "LSTM" => (Cell::Lstm, &[0, 2, 1, 3][..], vec![Unary::Sigmoid, Unary::Tanh, Unary::Tanh]),
            "GRU" => (Cell::Gru { reset_last: true }, &[1, 0, 2][..], vec![Unary::Sigmoid, Unary::Tanh]),
            _ => (Cell::Rnn, &[0][..], vec![Unary::Tanh]),
        };
        if l.int(8, 0) != 0 || l.size(3, hidden)? != hidden {
            return Err("int8 weights, or states of another size than the outputs".to_owned());
        }
        let backwards = match l.int(2, 0) {
            0 => &[false][..],
            1 => &[true],
            2 => &[false, true],
            other => return Err(format!("the direction {other}")),
        };
        let (&x, initial) = inputs.split_first().ok_or("it has no input")?;
        let &[_, steps, columns] = self.graph.shape(x) else {
            return Err(format!("its input has the shape {:?}, not rows", self.graph.shape(x)));
        };
        if steps > MOST_STEPS {
            return Err(format!("{steps} steps, one after another; up to {MOST_STEPS} are computed"));
        }
        let (gates, directions) = (cell.gates(), backwards.len());
        let rows = hidden.checked_mul(gates * directions).filter(|rows| *rows > 0).ok_or("it has no outputs")?;
        let count = rows.checked_mul(columns).ok_or("too many weights")?;
        if l.size(1, 0)? != count {
            return Err(format!("{} weights for {rows} rows of {columns}", l.size(1, 0)?));
        }
        // A GRU has a second bias of the gate that makes a new state.
        let biases = if l.kind == "GRU" { gates + 1 } else { gates };
        let of_input = self.weights.reals(Some(count))?;
        let bias = self.weights.reals(hidden.checked_mul(biases * directions))?;
        let of_state = self.weights.reals(rows.checked_mul(hidden))?;
        let mut ends = Vec::new();
        for (direction, &backwards) in backwards.iter().enumerate() {
            let mut to = At { graph: &mut self.graph, node: l.name };
            let gate = |to: &mut At<'_>, k: usize| {
                let own = |values: &[f32], each: usize| values[(direction * gates + k) * each..][..each].to_vec();
                let first = |k: usize| &bias[(direction * biases + k) * hidden..][..hidden];
                let none = vec![0.0; hidden];
                let second = if l.kind == "GRU" && k == 2 { first(3) } else { &none };
                let matrices = [own(&of_input, hidden * columns), own(&of_state, hidden * hidden)];
                Gate::new(to, matrices.each_ref().map(Vec::as_slice), [first(k), second])
            };
            let gates = order.iter().map(|&k| gate(&mut to, k)).collect::<Result<_, _>>()?;
            let layer = recurrent::Layer { cell, gates, activations: activations.clone(), clip: None };
            let mut start = |k: usize| match initial.get(k) {
                Some(&states) => row(&mut to, states, direction).map(Some),
                None => Ok(None),
            };
            let first = State { hidden: start(0)?, cell: start(1)? };
            ends.push(unroll(steps, backwards, first, |at, state| {
                let input = row(&mut to, x, at)?;
                layer.step(&mut to, input, state)
            })?);
        }
        // Rows of all directions, one beside the other.
        let mut to = At { graph: &mut self.graph, node: l.name };
        let mut lines = Vec::new();
        for step in 0..steps {
            let parts: Vec<TensorId> = ends.iter().map(|(shown, _)| shown[step]).collect();
            let y = joined(&mut to, &parts, 1)?;
            lines.push(to.emit(Op::Reshape { shape: vec![1, 1, hidden * directions] }, &[y])?);
        }
        let mut outputs = vec![joined(&mut to, &lines, 1)?];
        let last = [|state: &State| state.hidden, |state: &State| state.cell];
        for of in last.into_iter().take(l.tops.len().saturating_sub(1)) {
            let parts = ends.iter().filter_map(|(_, state)| of(state));
            let parts = parts.map(|id| to.emit(Op::Reshape { shape: vec![1, 1, hidden] }, &[id]));
            let parts = parts.collect::<Result<Vec<TensorId>, String>>()?;
            outputs.push(joined(&mut to, &parts, 1)?);
        }
        Ok(outputs)
    }
}

/// A row of a blob, as channels.
fn row(to: &mut At<'_>, x: TensorId, at: usize) -> Result<TensorId, String> {
    let &[_, rows, columns] = to.graph.shape(x) else {
        return Err(format!("a state of the shape {:?}, not rows", to.graph.shape(x)));
    };
    if at >= rows {
        return Err(format!("a state of {rows} rows"));
    }
    let slice = Op::Slice { starts: vec![0, at, 0], steps: vec![1; 3], lengths: vec![1, 1, columns] };
    let y = to.emit(slice, &[x])?;
    to.emit(Op::Reshape { shape: vec![1, columns, 1, 1] }, &[y])
}

fn joined(to: &mut At<'_>, parts: &[TensorId], axis: usize) -> Result<TensorId, String> {
    match parts {
        [] => Err("it has no cell to show".to_owned()),
        [one] => Ok(*one),
        _ => to.emit(Op::Concat { axis }, parts),
    }
}
