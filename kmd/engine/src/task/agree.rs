// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Values that must agree, because the operation would never end otherwise: sizes of which several units of the
//! convolution pipeline, or PDP and its read DMA, have a copy each, and the contents of the convolution buffer.
//!
//! Where these contradict one another a unit waits for data that never comes, or reads what an earlier operation left in
//! the convolution buffer. Nothing outside the task's buffers is touched then, but the device must be reset.
//!
//! Sources: the assertions of the hardware project's C-model (`cmod/cdma`, `cmod/csc`, `cmod/cacc`, `cmod/pdp` of
//! `nvdlav1`) and the register manual. Fields are named as in the descriptors.

use super::super::error::{Name, Reason, Why};
use crate::uapi::config::Config;
use crate::uapi::desc::{ConvOp, ConvSurface, DataFormat, MemoryType, PdpOp, PdpSurface};
use crate::uapi::layout::feature::Atoms;
use crate::uapi::layout::weight::{Direct, Geometry, Image, ImageWindows, PostExtension, Winograd};
use crate::uapi::layout::{align, buffer, bytes, pixel, Extents};
use crate::uapi::reg::values::{ConvMode, PixelFormat, Precision, WeightFormat};

/// Columns or lines of padding that the registers can hold: how far the last kernel may end behind the input.
const MOST_PADDING: u64 = 63;

/// The data that CSC reads from the convolution buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Feature,
    Pixel(PixelFormat),
    Winograd,
}

/// What an operation uses from the convolution buffer, and what it leaves there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BufferUse {
    /// The mode and the banks for data and weights. Two operations can use each other's data only if these are equal.
    mode_and_banks: (u8, u8, u8),
    /// What they must agree on besides: entries, width, channels and precision of a slice.
    slice: (u32, u32, u32, u8),
    /// Slices that CSC reads, and that CDMA writes.
    used: u32,
    fetched: u32,
    /// Slices that are released at the end.
    released: u32,
    /// Bytes of the weights, uncompressed.
    weights: u64,
    data_reuse: bool,
    weight_reuse: bool,
    keep_data: bool,
    keep_weights: bool,
}

fn mismatch(name: Name, value: u64, other: &'static str, expected: u64) -> Result<(), Reason> {
    if value == expected {
        return Ok(());
    }
    let (value, expected) = (value as i64, i64::try_from(expected).unwrap_or(i64::MAX));
    Err(Why::Mismatch { name, value, other, expected }.reason())
}

fn at_most(name: Name, value: u64, maximum: u64) -> Result<(), Reason> {
    if value <= maximum {
        return Ok(());
    }
    let (value, maximum) = (i64::try_from(value).unwrap_or(i64::MAX), i64::try_from(maximum).unwrap_or(i64::MAX));
    Err(Why::Range { name, value, minimum: 0, maximum }.reason())
}

/// The last position at which the last kernel may end, with all the padding that the registers can hold.
fn largest_end(size: u16, before: u8) -> u64 {
    u64::from(size) + u64::from(before) + MOST_PADDING - 1
}

/// Checks a convolution, whose values all fit their registers. Returns what it holds in the convolution buffer.
pub(super) fn convolution(config: &Config, op: &ConvOp, surface: &ConvSurface) -> Result<BufferUse, Reason> {
    let mode = match (op.conv_mode, op.data_format) {
        (ConvMode::Direct, DataFormat::Feature) => Mode::Feature,
        (ConvMode::Direct, DataFormat::Pixel(format)) => Mode::Pixel(format),
        (ConvMode::Winograd, DataFormat::Feature) => Mode::Winograd,
        (ConvMode::Winograd, DataFormat::Pixel(_)) => {
            let why = "Winograd convolutions take features, not pixels";
            return Err(Why::Invalid { name: Name::new("conv_mode"), value: op.conv_mode as i64, why }.reason());
        }
    };
    if op.batch > 1 && mode != Mode::Feature {
        let why = "only direct convolutions of features can be a batch";
        return Err(Why::Invalid { name: Name::new("batch"), value: i64::from(op.batch), why }.reason());
    }
    let convolution = Convolution { config, op, surface, mode };
    convolution.precisions()?;
    let (width, height) = (u64::from(surface.dst_data.width), u64::from(surface.dst_data.height));
    mismatch(Name::new("input_width_cmac"), op.input_width_cmac.into(), "the width of dst_data", width)?;
    mismatch(Name::new("input_height_cmac"), op.input_height_cmac.into(), "the height of dst_data", height)?;
    match mode {
        Mode::Feature => convolution.feature()?,
        Mode::Pixel(format) => convolution.pixel(format)?,
        Mode::Winograd => convolution.winograd()?,
    }
    convolution.kernels()?;
    convolution.buffer_use()
}

