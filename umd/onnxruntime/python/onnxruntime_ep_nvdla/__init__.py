# SPDX-License-Identifier: MIT OR Apache-2.0
"""The NVDLA provider for ONNX Runtime.

    import onnxruntime as ort
    import onnxruntime_ep_nvdla as nvdla

    ort.register_execution_provider_library("nvdla", nvdla.get_library_path())
    devices = [device for device in ort.get_ep_devices() if device.ep_name == nvdla.get_ep_name()]
    options = ort.SessionOptions()
    options.add_provider_for_devices(devices, {"config": "nv_full"})
    session = ort.InferenceSession("model.onnx", sess_options=options)

The package does not need the package onnxruntime, so it goes with each of its builds.
"""

import json
import pathlib

__all__ = ["get_library_path", "get_ep_name", "get_ep_names", "write_calibration_table"]


def get_library_path():
    """The path of the library, for `onnxruntime.register_execution_provider_library`."""
    return str(pathlib.Path(__file__).resolve().parent / "libonnxruntime_ep_nvdla.so")


def get_ep_names():
    """The names of the providers in the library."""
    return [get_ep_name()]


def get_ep_name():
    """The name of the provider."""
    return "NvdlaExecutionProvider"


def write_calibration_table(model, samples, path):
    """Measures the ranges of a float model's tensors with ONNX Runtime, and writes the table for the option `calibtable`.

    `model` is a path, `samples` an iterable of dictionaries from input names to arrays. It needs the packages onnx, numpy and
    onnxruntime.
    """
    import numpy
    import onnx
    import onnxruntime

    graph = onnx.load(str(model))
    float_type = onnx.TensorProto.FLOAT
    shapes = onnx.shape_inference.infer_shapes(graph).graph.value_info
    real = [info for info in shapes if info.type.tensor_type.elem_type == float_type]
    given = {output.name for output in graph.graph.output}
    graph.graph.output.extend(info for info in real if info.name not in given)
    options = onnxruntime.SessionOptions()
    # With optimisations tensors that are fused would have no values.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(graph.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    limits, means = {}, {}
    for sample in samples:
        for name, value in [*sample.items(), *zip(names, session.run(names, sample))]:
            if getattr(value, "dtype", None) == numpy.float32 and value.size:
                low, high = limits.get(name, (0.0, 0.0))
                limits[name] = (min(low, float(value.min())), max(high, float(value.max())))
                if value.ndim > 1:
                    others = tuple(axis for axis in range(value.ndim) if axis != 1)
                    means.setdefault(name, []).append((value.shape, value.mean(others, dtype=numpy.float64)))
    table = {}
    for name, (low, high) in limits.items():
        largest = max(-low, high)
        table[name] = {"scale": (largest or 1.0) / 127, "min": low, "max": high, "offset": 0.0}
        measured = means.get(name, [])
        if len({shape for shape, _ in measured}) == 1:
            table[name]["shape"] = measured[0][0]
            table[name]["means"] = numpy.mean([mean for _, mean in measured], axis=0).tolist()
    pathlib.Path(path).write_text(json.dumps(table, indent=1) + "\n")
