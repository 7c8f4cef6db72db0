#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs real networks through the provider, and compares them with ONNX Runtime's own provider of the processor.

    compare_networks.py FOLDER [NAME...] [--kind CONFIG,PRECISION]... [--runs COUNT] [--write PAGE]

It prints one line per network and kind, for the table that PAGE gets; the text of PAGE below has the meaning of the columns. Without the package
`nvdla` the seconds of the library are missing. The device is the built-in model, or the one that DEVICE names. "fp16+table" is fp16
with the ranges of the table, and "fp16" without.

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

PAGE = """# Networks through ONNX Runtime's provider

The table is written by a command. The device is the built-in model. The first command fetches the packages that hold the networks:

    python umd/onnxruntime/tests/prepare_networks.py /tmp/networks
    python umd/onnxruntime/tests/compare_networks.py /tmp/networks --write docs/frameworks/figures.md \\
        --runs 1 --kind nv_full,fp16 --kind nv_full,int8 --kind nv_full,quantized

| column | meaning |
| --- | --- |
| kind | configuration and precision. `int8` has a table of ranges of eight samples, without the equalisation of `nvdla compile --calibrate`, which calibrates better. `quantized` is the file of ONNX Runtime's static quantisation with the same samples |
| nodes, groups | the nodes on NVDLA, all nodes, and the groups |
| estimated ms | of the groups: on NVDLA, to hand over, and on four cores of a processor |
| dB | ratio of signal to noise of each output, of one sample. `fp16` and `int8` are compared with the model in real numbers on the processor, `quantized` with what the file says, computed node by node |
| ONNX Runtime's dB | the same of ONNX Runtime alone: converted to half precision by its tool, quantized by its tool, and for `quantized` its usual run with joined kernels, which round at other places, and saturate in the middle of a sum on a processor without VNNI |
| s to open, per run, library | seconds to open the session, of a run, and of the same groups through the package `nvdla`; the least of {runs} |

| network | kind | nodes, groups | estimated ms | dB | ONNX Runtime's dB | s to open | per run | library |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
{rows}

ONNX Runtime {version}. ResNet-50 has random weights of usual size, and yolo11n-seg random weights with statistics of BatchNorm that were
measured on photographs: such networks add the noise of each layer to that of the layers before, which trained ones do not.
"""
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
    return (f"| {name} | {config}, {precision}{' with a table' if table else ''} | {inside} of {inside + len(left)}, {len(groups)} | "
            f"{of('nvdla'):.2f} + {of('handover'):.2f}; {of('processor'):.2f} | {noise(found, right)} | "
            f"{own} | {opened:.2f} | {min(times):.3f} | {'-' if library is None else f'{library:.3f}'} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--kind", action="append", choices=KINDS)
    parser.add_argument("--runs", type=int, default=3, help="the least time of so many counts")
    parser.add_argument("--write", type=pathlib.Path, metavar="PAGE", help="the page that gets the table")
    arguments = parser.parse_args()
    rows = []
    ort.register_execution_provider_library("nvdla", nvdla.get_library_path())
    for name in arguments.names or sorted(path.parent.name for path in arguments.folder.glob("*/input.npy")):
        for kind in arguments.kind or KINDS:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(compare(name, arguments.folder / name, pathlib.Path(folder), arguments.runs, *kind.split(",")))
                print(rows[-1], flush=True)
    if arguments.write:
        arguments.write.write_text(PAGE.format(rows="\n".join(rows), runs=arguments.runs, version=ort.__version__))


if __name__ == "__main__":
    main()
