// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fences: one for each task, exported to user space as a sync_file, in synchronisation objects and
 * in the reservations of buffers, and foreign ones that a task waits for.
 */

#include <linux/dma-fence.h>
#include <linux/dma-fence-chain.h>
#include <linux/dma-resv.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/sync_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_syncobj.h>
#include <drm/drm_utils.h>

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
 * Without release and wait functions, the kernel's fence code does not use this table after the
 * fence has signalled, so that the module can unload.
 */
static const struct dma_fence_ops nvdla_fence_ops = {
	.get_driver_name = nvdla_fence_driver,
	.get_timeline_name = nvdla_fence_timeline,
};

/* Memory for a fence, which does not exist before nvdla_fence_begin(). */
struct dma_fence *nvdla_fence_create(void)
{
	return kzalloc_obj(struct dma_fence, GFP_KERNEL_ACCOUNT);
}

/*
 * The context of a client's fences, which signal in the order of their numbers because its tasks
 * end in that order.
 */
u64 nvdla_fence_context(void)
{
	return dma_fence_context_alloc(1);
}

void nvdla_fence_begin(struct dma_fence *fence, u64 context, u64 number)
{
	dma_fence_init64(fence, &nvdla_fence_ops, NULL, context, number);
}

void nvdla_fence_discard(struct dma_fence *fence)
{
	kfree(fence);
}

/*
 * Reserves a descriptor that polls readable when the fence has signalled. User space sees it only
 * once it is installed; until then it can be abandoned. Returns the descriptor or an error.
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

void nvdla_fence_get(struct dma_fence *fence)
{
	dma_fence_get(fence);
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
 * The code between these two calls must end before a fence can signal. lockdep therefore reports
 * what could wait for a fence there. The works in worker.c call the kernel's functions directly.
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
 * Watches a fence, whose reference it takes over: the worker looks for tasks to start when it
 * signals.
 */
static struct nvdla_watch *nvdla_watch_of(struct dma_fence *fence, struct nvdla_worker *worker)
{
	struct nvdla_watch *watch = kzalloc_obj(*watch, GFP_KERNEL_ACCOUNT);

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

/* Watches the fence behind a sync_file descriptor. -EBADF for another descriptor. */
struct nvdla_watch *nvdla_watch_create(int fd, struct nvdla_worker *worker)
{
	struct dma_fence *fence = sync_file_get_fence(fd);

	return fence ? nvdla_watch_of(fence, worker) : ERR_PTR(-EBADF);
}

/*
 * Watches the fence of a synchronisation object, or of a point on its timeline. -EINVAL if there is
 * none yet.
 */
struct nvdla_watch *nvdla_watch_sync(struct drm_file *file, u32 handle, u64 point,
				     struct nvdla_worker *worker)
{
	struct dma_fence *fence;
	int ret = drm_syncobj_find_fence(file, handle, point, 0, &fence);

	return ret ? ERR_PTR(ret) : nvdla_watch_of(fence, worker);
}

/*
 * Watches all who use a buffer, or only those who write it. Its reservation is locked, and gets
 * room for a fence. NULL if there is nobody to wait for.
 */
struct nvdla_watch *nvdla_watch_buffer(struct drm_gem_object *object, bool all,
				       struct nvdla_worker *worker)
{
	struct dma_fence *fence;
	int ret = dma_resv_reserve_fences(object->resv, 1);

	if (!ret)
		ret = dma_resv_get_singleton(object->resv, dma_resv_usage_rw(all), &fence);
	if (ret)
		return ERR_PTR(ret);
	return fence ? nvdla_watch_of(fence, worker) : NULL;
}

/* Adds a fence to a reservation that is locked and has room. */
void nvdla_fence_share(struct dma_fence *fence, struct drm_gem_object *object, bool write)
{
	dma_resv_add_fence(object->resv, fence, write ? DMA_RESV_USAGE_WRITE : DMA_RESV_USAGE_READ);
}

/* A synchronisation object that gets a fence. */
struct nvdla_target {
	struct drm_syncobj *object;
	struct dma_fence_chain *chain;	/* for a point on a timeline, or NULL */
	u64 point;
};

/* Prepares it, so that nvdla_target_set() cannot fail. */
struct nvdla_target *nvdla_target_create(struct drm_file *file, u32 handle, u64 point)
{
	struct nvdla_target *target = kzalloc_obj(*target, GFP_KERNEL_ACCOUNT);

