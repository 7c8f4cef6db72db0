// SPDX-License-Identifier: GPL-2.0-only

//! The DRM driver, and the probe that both buses share.

use kernel::{
    bindings,
    device::{
        self,
        Bound,
        DeviceContext, //
    },
    drm,
    irq,
    prelude::*,
    sync::Arc, //
};

use super::{
    accelerator::{
        Accelerator,
        Found, //
    },
    client::Client,
    ffi::{
        self,
        Power, //
    },
    gem,
    ioctl, //
};

/// The DRM driver, the same for every bus.
pub(crate) struct Driver;

/// The parent of a DRM device: a PCI or a platform device, of which only the generic device is used here.
#[repr(transparent)]
pub(crate) struct Parent<Ctx: DeviceContext>(device::Device<Ctx>);

impl<Ctx: DeviceContext> Parent<Ctx> {
    fn new(dev: &device::Device<Ctx>) -> &Self {
        // SAFETY: `Parent` is a transparent wrapper.
        unsafe { &*core::ptr::from_ref(dev).cast() }
    }
}

impl<Ctx: DeviceContext> AsRef<device::Device<Ctx>> for Parent<Ctx> {
    fn as_ref(&self) -> &device::Device<Ctx> {
        &self.0
    }
}

// SAFETY: The generic device is at offset 0 of itself.
unsafe impl<Ctx: DeviceContext> device::AsBusDevice<Ctx> for Parent<Ctx> {
    const OFFSET: usize = 0;
}

/// The data of a registered device.
#[pin_data]
pub(crate) struct Registered<'a> {
    #[pin]
    irq: irq::ThreadedRegistration<'a, Handler>,
    pub(crate) accelerator: Arc<Accelerator>,
}

/// The accelerator; stops when dropped.
struct Stop(Arc<Accelerator>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// The interrupt handler. Its first part reads and clears the device's status, which releases the line, so that the
/// line may be shared with handlers of any kind. The thread handles the completions.
pub(crate) struct Handler(Arc<Accelerator>);

impl irq::ThreadedHandler for Handler {
    fn handle(&self) -> irq::ThreadedIrqReturn {
        if self.0.take_interrupt() {
            irq::ThreadedIrqReturn::WakeThread
        } else {
            irq::ThreadedIrqReturn::None
        }
    }

    fn handle_threaded(&self) -> irq::IrqReturn {
        self.0.interrupt();
        irq::IrqReturn::Handled
    }
}

#[vtable]
impl drm::Driver for Driver {
    type Data = Arc<Accelerator>;
    type RegistrationData<'a> = Registered<'a>;
    type File = Client;
    type Object = gem::Object;
    type ParentDevice<Ctx: DeviceContext> = Parent<Ctx>;

    const INFO: drm::DriverInfo =
        drm::DriverInfo { major: 1, minor: 0, patchlevel: 0, name: c"nvdla", desc: c"NVDLA deep learning accelerator" };
    const FEAT_RENDER: bool = true;
    const IOCTLS: &'static [drm::ioctl::DrmIoctlDescriptor] = ioctl::TABLE;
}

/// The C device of a DRM device.
pub(crate) fn drm_raw<C: drm::DeviceContext>(dev: &drm::Device<Driver, C>) -> *mut bindings::drm_device {
    // The kernel crate's device is `repr(C)` and starts with the C device.
    core::ptr::from_ref(dev).cast_mut().cast()
}

/// A bound device. Fields are dropped in order: the accelerator stops first, because removing the registration waits for every
/// ioctl, and some ioctls wait for a task. After a probe that fails this is the only stop.
pub(crate) struct Device<'bound> {
    accelerator: Stop,
    _registration: drm::Registration<'bound, Driver>,
}

impl Device<'_> {
    /// The device is about to be unbound. It stops here, while it has its power, its IOMMU domain and its clocks, and not when this
    /// value is dropped, which is after the bus has cleaned up.
    pub(crate) fn unbind<C: DeviceContext>(&self, dev: &device::Device<C>) {
        ffi::wake(dev);
        self.accelerator.0.stop();
        ffi::unmanage(dev);
    }
}

/// Probes a device of any bus.
pub(crate) fn probe<'bound>(
    dev: &'bound device::Device<Bound>,
    found: Found,
    irq: irq::IrqRequest<'bound>,
) -> Result<Device<'bound>> {
    let power = Power::start(dev)?;
    let accelerator = Accelerator::new(dev, found, power)?;
    let stop = Stop(accelerator.clone());
    let config = accelerator.config();
    dev_info!(dev, "{}, hardware version {:#x}\n", config.name, accelerator.hardware_version());

    let data = accelerator.clone();
    let drm = drm::UnregisteredDevice::<Driver>::new(Parent::new(dev), Ok(data))?;
    // SAFETY: The device is not registered yet, so no other thread uses its tables.
    unsafe { ffi::nvdla_drm_extend(drm_raw(&*drm)) };

    let handler = Handler(accelerator.clone());
    let registered = try_pin_init!(Registered {
        // SAFETY: The registration is part of the registration data, which is dropped and never forgotten.
        irq <- unsafe {
            irq::ThreadedRegistration::new(
                irq,
                irq::Flags::SHARED,
                c"nvdla",
                Ok::<_, Error>(handler),
            )
        },
        accelerator,
    }? Error);
    // SAFETY: Kept in the bus device's data, never forgotten.
    let registration = unsafe { drm::Registration::new(dev, drm, registered, 0)? };
    stop.0.manage();
    Ok(Device { accelerator: stop, _registration: registration })
}
