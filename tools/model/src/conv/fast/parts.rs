// SPDX-License-Identifier: MIT OR Apache-2.0

//! An output cut into parts that threads compute: panels of kernels, and pieces of lines where panels are too few.
//!
//! The output is halved until a part is left, so that nothing has to hold a list of them.

use super::super::operation::Operation;

/// Most surfaces of a part: 64 kernels in atoms of 8.
const SURFACES: usize = 8;

/// A panel's output lines, part of one cube.
pub struct Part<'a, T> {
    /// The cube.
    pub batch: usize,
    /// First kernel.
    pub kernel: usize,
    /// First output line.
    pub line: usize,
    /// Lines.
    pub lines: usize,
    surfaces: [&'a mut [T]; SURFACES],
    count: usize,
}

impl<'a, T> Part<'a, T> {
    /// These lines of each surface that the panel covers.
    pub fn surfaces(&mut self) -> &mut [&'a mut [T]] {
        &mut self.surfaces[..self.count]
    }

    /// The first lines, as many, and the others.
    fn split(self, lines: usize, line: usize) -> (Self, Self) {
        let Self { batch, kernel, count, .. } = self;
        let mut rest = std::array::from_fn(|_| &mut [][..]);
        let mut surfaces = self.surfaces;
        for (first, rest) in surfaces.iter_mut().zip(&mut rest).take(count) {
            let all = std::mem::take(first);
            (*first, *rest) = all.split_at_mut(lines * line);
        }
        let first = Self { batch, kernel, line: self.line, lines, surfaces, count };
        let rest = Self { line: self.line + lines, lines: self.lines - lines, surfaces: rest, ..first };
        (first, rest)
    }
}

/// How an output is cut.
#[derive(Clone, Copy)]
struct Cut {
    lanes: usize,
    height: usize,
    /// Elements of a line.
    line: usize,
    /// Surfaces of a cube, and of a panel.
    surfaces: usize,
    per_panel: usize,
    /// Panels of a cube.
    panels: usize,
    /// Lines of a piece.
    step: usize,
    parallel: bool,
}

impl Cut {
    /// Elements before a panel.
    fn start(&self, panel: usize) -> usize {
        let surfaces = panel / self.panels * self.surfaces + panel % self.panels * self.per_panel;
        surfaces * self.height * self.line
    }

    fn both(&self, first: impl FnOnce() + Send, second: impl FnOnce() + Send) {
        if self.parallel {
            rayon::join(first, second);
        } else {
            first();
            second();
        }
    }

    fn panels<T: Send>(&self, samples: &mut [T], first: usize, count: usize, compute: &(impl Fn(Part<'_, T>) + Sync)) {
        if count > 1 {
            let half = count / 2;
            let (low, high) = samples.split_at_mut(self.start(first + half) - self.start(first));
            return self.both(
                || self.panels(low, first, half, compute),
                || self.panels(high, first + half, count - half, compute),
            );
        }
        let panel = first % self.panels;
        let count = self.per_panel.min(self.surfaces - panel * self.per_panel);
        let mut surfaces = std::array::from_fn(|_| &mut [][..]);
        for (surface, samples) in surfaces.iter_mut().zip(samples.chunks_exact_mut(self.height * self.line)) {
            *surface = samples;
        }
        let kernel = panel * self.per_panel * self.lanes;
        let part = Part { batch: first / self.panels, kernel, line: 0, lines: self.height, surfaces, count };
        self.pieces(part, compute);
    }

    fn pieces<T: Send>(&self, part: Part<'_, T>, compute: &(impl Fn(Part<'_, T>) + Sync)) {
        let pieces = part.lines.div_ceil(self.step);
        if pieces < 2 {
            return compute(part);
        }
        let (first, second) = part.split(pieces / 2 * self.step, self.line);
        self.both(|| self.pieces(first, compute), || self.pieces(second, compute));
    }
}

/// Gives the output to `compute` in parts: panels of `N` kernels, and pieces of lines where `threads` are several and
/// panels too few. A surface has `height` lines of `width` elements of all lanes.
pub fn each<T: Send, const N: usize>(
    operation: &Operation,
    width: usize,
    height: usize,
    samples: &mut [T],
    threads: usize,
    compute: &(impl Fn(Part<'_, T>) + Sync),
) {
    let lanes = operation.atomic_k;
    let surfaces = operation.output.channels.div_ceil(lanes);
    let per_panel = (N / lanes).clamp(1, SURFACES);
    let panels = surfaces.div_ceil(per_panel);
    let all = panels * operation.batch;
    let pieces = if threads == 1 { 1 } else { (2 * threads).div_ceil(all).min(height) };
    let step = height.div_ceil(pieces);
    let cut = Cut { lanes, height, line: width * lanes, surfaces, per_panel, panels, step, parallel: threads > 1 };
    cut.panels(samples, 0, all, compute);
}
