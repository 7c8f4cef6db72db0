// SPDX-License-Identifier: GPL-2.0-only
/*
 * Starts, resets, suspends and resumes a device. Besides registers and the interrupt, a device tree may name clocks,
 * resets and reserved memory. All of them are optional, and all are released when the device is unbound.
 */

#include <linux/clk.h>
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/iommu-dma.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/of_reserved_mem.h>
#include <linux/pci.h>
#include <linux/pm.h>
#include <linux/pm_runtime.h>
#include <linux/reset.h>
#include <linux/slab.h>

#include "helpers.h"

/* Microseconds for which reset lines are asserted. They are several cycles, also of a slow clock. */
#define NVDLA_RESET_US 10

/* Milliseconds without a task after which the device is suspended, unless the administrator sets another delay. */
#define NVDLA_AUTOSUSPEND_MS 200

/*
 * The reserved memory that the device tree names for the device. Buffers hold a reference to it, because they may
 * outlive the binding. The next binding finds it in this list and shares it, because reserved memory is assigned to a
 * device once.
 */
struct nvdla_pool {
	struct kref references;
	struct device *dev;
	struct list_head entry;
};

static LIST_HEAD(nvdla_pools);
static DEFINE_MUTEX(nvdla_pools_lock);

struct nvdla_power {
	struct device *dev;
	struct nvdla_pool *pool;	/* NULL where there is none */
	struct clk_bulk_data *clocks;
	int num_clocks;
	struct reset_control *lines;	/* NULL where there are none */
	void *core;			/* what is told of suspend and resume */
};

static void nvdla_pool_release(struct kref *references)
{
	struct nvdla_pool *pool = container_of(references, struct nvdla_pool, references);

	list_del(&pool->entry);
	of_reserved_mem_device_release(pool->dev);
	mutex_unlock(&nvdla_pools_lock);
	put_device(pool->dev);
	kfree(pool);
}

void nvdla_pool_put(struct nvdla_pool *pool)
{
	if (pool)
		kref_put_mutex(&pool->references, nvdla_pool_release, &nvdla_pools_lock);
}

static void nvdla_power_release(struct device *dev, void *resource)
{
	struct nvdla_power *power = resource;

	nvdla_pool_put(power->pool);
}

/* The pool of a bound device with a reference for the caller, or NULL. */
struct nvdla_pool *nvdla_pool_get(struct device *dev)
{
	struct nvdla_power *power = devres_find(dev, nvdla_power_release, NULL, NULL);

	if (!power || !power->pool)
		return NULL;
	kref_get(&power->pool->references);
	return power->pool;
}

static int nvdla_start_pool(struct nvdla_power *power)
{
	struct nvdla_pool *pool;
	int ret;

	guard(mutex)(&nvdla_pools_lock);
	list_for_each_entry(pool, &nvdla_pools, entry) {
		if (pool->dev == power->dev) {
			kref_get(&pool->references);
			power->pool = pool;
			return 0;
		}
	}
	ret = of_reserved_mem_device_init(power->dev);
	if (ret)
		return ret == -ENODEV ? 0 : ret;
	pool = kzalloc(sizeof(*pool), GFP_KERNEL);
	if (!pool) {
		of_reserved_mem_device_release(power->dev);
		return -ENOMEM;
	}
	kref_init(&pool->references);
	pool->dev = get_device(power->dev);
	list_add(&pool->entry, &nvdla_pools);
	power->pool = pool;
	return 0;
}

/* Asserts and deasserts the reset lines, also with a controller that cannot do both in one call. */
static int nvdla_reset_lines(struct reset_control *lines)
{
	int ret = reset_control_reset(lines);

	if (ret != -ENOTSUPP)
		return ret;
	ret = reset_control_assert(lines);
	if (ret)
		return ret;
	fsleep(NVDLA_RESET_US);
	return reset_control_deassert(lines);
}

static int nvdla_start_tree(struct nvdla_power *power)
{
	struct device *dev = power->dev;
	int ret;

	ret = nvdla_start_pool(power);
	if (ret)
		return dev_err_probe(dev, ret, "reserved memory\n");

	power->num_clocks = devm_clk_bulk_get_all_enabled(dev, &power->clocks);
	if (power->num_clocks < 0)
		return dev_err_probe(dev, power->num_clocks, "clocks\n");

	power->lines = devm_reset_control_array_get_optional_exclusive(dev);
	if (IS_ERR(power->lines))
		return dev_err_probe(dev, PTR_ERR(power->lines), "resets\n");
	ret = nvdla_reset_lines(power->lines);
	if (ret)
		return dev_err_probe(dev, ret, "resets\n");
	return 0;
}

/* Turns on what the device tree names, if the device is in one. The result lives as long as the device is bound. */
struct nvdla_power *nvdla_power_start(struct device *dev)
{
	struct nvdla_power *power = devres_alloc(nvdla_power_release, sizeof(*power), GFP_KERNEL);
	int ret;

	if (!power)
		return ERR_PTR(-ENOMEM);
	power->dev = dev;
	devres_add(dev, power);
	ret = dev->of_node ? nvdla_start_tree(power) : 0;
	return ret ? ERR_PTR(ret) : power;
}

/*
 * Sets how many address bits the device has, so that no buffer has an address that it cannot reach. Without an IOMMU
 * this sets the mask of the driver's own buffers only. With a mask for other drivers' buffers, the DMA API would
 * silently copy a buffer at a higher address. Without such a mask, the engine refuses the buffer.
 */
