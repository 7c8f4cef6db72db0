// SPDX-License-Identifier: MIT OR Apache-2.0

//! The histogram of an activation's magnitudes, and the scale that follows from it.

use rayon::prelude::*;

use crate::ir::ranges::HEADROOM;
use crate::ir::Range;

/// The number of bins. It is even, so that pairs can be merged when larger values arrive.
const BINS: usize = 2048;
/// The number of bins of a channel's histogram.
const CHANNEL_BINS: usize = 64;

/// The number of values that a thread processes at once.
const CHUNK: usize = 1 << 16;

/// Steps from 0 to the largest value if 0 is the integer 0.
const SYMMETRIC_STEPS: usize = 127;

/// Steps from the least to the largest value if another integer may be 0.
const STEPS: usize = 255;

/// How a scale is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Method {
    /// The largest magnitude on the samples is 127.
    Max,
    /// This percentage of the values does not saturate.
    Percentile(f32),
    /// The mean square error of rounding and saturation is least.
    #[default]
    Mse,
    /// The distribution of the integers is closest to that of the values (Kullback-Leibler divergence).
    Entropy,
}

impl std::str::FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "max" => Ok(Self::Max),
            "mse" => Ok(Self::Mse),
            "entropy" => Ok(Self::Entropy),
            "percentile" => Ok(Self::Percentile(99.99)),
            _ => {
                let percent = text.strip_prefix("percentile=").and_then(|text| text.parse::<f32>().ok());
                let percent = percent.filter(|percent| *percent > 50.0 && *percent <= 100.0);
                percent
                    .map(Self::Percentile)
                    .ok_or_else(|| "there are max, percentile[=99.99], mse, entropy".to_owned())
            }
        }
    }
}

/// The smallest and the largest value; negative infinity is the smallest of values that are not numbers.
fn limits(values: &[f32]) -> (f32, f32) {
    values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(min, max), &x| {
        if x.is_nan() {
            (f32::NEG_INFINITY, max)
        } else {
            (min.min(x), max.max(x))
        }
    })
}

/// The magnitudes of a tensor's values. The width of the bins doubles when larger values arrive.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    bins: Vec<u64>,
    /// The values of a channel that are exactly zero; the first bin counts them too.
    zeros: u64,
    /// The magnitude at the end of the last bin. 0 if all values were zero.
    end: f32,
    min: f32,
    max: f32,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::with_bins(BINS)
    }
}

impl Histogram {
    fn with_bins(bins: usize) -> Self {
        Self { bins: vec![0; bins], zeros: 0, end: 0.0, min: f32::INFINITY, max: f32::NEG_INFINITY }
    }

    /// The coarse histogram of a channel.
    pub(super) fn of_channel() -> Self {
        Self::with_bins(CHANNEL_BINS)
    }

    /// The histogram of channels whose values are divided by factors. Values are taken to be even within the bin of a channel.
    pub(super) fn joined(channels: &[Self], factors: &[f32]) -> Self {
        let mut all = Self::default();
        for (channel, factor) in channels.iter().zip(factors) {
            all.min = all.min.min(channel.min / factor);
            all.max = all.max.max(channel.max / factor);
            all.end = all.end.max(channel.end / factor);
        }
        for (channel, factor) in channels.iter().zip(factors) {
            all.zeros += channel.zeros;
            all.bins[0] += channel.zeros;
            let width = channel.end / factor / all.end.max(f32::MIN_POSITIVE) * (BINS / channel.bins.len()) as f32;
            for (k, &count) in channel.bins.iter().enumerate() {
                let count = if k == 0 { count - channel.zeros } else { count };
                let [from, to] = [k, k + 1].map(|edge| ((edge as f32 * width) as usize).min(BINS - 1));
                let (bins, mut before) = ((to - from).max(1) as u64, 0);
                for (at, bin) in all.bins[from..].iter_mut().take(bins as usize).enumerate() {
                    let until = count * (at as u64 + 1) / bins;
                    *bin += until - before;
                    before = until;
                }
            }
        }
        all
    }

    /// The largest magnitude.
    pub(super) fn largest(&self) -> f32 {
        self.min.abs().max(self.max.abs())
    }

    /// Adds values on one thread. The limits are those of all values, and every third value is counted.
    pub(super) fn add_few(&mut self, values: &[f32]) {
        self.reach(limits(values));
        let (factor, last) = (self.factor(), self.bins.len() - 1);
        for x in values.iter().step_by(3) {
            self.zeros += u64::from(*x == 0.0);
            self.bins[((x.abs() * factor) as usize).min(last)] += 1;
        }
    }

