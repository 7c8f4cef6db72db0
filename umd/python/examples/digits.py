# SPDX-License-Identifier: MIT OR Apache-2.0

"""Classifies the digits of examples/lenet, and looks at what each operation wrote.

    python umd/python/examples/digits.py examples/lenet
"""

# %% The network, on the first NVDLA of this machine or on the model.
from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import nvdla

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "examples/lenet")
network = nvdla.Network(folder / "lenet.nv_small.nvdla")
context = network.context()
print(f"{network.device}, compiled for {network.loadable.configuration}")

# %% Each picture's class.
for picture in sorted((folder / "images").glob("*.pgm")):
    context.set_image(0, picture)
    seconds = context.run()
    scores = context.output("prob").reshape(-1)
    print(f"{picture.stem}: class {scores.argmax()}, {seconds * 1e3:.2f} ms")

# %% The surfaces of the last one.
surfaces = context.run_surfaces()
for surface in surfaces:
    operation, array = surface.operation, surface.array
    if array is not None:
        values = array.astype(np.float32)
        print(
            f"{operation.index:3} {operation.unit:5} {array.dtype} {array.shape}"
            f" from {values.min():g} to {values.max():g}  {operation.layer or ''}"
        )

# %% The first channels of the first surface, plotted in characters.
first = next(surface.array for surface in surfaces if surface.array is not None)
for line in first[0][::2]:
    span = max(int(np.ptp(first[0].astype(np.int32))), 1)
    print("".join(" .:-=+*#%@"[(int(value) - int(first[0].min())) * 9 // span] for value in line))
