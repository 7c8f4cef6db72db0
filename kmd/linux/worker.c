// SPDX-License-Identifier: GPL-2.0-only
/*
 * The works of a device: one that looks whether the running task can go on, one that looks for
 * tasks whose fences have signalled, one that fires when a task's time is up, one that attaches the
 * IOMMU's domain of the client whose task is next, one that frees what has ended. The kernel crate
 * can queue work but neither move a deadline nor wait for a work to end.
 *
 * Fences signal in the first four, and memory reclaim may wait for fences. So these run on a queue
 * that reclaim can count on. The first three run inside a signalling section in which lockdep sees
 * an allocation or a reservation lock that reclaim could wait for; domain.c says why the fourth
 * does not. The work that frees buffers takes such locks, so it runs on another queue.
 */

#include <linux/dma-fence.h>
#include <linux/kref.h>
#include <linux/ratelimit.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "helpers.h"

struct nvdla_worker {
	struct delayed_work kick;
	struct work_struct unblock;
	struct delayed_work watchdog;
	struct work_struct attach;
	struct work_struct cleanup;
	struct workqueue_struct *queue;
	struct ratelimit_state messages;
	void *core;
	struct kref references;
};

static void nvdla_worker_run(struct work_struct *work)
{
	bool cookie = dma_fence_begin_signalling();

	nvdla_core_advance(container_of(to_delayed_work(work), struct nvdla_worker, kick)->core);
	dma_fence_end_signalling(cookie);
}

static void nvdla_worker_signalled(struct work_struct *work)
{
	bool cookie = dma_fence_begin_signalling();

	nvdla_core_unblock(container_of(work, struct nvdla_worker, unblock)->core);
	dma_fence_end_signalling(cookie);
}

static void nvdla_worker_expired(struct work_struct *work)
{
	bool cookie = dma_fence_begin_signalling();

	nvdla_core_expired(
		container_of(to_delayed_work(work), struct nvdla_worker, watchdog)->core);
	dma_fence_end_signalling(cookie);
}

static void nvdla_worker_switch(struct work_struct *work)
{
	nvdla_core_attach(container_of(work, struct nvdla_worker, attach)->core);
}

static void nvdla_worker_clean(struct work_struct *work)
{
	nvdla_core_clean(container_of(work, struct nvdla_worker, cleanup)->core);
}

/* The core must live until nvdla_worker_stop(). The caller holds the first reference. */
struct nvdla_worker *nvdla_worker_create(void *core)
{
	struct nvdla_worker *worker = kzalloc_obj(*worker);

	if (!worker)
		return NULL;
	worker->queue = alloc_workqueue("nvdla", WQ_MEM_RECLAIM | WQ_UNBOUND, 0);
	if (!worker->queue) {
		kfree(worker);
		return NULL;
	}
	INIT_DELAYED_WORK(&worker->kick, nvdla_worker_run);
	INIT_WORK(&worker->unblock, nvdla_worker_signalled);
	INIT_DELAYED_WORK(&worker->watchdog, nvdla_worker_expired);
	INIT_WORK(&worker->attach, nvdla_worker_switch);
	INIT_WORK(&worker->cleanup, nvdla_worker_clean);
	ratelimit_state_init(&worker->messages, DEFAULT_RATELIMIT_INTERVAL,
			     DEFAULT_RATELIMIT_BURST);
	worker->core = core;
	kref_init(&worker->references);
	return worker;
}

/* Waits for the works to end. Requests to kick, arm or clean have no effect after this. */
void nvdla_worker_stop(struct nvdla_worker *worker)
{
	disable_delayed_work_sync(&worker->watchdog);
	disable_delayed_work_sync(&worker->kick);
	disable_work_sync(&worker->unblock);
	disable_work_sync(&worker->attach);
	disable_work_sync(&worker->cleanup);
}

void nvdla_worker_get(struct nvdla_worker *worker)
{
	kref_get(&worker->references);
}

static void nvdla_worker_free(struct kref *references)
{
	struct nvdla_worker *worker = container_of(references, struct nvdla_worker, references);

	/* Nothing is queued: the works were disabled. */
	destroy_workqueue(worker->queue);
	kfree(worker);
}

/* May sleep. Not called by a work of the queue. */
void nvdla_worker_put(struct nvdla_worker *worker)
{
	kref_put(&worker->references, nvdla_worker_free);
}

/* Looks at the device in a moment, because it was not ready. May be called in any context. */
void nvdla_worker_kick(struct nvdla_worker *worker)
{
	queue_delayed_work(worker->queue, &worker->kick, 1);
}

/* A fence that tasks wait for has signalled. May be called in any context. */
void nvdla_worker_unblock(struct nvdla_worker *worker)
{
	queue_work(worker->queue, &worker->unblock);
}

/* The task that is next needs another domain than the last one. May be called in any context. */
void nvdla_worker_attach(struct nvdla_worker *worker)
{
	queue_work(worker->queue, &worker->attach);
}

/*
 * Moves the deadline to `ns` nanoseconds from now, or to an hour from now if that is earlier: the
 * jiffies of a far deadline do not fit a long of 32 bits. A watchdog that expires before the
 * deadline is armed again.
 */
void nvdla_worker_arm(struct nvdla_worker *worker, u64 ns)
{
	ns = min_t(u64, ns, 3600ULL * NSEC_PER_SEC);
	mod_delayed_work(worker->queue, &worker->watchdog, nsecs_to_jiffies(ns) + 1);
}

void nvdla_worker_disarm(struct nvdla_worker *worker)
{
	cancel_delayed_work(&worker->watchdog);
}

/* May be called in any context. */
void nvdla_worker_cleanup(struct nvdla_worker *worker)
{
	queue_work(system_dfl_wq, &worker->cleanup);
}

/* Waits until the ended jobs are freed. None is freed during an attachment. */
void nvdla_worker_flush(struct nvdla_worker *worker)
{
	flush_work(&worker->attach);
	flush_work(&worker->cleanup);
}

/* Whether another message about a client may be logged: ten in five seconds. */
bool nvdla_worker_may_log(struct nvdla_worker *worker)
{
	return __ratelimit(&worker->messages);
}