/// A convolution that is checked.
struct Convolution<'a> {
    config: &'a Config,
    op: &'a ConvOp,
    surface: &'a ConvSurface,
    mode: Mode,
}

impl Convolution<'_> {
    /// Bytes of an element as CMAC takes it.
    fn element(&self) -> u64 {
        bytes(self.op.out_precision).into()
    }

    /// What the input converter can make of the input.
    fn precisions(&self) -> Result<(), Reason> {
        let op = self.op;
        let (from, to, converts) = (op.in_precision, op.out_precision, op.in_cvt.enable != 0);
        let features = !matches!(self.mode, Mode::Pixel(_));
        if converts && features && (from == Precision::Fp16 || self.mode == Mode::Winograd) {
            let why = "fp16 features and Winograd's are not converted";
            return Err(Why::Invalid { name: Name::of("in_cvt", "enable"), value: 1, why }.reason());
        }
        // Without the converter CDMA passes the bits of a pixel unchanged, so a pixel must not have more bits than CMAC
        // takes.
        let possible = match self.mode {
            Mode::Pixel(_) if !converts => to != Precision::Int8,
            Mode::Pixel(_) => from != Precision::Fp16,
            Mode::Feature | Mode::Winograd => false,
        };
        if from == to || possible {
            return Ok(());
        }
        let (name, value) = (Name::new("in_precision"), from as i64);
        Err(Why::Mismatch { name, value, other: "out_precision", expected: to as i64 }.reason())
    }

    fn channels(&self, expected: u16) -> Result<(), Reason> {
        let (op, other) = (self.op, "the number of channels of the input");
        mismatch(Name::new("input_channel_csc"), op.input_channel_csc.into(), other, expected.into())
    }

    fn feature(&self) -> Result<(), Reason> {
        let (op, src) = (self.op, &self.surface.src_data);
        mismatch(Name::new("input_width_csc"), op.input_width_csc.into(), "the width of src_data", src.width.into())?;
        self.channels(src.channel)?;
        let (channels, other) = (op.kernel_channel_csc.into(), "input_channel_csc");
        mismatch(Name::new("kernel_channel_csc"), channels, other, op.input_channel_csc.into())?;
        self.post_extension()?;
        let [right, bottom] = self.last();
        at_most(
            Name::new("the column where the last kernel ends"),
            right,
            largest_end(op.input_width_csc, op.pad_x_left),
        )?;
        at_most(
            Name::new("the line where the last kernel ends"),
            bottom,
            largest_end(op.input_height_csc, op.pad_y_top),
        )
    }

    fn pixel(&self, format: PixelFormat) -> Result<(), Reason> {
        let op = self.op;
        let format = pixel::Format::new(format);
        if op.pixel_mapping as u32 != 0 {
            let (value, why) = (op.pixel_mapping as i64, "pixels lie in pitch-linear images");
            return Err(Why::Invalid { name: Name::new("pixel_mapping"), value, why }.reason());
        }
        self.channels(format.channels as u16)?;
        mismatch(Name::new("kernel_width_csc"), op.kernel_width_csc.into(), "the width of an image's kernels", 1)?;
        let (name, other) = (Name::new("in_precision"), "that of the pixel format");
        mismatch(name, op.in_precision as u64, other, format.input_precision() as u64)?;
        self.post_extension()?;
        let columns = u64::from(op.input_width_cmac) - 1;
        let last =
            columns * u64::from(op.conv_stride_x) * u64::from(format.channels) + u64::from(op.kernel_channel_csc);
        at_most(Name::new("the element where the last kernel ends"), last, self.line() / self.element())?;
        let [_, bottom] = self.last();
        at_most(
            Name::new("the line where the last kernel ends"),
            bottom,
            largest_end(op.input_height_csc, op.pad_y_top),
        )
    }

    fn winograd(&self) -> Result<(), Reason> {
        let (op, src) = (self.op, &self.surface.src_data);
        let [sx, sy] = [op.conv_stride_x, op.conv_stride_y].map(u64::from);
        let width = u64::from(op.pad_x_left) + u64::from(src.width) + u64::from(op.pad_x_right);
        let height = u64::from(op.pad_y_top) + u64::from(src.height) + u64::from(op.pad_y_bottom);
        let atoms = Atoms::of(self.config, op.in_precision);
        let channels = atoms.filled(src.channel.into()) as u64 * sx * sy;
        for (name, value, stride) in
            [("padded width of src_data", width, sx), ("padded height of src_data", height, sy)]
        {
            if value % (4 * stride) != 0 {
                let (value, why) = (value as i64, "Winograd's input is whole tiles of 4 by 4 extended elements");
                return Err(Why::Invalid { name: Name::new(name), value, why }.reason());
            }
        }
        mismatch(Name::new("input_width_csc"), op.input_width_csc.into(), "the extended width", width / sx)?;
        for (name, value) in
            [("input_channel_csc", op.input_channel_csc), ("kernel_channel_csc", op.kernel_channel_csc)]
        {
            mismatch(Name::new(name), value.into(), "the number of extended channels", channels)?;
        }
        self.post_extension()?;
        for (name, out, input) in [
            ("input_width_cmac", op.input_width_cmac, op.input_width_csc),
            ("input_height_cmac", op.input_height_cmac, op.input_height_csc),
        ] {
            if out % 4 != 0 {
                let (value, why) = (i64::from(out), "Winograd's output is whole tiles of 4 by 4");
                return Err(Why::Invalid { name: Name::new(name), value, why }.reason());
            }
            at_most(Name::new(name), out.into(), u64::from(input).saturating_sub(4))?;
        }
        Ok(())
    }

    /// Kernel lines that are processed together must fit a step, and CSC must read the windows of an image rightly.
    fn post_extension(&self) -> Result<(), Reason> {
        let (op, lines) = (self.op, self.lines());
        if op.post_extension == 0 {
            return self.image_windows();
        }
        let Mode::Pixel(format) = self.mode else {
            let (value, why) = (i64::from(op.post_extension), "only kernels of images are extended");
            return Err(Why::Invalid { name: Name::new("post_extension"), value, why }.reason());
        };
        let atomic_c = u64::from(self.config.mac_atomic_c);
        at_most(Name::new("kernel_channel_csc"), op.kernel_channel_csc.into(), atomic_c / u64::from(lines))?;
        let [stride, kernel] = [op.conv_stride_x.into(), op.kernel_channel_csc.into()];
        let reach = PostExtension::from_lines(lines)
            .map_err(|error| Why::Layout { surface: "weight_data", error }.reason())?
            .reach(stride, pixel::Format::new(format).channels, kernel);
        at_most(Name::new("elements of the lines that post-extension processes at once"), reach.into(), atomic_c)
    }

    fn image_windows(&self) -> Result<(), Reason> {
        let (op, Mode::Pixel(format)) = (self.op, self.mode) else { return Ok(()) };
        let windows = ImageWindows {
            entry: self.config.mac_atomic_c,
            step: u32::from(op.conv_stride_x) * pixel::Format::new(format).channels,
            kernel: op.kernel_channel_csc.into(),
            count: op.input_width_cmac.into(),
        };
        if windows.straddle() {
            let why = "windows of an image lie more than an entry of the convolution buffer apart, and in two entries";
            return Err(Why::Invalid { name: Name::new("conv_stride_x"), value: op.conv_stride_x.into(), why }.reason());
        }
        if windows.miscounted() {
            let why = "the only window of an image's line has more than three entries of the convolution buffer, and not whole ones";
            return Err(
                Why::Invalid { name: Name::new("kernel_channel_csc"), value: windows.kernel.into(), why }.reason()
            );
        }
        Ok(())
    }

    /// Kernel lines that are processed together.
    fn lines(&self) -> u32 {
        1 << self.op.post_extension.min(2)
    }

    /// Column and line of the padded input where the last kernel ends.
    fn last(&self) -> [u64; 2] {
        let op = self.op;
        let last = |out: u16, stride: u8, kernel: u16, dilation: u8| {
            (u64::from(out) - 1) * u64::from(stride) + (u64::from(kernel) - 1) * u64::from(dilation)
        };
        [
            last(op.input_width_cmac, op.conv_stride_x, op.kernel_width_csc, op.dilation_x),
            last(op.input_height_cmac, op.conv_stride_y, op.kernel_height_csc, op.dilation_y),
        ]
    }

    /// Bytes of an image's or Winograd's line in the convolution buffer.
    fn line(&self) -> u64 {
        let (op, width) = (self.op, u64::from(self.surface.src_data.width));
        match self.mode {
            Mode::Pixel(format) => {
                let pixels = u64::from(op.pad_x_left) + width + u64::from(op.pad_x_right);
                pixels * u64::from(pixel::Format::new(format).channels) * self.element()
            }
            _ => u64::from(op.input_width_csc) * u64::from(op.input_channel_csc) * self.element(),
        }
    }

    /// The kernels' sizes, and that they fit their banks.
    fn kernels(&self) -> Result<(), Reason> {
        let (op, config) = (self.op, self.config);
        let positions = match self.mode {
            Mode::Winograd => 16,
            _ => u64::from(op.kernel_width_csc) * u64::from(op.kernel_height_csc),
        };
        let kernel = positions * u64::from(op.kernel_channel_csc) * self.element();
        mismatch(Name::new("bytes_per_kernel"), op.bytes_per_kernel.into(), "the number of bytes of a kernel", kernel)?;
        let kernels = u32::from(self.surface.dst_data.channel);
        let geometry = Geometry::of(config, op.out_precision);
        let extents =
            |height: u16, width: u16| Extents::new(kernels, op.kernel_channel_csc.into(), height.into(), width.into());
        let layout = match self.mode {
            Mode::Feature => Direct::new(extents(op.kernel_height_csc, op.kernel_width_csc), geometry).map(|_| ()),
            Mode::Pixel(_) => PostExtension::from_lines(self.lines())
                .and_then(|lines| Image::new(extents(op.kernel_height_csc, 1), geometry, lines))
                .map(|_| ()),
            Mode::Winograd => Winograd::new(extents(3, 3), 1, 1, geometry).map(|_| ()),
        };
        layout.map_err(|error| Why::Layout { surface: "weight_data", error }.reason())?;
        if op.weight_format == WeightFormat::Compressed {
            return Ok(());
        }
        // CDMA fills whole entries of the buffer, and ends when it has the bytes that its register says. CSC takes the entries of the
        // kernels: it waits for those that were not fetched, and those that are left over spoil the next operation.
        // `NV_NVDLA_CDMA_wt.v`: `wt_req_burst_cnt_w`, `wt_required_bytes_w` and `wt_satisfied` (lines 864, 1793 and 1844 of nv_small,
        // 881, 1865 and 1917 of nv_large).
        let unit = u64::from(align::weight_size(config));
        let size = self.surface.weight_data.size.into();
        let needed = (kernel * u64::from(kernels)).next_multiple_of(unit);
        mismatch(Name::of("weight_data", "size"), size, "the number of bytes of the kernels in whole entries", needed)?;
        let together = if op.skip_weight_rls { u64::from(kernels) } else { geometry.largest_group(kernels) };
        let room = u64::from(op.weight_bank) * u64::from(config.cbuf_bank_bytes());
        at_most(Name::new("bytes of the kernels in the weight banks"), kernel * together, room)
    }

    /// What the operation holds in the convolution buffer, which must fit its banks.
    fn buffer_use(&self) -> Result<BufferUse, Reason> {
        let (op, src, config) = (self.op, &self.surface.src_data, self.config);
        let atoms = Atoms::of(config, op.in_precision);
        let entries = match self.mode {
            Mode::Feature => {
                buffer::feature_entries(config, atoms.surfaces(src.channel.into()) as u32, src.width.into())
            }
            Mode::Pixel(_) => buffer::line_entries(config, self.line()),
            Mode::Winograd => self.line() / u64::from(buffer::entry_bytes(config)),
        };
        mismatch(Name::new("entry_per_slice"), op.entry_per_slice.into(), "the number of entries of a line", entries)?;
        let batch = u32::from(op.batch.max(1));
        let used = u32::from(op.input_height_csc) * batch;
        let room = u64::from(op.data_bank) * u64::from(buffer::bank_entries(config));
        at_most(Name::new("entries of the input in the data banks"), u64::from(used) * entries, room)?;
        let fetched = match self.mode {
            Mode::Winograd => {
                let height = u32::from(op.pad_y_top) + u32::from(src.height) + u32::from(op.pad_y_bottom);
                height / u32::from(op.conv_stride_y)
            }
            _ => u32::from(src.height) * batch,
        };
        if !op.skip_data_rls {
            at_most(Name::new("release"), op.release.into(), used.into())?;
        }
        let kernels = u64::from(self.surface.dst_data.channel);
        let mode = match self.mode {
            Mode::Feature => 0,
            Mode::Pixel(_) => 1,
            Mode::Winograd => 2,
        };
        Ok(BufferUse {
            mode_and_banks: (mode, op.data_bank, op.weight_bank),
            slice: (entries as u32, op.input_width_csc.into(), op.input_channel_csc.into(), op.out_precision as u8),
            used,
            fetched,
            released: if op.skip_data_rls { 0 } else { op.release.into() },
            weights: u64::from(op.bytes_per_kernel) * kernels,
            data_reuse: op.data_reuse,
            weight_reuse: op.weight_reuse,
            keep_data: op.skip_data_rls,
            keep_weights: op.skip_weight_rls,
        })
    }
}

