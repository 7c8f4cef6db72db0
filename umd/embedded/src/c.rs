// SPDX-License-Identifier: MIT OR Apache-2.0

//! The functions for C, as `include/nvdla_embedded.h` declares them.

use core::ffi::{c_char, c_int, c_void};
use core::fmt::{self, Write};
use core::mem::{align_of, size_of, MaybeUninit};
use core::slice;
use core::time::Duration;

use nvdla_engine::{Hardware, Slot};

use super::board::Board;
use super::device::Device;
use super::error::Error;
use super::network::{Network, Requirements};
use super::tensor::{Element, Tensor};

/// `struct nvdla_board`: the board's functions, each called with `context`. Those that may be absent have a default.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct CBoard {
    context: *mut c_void,
    read: extern "C" fn(*mut c_void, u32) -> u32,
    write: extern "C" fn(*mut c_void, u32, u32),
    now: extern "C" fn(*mut c_void) -> u64,
    wait: Option<extern "C" fn(*mut c_void)>,
    clean: Option<extern "C" fn(*mut c_void, *const c_void, usize)>,
    invalidate: Option<extern "C" fn(*mut c_void, *const c_void, usize)>,
    reset: Option<extern "C" fn(*mut c_void) -> bool>,
}

impl Hardware for CBoard {
    fn read(&mut self, offset: u32) -> u32 {
        (self.read)(self.context, offset)
    }

    fn write(&mut self, offset: u32, value: u32) {
        (self.write)(self.context, offset, value);
    }
}

impl Board for CBoard {
    fn now(&mut self) -> u64 {
        (self.now)(self.context)
    }

    fn wait(&mut self) {
        if let Some(wait) = self.wait {
            wait(self.context);
        }
    }

    fn clean(&mut self, address: *const u8, bytes: usize) {
        if let Some(clean) = self.clean {
            clean(self.context, address.cast(), bytes);
        }
    }

    fn invalidate(&mut self, address: *const u8, bytes: usize) {
        if let Some(invalidate) = self.invalidate {
            invalidate(self.context, address.cast(), bytes);
        }
    }

    fn reset(&mut self) -> bool {
        self.reset.is_some_and(|reset| reset(self.context))
    }
}

/// The device of a C program.
type CDevice = Device<'static, CBoard>;
/// The network of a C program.
type CNetwork = Network<'static>;

/// `struct nvdla_device` and `struct nvdla_network`: memory for the values of Rust, whose sizes the header must not fall short of.
const DEVICE_BYTES: usize = 5248;
const NETWORK_BYTES: usize = 1824;

const _: () = assert!(size_of::<CDevice>() <= DEVICE_BYTES && align_of::<CDevice>() <= 8);
const _: () = assert!(size_of::<CNetwork>() <= NETWORK_BYTES && align_of::<CNetwork>() <= 8);

/// `struct nvdla_needs`.
#[repr(C)]
pub struct CNeeds {
    arena: u64,
    alignment: u64,
    work: usize,
}

/// `struct nvdla_tensor`.
#[repr(C)]
pub struct CTensor {
    data: *mut c_void,
    size: usize,
    batch: u32,
    channels: u32,
    lines: u32,
    columns: u32,
    element: u32,
}

/// The text of an error, cut where the caller's memory ends.
struct Text<'a> {
    bytes: &'a mut [u8],
    used: usize,
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // One byte is kept for the zero.
        let room = self.bytes.len().saturating_sub(self.used + 1);
        let mut length = text.len().min(room);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        self.bytes[self.used..self.used + length].copy_from_slice(&text.as_bytes()[..length]);
        self.used += length;
        Ok(())
    }
}

/// The number of an error, and its text in the caller's memory. The text is empty without the feature `messages`: a program for a
/// small memory leaves out the texts, the names of registers in them, and what writes both.
///
/// # Safety
///
/// `message` is null or has `size` bytes.
unsafe fn fail(error: &Error, message: *mut c_char, size: usize) -> c_int {
    if !message.is_null() && size > 0 {
        // SAFETY: the caller says that the memory has `size` bytes.
        let bytes = unsafe { slice::from_raw_parts_mut(message.cast::<u8>(), size) };
        bytes.fill(0);
        if cfg!(feature = "messages") {
            let _ = write!(Text { bytes, used: 0 }, "{error}");
        }
    }
    match error {
        Error::NotALoadable | Error::Format { .. } | Error::Entry { .. } => -1,
        Error::Descriptors { .. } | Error::Tasks { .. } => -2,
        Error::Arena { .. } | Error::Alignment { .. } | Error::Slots { .. } => -3,
        Error::Refused { .. } | Error::Emulated { .. } | Error::NotTaken { .. } | Error::Statistics { .. } => -4,
        Error::TimedOut { .. } => -5,
        Error::NoDevice => -6,
        Error::Busy => -7,
    }
}

/// Takes over the device of a board.
///
/// # Safety
///
/// `device` is memory of `struct nvdla_device`, `board` is a board whose functions may be called as long as the device is used, and
/// `message` is null or has `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn nvdla_embedded_open(
    device: *mut MaybeUninit<CDevice>,
    board: *const CBoard,
    message: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller gives a board, and memory of the size that the assertion above compares.
    match unsafe { Device::open_in(&mut *device, *board) } {
        Ok(_) => 0,
        // SAFETY: the caller gives such a message.
        Err(error) => unsafe { fail(&error, message, size) },
    }
}