	if (!target)
		return ERR_PTR(-ENOMEM);
	target->point = point;
	target->object = drm_syncobj_find(file, handle);
	if (!target->object) {
		kfree(target);
		return ERR_PTR(-ENOENT);
	}
	if (point) {
		target->chain = dma_fence_chain_alloc();
		if (!target->chain) {
			nvdla_target_destroy(target);
			return ERR_PTR(-ENOMEM);
		}
	}
	return target;
}

void nvdla_target_set(struct nvdla_target *target, struct dma_fence *fence)
{
	if (!target->chain) {
		drm_syncobj_replace_fence(target->object, fence);
		return;
	}
	drm_syncobj_add_point(target->object, target->chain, fence, target->point);
	target->chain = NULL;
}

void nvdla_target_destroy(struct nvdla_target *target)
{
	if (target->chain)
		dma_fence_chain_free(target->chain);
	drm_syncobj_put(target->object);
	kfree(target);
}

static int nvdla_compare(const void *left, const void *right)
{
	const struct drm_gem_object *a = *(struct drm_gem_object *const *)left,
				    *b = *(struct drm_gem_object *const *)right;

	return a->resv < b->resv ? -1 : a->resv > b->resv;
}

/*
 * Locks the reservations of objects, each once: sorts the list, and returns how many objects at its
 * beginning have different reservations.
 */
int nvdla_reservations_lock(struct drm_gem_object **objects, unsigned int count,
			    struct ww_acquire_ctx **context)
{
	unsigned int index, kept = 0;
	int ret;

	*context = kzalloc_obj(**context);
	if (!*context)
		return -ENOMEM;
	sort(objects, count, sizeof(*objects), nvdla_compare, NULL);
	for (index = 0; index < count; index++) {
		if (!kept || objects[kept - 1]->resv != objects[index]->resv) {
			swap(objects[kept], objects[index]);
			kept++;
		}
	}
	ret = drm_gem_lock_reservations(objects, kept, *context);
	if (!ret)
		return kept;
	kfree(*context);
	return ret;
}

void nvdla_reservations_unlock(struct drm_gem_object **objects, unsigned int count,
			       struct ww_acquire_ctx *context)
{
	drm_gem_unlock_reservations(objects, count, context);
	kfree(context);
}

/*
 * Waits for those who write a buffer, or for all who use it, until a time of CLOCK_MONOTONIC.
 * -ETIMEDOUT after that, and -ERESTARTSYS for a signal.
 */
int nvdla_buffer_wait(struct drm_gem_object *object, bool all, u64 deadline_ns)
{
	long left = drm_timeout_abs_to_jiffies(min_t(u64, deadline_ns, S64_MAX));
	long ret = dma_resv_wait_timeout(object->resv, dma_resv_usage_rw(all), true, left);

	if (!left && !ret)
		ret = dma_resv_test_signaled(object->resv, dma_resv_usage_rw(all));
	return ret > 0 ? 0 : ret ?: -ETIMEDOUT;
}

/* After this the callback does not run any more. */
void nvdla_watch_destroy(struct nvdla_watch *watch)
{
	dma_fence_remove_callback(watch->fence, &watch->callback);
	dma_fence_put(watch->fence);
	nvdla_worker_put(watch->worker);
	kfree(watch);
}

/*
 * 0 while the fence is pending, 1 when it has signalled without an error, else its negative error.
 */
int nvdla_watch_status(struct nvdla_watch *watch)
{
	return dma_fence_get_status(watch->fence);
}
