# SPDX-License-Identifier: MIT OR Apache-2.0

"""Tests of the installed package on the model. The environment variable EXAMPLE names the folder examples/lenet."""

from __future__ import annotations

import asyncio
import os
import select
import threading
import unittest
from collections.abc import Callable
from pathlib import Path

import numpy as np

import nvdla

EXAMPLE = Path(os.environ["EXAMPLE"])
LENET = EXAMPLE / "lenet.nv_small.nvdla"
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
PICTURES = {path.stem: path for path in (EXAMPLE / "images").glob("*.pgm") if path.stem in DIGITS}


class Tests(unittest.TestCase):
    def setUp(self) -> None:
        self.network = nvdla.Network(LENET, "model:nv_small")
        self.context = self.network.context()

    def classify(self, context: nvdla.Context, digit: str) -> int:
        context.set_image(0, PICTURES[digit])
        context.run()
        return int(context.output(0).argmax())

    def test_digits(self) -> None:
        self.assertIn("seven", PICTURES)
        for digit in PICTURES:
            self.assertEqual(self.classify(self.context, digit), DIGITS.index(digit), digit)

    def test_metadata(self) -> None:
        loadable = nvdla.Loadable(LENET)
        self.assertEqual(loadable.configuration, "nv_small")
        self.assertEqual(bytes(nvdla.Loadable(bytes(loadable))), LENET.read_bytes())
        operations = loadable.operations()
        self.assertIn("SDP", {operation.unit for operation in operations})
        self.assertTrue(any(operation.layer for operation in operations))
        (tensor,) = self.context.outputs
        self.assertEqual((tensor.name, tensor.shape, tensor.direction), ("prob", (1, 10, 1, 1), "output"))
        self.assertEqual(self.network.device, "the built-in model of nv_small")
        self.assertGreater(self.network.shared_bytes, 0)

    def test_compile(self) -> None:
        loadable = nvdla.compile(
            EXAMPLE / "lenet.onnx", "nv_small", calibrate=EXAMPLE / "calibration", std=255.0, color="gray"
        )
        self.assertEqual(loadable.configuration, "nv_small")
        context = nvdla.Network(loadable, "model:nv_small").context()
        for digit in PICTURES:
            self.assertEqual(self.classify(context, digit), DIGITS.index(digit), digit)
        half = nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", precision="fp16")
        self.assertEqual(half.configuration, "nv_full")

        def mixed(config: str) -> nvdla.Loadable:
            return nvdla.compile(
                EXAMPLE / "lenet.onnx",
                config,
                precision="mixed",
                calibrate=EXAMPLE / "calibration",
                std=255.0,
                color="gray",
            )

        context = nvdla.Network(mixed("nv_full"), "model:nv_full").context()
        for digit in PICTURES:
            self.assertEqual(self.classify(context, digit), DIGITS.index(digit), digit)
        with self.assertRaises(nvdla.Error) as caught:
            mixed("nv_small")
        self.assertIn("nv_small has no int16", str(caught.exception))
        with self.assertRaises(nvdla.Error) as caught:
            nvdla.compile(EXAMPLE / "lenet.onnx", "nv_tiny")
        self.assertEqual(caught.exception.kind, "argument")
        less = nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", precision="fp16", optimize="memory")
        self.assertEqual(less.configuration, "nv_full")
        with self.assertRaises(nvdla.Error) as caught:
            nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", precision="fp16", optimize="size")  # type: ignore[arg-type]
        self.assertEqual(caught.exception.kind, "argument")
        with_sram = nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", precision="fp16", sram=65536)
        self.assertNotEqual(bytes(with_sram), bytes(half))
        with self.assertRaises(nvdla.Error):
            nvdla.compile(EXAMPLE / "lenet.onnx", "nv_small")
        with self.assertRaises(ValueError):
            nvdla.compile(EXAMPLE / "lenet.onnx", "nv_small", mean=3.0)

    def test_threads(self) -> None:
        found: list[int] = [-1] * 10

        def work(at: int) -> None:
            context = self.network.context()
            found[at] = self.classify(context, "seven" if at % 2 else "three")

        threads = [threading.Thread(target=work, args=(at,)) for at in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [3, 7] * 5)

    def test_one_context_of_two_networks_and_a_shared_device(self) -> None:
        beside = nvdla.Network(LENET.read_bytes(), self.network)
        self.assertEqual(beside.device, self.network.device)
        self.assertEqual(self.classify(beside.context(), "seven"), 7)

    def test_submit(self) -> None:
        self.context.set_image("data" if self.context.inputs[0].name == "data" else 0, PICTURES["seven"])
        run = self.context.submit(timeout=60)
        readable, _, _ = select.select([run], [], [], 60)
        self.assertEqual(readable, [run])
        self.assertTrue(run.done)
        self.assertGreater(run.wait(), 0)
        self.assertEqual(self.context.output(0).argmax(), 7)
        with self.assertRaises(nvdla.Error) as caught:
            run.wait()
        self.assertEqual(caught.exception.kind, "argument")

    def test_busy_or_done(self) -> None:
        run = self.context.submit()
        try:
            run.wait(0)
        except TimeoutError:
            with self.assertRaises(nvdla.Error) as caught:
                self.context.output(0)
            self.assertEqual(caught.exception.kind, "busy")
            run.wait()
        self.assertFalse(self.context.busy)

    def test_asyncio(self) -> None:
        async def classify(digit: str) -> int:
            context = self.network.context()
            context.set_image(0, PICTURES[digit])
            await context.submit()
            return int(context.output(0).argmax())

        async def both() -> list[int]:
            return list(await asyncio.gather(classify("seven"), classify("three")))

        self.assertEqual(asyncio.run(both()), [7, 3])

    def test_memory_is_not_copied(self) -> None:
        memory = self.context.memory("input", 0)
        self.context.set_input(0, np.zeros(28 * 28))
        self.assertFalse(memory.any())
        memory[:] = 1
        self.assertTrue((self.context.memory("input", 0) == 1).all())
        view = self.context.view("input", 0)
        self.assertTrue(np.shares_memory(view, memory))
        self.assertTrue(np.shares_memory(np.from_dlpack(view), memory))
        self.assertEqual(memory.data.nbytes, self.context.inputs[0].size)
        # The elements of the view are those of the numbers.
        self.classify(self.context, "seven")
        output, tensor = self.context.view("output", 0), self.context.outputs[0]
        self.assertFalse(output.flags.writeable)
        plain = output.transpose(0, 1, 4, 2, 3).reshape(1, -1, 1, 1)[:, :10] if output.ndim == 5 else output
        numbers = (plain.astype(np.float32) - tensor.zero_point[0]) * tensor.scale[0]
        np.testing.assert_allclose(numbers, self.context.output(0), rtol=1e-6)
        # The array keeps the memory.
        context = self.network.context()
        context.set_input_bytes(0, memory.tobytes())
        kept = context.memory("input", 0)
        del context
        self.assertEqual(kept.tobytes(), memory.tobytes())

    def test_surfaces(self) -> None:
        self.context.set_image(0, PICTURES["seven"])
        surfaces = self.context.run_surfaces()
        arrays = [surface for surface in surfaces if surface.array is not None]
        self.assertEqual(len(surfaces), len(self.network.loadable.operations()))
        self.assertGreater(len(arrays), 3)
        for operation, array in arrays:
            assert array is not None
            self.assertEqual((array.shape, str(array.dtype)), (operation.shape, operation.dtype))
            self.assertTrue(array.any())
        last = [array for operation, array in arrays if operation.shape == (10, 1, 1)][-1]
        assert last is not None
        self.assertEqual(last.argmax(), 7)

    def test_layouts(self) -> None:
        random = np.random.default_rng(1)
        for dtype, atom in [("int8", 8), ("int8", 32), ("int16", 32), ("float16", 32)]:
            array = random.integers(-100, 100, (37, 3, 5)).astype(dtype)
            memory = nvdla.pack(array, atom)
            self.assertEqual(memory.size % atom, 0)
            np.testing.assert_array_equal(nvdla.unpack(memory, (37, 3, 5), dtype, atom), array)
            lanes = atom // array.itemsize
            # Element (c, h, w) of a packed cube.
            at = (((lanes + 1) // lanes * 3 + 2) * 5 + 4) * lanes + 1
            self.assertEqual(memory.view(dtype)[at], array[lanes + 1, 2, 4])
        strided = nvdla.pack(np.ones((9, 2, 2), np.int8), 8, (32, 128))
        self.assertEqual(int(strided.view(np.int8).sum()), 36)
        with self.assertRaises(nvdla.Error):
            nvdla.pack(np.ones((9, 2, 2), np.int8), 7)
        with self.assertRaises(nvdla.Error):
            nvdla.unpack(b"12", (9, 2, 2), np.int8)

    def test_errors(self) -> None:
        cases: list[tuple[str, Callable[[], object]]] = [
            ("file", lambda: nvdla.Loadable("/nonexistent")),
            ("loadable", lambda: nvdla.Loadable(b"NVDLA")),
            ("argument", lambda: nvdla.Network(LENET, "model:nothing")),
            ("argument", lambda: self.context.set_input(0, [1.0])),
            ("argument", lambda: self.context.set_input(0, np.zeros((14, 28, 2)))),
            ("argument", lambda: self.context.set_input("none", [1.0])),
            ("argument", lambda: self.context.set_input_bytes(0, b"1")),
            ("argument", lambda: self.context.output(3)),
            ("argument", lambda: self.context.run(timeout=-1)),
            ("file", lambda: self.context.set_image(0, "/nonexistent.pgm")),
        ]
        for kind, call in cases:
            with self.assertRaises(nvdla.Error) as caught:
                call()
            self.assertEqual(caught.exception.kind, kind, str(caught.exception))
            self.assertTrue(str(caught.exception))


if __name__ == "__main__":
    unittest.main()