/// The convolution buffer between a task's convolutions. Who may reuse at all has been checked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConvolutionBuffer {
    last: Option<BufferUse>,
    /// Slices that the last operation left.
    slices: u32,
}

impl ConvolutionBuffer {
    /// Adds the next convolution, in the order in which they run.
    pub(super) fn add(&mut self, next: &BufferUse) -> Result<(), Reason> {
        let last = self.last.filter(|last| last.mode_and_banks == next.mode_and_banks);
        let fetches = !(next.data_reuse && last.is_some_and(|last| last.keep_data));
        let kept = if next.data_reuse && last.is_some() { self.slices } else { 0 };
        if kept != 0 && last.is_some_and(|last| last.slice != next.slice) {
            let why = "the slices in the convolution buffer have another shape";
            return Err(Why::Invalid { name: Name::new("data_reuse"), value: 1, why }.reason());
        }
        let there = kept + if fetches { next.fetched } else { 0 };
        let other = "the number of lines that are fetched or in the convolution buffer";
        mismatch(Name::new("input_height_csc * batch"), next.used.into(), other, there.into())?;
        // Weights that the previous operation does not keep are fetched, even if reuse is requested.
        if let Some(last) = last.filter(|last| last.keep_weights && next.weight_reuse) {
            at_most(Name::new("bytes of the weights"), next.weights, last.weights)?;
        }
        self.slices = there - next.released;
        self.last = Some(*next);
        Ok(())
    }
}