/// The name of a device's configuration, and its length in bytes.
///
/// # Safety
///
/// `device` was opened.
#[no_mangle]
pub unsafe extern "C" fn nvdla_embedded_config(device: *const CDevice, length: *mut usize) -> *const c_char {
    // SAFETY: the caller gives an opened device and a place for the length.
    let name = unsafe { (*device).config().name };
    // SAFETY: as above.
    unsafe { *length = name.len() };
    name.as_ptr().cast()
}

/// What a loadable needs on a device.
///
/// # Safety
///
/// `device` was opened, `loadable` has `bytes` bytes, `needs` is memory for the answer, and `message` is null or has `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn nvdla_embedded_needs(
    device: *const CDevice,
    loadable: *const u8,
    bytes: usize,
    needs: *mut CNeeds,
    message: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller gives these bytes and an opened device.
    let (loadable, config) = unsafe { (slice::from_raw_parts(loadable, bytes), (*device).config()) };
    match Requirements::of(loadable, config) {
        Ok(Requirements { arena, alignment, slots }) => {
            // SAFETY: the caller gives memory for the answer.
            unsafe { needs.write(CNeeds { arena, alignment, work: slots * size_of::<Slot>() }) };
            0
        }
        // SAFETY: the caller gives such a message.
        Err(error) => unsafe { fail(&error, message, size) },
    }
}

/// `struct nvdla_memory`: what a network is loaded from and into.
#[repr(C)]
pub struct CMemory {
    loadable: *const u8,
    loadable_bytes: usize,
    arena: *mut u8,
    arena_bytes: usize,
    address: u64,
    work: *mut c_void,
    work_bytes: usize,
}

/// Loads a network for a device.
///
/// # Safety
///
/// `network` is memory of `struct nvdla_network`; `device` was opened; the pointers of `memory` have as many bytes as follow them,
/// belong to the network from now on, and `work` is aligned to 8 bytes; the device sees the whole arena at `address`; and `message`
/// is null or has `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn nvdla_embedded_load(
    network: *mut MaybeUninit<CNetwork>,
    device: *const CDevice,
    memory: *const CMemory,
    message: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller gives these bytes, and nobody else uses them from now on.
    let (loadable, arena, slots, address, config) = unsafe {
        let memory = &*memory;
        let slots =
            slice::from_raw_parts_mut(memory.work.cast::<MaybeUninit<Slot>>(), memory.work_bytes / size_of::<Slot>());
        for slot in slots.iter_mut() {
            slot.write(Slot::default());
        }
        (
            slice::from_raw_parts(memory.loadable, memory.loadable_bytes),
            slice::from_raw_parts_mut(memory.arena, memory.arena_bytes),
            // Each has just been written.
            slice::from_raw_parts_mut(slots.as_mut_ptr().cast::<Slot>(), slots.len()),
            memory.address,
            (*device).config(),
        )
    };
    // SAFETY: the caller says that the device sees the arena at that address.
    match unsafe { Network::load(loadable, config, arena, address, slots) } {
        Ok(loaded) => {
            // SAFETY: the caller gives memory of the size that the assertion above compares.
            unsafe { (*network).write(loaded) };
            0
        }
        // SAFETY: the caller gives such a message.
        Err(error) => unsafe { fail(&error, message, size) },
    }
}

/// The tensor of a network for a C program.
fn c_tensor(network: &mut CNetwork, tensor: &Tensor<'static>) -> CTensor {
    let [batch, channels, lines, columns] = tensor.shape();
    let bytes = network.bytes_mut(tensor);
    let element = match tensor.element() {
        Element::Int8 => 0,
        Element::Uint8 => 1,
        Element::Int16 => 2,
        Element::Uint16 => 3,
        Element::Half => 4,
    };
    CTensor { data: bytes.as_mut_ptr().cast(), size: bytes.len(), batch, channels, lines, columns, element }
}

/// The input or output at a position; false if there is none.
///
/// # Safety
///
/// `network` was loaded, and `tensor` is memory for the answer.
#[no_mangle]
pub unsafe extern "C" fn nvdla_embedded_tensor(
    network: *mut CNetwork,
    is_output: bool,
    position: usize,
    tensor: *mut CTensor,
) -> bool {
    // SAFETY: the caller gives a loaded network.
    let network = unsafe { &mut *network };
    let found = if is_output { network.output(position) } else { network.input(position) };
    let Some(found) = found else { return false };
    let answer = c_tensor(network, &found);
    // SAFETY: the caller gives memory for the answer.
    unsafe { tensor.write(answer) };
    true
}

/// The offset of an element in the bytes of an input or output; `SIZE_MAX` outside its shape.
///
/// # Safety
///
/// `network` was loaded, and `place` has four numbers: batch, channel, line and column.
#[no_mangle]
pub unsafe extern "C" fn nvdla_embedded_offset(
    network: *const CNetwork,
    is_output: bool,
    position: usize,
    place: *const [u32; 4],
) -> usize {
    // SAFETY: the caller gives a loaded network and four numbers.
    let (network, place) = unsafe { (&*network, *place) };
    let found = if is_output { network.output(position) } else { network.input(position) };
    found.and_then(|tensor| tensor.offset(place)).unwrap_or(usize::MAX)
}

/// Runs a network within that number of milliseconds.
///
/// # Safety
///
/// `device` was opened, `network` was loaded for it, and `message` is null or has `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn nvdla_embedded_run(
    device: *mut CDevice,
    network: *mut CNetwork,
    milliseconds: u32,
    message: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller gives an opened device and a loaded network.
    let (device, network) = unsafe { (&mut *device, &mut *network) };
    match device.run(network, Duration::from_millis(milliseconds.into())) {
        Ok(()) => 0,
        // SAFETY: the caller gives such a message.
        Err(error) => unsafe { fail(&error, message, size) },
    }
}
