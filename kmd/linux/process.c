// SPDX-License-Identifier: GPL-2.0-only
/*
 * The calling process: its name, a pause in its work, and what it may do.
 */

#include <linux/capability.h>
#include <linux/sched.h>
#include <linux/string.h>

#include "helpers.h"

/*
 * Writes its name, which ends with a zero byte unless it changes meanwhile, and returns its process
 * id.
 */
int nvdla_process_name(char name[16])
{
	static_assert(TASK_COMM_LEN == 16);
	memcpy(name, current->comm, TASK_COMM_LEN);
	return task_tgid_nr(current);
}

/* Yields the processor. For long work in an ioctl. */
void nvdla_process_yield(void)
{
	cond_resched();
}

/* Whether its tasks may run before those of others. */
bool nvdla_process_may_be_urgent(void)
{
	return capable(CAP_SYS_NICE);
}
