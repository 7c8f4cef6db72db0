// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;

fn run(memory: &mut [Vec<u8>]) -> Result<u16, Error> {
    super::run::<Std, _>(memory, |_| Ok(()))
}

use crate::half;
use nvdla_uapi::emu::{Format, Single};

fn single(value: f32) -> Single {
    Single(value.to_bits())
}

fn buffer(address_index: u16, format: Format, [channels, height, width]: [u16; 3]) -> Buffer {
    let atom = if format == Format::Int8x8 { 8 } else { 32 };
    // Lines and surfaces are further apart than necessary.
    let line_stride = u32::from(width) * atom + 64;
    let surface_stride = line_stride * u32::from(height) + 128;
    Buffer { address_index, address_offset: 16, size: 0, format, width, height, channels, line_stride, surface_stride }
}

fn offset(buffer: &Buffer, c: usize, y: usize, x: usize) -> usize {
    let (element, atom) = match buffer.format {
        Format::Fp16 => (2, 16),
        Format::Int8x8 => (1, 8),
        _ => (1, 32),
    };
    buffer.address_offset as usize
        + c / atom * buffer.surface_stride as usize
        + y * buffer.line_stride as usize
        + (x * atom + c % atom) * element
}

fn task(operation: Operation, source: Buffer, destination: Buffer, data: Vec<u8>) -> Vec<Vec<u8>> {
    let room = data.len();
    vec![
        Network { operations: 1, buffers: 2, num_operations: 1 }.to_bytes().to_vec(),
        operation.to_bytes().to_vec(),
        [source.to_bytes(), destination.to_bytes()].concat(),
        data,
        vec![0xee; room],
    ]
}

fn operation(kind: Kind) -> Operation {
    Operation { kind, input_scale: single(0.05), output_scale: single(0.01) }
}

const SQUARE: Kind = Kind::Power { power: Single(0x4000_0000), scale: Single(0x3f00_0000), shift: Single(0x3f80_0000) };

#[test]
fn power_reaches_every_element_and_nothing_else() {
    let shape = [37, 3, 5];
    for format in [Format::Fp16, Format::Int8, Format::Int8x8] {
        let (source, destination) = (buffer(3, format, shape), buffer(4, format, shape));
        let data: Vec<u8> = (0..8192_u32).map(|n| (n * 7 % 61) as u8).collect();
        let mut memory = task(operation(SQUARE), source, destination, data);
        assert_eq!(run(memory.as_mut_slice()).unwrap(), 1);
        let mut expected = vec![0xee; 8192];
        for c in 0..37 {
            for y in 0..3 {
                for x in 0..5 {
                    let (from, to) = (offset(&source, c, y, x), offset(&destination, c, y, x));
                    if format == Format::Fp16 {
                        let value = half::to_f32(half::f16::from_le_bytes([memory[3][from], memory[3][from + 1]]));
                        let result = half::from_f32((1.0 + 0.5 * value).powf(2.0));
                        expected[to..to + 2].copy_from_slice(&result.to_le_bytes());
                    } else {
                        let value = f32::from(memory[3][from] as i8) * 0.05;
                        expected[to] = ((1.0 + 0.5 * value).powf(2.0) / 0.01).clamp(-128.0, 127.0) as i8 as u8;
                    }
                }
            }
        }
        assert!(memory[4] == expected, "{format:?}");
    }
}

/// An int8 softmax with results in half precision: plain loops in double precision agree to the last bits.
#[test]
fn softmax_of_integers_in_half_precision() {
    let shape = [37, 2, 3];
    for format in [Format::Int8, Format::Int8x8] {
        let (source, destination) = (buffer(3, format, shape), buffer(4, Format::Fp16, shape));
        let data: Vec<u8> = (0..8192_u32).map(|n| (n * 31 % 251) as u8).collect();
        let mut memory = task(operation(Kind::Softmax { axis: 1 }), source, destination, data);
        run(memory.as_mut_slice()).unwrap();
        let mut rest = vec![0xee; 8192];
        for (y, x) in (0..2).flat_map(|y| (0..3).map(move |x| (y, x))) {
            let real: Vec<f64> =
                (0..37).map(|c| (f64::from(memory[3][offset(&source, c, y, x)] as i8) * 0.05).exp()).collect();
            let sum: f64 = real.iter().sum();
            for (c, real) in real.iter().enumerate() {
                let at = offset(&destination, c, y, x);
                let bytes = [memory[4][at], memory[4][at + 1]];
                rest[at..at + 2].copy_from_slice(&bytes);
                let found = f64::from(half::to_f32(half::f16::from_le_bytes(bytes)));
                assert!((found / (real / sum) - 1.0).abs() < 1e-3 || found < 1e-4, "{format:?} {c} {y} {x}: {found}");
            }
        }
        assert!(memory[4] == rest, "{format:?}: bytes between the elements were changed");
    }
    let mut memory =
        task(operation(SQUARE), buffer(3, Format::Int8, shape), buffer(4, Format::Fp16, shape), vec![0; 8192]);
    assert!(matches!(run(memory.as_mut_slice()), Err(Error::Mismatch { .. })));
    let kind = Kind::Softmax { axis: 1 };
    let mut memory =
        task(operation(kind), buffer(3, Format::Fp16, shape), buffer(4, Format::Int8, shape), vec![0; 8192]);
    assert!(matches!(run(memory.as_mut_slice()), Err(Error::Mismatch { .. })));
}

