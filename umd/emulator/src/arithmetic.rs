// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arithmetic of the emulated operations.

use nvdla_uapi::emu::{Format, Operation, Single};

use super::caller::{Functions, Stop};
use super::half;
use super::memory::Memory;
use super::surface::{Atom, Stopped, Surface};

/// The numbers of an int8 surface, and of one in half precision.
#[derive(Clone, Copy)]
struct Scales {
    /// An int8 input times this is the real value.
    input: f32,
    /// A real value divided by this is the int8 output.
    output: f32,
}

impl Scales {
    fn of(operation: &Operation) -> Self {
        Self { input: f32::from_bits(operation.input_scale.0), output: f32::from_bits(operation.output_scale.0) }
    }
}

/// The elements of an atom, as bytes.
fn elements(format: Format, atom: &mut [u8]) -> core::slice::ChunksExactMut<'_, u8> {
    atom.chunks_exact_mut(if format == Format::Fp16 { 2 } else { 1 })
}

/// The value of an element in half precision.
fn read_half(element: &[u8]) -> f32 {
    half::to_f32(half::f16::from_le_bytes([element[0], element[1]]))
}

fn write_half(element: &mut [u8], value: f32) {
    element.copy_from_slice(&half::from_f32(value).to_le_bytes());
}

/// (shift + scale * x) ^ power.
pub(super) struct Power {
    exponent: f32,
    scale: f32,
    shift: f32,
    scales: Scales,
}

impl Power {
    pub(super) fn new(operation: &Operation, power: Single, scale: Single, shift: Single) -> Self {
        let [exponent, scale, shift] = [power, scale, shift].map(|single| f32::from_bits(single.0));
        Self { exponent, scale, shift, scales: Scales::of(operation) }
    }

    /// Computes every element.
    pub(super) fn run<F: Functions, M: Memory + ?Sized>(
        &self,
        memory: &mut M,
        source: &Surface,
        destination: &Surface,
        watch: &mut dyn FnMut(usize) -> Result<(), Stop>,
    ) -> Result<(), Stopped> {
        let format = source.format();
        let mut atom = Atom::default();
        for surface in source.surfaces() {
            for (y, x) in source.pixels() {
                let bytes = source.read(memory, (surface, y, x), &mut atom)?;
                watch(bytes.len()).map_err(Stopped::Watch)?;
                for element in elements(format, bytes) {
                    if format == Format::Fp16 {
                        write_half(element, self.apply::<F>(read_half(element)));
                    } else {
                        let x = f32::from(element[0] as i8) * self.scales.input;
                        element[0] = saturate(self.apply::<F>(x) / self.scales.output);
                    }
                }
                destination.write(memory, (surface, y, x), bytes)?;
            }
        }
        Ok(())
    }

    fn apply<F: Functions>(&self, x: f32) -> f32 {
        // Two roundings, as in the reference: no fused multiply-add.
        F::powf(self.shift + self.scale * x, self.exponent)
    }
}

/// e^x divided by the sum of e^x of all channels; the greatest x is subtracted from each x first. An int8 source may have its
/// results in half precision.
pub(super) struct Softmax {
    scales: Scales,
}

impl Softmax {
    pub(super) fn new(operation: &Operation) -> Self {
        Self { scales: Scales::of(operation) }
    }

    /// Computes the channels of every pixel, in order. The channels of a pixel are read three times, because without allocation
    /// there is no place for them: for the greatest, for the sum, and for the results.
    pub(super) fn run<F: Functions, M: Memory + ?Sized>(
        &self,
        memory: &mut M,
        source: &Surface,
        destination: &Surface,
        watch: &mut dyn FnMut(usize) -> Result<(), Stop>,
    ) -> Result<(), Stopped> {
        let format = source.format();
        let exact = destination.format() != format;
        let mut atom = Atom::default();
        for (y, x) in source.pixels() {
            let mut greatest = f32::NEG_INFINITY;
            let mut ends = [i8::MAX, i8::MIN];
            for surface in source.surfaces() {
                let bytes = source.read(memory, (surface, y, x), &mut atom)?;
                watch(bytes.len()).map_err(Stopped::Watch)?;
                if format != Format::Fp16 {
                    ends =
                        bytes.iter().fold(ends, |[least, most], &byte| [least.min(byte as i8), most.max(byte as i8)]);
                    continue;
                }
                for element in elements(format, bytes) {
                    greatest = greater(greatest, read_half(element));
                }
            }
            if format != Format::Fp16 {
                // One of them, depending on the scale's sign.
                greatest = ends
                    .iter()
                    .fold(greatest, |greatest, &end| greater(greatest, self.value(format, exact, &[end as u8])));
            }
            let mut powers = Powers([f32::NAN; 256]);
            let power = |element: &[u8]| F::exp(self.value(format, exact, element) - greatest);
            let mut sum = 0.0;
            for surface in source.surfaces() {
                for element in elements(format, source.read(memory, (surface, y, x), &mut atom)?) {
                    sum += powers.of(format, element, &power);
                }
            }
            if format != Format::Fp16 && !exact {
                powers.replace(|power| saturate(half::to_f32(half::from_f32(power / sum)) / self.scales.output));
            }
            for surface in source.surfaces() {
                let bytes = source.read(memory, (surface, y, x), &mut atom)?;
                for (channel, element) in source.channels(surface).zip(elements(format, bytes)) {
                    if !exact && format != Format::Fp16 {
                        element[0] = powers.replaced(element[0]);
                        continue;
                    }
                    let result = powers.of(format, element, &power) / sum;
                    if exact {
                        destination.write_half(memory, (channel, y, x), half::from_f32(result))?;
                    } else {
                        write_half(element, result);
                    }
                }
                if !exact {
                    destination.write(memory, (surface, y, x), bytes)?;
                }
            }
        }
        Ok(())
    }

    /// The value of an element. An int8 value is converted to half precision, unless the results are in half precision.
    fn value(&self, format: Format, exact: bool, element: &[u8]) -> f32 {
        if format == Format::Fp16 {
            return read_half(element);
        }
        let value = f32::from(element[0] as i8) * self.scales.input;
        if exact {
            value
        } else {
            half::to_f32(half::from_f32(value))
        }
    }
}

/// The powers of a pixel's int8 elements, by byte; NaN before they are computed. There are at most 256, and often more channels.
struct Powers([f32; 256]);

impl Powers {
    /// The power of an element, which `compute` computes.
    fn of(&mut self, format: Format, element: &[u8], compute: &impl Fn(&[u8]) -> f32) -> f32 {
        if format == Format::Fp16 {
            return compute(element);
        }
        let known = &mut self.0[usize::from(element[0])];
        if known.is_nan() {
            *known = compute(element);
        }
        *known
    }

    /// Replaces each power by the int8 that `result` makes of it.
    fn replace(&mut self, result: impl Fn(f32) -> u8) {
        for power in self.0.iter_mut().filter(|power| !power.is_nan()) {
            *power = f32::from(result(*power));
        }
    }

    /// The int8 that replaced an element's power, 0 for NaN.
    fn replaced(&self, element: u8) -> u8 {
        self.0[usize::from(element)] as u8
    }
}

/// The greater one, the first if one is NaN.
fn greater(first: f32, second: f32) -> f32 {
    if second > first {
        second
    } else {
        first
    }
}

/// Clamps to int8 and truncates towards zero. NaN becomes 0.
fn saturate(value: f32) -> u8 {
    (value as i8) as u8
}
