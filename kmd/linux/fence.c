// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fences: one for each task, exported to user space as a sync_file, and foreign ones that a task waits for.
 */

#include <linux/dma-fence.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/slab.h>
#include <linux/sync_file.h>

#include "helpers.h"

static const char *nvdla_fence_driver(struct dma_fence *fence)
{
	return "nvdla";
}

static const char *nvdla_fence_timeline(struct dma_fence *fence)
{
	return "nvdla-task";
}

/*
 * Without release and wait functions, the kernel's fence code does not use this table after the fence has signalled, so
 * that the module can unload.
 */
static const struct dma_fence_ops nvdla_fence_ops = {
	.get_driver_name = nvdla_fence_driver,
	.get_timeline_name = nvdla_fence_timeline,
};

/*
 * Each fence has a context of its own: fences of one context must signal in the order of their numbers, and tasks of
 * different clients, or of two threads of one, end in any order.
 */
struct dma_fence *nvdla_fence_create(void)
{
	struct dma_fence *fence = kzalloc(sizeof(*fence), GFP_KERNEL_ACCOUNT);

	if (fence)
		dma_fence_init64(fence, &nvdla_fence_ops, NULL, dma_fence_context_alloc(1), 1);
	return fence;
}

/*
 * Reserves a descriptor that polls readable when the fence has signalled. User space sees it only once it is installed;
 * until then it can be abandoned. Returns the descriptor or an error.
 */
int nvdla_fence_reserve(struct dma_fence *fence, struct sync_file **sync)
{
	int fd = get_unused_fd_flags(O_CLOEXEC);

	if (fd < 0)
		return fd;
	*sync = sync_file_create(fence);
	if (!*sync) {
		put_unused_fd(fd);
		return -ENOMEM;
	}
	return fd;
}

void nvdla_fence_install(int fd, struct sync_file *sync)
{
	fd_install(fd, sync->file);
}

void nvdla_fence_abandon(int fd, struct sync_file *sync)
{
	fput(sync->file);
	put_unused_fd(fd);
}

void nvdla_fence_put(struct dma_fence *fence)
{
	dma_fence_put(fence);
}

void nvdla_fence_signal(struct dma_fence *fence, int error)
{
	if (error)
		dma_fence_set_error(fence, error);
	dma_fence_signal(fence);
}

/*
 * The code between these two calls must end before a fence can signal. lockdep therefore reports what could wait for a
 * fence there. The works in worker.c call the kernel's functions directly.
 */
bool nvdla_signalling_begin(void)
{
	return dma_fence_begin_signalling();
}

void nvdla_signalling_end(bool cookie)
{
	dma_fence_end_signalling(cookie);
}

/* A task's wait for a foreign fence. */
struct nvdla_watch {
	struct dma_fence_cb callback;
	struct dma_fence *fence;
	struct nvdla_worker *worker;
};

static void nvdla_watch_signalled(struct dma_fence *fence, struct dma_fence_cb *callback)
{
	nvdla_worker_unblock(container_of(callback, struct nvdla_watch, callback)->worker);
}

/*
 * Watches the fence behind a sync_file descriptor: the worker looks for tasks to start when it signals. Returns an error pointer
 * for a descriptor that is not a sync_file, and when memory is short.
 */
struct nvdla_watch *nvdla_watch_create(int fd, struct nvdla_worker *worker)
{
	struct dma_fence *fence = sync_file_get_fence(fd);
	struct nvdla_watch *watch;

	if (!fence)
		return ERR_PTR(-EBADF);
	watch = kzalloc(sizeof(*watch), GFP_KERNEL_ACCOUNT);
	if (!watch) {
		dma_fence_put(fence);
		return ERR_PTR(-ENOMEM);
	}
	watch->fence = fence;
	watch->worker = worker;
	nvdla_worker_get(worker);
	/* Fails only when the fence has signalled already, and then there is nothing to do. */
	if (dma_fence_add_callback(fence, &watch->callback, nvdla_watch_signalled))
		INIT_LIST_HEAD(&watch->callback.node);
	return watch;
}

/* After this the callback does not run any more. */
void nvdla_watch_destroy(struct nvdla_watch *watch)
{
	dma_fence_remove_callback(watch->fence, &watch->callback);
	dma_fence_put(watch->fence);
	nvdla_worker_put(watch->worker);
	kfree(watch);
}

/* 0 while the fence is pending, 1 when it has signalled without an error, else its negative error. */
int nvdla_watch_status(struct nvdla_watch *watch)
{
	return dma_fence_get_status(watch->fence);
}
