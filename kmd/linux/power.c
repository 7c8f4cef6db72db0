// SPDX-License-Identifier: GPL-2.0-only
/*
 * Starts, resets, suspends and resumes a device. Besides registers and the interrupt, a device tree
 * may name clocks, resets, a supply, operating points and reserved memory. All of them are optional,
 * and all are released when the device is unbound.
 */

#include <linux/clk.h>
#include <linux/delay.h>
#include <linux/device.h>
#include <linux/dma-mapping.h>
#include <linux/interrupt.h>
#include <linux/pci.h>
#include <linux/platform_device.h>
#include <linux/pm.h>
#include <linux/pm_opp.h>
#include <linux/pm_runtime.h>
#include <linux/property.h>
#include <linux/regulator/consumer.h>
#include <linux/reset.h>
#include <linux/slab.h>

#include "helpers.h"

/*
 * Microseconds for which reset lines are asserted. They are several cycles, also of a slow clock.
 */
#define NVDLA_RESET_US 10

/*
 * Milliseconds without a task after which the device is suspended, unless the administrator sets
 * another delay.
 */
#define NVDLA_AUTOSUSPEND_MS 200

struct nvdla_power {
	struct device *dev;
	struct clk_bulk_data *clocks;
	int num_clocks;
	struct reset_control *lines; /* NULL where there are none */
	struct regulator *supply; /* NULL where there is none */
	unsigned long rate; /* Hz of the highest operating point; 0 where there are none */
	bool on; /* the supply and the clocks are on */
	void *core; /* what is told of suspend, resume and resets */
	bool resetting; /* a reset of the driver's own; protected by the device's lock */
	bool silent; /* the interrupt is disabled */
	int irq; /* the interrupt; 0 for an INTx line, which is disabled in the device */
};

/*
 * The driver does not handle the interrupt any more, and has no vectors of PCI. Another device may
 * use the line of one that is not on PCI.
 */
