/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/* A C99 program. outputs NET... runs int8 networks, and compares the numbers of their first output with its bytes. */

#include <nvdla.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what)                                                                             \
    do {                                                                                        \
        nvdla_status status = (what);                                                           \
        if (status != NVDLA_STATUS_OK) {                                                        \
            fprintf(stderr, "%s: %s\n", nvdla_status_name(status), nvdla_last_error());         \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

static void outputs(const char *net)
{
    nvdla_network *network;
    nvdla_context *context;
    nvdla_tensor input, output;
    float *values, *numbers;
    signed char *bytes;
    size_t at, differing = 0, distinct = 0;
    unsigned char seen[256] = {0};

    CHECK(nvdla_network_open(net, "model", &network));
    CHECK(nvdla_context_new(network, &context));
    CHECK(nvdla_context_tensor(context, NVDLA_DIRECTION_INPUT, 0, &input));
    CHECK(nvdla_context_tensor(context, NVDLA_DIRECTION_OUTPUT, 0, &output));
    values = malloc(input.count * sizeof *values);
    numbers = malloc(output.count * sizeof *numbers);
    bytes = malloc(output.size);
    if (values == NULL || numbers == NULL || bytes == NULL)
        exit(1);
    for (at = 0; at < input.count; at++)
        values[at] = (float)(at * 29 % 83) / 41.0f - 1.0f;
    CHECK(nvdla_context_set_input_f32(context, 0, values, input.count));
    CHECK(nvdla_context_run(context));
    CHECK(nvdla_context_output_f32(context, 0, numbers, output.count));
    CHECK(nvdla_context_output(context, 0, (uint8_t *)bytes, output.size));
    for (at = 0; at < output.count; at++) {
        const size_t x = at % output.w, y = at / output.w % output.h, c = at / output.w / output.h;
        const size_t atom = output.line_stride / output.w;
        const signed char element =
            bytes[c / atom * output.surface_stride + y * output.line_stride + x * atom + c % atom];
        const float expected = ((float)element - output.zero) * output.scale;

        differing += fabsf(expected - numbers[at]) > 1e-6f * fabsf(expected);
        distinct += !seen[(unsigned char)element];
        seen[(unsigned char)element] = 1;
    }
    printf("%u x %u x %u in lines of %u bytes: %zu differ, %s\n", (unsigned)output.c, (unsigned)output.h,
           (unsigned)output.w, (unsigned)output.line_stride, differing, distinct > 50 ? "many values" : "few values");
    free(values);
    free(numbers);
    free(bytes);
    nvdla_context_free(context);
    nvdla_network_free(network);
}

int main(int argc, char **argv)
{
    int at;

    if (argc < 2) {
        fprintf(stderr, "usage: %s NET...\n", argv[0]);
        return 2;
    }
    for (at = 1; at < argc; at++)
        outputs(argv[at]);
    return 0;
}
