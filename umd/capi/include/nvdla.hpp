// SPDX-License-Identifier: MIT OR Apache-2.0

// libnvdla for C++17: the handles of nvdla.h as objects, and its statuses as exceptions.
//
// The methods have the names of NVIDIA's IRuntime: getNumInputTensors, getInputTensorDesc, bindInputTensor, submit. The
// rules for threads are those of nvdla.h.
//
//     auto network = nvdla::Network::load("net.nvdla");
//     auto context = network.context();
//     context.setInputImage(0, "photo.png");
//     context.submit().wait();
//     std::vector<float> scores = context.output(0);

#ifndef NVDLA_HPP
#define NVDLA_HPP

#include "nvdla.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace nvdla {

/// A call that failed.
class Error : public std::runtime_error {
public:
    Error(nvdla_status status, const std::string &text) : std::runtime_error(text), status_(status) {}

    /// The status of the call.
    nvdla_status status() const noexcept { return status_; }

private:
    nvdla_status status_;
};

/// Throws an Error if a call of nvdla.h failed.
inline void check(nvdla_status status) {
    if (status != NVDLA_STATUS_OK) {
        throw Error(status, nvdla_last_error());
    }
}

/// A submitted run. The run is not stopped when this object is destroyed.
class Run {
public:
    /// Takes ownership of a handle.
    explicit Run(nvdla_run *run) : run_(run, nvdla_run_free) {}

    /// A file descriptor that becomes readable when the run has ended. It belongs to this object.
    int fd() const noexcept { return nvdla_run_fd(run_.get()); }

    /// Waits until the run has ended.
    void wait() { check(nvdla_run_wait(run_.get(), -1)); }

    /// Waits at most that long, and returns whether the run has ended.
    bool wait(std::chrono::milliseconds time) {
        const nvdla_status status = nvdla_run_wait(run_.get(), time.count() < 0 ? 0 : time.count());
        if (status == NVDLA_STATUS_PENDING) {
            return false;
        }
        check(status);
        return true;
    }

private:
    std::unique_ptr<nvdla_run, void (*)(nvdla_run *)> run_;
};

/// The inputs and outputs of a network. A context executes one run at a time.
class Context {
public:
    /// Takes ownership of a handle.
    explicit Context(nvdla_context *context) : context_(context, nvdla_context_free) {}

    std::size_t getNumInputTensors() const { return nvdla_context_count(context_.get(), NVDLA_DIRECTION_INPUT); }
    std::size_t getNumOutputTensors() const { return nvdla_context_count(context_.get(), NVDLA_DIRECTION_OUTPUT); }
    std::size_t findInputTensor(const std::string &name) const { return find(NVDLA_DIRECTION_INPUT, name); }
    std::size_t findOutputTensor(const std::string &name) const { return find(NVDLA_DIRECTION_OUTPUT, name); }
    nvdla_tensor getInputTensorDesc(std::size_t id) const { return tensor(NVDLA_DIRECTION_INPUT, id); }
    nvdla_tensor getOutputTensorDesc(std::size_t id) const { return tensor(NVDLA_DIRECTION_OUTPUT, id); }

    /// Writes the bytes of an input, as they lie in memory.
    void setInputBytes(std::size_t id, const std::vector<std::uint8_t> &bytes) {
        check(nvdla_context_set_input(context_.get(), id, bytes.data(), bytes.size()));
    }

    /// Writes the real numbers of an input in NCHW order.
    void setInput(std::size_t id, const std::vector<float> &values) {
        check(nvdla_context_set_input_f32(context_.get(), id, values.data(), values.size()));
    }

    /// Writes an input from a picture file.
    void setInputImage(std::size_t id, const std::string &path) {
        check(nvdla_context_set_input_image(context_.get(), id, path.c_str()));
    }

    /// Returns the bytes of an output, as they lie in memory.
    std::vector<std::uint8_t> outputBytes(std::size_t id) const {
        std::vector<std::uint8_t> bytes(getOutputTensorDesc(id).size);
        check(nvdla_context_output(context_.get(), id, bytes.data(), bytes.size()));
        return bytes;
    }

    /// Returns the real numbers of an output in NCHW order.
    std::vector<float> output(std::size_t id) const {
        std::vector<float> values(getOutputTensorDesc(id).count);
        check(nvdla_context_output_f32(context_.get(), id, values.data(), values.size()));
        return values;
    }