static void nvdla_power_release(struct device *dev, void *resource)
{
	struct nvdla_power *power = resource;

	if (power->silent && power->irq && !dev_is_pci(dev) && irq_has_action(power->irq))
		enable_irq(power->irq);
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

/*
 * Switches the supply on, sets the highest operating point and starts the clocks, in this order: the
 * voltage must suit the rate. After a time without its supply the device holds arbitrary values, so
 * it is reset.
 */
static int nvdla_power_on(struct nvdla_power *power)
{
	int ret = power->supply ? regulator_enable(power->supply) : 0;

	if (ret)
		return ret;
	ret = power->rate ? dev_pm_opp_set_rate(power->dev, power->rate) : 0;
	if (ret)
		goto supply;
	ret = clk_bulk_prepare_enable(power->num_clocks, power->clocks);
	if (ret)
		goto point;
	ret = power->supply ? nvdla_reset_lines(power->lines) : 0;
	if (ret)
		goto clocks;
	power->on = true;
	return 0;

clocks:
	clk_bulk_disable_unprepare(power->num_clocks, power->clocks);
point:
	if (power->rate)
		dev_pm_opp_set_rate(power->dev, 0);
supply:
	if (power->supply)
		regulator_disable(power->supply);
	return ret;
}

/* Ends what nvdla_power_on() began, in reverse order; nothing if that has failed. */
static void nvdla_power_off(void *data)
{
	struct nvdla_power *power = data;

	if (!power->on)
		return;
	power->on = false;
	clk_bulk_disable_unprepare(power->num_clocks, power->clocks);
	if (power->rate)
		dev_pm_opp_set_rate(power->dev, 0);
	if (power->supply)
		regulator_disable(power->supply);
}

/*
 * Reads the operating points. The driver uses the highest one only: an idle device has no clock, so
 * a lower rate would save nothing.
 */
static int nvdla_start_points(struct nvdla_power *power)
{
	static const char * const clocks[] = { "core", NULL };
	static const char * const supplies[] = { "vdd", NULL };
	struct dev_pm_opp_config config = {
		/* Without names the core's clock is the first one. */
		.clk_names = power->num_clocks && power->clocks[0].id ? clocks : NULL,
		.regulator_names = power->supply ? supplies : NULL,
	};
	struct device *dev = power->dev;
	unsigned long rate = ULONG_MAX;
	struct dev_pm_opp *point;
	int ret;

	if (!device_property_present(dev, "operating-points-v2"))
		return 0;
	if (!power->num_clocks)
		return -EINVAL;
	if (config.clk_names || config.regulator_names) {
		ret = devm_pm_opp_set_config(dev, &config);
		if (ret)
			return ret;
	}
	ret = devm_pm_opp_of_add_table(dev);
	if (ret)
		return ret;
	point = dev_pm_opp_find_freq_floor(dev, &rate);
	if (IS_ERR(point))
		return PTR_ERR(point);
	dev_pm_opp_put(point);
	power->rate = rate;
	return 0;
}

static int nvdla_start_tree(struct nvdla_power *power)
{
	struct device *dev = power->dev;
	int ret;

	power->num_clocks = devm_clk_bulk_get_all(dev, &power->clocks);
	if (power->num_clocks < 0)
		return dev_err_probe(dev, power->num_clocks, "clocks\n");

	power->lines = devm_reset_control_array_get_optional_exclusive(dev);
	if (IS_ERR(power->lines))
		return dev_err_probe(dev, PTR_ERR(power->lines), "resets\n");

	power->supply = devm_regulator_get_optional(dev, "vdd");
	if (PTR_ERR(power->supply) == -ENODEV)
		power->supply = NULL;
	if (IS_ERR(power->supply))
		return dev_err_probe(dev, PTR_ERR(power->supply), "supply\n");

	ret = nvdla_start_points(power);
	if (ret)
		return dev_err_probe(dev, ret, "operating points\n");

	ret = nvdla_power_on(power);
	if (!ret)
		ret = devm_add_action_or_reset(dev, nvdla_power_off, power);
	/* A device with a supply has been reset already. */
	if (!ret && !power->supply)
		ret = nvdla_reset_lines(power->lines);
	return ret ? dev_err_probe(dev, ret, "supply, clocks or resets\n") : 0;
}

/*
 * Turns on what the device tree names, if the device is in one. The result lives as long as the
 * device is bound.
 */
struct nvdla_power *nvdla_power_start(struct device *dev)
{
	struct nvdla_power *power = devres_alloc(nvdla_power_release, sizeof(*power), GFP_KERNEL);
	int irq = 0, ret;

	if (!power)
		return ERR_PTR(-ENOMEM);
	power->dev = dev;
	/*
	 * The look-up takes locks under which memory is allocated, and a device may die on the way
	 * to a fence's signal.
	 */
	if (!dev_is_pci(dev))
		irq = platform_get_irq(to_platform_device(dev), 0);
	else if (to_pci_dev(dev)->msi_enabled || to_pci_dev(dev)->msix_enabled)
		irq = pci_irq_vector(to_pci_dev(dev), 0);
	power->irq = max(irq, 0);
	devres_add(dev, power);
	ret = nvdla_space_start(dev);
	if (!ret && dev->of_node)
		ret = nvdla_start_tree(power);
	return ret ? ERR_PTR(ret) : power;
}

/*
 * Sets how many address bits the device has, so that no buffer has an address that it cannot reach.
 * Without an IOMMU this sets the mask of the driver's own buffers only. With a mask for other
 * drivers' buffers, the DMA API would silently copy a buffer at a higher address. Without such a
 * mask, the engine refuses the buffer.
 */
int nvdla_power_reach(struct nvdla_power *power, u32 bits)
{
	if (nvdla_space_is_translated(power->dev))
		return dma_set_mask_and_coherent(power->dev, DMA_BIT_MASK(bits));
	return dma_set_coherent_mask(power->dev, DMA_BIT_MASK(bits));
}

/*
 * Resets the device through its bus or its reset lines. Returns -ENOTSUPP if it has neither, and
 * -EAGAIN while another thread has locked the device. `held` says that the driver core has locked
 * it for the caller, as in a probe, an unbinding and a suspend.
 */
int nvdla_power_reset(struct nvdla_power *power, bool held)
{
	struct pci_dev *pdev;
	int ret;

	if (!dev_is_pci(power->dev))
		return power->lines ? nvdla_reset_lines(power->lines) : -ENOTSUPP;
	pdev = to_pci_dev(power->dev);
	if (!held && !pci_dev_trylock(pdev))
		return -EAGAIN;
	power->resetting = true;
	ret = pci_reset_function_locked(pdev);
	power->resetting = false;
	if (!held)
		pci_dev_unlock(pdev);
	return ret;
}

/* Disables or enables the interrupt, once. */
static void nvdla_power_silence(struct nvdla_power *power, bool silent)
{
	if (power->silent == silent)
		return;
	power->silent = silent;
	if (!power->irq && dev_is_pci(power->dev))
		pci_intx(to_pci_dev(power->dev), !silent);
	else if (power->irq && silent)
		disable_irq_nosync(power->irq);
	else if (power->irq)
		enable_irq(power->irq);
}

/*
 * Disables the interrupt, and bus mastering, of a device that cannot be stopped in another way. The
 * accesses of a device that is not on PCI go on.
 */
void nvdla_power_isolate(struct nvdla_power *power)
{
	if (power->core)
		nvdla_power_silence(power, true);
	if (dev_is_pci(power->dev))
		pci_clear_master(to_pci_dev(power->dev));
}

/*
 * No register is accessed until nvdla_power_connect(). An INTx line that is asserted without a
 * cause, as behind a virtual machine's bus until the next access, would interrupt forever. Other
 * interrupts are messages, or those of a device without a clock.
 */
void nvdla_power_rest(struct nvdla_power *power)
{
	if (!power->irq && dev_is_pci(power->dev))
		nvdla_power_silence(power, true);
}

/* The device is idle: it may access memory, and raise interrupts. */
void nvdla_power_connect(struct nvdla_power *power)
{
	if (dev_is_pci(power->dev))
		pci_set_master(to_pci_dev(power->dev));
	nvdla_power_silence(power, false);
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
		nvdla_power_off(power);
	return 0;
}

static int nvdla_resume(struct device *dev)
{
	struct nvdla_power *power = nvdla_power_of(dev);
	bool asleep = pm_runtime_status_suspended(dev);
	int ret = asleep ? 0 : nvdla_power_on(power);

	if (ret)
		return ret;
	nvdla_sram_restore(dev);
	nvdla_core_resume(power->core, asleep);
	return 0;
}

/*
 * The sleep of the machine has ended, or was called off. Also called for a device whose bus has let
 * it sleep on, without the functions above.
 */
static void nvdla_complete(struct device *dev)
{
	nvdla_core_revive(nvdla_power_of(dev)->core);
}

/* The device has had no task for the autosuspend delay. */
static int nvdla_runtime_suspend(struct device *dev)
{
	struct nvdla_power *power = nvdla_power_of(dev);

	nvdla_core_rest(power->core);
	nvdla_power_off(power);
	return 0;
}

static int nvdla_runtime_resume(struct device *dev)
{
	struct nvdla_power *power = nvdla_power_of(dev);
	int ret = nvdla_power_on(power);

	if (!ret)
		nvdla_core_wake(power->core);
	return ret;
}

static const struct dev_pm_ops nvdla_pm_ops = {
	.complete = pm_sleep_ptr(nvdla_complete),
	SYSTEM_SLEEP_PM_OPS(nvdla_suspend, nvdla_resume)
	RUNTIME_PM_OPS(nvdla_runtime_suspend, nvdla_runtime_resume, NULL)
};

/*
 * Somebody else resets the device, with the device's lock held: an administrator, or the bus after
 * an error. What the core knows of the registers is not true any more. A reset of the driver's own
 * ends here too, and the core knows of it.
 */
static void nvdla_pci_reset_prepare(struct pci_dev *pdev)
{
	struct nvdla_power *power = nvdla_power_of(&pdev->dev);

	if (power && !power->resetting)
		nvdla_core_reset_prepare(power->core);
}

static void nvdla_pci_reset_done(struct pci_dev *pdev)
{
	struct nvdla_power *power = nvdla_power_of(&pdev->dev);

	if (power && !power->resetting)
		nvdla_core_reset_done(power->core, pm_runtime_status_suspended(&pdev->dev));
}

static pci_ers_result_t nvdla_pci_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct nvdla_power *power = nvdla_power_of(&pdev->dev);

	if (state != pci_channel_io_perm_failure) {
		nvdla_pci_reset_prepare(pdev);
		return PCI_ERS_RESULT_NEED_RESET;
	}
	/* The recovery has failed, or does not begin. Nothing more is called. */
	if (power)
		nvdla_core_reset_failed(power->core);
	return PCI_ERS_RESULT_DISCONNECT;
}

