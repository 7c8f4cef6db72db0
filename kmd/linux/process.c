// SPDX-License-Identifier: GPL-2.0-only
/*
 * The process that calls: its name, and whether it is to stop what it does.
 */

#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>

#include "helpers.h"

/* Writes its name, and gives its number. */
int nvdla_process_name(char name[16])
{
	static_assert(TASK_COMM_LEN == 16);
	strscpy_pad(name, current->comm, TASK_COMM_LEN);
	return task_tgid_nr(current);
}

/* Lets others run, and tells of a signal. For long work in an ioctl. */
bool nvdla_process_interrupted(void)
{
	cond_resched();
	return signal_pending(current);
}
