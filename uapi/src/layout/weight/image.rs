// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Weights for image input: channel pre-extension, optional channel post-extension, then the direct mapping.
//!
//! Pre-extension turns all weights of a line into one column's channels (S x C, the channel changing fastest).
//! Post-extension then combines 2 or 4 neighbouring lines in a small cube. In a group the order is C' of line 0, of
//! line 1, ... (inside the combined lines), K, then the next lines. If the last combination has fewer lines, it is not
//! padded.
//!
//! Source: "In-memory data formats", sections "Basic Weight for image input" and "Weight Channel Post-extension for
//! image input".

use super::super::contract::Layout;
use super::super::error::{Error, Rule};
use super::super::extents::{Extents, Index};
use super::direct::Direct;
use super::geometry::{Geometry, Groups};

/// Lines that post-extension combines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PostExtension {
    /// None: each line on its own.
    One,
    /// Two lines.
    Two,
    /// Four lines.
    Four,
}

impl PostExtension {
    /// From the number of lines.
    pub const fn from_lines(lines: u32) -> Result<Self, Error> {
        match lines {
            1 => Ok(Self::One),
            2 => Ok(Self::Two),
            4 => Ok(Self::Four),
            _ => Err(Error::new(Rule::PostExtension, lines as u64, 0)),
        }
    }

    /// The number of lines.
    pub const fn lines(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    /// The elements that CSC counts before a line's first step, of the `most` that it can: lines that are processed together are read
    /// one horizontal stride apart, and all of them from an entry of one step. `channels` are those of a pixel, `kernel_channels` those
    /// after pre-extension.
    ///
    /// Beyond `most` the RTL computes other results. Source: `NV_NVDLA_CSC_dl.v`, `pixel_x_init_w` (line 922 of nv_small): it counts in
    /// entries of atomic-C elements, and a sum of 64 or more overflows, which nv_full's release asserts (line 5772). The next windows,
    /// as many further as lines, must not lie more than an entry apart, too (`pixel_x_add_w`, line 929).
    pub const fn reach(self, stride: u32, channels: u32, kernel_channels: u32) -> u32 {
        let step = stride.wrapping_mul(channels);
        let (first, next) =
            ((self.lines() - 1).wrapping_mul(step).wrapping_add(kernel_channels), self.lines().wrapping_mul(step));
        match self {
            Self::One => kernel_channels,
            _ if next > first => next,
            _ => first,
        }
    }
}

/// How the windows of an image lie in entries of the convolution buffer. CSC reads some of them wrongly.
///
/// Source: `NV_NVDLA_CSC_dl.v` of nv_small; random convolutions on its RTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageWindows {
    /// Elements of an entry: atomic-C.
    pub entry: u32,
    /// Elements from a window to the next one: horizontal stride times channels of a pixel.
    pub step: u32,
    /// Elements of a line of a window: channels of the kernel after pre-extension.
    pub kernel: u32,
    /// Windows of a line.
    pub count: u32,
}

impl ImageWindows {
    /// Whether windows lie more than an entry apart and some of their entries lie in two of the buffer. CSC then reads two entries, and
    /// where the second one is the buffer's first, the wrong one as the other (line 2921: `dat_req_addr_minus1_wrap`). Where in the buffer
    /// a line lies depends on earlier convolutions.
    pub const fn straddle(&self) -> bool {
        if self.count < 2 || self.step <= self.entry {
            return false;
        }
        // Windows begin at multiples of this in their entries.
        let (mut apart, mut rest) = (self.entry, self.step % self.entry);
        while rest != 0 {
            (apart, rest) = (rest, apart % rest);
        }
        let most = if self.kernel < self.entry { self.kernel } else { self.entry };
        apart < self.entry && most > apart
    }

    /// Whether a line has one window of more than three entries, the last of which is not whole. CSC counts the entries also while it
    /// waits, so that it takes another one for the last (line 2403: `channel_op_cnt_nxt`).
    #[allow(clippy::manual_is_multiple_of)] // not in the oldest compiler supported
    pub const fn miscounted(&self) -> bool {
        self.count == 1 && self.kernel > 3 * self.entry && self.kernel % self.entry != 0
    }
}

/// Image weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    extents: Extents,
    extended: Direct,
    lines: u32,
}

impl Image {
    /// Weights of `extents` (kernels, channels, rows, columns) before extension.
    pub const fn new(extents: Extents, geometry: Geometry, post_extension: PostExtension) -> Result<Self, Error> {
        if let Err(error) = extents.check() {
            return Err(error);
        }
        let Some(channels) = extents.c.checked_mul(extents.w) else {
            return Err(Error::new(Rule::Size, extents.c as u64 * extents.w as u64, u32::MAX as u64));
        };
        let extended = match Direct::new(Extents::new(extents.n, channels, extents.h, 1), geometry) {
            Ok(extended) => extended,
            Err(error) => return Err(error),
        };
        let lines = post_extension.lines();
        if lines > 1 {
            let limit = (geometry.cube_channels / lines) as u64;
            if let Err(error) = Error::unless_at_most(Rule::PostExtensionChannels, channels as u64, limit) {
                return Err(error);
            }
        }
        Ok(Self { extents, extended, lines })
    }

    /// The weights after pre-extension, as direct weights of one column. Their mapping is this one's where
    /// post-extension is not used.
    pub const fn pre_extended(&self) -> Direct {
        self.extended
    }

