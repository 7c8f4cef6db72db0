#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the provider costs beside the library and the compiler alone, on the built-in model.

    cost.py [NAME...]

For each network, and for a model in real numbers with a table for int8:

- run: the microseconds of a run through ONNX Runtime above those of the device and of the conversions of inputs and outputs, each the
  least of many. The times of the parts are those of runs with the option `profile`, which are slower by the line of the log, so the first
  figure may be below 0; the second is the least difference of a run with the log;
- load: the seconds of processor time to open the model with the table, those of ONNX Runtime to open it without the provider, those of
  `nvdla_compiler` with the same table, and the ratio of the first to the last; each is the least of three. Processor time, because other
  programs of a shared machine change the time on the clock;
- start: the seconds to open the same model as an EPContext model, which does not compile;
- memory: the growth of the process's own resident memory by the session and its runs, for the model, the EPContext model whose loadable is
  in a file, and the one that has it inside. The device is one of another process, the virtual platform, so that its memory does not count.

Needs the packages onnx, onnxruntime and onnxruntime-ep-nvdla (a wheel of the release profile), and the compiler and nvdla_vp of
target/release, or those of the environment variables NVDLA_COMPILER and NVDLA_VP.
"""

import argparse
import gc
import json
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[3]
COMPILER = os.environ.get("NVDLA_COMPILER", str(ROOT / "target/release/nvdla_compiler"))
PLATFORM = os.environ.get("NVDLA_VP", str(ROOT / "target/release/nvdla_vp"))
CONFIG, RUNS = "nv_full", 200


def small():
    """One convolution, whose run on the built-in model is short."""
    import models
    b = models.Builder()
    return b.model([("x", [1, 8, 16, 16])], [(b.node("Relu", b.conv("x", 8, 8)), [1, 8, 16, 16])])


def lenet():
    return onnx.load(ROOT / "examples/lenet/lenet.onnx")


def resnet50():
    sys.path.insert(0, str(ROOT / "tools/compiler/scripts"))
    import networks
    return networks.light("light_resnet50")


NETWORKS = {"small": (small, RUNS), "lenet": (lenet, RUNS), "resnet50": (resnet50, 1)}


def processor(who):
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def resident():
    return int(re.search(r"RssAnon:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1]) * 1024


def child(model, runs, options):
    """Opens a model in this process, runs it, and prints what that cost. The times of the provider are on the standard error."""
    import onnxruntime as ort
    import onnxruntime_ep_nvdla as nvdla
    ort.register_execution_provider_library("nvdla", nvdla.get_library_path())
    devices = [device for device in ort.get_ep_devices() if device.ep_name == nvdla.get_ep_name()]
    context = options.pop("context", None)
    settings = ort.SessionOptions()
    embedded = options.pop("embedded", "0")
    # Threads of ONNX Runtime that wait for work take processor time as long as the session is opened.
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if context:
        for key, value in {"enable": "1", "embed_mode": embedded, "file_path": context}.items():
            settings.add_session_config_entry(f"ep.context_{key}", value)
    if options["device"] is not None:
        settings.add_provider_for_devices(devices, options)
    before = resident()
    start, used = time.perf_counter(), processor(resource.RUSAGE_SELF)
    session = ort.InferenceSession(model, sess_options=settings, enable_fallback=0)
    opened, used = time.perf_counter() - start, processor(resource.RUSAGE_SELF) - used
    info = session.get_inputs()[0]
    feed = {info.name: np.random.default_rng(5).standard_normal(info.shape).astype(np.float32)}
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        session.run(None, feed)
        times.append(time.perf_counter() - start)
    gc.collect()
    print(json.dumps({"opened": opened, "processor": used, "times": times, "memory": resident() - before}))


def measured(model, runs, **options):
    options = {"device": "model", "config": CONFIG, "min_nodes": "0", **options}
    command = [sys.executable, __file__, "--child", json.dumps([str(model), runs, options])]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    lines = re.findall(r"inputs (\d+) us, run (\d+) us, outputs (\d+) us", done.stderr)
    found["parts"] = [list(map(int, line)) for line in lines]
    return found


def memory(model, folder, **options):
    """The bytes by which a process grows that opens a model and runs it once, on a device of another process."""
    socket = folder / "device"
    with subprocess.Popen([PLATFORM, "--config", CONFIG, "--socket", socket], stderr=subprocess.DEVNULL) as platform:
        try:
            while not socket.exists():
                time.sleep(0.01)
            return measured(model, 1, device=f"vfio-user:{socket}", **options)["memory"]
        finally:
            platform.kill()
            socket.unlink(missing_ok=True)


def report(name):
    import onnxruntime_ep_nvdla as nvdla
    make, runs = NETWORKS[name]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        path, table, context = folder / "model.onnx", folder / "table.json", folder / "context.onnx"
        model = make()
        onnx.save(model, path)
        source = model.graph.input[0]
        shape = [max(dim.dim_value, 1) for dim in source.type.tensor_type.shape.dim]
        random = np.random.default_rng(3)
        nvdla.write_calibration_table(path, [{source.name: random.standard_normal(shape).astype(np.float32)}] * 2, table)
        int8 = {"precision": "int8", "calibtable": str(table)}
        opened = measured(path, runs, dump_dir=str(folder), **int8)
        compiler = [COMPILER, path, "-o", folder / "alone.nvdla", "--config", CONFIG, "--precision", "int8", "--calibtable", table]
        loads, plain, compiles = [], [], []
        for _ in range(3):
            loads.append(measured(path, 0, **int8)["processor"])
            plain.append(measured(path, 0, device=None)["processor"])
            before = processor(resource.RUSAGE_CHILDREN)
            subprocess.run(compiler, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            compiles.append(processor(resource.RUSAGE_CHILDREN) - before)
        loaded, alone, compiled = min(loads), min(plain), min(compiles)
        profile = measured(path, runs, profile="1", **int8)
        above = min(total * 1e6 - sum(parts) for total, parts in zip(profile["times"], profile["parts"], strict=True))
        given, device, taken = map(min, zip(*profile["parts"]))
        silent = min(opened["times"]) * 1e6 - given - device - taken
        inside = folder / "inside.onnx"
        measured(path, 1, context=str(context), **int8)
        measured(path, 1, context=str(inside), embedded="1", **int8)
        again = measured(context, runs)
        size = sum(group.stat().st_size for group in folder.glob("group_*.nvdla"))
        print(f"{name}: run {silent:.0f} us, with the log {above:.0f} us, above {device:.0f} us of the device and "
              f"{given + taken:.0f} us of conversions; load {loaded:.3f} s, ONNX Runtime alone {alone:.3f} s, "
              f"compiler {compiled:.3f} s, ratio {loaded / compiled:.2f}; start of an EPContext model {again['opened']:.3f} s; "
              f"loadable {size / 1e6:.2f} MB, memory {memory(path, folder, **int8) / 1e6:.0f} MB, "
              f"EPContext {memory(context, folder) / 1e6:.0f} MB, with the loadable inside {memory(inside, folder) / 1e6:.0f} MB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(NETWORKS))
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(*json.loads(arguments.child))
    else:
        for name in arguments.names or NETWORKS:
            report(name)


if __name__ == "__main__":
    main()
