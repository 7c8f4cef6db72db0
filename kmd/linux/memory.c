// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory behind buffers, and its mapping for the device.
 *
 * Pages belong to the buffer and not to the driver's binding: they are allocated by the page
 * allocator, from a contiguous area or from reserved memory, mapped for the device with the DMA
 * API, and freed without a device. A buffer may outlive the binding, and the DMA API must not be
 * used for a device without a driver. Therefore every mapping of a device is in a list, and ends
 * when the device is unbound.
 */

#include <linux/cma.h>
#include <linux/device.h>
#include <linux/dma-buf.h>
#include <linux/dma-direct.h>
#include <linux/dma-map-ops.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/highmem.h>
#include <linux/io.h>
#include <linux/iommu.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/of.h>
#include <linux/of_reserved_mem.h>
#include <linux/rwsem.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>
#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <drm/drm_mm.h>
#include <drm/drm_prime.h>

#include "helpers.h"

/*
 * Reserved memory that only the device uses ("no-map"). The kernel has no mapping of it, so the
 * driver makes one, and divides it among buffers. Buffers hold a reference, because they may
 * outlive the binding; the next binding finds it in the list.
 */
struct nvdla_pool {
	struct kref references;
	struct list_head entry;
	phys_addr_t start;
	u64 size;
	void *vaddr;
	struct mutex lock;	/* protects the allocator */
	struct drm_mm mm;	/* bytes from the start */
};

static LIST_HEAD(nvdla_pools);
static DEFINE_MUTEX(nvdla_pools_lock);

static void nvdla_pool_release(struct kref *references)
{
	struct nvdla_pool *pool = container_of(references, struct nvdla_pool, references);

	list_del(&pool->entry);
	mutex_unlock(&nvdla_pools_lock);
	drm_mm_takedown(&pool->mm);
	mutex_destroy(&pool->lock);
	memunmap(pool->vaddr);
	kfree(pool);
}

static void nvdla_pool_put(struct nvdla_pool *pool)
{
	if (pool)
		kref_put_mutex(&pool->references, nvdla_pool_release, &nvdla_pools_lock);
}

/* The pool in that range. */
static struct nvdla_pool *nvdla_pool_get(const struct resource *range)
{
	struct nvdla_pool *pool;
	u64 size = resource_size(range) & PAGE_MASK;

	if (!PAGE_ALIGNED(range->start) || !size)
		return ERR_PTR(-EINVAL);
	guard(mutex)(&nvdla_pools_lock);
	list_for_each_entry(pool, &nvdla_pools, entry) {
		if (pool->start == range->start && pool->size == size) {
			kref_get(&pool->references);
			return pool;
		}
	}
	pool = kzalloc_obj(*pool);
	if (!pool)
		return ERR_PTR(-ENOMEM);
	pool->vaddr = memremap(range->start, size, MEMREMAP_WC);
	if (!pool->vaddr) {
		kfree(pool);
		return ERR_PTR(-ENOMEM);
	}
	kref_init(&pool->references);
	pool->start = range->start;
	pool->size = size;
	mutex_init(&pool->lock);
	drm_mm_init(&pool->mm, 0, size);
	list_add(&pool->entry, &nvdla_pools);
	return pool;
}

static void nvdla_space_free(struct kref *references)
{
	struct nvdla_space *space = container_of(references, struct nvdla_space, references);

	nvdla_pool_put(space->pool);
	mutex_destroy(&space->lock);
	mutex_destroy(&space->attachment);
	put_device(space->dev);
	kfree(space);
}

void nvdla_space_put(struct nvdla_space *space)
{
	kref_put(&space->references, nvdla_space_free);
}

/* Ends the device's mapping of a memory. The space is locked. */
static void nvdla_memory_end(struct nvdla_memory *memory)
{
	struct device *dev = memory->space->dev;

	if (list_empty(&memory->entry))
		return;
	list_del_init(&memory->entry);
	if (memory->attachment)
		dma_buf_unmap_attachment_unlocked(memory->attachment, memory->imported,
						  DMA_BIDIRECTIONAL);
	else
		dma_unmap_sgtable(dev, &memory->table, DMA_BIDIRECTIONAL, 0);
	memory->imported = NULL;
}

