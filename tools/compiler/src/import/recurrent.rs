// SPDX-License-Identifier: MIT OR Apache-2.0

//! Recurrent layers: their steps, one after another. The formulas are those of ONNX's operators LSTM, GRU and RNN.

use super::at::At;
use crate::ir::{Binary, Convolution, Op, TensorId, Unary};

/// The most steps. Each takes about a dozen operations.
pub(super) const MOST_STEPS: usize = 128;

/// What a layer computes in each step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    /// Gates input, output, forget, cell. The last activation is that of the cell before the output gate.
    Lstm,
    /// Gates update, reset, hidden. Whether the reset gate multiplies the product with the state, and not the state.
    Gru { reset_last: bool },
    /// One gate.
    Rnn,
}

impl Cell {
    pub(super) fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru { .. } => 3,
            Self::Rnn => 1,
        }
    }
}

/// The weights of a gate, which all steps share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gate {
    /// Of the products with the input and with the state, `[H, I, 1, 1]` and `[H, H, 1, 1]`.
    weights: [TensorId; 2],
    /// What is added to these products.
    bias: [TensorId; 2],
    /// What is added to both together.
    both: TensorId,
}

impl Gate {
    /// From matrices of one row per hidden element, for the input and for the state, and their biases.
    pub(super) fn new(at: &mut At<'_>, matrices: [&[f32]; 2], biases: [&[f32]; 2]) -> Result<Self, String> {
        let rows = biases[0].len();
        let mut weights = |matrix: &[f32]| {
            let columns = matrix.len() / rows.max(1);
            at.constant(&[rows, columns, 1, 1], matrix.to_vec())
        };
        let weights = [weights(matrices[0])?, weights(matrices[1])?];
        let both: Vec<f32> = biases[0].iter().zip(biases[1]).map(|(a, b)| a + b).collect();
        let mut bias = |values: &[f32]| at.constant(&[rows], values.to_vec());
        Ok(Self { weights, bias: [bias(biases[0])?, bias(biases[1])?], both: bias(&both)? })
    }
}

/// A layer in one direction.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) cell: Cell,
    pub(super) gates: Vec<Gate>,
    /// f, g and h of the formulas, as many as the cell has.
    pub(super) activations: Vec<Unary>,
    /// The greatest magnitude of a gate's sum.
    pub(super) clip: Option<f32>,
}

/// The state of a layer, `[B, H, 1, 1]`: hidden elements, and the cell. None: zeros.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) hidden: Option<TensorId>,
    pub(super) cell: Option<TensorId>,
}

impl Layer {
    /// The state after a step. The input is `[B, I, 1, 1]`.
    pub(super) fn step(&self, at: &mut At<'_>, x: TensorId, before: State) -> Result<State, String> {
        match self.cell {
            Cell::Lstm => self.lstm(at, x, before),
            Cell::Gru { reset_last } => self.gru(at, x, before.hidden, reset_last),
            Cell::Rnn => {
                let hidden = self.gate(at, 0, x, before.hidden, 0)?;
                Ok(State { hidden: Some(hidden), cell: None })
            }
        }
    }

    fn lstm(&self, at: &mut At<'_>, x: TensorId, State { hidden, cell }: State) -> Result<State, String> {
        let [input, output] = [0, 1].map(|gate| self.gate(at, gate, x, hidden, 0));
        let candidate = self.gate(at, 3, x, hidden, 1)?;
        let mut next = binary(at, Binary::Mul, input?, candidate)?;
        if let Some(cell) = cell {
            let forget = self.gate(at, 2, x, hidden, 0)?;
            let kept = binary(at, Binary::Mul, forget, cell)?;
            next = binary(at, Binary::Add, kept, next)?;
        }
        let shown = at.emit(Op::Unary(self.activations[2]), &[next])?;
        let hidden = binary(at, Binary::Mul, output?, shown)?;
        Ok(State { hidden: Some(hidden), cell: Some(next) })
    }

