// SPDX-License-Identifier: MIT OR Apache-2.0

//! Splits an output into parts for the threads. A part has one or two panels of kernels, and some lines; if it is small, it has more
//! panels.
//!
//! If the input is larger than the weights, each thread has some lines of all panels. It then reads only its own lines
//! of the input, which stay in its cache. Otherwise each thread has some panels, and packs only those. If there are
//! fewer panels than threads, lines are split as well.
//!
//! The output is halved recursively, so that no list of parts is needed.

use std::ops::Range;

use super::super::operation::Operation;
use crate::limit::Current;

/// Largest number of surfaces per part: 128 kernels in atoms of 8.
pub const SURFACES: usize = 16;
/// Largest number of panels per part.
pub const PANELS: usize = 2;
/// Largest number of surfaces whose lines are split together.
const MAX_SURFACES: usize = 64;

/// Some output lines of a panel, in one cube.
pub struct Part<'a, T> {
    /// The cube.
    pub batch: usize,
    /// First kernel.
    pub kernel: usize,
    /// First output line.
    pub line: usize,
    /// Number of lines.
    pub lines: usize,
    surfaces: [&'a mut [T]; SURFACES],
    count: usize,
}

impl<'a, T> Part<'a, T> {
    /// The part's lines, for each surface of the panel.
    pub fn surfaces(&mut self) -> &mut [&'a mut [T]] {
        &mut self.surfaces[..self.count]
    }
}

/// Some lines of adjacent panels. Unused entries of `surfaces` are empty.
struct Band<'a, T> {
    batch: usize,
    panel: usize,
    lines: Range<usize>,
    surfaces: [&'a mut [T]; MAX_SURFACES],
}

impl<T> Band<'_, T> {
    /// Splits off the first `lines` lines, of `line` elements each.
    fn split(self, lines: usize, line: usize) -> (Self, Self) {
        let Self { batch, panel, lines: Range { start, end }, mut surfaces } = self;
        let mut rest = std::array::from_fn(|_| &mut [][..]);
        for (first, rest) in surfaces.iter_mut().zip(&mut rest).take_while(|(first, _)| !first.is_empty()) {
            (*first, *rest) = std::mem::take(first).split_at_mut(lines * line);
        }
        let middle = start + lines;
        (
            Self { batch, panel, lines: start..middle, surfaces },
            Self { batch, panel, lines: middle..end, surfaces: rest },
        )
    }
}

/// How an output is split.
#[derive(Clone, Copy, Debug)]
struct Cut {
    lanes: usize,
    height: usize,
    /// Elements per line.
    line: usize,
    /// Surfaces per cube.
    surfaces: usize,
    /// Surfaces per panel.
    per_panel: usize,
    /// Panels per group. The lines of a group are split together.
    together: usize,
    /// Groups per cube.
    groups: usize,
    /// Lines per band.
    step: usize,
}

impl Cut {
    /// The first surface of group `group`, counted over all cubes.
    fn start(&self, group: usize) -> usize {
        group / self.groups * self.surfaces + group % self.groups * self.together * self.per_panel
    }

    /// Passes all lines of each panel to `compute`, on this thread.
    fn run_serially<T>(&self, samples: &mut [T], compute: &impl Fn(Part<'_, T>)) {
        let mut all = samples.chunks_exact_mut(self.height * self.line);
        let mut batch = 0;
        while all.len() > 0 {
            let (mut left, mut kernel) = (self.surfaces, 0);
            while left > 0 {
                let count = left.min(self.per_panel);
                let mut surfaces = std::array::from_fn(|_| &mut [][..]);
                for (place, samples) in surfaces[..count].iter_mut().zip(&mut all) {
                    *place = samples;
                }
                compute(Part { batch, kernel, line: 0, lines: self.height, surfaces, count });
                left -= count;
                kernel += count * self.lanes;
            }
            batch += 1;
        }
    }

    /// Passes `count` groups from number `first` on to `compute`, on several threads.
    fn groups<T: Send>(&self, samples: &mut [T], first: usize, count: usize, compute: &(impl Fn(Part<'_, T>) + Sync)) {
        let surface = self.height * self.line;
        if count > 1 {
            let half = count / 2;
            let (low, high) = samples.split_at_mut((self.start(first + half) - self.start(first)) * surface);
            rayon::join(
                || self.groups(low, first, half, compute),
                || self.groups(high, first + half, count - half, compute),
            );
            return;
        }
        let mut surfaces = std::array::from_fn(|_| &mut [][..]);
        for (surface, samples) in surfaces.iter_mut().zip(samples.chunks_exact_mut(surface)) {
            *surface = samples;
        }
        let (batch, panel) = (first / self.groups, first % self.groups * self.together);
        self.pieces(Band { batch, panel, lines: 0..self.height, surfaces }, compute);
    }

    fn pieces<T: Send>(&self, band: Band<'_, T>, compute: &(impl Fn(Part<'_, T>) + Sync)) {
        let pieces = band.lines.len().div_ceil(self.step);
        if pieces < 2 {
            return self.panels(band, compute);
        }
        let (first, second) = band.split(pieces / 2 * self.step, self.line);
        rayon::join(|| self.pieces(first, compute), || self.pieces(second, compute));
    }

    fn panels<T>(&self, band: Band<'_, T>, compute: &impl Fn(Part<'_, T>)) {
        let Band { batch, panel, lines, mut surfaces } = band;
        for (number, surfaces) in surfaces.chunks_mut(self.per_panel).enumerate() {
            let mut own = std::array::from_fn(|_| &mut [][..]);
            let mut count = 0;
            for (own, surface) in own.iter_mut().zip(surfaces).filter(|(_, surface)| !surface.is_empty()) {
                *own = std::mem::take(surface);
                count += 1;
            }
            if count == 0 {
                break;
            }
            let kernel = (panel + number) * self.per_panel * self.lanes;
            compute(Part { batch, kernel, line: lines.start, lines: lines.len(), surfaces: own, count });
        }
    }
}

