// SPDX-License-Identifier: MIT OR Apache-2.0

//! How much memory a small picture file can make the decoder take.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use nvdla_runtime::image::Picture;

/// Bytes that are allocated now, and the most so far.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bits of a deflate stream.
#[derive(Default)]
struct Bits(Vec<u8>, usize);

impl Bits {
    /// Appends the bits of a text, the first one first.
    fn add(&mut self, bits: &str) {
        for bit in bits.bytes() {
            if self.1.is_multiple_of(8) {
                self.0.push(0);
            }
            let at = self.0.len() - 1;
            self.0[at] |= (bit - b'0') << (self.1 % 8);
            self.1 += 1;
        }
    }
}

/// A zlib stream of 1 + 258 * `runs` zeros, in RFC 1951's fixed codes: 13 bits per 258 zeros.
fn zeros(runs: usize) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.add("110");
    bits.add("00110000");
    for _ in 0..runs {
        bits.add("1100010100000");
    }
    bits.add("0000000");
    let count = 1 + 258 * runs;
    let sum = ((count % 65521) << 16 | 1) as u32;
    [&[0x78, 0x9c], &bits.0[..], &sum.to_be_bytes()].concat()
}

fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32, &byte: &u8| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    };
    !bytes.iter().fold(u32::MAX, step)
}

fn chunk(kind: [u8; 4], data: &[u8]) -> Vec<u8> {
    let named = [&kind[..], data].concat();
    [&(data.len() as u32).to_be_bytes()[..], &named, &crc(&named).to_be_bytes()].concat()
}

#[test]
fn a_colour_profile_takes_little_memory() {
    let profile = |runs| [b"profile\0\0", &zeros(runs)[..]].concat();
    let picture = |runs| {
        // 2 x 129 grey pixels of 8 bits: 2 * (1 + 128) = 258 bytes of lines and filters, and one more that the stream begins with.
        let header = [0, 0, 0, 128, 0, 0, 0, 2, 8, 0, 0, 0, 0];
        let parts = [
            chunk(*b"IHDR", &header),
            chunk(*b"iCCP", &profile(runs)),
            chunk(*b"IDAT", &zeros(1)),
            chunk(*b"IEND", &[]),
        ];
        [&b"\x89PNG\r\n\x1a\n"[..], &parts.concat()].concat()
    };
    assert_eq!(Picture::decode(&picture(1)).unwrap().samples(), [0; 256]);
    // 1 MB that become 160 MB.
    let bomb = picture(650_000);
    assert!(bomb.len() < 1_100_000);
    MOST.store(NOW.load(Ordering::Relaxed), Ordering::Relaxed);
    let before = NOW.load(Ordering::Relaxed);
    assert_eq!(Picture::decode(&bomb).unwrap().samples(), [0; 256]);
    let most = MOST.load(Ordering::Relaxed) - before;
    assert!(most < 64 << 20, "{most} bytes");
}
