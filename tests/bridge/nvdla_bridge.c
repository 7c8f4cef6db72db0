// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes a platform device of an NVDLA on PCI, so that the platform driver's probe runs on a machine without a device tree:
 * the registers are BAR 0, the SRAM is BAR 4 if there is one, the interrupt is the PCI function's. It is inserted before nvdla.ko, which then finds no PCI
 * device that is free, and a platform device of its name.
 *
 * The SRAM begins in the middle of a page, as an SRAM that is aligned to 4 KiB does on a kernel with larger pages. The driver must use
 * the whole pages inside, at their own addresses.
 */

#include <linux/dma-mapping.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/platform_device.h>

/* Bytes between the beginning of BAR 4 and that of the SRAM. */
#define BRIDGE_SKIP (PAGE_SIZE / 2)

static int bridge_probe(struct pci_dev *pci, const struct pci_device_id *id)
{
	struct platform_device_info info = {
		.parent = &pci->dev,
		.name = "nvdla",
		.id = PLATFORM_DEVID_AUTO,
		.dma_mask = DMA_BIT_MASK(64),
	};
	struct resource resources[3] = {};
	struct platform_device *device;
	int ret;

	ret = pcim_enable_device(pci);
	if (ret)
		return ret;
	pci_set_master(pci);
	ret = dma_set_mask_and_coherent(&pci->dev, DMA_BIT_MASK(64));
	if (ret)
		return ret;
	ret = pci_alloc_irq_vectors(pci, 1, 1, PCI_IRQ_ALL_TYPES);
	if (ret < 0)
		return ret;
	resources[0] = DEFINE_RES_MEM(pci_resource_start(pci, 0), pci_resource_len(pci, 0));
	resources[1] = DEFINE_RES_IRQ(pci_irq_vector(pci, 0));
	info.res = resources;
	info.num_res = 2;
	if (pci_resource_len(pci, 4)) {
		resources[2] = DEFINE_RES_MEM_NAMED(pci_resource_start(pci, 4) + BRIDGE_SKIP,
						    pci_resource_len(pci, 4) - BRIDGE_SKIP, "sram");
		info.num_res = 3;
	}
	device = platform_device_register_full(&info);
	if (IS_ERR(device)) {
		pci_free_irq_vectors(pci);
		return PTR_ERR(device);
	}
	pci_set_drvdata(pci, device);
	return 0;
}

static void bridge_remove(struct pci_dev *pci)
{
	platform_device_unregister(pci_get_drvdata(pci));
	pci_free_irq_vectors(pci);
}

static const struct pci_device_id bridge_ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_NVIDIA, 0x4e56) },
	{ }
};
MODULE_DEVICE_TABLE(pci, bridge_ids);

static struct pci_driver bridge_driver = {
	.name = "nvdla_bridge",
	.id_table = bridge_ids,
	.probe = bridge_probe,
	.remove = bridge_remove,
};
module_pci_driver(bridge_driver);

MODULE_DESCRIPTION("Test bridge: a platform device of an NVDLA on PCI");
MODULE_AUTHOR("The NVDLA driver stack's authors");
MODULE_LICENSE("GPL");
