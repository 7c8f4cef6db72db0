// SPDX-License-Identifier: MIT OR Apache-2.0

//! The histogram of an activation's magnitudes, and the scale that follows from it.

use rayon::prelude::*;

use crate::ir::ranges::HEADROOM;
use crate::ir::Range;
use crate::vector::vectorised;

/// The number of bins. It is even, so that pairs can be merged when larger values arrive.
const BINS: usize = 2048;
/// The number of bins of a channel's histogram.
const CHANNEL_BINS: usize = 64;

/// Of a channel every third value is counted.
const FEW: usize = 3;

/// The number of values that a thread processes at once.
pub(super) const CHUNK: usize = 1 << 16;

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

/// How many values are compared and added at once.
const LANES: usize = 8;

/// The smallest and the largest of some values, and their sum.
#[derive(Clone, Copy)]
pub(super) struct Summary {
    /// Negative infinity if a value is not a number.
    pub(super) min: f32,
    pub(super) max: f32,
    pub(super) sum: f64,
}

vectorised! {
    fn summary(values: &[f32]) -> Summary {
        let (mut min, mut max, mut sums) = ([f32::INFINITY; LANES], [f32::NEG_INFINITY; LANES], [0.0; LANES]);
        let mut add = |values: &[f32]| {
            for (k, &x) in values.iter().enumerate() {
                min[k] = if x < min[k] { x } else { min[k] };
                max[k] = if x > max[k] { x } else { max[k] };
                sums[k] += f64::from(x);
            }
        };
        let (all, rest) = values.as_chunks::<LANES>();
        for values in all {
            add(values);
        }
        add(rest);
        let sum: f64 = sums.iter().sum();
        let min = if sum.is_nan() { f32::NEG_INFINITY } else { min.into_iter().fold(f32::INFINITY, f32::min) };
        Summary { min, max: max.into_iter().fold(f32::NEG_INFINITY, f32::max), sum }
    }
}

impl Summary {
    pub(super) fn of(values: &[f32]) -> Self {
        summary(values)
    }
}

/// Counts of each bin. Neighbours often have the same bin, and a count that was just written is late to read.
const COPIES: usize = 4;

/// Counts the bins of every STEP-th value. Values beyond the last bin are in the last. Returns how many are exactly zero.
#[inline(always)]
#[allow(clippy::inline_always)] // so that its code is compiled for each instruction set
fn count<const STEP: usize, const BINS: usize>(values: &[f32], factor: f32, counts: &mut [[u32; COPIES]; BINS]) -> u32 {
    const TOGETHER: usize = 32;
    // The last bits of such a sum are those of the nearest integer, without a conversion.
    const WHOLE: f32 = (1u32 << 23) as f32;
    let last = (BINS - 1) as f32;
    let (mut few, mut bins, mut zeros) = ([0f32; TOGETHER], [0; TOGETHER], 0);
    for values in values.chunks(TOGETHER * STEP) {
        for (x, value) in few.iter_mut().zip(values.iter().step_by(STEP)) {
            *x = *value;
        }
        // The numbers of bins first, which the compiler computes in vector registers.
        for (bin, x) in bins.iter_mut().zip(&few) {
            let place = x.abs() * factor;
            let place = if place > 0.0 { place } else { 0.0 };
            let place = if place < last { place } else { last };
            let sum = place + WHOLE;
            *bin = sum.to_bits() - WHOLE.to_bits() - u32::from(sum - WHOLE > place);
        }
        let count = values.len().div_ceil(STEP);
        for x in &few[..count] {
            zeros += u32::from(*x == 0.0);
        }
        for bins in bins[..count].chunks(COPIES) {
            for (copy, &bin) in bins.iter().enumerate() {
                counts[bin as usize % BINS][copy] += 1;
            }
        }
    }
    zeros
}

vectorised! {
    /// [`count`] of a tensor.
    fn count_all(values: &[f32], factor: f32, counts: &mut [[u32; COPIES]; BINS]) -> u32 {
        count::<1, BINS>(values, factor, counts)
    }
}