static void nvdla_memory_free_pages(struct nvdla_memory *memory)
{
	size_t index, count = memory->size >> PAGE_SHIFT;

	if (memory->pages) {
		for (index = 0; index < count && memory->pages[index]; index++)
			if (!memory->lost)
				__free_page(memory->pages[index]);
		kvfree(memory->pages);
	} else if (memory->first && !memory->lost) {
		if (memory->area)
			cma_release(memory->area, memory->first, count);
		else
			free_pages_exact(page_address(memory->first), memory->size);
	}
	memory->pages = NULL;
	memory->first = NULL;
}

/* Frees what describes a memory without a mapping, and its pages unless it is lost. */
static void nvdla_memory_release(struct nvdla_memory *memory)
{
	if (memory->dma_buf) {
		struct iosys_map map = IOSYS_MAP_INIT_VADDR(memory->vaddr);

		if (memory->vaddr)
			dma_buf_vunmap_unlocked(memory->dma_buf, &map);
		if (memory->kept)
			dma_buf_detach(memory->dma_buf, memory->attachment);
		/*
		 * A device that cannot be stopped may still write the memory, which stays the
		 * exporter's then.
		 */
		if (!memory->lost)
			dma_buf_put(memory->dma_buf);
	} else if (memory->mapped) {
		vunmap(memory->vaddr);
	}
	if (memory->block && !memory->lost)
		nvdla_block_free(memory->block);
	if (memory->pool && !memory->lost) {
		scoped_guard(mutex, &memory->pool->lock)
			drm_mm_remove_node(&memory->node);
		nvdla_pool_put(memory->pool);
	}
	sg_free_table(&memory->table);
	nvdla_memory_free_pages(memory);
	if (memory->space)
		nvdla_space_put(memory->space);
	/* A part of a pool that is lost stays in the pool's list. */
	if (!memory->pool || !memory->lost)
		kfree(memory);
}

/*
 * The device is about to be unbound, and does not access memory any more. All mappings for it end,
 * and none begins after this. What the buffers contain stays.
 */
static void nvdla_space_end(struct nvdla_space *space)
{
	struct nvdla_memory *memory, *next;

	scoped_guard(rwsem_write, &space->gate) {
		if (space->gone)
			return;
		WRITE_ONCE(space->gone, true);
	}
	guard(mutex)(&space->lock);
	nvdla_domains_end(space);
	list_for_each_entry_safe(memory, next, &space->memories, entry) {
		nvdla_memory_end(memory);
		if (memory->abandoned)
			nvdla_memory_release(memory);
	}
	if (space->pool)
		dma_unmap_phys(space->dev, space->pool_address, space->pool->size,
			       DMA_BIDIRECTIONAL, DMA_ATTR_SKIP_CPU_SYNC);
}

static void nvdla_space_release(struct device *dev, void *resource)
{
	struct nvdla_space *space = *(struct nvdla_space **)resource;

	/* After a probe that has failed nothing has ended the mappings before. */
	nvdla_space_end(space);
	if (dev->of_node)
		of_reserved_mem_device_release(dev);
	nvdla_space_put(space);
}

/* The space of a bound device, or NULL. */
struct nvdla_space *nvdla_space_of(struct device *dev)
{
	struct nvdla_space **resource = devres_find(dev, nvdla_space_release, NULL, NULL);

	return resource ? *resource : NULL;
}

void nvdla_space_stop(struct device *dev)
{
	struct nvdla_space *space = nvdla_space_of(dev);

	if (space)
		nvdla_space_end(space);
}

/* Whether an IOMMU translates the addresses that the DMA API gives the device. */
bool nvdla_space_is_translated(struct device *dev)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(dev);

	return domain && iommu_is_dma_domain(domain);
}

/*
 * Whether the processor caches only the buffers of a bound device that are asked for with that. A
 * pool has a mapping that is not cached.
 */
bool nvdla_space_is_uncached(struct device *dev)
{
	struct nvdla_space *space = nvdla_space_of(dev);

	return space && !space->pool && !dev_is_dma_coherent(dev);
}

