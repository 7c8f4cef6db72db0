// SPDX-License-Identifier: MIT OR Apache-2.0

// A C++17 program. classify NET PICTURE DEVICE prints the class, computed by four threads with one context per thread.

#include <nvdla.hpp>

#include <algorithm>
#include <iostream>
#include <thread>
#include <vector>

int main(int argc, char **argv) {
    if (argc != 4) {
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
        const auto network = nvdla::Network::load(argv[1], argv[3]);
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
