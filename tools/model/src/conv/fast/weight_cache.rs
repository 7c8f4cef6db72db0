// SPDX-License-Identifier: MIT OR Apache-2.0

//! A cache of packed weights.
//!
//! The operations of a network have the same weights in each run, and packing takes as long as the multiplications of
//! many operations. Weights are packed again only if memory says that they have been written
//! ([`crate::memory::Memory::version`]).

use std::collections::HashMap;

use super::super::operation::{Mapping, Operation, Size, WeightSurface};
use super::kernel::Kernel;
use super::panel::Weight;
use super::parts;
use super::shape::Shape;
use crate::simd::aligned::Aligned;
use crate::threads::share;
use nvdla_uapi::isa::Isa;

/// Capacity in bytes, sufficient for all panels of the largest usual networks.
const CAPACITY: usize = 256 << 20;
/// Panels that this many operations have not used may be replaced.
const MAX_IDLE: u64 = 4096;

/// Everything on which packed weights depend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Key {
    version: u64,
    surface: WeightSurface,
    mapping: Mapping,
    kernel: Size,
    kernels: usize,
    atomic_c: usize,
    lanes: usize,
    post_extension: usize,
    isa: Isa,
}

impl Key {
    /// The key of an operation with weights of this [`crate::memory::Memory::version`].
    pub(super) fn new(isa: Isa, operation: &Operation, version: u64) -> Self {
        let Operation { weights: surface, mapping, kernel, kernels, atomic_c, atomic_k: lanes, post_extension, .. } =
            *operation;
        Self { version, surface, mapping, kernel, kernels, atomic_c, lanes, post_extension, isa }
    }
}

#[derive(Debug)]
struct Entry<P> {
    key: Key,
    packed: P,
    bytes: usize,
    used: u64,
}

/// Packed weights, by the address of the weights.
#[derive(Debug, Default)]
pub(super) struct WeightCache<P> {
    entries: HashMap<u64, Entry<P>>,
    /// Bytes of all entries.
    bytes: usize,
    /// Number of look-ups so far.
    clock: u64,
}

impl<P: Default> WeightCache<P> {
    /// Returns an operation's packed weights of `bytes` bytes. `pack` makes them if they are not in the cache, in the memory of
    /// older ones. `None` if they cannot be cached.
    pub(super) fn packed(&mut self, key: Key, bytes: usize, pack: impl FnOnce(&mut P)) -> Option<&mut P> {
        self.clock += 1;
        let clock = self.clock;
        let address = key.surface.address;
        if self.entries.get(&address).is_none_or(|entry| entry.key != key) {
            let mut packed = self.place(address, bytes)?;
            pack(&mut packed);
            self.bytes += bytes;
            self.entries.insert(address, Entry { key, packed, bytes, used: clock });
        }
        let entry = self.entries.get_mut(&address)?;
        entry.used = clock;
        Some(&mut entry.packed)
    }

    /// Returns a place for new weights. Reuses the memory of old ones at the same address.
    fn place(&mut self, address: u64, bytes: usize) -> Option<P> {
        let old = self.entries.remove(&address);
        self.bytes -= old.as_ref().map_or(0, |entry| entry.bytes);
        if self.bytes + bytes > CAPACITY {
            let Self { clock, bytes: all, .. } = self;
            self.entries.retain(|_, entry| {
                let stays = entry.used + MAX_IDLE > *clock;
                *all -= if stays { 0 } else { entry.bytes };
                stays
            });
        }
        let fits = self.bytes + bytes <= CAPACITY;
        // Memory that is larger than `bytes` would not be counted.
        let old = old.filter(|entry| entry.bytes <= bytes).map(|entry| entry.packed);
        fits.then(|| old.unwrap_or_default())
    }
}

/// The panels of an int8 operation.
#[derive(Debug, Default)]
pub(super) struct IntPanels {
    panels: Aligned,
    starts: Aligned,
}

/// An operation's panels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panels<'k, W, const N: usize> {
    /// The panels, one after another.
    pub weights: &'k [W],
    /// The initial sums of each panel.
    pub starts: &'k [[i32; N]],
}

