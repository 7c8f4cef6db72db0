// SPDX-License-Identifier: MIT OR Apache-2.0

//! Which elements of a step's input its outputs take, along one axis.

use std::ops::Range;

use super::step::{Kind, Mode, Net, Step, TensorId};
use crate::ir::Padding;
use crate::target::TILE;

/// Outputs along one axis, and the inputs that they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// First output.
    pub(crate) first: u32,
    /// Outputs.
    pub(crate) count: u32,
    /// First input.
    pub(crate) input_first: u32,
    /// Inputs.
    pub(crate) input_count: u32,
    /// Padding before.
    pub(crate) before: u32,
    /// Padding after.
    pub(crate) after: u32,
}

impl Span {
    /// Number of inputs with their padding.
    pub(crate) fn padded(&self) -> u32 {
        self.before + self.input_count + self.after
    }

    /// The span with the padding that fills Winograd's last tiles.
    pub(crate) fn tiled(self) -> Self {
        Self { after: self.count + TILE - self.before - self.input_count, ..self }
    }
}

/// What an element of a step's output takes of its inputs along one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    /// The same place of each input, all of which have the output's lines and columns.
    Same,
    /// A window of the only input, which begins at this element.
    Windows(Axis, u32),
    /// The place in the only input of a block of so many elements of the output.
    Blocks(u32),
    /// Any place.
    Whole,
}

/// What a line and a column of a step's output take of its inputs.
pub(crate) fn access(net: &Net, step: &Step) -> [Access; 2] {
    let plane = |id: TensorId| [net.tensors[id].shape[1], net.tensors[id].shape[2]];
    let (input, output) = (plane(step.inputs[0]), plane(step.output));
    let windows = |window: [usize; 2], stride: [usize; 2], padding: Padding, start: [u32; 2]| {
        let axes = Axis::both([input, output], window, stride, padding);
        [0, 1].map(|at| Access::Windows(axes[at], start[at]))
    };
    match &step.kind {
        Kind::Convolution(conv) => windows(conv.op.window(), conv.op.stride, conv.op.padding, [0; 2]),
        Kind::Pool(pool) => windows(pool.kernel, pool.stride, pool.padding, [0; 2]),
        Kind::Slice { start, step } => windows([1; 2], [step[1] as usize, 1], Padding::default(), [start[1], start[2]]),
        Kind::Columns(apart) => windows([1; 2], [1, *apart as usize], Padding::default(), [0; 2]),
        Kind::Spread(block) | Kind::Repeat(block) => block.map(Access::Blocks),
        Kind::Concat(2) => [Access::Same, Access::Whole],
        Kind::Copy | Kind::Concat(0) | Kind::Channels(_) | Kind::Lrn(_) | Kind::Same
            if step.inputs.iter().all(|&id| plane(id) == output) =>
        {
            [Access::Same; 2]
        }
        _ => [Access::Whole; 2],
    }
}

/// What a line of a step's output takes of its inputs.
pub(crate) fn lines(net: &Net, step: &Step) -> Access {
    access(net, step)[0]
}

/// Windows along one axis.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    /// Elements of the input.
    pub(crate) input: u32,
    /// Elements of the output.
    pub(crate) output: u32,
    /// Elements that a window spans, dilation included.
    pub(crate) window: u32,
    /// Distance between two windows.
    pub(crate) stride: u32,
    /// Padding before the first element.
    pub(crate) pad: u32,
}

impl Axis {
    /// The windows of lines and of columns, of an input and an output of so many lines and columns.
    pub(crate) fn both(
        [input, output]: [[u32; 2]; 2],
        window: [usize; 2],
        stride: [usize; 2],
        padding: Padding,
    ) -> [Self; 2] {
        let pads = [padding.top, padding.left];
        [0, 1].map(|at| Self {
            input: input[at],
            output: output[at],
            window: window[at] as u32,
            stride: stride[at] as u32,
            pad: pads[at] as u32,
        })
    }

    /// The place behind the last element that `outputs` outputs take.
    pub(crate) fn reach(&self, outputs: u32) -> u32 {
        ((outputs - 1) * self.stride + self.window).saturating_sub(self.pad)
    }

