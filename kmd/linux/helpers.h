/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The C functions that the Rust part of the module calls because the kernel crate has no abstraction for them, and the
 * few Rust functions that C calls.
 */
#ifndef NVDLA_HELPERS_H
#define NVDLA_HELPERS_H

#include <linux/types.h>

struct dma_buf_attachment;
struct dma_fence;
struct device;
struct nvdla_block;
struct nvdla_pool;
struct nvdla_power;
struct nvdla_watch;
struct nvdla_worker;
struct drm_device;
struct drm_file;
struct drm_gem_object;
struct drm_gem_object_funcs;
struct seq_file;
struct sg_table;
struct sync_file;
struct vm_area_struct;
struct vm_operations_struct;

/*
 * The memory behind a GEM object: contiguous in DMA addresses, because the hardware has no scatter list.
 * gem.rs has the same layout.
 */
struct nvdla_memory {
	void *vaddr;		/* kernel address, readable by the CPU; NULL for SRAM */
	u64 dma_address;	/* address for the device */
	u64 size;		/* bytes */
	struct device *dev;	/* allocator; NULL for imported memory and SRAM */
	struct sg_table *imported;
	struct dma_buf *dma_buf;
	struct nvdla_pool *pool;	/* reserved memory that it comes from, or NULL */
	struct nvdla_block *block;	/* part of the SRAM; NULL for other memory. The processor does not access it */
	bool lost;		/* a device that cannot be stopped may still write it: never freed */
	bool translated;	/* pages that an IOMMU makes contiguous */
};

/* gem.c */
int nvdla_memory_alloc(struct drm_device *drm, u64 size, struct nvdla_memory *memory);
int nvdla_memory_import(struct dma_buf_attachment *attachment, struct sg_table *table, struct nvdla_memory *memory);
void nvdla_memory_free(struct nvdla_memory *memory);
void nvdla_memory_read(const struct nvdla_memory *memory, u64 offset, void *to, size_t length);
u64 nvdla_memory_total(void);
void nvdla_memory_lose(struct nvdla_memory *memory);
void nvdla_gem_extend(struct drm_gem_object *object);
struct drm_gem_object *nvdla_gem_from_fd(struct drm_device *drm, struct drm_file *file, int fd);

/* sram.c */
int nvdla_sram_start(struct device *dev, u32 bits);
void nvdla_sram_stop(struct device *dev);
u64 nvdla_sram_size(struct device *dev, u64 *used);
int nvdla_sram_save(struct device *dev);
void nvdla_sram_restore(struct device *dev);
int nvdla_memory_alloc_sram(struct drm_device *drm, u64 size, struct nvdla_memory *memory);
void nvdla_block_free(struct nvdla_block *block);
int nvdla_block_mmap(struct drm_gem_object *object, struct vm_area_struct *vma);
extern const struct vm_operations_struct nvdla_block_vm_ops;

/* table.c */
void nvdla_drm_extend(struct drm_device *drm);

/* fence.c */
struct dma_fence *nvdla_fence_create(void);
int nvdla_fence_reserve(struct dma_fence *fence, struct sync_file **sync);
void nvdla_fence_install(int fd, struct sync_file *sync);
void nvdla_fence_abandon(int fd, struct sync_file *sync);
void nvdla_fence_signal(struct dma_fence *fence, int error);
void nvdla_fence_put(struct dma_fence *fence);
bool nvdla_signalling_begin(void);
void nvdla_signalling_end(bool cookie);
struct nvdla_watch *nvdla_watch_create(int fd, struct nvdla_worker *worker);
void nvdla_watch_destroy(struct nvdla_watch *watch);
int nvdla_watch_status(struct nvdla_watch *watch);

/* power.c */
struct nvdla_power *nvdla_power_start(struct device *dev);
struct nvdla_pool *nvdla_pool_get(struct device *dev);
void nvdla_pool_put(struct nvdla_pool *pool);
int nvdla_power_reach(struct nvdla_power *power, u32 bits);
int nvdla_power_reset(struct nvdla_power *power, bool held);
bool nvdla_power_isolate(struct nvdla_power *power);
void nvdla_power_manage(struct nvdla_power *power, void *core);
void nvdla_power_unmanage(struct device *dev);
int nvdla_power_get(struct device *dev);
void nvdla_power_put(struct device *dev);

/* trace.c */
void nvdla_trace_submit(struct device *dev, u64 client, u32 tasks);
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
void nvdla_worker_arm(struct nvdla_worker *worker, u64 ns);
void nvdla_worker_disarm(struct nvdla_worker *worker);
void nvdla_worker_cleanup(struct nvdla_worker *worker);
void nvdla_worker_flush(struct nvdla_worker *worker);
bool nvdla_worker_may_log(struct nvdla_worker *worker);

/* process.c */
int nvdla_process_name(char name[16]);
bool nvdla_process_interrupted(void);

/* Rust. */
struct nvdla_memory *nvdla_object_memory(struct drm_gem_object *object);
struct drm_gem_object *nvdla_object_import(struct drm_device *drm, struct dma_buf_attachment *attachment,
					   struct sg_table *table);
u64 nvdla_client_busy_ns(struct drm_file *file);
u64 nvdla_client_sram(struct drm_file *file);
int nvdla_client_opened(struct drm_file *file, u64 id);
void nvdla_core_advance(void *core);
void nvdla_core_unblock(void *core);
void nvdla_core_expired(void *core);
void nvdla_core_clean(void *core);
int nvdla_core_suspend(void *core);
void nvdla_core_resume(void *core, bool asleep);
void nvdla_core_rest(void *core);
void nvdla_core_wake(void *core);
void nvdla_core_show(struct drm_device *drm, struct seq_file *file);

#endif
