/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The C functions that the Rust part of the module calls because the kernel crate has no
 * abstraction for them, and the few Rust functions that C calls.
 */
#ifndef NVDLA_HELPERS_H
#define NVDLA_HELPERS_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rwsem.h>
#include <linux/scatterlist.h>
#include <linux/types.h>
#include <drm/drm_mm.h>

struct cma;
struct dma_buf;
struct dma_buf_attachment;
struct dma_fence;
struct dma_resv;
struct device;
struct iommu_domain;
struct nvdla_block;
struct nvdla_domain;
struct nvdla_pool;
struct nvdla_power;
struct nvdla_target;
struct nvdla_watch;
struct nvdla_worker;
struct drm_device;
struct drm_file;
struct drm_gem_object;
struct drm_gem_object_funcs;
struct seq_file;
struct sync_file;
struct vm_area_struct;
struct vm_operations_struct;
struct ww_acquire_ctx;

/*
 * What a bound device can access. Buffers and clients hold a reference, because they may outlive the
 * binding.
 */
struct nvdla_space {
	struct kref references;
	struct device *dev;
	bool translated; /* an IOMMU makes scattered pages contiguous */
	struct rw_semaphore gate; /* held for reading while memory is mapped; protects `gone` */
	bool gone; /* the device is not bound any more */
	struct mutex lock; /* protects both lists, and the mapping of the memories */
	struct list_head memories;
	struct list_head domains; /* of clients */
	struct iommu_domain *common; /* the DMA API's, with all memories; NULL: clients share it */
	struct mutex attachment; /* protects `attached`; no memory is reclaimed under it */
	struct nvdla_domain *attached; /* instead of the common domain, or NULL */
	struct nvdla_pool *pool; /* reserved memory that all buffers come from, or NULL */
	dma_addr_t pool_address; /* the device's address of the pool */
};

/* Flags of nvdla_memory_alloc(). */
#define NVDLA_MEMORY_CACHED 1 /* cached, whether the device sees the cache or not */

/*
 * The memory behind a GEM object: contiguous in DMA addresses, because the hardware has no scatter
 * list. ffi.rs has the first members.
 */
struct nvdla_memory {
	u64 dma_address; /* address for the device */
	u64 size; /* bytes */
	struct nvdla_block *block; /* part of the SRAM, which only the device accesses, or NULL */
	struct dma_buf *dma_buf; /* another driver's memory, or NULL */
	void *vaddr; /* kernel address; NULL until nvdla_memory_open() */
	struct dma_resv *reservation; /* of the object; its lock protects the mapping at `vaddr` */
	struct nvdla_space *space; /* the device that it was mapped for; NULL for SRAM */
	struct list_head entry; /* in the space's list while the device has a mapping */
	struct page **pages; /* scattered pages, or NULL */
	struct page *first; /* the first of contiguous pages, or NULL */
	struct cma *area; /* where contiguous pages come from; NULL for the page allocator */
	struct sg_table table; /* the pages, as they are mapped for the device */
	struct dma_buf_attachment *attachment; /* of another driver's memory */
	struct sg_table *imported; /* its mapping */
	struct nvdla_pool *pool; /* reserved memory that it is a part of, or NULL */
	struct drm_mm_node node; /* its place there */
	bool uncached; /* the processor's mappings are write-combined */
	bool mapped; /* `vaddr` is a mapping of its own */
	bool lost; /* a device that cannot be stopped may still write it: never freed */
	bool abandoned; /* lost, and nobody's: only the device's mapping is left */
	bool kept; /* lost, and PRIME has not detached it */
};

/* memory.c */
int nvdla_space_start(struct device *dev);
struct nvdla_space *nvdla_space_of(struct device *dev);
void nvdla_space_put(struct nvdla_space *space);
void nvdla_space_stop(struct device *dev);
bool nvdla_space_is_translated(struct device *dev);
bool nvdla_space_is_uncached(struct device *dev);
struct drm_gem_object *nvdla_gem_attach(struct drm_device *drm, struct dma_buf *buffer);
struct nvdla_memory *nvdla_memory_alloc(struct drm_device *drm, u64 size, u32 flags);
struct nvdla_memory *nvdla_memory_of_block(struct nvdla_block *block, u64 dma_address, u64 size);
struct nvdla_memory *nvdla_memory_import(struct drm_device *drm,
					 struct dma_buf_attachment *attachment,
					 struct sg_table *table);
