/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/* libnvdla runs compiled networks on an NVDLA or on its bit-exact model. cbindgen generates this file from umd/capi/src.
 *
 * Handles are opaque pointers. A call that can fail returns a status, and nvdla_last_error returns the text of the last
 * failure of the calling thread. A handle that a failed call should have returned is left as it was.
 *
 * Any thread may use any handle, and several threads may use one handle at the same time. Calls on one context are executed
 * one after another; waiting for a run is not such a call. No other thread may use a handle while it is freed, or after that.
 *
 * A process that was forked must not use the handles of its parent: calls return NVDLA_STATUS_UNSUPPORTED.
 */

#ifndef NVDLA_H
#define NVDLA_H

#include <stddef.h>
#include <stdint.h>

/*
 The result of a call.
 */
typedef enum nvdla_status {
    /*
     Success.
     */
    NVDLA_STATUS_OK = 0,
    /*
     An argument is wrong: NULL, no such tensor, a wrong size.
     */
    NVDLA_STATUS_ARGUMENT = 1,
    /*
     A file cannot be read or written.
     */
    NVDLA_STATUS_FILE = 2,
    /*
     A loadable is malformed, or uses something that this library does not support.
     */
    NVDLA_STATUS_LOADABLE = 3,
    /*
     A task breaks a rule of the hardware or of its configuration.
     */
    NVDLA_STATUS_REFUSED = 4,
    /*
     There is not enough memory.
     */
    NVDLA_STATUS_MEMORY = 5,
    /*
     The device cannot be opened, or failed.
     */
    NVDLA_STATUS_DEVICE = 6,
    /*
     Something did not end in time.
     */
    NVDLA_STATUS_DEADLINE = 7,
    /*
     A run of the context is in flight.
     */
    NVDLA_STATUS_BUSY = 8,
    /*
     The device cannot do this.
     */
    NVDLA_STATUS_UNSUPPORTED = 9,
    /*
     The library has a bug. Do not use the handles of the call again.
     */
    NVDLA_STATUS_PANIC = 10,
    /*
     Any other failure.
     */
    NVDLA_STATUS_OTHER = 11,
    /*
     The run has not ended yet. Only `nvdla_run_wait` and `nvdla_context_wait` return it.
     */
    NVDLA_STATUS_PENDING = 12,
    /*
     The run was cancelled.
     */
    NVDLA_STATUS_CANCELLED = 13,
} nvdla_status;

/*
 The type of an element.
 */
typedef enum nvdla_type {
    /*
     A signed integer of 8 bits.
     */
    NVDLA_TYPE_INT8 = 0,
    /*
     A signed integer of 16 bits.
     */
    NVDLA_TYPE_INT16 = 1,
    /*
     A half-precision floating-point number.
     */
    NVDLA_TYPE_HALF = 2,
    /*
     Another type.
     */
    NVDLA_TYPE_OTHER = 3,
} nvdla_type;

/*
 The direction of a tensor.
 */
typedef enum nvdla_direction {
    /*
     The application writes it.
     */
    NVDLA_DIRECTION_INPUT = 0,
    /*
     The network writes it.
     */
    NVDLA_DIRECTION_OUTPUT = 1,
} nvdla_direction;

/*
 The inputs and outputs of a network. A context executes one run at a time.
 */
typedef struct nvdla_context nvdla_context;

/*
 A network on a device. All its contexts use one copy of its weights.
 */
typedef struct nvdla_network nvdla_network;

/*
 A submitted run.
 */
typedef struct nvdla_run nvdla_run;

/*
 An input or output.
 */
typedef struct nvdla_tensor {
    /*
     Name.
     */
    const char *name;
    /*
     The type of an element.
     */
    enum nvdla_type element;
    /*
     Images per batch.
     */
    uint32_t n;
    /*
     Channels.
     */
    uint32_t c;
    /*
     Lines.
     */
    uint32_t h;
    /*
     Elements per line.
     */
    uint32_t w;
    /*
     Bytes from a line to the next.
     */
    uint32_t line_stride;
    /*
     Bytes from a surface to the next.
     */
    uint32_t surface_stride;
    /*
     Size in bytes.
     */
    size_t size;
    /*
     Number of elements: n * c * h * w. It is also the number of `float` values of the calls that take or return them.
     */
    size_t count;
    /*
     Offset in bytes in the memory that `nvdla_context_export` returns.
     */
    size_t offset;
    /*
     Real value = (element - zero) * scale, for channel 0. 1 and 0 if the loadable has no scale.
     */
    float scale;
    /*
     See `scale`.
     */
    float zero;
} nvdla_tensor;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Returns the text of the last failure of the calling thread, empty if there was none. The text lives until the next
 failure of the thread.
 */
