// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of GEM objects. The kernel crate's plain GEM object has neither mmap nor a scatter table; this gives it both,
 * on memory that is contiguous for the device.
 */

#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/iommu-dma.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <drm/drm_device.h>
#include <drm/drm_gem.h>
#include <drm/drm_prime.h>

#include "helpers.h"

MODULE_IMPORT_NS("DMA_BUF");

/*
 * Whether the DMA API can still map and free the memory. A device that has left its bus has no IOMMU domain any more,
 * and the API would take the IOMMU's addresses for physical ones.
 */
static bool nvdla_memory_is_known(struct nvdla_memory *memory)
{
	return !memory->translated || use_dma_iommu(memory->dev);
}

int nvdla_memory_alloc(struct drm_device *drm, u64 size, struct nvdla_memory *memory)
{
	struct device *dev = drm_dev_dma_dev(drm);
	dma_addr_t address;

	if (size != (size_t)size)
		return -EINVAL;
	/*
	 * Behind an IOMMU an allocation can take every page of the machine. The OOM killer would then end processes. A
	 * client that asks for too much therefore gets an error, here or by __GFP_RETRY_MAYFAIL.
	 */
	if (size >> PAGE_SHIFT > totalram_pages())
		return -ENOMEM;
	memory->vaddr = dma_alloc_attrs(dev, size, &address, GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL,
					DMA_ATTR_WRITE_COMBINE);
	if (!memory->vaddr)
		return -ENOMEM;
	memory->dma_address = address;
	memory->size = size;
	/*
	 * The memory may outlive the driver's binding to the device. It holds the device and the pool that it comes
	 * from.
	 */
	memory->dev = get_device(dev);
	memory->pool = nvdla_pool_get(dev);
	memory->translated = use_dma_iommu(dev) && is_vmalloc_addr(memory->vaddr);
	return 0;
}

int nvdla_memory_import(struct dma_buf_attachment *attachment, struct sg_table *table, struct nvdla_memory *memory)
{
	struct iosys_map map;
	int ret;

	/* The hardware has no scatter list, and a DRM object consists of whole pages. */
	if (!PAGE_ALIGNED(attachment->dmabuf->size) ||
	    drm_prime_get_contiguous_size(table) < attachment->dmabuf->size)
		return -EINVAL;
	ret = dma_buf_vmap_unlocked(attachment->dmabuf, &map);
	if (ret)
		return ret;
	if (map.is_iomem) {
		dma_buf_vunmap_unlocked(attachment->dmabuf, &map);
		return -EINVAL;
	}
	memory->vaddr = map.vaddr;
	memory->dma_address = sg_dma_address(table->sgl);
	memory->size = attachment->dmabuf->size;
	memory->imported = table;
	/* The mapping needs a reference of its own, because PRIME puts its reference before the memory is freed. */
	memory->dma_buf = attachment->dmabuf;
	get_dma_buf(memory->dma_buf);
	return 0;
}

/*
 * Frees pages whose device has left its IOMMU. No translation leads to them any more, and the DMA API cannot free them.
 * vfree() removes the kernel's mapping and frees the API's list of the pages. It does not free the pages, because the
 * API leaves their number in the mapping at 0. They are therefore noted before vfree() and freed after it.
 */
static void nvdla_memory_free_pages(struct nvdla_memory *memory)
{
	size_t index, count = PAGE_ALIGN(memory->size) >> PAGE_SHIFT;
	struct page **pages = kvmalloc_array(count, sizeof(*pages), GFP_KERNEL | __GFP_NOFAIL);

	for (index = 0; index < count; index++)
		pages[index] = vmalloc_to_page(memory->vaddr + (index << PAGE_SHIFT));
	vfree(memory->vaddr);
	for (index = 0; index < count; index++)
		__free_page(pages[index]);
	kvfree(pages);
}