    /// The channel after pre-extension of channel `c` in column `s`.
    pub const fn extended_channel(&self, c: u32, s: u32) -> u32 {
        s.wrapping_mul(self.extents.c).wrapping_add(c)
    }

    /// Lines that post-extension combines.
    pub const fn post_extension(&self) -> u32 {
        self.lines
    }

    /// Bytes of the weights with the padding at the end.
    pub const fn size(&self) -> u64 {
        self.extended.size()
    }

    /// Bytes of the weights without it.
    pub const fn mapped_bytes(&self) -> u64 {
        self.extended.mapped_bytes()
    }

    /// Channels after pre-extension.
    const fn channels(&self) -> u32 {
        self.extents.c * self.extents.w
    }

    /// Rows of the combination that begins at row `first`: the last may have fewer.
    const fn rows_at(&self, first: u32) -> u32 {
        let rest = self.extents.h.saturating_sub(first);
        if rest < self.lines {
            rest
        } else {
            self.lines
        }
    }

    /// Offset of a weight, by its place before extension.
    pub const fn offset(&self, k: u32, c: u32, r: u32, s: u32) -> u64 {
        let channel = self.extended_channel(c, s);
        if self.lines == 1 {
            return self.extended.offset(k, channel, r, 0);
        }
        let geometry = self.extended.geometry();
        let group = k / geometry.group_kernels;
        let first = r - r % self.lines;
        let kernels = self.extended.kernels_in(group) as u64;
        let channels = self.channels() as u64;
        let before = (first as u64).wrapping_mul(kernels).wrapping_mul(channels);
        let row = ((k % geometry.group_kernels) as u64)
            .wrapping_mul(self.rows_at(first) as u64)
            .wrapping_add((r - first) as u64);
        let elements = before.wrapping_add(row.wrapping_mul(channels)).wrapping_add(channel as u64);
        self.extended.group_offset(group).wrapping_add(elements.wrapping_mul(geometry.element_bytes() as u64))
    }
}

impl Layout for Image {
    fn extents(&self) -> Extents {
        self.extents
    }

    fn element_bytes(&self) -> u32 {
        self.extended.geometry().element_bytes()
    }

    fn offset(&self, n: u32, c: u32, h: u32, w: u32) -> u64 {
        Self::offset(self, n, c, h, w)
    }

    fn size(&self) -> u64 {
        Self::size(self)
    }

    fn at(&self, offset: u64) -> Option<Index> {
        let columns = |k, channel, r| Index::new(k, channel % self.extents.c, r, channel / self.extents.c);
        if self.lines == 1 {
            return self.extended.at(offset).map(|at| columns(at.n, at.c, at.h));
        }
        if offset >= self.extended.mapped_bytes() {
            return None;
        }
        let geometry = self.extended.geometry();
        let group_bytes = self.extended.group_offset(1);
        let group = (offset / group_bytes) as u32;
        let element = offset % group_bytes / u64::from(geometry.element_bytes());
        let (kernels, channels) = (self.extended.kernels_in(group), self.channels());
        let combination = u64::from(kernels) * u64::from(channels) * u64::from(self.lines);
        let first = (element / combination) as u32 * self.lines;
        let rest = element % combination;
        let rows = u64::from(self.rows_at(first));
        let (row, channel) = (rest / u64::from(channels), (rest % u64::from(channels)) as u32);
        let k = group * geometry.group_kernels + (row / rows) as u32;
        Some(columns(k, channel, first + (row % rows) as u32))
    }

    fn following(&self, at: Index) -> Option<Index> {
        self.at(self.offset(at.n, at.c, at.h, at.w) + u64::from(self.element_bytes()))
    }
}

impl Groups for Image {
    fn groups(&self) -> u32 {
        self.extended.groups()
    }

    fn group_elements(&self, group: u32) -> u64 {
        self.extended.group_elements(group)
    }
}

#[cfg(test)]
mod tests {
    use super::{ImageWindows, PostExtension};

    /// Convolutions of images that ran on nv_small's RTL.
    #[test]
    fn windows_that_are_read_wrongly() {
        let windows = |step, kernel, count| ImageWindows { entry: 8, step, kernel, count };
        for (step, kernel, count) in [(12, 8, 20), (12, 16, 55), (20, 12, 7)] {
            assert!(windows(step, kernel, count).straddle(), "{step} {kernel} {count}");
        }
        for (step, kernel, count) in [(12, 4, 20), (12, 8, 1), (16, 28, 9), (8, 36, 9), (4, 12, 9), (24, 20, 3)] {
            assert!(!windows(step, kernel, count).straddle(), "{step} {kernel} {count}");
        }
        assert!(windows(24, 28, 1).miscounted() && windows(16, 36, 1).miscounted());
        for (kernel, count) in [(32, 1), (20, 1), (24, 1), (36, 2)] {
            assert!(!windows(24, kernel, count).miscounted(), "{kernel} {count}");
        }
        // Two lines with steps of 10 and 12 have other results, with 8 the same.
        let reach = |stride, kernel| PostExtension::Two.reach(stride, 1, kernel);
        assert!(reach(5, 1) > 8 && reach(6, 1) > 8);
        assert_eq!([reach(4, 4), reach(3, 3), reach(2, 1), PostExtension::Four.reach(2, 1, 1)], [8, 6, 4, 8]);
    }
}