    /// The span of `count` outputs from `first` on.
    pub(crate) fn span(&self, first: u32, count: u32) -> Span {
        // Counted from the first padding element.
        let begin = first * self.stride;
        let end = (first + count - 1) * self.stride + self.window;
        let input_first = begin.saturating_sub(self.pad).min(self.input - 1);
        let input_end = end.saturating_sub(self.pad).clamp(input_first + 1, self.input);
        Span {
            first,
            count,
            input_first,
            input_count: input_end - input_first,
            before: self.pad.saturating_sub(begin),
            after: end.saturating_sub(self.pad + self.input),
        }
    }

    /// Whether the last windows lie wholly in the padding behind the input. No span can begin there.
    pub(crate) fn ends_behind(&self) -> bool {
        (self.output - 1) * self.stride >= self.pad + self.input
    }

    /// Spans of at most `most` inputs and `outputs` outputs each, which cover the axis; `None` if one output needs more inputs, or
    /// if more outputs than that lie behind the input.
    pub(crate) fn split(&self, most: u32, outputs: u32) -> Option<Vec<Span>> {
        let mut spans = Vec::new();
        let mut first = 0;
        while first < self.output {
            let fits = |count: u32| count <= outputs && self.span(first, count).input_count <= most;
            // The inputs of a span increase with its outputs, so a binary search works.
            let (mut low, mut high) = (0, self.output - first);
            while low < high {
                let middle = (low + high).div_ceil(2);
                if fits(middle) {
                    low = middle;
                } else {
                    high = middle - 1;
                }
            }
            // The next span must begin before the end of the input.
            if first + low < self.output {
                low = low.min((self.pad + self.input - 1) / self.stride - first);
            }
            if low == 0 {
                return None;
            }
            spans.push(self.span(first, low));
            first += low;
        }
        Some(spans)
    }
}

/// The number of convolution buffer slices of a part. In Winograd's mode they include the padding.
pub(crate) fn slices(y: &Span, mode: Mode) -> u32 {
    if mode == Mode::Winograd {
        y.padded()
    } else {
        y.input_count
    }
}

/// The lines of a step's input that lines of its output take.
pub(crate) fn span(net: &Net, step: &Step, of: &Range<u32>) -> Span {
    let [input, output] = [step.inputs[0], step.output].map(|id| net.tensors[id].shape[1]);
    let one = Axis { input, output, window: 1, stride: 1, pad: 0 };
    match lines(net, step) {
        Access::Windows(axis, start) => {
            let span = axis.span(of.start, of.end - of.start);
            Span { input_first: start + span.input_first, ..span }
        }
        Access::Blocks(by) => one.span(of.start / by, (of.end - of.start) / by),
        Access::Same | Access::Whole => one.span(of.start, of.end - of.start),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each output reads the same inputs in every division into spans.
    #[test]
    fn spans_read_what_the_whole_reads() {
        for (window, stride, pad, input, most) in
            [(3, 1, 1, 10, 3), (3, 2, 1, 11, 5), (9, 1, 4, 20, 12), (7, 3, 3, 30, 8)]
        {
            let output = (input + 2 * pad - window) / stride + 1;
            let axis = Axis { input, output, window, stride, pad };
            let spans = axis.split(most, output).unwrap();
            assert!(spans.len() > 1);
            let mut next = 0;
            for span in spans {
                assert_eq!(span.first, next);
                assert!(span.input_count <= most, "{span:?}");
                for at in 0..span.count {
                    // Both are counted from the first padding element of the whole input.
                    let wanted = (span.first + at) * stride;
                    assert_eq!(wanted, at * stride + span.input_first + pad - span.before, "{span:?}");
                }
                let reach = (span.count - 1) * stride + window;
                assert!(span.before + span.input_count + span.after >= reach, "{span:?}");
                next += span.count;
            }
            assert_eq!(next, output);
        }
        assert_eq!(Axis { input: 10, output: 8, window: 3, stride: 1, pad: 0 }.split(2, 8), None);
        // The last windows lie in the padding, behind the input.
        assert!(Axis { input: 4, output: 8, window: 1, stride: 1, pad: 2 }.split(4, 8).is_some());
        let spans = Axis { input: 4, output: 8, window: 1, stride: 1, pad: 2 }.split(4, 6).unwrap();
        assert_eq!(spans.iter().map(|span| (span.first, span.count)).collect::<Vec<_>>(), [(0, 5), (5, 3)]);
        assert_eq!(Axis { input: 4, output: 8, window: 1, stride: 1, pad: 2 }.split(4, 2), None);
    }
}
