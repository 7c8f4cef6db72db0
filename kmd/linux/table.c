// SPDX-License-Identifier: GPL-2.0-only
/*
 * DRM's driver table. The kernel crate makes it a constant without import of foreign buffers and without usage figures;
 * a device gets a copy that has both, and a debugfs file, before it is registered.
 */

#include <linux/fs.h>
#include <linux/mutex.h>
#include <drm/drm_debugfs.h>
#include <drm/drm_drv.h>
#include <drm/drm_file.h>
#include <drm/drm_print.h>

#include "helpers.h"

static void nvdla_show_fdinfo(struct drm_printer *printer, struct drm_file *file)
{
	drm_printf(printer, "drm-engine-dla:\t%llu ns\n", nvdla_client_busy_ns(file));
	drm_show_memory_stats(printer, file);
	drm_printf(printer, "drm-total-sram:\t%llu KiB\n", nvdla_client_sram(file) >> 10);
}

static int nvdla_state_show(struct seq_file *file, void *data)
{
	struct drm_debugfs_entry *entry = file->private;

	nvdla_core_show(entry->dev, file);
	return 0;
}

static int (*plain_open)(struct drm_device *drm, struct drm_file *file);

/* DRM's number of the client, which fdinfo shows, is the driver's too. The kernel crate does not pass it on. */
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
	/* The kernel crate has one table for all devices of a driver, so the first device's is every device's. */
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