void nvdla_memory_imported(struct nvdla_memory *memory, struct dma_buf_attachment *attachment,
			   struct sg_table *table);
bool nvdla_memory_detach(struct nvdla_memory *memory);
void nvdla_memory_free(struct nvdla_memory *memory);
int nvdla_memory_open(struct nvdla_memory *memory);
int nvdla_memory_open_locked(struct nvdla_memory *memory);
int nvdla_memory_begin_read(struct nvdla_memory *memory);
void nvdla_memory_end_read(struct nvdla_memory *memory);
void nvdla_memory_read(const struct nvdla_memory *memory, u64 offset, void *to, size_t length);
void nvdla_memory_write(const struct nvdla_memory *memory, u64 offset, const void *from,
			size_t length);
u64 nvdla_memory_total(void);
void nvdla_memory_lose(struct nvdla_memory *memory);
unsigned long nvdla_memory_pfn(const struct nvdla_memory *memory, size_t index);
struct sg_table *nvdla_memory_table(const struct nvdla_memory *memory);
bool nvdla_memory_has_pages(const struct nvdla_memory *memory);
int nvdla_memory_sync(struct nvdla_memory *memory, bool read, bool write, bool to_device);

/* domain.c */
bool nvdla_domains_are_possible(struct device *dev);
struct nvdla_domain *nvdla_domain_create(struct drm_device *drm);
void nvdla_domain_get(struct nvdla_domain *domain);
void nvdla_domain_put(struct nvdla_domain *domain);
void nvdla_domains_end(struct nvdla_space *space);
int nvdla_domain_add(struct nvdla_domain *domain, const struct nvdla_memory *memory);
void nvdla_domain_remove(struct nvdla_domain *domain, const struct nvdla_memory *memory);
bool nvdla_domain_is_attached(const struct nvdla_domain *domain);
int nvdla_domain_attach(struct nvdla_domain *domain);

/* gem.c */
void nvdla_gem_extend(struct drm_gem_object *object);
struct drm_gem_object *nvdla_gem_import(struct drm_device *drm, struct dma_buf *buffer);
struct drm_gem_object *nvdla_gem_from_fd(struct drm_device *drm, int fd);

/* dump.c */
void nvdla_dump(struct device *dev, const void *bytes, size_t length);

/* sram.c */
int nvdla_sram_start(struct device *dev, u32 bits);
void nvdla_sram_stop(struct device *dev);
u64 nvdla_sram_size(struct device *dev, u64 *used);
int nvdla_sram_save(struct device *dev);
void nvdla_sram_restore(struct device *dev);
struct nvdla_memory *nvdla_memory_alloc_sram(struct drm_device *drm, u64 size);
void nvdla_block_free(struct nvdla_block *block);
int nvdla_block_mmap(struct drm_gem_object *object, struct vm_area_struct *vma);
extern const struct vm_operations_struct nvdla_block_vm_ops;

/* table.c */
void nvdla_drm_extend(struct drm_device *drm);

/* fence.c */
struct dma_fence *nvdla_fence_create(void);
u64 nvdla_fence_context(void);
void nvdla_fence_begin(struct dma_fence *fence, u64 context, u64 number);
void nvdla_fence_discard(struct dma_fence *fence);
void nvdla_fence_share(struct dma_fence *fence, struct drm_gem_object *object, bool write);
struct nvdla_watch *nvdla_watch_sync(struct drm_file *file, u32 handle, u64 point,
				     struct nvdla_worker *worker);
struct nvdla_watch *nvdla_watch_buffer(struct drm_gem_object *object, bool all,
				       struct nvdla_worker *worker);
struct nvdla_target *nvdla_target_create(struct drm_file *file, u32 handle, u64 point);
void nvdla_target_set(struct nvdla_target *target, struct dma_fence *fence);
void nvdla_target_destroy(struct nvdla_target *target);
int nvdla_reservations_lock(struct drm_gem_object **objects, unsigned int count,
			    struct ww_acquire_ctx **context);
void nvdla_reservations_unlock(struct drm_gem_object **objects, unsigned int count,
			       struct ww_acquire_ctx *context);