vectorised! {
    /// [`count`] of a channel.
    fn count_few(values: &[f32], factor: f32, counts: &mut [[u32; COPIES]; CHANNEL_BINS]) -> u32 {
        count::<FEW, CHANNEL_BINS>(values, factor, counts)
    }
}

/// The magnitudes of a tensor's values. The width of the bins doubles when larger values arrive.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    /// Empty if only the limits are measured.
    bins: Vec<u64>,
    /// The values of a channel that are exactly zero; the first bin counts them too.
    zeros: u64,
    /// The magnitude at the end of the last bin. 0 if all values were zero.
    end: f32,
    /// The magnitude of which the end is a multiple by a power of two. 0: the largest of the first values.
    unit: f32,
    min: f32,
    max: f32,
}

impl Histogram {
    fn with_bins(bins: usize) -> Self {
        Self { bins: vec![0; bins], zeros: 0, end: 0.0, unit: 0.0, min: f32::INFINITY, max: f32::NEG_INFINITY }
    }

    /// The histogram of a tensor, or its limits alone.
    pub(super) fn of_tensor(counted: bool) -> Self {
        Self::with_bins(if counted { BINS } else { 0 })
    }

    /// The coarse histogram of a channel, or its limits alone.
    pub(super) fn of_channel(counted: bool) -> Self {
        Self::with_bins(if counted { CHANNEL_BINS } else { 0 })
    }

    /// Without values, with bins whose width differs from that of these by a power of two.
    pub(super) fn beside(&self) -> Self {
        Self { unit: self.end, ..Self::with_bins(self.bins.len()) }
    }

    /// Adds the values of a histogram that began [beside](Self::beside) this one.
    pub(super) fn join(&mut self, other: &Self) {
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
        self.zeros += other.zeros;
        let mut other = other.clone();
        let end = self.end.max(other.end);
        for histogram in [&mut *self, &mut other] {
            histogram.widen(end);
        }
        self.bins.iter_mut().zip(&other.bins).for_each(|(own, other)| *own += other);
    }

    /// The histogram of channels whose values are divided by factors. Values are taken to be even within the bin of a channel.
    pub(super) fn joined(channels: &[Self], factors: &[f32]) -> Self {
        let mut all = Self::of_tensor(channels.iter().all(|channel| !channel.bins.is_empty()));
        for (channel, factor) in channels.iter().zip(factors) {
            all.min = all.min.min(channel.min / factor);
            all.max = all.max.max(channel.max / factor);
            all.end = all.end.max(channel.end / factor);
        }
        if all.bins.is_empty() {
            return all;
        }
        for (channel, factor) in channels.iter().zip(factors) {
            all.zeros += channel.zeros;
            all.bins[0] += channel.zeros;
            let width = channel.end / factor / all.end.max(f32::MIN_POSITIVE) * (BINS / channel.bins.len()) as f32;
            for (k, &count) in channel.bins.iter().enumerate().filter(|(_, count)| **count > 0) {
                let count = if k == 0 { count - channel.zeros } else { count };
                let [from, to] = [k, k + 1].map(|edge| ((edge as f32 * width) as usize).min(BINS - 1));
                let bins = (to - from).max(1);
                let (each, rest) = (count / bins as u64, count % bins as u64);
                let mut left = 0;
                for bin in &mut all.bins[from..from + bins] {
                    left += rest;
                    let more = u64::from(left >= bins as u64);
                    *bin += each + more;
                    left -= more * bins as u64;
                }
            }
        }
        all
    }

    /// The largest magnitude.
    pub(super) fn largest(&self) -> f32 {
        self.min.abs().max(self.max.abs())
    }

    /// Adds values on one thread. The limits are those of all values.
    pub(super) fn add_few(&mut self, values: &[f32], summary: Summary) {
        self.reach(&[summary]);
        if self.bins.is_empty() {
            return;
        }
        let mut counts = [[0; COPIES]; CHANNEL_BINS];
        self.zeros += u64::from(count_few(values, self.factor(), &mut counts));
        self.add_counts(&counts);
    }

