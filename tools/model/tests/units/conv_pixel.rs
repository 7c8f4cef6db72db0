// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of `src/conv/pixel.rs`.

use nvdla_model::conv::pixel::channels;
use nvdla_uapi::layout::pixel::Format;
use nvdla_uapi::reg::values::PixelFormat;

#[test]
fn channels_come_in_the_order_red_green_blue_alpha() {
    let of = |format| channels(&Format::new(format), &[1, 2, 3, 4, 0, 0, 0, 0]);
    assert_eq!(of(PixelFormat::A8B8G8R8), [1, 2, 3, 4]);
    assert_eq!(of(PixelFormat::A8R8G8B8), [3, 2, 1, 4]);
    assert_eq!(of(PixelFormat::B8G8R8A8), [2, 3, 4, 1]);
    assert_eq!(of(PixelFormat::R8G8B8A8), [4, 3, 2, 1]);
    assert_eq!(of(PixelFormat::Y8_U8V8N444), [1, 3, 2, 0]);
}

#[test]
fn channels_of_a_shared_word_are_shifted_to_the_top_bit() {
    let of = |format, all: u32| channels(&Format::new(format), &u64::from(all).to_le_bytes());
    let all: u32 = 0b11 << 30 | 0x3ff << 20 | 0x155 << 10 | 0x001;
    assert_eq!(of(PixelFormat::A2B10G10R10, all), [0x0040, 0x5540, 0xffc0, 0xc000]);
    let all: u32 = 0x3ff << 22 | 0x155 << 12 | 0x001 << 2 | 0b01;
    assert_eq!(of(PixelFormat::R10G10B10A2, all), [0xffc0, 0x5540, 0x0040, 0x4000]);
}
