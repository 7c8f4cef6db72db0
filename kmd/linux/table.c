// SPDX-License-Identifier: GPL-2.0-only
/*
 * DRM's driver table. The kernel crate makes it a constant without import of foreign buffers and
 * without usage figures; a device gets a copy that has both, and a debugfs file, before it is
 * registered.
 */

#include <linux/dma-resv.h>
#include <linux/fs.h>
#include <linux/math64.h>
#include <linux/mutex.h>
#include <linux/time64.h>
#include <drm/drm_debugfs.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_print.h>

#include "helpers.h"

/*
 * The buffers of which the client has a handle. drm_show_memory_stats() knows one region only, and
 * the SRAM is another. Memory is allocated with its buffer, so all of it is resident.
 */
static void nvdla_show_memory(struct drm_printer *printer, struct drm_file *file)
{
	const enum drm_gem_object_status all = DRM_GEM_OBJECT_RESIDENT | DRM_GEM_OBJECT_ACTIVE;
	struct drm_memory_stats memory = {}, sram = {}, *region;
	struct drm_gem_object *object;
	int id;

	scoped_guard(spinlock, &file->table_lock) {
		idr_for_each_entry(&file->object_idr, object, id) {
			region = nvdla_object_memory(object)->block ? &sram : &memory;
			if (drm_gem_object_is_shared_for_memory_stats(object))
				region->shared += object->size;
			else
				region->private += object->size;
			region->resident += object->size;
			if (!dma_resv_test_signaled(object->resv, dma_resv_usage_rw(true)))
				region->active += object->size;
		}
	}
	drm_print_memory_stats(printer, &memory, all, "memory");
	if (nvdla_sram_size(drm_dev_dma_dev(file->minor->dev), NULL))
		drm_print_memory_stats(printer, &sram, all, "sram");
}

/*
 * The device has no counter of its cycles. Its clock runs at one rate while a task runs, so they
 * follow from the time.
 */
static void nvdla_show_fdinfo(struct drm_printer *printer, struct drm_file *file)
{
	unsigned long rate = nvdla_power_rate(drm_dev_dma_dev(file->minor->dev));
	u64 busy_ns = nvdla_client_busy_ns(file);

	drm_printf(printer, "drm-engine-dla:\t%llu ns\n", busy_ns);
	if (rate) {
		drm_printf(printer, "drm-cycles-dla:\t%llu\n",
			   mul_u64_u64_div_u64(busy_ns, rate, NSEC_PER_SEC));
		drm_printf(printer, "drm-maxfreq-dla:\t%lu Hz\n", rate);
	}
	nvdla_show_memory(printer, file);
}

static int nvdla_state_show(struct seq_file *file, void *data)
{
	struct drm_debugfs_entry *entry = file->private;

	nvdla_core_show(entry->dev, file);
	return 0;
}

static int (*plain_open)(struct drm_device *drm, struct drm_file *file);

/*
 * DRM's number of the client, which fdinfo shows, is the driver's too. The kernel crate does not
 * pass it on.
 */
static int nvdla_open(struct drm_device *drm, struct drm_file *file)
{
	int ret = plain_open(drm, file);

	if (ret)
		return ret;
	ret = nvdla_client_opened(file, file->client_id);
	if (ret)
		drm->driver->postclose(drm, file);
	return ret;
}

/* Both outlive every device and every open file: what is open holds the module. */
static struct drm_driver nvdla_driver;
static struct file_operations nvdla_fops;
static DEFINE_MUTEX(nvdla_table_lock);

void nvdla_drm_extend(struct drm_device *drm)
{
	guard(mutex)(&nvdla_table_lock);
	/*
	 * The kernel crate has one table for all devices of a driver, so the first device's is
	 * every device's.
	 */
	if (!nvdla_driver.fops) {
		nvdla_fops = *drm->driver->fops;
		nvdla_fops.show_fdinfo = drm_show_fdinfo;
		nvdla_driver = *drm->driver;
		plain_open = nvdla_driver.open;
		nvdla_driver.open = nvdla_open;
		nvdla_driver.show_fdinfo = nvdla_show_fdinfo;
		nvdla_driver.gem_prime_import = nvdla_gem_import;
		nvdla_driver.gem_prime_import_sg_table = nvdla_object_import;
		nvdla_driver.fops = &nvdla_fops;
		nvdla_driver.driver_features |= DRIVER_SYNCOBJ | DRIVER_SYNCOBJ_TIMELINE;
	}
	drm->driver = &nvdla_driver;
	drm_debugfs_add_file(drm, "state", nvdla_state_show, NULL);
}
