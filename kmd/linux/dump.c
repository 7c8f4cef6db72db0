// SPDX-License-Identifier: GPL-2.0-only
/*
 * Gives a dump to the kernel's device dumps, which show it in sysfs.
 */

#include <linux/devcoredump.h>
#include <linux/vmalloc.h>

#include "helpers.h"

/* Copies the bytes. Nothing happens if memory is short, or on a kernel without device dumps. */
void nvdla_dump(struct device *dev, const void *bytes, size_t length)
{
	void *copy = vmalloc(length);

	if (!copy)
		return;
	memcpy(copy, bytes, length);
	dev_coredumpv(dev, copy, length, GFP_KERNEL);
}