/* Finds the memory that the device tree reserves for the device. */
static int nvdla_space_reserve(struct nvdla_space *space)
{
	struct device_node *region __free(device_node) =
		of_parse_phandle(space->dev->of_node, "memory-region", 0);
	struct device *dev = space->dev;
	struct resource range;
	int ret;

	if (!region)
		return 0;
	if (of_property_present(dev->of_node, "iommus"))
		return dev_err_probe(dev, -EINVAL, "iommus and memory-region exclude each other\n");
	if (of_property_read_bool(region, "reusable")) {
		ret = of_reserved_mem_device_init(dev);
		return ret ? dev_err_probe(dev, ret, "reserved memory\n") : 0;
	}
	ret = of_reserved_mem_region_to_resource(dev->of_node, 0, &range);
	if (ret)
		return dev_err_probe(dev, ret, "reserved memory\n");
	space->pool = nvdla_pool_get(&range);
	if (IS_ERR(space->pool)) {
		ret = PTR_ERR(space->pool);
		space->pool = NULL;
		return dev_err_probe(dev, ret, "reserved memory %pr\n", &range);
	}
	/* The processor's mapping is not cached, so there is nothing to write back. */
	space->pool_address = dma_map_phys(dev, space->pool->start, space->pool->size,
					   DMA_BIDIRECTIONAL, DMA_ATTR_SKIP_CPU_SYNC);
	if (dma_mapping_error(dev, space->pool_address)) {
		nvdla_pool_put(space->pool);
		space->pool = NULL;
		return dev_err_probe(dev, -ENXIO,
				     "the device cannot access the reserved memory %pr\n", &range);
	}
	return 0;
}

/*
 * The addresses that a device can use, before memory is mapped for it. It lives as long as the
 * device is bound.
 */
int nvdla_space_start(struct device *dev)
{
	struct nvdla_space **resource =
		devres_alloc(nvdla_space_release, sizeof(*resource), GFP_KERNEL);
	struct nvdla_space *space = kzalloc_obj(*space);

	if (!resource || !space) {
		devres_free(resource);
		kfree(space);
		return -ENOMEM;
	}
	kref_init(&space->references);
	space->dev = get_device(dev);
	space->translated = nvdla_space_is_translated(dev);
	init_rwsem(&space->gate);
	mutex_init(&space->lock);
	mutex_init(&space->attachment);
	INIT_LIST_HEAD(&space->memories);
	INIT_LIST_HEAD(&space->domains);
	if (space->translated && nvdla_domains_are_possible(dev))
		space->common = iommu_get_domain_for_dev(dev);
	*resource = space;
	devres_add(dev, resource);
	/* One segment per buffer, whatever its size: the device has no scatter list. */
	dma_set_max_seg_size(dev, UINT_MAX);
	return dev->of_node ? nvdla_space_reserve(space) : 0;
}

/*
 * Begins the mapping of memory for a device, which is not unbound before nvdla_space_leave().
 * -ENODEV if it has been.
 */
static int nvdla_space_enter(struct nvdla_space *space)
{
	down_read(&space->gate);
	if (!space->gone)
		return 0;
	up_read(&space->gate);
	return -ENODEV;
}

static void nvdla_space_leave(struct nvdla_space *space)
{
	up_read(&space->gate);
}

/* As PRIME's own import, of a device that is bound until the import has ended. */
struct drm_gem_object *nvdla_gem_attach(struct drm_device *drm, struct dma_buf *buffer)
{
	struct drm_gem_object *object;
	struct nvdla_space *space;
	int index, ret;

	if (!drm_dev_enter(drm, &index))
		return ERR_PTR(-ENODEV);
	space = nvdla_space_of(drm_dev_dma_dev(drm));
	ret = space ? nvdla_space_enter(space) : -ENODEV;
	object = ret ? ERR_PTR(ret) : drm_gem_prime_import(drm, buffer);
	if (!ret)
		nvdla_space_leave(space);
	drm_dev_exit(index);
	return object;
}

static struct page *nvdla_memory_page(const struct nvdla_memory *memory, size_t index)
{
	return memory->pages ? memory->pages[index] : memory->first + index;
}

/* The frame number of a page of a memory that is not another driver's, and not SRAM. */
unsigned long nvdla_memory_pfn(const struct nvdla_memory *memory, size_t index)
{
	if (memory->pool)
		return PHYS_PFN(memory->pool->start + memory->node.start) + index;
	return page_to_pfn(nvdla_memory_page(memory, index));
}

/*
 * Behind an IOMMU an allocation can take every page of the machine. The OOM killer would then end
 * processes. A client that asks for too much therefore gets an error.
 */
#define NVDLA_GFP (GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_RETRY_MAYFAIL | __GFP_ZERO)

/*
 * Pages from anywhere, in large pieces where there are some, because an IOMMU translates them
 * faster.
 */
