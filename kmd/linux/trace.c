// SPDX-License-Identifier: GPL-2.0-only
/*
 * The trace events as functions, because Rust cannot call inline functions that a macro defines.
 */

#define CREATE_TRACE_POINTS
#include "trace.h"

#include "helpers.h"

void nvdla_trace_submit(struct device *dev, u64 client, u32 tasks)
{
	trace_nvdla_submit(dev, client, tasks);
}

bool nvdla_trace_refused_is_on(void)
{
	return trace_nvdla_refused_enabled();
}

void nvdla_trace_refused(struct device *dev, u64 client, u32 task, const char *reason)
{
	trace_nvdla_refused(dev, client, task, reason);
}

void nvdla_trace_task_start(struct device *dev, u64 client, u64 task)
{
	trace_nvdla_task_start(dev, client, task);
}

void nvdla_trace_interrupt(struct device *dev)
{
	trace_nvdla_interrupt(dev);
}

void nvdla_trace_operation_end(struct device *dev, u32 operation, u8 unit)
{
	trace_nvdla_operation_end(dev, operation, unit);
}

void nvdla_trace_task_end(struct device *dev, u64 client, u64 task, int status, u64 busy_ns)
{
	trace_nvdla_task_end(dev, client, task, status, busy_ns);
}
