#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs real networks through the provider, and compares them with ONNX Runtime's own provider of the processor.

    compare_networks.py FOLDER [NAME...] [--kind CONFIG,PRECISION]... [--runs COUNT]

One line per network and kind, for a table: nodes on NVDLA and in all, groups, the estimated times of the groups on NVDLA, for
handing over, and on the processor, the ratio of signal to noise of each output in decibels, the same of ONNX Runtime's own half
precision or quantisation on the processor, the seconds to open the model and for a run, and those of the groups' loadables through the
library alone, if the package `nvdla` is there. The device is the built-in model, or the one that DEVICE names. "fp16+table" is fp16 with
the ranges of the table, and "fp16" without. "quantized" is ONNX Runtime's quantisation, beside what it says node by node; ONNX Runtime's own
figure is then that of its joined integer kernels.

FOLDER is that of `prepare_networks.py`. Needs the packages onnx, onnxruntime and onnxruntime-ep-nvdla, and ONNX Runtime's half precision
sympy.
"""

import argparse
import json
import pathlib
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_nvdla as nvdla

import test_provider

KINDS = ["nv_full,fp16", "nv_full,fp16+table", "nv_full,int8", "nv_full,quantized", "nv_small,int8", "nv_small,quantized"]


def processor(model, exact=False):
    """A session of the processor's provider. Exact: each node computes as the file says, for neighbours in other precisions are not joined,
    and joined integers saturate in the middle of a sum on processors without VNNI."""
    options = ort.SessionOptions()
    if exact:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def half(path, feeds, right):
    """The decibels of ONNX Runtime with weights and tensors in half precision; none without its tool."""
    try:
        from onnxruntime.transformers.float16 import convert_float_to_float16
    except ImportError:
        return "-"
    model = convert_float_to_float16(onnx.load(path), keep_io_types=True).SerializeToString()
    return noise(processor(model, exact=True).run(None, feeds), right)


def noise(found, right):
    return ", ".join(f"{test_provider.decibels(one, other):.1f}" for one, other in zip(found, right, strict=True))


def alone(folder, division, runs):
    """The seconds of the groups through the library, each with zeros; None without the package `nvdla`."""
    try:
        import nvdla as library
    except ImportError:
        return None
    total = 0.0
    for group in division["groups"]:
        context = library.Network(folder / group["file"], device=test_provider.DEVICE).context()
        times = []
        for _ in range(runs):
            start = time.perf_counter()
            for k, info in enumerate(context.inputs):
                context.set_input(k, np.zeros(info.shape, np.float32))
            context.run()
            for k in range(len(context.outputs)):
                context.output(k)
            times.append(time.perf_counter() - start)
        total += min(times)
    return total


def compare(name, home, folder, runs, config, precision):
    quantized = str(home / "quantized.onnx")
    path = quantized if precision == "quantized" else str(home / "model.onnx")
    given = processor(path, exact=path == quantized)
    feeds = {given.get_inputs()[0].name: np.load(home / "input.npy")}
    right = given.run(None, feeds)
    precision, _, table = precision.partition("+")
    options = {"config": config, "dump_dir": folder}
    if precision == "fp16":
        own = half(path, feeds, right)
    else:
        own = noise(processor(quantized, exact=precision == "int8").run(None, feeds), right)
    if precision != "quantized":
        options["precision"] = precision
    if table or precision == "int8":
        options["calibtable"] = home / "table.json"
    start = time.perf_counter()
    session = test_provider.session(path, **options)
    opened = time.perf_counter() - start
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        found = session.run(None, feeds)
        times.append(time.perf_counter() - start)
    division = json.loads((folder / "partition.json").read_text())
    groups, left = division["groups"], division["processor"]
    inside = sum(len(group["nodes"]) for group in groups)
    of = lambda key: sum(group["seconds"][key] for group in groups) * 1e3
    library = alone(folder, division, runs)
    print(f"| {name} | {config}, {precision}{' with a table' if table else ''} | {inside} of {inside + len(left)}, {len(groups)} | "
          f"{of('nvdla'):.2f} + {of('handover'):.2f}; {of('processor'):.2f} | {noise(found, right)} | "
          f"{own} | {opened:.2f} | {min(times):.3f} | "
          f"{'-' if library is None else f'{library:.3f}'} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--runs", type=int, default=3, help="the least time of so many counts")
    arguments = parser.parse_args()
    ort.register_execution_provider_library("nvdla", nvdla.get_library_path())
    for name in arguments.names or sorted(path.parent.name for path in arguments.folder.glob("*/input.npy")):
        for kind in arguments.kind or KINDS:
            with tempfile.TemporaryDirectory() as folder:
                compare(name, arguments.folder / name, pathlib.Path(folder), arguments.runs, *kind.split(","))


if __name__ == "__main__":
    main()
