// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bringing a device up and back. What a device tree may name beside registers and the interrupt: clocks, resets, reserved memory. All optional, all
 * given back when the device is unbound.
 */

#include <linux/clk.h>
#include <linux/device.h>
#include <linux/of_reserved_mem.h>
#include <linux/pci.h>
#include <linux/reset.h>

#include "helpers.h"

static void nvdla_release_memory(void *dev)
{
	of_reserved_mem_device_release(dev);
}

/* Pulls the lines once, on a controller that can do so by itself or not. */
static int nvdla_reset_lines(struct reset_control *lines)
{
	int ret = reset_control_reset(lines);

	if (ret == -ENOTSUPP)
		ret = reset_control_assert(lines) ?: reset_control_deassert(lines);
	return ret;
}

/* Returns the reset lines, NULL where there are none, or an error pointer. */
struct reset_control *nvdla_platform_start(struct device *dev)
{
	struct reset_control *reset;
	struct clk_bulk_data *clocks;
	int ret;

	ret = of_reserved_mem_device_init(dev);
	if (!ret)
		ret = devm_add_action_or_reset(dev, nvdla_release_memory, dev);
	else if (ret == -ENODEV)
		ret = 0;
	if (ret)
		return ERR_PTR(dev_err_probe(dev, ret, "reserved memory\n"));

	ret = devm_clk_bulk_get_all_enabled(dev, &clocks);
	if (ret < 0)
		return ERR_PTR(dev_err_probe(dev, ret, "clocks\n"));

	reset = devm_reset_control_array_get_optional_exclusive(dev);
	if (IS_ERR(reset))
		return ERR_PTR(dev_err_probe(dev, PTR_ERR(reset), "resets\n"));
	ret = nvdla_reset_lines(reset);
	if (ret)
		return ERR_PTR(dev_err_probe(dev, ret, "resets\n"));
	return reset;
}

/* Resets a device through its bus or its reset lines; -ENOTSUPP where it has neither. */
int nvdla_reset(struct device *dev, struct reset_control *lines)
{
	if (dev_is_pci(dev))
		return pci_try_reset_function(to_pci_dev(dev));
	return lines ? nvdla_reset_lines(lines) : -ENOTSUPP;
}