static int nvdla_memory_scattered(struct nvdla_memory *memory)
{
	size_t index = 0, count = memory->size >> PAGE_SHIFT;
	unsigned int order = PMD_SHIFT - PAGE_SHIFT, piece;
	struct page *page;

	memory->pages = kvcalloc(count, sizeof(*memory->pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!memory->pages)
		return -ENOMEM;
	while (index < count) {
		order = min_t(unsigned int, order, ilog2(count - index));
		page = alloc_pages(order ? (NVDLA_GFP & ~__GFP_RETRY_MAYFAIL &
					    ~__GFP_DIRECT_RECLAIM) :
					   NVDLA_GFP,
				   order);
		if (!page && !order)
			return -ENOMEM;
		if (!page) {
			order = order > 4 ? 4 : 0;
			continue;
		}
		if (order)
			split_page(page, order);
		for (piece = 0; piece < 1U << order; piece++)
			memory->pages[index++] = page + piece;
	}
	return sg_alloc_table_from_pages(&memory->table, memory->pages, count, 0, memory->size,
					 GFP_KERNEL_ACCOUNT);
}

/* Whether the device can access these pages without a copy. */
static bool nvdla_memory_is_reached(struct nvdla_memory *memory)
{
	struct device *dev = memory->space->dev;
	u64 limit = min_not_zero(dev->coherent_dma_mask, dev->bus_dma_limit);
	dma_addr_t address = phys_to_dma(dev, page_to_phys(memory->first));

	return address != DMA_MAPPING_ERROR && address + memory->size - 1 <= limit;
}

/*
 * The contiguous area for a memory: the device's own, or the common one, which single pages are not
 * taken from.
 */
static struct cma *nvdla_memory_area(struct device *dev, size_t count)
{
#ifdef CONFIG_DMA_CMA
	if (count > 1 || dev->cma_area)
		return dev_get_cma_area(dev);
#endif
	return NULL;
}

static int nvdla_memory_contiguous(struct nvdla_memory *memory)
{
	const gfp_t zones[] = { 0, GFP_DMA32, GFP_DMA };
	size_t index, count = memory->size >> PAGE_SHIFT;
	void *pages;
	int ret;

	memory->area = nvdla_memory_area(memory->space->dev, count);
	if (memory->area)
		memory->first =
			cma_alloc(memory->area, count, min(get_order(memory->size), 8), true);
	if (memory->first && nvdla_memory_is_reached(memory)) {
		for (index = 0; index < count; index++)
			clear_highpage(memory->first + index);
		goto found;
	}
	if (memory->first)
		cma_release(memory->area, memory->first, count);
	memory->area = NULL;
	memory->first = NULL;
	for (index = 0; index < ARRAY_SIZE(zones); index++) {
		if (get_order(memory->size) > MAX_PAGE_ORDER)
			break;
		pages = alloc_pages_exact(memory->size, NVDLA_GFP | zones[index]);
		if (!pages)
			continue;
		memory->first = virt_to_page(pages);
		if (nvdla_memory_is_reached(memory))
			goto found;
		free_pages_exact(pages, memory->size);
		memory->first = NULL;
	}
	return -ENOMEM;

found:
	ret = sg_alloc_table(&memory->table, 1, GFP_KERNEL_ACCOUNT);
	if (!ret)
		sg_set_page(memory->table.sgl, memory->first, memory->size, 0);
	return ret;
}

/* Maps the pages of a memory for its device, at addresses without a gap. The space was entered. */
static int nvdla_memory_map(struct nvdla_memory *memory)
{
	struct nvdla_space *space = memory->space;
	int ret = dma_map_sgtable(space->dev, &memory->table, DMA_BIDIRECTIONAL, DMA_ATTR_NO_WARN);

	if (ret)
		return -ENOMEM;
	memory->dma_address = sg_dma_address(memory->table.sgl);
	if (drm_prime_get_contiguous_size(&memory->table) < memory->size ||
	    (memory->first &&
	     memory->dma_address != phys_to_dma(space->dev, page_to_phys(memory->first)))) {
		/* The DMA API would copy, and there is no moment for a copy. */
		dma_unmap_sgtable(space->dev, &memory->table, DMA_BIDIRECTIONAL, 0);
		return -ENOMEM;
	}
	guard(mutex)(&space->lock);
	list_add(&memory->entry, &space->memories);
	return 0;
}

/* Takes a part of the pool. */
static int nvdla_memory_reserved(struct nvdla_memory *memory)
{
	struct nvdla_pool *pool = memory->space->pool;
	int ret;

	scoped_guard(mutex, &pool->lock)
		ret = drm_mm_insert_node_generic(&pool->mm, &memory->node, memory->size, PAGE_SIZE,
						 0, 0);
	if (ret)
		return -ENOMEM;
	kref_get(&pool->references);
	memory->pool = pool;
	memory->dma_address = memory->space->pool_address + memory->node.start;
	memory->vaddr = pool->vaddr + memory->node.start;
	memset(memory->vaddr, 0, memory->size);
	return 0;
}

static struct nvdla_memory *nvdla_memory_new(struct nvdla_space *space, u64 size)
{
	struct nvdla_memory *memory = kzalloc_obj(*memory, GFP_KERNEL_ACCOUNT);

	if (!memory)
		return NULL;
	INIT_LIST_HEAD(&memory->entry);
	memory->size = size;
	if (space) {
		kref_get(&space->references);
		memory->space = space;
	}
	return memory;
}

/*
 * Memory of whole pages, filled with zeros. The caller prevents the device from being unregistered.
 */
struct nvdla_memory *nvdla_memory_alloc(struct drm_device *drm, u64 size, u32 flags)
{
	struct device *dev = drm_dev_dma_dev(drm);
	struct nvdla_space *space = nvdla_space_of(dev);
	struct nvdla_memory *memory;
	int ret;

	if (!space)
		return ERR_PTR(-ENODEV);
	if (size > (UINT_MAX & PAGE_MASK) || size >> PAGE_SHIFT > totalram_pages())
		return ERR_PTR(-ENOMEM);
	ret = nvdla_space_enter(space);
	if (ret)
		return ERR_PTR(ret);
	memory = nvdla_memory_new(space, size);
	if (!memory) {
		nvdla_space_leave(space);
		return ERR_PTR(-ENOMEM);
	}
	memory->uncached = space->pool ||
			   (!dev_is_dma_coherent(dev) && !(flags & NVDLA_MEMORY_CACHED));
	if (space->pool) {
		ret = nvdla_memory_reserved(memory);
	} else {
		ret = space->translated ? nvdla_memory_scattered(memory) :
					  nvdla_memory_contiguous(memory);
		if (!ret)
			ret = nvdla_memory_map(memory);
	}
	nvdla_space_leave(space);
	if (!ret)
		return memory;
	nvdla_memory_free(memory);
	return ERR_PTR(ret);
}

/* The memory of a part of the SRAM. */
struct nvdla_memory *nvdla_memory_of_block(struct nvdla_block *block, u64 dma_address, u64 size)
{
	struct nvdla_memory *memory = nvdla_memory_new(NULL, size);

	if (!memory)
		return ERR_PTR(-ENOMEM);
	memory->dma_address = dma_address;
	memory->block = block;
	return memory;
}

/* Another driver's memory, attached and mapped by PRIME. */
struct nvdla_memory *nvdla_memory_import(struct drm_device *drm,
					 struct dma_buf_attachment *attachment,
					 struct sg_table *table)
{
	struct nvdla_space *space = nvdla_space_of(drm_dev_dma_dev(drm));
	struct dma_buf *buffer = attachment->dmabuf;
	struct nvdla_memory *memory;

	/* The hardware has no scatter list, and a DRM object consists of whole pages. */
	if (!PAGE_ALIGNED(buffer->size) || drm_prime_get_contiguous_size(table) < buffer->size)
		return ERR_PTR(-EINVAL);
	if (!space)
		return ERR_PTR(-ENODEV);
	memory = nvdla_memory_new(space, buffer->size);
	if (!memory)
		return ERR_PTR(-ENOMEM);
	memory->dma_address = sg_dma_address(table->sgl);
	/*
	 * A mapping needs a reference of its own, because PRIME puts its reference before the
	 * memory is freed.
	 */
	memory->dma_buf = buffer;
	memory->reservation = buffer->resv;
	get_dma_buf(buffer);
	return memory;
}

/*
 * The import has succeeded: from now on the driver ends the attachment's mapping, and PRIME does
 * not.
 */
void nvdla_memory_imported(struct nvdla_memory *memory, struct dma_buf_attachment *attachment,
			   struct sg_table *table)
{
	guard(mutex)(&memory->space->lock);
	memory->attachment = attachment;
	memory->imported = table;
	list_add(&memory->entry, &memory->space->memories);
}

/*
 * Ends the device's mapping of a memory that nobody uses any more. Returns false for a lost memory,
 * which gets a mark: a device that cannot be stopped may still write to these addresses, so they stay
 * in use until it is unbound. The memory may then be freed at any time.
 */
static bool nvdla_memory_unmap(struct nvdla_memory *memory, bool *mark)
{
	struct nvdla_space *space = memory->space;

	if (!space)
		return true;
	guard(mutex)(&space->lock);
	if (memory->lost && !list_empty(&memory->entry)) {
		*mark = true;
		return false;
	}
	nvdla_memory_end(memory);
	return true;
}

/* Ends the mapping of another driver's memory. Returns false if the attachment must stay. */
bool nvdla_memory_detach(struct nvdla_memory *memory)
{
	return nvdla_memory_unmap(memory, &memory->kept);
}

/*
 * Frees it. The attachment of another driver's memory is released by nvdla_gem_free(), or by PRIME
 * if the import failed.
 */
void nvdla_memory_free(struct nvdla_memory *memory)
{
	if (nvdla_memory_unmap(memory, &memory->abandoned))
		nvdla_memory_release(memory);
}

/* Bytes of the machine's memory. */
u64 nvdla_memory_total(void)
{
	return (u64)totalram_pages() << PAGE_SHIFT;
}

/* The kernel's mapping of a memory's pages. */
static void *nvdla_memory_vmap(struct nvdla_memory *memory)
{
	size_t index, count = memory->size >> PAGE_SHIFT;
	struct page **pages = memory->pages;
	void *vaddr;

	if (memory->first && !memory->uncached && !PageHighMem(memory->first))
		return page_address(memory->first);
	if (!pages) {
		pages = kvmalloc_array(count, sizeof(*pages), GFP_KERNEL | __GFP_NOWARN);
		if (!pages)
			return NULL;
		for (index = 0; index < count; index++)
			pages[index] = memory->first + index;
	}
	vaddr = vmap(pages, count, VM_MAP,
		     memory->uncached ? pgprot_writecombine(PAGE_KERNEL) : PAGE_KERNEL);
	if (pages != memory->pages)
		kvfree(pages);
	memory->mapped = vaddr;
	return vaddr;
}

/*
 * Maps a memory for the kernel, if it is not mapped yet. -EOPNOTSUPP for memory that the processor
 * cannot access like normal memory.
 *
 * The caller has locked the reservation, as for every vmap of a dma-buf. No lock of a device is
 * taken: the memory may be a buffer of another device of this driver, which maps it under that
 * lock, and two devices may map buffers of each other at the same time.
 */
int nvdla_memory_open_locked(struct nvdla_memory *memory)
{
	struct iosys_map map;
	void *vaddr;
	int ret;

	if (memory->block)
		return -EOPNOTSUPP;
	dma_resv_assert_held(memory->reservation);
	if (memory->vaddr)
		return 0;
	if (memory->dma_buf) {
		ret = dma_buf_vmap(memory->dma_buf, &map);
		if (ret)
			return ret;
		if (map.is_iomem) {
			dma_buf_vunmap(memory->dma_buf, &map);
			return -EOPNOTSUPP;
		}
		vaddr = map.vaddr;
	} else {
		vaddr = nvdla_memory_vmap(memory);
		if (!vaddr)
			return -ENOMEM;
	}
	/* The mapping is complete before others see its address. */
	smp_store_release(&memory->vaddr, vaddr);
	return 0;
}

/* The same without the reservation's lock. Sleeps; -EINTR after a signal. */
int nvdla_memory_open(struct nvdla_memory *memory)
{
	int ret;

	if (memory->block)
		return -EOPNOTSUPP;
	/* Pairs with the release of a mapping that is complete. */
	if (smp_load_acquire(&memory->vaddr))
		return 0;
	ret = dma_resv_lock_interruptible(memory->reservation, NULL);
	if (ret)
		return ret;
	ret = nvdla_memory_open_locked(memory);
	dma_resv_unlock(memory->reservation);
	return ret;
}

/*
 * Begins reads by the kernel of memory that nvdla_memory_open() has mapped: the exporter makes
 * visible what devices have written, and may wait for them.
 */
int nvdla_memory_begin_read(struct nvdla_memory *memory)
{
	return memory->dma_buf ? dma_buf_begin_cpu_access(memory->dma_buf, DMA_FROM_DEVICE) : 0;
}

void nvdla_memory_end_read(struct nvdla_memory *memory)
{
	if (memory->dma_buf)
		dma_buf_end_cpu_access(memory->dma_buf, DMA_FROM_DEVICE);
}

/*
 * Copies from memory that user space and devices may write at the same time. The caller checks and
 * uses the same copy: the function is not inlined into its Rust callers, so the compiler cannot
 * read the memory a second time instead.
 */
void nvdla_memory_read(const struct nvdla_memory *memory, u64 offset, void *to, size_t length)
{
	memcpy(to, memory->vaddr + offset, length);
	barrier_data(to);
}

/*
 * Writes memory that the device has written, at the end of its task. User space invalidates its
 * cache before it reads what the device has written, and must not lose these bytes with that.
 */
void nvdla_memory_write(const struct nvdla_memory *memory, u64 offset, const void *from,
			size_t length)
{
	struct nvdla_space *space = memory->space;
	size_t piece;

	memcpy(memory->vaddr + offset, from, length);
	if (!space || memory->uncached || dev_is_dma_coherent(space->dev))
		return;
	/* Neighbours in the device's addresses may be apart in memory. */
	for (; length; offset += piece, length -= piece) {
		piece = min_t(size_t, length, PAGE_SIZE - offset_in_page(offset));
		dma_sync_single_for_device(space->dev, memory->dma_address + offset, piece,
					   DMA_TO_DEVICE);
	}
}

/*
 * The memory is never freed, also after the object is freed, because a device that cannot be
 * stopped may still write it. Another driver's memory keeps a reference to its exporter's buffer. A
 * part of the SRAM or of reserved memory stays in use.
 */
void nvdla_memory_lose(struct nvdla_memory *memory)
{
	memory->lost = true;
}

/* A list of the pages, for others that map the memory. */
struct sg_table *nvdla_memory_table(const struct nvdla_memory *memory)
{
	size_t count = memory->size >> PAGE_SHIFT;
	struct sg_table *table;
	int ret;

	table = kzalloc_obj(*table);
	if (!table)
		return ERR_PTR(-ENOMEM);
	if (memory->pages) {
		ret = sg_alloc_table_from_pages(table, memory->pages, count, 0, memory->size,
						GFP_KERNEL);
	} else {
		ret = sg_alloc_table(table, 1, GFP_KERNEL);
		if (!ret)
			sg_set_page(table->sgl, pfn_to_page(nvdla_memory_pfn(memory, 0)),
				    memory->size, 0);
	}
	if (!ret)
		return table;
	kfree(table);
	return ERR_PTR(ret);
}

/*
 * Whether every page has the kernel's description, which others need that map the memory. Not all
 * reserved memory has.
 */
bool nvdla_memory_has_pages(const struct nvdla_memory *memory)
{
	size_t index, count = memory->size >> PAGE_SHIFT;

	if (!memory->pool)
		return true;
	for (index = 0; index < count; index++)
		if (!pfn_valid(nvdla_memory_pfn(memory, index)))
			return false;
	return true;
}

/*
 * Makes writes of one side visible to the other, for memory that the processor caches and the
 * device does not see. The processor reads, writes, or both.
 */
int nvdla_memory_sync(struct nvdla_memory *memory, bool read, bool write, bool to_device)
{
	enum dma_data_direction direction = !write ? DMA_FROM_DEVICE :
					    read   ? DMA_BIDIRECTIONAL :
						     DMA_TO_DEVICE;
	struct nvdla_space *space = memory->space;

	if (!space || memory->uncached)
		return 0;
	if (memory->dma_buf)
		return to_device ? dma_buf_end_cpu_access(memory->dma_buf, direction) :
				   dma_buf_begin_cpu_access(memory->dma_buf, direction);
	guard(mutex)(&space->lock);
	/* The end of the device's mapping has made everything visible. */
	if (list_empty(&memory->entry))
		return 0;
	if (to_device)
		dma_sync_sgtable_for_device(space->dev, &memory->table, direction);
	else
		dma_sync_sgtable_for_cpu(space->dev, &memory->table, direction);
	return 0;
}