/*
 * The state may say that the device masters the bus. If the reset has not stopped it, the core takes
 * that away in the next step. Until then it accesses at most the buffers of the task that was ended.
 */
static pci_ers_result_t nvdla_pci_slot_reset(struct pci_dev *pdev)
{
	pci_restore_state(pdev);
	return PCI_ERS_RESULT_RECOVERED;
}

static const struct pci_error_handlers nvdla_pci_error_handlers = {
	.error_detected = nvdla_pci_error_detected,
	.slot_reset = nvdla_pci_slot_reset,
	.resume = nvdla_pci_reset_done,
	.reset_prepare = nvdla_pci_reset_prepare,
	.reset_done = nvdla_pci_reset_done,
};

/*
 * The machine is switched off, or another kernel is started: the device must not write its memory.
 */
static void nvdla_shutdown(struct device *dev)
{
	struct nvdla_power *power = nvdla_power_of(dev);

	if (!power)
		return;
	pm_runtime_get_sync(dev);
	nvdla_core_stop(power->core);
	nvdla_power_isolate(power);
}

static void nvdla_pci_shutdown(struct pci_dev *pdev)
{
	nvdla_shutdown(&pdev->dev);
}

static void nvdla_platform_shutdown(struct platform_device *pdev)
{
	nvdla_shutdown(&pdev->dev);
}

