/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The NVDLA driver's ioctls, for programs in C: buffers, query, asynchronous submission, wait,
 * access by the processor. NVIDIA's NVDLA_SUBMIT, which this driver has too, is in NVIDIA's own
 * header.
 *
 * Records may grow at their end. A program may pass larger elements of arrays than the driver knows
 * if the rest is zero, else it gets %E2BIG.
 *
 * uapi/src/queue.rs has the same definitions for programs in Rust. A test compares the two.
 */
#ifndef NVDLA_DRM_H
#define NVDLA_DRM_H

#include <linux/types.h>
#ifdef __KERNEL__
#include <drm/drm.h>
#else
#include <linux/ioctl.h>
#ifndef DRM_IOCTL_BASE
#define DRM_IOCTL_BASE 'd'
#define DRM_COMMAND_BASE 0x40
#define DRM_IOWR(number, type) _IOWR(DRM_IOCTL_BASE, number, type)
#endif
#endif

#if defined(__cplusplus)
extern "C" {
#endif

#define DRM_NVDLA_GEM_CREATE	0x01
#define DRM_NVDLA_GEM_MMAP	0x02
#define DRM_NVDLA_GEM_DESTROY	0x03
#define DRM_NVDLA_QUERY		0x04
#define DRM_NVDLA_SUBMIT_TASKS	0x05
#define DRM_NVDLA_WAIT		0x06
#define DRM_NVDLA_ACCESS	0x07

/* Most tasks in one submission. */
#define NVDLA_MAX_TASKS		64
/* Most fences that one submission may wait for. */
#define NVDLA_MAX_IN_FENCES	64
/* Most synchronisation objects of one kind in a submission. */
#define NVDLA_MAX_SYNCS		64
/* Most addresses with flags in a submission. */
#define NVDLA_MAX_IMPLICIT	256
/* Most bytes of an array's element. */
#define NVDLA_MAX_RECORD	4096
/* Most tasks of one client that are queued or running. */
#define NVDLA_MAX_QUEUED	1024

/* drm_nvdla_query.flags: the device is a model, not hardware. */
#define NVDLA_QUERY_MODEL	(1 << 0)
/*
 * The same: the device does not see the processor's cache, and the processor does not cache
 * buffers, so that its reads are slow. A buffer with %NVDLA_GEM_CREATE_CACHED is cached, and the
 * program must tell the driver of its accesses (&struct drm_nvdla_access).
 */
#define NVDLA_QUERY_UNCACHED	(1 << 1)
/*
 * drm_nvdla_gem_create.flags: make the buffer in the SRAM behind the device's secondary memory
 * interface. Fails with %ENOSPC if less than the size is free in one piece, if the client would
 * exceed its limit, and on a device without SRAM. A task's descriptors cannot lie in such a buffer,
 * and it cannot be exported (%EOPNOTSUPP).
 */
#define NVDLA_GEM_CREATE_SRAM	(1 << 0)
/*
 * The same: the processor caches the buffer. On a machine whose device does not see the cache, the
 * program must tell the driver of its accesses (&struct drm_nvdla_access); elsewhere the flag has
 * no effect. Not with %NVDLA_GEM_CREATE_SRAM.
 */
#define NVDLA_GEM_CREATE_CACHED	(1 << 1)
/* drm_nvdla_submit.flags: return a sync_file in out_fence. */
#define NVDLA_SUBMIT_OUT_FENCE	(1 << 0)
/*
 * The same: the tasks run before those of clients whose first task is not urgent. Needs
 * CAP_SYS_NICE (%EACCES).
 */
#define NVDLA_SUBMIT_URGENT	(1 << 1)
/*
 * drm_nvdla_address.flags: the submission waits for those who write the buffer, and others wait for
 * the submission before they write it, by the fences of the buffer's reservation object.
 */
#define NVDLA_ADDRESS_READ	(1 << 0)
/*
 * The same: the submission waits for all who use the buffer, and others wait for the submission
 * before they use it.
 */
#define NVDLA_ADDRESS_WRITE	(1 << 1)
/* drm_nvdla_access.flags: the processor reads the buffer, writes it, and has ended that. */
#define NVDLA_ACCESS_READ	(1 << 0)
#define NVDLA_ACCESS_WRITE	(1 << 1)
#define NVDLA_ACCESS_END	(1 << 2)

/**
 * struct drm_nvdla_gem_create - makes a buffer, filled with zeros
 * @handle: its GEM handle (out)
 * @flags: %NVDLA_GEM_CREATE_SRAM, %NVDLA_GEM_CREATE_CACHED
 * @size: bytes, rounded up to whole pages
 */
struct drm_nvdla_gem_create {
	__u32 handle;
	__u32 flags;
	__u64 size;
};

/**
 * struct drm_nvdla_gem_mmap - says where a buffer can be mapped
 * @handle: its GEM handle
 * @reserved: zero
 * @offset: the offset in the node's file (out)
 */
struct drm_nvdla_gem_mmap {
	__u32 handle;
	__u32 reserved;
	__u64 offset;
};

/**
 * struct drm_nvdla_gem_destroy - closes a handle
 * @handle: the GEM handle
 */
struct drm_nvdla_gem_destroy {
	__u32 handle;
};

/**
 * struct drm_nvdla_query - the device and its limits
 * @config: the hardware configuration's name, ended by a zero byte (out)
 * @hardware_version: the hardware version register (out)
 * @flags: %NVDLA_QUERY_MODEL, %NVDLA_QUERY_UNCACHED (out)
 * @max_addresses: most addresses of a task (out)
 * @max_tasks: most tasks of a submission (out)
 * @max_queued: most tasks of a client that are queued or running (out)
 * @max_in_fences: most fences that a submission may wait for (out)
 * @default_timeout_ns: nanoseconds that a task may run when it names no deadline (out)
 * @max_timeout_ns: nanoseconds that a task may run whatever its deadline; all ones where the
 *	operator has set no limit (out)
 * @sram_size: bytes of the SRAM behind the secondary memory interface that all clients share;
 *	0 if there is none. Drivers without SRAM support leave it at 0 (out)
 *
 * All fields must be zero when passed in; the ioctl fails with %EINVAL otherwise.
 */
struct drm_nvdla_query {
	__u8 config[32];
	__u32 hardware_version;
	__u32 flags;
	__u32 max_addresses;
	__u32 max_tasks;
	__u32 max_queued;
	__u32 max_in_fences;
	__u64 default_timeout_ns;
	__u64 max_timeout_ns;
	__u64 sram_size;
};

/**
 * struct drm_nvdla_address - a place in a buffer
 * @handle: GEM handle
 * @flags: %NVDLA_ADDRESS_READ, %NVDLA_ADDRESS_WRITE, or 0 for no implicit fences
 * @offset: bytes from the buffer's start
 */
struct drm_nvdla_address {
	__u32 handle;
	__u32 flags;
	__u64 offset;
};

/**
 * struct drm_nvdla_task - one task of a submission
 * @addresses: user pointer to an array of &struct drm_nvdla_address; the first is the network
 *	descriptor, in which all others are named by position
 * @num_addresses: entries of it, at least 1
 * @address_size: bytes of an entry
 * @flags: zero
 * @reserved: zero
 *
 * The statistics of its operations are written when its network descriptor names a list for them.
 */
struct drm_nvdla_task {
	__u64 addresses;
	__u32 num_addresses;
	__u32 address_size;
	__u32 flags;
	__u32 reserved;
};

/**
 * struct drm_nvdla_submit - queues tasks and returns before they run
 * @tasks: user pointer to an array of &struct drm_nvdla_task
 * @num_tasks: entries of it, 1 to %NVDLA_MAX_TASKS
 * @task_size: bytes of an entry
 * @in_fences: user pointer to an array of sync_file descriptors (__s32) that the tasks wait for
 * @num_in_fences: entries of it, at most %NVDLA_MAX_IN_FENCES
 * @flags: %NVDLA_SUBMIT_OUT_FENCE, %NVDLA_SUBMIT_URGENT
 * @deadline_ns: absolute nanoseconds of CLOCK_MONOTONIC by which each task must have ended
 *	once it runs; 0 for the driver's default. No task runs for longer than
 *	&drm_nvdla_query.max_timeout_ns, and one that has started before its deadline may run for
 *	the operator's minimum (100 ms by default)
 * @sequence: number of the last task, for &struct drm_nvdla_wait (out)
 * @out_fence: a sync_file of the last task, if asked for, else -1 (out); 0 or -1 when passed in
 * @reserved: zero
 * @in_syncs: user pointer to an array of &struct drm_nvdla_sync that the tasks wait for
 * @out_syncs: user pointer to an array of &struct drm_nvdla_sync that signal when the last
 *	task has ended
 * @num_in_syncs: entries of @in_syncs, at most %NVDLA_MAX_SYNCS
 * @num_out_syncs: entries of @out_syncs, at most %NVDLA_MAX_SYNCS
 * @sync_size: bytes of an entry of either
 * @refused_reason: the number of the reason why a task is invalid, if one is (out)
 * @refused_task: which task is invalid (out)
 * @refused_operation: which of its operations; all ones if none in particular (out)
 *
 * All tasks are copied and checked before the first is queued: after a failure, none is queued. A
 * client's tasks run in order, clients take turns. Fails with %EINVAL for an invalid argument or
 * task, %ENOENT for an unknown handle, %EBADF for a descriptor that is not a sync_file, %EBUSY when
 * more than %NVDLA_MAX_QUEUED tasks would be queued or they would take more of the kernel's memory
 * than a client may have, %EACCES for urgent tasks of a process that may not have them, %EIO when
 * the device has failed for good, %ENODEV when it has gone.
 */
struct drm_nvdla_submit {
	__u64 tasks;
	__u32 num_tasks;
	__u32 task_size;
	__u64 in_fences;
	__u32 num_in_fences;
	__u32 flags;
	__u64 deadline_ns;
	__u64 sequence;
	__s32 out_fence;
	__u32 reserved;
	__u64 in_syncs;
	__u64 out_syncs;
	__u32 num_in_syncs;
	__u32 num_out_syncs;
	__u32 sync_size;
	__u32 refused_reason;
	__u32 refused_task;
	__u32 refused_operation;
};

/**
 * struct drm_nvdla_sync - a synchronisation object of DRM, or a point of one that is a timeline
 * @handle: its handle
 * @flags: zero
 * @point: the point; 0 for an object that is no timeline
 */
struct drm_nvdla_sync {
	__u32 handle;
	__u32 flags;
	__u64 point;
};

/**
 * struct drm_nvdla_access - begins or ends accesses of the processor to a buffer
 * @handle: the buffer's GEM handle
 * @flags: %NVDLA_ACCESS_READ and %NVDLA_ACCESS_WRITE, at least one of them; %NVDLA_ACCESS_END
 * @deadline_ns: absolute nanoseconds of CLOCK_MONOTONIC at which the wait ends
 *
 * At the beginning, waits for the fences of the buffer's reservation object until the deadline
 * (%ETIMEDOUT): to read for those who write it, to write for all. Then makes visible to the
 * processor what devices have written; at the end, to devices what the processor has written. A
 * signal interrupts it.
 */
struct drm_nvdla_access {
	__u32 handle;
	__u32 flags;
	__u64 deadline_ns;
};

/**
 * struct drm_nvdla_wait - waits for a task of this client
 * @sequence: the task's number
 * @deadline_ns: absolute nanoseconds of CLOCK_MONOTONIC to give up at
 * @status: how the task ended: 0 or a negative error number; -%ETIMEDOUT when the driver ended
 *	it at its deadline (out)
 * @reserved: zero
 *
 * Fails with %ETIMEDOUT when the deadline passes first, %EINVAL for a number that was not given
 * out, %ESTALE for one after which %NVDLA_MAX_QUEUED others have ended, %ENODEV when the device has
 * gone. A signal interrupts it.
 */
struct drm_nvdla_wait {
	__u64 sequence;
	__u64 deadline_ns;
	__s32 status;
	__u32 reserved;
};

#define DRM_IOCTL_NVDLA_GEM_CREATE \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NVDLA_GEM_CREATE, struct drm_nvdla_gem_create)
#define DRM_IOCTL_NVDLA_GEM_MMAP \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NVDLA_GEM_MMAP, struct drm_nvdla_gem_mmap)
#define DRM_IOCTL_NVDLA_GEM_DESTROY \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NVDLA_GEM_DESTROY, struct drm_nvdla_gem_destroy)
#define DRM_IOCTL_NVDLA_QUERY \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NVDLA_QUERY, struct drm_nvdla_query)
#define DRM_IOCTL_NVDLA_SUBMIT_TASKS \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NVDLA_SUBMIT_TASKS, struct drm_nvdla_submit)
#define DRM_IOCTL_NVDLA_WAIT \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NVDLA_WAIT, struct drm_nvdla_wait)
#define DRM_IOCTL_NVDLA_ACCESS \
	DRM_IOWR(DRM_COMMAND_BASE + DRM_NVDLA_ACCESS, struct drm_nvdla_access)

#if defined(__cplusplus)
}
#endif

#endif
