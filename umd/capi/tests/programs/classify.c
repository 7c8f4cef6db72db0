/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/* A C99 program. classify NET PICTURE DEVICE prints the class, and checks calls that must fail. */

#include <nvdla.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                                             \
    do {                                                                                        \
        nvdla_status status = (what);                                                           \
        if (status != NVDLA_STATUS_OK) {                                                        \
            fprintf(stderr, "%s: %s\n", nvdla_status_name(status), nvdla_last_error());         \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

#define EXPECT(condition)                                                                       \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, nvdla_last_error());    \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

int main(int argc, char **argv)
{
    nvdla_network *network = NULL, *beside = NULL;
    nvdla_context *context = NULL;
    nvdla_run *run = NULL;
    nvdla_tensor input, output;
    static float numbers[785];
    float *scores;
    unsigned char *bytes;
    size_t at, best = 0;
    struct pollfd fds;

    if (argc != 4) {
        fprintf(stderr, "usage: %s NET PICTURE DEVICE\n", argv[0]);
        return 2;
    }
    EXPECT(nvdla_network_open("/nonexistent", NULL, &network) == NVDLA_STATUS_FILE);
    EXPECT(strstr(nvdla_last_error(), "/nonexistent") != NULL);
    EXPECT(nvdla_network_open(NULL, NULL, &network) == NVDLA_STATUS_ARGUMENT);
    EXPECT(nvdla_network_open(argv[1], "model:nothing", &network) == NVDLA_STATUS_ARGUMENT);
    EXPECT(nvdla_network_from_memory((const uint8_t *)"NVDL", 4, NULL, &network) == NVDLA_STATUS_LOADABLE);

    CHECK(nvdla_network_open(argv[1], argv[3], &network));
    CHECK(nvdla_network_open_beside(network, argv[1], &beside));
    nvdla_network_free(beside);
    CHECK(nvdla_context_new(network, &context));
    printf("device: %s\n", nvdla_network_device(network));
    /* A context stays usable without the handle of its network. */
    nvdla_network_free(network);

    EXPECT(nvdla_context_count(context, NVDLA_DIRECTION_INPUT) == 1);
    EXPECT(nvdla_context_count(context, 7) == 0);
    CHECK(nvdla_context_tensor(context, NVDLA_DIRECTION_INPUT, 0, &input));
    CHECK(nvdla_context_tensor(context, NVDLA_DIRECTION_OUTPUT, 0, &output));
    EXPECT(strcmp(output.name, "prob") == 0 && output.c == 10 && output.count == 10);
    EXPECT(nvdla_context_tensor(context, NVDLA_DIRECTION_INPUT, 1, &input) == NVDLA_STATUS_ARGUMENT);
    EXPECT(nvdla_context_set_input(context, 0, (const uint8_t *)"x", 1) == NVDLA_STATUS_ARGUMENT);
    EXPECT(nvdla_context_set_input(context, 0, (const uint8_t *)"x", SIZE_MAX) == NVDLA_STATUS_ARGUMENT);
    EXPECT(nvdla_context_set_input_f32(context, 0, (const float *)(const void *)((const char *)numbers + 1), 784) ==
           NVDLA_STATUS_ARGUMENT);
    EXPECT(strstr(nvdla_last_error(), "not aligned") != NULL);
    EXPECT(nvdla_context_find(context, NVDLA_DIRECTION_OUTPUT, "prob", &at) == NVDLA_STATUS_OK && at == 0);
    EXPECT(nvdla_context_find(context, NVDLA_DIRECTION_OUTPUT, "none", &at) == NVDLA_STATUS_ARGUMENT);
    EXPECT(strstr(nvdla_last_error(), "prob") != NULL);
    EXPECT(nvdla_context_export(context, NVDLA_DIRECTION_INPUT, 5, &fds.fd) == NVDLA_STATUS_ARGUMENT);
    EXPECT(nvdla_context_bind_fd(context, NVDLA_DIRECTION_INPUT, 0, -1) == NVDLA_STATUS_ARGUMENT);
    EXPECT(nvdla_context_set_input_image(context, 0, "/nonexistent.pgm") == NVDLA_STATUS_FILE);

    CHECK(nvdla_context_set_input_image(context, 0, argv[2]));
    CHECK(nvdla_context_submit(context, 60000, &run));
    fds.fd = nvdla_run_fd(run);
    fds.events = POLLIN;
    EXPECT(poll(&fds, 1, 60000) == 1);
    CHECK(nvdla_run_wait(run, 0));
    EXPECT(nvdla_run_wait(run, 0) == NVDLA_STATUS_ARGUMENT);
    EXPECT(nvdla_run_wait(NULL, 0) == NVDLA_STATUS_ARGUMENT);
    EXPECT(strcmp(nvdla_last_error(), "the run is NULL") == 0);
    nvdla_run_free(run);

    scores = malloc(output.count * sizeof *scores);
    bytes = malloc(output.size);
    EXPECT(scores != NULL && bytes != NULL);
    EXPECT(nvdla_context_output_f32(context, 0, scores, output.count - 1) == NVDLA_STATUS_ARGUMENT);
    CHECK(nvdla_context_output_f32(context, 0, scores, output.count));
    CHECK(nvdla_context_output(context, 0, bytes, output.size));
    for (at = 1; at < output.count; at++)
        if (scores[at] > scores[best])
            best = at;
    printf("class %zu\n", best);
    free(scores);
    free(bytes);

    /* The handle of a run is freed before the run has ended, and then its context. */
    CHECK(nvdla_context_submit(context, 0, &run));
    nvdla_run_free(run);
    nvdla_context_free(context);
    nvdla_context_free(NULL);
    return 0;
}