    /// Adds values, of which `summaries` has the limits.
    pub(super) fn add(&mut self, values: &[f32], summaries: &[Summary]) {
        self.reach(summaries);
        if self.bins.is_empty() {
            return;
        }
        let factor = self.factor();
        let counts = values.par_chunks(CHUNK).map(|values| {
            let mut counts = vec![[0; COPIES]; BINS];
            if let Some(counts) = counts.first_chunk_mut() {
                count_all(values, factor, counts);
            }
            counts
        });
        let counts = counts.reduce_with(|mut a, b| {
            a.iter_mut().zip(b).for_each(|(a, b)| a.iter_mut().zip(b).for_each(|(a, b)| *a += b));
            a
        });
        self.add_counts(&counts.unwrap_or_default());
    }

    fn add_counts(&mut self, counts: &[[u32; COPIES]]) {
        for (bin, counts) in self.bins.iter_mut().zip(counts) {
            *bin += counts.iter().map(|&count| u64::from(count)).sum::<u64>();
        }
    }

    /// Extends the limits, and the bins if they do not reach so far.
    fn reach(&mut self, summaries: &[Summary]) {
        for Summary { min, max, .. } in summaries {
            (self.min, self.max) = (self.min.min(*min), self.max.max(*max));
        }
        let largest = self.largest();
        if !largest.is_finite() {
            return;
        }
        if self.end == 0.0 && largest > 0.0 {
            // So far all values were zero; they stay in the first bin.
            self.end = if self.unit > 0.0 { self.unit } else { largest };
            while self.unit > 0.0 && self.end / 2.0 >= largest.max(f32::MIN_POSITIVE) {
                self.end /= 2.0;
            }
        }
        self.widen(largest);
    }