/// The number of surfaces per cube, surfaces per part, and parts per cube if lines are not split.
fn surfaces<const N: usize>(operation: &Operation) -> (usize, usize, usize) {
    let lanes = operation.atomic_k;
    let (surfaces, per_panel) = (operation.output.channels.div_ceil(lanes), (N / lanes).clamp(1, SURFACES));
    (surfaces, per_panel, surfaces.div_ceil(per_panel))
}

/// The number of panels of `N` kernels per part. It is more than one if a surface has more kernels.
pub fn panels_of_part<const N: usize>(operation: &Operation) -> usize {
    (operation.atomic_k / N).clamp(1, PANELS)
}

/// The number of panels of all parts, and the distance between panels in kernels.
pub fn panels<const N: usize>(operation: &Operation) -> (usize, usize) {
    let ((_, per_part, parts), panels) = (surfaces::<N>(operation), panels_of_part::<N>(operation));
    (parts * panels, per_part * operation.atomic_k / panels)
}

/// Passes the output to `compute` in parts of `N` kernels. With several threads, a part may have fewer than all lines; with one thread, it
/// has the surfaces of `units` such parts, of which together there are at most [`SURFACES`]. A surface has `height` lines of `width`
/// elements of all lanes.
pub fn each<T: Send, const N: usize>(
    operation: &Operation,
    width: usize,
    height: usize,
    samples: &mut [T],
    threads: usize,
    units: usize,
    compute: &(impl Fn(Part<'_, T>) + Sync),
) {
    let Operation { input, batch, atomic_k: lanes, .. } = *operation;
    let (surfaces, per_panel, panels) = surfaces::<N>(operation);
    let input = input.width * input.height * input.channels * operation.element();
    let by_lines = threads > 1
        && height >= threads
        && surfaces <= MAX_SURFACES
        && input >= operation.kernels * operation.kernel_bytes();
    let together = if by_lines { panels } else { 1 };
    let groups = panels.div_ceil(together);
    let all = groups * batch;
    // Each band of lines reads all panels again, so there are no more bands than threads.
    let pieces = if by_lines { threads.div_ceil(all) } else { (2 * threads).div_ceil(all).min(height) };
    let step = height.div_ceil(pieces);
    let cut = Cut { lanes, height, line: width * lanes, surfaces, per_panel, together, groups, step };
    if threads == 1 {
        Cut { per_panel: per_panel * units, ..cut }.run_serially(samples, compute);
    } else {
        let limit = Current::get();
        cut.groups(samples, 0, all, &|part| limit.with(|| compute(part)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_every_surface_is_in_one_part() {
        let (lanes, height, line, batch) = (8, 7, 3, 2);
        for surfaces in [1, 2, 5, 16, 17, 64] {
            for (per_panel, step) in [(1, 7), (1, 4), (2, 1), (8, 3)] {
                for together in [1, 3, MAX_SURFACES / per_panel] {
                    let groups = usize::div_ceil(surfaces, per_panel * together);
                    let cut = Cut { lanes, height, line, surfaces, per_panel, together, groups, step };
                    let number = |mut part: Part<'_, usize>| {
                        let first = part.batch * surfaces + part.kernel / lanes;
                        let (from, lines) = (part.line, part.lines);
                        for (surface, samples) in part.surfaces().iter_mut().enumerate() {
                            assert_eq!(samples.len(), lines * line);
                            let at = ((first + surface) * height + from) * line;
                            samples.iter_mut().enumerate().for_each(|(index, sample)| *sample = at + index);
                        }
                    };
                    let [mut shared, mut alone] = [(); 2].map(|()| vec![usize::MAX; batch * surfaces * height * line]);
                    cut.groups(&mut shared, 0, groups * batch, &number);
                    cut.run_serially(&mut alone, &number);
                    for samples in [shared, alone] {
                        assert!(samples.iter().copied().eq(0..samples.len()), "{cut:?}");
                    }
                }
            }
        }
    }
}
