// SPDX-License-Identifier: MIT OR Apache-2.0

//! The published figures: frames per second with 2048 int8 multiply-accumulate cells, 512 KB of convolution buffer, 1
//! GHz and 10 GB/s, from the hardware project's spreadsheet.
//!
//! These tests make the spreadsheet's assumptions: pooling and element-wise operations are hidden behind convolutions, 3 x 3
//! kernels at stride 1 run as Winograd (here only if that is faster), data that do not fit in the buffer are read again, branches
//! of 1 x 1 kernels with the same input run as one convolution, and AlexNet's fully connected layers process 16 inputs at once.
//! The estimates differ in these points. Channels and kernels fill whole atoms of 64 and 32 here, as in the hardware; the
//! spreadsheet rounds to 16. Features fill atoms of 32 bytes instead of 16. The first layer takes its image's columns as
//! channels, as the hardware does; the spreadsheet also takes its stride's lines. Winograd weights have 16 elements instead of 9,
//! which the spreadsheet does not count for GoogLeNet. For ResNet-50 it reads the weights of 1 x 1 kernels at stride 2 four times
//! (as if the stride's pixels were channels), 13 MB of 38; with that the estimate is 139.

use nvdla_estimate::{Bytes, ConvShape, Cube, Image, Memory};
use nvdla_uapi::config::NV_FULL;

/// 10 GB/s at 1 GHz.
fn memory() -> Memory {
    Memory::new(&NV_FULL, 0, 10.0)
}

struct Layer {
    c: u32,
    side: u32,
    k: u32,
    kernel: u32,
    stride: u32,
    /// Height and width of the written output, after pooling.
    written: u32,
    elementwise: bool,
    batch: u32,
}

fn convolution(c: u32, side: u32, k: u32, kernel: u32) -> Layer {
    Layer { c, side, k, kernel, stride: 1, written: side, elementwise: false, batch: 1 }
}

fn fully_connected(c: u32, side: u32, k: u32) -> Layer {
    Layer { stride: side, written: 1, batch: 16, ..convolution(c, side, k, side) }
}

impl Layer {
    /// The cycles as a direct convolution or, if that is possible and faster, as Winograd. The ResNet-50 sheet always uses
    /// Winograd, and reads 1 x 1 weights once for each pixel of the stride.
    fn cycles(&self, as_sheet: bool) -> u64 {
        let repeat = if as_sheet && self.kernel == 1 { self.stride * self.stride } else { 1 };
        let direct = self.cycles_as(false, repeat);
        match self.kernel == 3 && self.stride == 1 {
            true if as_sheet => self.cycles_as(true, repeat),
            true => direct.min(self.cycles_as(true, repeat)),
            false => direct,
        }
    }

    fn cycles_as(&self, winograd: bool, repeat: u32) -> u64 {
        let output = if self.kernel == self.side { 1 } else { self.side.div_ceil(self.stride) };
        // An image's columns become channels, and so do two lines if they fit into an atom (post-extension).
        let image = self.c == 3;
        let lines = if image && 2 * self.c * self.kernel <= NV_FULL.mac_atomic_c { 2 } else { 1 };
        let input = Cube::int8(if image { lines * self.c * self.kernel } else { self.c }, self.side, self.side);
        let compute = ConvShape {
            // The number of lines per step is divided below.
            image: image.then_some(Image { pixel_bytes: [4, 0], lines: 1 }),
            winograd,
            ..ConvShape::direct(
                input,
                self.k,
                (self.kernel.div_ceil(lines), if image { 1 } else { self.kernel }),
                Cube::int8(self.k, output, output),
            )
        };
        let padded = |channels: u32| u64::from(channels.next_multiple_of(if channels == 3 { 4 } else { 32 }));
        let features = padded(self.c) * u64::from(self.side) * u64::from(self.side);
        let grown = if winograd { 16 } else { u64::from(self.kernel * self.kernel) };
        let weights = u64::from(self.c) * u64::from(self.k) * grown * u64::from(repeat);
        let written = padded(self.k) * u64::from(self.written) * u64::from(self.written);
        let buffer = u64::from(NV_FULL.cbuf_banks) * u64::from(NV_FULL.cbuf_bank_bytes());
        // The smaller of input and weights stays in the buffer, in parts if necessary; the other is read once per part.
        let least = padded(self.c) * u64::from(self.side) * u64::from(self.kernel + 1);
        let group = u64::from(self.c) * grown * 32;
        let read = if weights <= features {
            features * weights.div_ceil(buffer.saturating_sub(least).max(1)) + weights
        } else {
            weights * features.div_ceil(buffer.saturating_sub(group.min(buffer / 2))) + features
        };
        let dram = if self.batch > 1 { features + weights / u64::from(self.batch) } else { read } + written;
        let dram = dram + if self.elementwise { written } else { 0 };
        compute.mac_cycles(&NV_FULL).max(Bytes { dram, sram: 0 }.cycles(&memory()).0)
    }
}