impl WeightCache<IntPanels> {
    /// Returns the operation's panels. Packs them with several threads if they are not in the cache. `None` if they
    /// cannot be cached.
    ///
    /// # Safety
    /// The machine has the instructions of `K`, which are those of `isa`.
    pub(super) unsafe fn panels<K: Kernel<N>, const N: usize>(
        &mut self,
        isa: Isa,
        operation: &Operation,
        shape: &Shape,
        (weights, version): (&[u8], Option<u64>),
        threads: usize,
    ) -> Option<Panels<'_, K::Weight, N>> {
        let key = Key::new(isa, operation, version?);
        let (count, step) = parts::panels::<N>(operation);
        let length = shape.depth() * N;
        let (weights_of, starts_of) = (count * length, count * N);
        let bytes = weights_of * size_of::<K::Weight>() + starts_of * size_of::<i32>();
        let IntPanels { panels, starts } = self.packed(key, bytes, |IntPanels { panels, starts }| {
            let all = panels.get::<K::Weight>(weights_of).chunks_exact_mut(length);
            let all = all.zip(starts.get::<i32>(starts_of).as_chunks_mut::<N>().0).enumerate();
            let pack = |(number, (panel, start)): (usize, (&mut [K::Weight], &mut [i32; N]))| {
                // SAFETY: the caller has the instructions.
                unsafe { K::pack(operation, shape, weights, number * step, panel, start) };
            };
            share::share(threads, all, || (), |(), panel| pack(panel));
        })?;
        let weights = &*panels.get::<K::Weight>(weights_of);
        Some(Panels { weights, starts: starts.get::<i32>(starts_of).as_chunks::<N>().0 })
    }
}

impl<W: Weight, const N: usize> Panels<'_, W, N> {
    /// Returns `count` panels from number `first` on.
    pub(super) fn from(&self, first: usize, count: usize) -> Self {
        let length = self.weights.len() / self.starts.len();
        Self {
            weights: &self.weights[first * length..(first + count) * length],
            starts: &self.starts[first..first + count],
        }
    }
}

#[cfg(test)]
mod tests {
    use nvdla_uapi::config::NV_FULL;
    use nvdla_uapi::reg::values::Precision;

    use super::super::portable::Portable;
    use super::*;
    use crate::support::program::Program;

    const N: usize = 16;

    /// A convolution of 40 kernels with weights at `weights`.
    fn operation(weights: u64) -> Operation {
        let input = Size { width: 3, height: 3, channels: 20 };
        let program = Program { weights, ..Program::feature(&NV_FULL, Precision::Int8, input, 3, 40) };
        Operation::new(&NV_FULL, &program.registers().unwrap().blocks()).unwrap()
    }

    fn panels(
        cache: &mut WeightCache<IntPanels>,
        operation: &Operation,
        weights: &[u8],
        version: Option<u64>,
    ) -> Option<Vec<i16>> {
        let shape = Shape::new(operation, <Portable as Kernel<N>>::GROUP, Vec::new());
        // SAFETY: every machine has the instructions.
        let panels = unsafe { cache.panels::<Portable, N>(Isa::Portable, operation, &shape, (weights, version), 2) }?;
        assert_eq!(panels.weights.len() / panels.starts.len(), shape.depth() * N);
        let one = panels.from(1, 1);
        assert_eq!(one.weights, &panels.weights[shape.depth() * N..][..shape.depth() * N]);
        Some(panels.weights.to_vec())
    }

    #[test]
    fn weights_are_packed_once_per_address_and_version() {
        let here = operation(0);
        let bytes = here.kernel_bytes() * here.kernels;
        let [ones, twos] = [1, 2].map(|weight| vec![weight; bytes]);
        let mut cache = WeightCache::default();
        assert!(panels(&mut cache, &here, &ones, None).is_none());
        let first = panels(&mut cache, &here, &ones, Some(1)).unwrap();
        let held = cache.bytes;
        assert_eq!(first.iter().map(|&weight| weight as usize).sum::<usize>(), bytes);
        assert_eq!(
            panels(&mut cache, &here, &twos, Some(1)).unwrap(),
            first,
            "the version says that they are the same"
        );
        let second = panels(&mut cache, &here, &twos, Some(2)).unwrap();
        assert!(second.iter().eq(first.iter().map(|weight| weight * 2).collect::<Vec<_>>().iter()));
        assert_eq!(cache.bytes, held);
        assert_eq!(panels(&mut cache, &operation(1 << 20), &ones, Some(2)).unwrap(), first, "another address");
        assert_eq!(panels(&mut cache, &here, &ones, Some(2)).unwrap(), second);
        assert_eq!(cache.bytes, 2 * held);
    }

    #[test]
    fn old_panels_are_replaced_and_too_large_ones_are_not_cached() {
        let mut cache = WeightCache::default();
        let here = operation(0);
        panels(&mut cache, &here, &vec![1; here.kernel_bytes() * here.kernels], Some(1)).unwrap();
        assert!(cache.place(1, CAPACITY).is_none(), "the other is in use");
        cache.clock += MAX_IDLE;
        assert!(cache.place(1, CAPACITY).is_some());
        assert_eq!((cache.entries.len(), cache.bytes), (0, 0));
        assert!(cache.place(1, CAPACITY + 1).is_none());
    }
}
