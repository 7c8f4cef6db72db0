// SPDX-License-Identifier: GPL-2.0-only

//! NVDLA behind PCI: FPGA cards and virtual machines. BAR 0 is the register window.

use kernel::{
    device::{
        Bound,
        Core, //
    },
    dma::{
        Device as _,
        DmaMask, //
    },
    pci,
    prelude::*, //
};

use super::{
    accelerator::Found,
    driver,
    uapi::queue::PCI_SUBSYSTEM_MODEL,
    window::Window, //
};

/// The device number that virtual platforms and FPGA bridges use for NVDLA.
const DEVICE: u32 = 0x4e56;

/// The PCI driver.
pub(crate) struct Driver;

/// A bound PCI device. Dropped in order: the device before the vectors that its handler uses.
pub(crate) struct Data<'bound> {
    device: driver::Device<'bound>,
    _vectors: KBox<pci::IrqVectorRegistration<'bound>>,
}

kernel::pci_device_table!(
    TABLE,
    <Driver as pci::Driver>::IdInfo,
    [(pci::DeviceId::from_id(pci::Vendor::NVIDIA, DEVICE), ())]
);

impl pci::Driver for Driver {
    type IdInfo = ();
    type Data<'bound> = Data<'bound>;
    const ID_TABLE: pci::IdTable<Self::IdInfo> = &TABLE;

    fn probe<'bound>(
        pdev: &'bound pci::Device<Core<'_>>,
        _info: Option<&'bound Self::IdInfo>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound {
        pdev.enable_device_mem()?;
        // Bus mastering is enabled once the device is known to be idle.
        // SAFETY: Nothing has been mapped for DMA before.
        unsafe { pdev.dma_set_mask_and_coherent(DmaMask::new::<64>())? };

        let bound: &'bound pci::Device<Bound> = pdev;
        let window = Window::Pci(bound.iomap_region(0, c"nvdla")?.into_devres()?);
        let vectors = KBox::new(bound.alloc_irq_vectors(1, 1, pci::IrqTypes::all())?, GFP_KERNEL)?;
        // SAFETY: The box lives in the device's data behind the handler that borrows it, and its content does not move.
        let borrowed: &'bound pci::IrqVectorRegistration<'bound> = unsafe { &*core::ptr::from_ref(&*vectors) };
        let found = Found { window, config: None, model: pdev.subsystem_device_id() == PCI_SUBSYSTEM_MODEL };
        let device = driver::probe(bound.as_ref(), found, borrowed.index(0)?.into())?;
        Ok(Data { device, _vectors: vectors })
    }

    fn unbind<'bound>(dev: &'bound pci::Device<Core<'_>>, data: Pin<&Self::Data<'bound>>) {
        data.device.unbind(dev.as_ref());
    }
}