fn frames_a_second(layers: &[Layer], as_sheet: bool) -> f64 {
    1e9 / layers.iter().map(|layer| layer.cycles(as_sheet)).sum::<u64>() as f64
}

fn alexnet() -> Vec<Layer> {
    let pooled = |written, layer| Layer { written, ..layer };
    let mut layers = vec![Layer { stride: 4, written: 27, ..convolution(3, 224, 96, 11) }];
    // Two groups of channels.
    for _ in 0..2 {
        layers.push(pooled(13, convolution(48, 27, 128, 5)));
        layers.push(convolution(192, 13, 192, 3));
        layers.push(pooled(6, convolution(192, 13, 128, 3)));
    }
    layers.push(convolution(256, 13, 384, 3));
    layers.extend([fully_connected(256, 6, 4096), fully_connected(4096, 1, 4096), fully_connected(4096, 1, 1000)]);
    layers
}

fn googlenet() -> Vec<Layer> {
    let mut layers = vec![
        Layer { stride: 2, written: 56, ..convolution(3, 224, 64, 7) },
        convolution(64, 56, 64, 1),
        Layer { written: 28, ..convolution(64, 56, 192, 3) },
    ];
    for (side, written, c, [a, b, b3, d, d5, pool]) in [
        (28, 28, 192, [64, 96, 128, 16, 32, 32]),
        (28, 14, 256, [128, 128, 192, 32, 96, 64]),
        (14, 14, 480, [192, 96, 208, 16, 48, 64]),
        (14, 14, 512, [160, 112, 224, 24, 64, 64]),
        (14, 14, 512, [128, 128, 256, 24, 64, 64]),
        (14, 14, 512, [112, 144, 288, 32, 64, 64]),
        (14, 7, 528, [256, 160, 320, 32, 128, 128]),
        (7, 7, 832, [256, 160, 320, 32, 128, 128]),
        (7, 7, 832, [384, 192, 384, 48, 128, 128]),
    ] {
        for layer in [
            Layer { written: side, ..convolution(c, side, a + b + d, 1) },
            convolution(b, side, b3, 3),
            convolution(d, side, d5, 5),
            convolution(c, side, pool, 1),
        ] {
            // In the spreadsheet only the last branch is followed by the pooling.
            layers.push(if layer.k == pool && layer.c == c { Layer { written, ..layer } } else { layer });
        }
    }
    layers.push(Layer { batch: 1, ..fully_connected(1024, 1, 1000) });
    layers
}

fn resnet50() -> Vec<Layer> {
    let mut layers = vec![Layer { stride: 2, written: 56, ..convolution(3, 224, 64, 7) }];
    let mut c = 64;
    for (k, blocks, side) in [(64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7)] {
        for block in 0..blocks {
            // The first block of a stage halves height and width, except in the first stage.
            let (from, stride) = if block == 0 && k > 64 { (2 * side, 2) } else { (side, 1) };
            if block == 0 {
                layers.push(Layer { stride, written: side, ..convolution(c, from, 4 * k, 1) });
            }
            layers.push(Layer { stride, written: side, ..convolution(c, from, k, 1) });
            layers.push(convolution(k, side, k, 3));
            layers.push(Layer { elementwise: true, ..convolution(k, side, 4 * k, 1) });
            c = 4 * k;
        }
    }
    layers.push(Layer { batch: 1, ..fully_connected(2048, 1, 1000) });
    layers
}

#[test]
fn published_figures() {
    // AlexNet 1178, GoogLeNet 717, ResNet-50 191.
    for (name, layers, published, near) in [
        ("AlexNet", alexnet(), 1117.0, 0.85..1.15),
        ("GoogLeNet", googlenet(), 818.0, 0.85..1.15),
        ("ResNet-50", resnet50(), 141.0, 1.2..1.4),
    ] {
        let estimate = frames_a_second(&layers, false);
        eprintln!("{name}: {estimate:.0} frames per second, published {published:.0} ({:.2})", estimate / published);
        assert!(near.contains(&(estimate / published)), "{name}: {estimate}");
    }
    // With the sheet's count of weights, the estimate of ResNet-50 is near the published figure.
    let as_sheet = frames_a_second(&resnet50(), true);
    eprintln!("ResNet-50 with the sheet's weights: {as_sheet:.0}");
    assert!((0.9..1.1).contains(&(as_sheet / 141.0)), "{as_sheet}");
}