/*
 * Frees what nvdla_memory_alloc(), nvdla_memory_alloc_sram() or nvdla_memory_import() took, also if the creation of the object has failed. The
 * attachment is released by nvdla_gem_free(), or by PRIME if the import has failed.
 */
void nvdla_memory_free(struct nvdla_memory *memory)
{
	if (memory->dma_buf) {
		struct iosys_map map = IOSYS_MAP_INIT_VADDR(memory->vaddr);

		dma_buf_vunmap_unlocked(memory->dma_buf, &map);
		dma_buf_put(memory->dma_buf);
		memory->dma_buf = NULL;
	}
	if (memory->lost)
		return;
	if (memory->block) {
		nvdla_block_free(memory->block);
		memory->block = NULL;
	}
	if (!memory->dev)
		return;
	if (nvdla_memory_is_known(memory))
		dma_free_attrs(memory->dev, memory->size, memory->vaddr, memory->dma_address, DMA_ATTR_WRITE_COMBINE);
	else
		nvdla_memory_free_pages(memory);
	nvdla_pool_put(memory->pool);
	put_device(memory->dev);
	memory->dev = NULL;
}

/* Bytes of the machine's memory. */
u64 nvdla_memory_total(void)
{
	return (u64)totalram_pages() << PAGE_SHIFT;
}

/*
 * Copies from memory that user space and devices may write at the same time. The caller checks and uses the same copy:
 * the function is not inlined into its Rust callers, so the compiler cannot read the memory a second time instead.
 */
void nvdla_memory_read(const struct nvdla_memory *memory, u64 offset, void *to, size_t length)
{
	memcpy(to, memory->vaddr + offset, length);
	barrier_data(to);
}

/*
 * The memory is never freed, also after the object is freed, because a device that cannot be stopped may still write it.
 * Imported memory keeps a reference to its exporter's buffer. A part of the SRAM stays in use until the device is unbound.
 */
void nvdla_memory_lose(struct nvdla_memory *memory)
{
	if (memory->lost)
		return;
	memory->lost = true;
	if (memory->dma_buf)
		get_dma_buf(memory->dma_buf);
}

static const struct drm_gem_object_funcs *plain_funcs;

static void nvdla_gem_free(struct drm_gem_object *object)
{
	struct nvdla_memory *memory = nvdla_object_memory(object);

	if (object->import_attach)
		drm_prime_gem_destroy(object, memory->imported);
	plain_funcs->free(object);
}

static int nvdla_gem_open(struct drm_gem_object *object, struct drm_file *file)
{
	return plain_funcs->open(object, file);
}

static void nvdla_gem_close(struct drm_gem_object *object, struct drm_file *file)
{
	plain_funcs->close(object, file);
}

static struct sg_table *nvdla_gem_get_sg_table(struct drm_gem_object *object)
{
	struct nvdla_memory *memory = nvdla_object_memory(object);
	struct sg_table *table;
	int ret;

	if (!memory->dev)
		return ERR_PTR(-EINVAL);
	if (!nvdla_memory_is_known(memory))
		return ERR_PTR(-ENODEV);
	table = kzalloc(sizeof(*table), GFP_KERNEL);
	if (!table)
		return ERR_PTR(-ENOMEM);
	ret = dma_get_sgtable_attrs(memory->dev, table, memory->vaddr, memory->dma_address, memory->size,
				    DMA_ATTR_WRITE_COMBINE);
	if (ret) {
		kfree(table);
		return ERR_PTR(ret);
	}
	return table;
}

static int nvdla_gem_vmap(struct drm_gem_object *object, struct iosys_map *map)
{
	iosys_map_set_vaddr(map, nvdla_object_memory(object)->vaddr);
	return 0;
}