    fn gru(&self, at: &mut At<'_>, x: TensorId, hidden: Option<TensorId>, reset_last: bool) -> Result<State, String> {
        let update = self.gate(at, 0, x, hidden, 0)?;
        let candidate = if reset_last {
            let own = self.gates[2];
            let reset = self.gate(at, 1, x, hidden, 0)?;
            let of_state = if let Some(hidden) = hidden {
                product(at, hidden, own.weights[1], Some(own.bias[1]))?
            } else {
                let rows = at.graph.shape(own.bias[1])[0];
                at.emit(Op::Reshape { shape: vec![1, rows, 1, 1] }, &[own.bias[1]])?
            };
            let of_state = binary(at, Binary::Mul, reset, of_state)?;
            let of_input = product(at, x, own.weights[0], Some(own.bias[0]))?;
            let sum = binary(at, Binary::Add, of_input, of_state)?;
            self.active(at, sum, 1)?
        } else {
            let state = match hidden {
                Some(hidden) => {
                    let reset = self.gate(at, 1, x, Some(hidden), 0)?;
                    Some(binary(at, Binary::Mul, reset, hidden)?)
                }
                None => None,
            };
            self.gate(at, 2, x, state, 1)?
        };
        // (1 - z) c + z h = c + z (h - c)
        let next = if let Some(hidden) = hidden {
            let change = binary(at, Binary::Sub, hidden, candidate)?;
            let change = binary(at, Binary::Mul, update, change)?;
            binary(at, Binary::Add, candidate, change)?
        } else {
            let less = binary(at, Binary::Mul, update, candidate)?;
            binary(at, Binary::Sub, candidate, less)?
        };
        Ok(State { hidden: Some(next), cell: None })
    }

    /// A gate: an activation of the sum of both products.
    fn gate(
        &self,
        at: &mut At<'_>,
        gate: usize,
        x: TensorId,
        state: Option<TensorId>,
        activation: usize,
    ) -> Result<TensorId, String> {
        let Gate { weights, both, .. } = self.gates[gate];
        let mut sum = product(at, x, weights[0], Some(both))?;
        if let Some(state) = state {
            let of_state = product(at, state, weights[1], None)?;
            sum = binary(at, Binary::Add, sum, of_state)?;
        }
        self.active(at, sum, activation)
    }

    fn active(&self, at: &mut At<'_>, mut sum: TensorId, activation: usize) -> Result<TensorId, String> {
        if let Some(clip) = self.clip {
            sum = at.emit(Op::Unary(Unary::Clip(-clip, clip)), &[sum])?;
        }
        at.emit(Op::Unary(self.activations[activation]), &[sum])
    }
}

/// The hidden elements after each step of a sequence, in its order, and the last state. `step` adds a step, by its place in the sequence
/// and the state before.
pub(super) fn unroll(
    steps: usize,
    backwards: bool,
    mut state: State,
    mut step: impl FnMut(usize, State) -> Result<State, String>,
) -> Result<(Vec<TensorId>, State), String> {
    let mut shown = Vec::new();
    for done in 0..steps {
        state = step(if backwards { steps - 1 - done } else { done }, state)?;
        shown.extend(state.hidden);
    }
    if backwards {
        shown.reverse();
    }
    Ok((shown, state))
}

fn binary(at: &mut At<'_>, op: Binary, a: TensorId, b: TensorId) -> Result<TensorId, String> {
    at.emit(Op::Binary(op), &[a, b])
}

/// A product with a matrix, and its bias.
fn product(at: &mut At<'_>, x: TensorId, weights: TensorId, bias: Option<TensorId>) -> Result<TensorId, String> {
    let operands: Vec<TensorId> = [x, weights].into_iter().chain(bias).collect();
    at.emit(Op::Convolution(Convolution::pointwise()), &operands)
}
