// SPDX-License-Identifier: GPL-2.0-only
/*
 * The SRAM behind the device's secondary memory interface: a range of the bus that all clients
 * share. A PCI device has it behind a BAR, and a device tree names it "sram". Buffers in it are
 * cleared, mapped write-combined, and given back.
 *
 * Without its driver the device may lose the SRAM's contents. Therefore the device stays active
 * while there is a buffer in it, and the contents are saved while the machine sleeps.
 */

#include <linux/device.h>
#include <linux/io.h>
#include <linux/kref.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <drm/drm_device.h>
#include <drm/drm_gem.h>
#include <drm/drm_mm.h>

#include "helpers.h"

/*
 * The BAR of a PCI device's SRAM. BAR 0 is the register window, and tests of a virtual device use
 * BAR 2.
 */
#define NVDLA_SRAM_BAR 4

/* Buffers hold a reference, because they may outlive the binding. */
struct nvdla_sram {
	struct kref references;
	struct device *dev;
	phys_addr_t start;	/* address for the processor */
	u64 base;		/* address for the device */
	u64 size;
	void __iomem *vaddr;
	struct mutex lock;	/* protects what follows, and the mapping of pages */
	struct drm_mm mm;	/* bytes from the SRAM's start */
	u64 used;
	bool gone;		/* the device is not bound any more */
	void *saved;		/* the contents while the machine sleeps */
};

/* A buffer's part of the SRAM. */
struct nvdla_block {
	struct nvdla_sram *sram;
	struct drm_mm_node node;
	struct page *substitute;	/* mapped instead once the device is not bound any more */
};

static void nvdla_sram_free(struct kref *references)
{
	struct nvdla_sram *sram = container_of(references, struct nvdla_sram, references);

	drm_mm_takedown(&sram->mm);
	iounmap(sram->vaddr);
	mutex_destroy(&sram->lock);
	put_device(sram->dev);
	kfree(sram);
}

static void nvdla_sram_release(struct device *dev, void *resource)
{
	struct nvdla_sram *sram = *(struct nvdla_sram **)resource;

	scoped_guard(mutex, &sram->lock)
		sram->gone = true;
	kref_put(&sram->references, nvdla_sram_free);
}

/* The SRAM of a bound device, or NULL. */
static struct nvdla_sram *nvdla_sram_of(struct device *dev)
{
	struct nvdla_sram **resource = devres_find(dev, nvdla_sram_release, NULL, NULL);

	return resource ? *resource : NULL;
}

/* The range of the device's SRAM, or NULL, and the device's address of the first byte. */
static struct resource *nvdla_sram_range(struct device *dev, u64 *base)
{
	struct resource *range;

	if (dev_is_pci(dev)) {
		struct pci_dev *pdev = to_pci_dev(dev);

		range = pci_resource_n(pdev, NVDLA_SRAM_BAR);
		if (!(range->flags & IORESOURCE_MEM) || range->flags & IORESOURCE_UNSET ||
		    !pci_resource_len(pdev, NVDLA_SRAM_BAR))
			return NULL;
		*base = 0;
		return range;
	}
	range = platform_get_resource_byname(to_platform_device(dev), IORESOURCE_MEM, "sram");
	if (range)
		*base = range->start;
	return range;
}

/*
 * Makes the SRAM of a device that has a secondary memory interface available, if there is one.
 * `bits` is the number of the device's address bits.
 */
int nvdla_sram_start(struct device *dev, u32 bits)
{
	struct nvdla_sram *sram, **resource;
	struct resource *range;
	u64 base, size, skipped;

	range = nvdla_sram_range(dev, &base);
	if (!range)
		return 0;
	/* A kernel with large pages uses the whole pages that lie inside. */
	size = resource_size(range);
	skipped = PAGE_ALIGN(range->start) - range->start;
	if (size < skipped + PAGE_SIZE) {
		dev_warn(dev, "sram: %pR has no whole page\n", range);
		return 0;
	}
	size = (size - skipped) & PAGE_MASK;
	base += skipped;
	if (bits < 64 && (base + size - 1) >> bits)
		return dev_err_probe(dev, -EINVAL,
				     "sram: %pR is beyond the device's %u address bits\n", range,
				     bits);
	if (!devm_request_mem_region(dev, range->start, resource_size(range), "nvdla sram"))
		return dev_err_probe(dev, -EBUSY, "sram: %pR is in use\n", range);

	resource = devres_alloc(nvdla_sram_release, sizeof(*resource), GFP_KERNEL);
	sram = kzalloc_obj(*sram);
	if (!resource || !sram)
		goto no_memory;
	sram->vaddr = ioremap_wc(range->start + skipped, size);
	if (!sram->vaddr)
		goto no_memory;
	kref_init(&sram->references);
	sram->dev = get_device(dev);
	sram->start = range->start + skipped;
	sram->base = base;
	sram->size = size;
	mutex_init(&sram->lock);
	drm_mm_init(&sram->mm, 0, size);
	*resource = sram;
	devres_add(dev, resource);
	dev_info(dev, "%llu KiB of SRAM\n", size >> 10);
	return 0;

no_memory:
	kfree(sram);
	devres_free(resource);
	return -ENOMEM;
}

/*
 * The device is about to be unbound. From now on no page of the SRAM is mapped, because the next
 * binding gives the SRAM to other clients. The caller removes the mappings after this.
 */
