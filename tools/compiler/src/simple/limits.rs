// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the hardware's register fields can say: sizes beyond are errors of the layer that has them.

use nvdla_uapi::reg::{cdma, csc, pdp};

use crate::error::Error;
use crate::graph::{Convolution, Padding, Pooling, Shape};

/// One value and the largest that its field holds.
struct Limit {
    what: &'static str,
    value: u32,
    most: u32,
}

fn check(layer: &str, limits: &[Limit]) -> Result<(), Error> {
    match limits.iter().find(|limit| limit.value > limit.most) {
        Some(Limit { what, value, most }) => {
            Err(Error::unsupported(layer, format!("{what} {value} is more than the hardware's {most}")))
        }
        None => Ok(()),
    }
}

/// The dimensions of a cube: fields that hold a size minus one, the same of all units.
pub(super) fn cube(layer: &str, shape: Shape) -> Result<(), Error> {
    let most = csc::d_datain_size_ext_0::DATAIN_WIDTH_EXT.max() + 1;
    check(
        layer,
        &[
            Limit { what: "width", value: shape.width, most },
            Limit { what: "height", value: shape.height, most },
            Limit { what: "number of channels", value: shape.channels, most },
        ],
    )
}

/// A convolution.
pub(super) fn convolution(layer: &str, op: &Convolution) -> Result<(), Error> {
    let Convolution { window, stride, dilation, padding: Padding { top, left, bottom, right }, .. } = op;
    let stride_most = csc::d_conv_stride_ext::CONV_X_STRIDE_EXT.max() + 1;
    let dilation_most = csc::d_dilation_ext::X_DILATION_EXT.max() + 1;
    check(
        layer,
        &[
            Limit { what: "kernel width", value: window.x, most: csc::d_weight_size_ext_0::WEIGHT_WIDTH_EXT.max() + 1 },
            Limit {
                what: "kernel height",
                value: window.y,
                most: csc::d_weight_size_ext_0::WEIGHT_HEIGHT_EXT.max() + 1,
            },
            Limit { what: "horizontal stride", value: stride.x, most: stride_most },
            Limit { what: "vertical stride", value: stride.y, most: stride_most },
            Limit { what: "horizontal dilation", value: dilation.x, most: dilation_most },
            Limit { what: "vertical dilation", value: dilation.y, most: dilation_most },
            Limit { what: "padding on the left", value: *left, most: cdma::d_zero_padding::PAD_LEFT.max() },
            Limit { what: "padding on the right", value: *right, most: cdma::d_zero_padding::PAD_RIGHT.max() },
            Limit { what: "padding at the top", value: *top, most: cdma::d_zero_padding::PAD_TOP.max() },
            Limit { what: "padding at the bottom", value: *bottom, most: cdma::d_zero_padding::PAD_BOTTOM.max() },
        ],
    )
}

/// What one operation of the convolution pipeline reads and makes: buffer entries a line of input, bytes of a kernel,
/// pixels of output.
pub(super) fn operation(layer: &str, entries_per_slice: u32, kernel: Shape, pixels: u32) -> Result<(), Error> {
    check(
        layer,
        &[
            Limit {
                what: "number of convolution buffer entries a line",
                value: entries_per_slice,
                most: csc::d_entry_per_slice::ENTRIES.max() + 1,
            },
            Limit {
                what: "number of bytes of a kernel",
                value: kernel.elements() as u32,
                most: cdma::d_weight_size_0::BYTE_PER_KERNEL.max() + 1,
            },
            Limit { what: "number of output pixels", value: pixels, most: csc::d_atomics::ATOMICS.max() + 1 },
        ],
    )
}

/// The largest side of a pooling window, of which [`pdp_line_buffer`] keeps partial results.
const LARGEST_POOLING_WINDOW: u32 = 8;

/// A pooling, whose padding is what PDP gets, to whole windows.
pub(super) fn pooling(layer: &str, op: &Pooling, padding: Padding) -> Result<(), Error> {
    use pdp::{d_pooling_kernel_cfg as kernel, d_pooling_padding_cfg as pad};
    check(
        layer,
        &[
            Limit { what: "pooling width", value: op.window.x, most: LARGEST_POOLING_WINDOW },
            Limit { what: "pooling height", value: op.window.y, most: LARGEST_POOLING_WINDOW },
            Limit { what: "horizontal stride", value: op.stride.x, most: kernel::KERNEL_STRIDE_WIDTH.max() + 1 },
            Limit { what: "vertical stride", value: op.stride.y, most: kernel::KERNEL_STRIDE_HEIGHT.max() + 1 },
            Limit { what: "padding on the left", value: padding.left, most: pad::PAD_LEFT.max() },
            Limit { what: "padding on the right", value: padding.right, most: pad::PAD_RIGHT.max() },
            Limit { what: "padding at the top", value: padding.top, most: pad::PAD_TOP.max() },
            Limit { what: "padding at the bottom", value: padding.bottom, most: pad::PAD_BOTTOM.max() },
        ],
    )
}

/// Bytes of PDP's line buffer.
const LINE_BUFFER: u32 = 7 * 1024;
/// Bits that an int8 element takes in it.
const LINE_BUFFER_BITS: u32 = 14;

/// The widest output that PDP makes in one part: its buffer keeps a partial result of every column for every window
/// that a line belongs to, and that number is rounded up to 1, 2, 4 or 8.
pub(super) fn pdp_line_buffer(layer: &str, op: &Pooling, kernels_per_group: u32, width: u32) -> Result<(), Error> {
    let windows = op.window.y.div_ceil(op.stride.y).next_power_of_two();
    let most = LINE_BUFFER * 8 / (windows * kernels_per_group * LINE_BUFFER_BITS);
    if width > most {
        let reason = format!("an output width of {width} passes PDP's line buffer, which holds {most} columns");
        return Err(Error::unsupported(layer, reason));
    }
    Ok(())
}
