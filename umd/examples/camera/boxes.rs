// SPDX-License-Identifier: MIT OR Apache-2.0

//! CenterFace's outputs as boxes.
//!
//! Source: the paper "CenterFace: Joint Face Detection and Alignment Using Face as Point": a score per place of 4 x 4 pixels, and there
//! the logarithm of a box's height and width and the offset of its middle.

use std::cmp::Ordering;

/// Pixels per place.
const STRIDE: f32 = 4.0;
/// Boxes that share more than this part of their area are one.
const MOST_SHARED: f32 = 0.4;

/// A detection, in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detection {
    pub(crate) score: f32,
    pub(crate) left: f32,
    pub(crate) top: f32,
    pub(crate) right: f32,
    pub(crate) bottom: f32,
}

impl Detection {
    fn area(&self) -> f32 {
        (self.right - self.left) * (self.bottom - self.top)
    }

    /// The area that two boxes share, divided by the area of both together.
    fn shared(&self, other: &Self) -> f32 {
        let width = self.right.min(other.right) - self.left.max(other.left);
        let height = self.bottom.min(other.bottom) - self.top.max(other.top);
        let common = width.max(0.0) * height.max(0.0);
        common / (self.area() + other.area() - common)
    }
}

/// The boxes with at least the score `least`, the best first. The outputs have this many places per line.
pub(crate) fn decode(heat: &[f32], size: &[f32], offset: &[f32], columns: usize, least: f32) -> Vec<Detection> {
    let places = heat.len();
    let extent = [(places / columns) as f32 * STRIDE, columns as f32 * STRIDE];
    let mut found = Vec::new();
    for (place, &score) in heat.iter().enumerate().filter(|(_, &score)| score >= least) {
        // Vertically first, as the network has them.
        let side = |axis: usize| size[axis * places + place].exp() * STRIDE;
        let middle = |axis: usize, at: usize| (at as f32 + offset[axis * places + place] + 0.5) * STRIDE;
        let (y, x) = (middle(0, place / columns), middle(1, place % columns));
        let [low, high] = [-0.5, 0.5]
            .map(|half| [(y + half * side(0)).clamp(0.0, extent[0]), (x + half * side(1)).clamp(0.0, extent[1])]);
        found.push(Detection { score, left: low[1], top: low[0], right: high[1], bottom: high[0] });
    }
    found.sort_by(|a, b| b.score.partial_cmp(&a.score).unwrap_or(Ordering::Equal));
    let mut kept: Vec<Detection> = Vec::new();
    for detection in found {
        if kept.iter().all(|better| better.shared(&detection) < MOST_SHARED) {
            kept.push(detection);
        }
    }
    kept
}

/// Draws the boxes into a picture of four bytes per pixel.
pub(crate) fn draw(pixels: &mut [u8], line: usize, found: &[Detection]) {
    let (width, height) = (line / 4, pixels.len() / line);
    for detection in found {
        let [left, right] = [detection.left, detection.right].map(|x| (x as usize).min(width - 1));
        let [top, bottom] = [detection.top, detection.bottom].map(|y| (y as usize).min(height - 1));
        for y in top..=bottom {
            for x in left..=right {
                let distance = (x - left).min(right - x).min((y - top).min(bottom - y));
                if distance < 2 {
                    pixels[y * line + x * 4..][..3].copy_from_slice(&[0, 255, 0]);
                }
            }
        }
    }
}