#[test]
fn softmax_of_every_pixel() {
    let shape = [40, 2, 3];
    for format in [Format::Fp16, Format::Int8, Format::Int8x8] {
        let (source, destination) = (buffer(3, format, shape), buffer(4, format, shape));
        let mut data = vec![0; 8192];
        for y in 0..2 {
            for x in 0..3 {
                for c in 0..40 {
                    let at = offset(&source, c, y, x);
                    let value = (c as i32 * 7 + y as i32 * 13 + x as i32 * 5) % 64 - 32;
                    if format == Format::Fp16 {
                        data[at..at + 2].copy_from_slice(&half::from_f32(value as f32 / 4.0).to_le_bytes());
                    } else {
                        data[at] = value as i8 as u8;
                    }
                }
            }
        }
        let mut memory = task(operation(Kind::Softmax { axis: 1 }), source, destination, data);
        run(memory.as_mut_slice()).unwrap();
        for y in 0..2 {
            for x in 0..3 {
                let sum: f32 = (0..40)
                    .map(|c| {
                        let at = offset(&destination, c, y, x);
                        if format == Format::Fp16 {
                            half::to_f32(half::f16::from_le_bytes([memory[4][at], memory[4][at + 1]]))
                        } else {
                            f32::from(memory[4][at]) * 0.01
                        }
                    })
                    .sum();
                // int8 results are truncated towards zero, so each loses half a hundredth on average.
                let tolerance = if format == Format::Fp16 { 0.01 } else { 0.4 };
                assert!((sum - 1.0).abs() < tolerance, "{format:?} {x} {y}: {sum}");
            }
        }
    }
}

#[test]
fn in_place() {
    let both = Buffer { line_stride: 32, surface_stride: 32, ..buffer(3, Format::Int8, [3, 1, 1]) };
    let mut data = vec![0; 19];
    data[16..].copy_from_slice(&[0, 20, 40]);
    let mut memory = task(operation(SQUARE), both, both, data);
    run(memory.as_mut_slice()).unwrap();
    assert_eq!(memory[3][16..], [100, 127, 127]);
}

#[test]
fn surfaces_outside_their_memory_are_refused_and_nothing_is_written() {
    let good = buffer(3, Format::Int8, [4, 2, 2]);
    for (side, index, source, destination) in [
        ("the source", 3, Buffer { line_stride: u32::MAX, ..good }, good),
        ("the destination", 4, good, Buffer { address_index: 4, address_offset: 4000, ..good }),
        ("the destination", 9, good, Buffer { address_index: 9, ..good }),
    ] {
        let mut memory = task(operation(SQUARE), source, destination, vec![1; 4096]);
        let before = memory.clone();
        let error = run(memory.as_mut_slice()).unwrap_err();
        let sentence = error.to_string();
        assert!(matches!(error, Error::OutOfRange { .. }), "{sentence}");
        assert!(sentence.contains(side) && sentence.contains(&format!("address entry {index}")), "{sentence}");
        assert_eq!(memory, before);
    }
}

#[test]
fn what_cannot_be_emulated_is_refused() {
    let good = buffer(3, Format::Int8, [4, 2, 2]);
    let refuse = |source: Buffer, destination: Buffer| {
        run(task(operation(SQUARE), source, destination, vec![0; 4096]).as_mut_slice()).unwrap_err().to_string()
    };
    assert_eq!(
        refuse(Buffer { format: Format::Int16, ..good }, good),
        "the source of emulated operation 0 (power) is Int16; only Fp16, Int8 and Int8x8 are emulated"
    );
    assert_eq!(
        refuse(good, Buffer { channels: 5, ..good }),
        "emulated operation 0 (power) reads 2 x 2 pixels of 4 channels in Int8 \
         and writes 2 x 2 pixels of 5 channels in Int8"
    );
    assert!(refuse(Buffer { height: 0, ..good }, good).contains("is empty: 2 x 0 pixels of 4 channels"));

    assert_eq!(
        refuse(good, Buffer { line_stride: 63, ..good }),
        "the destination of emulated operation 0 (power) has a line stride of 63 bytes, and at least 64 are needed"
    );
    assert!(refuse(Buffer { channels: 33, surface_stride: 0, ..good }, good).contains("surface stride of 0 bytes"));

    let mut memory = task(operation(SQUARE), good, good, vec![0; 4096]);
    memory[1].truncate(15);
    assert_eq!(
        run(memory.as_mut_slice()).unwrap_err().to_string(),
        "the emulated task's operation list needs 24 bytes at address entry 1, which has 0xf bytes"
    );
    assert!(run([].as_mut_slice()).unwrap_err().to_string().contains("network descriptor"));
    let mut memory = task(operation(SQUARE), good, good, vec![0; 4096]);
    memory[1][0] = 9;
    assert_eq!(
        run(memory.as_mut_slice()).unwrap_err().to_string(),
        "emulated operation 0: operation type 9 is neither power (0) nor softmax (1)"
    );
}
