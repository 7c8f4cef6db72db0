/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the Rust part of the module calls in C, where the kernel crate has no abstraction, and the few functions that C
 * calls back. Each function has one job and keeps no state of its own.
 */
#ifndef NVDLA_HELPERS_H
#define NVDLA_HELPERS_H

#include <linux/types.h>

struct dma_buf_attachment;
struct dma_fence;
struct device;
struct nvdla_watch;
struct nvdla_worker;
struct drm_device;
struct drm_file;
struct drm_gem_object;
struct drm_gem_object_funcs;
struct reset_control;
struct sg_table;

/*
 * The memory behind a GEM object: contiguous in DMA addresses, because the hardware has no scatter list.
 * The same layout stands in gem.rs.
 */
struct nvdla_memory {
	void *vaddr;		/* kernel address, readable by the CPU */
	u64 dma_address;	/* address for the device */
	u64 size;		/* bytes */
	struct device *dev;	/* allocator; NULL for imported memory */
	struct sg_table *imported;
	struct dma_buf *dma_buf;
};

/* gem.c */
int nvdla_memory_alloc(struct drm_device *drm, u64 size, struct nvdla_memory *memory);
int nvdla_memory_import(struct dma_buf_attachment *attachment, struct sg_table *table, struct nvdla_memory *memory);
void nvdla_memory_free(struct nvdla_memory *memory);
void nvdla_gem_extend(struct drm_gem_object *object);
struct drm_gem_object *nvdla_gem_from_fd(struct drm_device *drm, struct drm_file *file, int fd);

/* table.c */
void nvdla_drm_extend(struct drm_device *drm);

/* fence.c */
u64 nvdla_fence_context(void);
struct dma_fence *nvdla_fence_create(u64 context, u64 seqno);
int nvdla_fence_export(struct dma_fence *fence);
void nvdla_fence_signal(struct dma_fence *fence, int error);
void nvdla_fence_put(struct dma_fence *fence);
struct nvdla_watch *nvdla_watch_create(int fd, struct nvdla_worker *worker);
void nvdla_watch_destroy(struct nvdla_watch *watch);
int nvdla_watch_status(struct nvdla_watch *watch);

/* platform_helper.c */
struct reset_control *nvdla_platform_start(struct device *dev);
int nvdla_reset(struct device *dev, struct reset_control *lines);

/* worker.c */
struct nvdla_worker *nvdla_worker_create(void *core);
void nvdla_worker_destroy(struct nvdla_worker *worker);
void nvdla_worker_kick(struct nvdla_worker *worker);
void nvdla_worker_arm(struct nvdla_worker *worker, u64 ns);
void nvdla_worker_disarm(struct nvdla_worker *worker);

/* Rust. */
struct nvdla_memory *nvdla_object_memory(struct drm_gem_object *object);
struct drm_gem_object *nvdla_object_import(struct drm_device *drm, struct dma_buf_attachment *attachment,
					   struct sg_table *table);
u64 nvdla_client_busy_ns(struct drm_file *file);
void nvdla_core_advance(void *core);
void nvdla_core_expired(void *core);

#endif