    /// Makes bins wider until they reach as far.
    fn widen(&mut self, reach: f32) {
        let count = self.bins.len();
        if self.end == 0.0 {
            self.end = reach;
        }
        while self.end < reach {
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

    /// The range according to a method; without counts, that of the limits.
    pub(super) fn range(&self, method: Method) -> Range {
        let method = if self.bins.is_empty() { Method::Max } else { method };
        let mut range = Range::of(self.min, self.max);
        let largest = self.largest();
        let width = self.end / BINS as f32;
        let moments = if method == Method::Mse { self.moments() } else { Vec::new() };
        let logs = if method == Method::Entropy { self.logs() } else { Vec::new() };
        // `levels` is the number of integers from 0 to the end of the last bin that does not saturate.
        let threshold = |levels: &dyn Fn(usize) -> usize| {
            let threshold = match method {
                Method::Max => largest,
                Method::Percentile(percent) => self.percentile(percent) as f32 * width,
                Method::Mse => {
                    let error = |bins| Self::square_error(&moments, bins, levels(bins));
                    self.least(levels, &error) as f32 * width
                }
                Method::Entropy => {
                    let divergence = |bins| self.divergence(&logs, bins, levels(bins));
                    self.least(levels, &divergence) as f32 * width
                }
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

    /// Sums over the bins before each bin, of the counts, and of the counts times their numbers and squared numbers. They are whole
    /// numbers, which are exact up to 2^53.
    fn moments(&self) -> Vec<[f64; 3]> {
        let mut sums = [0.0; 3];
        let sum = |(k, &count): (usize, &u64)| {
            let (before, k) = (sums, k as f64);
            for (sum, power) in sums.iter_mut().zip([1.0, k, k * k]) {
                *sum += count as f64 * power;
            }
            before
        };
        let mut all: Vec<_> = self.bins.iter().enumerate().map(sum).collect();
        all.push(sums);
        all
    }

    /// The sum of squared errors, in units of bins, if the threshold is at the end of bin `bins`.
    fn square_error(moments: &[[f64; 3]], bins: usize, levels: usize) -> f64 {
        let step = bins as f64 / (levels - 1) as f64;
        // The first bin holds zeros, which have no error.
        let (mut error, mut from) = (0.0, 1);
        for integer in 0..levels {
            // The first bin whose middle is nearer to the next integer.
            let end = ((integer as f64 + 0.5) * step - 0.5).max(1.0);
            let whole = end as usize;
            let until = if integer + 1 == levels { BINS } else { (whole + usize::from(end > whole as f64)).min(BINS) };
            let [count, sum, squares] = [0, 1, 2].map(|power| moments[until][power] - moments[from][power]);
            // Around the first bin, so that large numbers do not cancel each other.
            let first = from as f64;
            let (sum, squares) = (sum - first * count, squares - 2.0 * first * sum + first * first * count);
            let off = integer as f64 * step - 0.5 - first;
            error += squares - 2.0 * off * sum + off * off * count;
            from = until;
        }
        error
    }

    /// Sums over the bins before each bin, of the counts, of the counts times their logarithms, and of the bins that are not empty.
    fn logs(&self) -> Vec<[f64; 3]> {
        let mut sums = [0.0; 3];
        let mut all = vec![sums];
        all.extend(self.bins.iter().map(|&count| {
            let [count, log] = counted(count as f64);
            for (sum, value) in sums.iter_mut().zip([count, log, f64::from(u8::from(count > 0.0))]) {
                *sum += value;
            }
            sums
        }));
        all
    }

    /// The divergence of the values' distribution from the one that `levels` levels can represent.
    fn divergence(&self, logs: &[[f64; 3]], bins: usize, levels: usize) -> f64 {
        // Saturated values count in the last bin.
        let (total, last) = (logs[BINS][0], self.bins[bins - 1] as f64);
        let saturated = total - logs[bins][0];
        let mut divergence = 0.0;
        for level in 0..levels {
            let [from, to] = [level, level + 1].map(|level| level * bins / levels);
            let [sum, mut product, mut filled] = std::array::from_fn(|k| logs[to][k] - logs[from][k]);
            let mut values = sum;
            if to == bins {
                (values, product) = (sum + saturated, product + counted(last + saturated)[1] - counted(last)[1]);
                filled += f64::from(u8::from(last == 0.0 && saturated > 0.0));
            }
            // The level's count, distributed evenly over its bins that are not empty, without saturated values.
            if filled > 0.0 {
                divergence += product - values * (sum / filled).max(1e-9).ln();
            }
        }
        divergence / total
    }
}

/// A count, and the count times its logarithm.
fn counted(count: f64) -> [f64; 2] {
    [count, if count > 0.0 { count * count.ln() } else { 0.0 }]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors count as a loop over the values does.
    #[test]
    fn values_are_counted_in_their_bins() {
        for length in [0, 1, 31, 32, 97, 1000] {
            let values: Vec<f32> = (0..length).map(|k| (k * 37 % 211) as f32 * 0.01 - 1.0).collect();
            for factor in [0.0, 1.0, 31.9, 64.0, 1500.0, 3e38] {
                let place = |x: f32, bins: usize| ((x.abs() * factor) as usize).min(bins - 1);
                let mut counts = vec![[0; COPIES]; BINS];
                let zeros = count_all(&values, factor, counts.first_chunk_mut().unwrap());
                for (bin, counts) in counts.iter().enumerate() {
                    let expected = values.iter().filter(|&&x| place(x, BINS) == bin).count();
                    assert_eq!(counts.iter().sum::<u32>(), expected as u32, "{length} {factor} {bin}");
                }
                assert_eq!(zeros as usize, values.iter().filter(|&&x| x == 0.0).count());
                let mut counts = [[0; COPIES]; CHANNEL_BINS];
                count_few(&values, factor, &mut counts);
                for (bin, counts) in counts.iter().enumerate() {
                    let few = values.iter().step_by(FEW);
                    let expected = few.filter(|&&x| place(x, CHANNEL_BINS) == bin).count();
                    assert_eq!(counts.iter().sum::<u32>(), expected as u32, "{length} {factor} {bin}");
                }
            }
        }
    }
    use crate::random::Random;

    /// As [`Histogram::square_error`], bin by bin.
    fn square_error(bins: &[u64], end: usize, levels: usize) -> f64 {
        let step = end as f64 / (levels - 1) as f64;
        let error = |(k, &count): (usize, &u64)| {
            let value = k as f64 + 0.5;
            count as f64 * (value - (value / step).round().min((levels - 1) as f64) * step).powi(2)
        };
        bins.iter().enumerate().skip(1).map(error).sum()
    }

    /// As [`Histogram::divergence`], bin by bin.
    fn divergence(bins: &[u64], end: usize, levels: usize) -> f64 {
        let mut values: Vec<f64> = bins[..end].iter().map(|&count| count as f64).collect();
        values[end - 1] += bins[end..].iter().sum::<u64>() as f64;
        let total: f64 = values.iter().sum();
        let mut divergence = 0.0;
        for level in 0..levels {
            let own = level * end / levels..(level + 1) * end / levels;
            let sum = bins[own.clone()].iter().sum::<u64>() as f64;
            let filled = values[own.clone()].iter().filter(|&&value| value > 0.0).count() as f64;
            for &value in values[own].iter().filter(|&&value| value > 0.0) {
                divergence += value / total * (value / (sum / filled).max(1e-9)).ln();
            }
        }
        divergence
    }

    #[test]
    fn costs_are_those_of_single_bins() {
        let mut random = Random::from_state(7);
        for round in 0..40u32 {
            let mut histogram = Histogram::of_tensor(true);
            let values: Vec<f32> = (0..3000).map(|_| random.real().powi(1 + round as i32 % 5) * 7.0).collect();
            histogram.add(&values, &[Summary::of(&values)]);
            if round % 4 == 0 {
                histogram.bins.iter_mut().step_by(3).for_each(|bin| *bin = 0);
            }
            let (moments, logs) = (histogram.moments(), histogram.logs());
            for (end, levels) in [(128, 128), (300, 128), (1001, 255), (2048, 200), (2048, 255)] {
                let pairs = [
                    (Histogram::square_error(&moments, end, levels), square_error(&histogram.bins, end, levels)),
                    (histogram.divergence(&logs, end, levels), divergence(&histogram.bins, end, levels)),
                ];
                for (found, expected) in pairs {
                    assert!((found - expected).abs() <= 1e-9 * expected.abs() + 1e-12, "{end}: {found}, {expected}");
                }
            }
        }
    }

    #[test]
    fn joined_halves_are_the_histogram_of_all_values() {
        let mut random = Random::from_state(11);
        for (first, second) in [(1.0, 1.0), (1.0, 9.0), (20.0, 0.3), (0.0, 2.0), (3.0, 0.0), (0.0, 0.0)] {
            let mut values = |size: f32| (0..500).map(|_| random.real() * size).collect::<Vec<f32>>();
            let (first, second) = (values(first), values(second));
            for few in [false, true] {
                let add = |to: &mut Histogram, values: &[f32]| {
                    let summary = Summary::of(values);
                    if few {
                        to.add_few(values, summary);
                    } else {
                        to.add(values, &[summary]);
                    }
                };
                let mut all = if few { Histogram::of_channel(true) } else { Histogram::of_tensor(true) };
                add(&mut all, &first);
                let (mut joined, mut other) = (all.clone(), all.beside());
                add(&mut all, &second);
                add(&mut other, &second);
                joined.join(&other);
                let parts = |of: &Histogram| {
                    (of.bins.clone(), of.zeros, [of.end, of.min, of.max].map(|end| (end + 0.0).to_bits()))
                };
                assert_eq!(parts(&joined), parts(&all), "{few}: {} {}", first[0], second[0]);
            }
        }
    }

    #[test]
    fn summaries_are_those_of_single_values() {
        let mut random = Random::from_state(9);
        for count in [1, 7, 8, 9, 1000] {
            let mut values: Vec<f32> = (0..count).map(|_| random.real()).collect();
            let Summary { min, max, sum } = Summary::of(&values);
            assert_eq!(min.to_bits(), values.iter().copied().fold(f32::INFINITY, f32::min).to_bits());
            assert_eq!(max.to_bits(), values.iter().copied().fold(f32::NEG_INFINITY, f32::max).to_bits());
            assert!((sum - values.iter().map(|&value| f64::from(value)).sum::<f64>()).abs() < 1e-9);
            // Only numbers are limits.
            values[count / 2] = f32::NAN;
            assert!(Summary::of(&values).min.is_infinite());
        }
    }
}
