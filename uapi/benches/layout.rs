// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! How fast layouts pack and unpack, beside a memory copy of the same bytes in the same run.
//!
//! `cargo bench -p nvdla-uapi --bench layout` prints a table with one line per conversion and one column per size. Each
//! cell has GB/s of the plain tensor's bytes, and the ratio to a copy of the same number of bytes, measured
//! alternately. Memory in NVDLA's layouts and the copy's target begin at a page. Then criterion measures each
//! conversion at 4 MB, unless one of these options asks for a table alone:
//!
//! - `-- --quick-table`: nothing else,
//! - `-- --only TEXT` selects conversions by a part of their name, and `-- --up-to KB` the largest size.

use criterion::{Criterion, Throughput};
use nvdla_uapi::layout::feature::Cube;
use nvdla_uapi::layout::pixel::Image;
use nvdla_uapi::layout::weight::{Compressed, Direct, Geometry, Surfaces};
use nvdla_uapi::layout::{Element, Extents, Layout, Order};
use nvdla_uapi::reg::values::{PixelFormat, Precision};
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// The sizes of the table, in KB.
const SIZES: [usize; 6] = [64, 256, 1024, 4096, 16384, 65536];

/// A conversion, ready to run.
struct Case {
    name: String,
    /// The ratio that it should reach, or GB/s where negative.
    goal: f64,
    /// The bytes of the larger side, from which the speed is computed.
    bytes: usize,
    run: Box<dyn FnMut()>,
}

/// Memory from the start of a page on, where buffers of the device begin. Plain slices lie where the allocator puts them.
struct Pages {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Pages {
    fn new(len: usize) -> Self {
        const PAGE: usize = 4096;
        let bytes = vec![0; len + PAGE];
        Self { start: bytes.as_ptr().align_offset(PAGE), bytes, len }
    }

    fn of(from: &[u8]) -> Self {
        let mut pages = Self::new(from.len());
        pages.copy_from_slice(from);
        pages
    }
}

impl Deref for Pages {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..][..self.len]
    }
}

impl DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.len]
    }
}

fn noise<T: Element>(count: usize) -> Vec<T> {
    let mut state = 1u64;
    (0..count)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            T::read(&(state >> 20).to_le_bytes())
        })
        .collect()
}

/// A cube of about `bytes`. With 96 channels the size of its planes is not close to a power of two, as in most networks. With 64
/// it is just below a power of two, so all rows of a tile use the same few cache sets.
fn cube(bytes: usize, channels: u32, precision: Precision, atom: u32) -> Cube {
    let element = nvdla_uapi::layout::bytes(precision);
    let pixels = bytes as u32 / channels / element;
    let width = 56.min(pixels);
    Cube::packed(Extents::new(1, channels, pixels / width, width), precision, atom).unwrap()
}

