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
 * Whether the DMA API still knows the memory. When a device leaves its bus its IOMMU forgets it, and the API would take the
 * IOMMU's addresses for the memory's own.
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
	/* Behind an IOMMU any page will do. A client that asks for too much gets an error; no process is killed. */
	if (size >> PAGE_SHIFT > totalram_pages())
		return -ENOMEM;
	memory->vaddr = dma_alloc_attrs(dev, size, &address, GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL,
					DMA_ATTR_WRITE_COMBINE);
	if (!memory->vaddr)
		return -ENOMEM;
	memory->dma_address = address;
	memory->size = size;
	/* The memory may outlive the driver's binding to the device, never the device, nor the pool that it comes from. */
	memory->dev = get_device(dev);
	memory->pool = nvdla_pool_get(dev);
	memory->translated = use_dma_iommu(dev) && is_vmalloc_addr(memory->vaddr);
	return 0;
}

int nvdla_memory_import(struct dma_buf_attachment *attachment, struct sg_table *table, struct nvdla_memory *memory)
{
	struct iosys_map map;
	int ret;

	/* The hardware has no scatter list, and DRM no object of a part of a page. */
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
	/* The mapping goes with the memory, after PRIME has given back its own reference. */
	memory->dma_buf = attachment->dmabuf;
	get_dma_buf(memory->dma_buf);
	return 0;
}

/*
 * Frees pages whose device and IOMMU have gone: nothing translates to them any more, and the DMA API does not know them.
 * What is left is the kernel's mapping. It goes first, and with it the API's list of the pages, which vfree() frees without
 * the pages: their number was never told to the mapping.
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
 * Frees what nvdla_memory_alloc() or nvdla_memory_import() took, also of an object that failed to become one. What the
 * attachment holds goes with the object, in nvdla_gem_free(), or with the import that failed.
 */
void nvdla_memory_free(struct nvdla_memory *memory)
{
	if (memory->dma_buf) {
		struct iosys_map map = IOSYS_MAP_INIT_VADDR(memory->vaddr);

		dma_buf_vunmap_unlocked(memory->dma_buf, &map);
		dma_buf_put(memory->dma_buf);
		memory->dma_buf = NULL;
	}
	if (!memory->dev || memory->lost)
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
 * Copies out of memory that user space and devices may write meanwhile. A function that the compiler does not see through
 * where it is called: the caller has one copy and looks at nothing else, whatever the optimiser thinks of it.
 */
void nvdla_memory_read(const struct nvdla_memory *memory, u64 offset, void *to, size_t length)
{
	memcpy(to, memory->vaddr + offset, length);
	barrier_data(to);
}

/* The memory is never given back, whatever becomes of the object. Imported memory keeps its exporter's buffer. */
void nvdla_memory_lose(struct nvdla_memory *memory)
{
	if (memory->lost)
		return;
	memory->lost = true;
	if (!memory->dev)
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
		 * The mapping becomes the exporter's. Not every exporter sets the two; what DRM left there would put the
		 * object at the mapping's end, a second time. DRM wants a mapping that cannot grow.
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
	/* The pages belong to the device, so a private copy of one would have no use. */
	if (vma_is_cow_mapping(vma))
		return -EINVAL;
	/* DRM's fake offset has served; the whole object is mapped from its start. */
	vma->vm_pgoff -= drm_vma_node_start(&object->vma_node);
	vm_flags_mod(vma, VM_DONTDUMP | VM_DONTEXPAND, VM_PFNMAP);
	return dma_mmap_attrs(memory->dev, vma, memory->vaddr, memory->dma_address, vma->vm_end - vma->vm_start,
			      DMA_ATTR_WRITE_COMBINE);
}

/*
 * All pages were mapped at once. They are missing only after the device was unbound, when DRM takes all mappings away; the
 * memory is still there, and a program that uses it need not die.
 */
static vm_fault_t nvdla_gem_fault(struct vm_fault *vmf)
{
	struct drm_gem_object *object = vmf->vma->vm_private_data;
	struct nvdla_memory *memory = nvdla_object_memory(object);
	vm_fault_t ret = VM_FAULT_SIGBUS;
	struct sg_page_iter page;
	struct sg_table *table;

	if (memory->translated) {
		/* The mapping was made of pages, not of frame numbers; the two do not mix. */
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
 * Replaces the kernel crate's function table by one that adds memory to it. The crate has one table for all objects of a
 * type, so remembering it is the same for each.
 */
void nvdla_gem_extend(struct drm_gem_object *object)
{
	if (object->funcs == &nvdla_gem_funcs)
		return;
	WRITE_ONCE(plain_funcs, object->funcs);
	object->funcs = &nvdla_gem_funcs;
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
		/* One of our own: no handle is needed, and none is left behind in the client's table. */
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
