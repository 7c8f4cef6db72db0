/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Trace events: they follow a task from the ioctl to its fence, to show latencies and the order of
 * events.
 * /sys/kernel/tracing/events/nvdla
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM nvdla

#if !defined(NVDLA_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define NVDLA_TRACE_H

#include <linux/device.h>
#include <linux/tracepoint.h>

/* A submission has entered the driver; nothing is checked yet. */
TRACE_EVENT(nvdla_submit,
	TP_PROTO(struct device *dev, u64 client, u32 tasks),
	TP_ARGS(dev, client, tasks),
	TP_STRUCT__entry(
		__string(device, dev_name(dev))
		__field(u64, client)
		__field(u32, tasks)
	),
	TP_fast_assign(
		__assign_str(device);
		__entry->client = client;
		__entry->tasks = tasks;
	),
	TP_printk("%s client %llu: %u tasks", __get_str(device), __entry->client, __entry->tasks)
);

/* A task of a submission is invalid. */
TRACE_EVENT(nvdla_refused,
	TP_PROTO(struct device *dev, u64 client, u32 task, const char *reason),
	TP_ARGS(dev, client, task, reason),
	TP_STRUCT__entry(
		__string(device, dev_name(dev))
		__field(u64, client)
		__field(u32, task)
		__string(reason, reason)
	),
	TP_fast_assign(
		__assign_str(device);
		__entry->client = client;
		__entry->task = task;
		__assign_str(reason);
	),
	TP_printk("%s client %llu task %u of the submission: %s", __get_str(device),
		  __entry->client, __entry->task, __get_str(reason))
);

/* The first register of a task is about to be written. */
TRACE_EVENT(nvdla_task_start,
	TP_PROTO(struct device *dev, u64 client, u64 task),
	TP_ARGS(dev, client, task),
	TP_STRUCT__entry(
		__string(device, dev_name(dev))
		__field(u64, client)
		__field(u64, task)
	),
	TP_fast_assign(
		__assign_str(device);
		__entry->client = client;
		__entry->task = task;
	),
	TP_printk("%s client %llu task %llu", __get_str(device), __entry->client, __entry->task)
);

/* The interrupt thread runs. */
TRACE_EVENT(nvdla_interrupt,
	TP_PROTO(struct device *dev),
	TP_ARGS(dev),
	TP_STRUCT__entry(
		__string(device, dev_name(dev))
	),
	TP_fast_assign(
		__assign_str(device);
	),
	TP_printk("%s", __get_str(device))
);

/* An operation has completed. */
TRACE_EVENT(nvdla_operation_end,
	TP_PROTO(struct device *dev, u32 operation, u8 unit),
	TP_ARGS(dev, operation, unit),
	TP_STRUCT__entry(
		__string(device, dev_name(dev))
		__field(u32, operation)
		__field(u8, unit)
	),
	TP_fast_assign(
		__assign_str(device);
		__entry->operation = operation;
		__entry->unit = unit;
	),
	TP_printk("%s operation %u (%s)", __get_str(device), __entry->operation,
		  __print_symbolic(__entry->unit, { 0, "BDMA" }, { 1, "CONV" }, { 2, "SDP" },
				   { 3, "PDP" }, { 4, "CDP" }, { 5, "RUBIK" }))
);

/* A task has ended and its fence has signalled. */
TRACE_EVENT(nvdla_task_end,
	TP_PROTO(struct device *dev, u64 client, u64 task, int status, u64 busy_ns),
	TP_ARGS(dev, client, task, status, busy_ns),
	TP_STRUCT__entry(
		__string(device, dev_name(dev))
		__field(u64, client)
		__field(u64, task)
		__field(int, status)
		__field(u64, busy_ns)
	),
	TP_fast_assign(
		__assign_str(device);
		__entry->client = client;
		__entry->task = task;
		__entry->status = status;
		__entry->busy_ns = busy_ns;
	),
	TP_printk("%s client %llu task %llu: status %d after %llu ns", __get_str(device),
		  __entry->client, __entry->task, __entry->status, __entry->busy_ns)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