/// The windows of a pooling: one per element of the output, and each contains an element of the input.
pub(super) fn pooling(op: &PdpOp, surface: &PdpSurface) -> Result<(), Reason> {
    let (src, dst) = (&surface.src_data, &surface.dst_data);
    let in_memory = src.mem_type != MemoryType::Hw;
    let height = Windows {
        window: u64::from(op.pool_height) + 1,
        stride: op.stride_y.into(),
        names: ["the height of dst_data", "pad_top", "pad_bottom"],
        input: Name::of("src_data", "height"),
        in_memory,
    };
    height.check([src.height.into(), dst.height.into()], [op.pad_top, op.pad_bottom])?;
    let width = Windows {
        window: u64::from(op.pool_width) + 1,
        stride: op.stride_x.into(),
        names: ["the width of dst_data", "pad_left", "pad_right"],
        input: Name::of("src_data", "width"),
        in_memory,
    };
    if op.split_num <= 1 {
        return width.check([src.width.into(), dst.width.into()], [op.pad_left, op.pad_right]);
    }
    let names = ["the width of a part of dst_data", "pad_left", "pad_right"];
    let width = Windows { names, input: Name::new("the width of a part of src_data"), ..width };
    let own = [op.partial_in_width_first, op.partial_in_width_mid, op.partial_in_width_last].map(u64::from);
    let out = [op.partial_width_first, op.partial_width_mid, op.partial_width_last].map(u64::from);
    let (mut before, mut written) = (0, 0);
    for part in 0..op.split_num {
        let (is_first, is_last) = (part == 0, part + 1 == op.split_num);
        let which = if is_first {
            0
        } else if is_last {
            2
        } else {
            1
        };
        // A later part begins with the columns that its first window shares with the part before it.
        let shared = (own[which] + width.window).checked_sub(width.stride);
        let input = if is_first { Some(own[0]) } else { shared };
        let start = if is_first { Some(0) } else { (before + width.stride).checked_sub(width.window) };
        let (Some(input), Some(_)) = (input.filter(|&input| input > 0), start) else {
            let why = "a part of the input begins before the cube, or has no columns";
            return Err(Why::Invalid { name: Name::new("split_num"), value: op.split_num.into(), why }.reason());
        };
        let before_and_after = [if is_first { op.pad_left } else { 0 }, if is_last { op.pad_right } else { 0 }];
        width.check([input, out[which]], before_and_after)?;
        before += own[which];
        written += out[which];
    }
    mismatch(Name::new("the sum of the partial output widths"), written, "the width of dst_data", dst.width.into())
}