const char *nvdla_last_error(void);

/*
 Returns the name of a status, such as "argument"; "unknown" for a number that is not a status.
 */
const char *nvdla_status_name(int status);

/*
 Returns the version of the library, such as "0.1.0".
 */
const char *nvdla_version(void);

/*
 Loads a network from a file onto a device. `device` is an argument of `nvdla run --device`: "auto" or NULL for the first NVDLA
 of this machine, or the model if there is none; "model", "model:nv_small", or a device node.

 # Safety

 The texts end with a zero byte; `out` is valid.
 */
enum nvdla_status nvdla_network_open(const char *path,
                                     const char *device,
                                     struct nvdla_network **out);

/*
 Loads a network from memory onto a device. The library copies the bytes.

 # Safety

 There are `size` bytes; the text ends with a zero byte; `out` is valid.
 */
enum nvdla_status nvdla_network_from_memory(const uint8_t *bytes,
                                            size_t size,
                                            const char *device,
                                            struct nvdla_network **out);

/*
 Loads a network from a file onto the device of another network.

 # Safety

 As [`nvdla_network_open`]; `other` is a network.
 */
enum nvdla_status nvdla_network_open_beside(const struct nvdla_network *other,
                                            const char *path,
                                            struct nvdla_network **out);

/*
 Returns a description of the device of a network, to be shown to users. The text lives as long as the network. NULL for NULL.

 # Safety

 `network` is a network or NULL.
 */
const char *nvdla_network_device(const struct nvdla_network *network);

/*
 Frees a network. Its contexts stay usable.

 # Safety

 `network` is a network that is not used again, or NULL.
 */
void nvdla_network_free(struct nvdla_network *network);

/*
 Creates a context. Its inputs are zero.

 # Safety

 `network` is a network; `out` is valid.
 */
enum nvdla_status nvdla_context_new(const struct nvdla_network *network, struct nvdla_context **out);

/*
 Frees a context. The device completes a run in flight first; the run's handle stays usable.

 # Safety

 `context` is a context that is not used again, or NULL.
 */
void nvdla_context_free(struct nvdla_context *context);

/*
 Returns the number of inputs (`NVDLA_DIRECTION_INPUT`) or outputs (`NVDLA_DIRECTION_OUTPUT`); 0 for NULL.

 # Safety

 `context` is a context or NULL.
 */
size_t nvdla_context_count(const struct nvdla_context *context, uint32_t direction);

/*
 Describes an input or output. The name in it lives as long as the context.

 # Safety

 `context` is a context; `out` is valid.
 */
enum nvdla_status nvdla_context_tensor(const struct nvdla_context *context,
                                       uint32_t direction,
                                       size_t index,
                                       struct nvdla_tensor *out);

/*
 Finds an input or output by its name.

 # Safety

 `context` is a context; the text ends with a zero byte; `out` is valid.
 */
enum nvdla_status nvdla_context_find(const struct nvdla_context *context,
                                     uint32_t direction,
                                     const char *name,
                                     size_t *out);

/*
 Writes an input's bytes, as they lie in memory.

 # Safety

 `context` is a context; there are `size` bytes.
 */
enum nvdla_status nvdla_context_set_input(struct nvdla_context *context,
                                          size_t index,
                                          const uint8_t *bytes,
                                          size_t size);

/*
 Writes an input from real numbers in NCHW order, converted by the scale that this project's compiler writes into the
 loadable. Without a scale the numbers are the elements.

 # Safety

 `context` is a context; there are `count` numbers.
 */
enum nvdla_status nvdla_context_set_input_f32(struct nvdla_context *context,
                                              size_t index,
                                              const float *values,
                                              size_t count);

