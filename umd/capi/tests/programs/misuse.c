/* SPDX-License-Identifier: MIT OR Apache-2.0 */

/* A C99 program. misuse NET SLOW uses the library as a program should not, or seldom does: several threads wait for one run, a
 * process is forked, shared memory is shortened. SLOW is a network that runs for several seconds. */

#define _GNU_SOURCE

#include <nvdla.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXPECT(condition)                                                                       \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            fprintf(stderr, "line %d: %s (%s)\n", __LINE__, #condition, nvdla_last_error());    \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void *wait_for(void *run)
{
    static nvdla_status status;

    status = nvdla_run_wait(run, -1);
    return &status;
}

static void threads(const char *slow)
{
    nvdla_network *network;
    nvdla_context *context;
    nvdla_run *run;
    pthread_t thread;
    void *status;
    struct pollfd fds;
    double since;

    EXPECT(nvdla_network_open(slow, "model", &network) == NVDLA_STATUS_OK);
    EXPECT(nvdla_context_new(network, &context) == NVDLA_STATUS_OK);
    EXPECT(nvdla_context_wait(context, -1) == NVDLA_STATUS_OK);
    EXPECT(nvdla_context_cancel(context) == NVDLA_STATUS_OK);
    EXPECT(nvdla_context_submit(context, 0, &run) == NVDLA_STATUS_OK);
    EXPECT(pthread_create(&thread, NULL, wait_for, run) == 0);
    usleep(50000);
    /* While another thread waits, neither the descriptor nor a short wait takes long. */
    since = seconds();
    fds.fd = nvdla_run_fd(run);
    fds.events = POLLIN;
    EXPECT(fds.fd >= 0 && poll(&fds, 1, 0) == 0);
    EXPECT(nvdla_run_wait(run, 10) == NVDLA_STATUS_PENDING);
    EXPECT(nvdla_context_wait(context, 10) == NVDLA_STATUS_PENDING);
    EXPECT(nvdla_context_output(context, 0, (uint8_t *)&status, 1) == NVDLA_STATUS_BUSY);
    EXPECT(seconds() - since < 1.0);
    EXPECT(nvdla_context_cancel(context) == NVDLA_STATUS_OK);
    EXPECT(pthread_join(thread, &status) == 0);
    EXPECT(*(nvdla_status *)status == NVDLA_STATUS_CANCELLED);
    EXPECT(strcmp(nvdla_status_name(NVDLA_STATUS_CANCELLED), "cancelled") == 0);
    nvdla_run_free(run);
    /* A run whose handle is gone is waited for through its context. */
    EXPECT(nvdla_context_submit(context, 0, &run) == NVDLA_STATUS_OK);
    nvdla_run_free(run);
    EXPECT(nvdla_context_wait(context, 10) == NVDLA_STATUS_PENDING);
    EXPECT(nvdla_context_cancel(context) == NVDLA_STATUS_OK);
    EXPECT(nvdla_context_wait(context, -1) == NVDLA_STATUS_CANCELLED);
    EXPECT(nvdla_context_wait(context, -1) == NVDLA_STATUS_OK);
    nvdla_context_free(context);
    nvdla_network_free(network);
}

static void forked(const char *net)
{
    nvdla_network *network;
    nvdla_context *context;
    nvdla_run *run;
    pid_t child;
    int status;

    EXPECT(nvdla_network_open(net, "model", &network) == NVDLA_STATUS_OK);
    EXPECT(nvdla_context_new(network, &context) == NVDLA_STATUS_OK);
    EXPECT(nvdla_context_run(context) == NVDLA_STATUS_OK);
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        if (nvdla_context_run(context) != NVDLA_STATUS_UNSUPPORTED ||
            nvdla_context_submit(context, 100, &run) != NVDLA_STATUS_UNSUPPORTED ||
            strstr(nvdla_last_error(), "forked") == NULL)
            _exit(1);
        _exit(0);
    }
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT(nvdla_context_run(context) == NVDLA_STATUS_OK);
    nvdla_context_free(context);
    nvdla_network_free(network);
}

static void memory(const char *net)
{
    nvdla_network *network;
    nvdla_context *context, *other;
    nvdla_tensor input, output;
    struct stat found;
    unsigned char *bytes;
    int fd, more;
    char name[] = "/tmp/nvdla-misuse-XXXXXX";

    EXPECT(nvdla_network_open(net, "model", &network) == NVDLA_STATUS_OK);
    EXPECT(nvdla_context_new(network, &context) == NVDLA_STATUS_OK);
    EXPECT(nvdla_context_tensor(context, NVDLA_DIRECTION_INPUT, 0, &input) == NVDLA_STATUS_OK);
    EXPECT(nvdla_context_tensor(context, NVDLA_DIRECTION_OUTPUT, 0, &output) == NVDLA_STATUS_OK);
    EXPECT(nvdla_context_export(context, NVDLA_DIRECTION_OUTPUT, 0, &fd) == NVDLA_STATUS_OK);
    /* Who receives the descriptor can neither shorten nor lengthen the memory. */
    EXPECT(fstat(fd, &found) == 0 && found.st_size > 0);
    EXPECT(ftruncate(fd, 0) == -1 && errno == EPERM);
    EXPECT(ftruncate(fd, found.st_size + 1) == -1 && errno == EPERM);
    EXPECT(nvdla_context_run(context) == NVDLA_STATUS_OK);
    EXPECT(close(fd) == 0);

    /* Memory that is longer than the tensor by any number of bytes. */
    fd = mkstemp(name);
    EXPECT(fd >= 0 && unlink(name) == 0);
    for (more = 0; more < 20; more++) {
        EXPECT(ftruncate(fd, (off_t)(input.offset + input.size) + more) == 0);
        EXPECT(nvdla_context_bind_fd(context, NVDLA_DIRECTION_INPUT, 0, fd) == NVDLA_STATUS_OK);
        EXPECT(nvdla_context_run(context) == NVDLA_STATUS_OK);
        EXPECT(nvdla_context_new(network, &other) == NVDLA_STATUS_OK);
        EXPECT(nvdla_context_run(other) == NVDLA_STATUS_OK);
        nvdla_context_free(other);
    }
    close(fd);
    bytes = malloc(output.size);
    EXPECT(bytes != NULL && nvdla_context_output(context, 0, bytes, output.size) == NVDLA_STATUS_OK);
    free(bytes);
    nvdla_context_free(context);
    nvdla_network_free(network);
}

static void numbers(const char *net)
{
    nvdla_network *network;
    nvdla_context *context;
    nvdla_tensor input;
    float *values;

    EXPECT(nvdla_network_open(net, "model", &network) == NVDLA_STATUS_OK);
    EXPECT(nvdla_context_new(network, &context) == NVDLA_STATUS_OK);
    EXPECT(nvdla_context_tensor(context, NVDLA_DIRECTION_INPUT, 0, &input) == NVDLA_STATUS_OK);
    values = calloc(input.count, sizeof *values);
    EXPECT(values != NULL);
    values[3] = (float)strtod("nan", NULL);
    EXPECT(nvdla_context_set_input_f32(context, 0, values, input.count) == NVDLA_STATUS_ARGUMENT);
    EXPECT(strstr(nvdla_last_error(), "value 3 is not a number") != NULL);
    free(values);
    nvdla_context_free(context);
    nvdla_network_free(network);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s NET SLOW\n", argv[0]);
        return 2;
    }
    numbers(argv[1]);
    memory(argv[1]);
    forked(argv[1]);
    threads(argv[2]);
    puts("held");
    return 0;
}