    pub(super) fn add(&mut self, values: &[f32]) {
        let none = (f32::INFINITY, f32::NEG_INFINITY);
        self.reach(values.par_chunks(CHUNK).map(limits).reduce(|| none, |a, b| (a.0.min(b.0), a.1.max(b.1))));
        let (factor, count) = (self.factor(), self.bins.len());
        let counts = values.par_chunks(CHUNK).map(|values| {
            let mut bins = vec![0; count];
            for x in values {
                bins[((x.abs() * factor) as usize).min(count - 1)] += 1;
            }
            bins
        });
        let counts = counts.reduce_with(|mut a, b| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        });
        self.bins.iter_mut().zip(counts.unwrap_or_default()).for_each(|(bin, count): (&mut u64, u64)| *bin += count);
    }

    /// Extends the limits, and the bins if they do not reach so far.
    fn reach(&mut self, (min, max): (f32, f32)) {
        (self.min, self.max) = (self.min.min(min), self.max.max(max));
        let largest = self.largest();
        if !largest.is_finite() {
            return;
        }
        if self.end == 0.0 && largest > 0.0 {
            // So far all values were zero; they stay in the first bin.
            self.end = largest;
        }
        let count = self.bins.len();
        while self.end < largest {
            self.bins =
                (0..count).map(|k| if k < count / 2 { self.bins[2 * k] + self.bins[2 * k + 1] } else { 0 }).collect();
            // An infinite end would have no width.
            self.end = (self.end * 2.0).min(f32::MAX);
        }
    }

    /// The number of bins per unit of magnitude.
    fn factor(&self) -> f32 {
        if self.end > 0.0 {
            self.bins.len() as f32 / self.end
        } else {
            0.0
        }
    }

    pub(super) fn is_finite(&self) -> bool {
        self.min.is_finite() && self.max.is_finite()
    }

    pub(super) fn range(&self, method: Method) -> Range {
        let mut range = Range::of(self.min, self.max);
        let largest = self.largest();
        let width = self.end / BINS as f32;
        // `levels` is the number of integers from 0 to the end of the last bin that does not saturate.
        let threshold = |levels: &dyn Fn(usize) -> usize| {
            let threshold = match method {
                Method::Max => largest,
                Method::Percentile(percent) => self.percentile(percent) as f32 * width,
                Method::Mse => self.least(levels, &|bins| self.square_error(bins, levels(bins))) as f32 * width,
                Method::Entropy => self.least(levels, &|bins| self.divergence(bins, levels(bins))) as f32 * width,
            };
            threshold.min(largest)
        };
        if largest > 0.0 {
            range.scale = threshold(&|_| SYMMETRIC_STEPS + 1) / SYMMETRIC_STEPS as f32;
            let other = (-self.min).min(self.max).max(0.0) * HEADROOM;
            range.span_to(threshold(&|bins| {
                let reach = bins as f64 * f64::from(width);
                (STEPS as f64 * reach / (reach + f64::from(other).min(reach)).max(f64::MIN_POSITIVE)) as usize + 1
            }));
        }
        range
    }

    /// The number of bins that hold `percent` of the values.
    fn percentile(&self, percent: f32) -> usize {
        let total: u64 = self.bins.iter().sum();
        let enough = (total as f64 * f64::from(percent) / 100.0).ceil() as u64;
        let mut sum = 0;
        1 + self
            .bins
            .iter()
            .take(BINS - 1)
            .take_while(|&&count| {
                sum += count;
                sum < enough
            })
            .count()
    }

    /// The number of bins with the least cost, among those at which a scale can end.
    fn least(&self, levels: &dyn Fn(usize) -> usize, cost: &dyn Fn(usize) -> f64) -> usize {
        let used = self.bins.iter().rposition(|&count| count > 0).map_or(1, |last| last + 1);
        let levels = levels(used);
        let candidates = (levels..used).step_by(BINS / 256).chain([used.clamp(levels, BINS)]);
        let costs = candidates.map(|bins| (bins, cost(bins)));
        costs.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(BINS, |(bins, _)| bins)
    }

    /// The sum of squared errors, in units of bins, if the threshold is at the end of bin `bins`.
    fn square_error(&self, bins: usize, levels: usize) -> f64 {
        let step = bins as f64 / (levels - 1) as f64;
        let error = |(k, &count): (usize, &u64)| {
            let value = k as f64 + 0.5;
            let integer = (value / step).round().min((levels - 1) as f64);
            count as f64 * (value - integer * step).powi(2)
        };
        // The first bin holds zeros, which have no error.
        self.bins.iter().enumerate().skip(1).map(error).sum()
    }

    /// The divergence of the values' distribution from the one that `levels` levels can represent.
    fn divergence(&self, bins: usize, levels: usize) -> f64 {
        let mut values: Vec<f64> = self.bins[..bins].iter().map(|&count| count as f64).collect();
        // Saturated values count in the last bin.
        values[bins - 1] += self.bins[bins..].iter().sum::<u64>() as f64;
        let total: f64 = values.iter().sum();
        let mut divergence = 0.0;
        for level in 0..levels {
            let own = level * bins / levels..(level + 1) * bins / levels;
            // The level's count, distributed evenly over its bins that are not empty, without saturated values.
            let sum: f64 = self.bins[own.clone()].iter().map(|&count| count as f64).sum();
            let filled = values[own.clone()].iter().filter(|&&value| value > 0.0).count() as f64;
            for &value in values[own].iter().filter(|&&value| value > 0.0) {
                let shown = (sum / filled).max(1e-9);
                divergence += value / total * (value / shown).ln();
            }
        }
        divergence
    }
}
