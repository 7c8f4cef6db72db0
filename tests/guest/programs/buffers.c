/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program in C that uses the driver with nvdla_drm.h alone: makes a buffer, maps it, queues a task whose descriptors are not
 * valid, and shows why it is refused.
 *
 *	cc -std=c99 -D_GNU_SOURCE -I uapi/include tests/guest/programs/buffers.c -o buffers && ./buffers /dev/dri/renderD128
 */

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nvdla_drm.h"

static int failed(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	return 1;
}

int main(int count, char **words)
{
	struct drm_nvdla_query query = {0};
	struct drm_nvdla_gem_create create = {.size = 8192, .flags = NVDLA_GEM_CREATE_CACHED};
	struct drm_nvdla_gem_mmap place = {0};
	struct drm_nvdla_access access = {.flags = NVDLA_ACCESS_WRITE};
	struct drm_nvdla_address address = {.flags = NVDLA_ADDRESS_READ};
	struct drm_nvdla_task task = {.num_addresses = 1, .address_size = sizeof(address)};
	struct drm_nvdla_submit submit = {.num_tasks = 1, .task_size = sizeof(task), .out_fence = -1};
	struct drm_nvdla_wait wait = {.sequence = 1};
	struct drm_nvdla_gem_destroy destroy = {0};
	void *bytes;
	int node;

	if (count != 2) {
		fprintf(stderr, "usage: %s NODE\n", words[0]);
		return 2;
	}
	node = open(words[1], O_RDWR | O_CLOEXEC);
	if (node < 0)
		return failed(words[1]);
	if (ioctl(node, DRM_IOCTL_NVDLA_QUERY, &query))
		return failed("query");
	printf("%s, at most %u addresses\n", (const char *)query.config, query.max_addresses);
	if (ioctl(node, DRM_IOCTL_NVDLA_GEM_CREATE, &create))
		return failed("create");
	place.handle = access.handle = address.handle = destroy.handle = create.handle;
	if (ioctl(node, DRM_IOCTL_NVDLA_GEM_MMAP, &place))
		return failed("offset");
	bytes = mmap(NULL, create.size, PROT_READ | PROT_WRITE, MAP_SHARED, node, (off_t)place.offset);
	if (bytes == MAP_FAILED)
		return failed("mmap");
	if (ioctl(node, DRM_IOCTL_NVDLA_ACCESS, &access))
		return failed("begin of accesses");
	memset(bytes, 0xee, create.size);
	access.flags |= NVDLA_ACCESS_END;
	if (ioctl(node, DRM_IOCTL_NVDLA_ACCESS, &access))
		return failed("end of accesses");
	task.addresses = (uintptr_t)&address;
	submit.tasks = (uintptr_t)&task;
	if (!ioctl(node, DRM_IOCTL_NVDLA_SUBMIT_TASKS, &submit) || errno != EINVAL || !submit.refused_reason) {
		fprintf(stderr, "a task without valid descriptors was not refused for a reason\n");
		return 1;
	}
	printf("task %u is refused for reason %u\n", submit.refused_task, submit.refused_reason);
	if (!ioctl(node, DRM_IOCTL_NVDLA_WAIT, &wait) || errno != EINVAL) {
		fprintf(stderr, "a task that was not queued can be waited for\n");
		return 1;
	}
	munmap(bytes, create.size);
	if (ioctl(node, DRM_IOCTL_NVDLA_GEM_DESTROY, &destroy))
		return failed("destroy");
	close(node);
	return 0;
}