/*
 * Tells the core of suspend, resume and resets from now on. The kernel crate's bus drivers have no
 * such callbacks, so they are put into the C driver that it registered; it is the same for each of
 * its devices.
 *
 * The device is suspended between tasks, which saves power. A task that resumes it takes longer,
 * because the registers are set up again. The administrator can prevent that with power/control in
 * sysfs. This is the last step of a probe.
 */
void nvdla_power_manage(struct nvdla_power *power, void *core)
{
	struct device *dev = power->dev;

	power->core = core;
	WRITE_ONCE(dev->driver->pm, pm_ptr(&nvdla_pm_ops));
	if (dev_is_pci(dev)) {
		struct pci_driver *driver = to_pci_driver(dev->driver);

		WRITE_ONCE(driver->err_handler, &nvdla_pci_error_handlers);
		WRITE_ONCE(driver->shutdown, nvdla_pci_shutdown);
		/*
		 * What a recovery restores. The state that the PCI core has saved before the probe
		 * need not let the registers answer.
		 */
		pci_save_state(to_pci_dev(dev));
	} else {
		WRITE_ONCE(to_platform_driver(dev->driver)->shutdown, nvdla_platform_shutdown);
	}
	pm_runtime_set_autosuspend_delay(dev, NVDLA_AUTOSUSPEND_MS);
	pm_runtime_use_autosuspend(dev);
	pm_runtime_mark_last_busy(dev);
	if (dev_is_pci(dev)) {
		/*
		 * The PCI core forbids runtime PM before a driver is bound. It has incremented the
		 * usage count for the probe, and decrements it after the unbinding.
		 */
		pm_runtime_allow(dev);
		pm_runtime_put_noidle(dev);
	} else {
		pm_runtime_set_active(dev);
		pm_runtime_enable(dev);
	}
	/* The driver core lets the device idle after the probe. */
}

/* The device is about to be unbound: it is awake from now on. */
void nvdla_power_wake(struct device *dev)
{
	pm_runtime_get_sync(dev);
	pm_runtime_dont_use_autosuspend(dev);
}

/* The device has stopped. The driver core says that it is suspended when the driver has gone. */
void nvdla_power_unmanage(struct device *dev)
{
	if (dev_is_pci(dev)) {
		pm_runtime_forbid(dev);
	} else {
		pm_runtime_disable(dev);
		pm_runtime_put_noidle(dev);
	}
}

/*
 * The rate of the device's clock in Hz: of the one that is called "core", else of the first. 0 if
 * it is not known.
 */
unsigned long nvdla_power_rate(struct device *dev)
{
	struct nvdla_power *power = nvdla_power_of(dev);
	int index;

	if (!power || power->num_clocks <= 0)
		return 0;
	for (index = 0; index < power->num_clocks; index++)
		if (power->clocks[index].id && !strcmp(power->clocks[index].id, "core"))
			return clk_get_rate(power->clocks[index].clk);
	return clk_get_rate(power->clocks[0].clk);
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
