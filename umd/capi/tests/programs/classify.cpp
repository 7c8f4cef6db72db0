// SPDX-License-Identifier: MIT OR Apache-2.0

// A C++17 program. classify NET PICTURE DEVICE prints the class, computed by four threads with one context per thread.

#include <nvdla.hpp>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

int main(int argc, char **argv) {
    if (argc != 4) {
        std::cerr << "usage: " << argv[0] << " NET PICTURE DEVICE\n";
        return 2;
    }
    try {
        nvdla::Network::load("/nonexistent");
        return 3;
    } catch (const nvdla::Error &error) {
        if (error.status() != NVDLA_STATUS_FILE) {
            std::cerr << error.what() << '\n';
            return 4;
        }
    }
    try {
        std::ifstream file(argv[1], std::ios::binary);
        const std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
        const auto network = nvdla::Network::fromMemory(bytes, argv[3]);
        try {
            network.context().setInputBytes(0, {});
            return 7;
        } catch (const nvdla::Error &error) {
            if (std::strstr(error.what(), "bytes, 0 were given") == nullptr) {
                std::cerr << error.what() << '\n';
                return 8;
            }
        }
        {
            // The output's memory through a descriptor, which stays valid without its context.
            auto context = network.context();
            context.setInputImage(0, argv[2]);
            const int fd = context.exportOutputTensor(0);
            context.submit();
            context.wait();
            const auto output = context.outputBytes(0);
            void *memory = mmap(nullptr, output.size(), PROT_READ, MAP_SHARED, fd, 0);
            const bool same = memory != MAP_FAILED && std::memcmp(memory, output.data(), output.size()) == 0;
            if (!same || !context.wait(std::chrono::milliseconds(0)) || close(fd) != 0) {
                return 6;
            }
        }
        std::vector<std::size_t> classes(4);
        std::vector<std::thread> threads;
        for (auto &found : classes) {
            threads.emplace_back([&] {
                auto context = network.context();
                context.setInputImage(0, argv[2]);
                auto run = context.submit();
                while (!run.wait(std::chrono::milliseconds(1))) {
                }
                const auto scores = context.output(0);
                found = std::max_element(scores.begin(), scores.end()) - scores.begin();
            });
        }
        for (auto &thread : threads) {
            thread.join();
        }
        std::cout << "device: " << network.device() << "\nclass " << classes[0] << '\n';
        return std::count(classes.begin(), classes.end(), classes[0]) == 4 ? 0 : 5;
    } catch (const std::exception &error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