/*
 Writes an input from a picture file (pgm, ppm, png or jpeg), as `nvdla run --image` does.

 # Safety

 `context` is a context; the text ends with a zero byte.
 */
enum nvdla_status nvdla_context_set_input_image(struct nvdla_context *context,
                                                size_t index,
                                                const char *path);

/*
 Copies an output's bytes, as they lie in memory.

 # Safety

 `context` is a context; `bytes` has space for `size` bytes.
 */
enum nvdla_status nvdla_context_output(const struct nvdla_context *context,
                                       size_t index,
                                       uint8_t *bytes,
                                       size_t size);

/*
 Copies an output as real numbers in NCHW order, converted as for `nvdla_context_set_input_f32`.

 # Safety

 `context` is a context; `values` has space for `count` numbers.
 */
enum nvdla_status nvdla_context_output_f32(const struct nvdla_context *context,
                                           size_t index,
                                           float *values,
                                           size_t count);

/*
 Runs the network, and returns when the run has ended.

 # Safety

 `context` is a context.
 */
enum nvdla_status nvdla_context_run(struct nvdla_context *context);

/*
 Submits a run, and returns before it has ended. `timeout_ms` is the time limit of each task in milliseconds; 0 means the
 device's own limit. Until the run has ended, calls that access the context's inputs and outputs return `NVDLA_STATUS_BUSY`.

 # Safety

 `context` is a context; `out` is valid.
 */
enum nvdla_status nvdla_context_submit(struct nvdla_context *context,
                                       uint64_t timeout_ms,
                                       struct nvdla_run **out);

/*
 Returns a file descriptor that becomes readable when the run has ended, for `poll`. It belongs to the run. -1 for NULL.

 # Safety

 `run` is a run or NULL.
 */
int nvdla_run_fd(const struct nvdla_run *run);

/*
 Waits until a run has ended, at most `timeout_ms` milliseconds, or without limit if that is negative. Several threads may wait
 for one run, and one of them gets its result; others get `NVDLA_STATUS_ARGUMENT`. `NVDLA_STATUS_PENDING` means that the run has not ended yet. Any other status is the result of the run, which is returned once.

 # Safety

 `run` is a run.
 */
enum nvdla_status nvdla_run_wait(struct nvdla_run *run,
                                 int64_t timeout_ms);

/*
 Waits until the context's run has ended, as `nvdla_run_wait` does. The handle of the run may have been freed.
 `NVDLA_STATUS_OK` if no run is in flight and the result of the last one has been returned.

 # Safety

 `context` is a context.
 */
enum nvdla_status nvdla_context_wait(struct nvdla_context *context, int64_t timeout_ms);

/*
 Ends the context's run, if one is in flight: on the model within milliseconds, on a kernel driver after the running task.
 Wait for it afterwards; its result is then usually `NVDLA_STATUS_CANCELLED`.

 # Safety

 `context` is a context.
 */
enum nvdla_status nvdla_context_cancel(struct nvdla_context *context);

/*
 Frees the handle of a run. The run itself is not stopped: `nvdla_context_wait` waits for it, `nvdla_context_cancel` ends it.

 # Safety

 `run` is a run that is not used again, or NULL.
 */
void nvdla_run_free(struct nvdla_run *run);

/*
 Exports the memory of a tensor as a file descriptor: a dma-buf, or for the model a file that can be mapped. The caller
 closes it.

 # Safety

 `context` is a context; `fd` is valid.
 */
enum nvdla_status nvdla_context_export(struct nvdla_context *context,
                                       uint32_t direction,
                                       size_t index,
                                       int *fd);

/*
 Uses the memory behind a file descriptor (a dma-buf; for the model any file that can be mapped) as the memory of a tensor. The
 caller may close the descriptor afterwards.

 # Safety

 `context` is a context. Nobody shortens the file while the context lives.
 */
enum nvdla_status nvdla_context_bind_fd(struct nvdla_context *context,
                                        uint32_t direction,
                                        size_t index,
                                        int fd);

/*
 Returns the text of the last failure of the calling thread, empty if there was none. The text lives until the next
 failure of the thread.
 */
const char *nvdla_last_error(void);

/*
 Returns the name of a status, such as "argument"; "unknown" for a number that is not a status.
 */
const char *nvdla_status_name(int status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NVDLA_H */
