// SPDX-License-Identifier: GPL-2.0-only
/*
 * The functions of GEM objects. The kernel crate's plain GEM object has neither mmap nor a scatter
 * table; this gives it both, on the memory of memory.c.
 */

#include <linux/dma-buf.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <drm/drm_prime.h>

#include "helpers.h"

MODULE_IMPORT_NS("DMA_BUF");

static const struct drm_gem_object_funcs *plain_funcs;

static void nvdla_gem_free(struct drm_gem_object *object)
{
	/* The attachment of a memory that a device may still write stays until it is unbound. */
	if (object->import_attach && nvdla_memory_detach(nvdla_object_memory(object)))
		drm_prime_gem_destroy(object, NULL);
	plain_funcs->free(object);
}

static int nvdla_gem_open(struct drm_gem_object *object, struct drm_file *file)
{
	int ret = nvdla_object_opened(object, file);

	if (ret)
		return ret;
	ret = plain_funcs->open(object, file);
	if (ret)
		nvdla_object_closed(object, file);
	return ret;
}

static void nvdla_gem_close(struct drm_gem_object *object, struct drm_file *file)
{
	plain_funcs->close(object, file);
	nvdla_object_closed(object, file);
}

static int nvdla_dma_buf_begin(struct dma_buf *buffer, enum dma_data_direction direction)
{
	return nvdla_memory_sync(nvdla_object_memory(buffer->priv), direction != DMA_TO_DEVICE,
				 direction != DMA_FROM_DEVICE, false);
}

static int nvdla_dma_buf_end(struct dma_buf *buffer, enum dma_data_direction direction)
{
	return nvdla_memory_sync(nvdla_object_memory(buffer->priv), direction != DMA_TO_DEVICE,
				 direction != DMA_FROM_DEVICE, true);
}

/* DRM's functions for dma-bufs, and those that cached memory needs, which DRM does not have. */
static const struct dma_buf_ops nvdla_dma_buf_ops = {
	.attach = drm_gem_map_attach,
	.detach = drm_gem_map_detach,
	.map_dma_buf = drm_gem_map_dma_buf,
	.unmap_dma_buf = drm_gem_unmap_dma_buf,
	.release = drm_gem_dmabuf_release,
	.mmap = drm_gem_dmabuf_mmap,
	.vmap = drm_gem_dmabuf_vmap,
	.vunmap = drm_gem_dmabuf_vunmap,
	.begin_cpu_access = nvdla_dma_buf_begin,
	.end_cpu_access = nvdla_dma_buf_end,
};

/*
 * A buffer of another driver is exported by that driver, and memory without the kernel's page
 * descriptions cannot be.
 */
static struct dma_buf *nvdla_gem_export(struct drm_gem_object *object, int flags)
{
	struct dma_buf_export_info info = {
		.exp_name = KBUILD_MODNAME,
		.owner = object->dev->driver->fops->owner,
		.ops = &nvdla_dma_buf_ops,
		.size = object->size,
		.flags = flags,
		.priv = object,
		.resv = object->resv,
	};

	if (!nvdla_memory_has_pages(nvdla_object_memory(object)))
		return ERR_PTR(-EOPNOTSUPP);
	return drm_gem_dmabuf_export(object->dev, &info);
}

/* The object behind a dma-buf of this device's own, or NULL. */
static struct drm_gem_object *nvdla_gem_of(struct drm_device *drm, struct dma_buf *buffer)
{
	struct drm_gem_object *object = buffer->priv;

	if (buffer->ops != &nvdla_dma_buf_ops || object->dev != drm)
		return NULL;
	drm_gem_object_get(object);
	return object;
}

/* DRM's import, which knows only dma-bufs with its own functions as the device's own. */
struct drm_gem_object *nvdla_gem_import(struct drm_device *drm, struct dma_buf *buffer)
{
	return nvdla_gem_of(drm, buffer) ?: nvdla_gem_attach(drm, buffer);
}

static struct sg_table *nvdla_gem_get_sg_table(struct drm_gem_object *object)
{
	struct nvdla_memory *memory = nvdla_object_memory(object);

	return memory->dma_buf ? ERR_PTR(-EINVAL) : nvdla_memory_table(memory);
}

static int nvdla_gem_vmap(struct drm_gem_object *object, struct iosys_map *map)
{
	struct nvdla_memory *memory = nvdla_object_memory(object);
	int ret = nvdla_memory_open_locked(memory);

	if (!ret)
		iosys_map_set_vaddr(map, memory->vaddr);
	return ret;
}