static int nvdla_gem_mmap(struct drm_gem_object *object, struct vm_area_struct *vma)
{
	struct nvdla_memory *memory = nvdla_object_memory(object);

	if (!memory->dev) {
		int ret;

		/*
		 * From here on the exporter handles the mapping. Not every exporter sets these two fields. DRM's values
		 * would put the object a second time when the mapping ends. DRM requires a mapping that cannot grow.
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
	if (!nvdla_memory_is_known(memory))
		return -ENODEV;
	/* The device would not see writes to a private copy of a page. */
	if (vma_is_cow_mapping(vma))
		return -EINVAL;
	/* DRM has found the object by a fake offset. The mapping itself begins at the object's first page. */
	vma->vm_pgoff -= drm_vma_node_start(&object->vma_node);
	vm_flags_mod(vma, VM_DONTDUMP | VM_DONTEXPAND, VM_PFNMAP);
	return dma_mmap_attrs(memory->dev, vma, memory->vaddr, memory->dma_address, vma->vm_end - vma->vm_start,
			      DMA_ATTR_WRITE_COMBINE);
}

/*
 * mmap() maps all pages. They are missing only after the device was unbound, because DRM then removes all mappings. The
 * memory still exists, so it is mapped again, and the program does not get SIGBUS.
 */
static vm_fault_t nvdla_gem_fault(struct vm_fault *vmf)
{
	struct drm_gem_object *object = vmf->vma->vm_private_data;
	struct nvdla_memory *memory = nvdla_object_memory(object);
	vm_fault_t ret = VM_FAULT_SIGBUS;
	struct sg_page_iter page;
	struct sg_table *table;

	if (memory->translated) {
		/* The mapping consists of pages, not of frame numbers. The kernel does not allow both in one mapping. */
		if (vmf->pgoff < memory->size >> PAGE_SHIFT)
			ret = vmf_insert_mixed(vmf->vma, vmf->address,
					       vmalloc_to_pfn(memory->vaddr + (vmf->pgoff << PAGE_SHIFT)));
		return ret;
	}
	table = nvdla_gem_get_sg_table(object);
	if (IS_ERR(table))
		return ret;
	for_each_sgtable_page(table, &page, vmf->pgoff) {
		ret = vmf_insert_pfn(vmf->vma, vmf->address, page_to_pfn(sg_page_iter_page(&page)));
		break;
	}
	sg_free_table(table);
	kfree(table);
	return ret;
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
	.get_sg_table = nvdla_gem_get_sg_table,
	.vmap = nvdla_gem_vmap,
	.mmap = nvdla_gem_mmap,
	.vm_ops = &nvdla_vm_ops,
};

/*
 * A buffer in SRAM has no pages, and other devices cannot access every SRAM. Nothing is known that could use one from another
 * driver.
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
 * Replaces the kernel crate's function table by one that adds memory to it. The crate has one table for all objects of a
 * type, so plain_funcs is the same for each object.
 */
void nvdla_gem_extend(struct drm_gem_object *object)
{
	if (object->funcs == &nvdla_gem_funcs || object->funcs == &nvdla_block_funcs)
		return;
	WRITE_ONCE(plain_funcs, object->funcs);
	object->funcs = nvdla_object_memory(object)->block ? &nvdla_block_funcs : &nvdla_gem_funcs;
}

/* The object behind a dma-buf descriptor, with a reference that the caller must put. */
struct drm_gem_object *nvdla_gem_from_fd(struct drm_device *drm, struct drm_file *file, int fd)
{
	struct drm_gem_object *object;
	struct dma_buf *buffer = dma_buf_get(fd);
	u32 handle;
	int ret;

	if (IS_ERR(buffer))
		return ERR_CAST(buffer);
	if (drm_gem_is_prime_exported_dma_buf(drm, buffer)) {
		/* A buffer of this driver: no handle is needed, so none is added to the client's table. */
		object = buffer->priv;
		drm_gem_object_get(object);
		dma_buf_put(buffer);
		return object;
	}
	dma_buf_put(buffer);
	ret = drm_gem_prime_fd_to_handle(drm, file, fd, &handle);
	if (ret)
		return ERR_PTR(ret);
	object = drm_gem_object_lookup(file, handle);
	return object ?: ERR_PTR(-ENOENT);
}