fn feature<T: Element>(
    bytes: usize,
    names: [&'static str; 2],
    goal: f64,
    order: Order,
    precision: Precision,
    atom: u32,
    channels: u32,
) -> Vec<Case> {
    let cube = cube(bytes, channels, precision, atom);
    let plain = noise::<T>(cube.extents().elements() as usize);
    let mut memory = Pages::new(cube.size() as usize);
    cube.pack(order, &plain, &mut memory).unwrap();
    let (packed, mut back) = (Pages::of(&memory), plain.clone());
    let bytes = memory.len();
    let pack: Box<dyn FnMut()> = Box::new(move || cube.pack(order, &plain, &mut memory).unwrap());
    let unpack: Box<dyn FnMut()> = Box::new(move || cube.unpack(order, &packed, &mut back).unwrap());
    [(names[0], pack), (names[1], unpack)]
        .into_iter()
        .map(|(name, run)| Case { name: name.to_string(), goal, bytes, run })
        .collect()
}

fn weights<T: Element>(
    bytes: usize,
    name: &'static str,
    goal: f64,
    order: Order,
    precision: Precision,
    side: u32,
) -> [Case; 2] {
    let channels = 256;
    let kernel = channels * side * side * nvdla_uapi::layout::bytes(precision);
    let extents = Extents::new((bytes as u32 / kernel).max(1), channels, side, side);
    let direct = Direct::new(extents, Geometry::documented(precision)).unwrap();
    let plain = noise::<T>(extents.elements() as usize);
    let mut memory = Pages::new(direct.size() as usize);
    direct.pack(order, &plain, &mut memory).unwrap();
    let (packed, mut back) = (Pages::of(&memory), plain.clone());
    let bytes = memory.len();
    let pack = Box::new(move || direct.pack(order, &plain, &mut memory).unwrap());
    let unpack = Box::new(move || direct.unpack(order, &packed, &mut back).unwrap());
    let plain = if order == Order::Nchw { "KCRS" } else { "KRSC" };
    [
        Case { name: format!("{name} from {plain}"), goal, bytes, run: pack },
        Case { name: format!("{name} to {plain}"), goal, bytes, run: unpack },
    ]
}

fn pixels(bytes: usize, name: &'static str, goal: f64, format: PixelFormat) -> Case {
    let pixel: u32 = nvdla_uapi::layout::pixel::Format::new(format).bytes_per_pixel.iter().sum();
    let count = bytes as u32 / pixel;
    let width = 224;
    let image = Image::packed(format, width, (count / width).max(1), 0, 32).unwrap();
    let rgb = noise::<u8>((width * image.extents().h * 3) as usize);
    let (mut first, mut second) = (Pages::new(image.span(0) as usize), Pages::new(image.span(1) as usize));
    let bytes = first.len() + second.len();
    let name = name.to_string();
    Case { name, goal, bytes, run: Box::new(move || image.pack_rgb(&rgb, 255, [&mut first, &mut second]).unwrap()) }
}

fn compression(bytes: usize, names: [&'static str; 2], goal: f64, precision: Precision) -> [Case; 2] {
    let element = nvdla_uapi::layout::bytes(precision);
    let extents = Extents::new((bytes as u32 / (256 * element)).max(1), 256, 1, 1);
    let direct = Direct::new(extents, Geometry::documented(precision)).unwrap();
    let mut mapped = noise::<u8>(direct.size() as usize);
    for (index, weight) in mapped.chunks_mut(element as usize).enumerate() {
        if (index * 7919) % 10 < 6 {
            weight.fill(0);
        }
    }
    let compressed = Compressed::new(direct);
    let sizes = [compressed.max_size(), compressed.wmb_size(), compressed.wgs_size()];
    let [mut data, mut wmb, mut wgs] = sizes.map(|size| vec![0u8; size as usize]);
    compressed.compress(&mapped, Surfaces { weights: &mut data, wmb: &mut wmb, wgs: &mut wgs }).unwrap();
    let (from_data, from_wmb, from_wgs) = (data.clone(), wmb.clone(), wgs.clone());
    let mut back = mapped.clone();
    let bytes = mapped.len();
    let compress = move || {
        let surfaces = Surfaces { weights: &mut data[..], wmb: &mut wmb[..], wgs: &mut wgs[..] };
        compressed.compress(&mapped, surfaces).unwrap();
    };
    let decompress = move || {
        let surfaces = Surfaces { weights: &from_data[..], wmb: &from_wmb[..], wgs: &from_wgs[..] };
        compressed.decompress(surfaces, &mut back).unwrap();
    };
    [
        Case { name: names[0].to_string(), goal, bytes, run: Box::new(compress) },
        Case { name: names[1].to_string(), goal, bytes, run: Box::new(decompress) },
    ]
}

/// All conversions at about that size.
fn cases(bytes: usize) -> Vec<Case> {
    use Order::{Nchw, Nhwc};
    use Precision::{Fp16, Int8};
    let half = 0.5;
    let mut cases = Vec::new();
    cases.extend(feature::<i8>(bytes, ["feature int8 from NCHW", "feature int8 to NCHW"], half, Nchw, Int8, 32, 96));
    cases.extend(feature::<i8>(bytes, ["feature int8 from NHWC", "feature int8 to NHWC"], half, Nhwc, Int8, 32, 96));
    cases.extend(feature::<u16>(bytes, ["feature fp16 from NCHW", "feature fp16 to NCHW"], half, Nchw, Fp16, 32, 96));
    cases.extend(feature::<u16>(bytes, ["feature fp16 from NHWC", "feature fp16 to NHWC"], half, Nhwc, Fp16, 32, 96));
    let crowded = ["feature int8 from NCHW, crowded planes", "feature int8 to NCHW, crowded planes"];
    cases.extend(feature::<i8>(bytes, crowded, half, Nchw, Int8, 32, 64));
    let small = ["feature int8 from NCHW, 8-byte atoms", "feature int8 to NCHW, 8-byte atoms"];
    cases.extend(feature::<i8>(bytes, small, half, Nchw, Int8, 8, 96));
    let small = ["feature int8 from NHWC, 8-byte atoms", "feature int8 to NHWC, 8-byte atoms"];
    cases.extend(feature::<i8>(bytes, small, half, Nhwc, Int8, 8, 96));
    let third = 1.0 / 3.0;
    cases.push(pixels(bytes, "RGB to A8B8G8R8", third, PixelFormat::A8B8G8R8));
    cases.push(pixels(bytes, "RGB to R8G8B8A8", third, PixelFormat::R8G8B8A8));
    cases.push(pixels(bytes, "RGB to Y8___U8V8_N444", third, PixelFormat::Y8_U8V8N444));
    cases.push(pixels(bytes, "RGB to A16B16G16R16", third, PixelFormat::A16B16G16R16));
    cases.push(pixels(bytes, "RGB to A2B10G10R10", third, PixelFormat::A2B10G10R10));
    cases.push(pixels(bytes, "RGB to A16B16G16R16_F", third, PixelFormat::A16B16G16R16F));
    cases.extend(weights::<i8>(bytes, "direct 3x3 int8", third, Nchw, Int8, 3));
    cases.extend(weights::<i8>(bytes, "direct 3x3 int8", third, Nhwc, Int8, 3));
    cases.extend(weights::<i8>(bytes, "direct 2x2 int8", third, Nchw, Int8, 2));
    cases.extend(weights::<i8>(bytes, "direct 1x1 int8", third, Nchw, Int8, 1));
    cases.extend(weights::<i8>(bytes, "direct 5x5 int8", third, Nchw, Int8, 5));
    cases.extend(weights::<u16>(bytes, "direct 5x5 fp16", third, Nchw, Fp16, 5));
    cases.extend(weights::<u16>(bytes, "direct 3x3 fp16", third, Nchw, Fp16, 3));
    cases.extend(weights::<u16>(bytes, "direct 3x3 fp16", third, Nhwc, Fp16, 3));
    cases.extend(compression(bytes, ["compress int8, 60 % zero", "decompress int8, 60 % zero"], -1.0, Int8));
    cases.extend(compression(bytes, ["compress fp16, 60 % zero", "decompress fp16, 60 % zero"], -1.0, Fp16));
    cases
}

/// The best times of `run` and of copying the same number of bytes, measured alternately.
fn measure(case: &mut Case) -> (f64, f64) {
    let source = vec![1u8; case.bytes];
    let mut target = Pages::new(case.bytes);
    let (mut best, mut copy) = (Duration::MAX, Duration::MAX);
    let started = Instant::now();
    let mut rounds = 0;
    // Large sizes need more time, so that a shared machine is idle at least once.
    let time = Duration::from_millis(if case.bytes < 8 << 20 { 60 } else { 300 });
    while rounds < 5 || (started.elapsed() < time && rounds < 2000) {
        let start = Instant::now();
        (case.run)();
        best = best.min(start.elapsed());
        let start = Instant::now();
        target.copy_from_slice(&source);
        std::hint::black_box(&mut target.bytes);
        copy = copy.min(start.elapsed());
        rounds += 1;
    }
    (case.bytes as f64 / best.as_secs_f64() / 1e9, case.bytes as f64 / copy.as_secs_f64() / 1e9)
}

/// What the command line asks for.
struct Options {
    only: Option<String>,
    /// In KB.
    up_to: usize,
}

impl Options {
    fn new() -> Self {
        let arguments: Vec<String> = std::env::args().collect();
        let after = |name: &str| {
            let at = arguments.iter().position(|argument| argument == name)?;
            arguments.get(at + 1).cloned()
        };
        let up_to = after("--up-to").map_or(usize::MAX, |size| size.parse().expect("--up-to takes a number of KB"));
        Self { only: after("--only"), up_to }
    }

    /// The conversions that the options select.
    fn select(&self, mut cases: Vec<Case>) -> Vec<Case> {
        cases.retain(|case| self.only.as_ref().is_none_or(|text| case.name.contains(text.as_str())));
        cases
    }
}

fn table() {
    let options = Options::new();
    let sizes: Vec<usize> = SIZES.into_iter().filter(|size| *size <= options.up_to).collect();
    print!("{:40} {:>6}", "GB/s (ratio to memcpy)", "goal");
    for size in &sizes {
        print!(" {:>14}", format!("{size} KB"));
    }
    println!();
    let mut lines: Vec<String> = Vec::new();
    for size in sizes {
        for (index, mut case) in options.select(cases(size << 10)).into_iter().enumerate() {
            let (speed, copy) = measure(&mut case);
            if lines.len() <= index {
                let goal = if case.goal < 0.0 { format!("{} GB/s", -case.goal) } else { format!("{:.2}", case.goal) };
                lines.push(format!("{:40} {goal:>6}", case.name));
            }
            let cell = format!("{speed:.1} ({:.2})", speed / copy);
            lines[index].extend([format!(" {cell:>14}")]);
        }
    }
    for line in lines {
        println!("{line}");
    }
}

fn criterion_benches(criterion: &mut Criterion) {
    for mut case in Options::new().select(cases(4 << 20)) {
        let mut group = criterion.benchmark_group("layout");
        group.throughput(Throughput::Bytes(case.bytes as u64));
        group.bench_function(&case.name, |bencher| bencher.iter(|| (case.run)()));
    }
}

#[allow(missing_docs)] // made by the macro
mod group {
    use super::{criterion_benches, Criterion, Duration};
    use criterion::criterion_group;

    criterion_group! {
        name = benches;
        config = Criterion::default()
            .sample_size(20)
            .warm_up_time(Duration::from_millis(200))
            .measurement_time(Duration::from_millis(800));
        targets = criterion_benches
    }
}

fn main() {
    // `cargo test --benches` only checks that the benchmark runs.
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    table();
    let alone = ["--quick-table", "--only", "--up-to"];
    if !std::env::args().any(|argument| alone.contains(&argument.as_str())) {
        group::benches();
    }
}
