# SPDX-License-Identifier: MIT OR Apache-2.0

"""Requests per second and latencies of the predictor of KServe, beside the same network in process.

    python umd/python/tests/load.py [REQUESTS]

A row has requests per second, then the median and the 99th percentile of a request in milliseconds. The clients are threads of this
process, on the machine of the predictor, so the figures of several clients include the time that the clients take from it.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from threading import local

import numpy as np
import tritonclient.grpc
import tritonclient.http
from test_services import DEVICE, LENET, Predictor

import nvdla

VALUES = np.random.default_rng(1).uniform(0, 255, (1, 1, 28, 28)).astype(np.float32)


def in_process(own):
    """Runs the network by the library, with a context per thread."""
    if not hasattr(own, "context"):
        own.context = nvdla.Network(LENET, DEVICE).context()
    own.context.set_input(0, VALUES)
    own.context.run()
    return own.context.output(0)


def by(protocol, address):
    """A function that asks the predictor, with a connection per thread."""

    def ask(own):
        if not hasattr(own, "client"):
            own.client = protocol.InferenceServerClient(address)
        tensor = protocol.InferInput("data", list(VALUES.shape), "FP32")
        tensor.set_data_from_numpy(VALUES)
        return own.client.infer("lenet", [tensor]).as_numpy("prob")

    return ask


def row(ask, clients, requests):
    """Requests per second, and two percentiles of their latency in milliseconds."""
    own = local()
    expected = in_process(local())

    def one(_):
        start = time.perf_counter()
        answer = ask(own)
        latency = time.perf_counter() - start
        assert (answer == expected).all(), "an answer differs from the network in process"
        return latency * 1e3

    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(one, range(requests // 10)))
        start = time.perf_counter()
        latencies = list(pool.map(one, range(requests)))
        rate = requests / (time.perf_counter() - start)
    return rate, *np.percentile(latencies, [50, 99])


def main():
    requests = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    replica = Predictor("--contexts", 4, "--queue", 64)
    ways = {"in process": in_process, "REST": by(tritonclient.http, replica.http), "gRPC": by(tritonclient.grpc, replica.grpc)}
    try:
        print("| way | clients | requests per second | median, ms | 99th percentile, ms |\n| --- | --- | --- | --- | --- |")
        for way, ask in ways.items():
            for clients in (1, 4):
                rate, median, last = row(ask, clients, requests)
                print(f"| {way} | {clients} | {rate:.0f} | {median:.2f} | {last:.2f} |", flush=True)
    finally:
        replica.process.terminate()
        replica.process.wait()


if __name__ == "__main__":
    main()
