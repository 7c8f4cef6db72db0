# SPDX-License-Identifier: MIT OR Apache-2.0

"""The accuracy of a network on labelled pictures, on all boards of a cluster: Ray Data's `map_batches`.

    pip install target/packages/nvdla-*.whl 'ray[data]'
    python ray_accuracy.py lenet.nvdla digits/ --actors 2

The folder has one folder per class, in the order of the network's outputs, as for `nvdla evaluate`. Each actor has its own process and
its own device. On a cluster, start Ray on a machine with an NVDLA with `--resources '{"nvdla": 1}'` and give `--resource nvdla`: Ray then
places one actor per device. Loadable and pictures must have the same paths on all machines.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray

import nvdla


class Classifier:
    """The network on the device of an actor's machine."""

    def __init__(self, loadable: str, device: str) -> None:
        self.network = nvdla.Network(loadable, device)
        self.context = self.network.context()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Adds the classes that the network finds to a batch of paths and classes."""
        found = []
        for path in batch["path"]:
            self.context.set_image(0, path, resize=True)
            self.context.run(timeout=30)
            found.append(int(self.context.output(0).argmax()))
        return {**batch, "found": np.array(found), "device": np.array([self.network.device] * len(found))}


def pictures(folder: str) -> list[dict[str, Any]]:
    """The pictures of a folder with their classes."""
    classes = sorted(path for path in Path(folder).resolve().iterdir() if path.is_dir())
    return [{"path": str(path), "class": number} for number, each in enumerate(classes) for path in sorted(each.iterdir())]


def main() -> None:
    """Prints how many pictures have the class of their folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loadable")
    parser.add_argument("pictures")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--resource", help="what Ray calls an NVDLA on this cluster")
    given = parser.parse_args()
    found = ray.data.from_items(pictures(given.pictures)).map_batches(
        Classifier,
        batch_size=given.batch,
        compute=ray.data.ActorPoolStrategy(size=given.actors),
        fn_constructor_kwargs={"loadable": str(Path(given.loadable).resolve()), "device": given.device},
        **({"resources": {given.resource: 1}} if given.resource else {}),
    )
    start = time.monotonic()
    rows = found.take_all()
    took = time.monotonic() - start
    for row in rows:
        if row["found"] != row["class"]:
            print(f"{row['path']}: class {row['class']}, found {row['found']}")
    right = sum(row["found"] == row["class"] for row in rows)
    devices = ", ".join(sorted({row["device"] for row in rows}))
    print(f"{right} of {len(rows)} right, {took:.1f} s with the start of the actors, on {devices}")


if __name__ == "__main__":
    main()
