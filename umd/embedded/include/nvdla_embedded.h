/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Runs NVDLA loadables on a processor without an operating system. docs/embedded.md has the steps, and
 * examples/embedded a whole program.
 *
 * All functions but nvdla_embedded_config and nvdla_embedded_offset return 0 or true on success. An error is a negative
 * number (enum nvdla_embedded_error), and its text is written to @message, which may be NULL and has @size bytes. The
 * text is empty if the library was built without the feature "messages".
 * Nothing here is safe to call from two threads, or from an interrupt, at the same time.
 */
#ifndef NVDLA_EMBEDDED_H
#define NVDLA_EMBEDDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum nvdla_embedded_error {
	NVDLA_EMBEDDED_LOADABLE = -1,	/* the bytes are no loadable, or a field of it cannot be */
	NVDLA_EMBEDDED_UNSUPPORTED = -2, /* descriptors of another version, or too many tasks */
	NVDLA_EMBEDDED_MEMORY = -3,	/* arena or work are too small or not aligned */
	NVDLA_EMBEDDED_TASK = -4,	/* a task is refused, or an emulated one fails */
	NVDLA_EMBEDDED_TIMEOUT = -5,	/* a task did not end in time */
	NVDLA_EMBEDDED_NO_DEVICE = -6,	/* no NVDLA answers at the register window */
	NVDLA_EMBEDDED_BUSY = -7,	/* the device is busy, and the board cannot reset it */
};

/**
 * struct nvdla_board - a board with an NVDLA
 * @context: passed to each function
 * @read: reads the 32-bit register at that byte offset of the register window
 * @write: writes it, after all earlier writes and before later reads
 * @now: nanoseconds since any fixed time
 * @wait: waits for the device's interrupt, or for a short time; NULL to poll without waiting
 * @clean: makes the processor's writes to these bytes visible to the device; NULL if they are
 * @invalidate: makes the device's writes to these bytes visible to the processor; NULL if they are
 * @reset: resets the device and returns true; NULL if the board cannot
 */
struct nvdla_board {
	void *context;
	uint32_t (*read)(void *context, uint32_t offset);
	void (*write)(void *context, uint32_t offset, uint32_t value);
	uint64_t (*now)(void *context);
	void (*wait)(void *context);
	void (*clean)(void *context, const void *address, size_t bytes);
	void (*invalidate)(void *context, const void *address, size_t bytes);
	bool (*reset)(void *context);
};

/* A device, and a network. Their contents are private; they must not be copied or moved. */
struct nvdla_device {
	uint64_t private_data[656];
};

struct nvdla_network {
	uint64_t private_data[228];
};

/**
 * struct nvdla_needs - the memory that a network needs
 * @arena: bytes that the processor and the device share
 * @alignment: alignment of the arena's address for the device, in bytes
 * @work: bytes of the processor's own memory, aligned to 8
 */
struct nvdla_needs {
	uint64_t arena;
	uint64_t alignment;
	size_t work;
};

/**
 * struct nvdla_memory - what a network is loaded from and into
 * @loadable: the file's bytes, which are read where they are as long as the network is used
 * @arena: the memory that the processor and the device share
 * @address: the device's address of the first byte of @arena
 * @work: the processor's own memory, aligned to 8 bytes
 */
struct nvdla_memory {
	const void *loadable;
	size_t loadable_bytes;
	void *arena;
	size_t arena_bytes;
	uint64_t address;
	void *work;
	size_t work_bytes;
};

/* The type of a tensor's elements. */
enum nvdla_element {
	NVDLA_INT8,
	NVDLA_UINT8,
	NVDLA_INT16,
	NVDLA_UINT16,
	NVDLA_HALF,
};

/**
 * struct nvdla_tensor - an input or an output
 * @data: its bytes in the arena
 * @size: the number of its bytes
 * @element: enum nvdla_element
 */
struct nvdla_tensor {
	void *data;
	size_t size;
	uint32_t batch;
	uint32_t channels;
	uint32_t lines;
	uint32_t columns;
	uint32_t element;
};

/* Takes over the device of a board, whose configuration is read from its registers. */
int nvdla_embedded_open(struct nvdla_device *device, const struct nvdla_board *board, char *message, size_t size);

/* The name of the device's configuration, without a zero at its end, and its length. */
const char *nvdla_embedded_config(const struct nvdla_device *device, size_t *length);

/* What a loadable needs on that device. */
int nvdla_embedded_needs(const struct nvdla_device *device, const void *loadable, size_t bytes,
			 struct nvdla_needs *needs, char *message, size_t size);

/* Loads a network for that device: fills the arena and validates every task. */
int nvdla_embedded_load(struct nvdla_network *network, const struct nvdla_device *device,
			const struct nvdla_memory *memory, char *message, size_t size);

/* The input or output at a position; false if there is none. */
bool nvdla_embedded_tensor(struct nvdla_network *network, bool is_output, size_t position,
			   struct nvdla_tensor *tensor);

/*
 * The offset of an element in the bytes of an input or output, by its place in the batch, channel, line and column;
 * SIZE_MAX outside the shape. The channels of an image are in the order red, green, blue, alpha.
 */
size_t nvdla_embedded_offset(const struct nvdla_network *network, bool is_output, size_t position,
			     const uint32_t place[4]);

/*
 * Runs the network within that time. After NVDLA_EMBEDDED_TIMEOUT the next run resets the device first; the arena must
 * not be used for anything else before.
 */
int nvdla_embedded_run(struct nvdla_device *device, struct nvdla_network *network, uint32_t milliseconds,
		       char *message, size_t size);

#ifdef __cplusplus
}
#endif

#endif