static vm_fault_t nvdla_gem_insert(struct vm_area_struct *vma, struct nvdla_memory *memory,
				   size_t page)
{
	unsigned long address = vma->vm_start + ((page - vma->vm_pgoff) << PAGE_SHIFT);

	if (page >= memory->size >> PAGE_SHIFT)
		return VM_FAULT_SIGBUS;
	return vmf_insert_pfn(vma, address, nvdla_memory_pfn(memory, page));
}

static int nvdla_gem_mmap(struct drm_gem_object *object, struct vm_area_struct *vma)
{
	struct nvdla_memory *memory = nvdla_object_memory(object);
	size_t page;

	if (memory->dma_buf) {
		int ret;

		/*
		 * From here on the exporter handles the mapping. Not every exporter sets these two
		 * fields. DRM's values would put the object a second time when the mapping ends.
		 * DRM requires a mapping that cannot grow.
		 */
		vma->vm_private_data = NULL;
		vma->vm_ops = NULL;
		vm_flags_set(vma, VM_DONTEXPAND);
		ret = dma_buf_mmap(memory->dma_buf, vma, 0);
		/* The reference that DRM took for the mapping is not needed. */
		if (!ret)
			drm_gem_object_put(object);
		return ret;
	}
	/* The device would not see writes to a private copy of a page. */
	if (vma_is_cow_mapping(vma))
		return -EINVAL;
	/*
	 * DRM has found the object by a fake offset. The mapping itself begins at the object's
	 * first page.
	 */
	vma->vm_pgoff -= drm_vma_node_start(&object->vma_node);
	vm_flags_set(vma, VM_IO | VM_PFNMAP | VM_DONTDUMP | VM_DONTEXPAND);
	vma->vm_page_prot = vm_get_page_prot(vma->vm_flags);
	if (memory->uncached)
		vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	for (page = vma->vm_pgoff; page < vma->vm_pgoff + vma_pages(vma); page++)
		if (nvdla_gem_insert(vma, memory, page) != VM_FAULT_NOPAGE)
			return -ENOMEM;
	return 0;
}

/*
 * mmap() maps all pages. They are missing only after the device was unbound, because DRM then
 * removes all mappings. The pages are still the buffer's, so they are mapped again, and the program
 * does not get SIGBUS.
 */
static vm_fault_t nvdla_gem_fault(struct vm_fault *vmf)
{
	struct drm_gem_object *object = vmf->vma->vm_private_data;

	return nvdla_gem_insert(vmf->vma, nvdla_object_memory(object), vmf->pgoff);
}

static const struct vm_operations_struct nvdla_vm_ops = {
	.fault = nvdla_gem_fault,
	.open = drm_gem_vm_open,
	.close = drm_gem_vm_close,
};

static const struct drm_gem_object_funcs nvdla_gem_funcs = {
	.free = nvdla_gem_free,
	.open = nvdla_gem_open,
	.close = nvdla_gem_close,
	.export = nvdla_gem_export,
	.get_sg_table = nvdla_gem_get_sg_table,
	.vmap = nvdla_gem_vmap,
	.mmap = nvdla_gem_mmap,
	.vm_ops = &nvdla_vm_ops,
};

/*
 * A buffer in SRAM has no pages, and other devices cannot access every SRAM. Nothing is known that
 * could use one from another driver.
 */
static struct dma_buf *nvdla_block_export(struct drm_gem_object *object, int flags)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static const struct drm_gem_object_funcs nvdla_block_funcs = {
	.free = nvdla_gem_free,
	.open = nvdla_gem_open,
	.close = nvdla_gem_close,
	.export = nvdla_block_export,
	.mmap = nvdla_block_mmap,
	.vm_ops = &nvdla_block_vm_ops,
};

/*
 * Replaces the kernel crate's function table by one that adds memory to it. The crate has one table
 * for all objects of a type, so plain_funcs is the same for each object.
 */
void nvdla_gem_extend(struct drm_gem_object *object)
{
	struct nvdla_memory *memory = nvdla_object_memory(object);

	if (object->funcs == &nvdla_gem_funcs || object->funcs == &nvdla_block_funcs)
		return;
	WRITE_ONCE(plain_funcs, object->funcs);
	object->funcs = memory->block ? &nvdla_block_funcs : &nvdla_gem_funcs;
	/* An import has the exporter's. */
	if (!memory->reservation)
		memory->reservation = object->resv;
}

/*
 * The object behind a dma-buf descriptor, with a reference that the caller must put. It gets no
 * handle, so the client's table does not grow.
 */
struct drm_gem_object *nvdla_gem_from_fd(struct drm_device *drm, int fd)
{
	struct dma_buf *buffer = dma_buf_get(fd);
	struct drm_gem_object *object;

	if (IS_ERR(buffer))
		return ERR_CAST(buffer);
	object = nvdla_gem_import(drm, buffer);
	dma_buf_put(buffer);
	return object;
}