int nvdla_buffer_wait(struct drm_gem_object *object, bool all, u64 deadline_ns);
int nvdla_fence_reserve(struct dma_fence *fence, struct sync_file **sync);
void nvdla_fence_install(int fd, struct sync_file *sync);
void nvdla_fence_abandon(int fd, struct sync_file *sync);
void nvdla_fence_signal(struct dma_fence *fence, int error);
void nvdla_fence_get(struct dma_fence *fence);
void nvdla_fence_put(struct dma_fence *fence);
bool nvdla_signalling_begin(void);
void nvdla_signalling_end(bool cookie);
struct nvdla_watch *nvdla_watch_create(int fd, struct nvdla_worker *worker);
void nvdla_watch_destroy(struct nvdla_watch *watch);
int nvdla_watch_status(struct nvdla_watch *watch);

/* power.c */
struct nvdla_power *nvdla_power_start(struct device *dev);
int nvdla_power_reach(struct nvdla_power *power, u32 bits);
int nvdla_power_reset(struct nvdla_power *power, bool held);
void nvdla_power_isolate(struct nvdla_power *power);
void nvdla_power_rest(struct nvdla_power *power);
void nvdla_power_connect(struct nvdla_power *power);
void nvdla_power_manage(struct nvdla_power *power, void *core);
void nvdla_power_wake(struct device *dev);
void nvdla_power_unmanage(struct device *dev);
unsigned long nvdla_power_rate(struct device *dev);
int nvdla_power_get(struct device *dev);
void nvdla_power_put(struct device *dev);

/* trace.c */
void nvdla_trace_submit(struct device *dev, u64 client, u32 tasks);
bool nvdla_trace_refused_is_on(void);
void nvdla_trace_refused(struct device *dev, u64 client, u32 task, const char *reason);
void nvdla_trace_task_start(struct device *dev, u64 client, u64 task);
void nvdla_trace_interrupt(struct device *dev);
void nvdla_trace_operation_end(struct device *dev, u32 operation, u8 unit);
void nvdla_trace_task_end(struct device *dev, u64 client, u64 task, int status, u64 busy_ns);

/* worker.c */
struct nvdla_worker *nvdla_worker_create(void *core);
void nvdla_worker_stop(struct nvdla_worker *worker);
void nvdla_worker_get(struct nvdla_worker *worker);
void nvdla_worker_put(struct nvdla_worker *worker);
void nvdla_worker_kick(struct nvdla_worker *worker);
void nvdla_worker_unblock(struct nvdla_worker *worker);
void nvdla_worker_attach(struct nvdla_worker *worker);
void nvdla_worker_arm(struct nvdla_worker *worker, u64 ns);
void nvdla_worker_disarm(struct nvdla_worker *worker);
void nvdla_worker_cleanup(struct nvdla_worker *worker);
void nvdla_worker_flush(struct nvdla_worker *worker);
bool nvdla_worker_may_log(struct nvdla_worker *worker);

/* division.c, on 32-bit Arm */
u64 nvdla_divide(u64 value, u64 divisor, u64 *rest);
void __aeabi_uldivmod(void);

/* process.c */
int nvdla_process_name(char name[16]);
void nvdla_process_yield(void);
bool nvdla_process_may_be_urgent(void);

/* Rust. */
struct nvdla_memory *nvdla_object_memory(struct drm_gem_object *object);
struct drm_gem_object *nvdla_object_import(struct drm_device *drm,
					   struct dma_buf_attachment *attachment,
					   struct sg_table *table);
int nvdla_object_opened(struct drm_gem_object *object, struct drm_file *file);
void nvdla_object_closed(struct drm_gem_object *object, struct drm_file *file);
u64 nvdla_client_busy_ns(struct drm_file *file);
int nvdla_client_opened(struct drm_file *file, u64 id);
void nvdla_core_advance(void *core);
void nvdla_core_unblock(void *core);
void nvdla_core_attach(void *core);
void nvdla_core_expired(void *core);
void nvdla_core_clean(void *core);
int nvdla_core_suspend(void *core);
void nvdla_core_resume(void *core, bool asleep);
void nvdla_core_revive(void *core);
void nvdla_core_rest(void *core);
void nvdla_core_wake(void *core);
void nvdla_core_reset_prepare(void *core);
void nvdla_core_reset_done(void *core, bool asleep);
void nvdla_core_reset_failed(void *core);
void nvdla_core_stop(void *core);
void nvdla_core_show(struct drm_device *drm, struct seq_file *file);

#endif
