// SPDX-License-Identifier: GPL-2.0-only
/*
 * The two works of a device: one that looks for the next task to start, one that fires when a task's time is up. The
 * kernel crate can queue work but neither move a deadline nor wait for a work to end.
 */

#include <linux/kref.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "helpers.h"

struct nvdla_worker {
	struct work_struct kick;
	struct delayed_work watchdog;
	void *core;
	struct kref references;
};

static void nvdla_worker_run(struct work_struct *work)
{
	nvdla_core_advance(container_of(work, struct nvdla_worker, kick)->core);
}

static void nvdla_worker_expired(struct work_struct *work)
{
	nvdla_core_expired(container_of(to_delayed_work(work), struct nvdla_worker, watchdog)->core);
}

/* The core must live until nvdla_worker_stop(). The caller holds the first reference. */
struct nvdla_worker *nvdla_worker_create(void *core)
{
	struct nvdla_worker *worker = kzalloc(sizeof(*worker), GFP_KERNEL);

	if (!worker)
		return NULL;
	INIT_WORK(&worker->kick, nvdla_worker_run);
	INIT_DELAYED_WORK(&worker->watchdog, nvdla_worker_expired);
	worker->core = core;
	kref_init(&worker->references);
	return worker;
}

/* Waits for both works. Who kicks or arms the worker after this does nothing. */
void nvdla_worker_stop(struct nvdla_worker *worker)
{
	disable_delayed_work_sync(&worker->watchdog);
	disable_work_sync(&worker->kick);
}

void nvdla_worker_get(struct nvdla_worker *worker)
{
	kref_get(&worker->references);
}

static void nvdla_worker_free(struct kref *references)
{
	kfree(container_of(references, struct nvdla_worker, references));
}

void nvdla_worker_put(struct nvdla_worker *worker)
{
	kref_put(&worker->references, nvdla_worker_free);
}

/* May be called in any context. */
void nvdla_worker_kick(struct nvdla_worker *worker)
{
	queue_work(system_dfl_wq, &worker->kick);
}

/* Moves the deadline to `ns` nanoseconds from now. */
void nvdla_worker_arm(struct nvdla_worker *worker, u64 ns)
{
	mod_delayed_work(system_dfl_wq, &worker->watchdog, nsecs_to_jiffies(ns) + 1);
}

void nvdla_worker_disarm(struct nvdla_worker *worker)
{
	cancel_delayed_work(&worker->watchdog);
}