void nvdla_sram_stop(struct device *dev)
{
	struct nvdla_sram *sram = nvdla_sram_of(dev);

	if (!sram)
		return;
	guard(mutex)(&sram->lock);
	sram->gone = true;
}

/* Bytes of a bound device's SRAM, and those in use. */
u64 nvdla_sram_size(struct device *dev, u64 *used)
{
	struct nvdla_sram *sram = nvdla_sram_of(dev);

	if (used)
		*used = 0;
	if (!sram)
		return 0;
	if (used) {
		guard(mutex)(&sram->lock);
		*used = sram->used;
	}
	return sram->size;
}

/* Allocates a buffer in the SRAM of a bound device. -ENOSPC if not enough is free in one piece. */
struct nvdla_memory *nvdla_memory_alloc_sram(struct drm_device *drm, u64 size)
{
	struct device *dev = drm_dev_dma_dev(drm);
	struct nvdla_sram *sram = nvdla_sram_of(dev);
	struct nvdla_memory *memory;
	struct nvdla_block *block;
	int ret;

	if (!sram || size > sram->size)
		return ERR_PTR(-ENOSPC);
	block = kzalloc_obj(*block, GFP_KERNEL_ACCOUNT);
	if (!block)
		return ERR_PTR(-ENOMEM);
	ret = nvdla_power_get(dev);
	if (ret)
		goto free;
	scoped_guard(mutex, &sram->lock) {
		ret = sram->gone ? -ENODEV : drm_mm_insert_node(&sram->mm, &block->node, size);
		if (!ret)
			sram->used += size;
	}
	if (ret)
		goto put;
	memset_io(sram->vaddr + block->node.start, 0, size);
	kref_get(&sram->references);
	block->sram = sram;
	memory = nvdla_memory_of_block(block, sram->base + block->node.start, size);
	if (IS_ERR(memory))
		nvdla_block_free(block);
	return memory;

put:
	nvdla_power_put(dev);
free:
	kfree(block);
	return ERR_PTR(ret);
}

void nvdla_block_free(struct nvdla_block *block)
{
	struct nvdla_sram *sram = block->sram;

	scoped_guard(mutex, &sram->lock) {
		sram->used -= block->node.size;
		drm_mm_remove_node(&block->node);
	}
	if (block->substitute)
		__free_page(block->substitute);
	nvdla_power_put(sram->dev);
	kref_put(&sram->references, nvdla_sram_free);
	kfree(block);
}

/*
 * Saves the contents of the buffers before the machine sleeps. No task runs any more, and no
 * process.
 */
int nvdla_sram_save(struct device *dev)
{
	struct nvdla_sram *sram = nvdla_sram_of(dev);
	struct drm_mm_node *node;

	if (!sram)
		return 0;
	guard(mutex)(&sram->lock);
	if (!sram->used)
		return 0;
	sram->saved = kvmalloc(sram->size, GFP_KERNEL);
	if (!sram->saved)
		return -ENOMEM;
	drm_mm_for_each_node(node, &sram->mm)
		memcpy_fromio(sram->saved + node->start, sram->vaddr + node->start, node->size);
	return 0;
}

void nvdla_sram_restore(struct device *dev)
{
	struct nvdla_sram *sram = nvdla_sram_of(dev);
	struct drm_mm_node *node;

	if (!sram)
		return;
	guard(mutex)(&sram->lock);
	if (!sram->saved)
		return;
	drm_mm_for_each_node(node, &sram->mm)
		memcpy_toio(sram->vaddr + node->start, sram->saved + node->start, node->size);
	kvfree(sram->saved);
	sram->saved = NULL;
}

/*
 * Maps a page of a buffer. After the device was unbound, an unused page is mapped instead, so that
 * the program does not get SIGBUS.
 */
static vm_fault_t nvdla_block_fault(struct vm_fault *vmf)
{
	struct drm_gem_object *object = vmf->vma->vm_private_data;
	struct nvdla_block *block = nvdla_object_memory(object)->block;
	struct vm_area_struct *vma = vmf->vma;
	struct nvdla_sram *sram = block->sram;

	if (vmf->pgoff >= block->node.size >> PAGE_SHIFT)
		return VM_FAULT_SIGBUS;
	guard(mutex)(&sram->lock);
	if (!sram->gone)
		return vmf_insert_pfn(vma, vmf->address,
				      ((sram->start + block->node.start) >> PAGE_SHIFT) +
					      vmf->pgoff);
	if (!block->substitute)
		block->substitute = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!block->substitute)
		return VM_FAULT_OOM;
	return vmf_insert_pfn_prot(vma, vmf->address, page_to_pfn(block->substitute),
				   vm_get_page_prot(vma->vm_flags));
}

const struct vm_operations_struct nvdla_block_vm_ops = {
	.fault = nvdla_block_fault,
	.open = drm_gem_vm_open,
	.close = drm_gem_vm_close,
};

int nvdla_block_mmap(struct drm_gem_object *object, struct vm_area_struct *vma)
{
	/* The device would not see writes to a private copy of a page. */
	if (vma_is_cow_mapping(vma))
		return -EINVAL;
	/*
	 * DRM has found the object by a fake offset. The mapping itself begins at the object's
	 * first page.
	 */
	vma->vm_pgoff -= drm_vma_node_start(&object->vma_node);
	vm_flags_set(vma, VM_IO | VM_PFNMAP | VM_DONTDUMP | VM_DONTEXPAND);
	vma->vm_page_prot = pgprot_writecombine(vm_get_page_prot(vma->vm_flags));
	return 0;
}
