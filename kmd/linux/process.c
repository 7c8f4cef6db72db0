// SPDX-License-Identifier: GPL-2.0-only
/*
 * The calling process: its name, whether it must stop, what it may do, and a short sleep.
 */

#include <linux/capability.h>
#include <linux/delay.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
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

/* Yields the processor, and returns whether a signal is pending. For long work in an ioctl. */
bool nvdla_process_interrupted(void)
{
	cond_resched();
	return signal_pending(current);
}

/* Whether its tasks may run before those of others. */
bool nvdla_process_may_be_urgent(void)
{
	return capable(CAP_SYS_NICE);
}

void nvdla_nap(u64 us)
{
	fsleep(us);
}