    /// Returns a file descriptor of the memory of an input: a dma-buf, or for the model a file. The caller closes it.
    int exportInputTensor(std::size_t id) { return exported(NVDLA_DIRECTION_INPUT, id); }

    /// Returns a file descriptor of the memory of an output, as exportInputTensor.
    int exportOutputTensor(std::size_t id) { return exported(NVDLA_DIRECTION_OUTPUT, id); }

    /// Uses the memory behind a file descriptor for an input.
    void bindInputTensor(std::size_t id, int fd) {
        check(nvdla_context_bind_fd(context_.get(), NVDLA_DIRECTION_INPUT, id, fd));
    }

    /// Uses the memory behind a file descriptor for an output.
    void bindOutputTensor(std::size_t id, int fd) {
        check(nvdla_context_bind_fd(context_.get(), NVDLA_DIRECTION_OUTPUT, id, fd));
    }

    /// Runs the network, and returns when the run has ended.
    void run() { check(nvdla_context_run(context_.get())); }

    /// Submits a run. Each task has that much time; zero means the limit of the device.
    Run submit(std::chrono::milliseconds timeout = std::chrono::milliseconds(0)) {
        nvdla_run *run = nullptr;
        check(nvdla_context_submit(context_.get(), static_cast<std::uint64_t>(timeout.count()), &run));
        return Run(run);
    }

    /// Waits until the run in flight has ended, also after its Run was destroyed.
    void wait() { check(nvdla_context_wait(context_.get(), -1)); }

    /// Waits at most that long, and returns whether the run has ended.
    bool wait(std::chrono::milliseconds time) {
        const nvdla_status status = nvdla_context_wait(context_.get(), time.count() < 0 ? 0 : time.count());
        if (status == NVDLA_STATUS_PENDING) {
            return false;
        }
        check(status);
        return true;
    }

    /// Ends the run in flight. Its result is then usually an Error with NVDLA_STATUS_CANCELLED.
    void cancel() { check(nvdla_context_cancel(context_.get())); }

private:
    int exported(nvdla_direction direction, std::size_t id) {
        int fd = -1;
        check(nvdla_context_export(context_.get(), direction, id, &fd));
        return fd;
    }

    std::size_t find(nvdla_direction direction, const std::string &name) const {
        std::size_t found = 0;
        check(nvdla_context_find(context_.get(), direction, name.c_str(), &found));
        return found;
    }

    nvdla_tensor tensor(nvdla_direction direction, std::size_t id) const {
        nvdla_tensor found{};
        check(nvdla_context_tensor(context_.get(), direction, id, &found));
        return found;
    }

    std::unique_ptr<nvdla_context, void (*)(nvdla_context *)> context_;
};

/// A network on a device.
class Network {
public:
    /// Loads a network onto a device: "model", "model:nv_small" or a device node. Without a device it is the first NVDLA of
    /// this machine, or the model if there is none.
    static Network load(const std::string &path, const std::optional<std::string> &device = std::nullopt) {
        nvdla_network *network = nullptr;
        check(nvdla_network_open(path.c_str(), device ? device->c_str() : nullptr, &network));
        return Network(network);
    }

    /// Loads a network from the bytes of its file, which are copied.
    static Network fromMemory(const std::vector<std::uint8_t> &bytes,
                              const std::optional<std::string> &device = std::nullopt) {
        nvdla_network *network = nullptr;
        check(nvdla_network_from_memory(bytes.data(), bytes.size(), device ? device->c_str() : nullptr, &network));
        return Network(network);
    }

    /// Loads another network onto the same device.
    Network loadBeside(const std::string &path) const {
        nvdla_network *network = nullptr;
        check(nvdla_network_open_beside(network_.get(), path.c_str(), &network));
        return Network(network);
    }

    /// Describes the device for people.
    std::string device() const { return nvdla_network_device(network_.get()); }

    /// Creates a context. Its inputs are zero.
    Context context() const {
        nvdla_context *context = nullptr;
        check(nvdla_context_new(network_.get(), &context));
        return Context(context);
    }

private:
    explicit Network(nvdla_network *network) : network_(network, nvdla_network_free) {}

    std::unique_ptr<nvdla_network, void (*)(nvdla_network *)> network_;
};

} // namespace nvdla

#endif // NVDLA_HPP