/// The windows along one direction.
#[derive(Clone, Copy)]
struct Windows {
    window: u64,
    stride: u64,
    /// The output's size, and the padding before and after the input.
    names: [&'static str; 3],
    /// The input's size.
    input: Name,
    /// The input comes from memory.
    in_memory: bool,
}

impl Windows {
    fn check(&self, [input, output]: [u64; 2], [before, after]: [u8; 2]) -> Result<(), Reason> {
        let Self { window, stride, names: [size, padding, behind], input: of, in_memory } = *self;
        let padded = u64::from(before) + input + u64::from(after);
        let windows = padded.checked_sub(window).map_or(0, |room| room / stride.max(1) + 1);
        mismatch(Name::new(size), output, "the number of windows over the padded input", windows)?;
        at_most(Name::new(padding), before.into(), window - 1)?;
        let last = output.saturating_sub(1) * stride;
        at_most(Name::new("the element where the last window begins"), last, u64::from(before) + input - 1)?;
        // What lies behind the last window spoils the next pooling: PDP takes no line that no window reads, and takes the number of
        // windows that end behind the input from the padding alone (`NV_NVDLA_PDP_CORE_cal2d.v`, `flush_num`, lines 979 to 1058).
        let rest = padded - last - window;
        let unread = rest.saturating_sub(after.into());
        let (name, value, reached) = match (rest, unread) {
            (0, _) => return Ok(()),
            (_, 0) => (Name::new(behind), after.into(), u64::from(after) - rest),
            _ => (of, input, input - unread),
        };
        let [value, reached] = [value, reached].map(|size| size as i64);
        Err(Why::Unread { name, value, reached, can_crop: in_memory || unread == 0 }.reason())
    }
}