int nvdla_power_reach(struct nvdla_power *power, u32 bits)
{
	if (use_dma_iommu(power->dev))
		return dma_set_mask_and_coherent(power->dev, DMA_BIT_MASK(bits));
	return dma_set_coherent_mask(power->dev, DMA_BIT_MASK(bits));
}

/*
 * Resets the device through its bus or its reset lines. Returns -ENOTSUPP if it has neither, and -EAGAIN while another
 * thread has locked the device. `held` says that the driver core has locked it for the caller, as in a probe, an
 * unbinding and a suspend.
 */
int nvdla_power_reset(struct nvdla_power *power, bool held)
{
	if (dev_is_pci(power->dev)) {
		struct pci_dev *pdev = to_pci_dev(power->dev);

		return held ? pci_reset_function_locked(pdev) : pci_try_reset_function(pdev);
	}
	return power->lines ? nvdla_reset_lines(power->lines) : -ENOTSUPP;
}

/*
 * Disables bus mastering of a device that cannot be stopped in another way. Returns false for a device that is not on
 * PCI.
 */
bool nvdla_power_isolate(struct nvdla_power *power)
{
	if (!dev_is_pci(power->dev))
		return false;
	pci_clear_master(to_pci_dev(power->dev));
	return true;
}

static struct nvdla_power *nvdla_power_of(struct device *dev)
{
	return devres_find(dev, nvdla_power_release, NULL, NULL);
}

/* The machine is suspended; the device may be suspended already. */
static int nvdla_suspend(struct device *dev)
{
	struct nvdla_power *power = nvdla_power_of(dev);
	bool asleep = pm_runtime_status_suspended(dev);
	int ret = nvdla_core_suspend(power->core);

	if (ret)
		return ret;
	ret = nvdla_sram_save(dev);
	if (ret) {
		nvdla_core_resume(power->core, asleep);
		return ret;
	}
	if (!asleep)
		clk_bulk_disable_unprepare(power->num_clocks, power->clocks);
	return 0;
}

static int nvdla_resume(struct device *dev)
{
	struct nvdla_power *power = nvdla_power_of(dev);
	bool asleep = pm_runtime_status_suspended(dev);
	int ret = asleep ? 0 : clk_bulk_prepare_enable(power->num_clocks, power->clocks);

	if (ret)
		return ret;
	nvdla_sram_restore(dev);
	nvdla_core_resume(power->core, asleep);
	return 0;
}

/* The device has had no task for the autosuspend delay. */
static int nvdla_runtime_suspend(struct device *dev)
{
	struct nvdla_power *power = nvdla_power_of(dev);

	nvdla_core_rest(power->core);
	clk_bulk_disable_unprepare(power->num_clocks, power->clocks);
	return 0;
}

static int nvdla_runtime_resume(struct device *dev)
{
	struct nvdla_power *power = nvdla_power_of(dev);
	int ret = clk_bulk_prepare_enable(power->num_clocks, power->clocks);

	if (!ret)
		nvdla_core_wake(power->core);
	return ret;
}

static const struct dev_pm_ops nvdla_pm_ops = {
	SYSTEM_SLEEP_PM_OPS(nvdla_suspend, nvdla_resume)
	RUNTIME_PM_OPS(nvdla_runtime_suspend, nvdla_runtime_resume, NULL)
};

/*
 * Tells the core of suspend and resume from now on. The kernel crate's bus drivers have no such callbacks, so they are
 * put into the C driver that it registered; it is the same for each of its devices.
 *
 * The administrator chooses with power/control in sysfs whether the device is suspended between tasks, as for every PCI
 * device. It saves power. A task that resumes the device takes longer, because the registers are set up again. This is
 * the last step of a probe.
 */
void nvdla_power_manage(struct nvdla_power *power, void *core)
{
	struct device *dev = power->dev;

	power->core = core;
	WRITE_ONCE(dev->driver->pm, pm_ptr(&nvdla_pm_ops));
	pm_runtime_set_autosuspend_delay(dev, NVDLA_AUTOSUSPEND_MS);
	pm_runtime_use_autosuspend(dev);
	if (dev_is_pci(dev)) {
		/* The PCI core has incremented the usage count for the probe, and decrements it after the unbinding. */
		pm_runtime_put_noidle(dev);
	} else {
		pm_runtime_set_active(dev);
		pm_runtime_forbid(dev);
		pm_runtime_enable(dev);
	}
}

/* The device is about to be unbound: it is awake from now on. */
void nvdla_power_unmanage(struct device *dev)
{
	pm_runtime_get_sync(dev);
	pm_runtime_dont_use_autosuspend(dev);
	if (!dev_is_pci(dev)) {
		pm_runtime_disable(dev);
		pm_runtime_allow(dev);
		pm_runtime_put_noidle(dev);
		pm_runtime_set_suspended(dev);
	}
}

/* A task needs the device: wakes it, and keeps it awake until nvdla_power_put(). Sleeps. */
int nvdla_power_get(struct device *dev)
{
	int ret = pm_runtime_resume_and_get(dev);

	if (ret != -EACCES)
		return ret;
	/* It is being bound or unbound, and awake. */
	pm_runtime_get_noresume(dev);
	return 0;
}

/* May be called in any context. */
void nvdla_power_put(struct device *dev)
{
	pm_runtime_put_autosuspend(dev);
}
