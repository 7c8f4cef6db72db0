// SPDX-License-Identifier: GPL-2.0-only

//! NVDLA in a system on a chip: found through the device tree.

use kernel::{
    device::{
        Bound,
        Core, //
    },
    dma::{
        Device as _,
        DmaMask, //
    },
    of,
    platform,
    prelude::*, //
};

use super::{
    accelerator::Found,
    driver,
    uapi::config::{
        self,
        Config, //
    },
    window::Window, //
};

/// The platform driver.
pub(crate) struct Driver;

/// A bound platform device.
pub(crate) struct Data<'bound> {
    device: driver::Device<'bound>,
}

kernel::of_device_table!(
    TABLE,
    <Driver as platform::Driver>::IdInfo,
    [
        (of::DeviceId::new(c"nvidia,nvdla_os_initial"), &config::NV_FULL),
        (of::DeviceId::new(c"nvidia,nv_full"), &config::NV_FULL),
        (of::DeviceId::new(c"nvidia,nv_large"), &config::NV_LARGE),
        (of::DeviceId::new(c"nvidia,nv_medium_1024_full"), &config::NV_MEDIUM_1024_FULL),
        (of::DeviceId::new(c"nvidia,nv_medium_512"), &config::NV_MEDIUM_512),
        (of::DeviceId::new(c"nvidia,nv_small_256_full"), &config::NV_SMALL_256_FULL),
        (of::DeviceId::new(c"nvidia,nv_small_256"), &config::NV_SMALL_256),
        (of::DeviceId::new(c"nvidia,nv_small"), &config::NV_SMALL),
    ]
);

impl platform::Driver for Driver {
    type IdInfo = &'static Config;
    type Data<'bound> = Data<'bound>;
    const OF_ID_TABLE: Option<of::IdTable<Self::IdInfo>> = Some(&TABLE);

    fn probe<'bound>(
        pdev: &'bound platform::Device<Core<'_>>,
        info: Option<&'bound Self::IdInfo>,
    ) -> impl PinInit<Self::Data<'bound>, Error> + 'bound {
        // SAFETY: Nothing has been mapped for DMA before.
        unsafe { pdev.dma_set_mask_and_coherent(DmaMask::new::<64>())? };
        let bound: &'bound platform::Device<Bound> = pdev;
        let request = bound.io_request_by_index(0).ok_or(ENODEV)?;
        let window = Window::Platform(request.iomap()?.into_devres()?);
        let irq = bound.irq_by_index(0)?;
        let found = Found { window, config: info.copied(), model: false };
        let device = driver::probe(bound.as_ref(), found, irq)?;
        Ok(Data { device })
    }

    fn unbind<'bound>(dev: &'bound platform::Device<Core<'_>>, data: Pin<&Self::Data<'bound>>) {
        data.device.unbind(dev.as_ref());
    }
}
