# SPDX-License-Identifier: MIT OR Apache-2.0

"""Tests of the installed package on the model. The environment variable EXAMPLE names the folder examples/lenet."""

from __future__ import annotations

import asyncio
import copy
import multiprocessing
import os
import pickle
import re
import select
import signal
import tempfile
import threading
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

import nvdla

EXAMPLE = Path(os.environ["EXAMPLE"])
LENET = EXAMPLE / "lenet.nv_small.nvdla"
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
PICTURES = {path.stem: path for path in (EXAMPLE / "images").glob("*.pgm") if path.stem in DIGITS}


CONFIGURATIONS = [
    ("nv_small", 8),
    ("nv_small_256", 8),
    ("nv_small_256_full", 8),
    ("nv_medium_512", 16),
    ("nv_medium_1024_full", 32),
    ("nv_large", 32),
    ("nv_full", 32),
]


def network_of_convolutions(folder: Path, size: int, channels: int, kernels: int, layers: int, weight: float) -> Path:
    """Writes a network of 3x3 convolutions in NCNN's format."""
    lines = [f"Input data 0 1 b0 0={size} 1={size} 2={channels}"]
    weights = b""
    for layer in range(layers):
        inputs = channels if layer == 0 else kernels
        count = kernels * inputs * 9
        lines.append(f"Convolution c{layer} 1 1 b{layer} b{layer + 1} 0={kernels} 1=3 4=1 5=0 6={count}")
        values = (np.arange(count) * 37 % 101 - 50.0) / 50.0 * weight
        weights += b"\0\0\0\0" + values.astype("<f4").tobytes()
    path = folder / "net.param"
    path.write_text("\n".join(["7767517", f"{layers + 1} {layers + 1}", *lines, ""]))
    path.with_suffix(".bin").write_bytes(weights)
    return path


def interrupted(call: Callable[[], object]) -> float:
    """The seconds that a call took from a SIGINT to its KeyboardInterrupt."""
    sent = [0.0]

    def send() -> None:
        sent[0] = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    # A shell starts programs in the background with SIGINT ignored, and Python leaves it so.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.1, send)
    timer.start()
    try:
        call()
    except KeyboardInterrupt:
        return time.monotonic() - sent[0]
    finally:
        timer.join()
    raise AssertionError("the call ended before its interruption")


def in_child(context: nvdla.Context, results: Any) -> None:
    """Runs in a forked process."""
    try:
        context.run()
        results.put("it ran")
    except nvdla.Error as error:
        results.put(error.kind + str(error))


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
            nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", precision="fp16", optimize="speed")
        self.assertEqual(caught.exception.kind, "argument")
        small = nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", precision="fp16", optimize="size", winograd="never")
        assert small.report is not None
        self.assertEqual(small.report["configuration"], "nv_full")
        arrays = list(np.random.default_rng(1).random((6, 1, 28, 28), np.float32))
        for method, weights in (("max", "kernel"), ("mse", "layer")):
            nvdla.compile(EXAMPLE / "lenet.onnx", "nv_small", calibrate=arrays, method=method, weights=weights)
        self.raises("argument", lambda: nvdla.compile(EXAMPLE / "lenet.onnx", "nv_small", method="least"))
        self.raises("argument", lambda: nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", mixed_layers=10))
        nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", calibrate=arrays, winograd="faster", winograd_loss=1)
        self.raises("argument", lambda: nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", calibrate=arrays, winograd_loss=1))
        with_sram = nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", precision="fp16", sram=65536)
        self.assertNotEqual(bytes(with_sram), bytes(half))

        def cycles(bandwidth: float) -> int:
            report = nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", precision="fp16", bandwidth=bandwidth).report
            assert report is not None
            return int(report["cycles"])

        self.assertGreater(cycles(1), 2 * cycles(20))
        self.raises("argument", lambda: nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", precision="fp16", clock=0))
        with self.assertRaises(nvdla.Error):
            nvdla.compile(EXAMPLE / "lenet.onnx", "nv_small")
        with self.assertRaises(ValueError):
            nvdla.compile(EXAMPLE / "lenet.onnx", "nv_small", mean=3.0)

    def test_evaluate(self) -> None:
        def found(**options: Any) -> dict[str, Any]:
            return nvdla.evaluate(
                EXAMPLE / "lenet.onnx", "nv_small", calibrate=EXAMPLE / "calibration", std=255.0, color="gray", **options
            )

        with tempfile.TemporaryDirectory() as name:
            table = Path(name) / "digits.csv"
            table.write_text("".join(f"{PICTURES[digit]},{DIGITS.index(digit)}\n" for digit in PICTURES))
            result = found(samples=table)
        self.assertEqual((result["samples"], result["device"]["top1"]), (len(PICTURES), len(PICTURES)))
        self.assertEqual(result["agreement"], len(PICTURES))
        self.assertGreater(result["outputs"][0], 10)
        self.assertTrue(result["layers"])
        arrays = list(np.random.default_rng(2).random((3, 1, 28, 28), np.float32))
        self.assertEqual(found(samples=arrays, classes=[1, 2, 3])["samples"], 3)
        with self.assertRaises(ValueError):
            found(samples=arrays, classes=[1])
        self.raises("file", lambda: found(samples=arrays, classes=[1, 2, 10]), "its class is 10")

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

    def test_timeouts_without_end(self) -> None:
        for timeout in (float("inf"), 1e300):
            self.assertGreater(self.context.run(timeout), 0)
            self.assertGreater(self.context.submit(timeout).wait(timeout), 0)
        for timeout in (float("nan"), float("-inf")):
            self.raises("argument", lambda: self.context.run(timeout))

    def test_copies_of_a_loadable(self) -> None:
        loadable = nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", precision="fp16")
        for copied in (copy.copy(loadable), copy.deepcopy(loadable), pickle.loads(pickle.dumps(loadable))):
            self.assertEqual(bytes(copied), bytes(loadable))
            self.assertEqual(copied.report, loadable.report)

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

    def test_a_view_of_a_picture_has_all_its_components(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            param = Path(folder, "net.param")
            layers = ["Input data 0 1 data 0=6 1=4 2=3", "Convolution conv 1 1 data out 0=8 1=1 6=24"]
            param.write_text("\n".join(["7767517", "2 2", *layers, ""]))
            weights = np.linspace(-1, 1, 24, dtype=np.float32)
            param.with_suffix(".bin").write_bytes(bytes(4) + weights.tobytes())
            samples = [np.random.default_rng(1).uniform(0, 255, (1, 3, 4, 6)).astype(np.float32)]
            loadable = nvdla.compile(param, "nv_small", calibrate=samples, color="rgb", input="u8")
        context = nvdla.Network(loadable, "model:nv_small").context()
        pixels = np.arange(72, dtype=np.uint8).reshape(1, 3, 4, 6) * 3
        context.set_input(0, pixels)
        view = context.view("input", 0)
        self.assertEqual(view.shape, (1, 4, 6, 4))
        # Blue is first.
        np.testing.assert_array_equal(view[0, :, :, 2::-1].astype(np.uint8), pixels[0].transpose(1, 2, 0))

    def test_memory_behind_descriptors(self) -> None:
        source, target = self.context.inputs[0], self.context.outputs[0]
        with tempfile.TemporaryFile() as pixels, tempfile.TemporaryFile() as scores:
            pixels.truncate(source.offset + source.size)
            scores.truncate(target.offset + target.size)
            context = self.network.context(inputs={source.name: pixels.fileno()}, outputs={0: scores.fileno()})
            for digit in ("seven", "three"):
                self.classify(self.context, digit)
                os.pwrite(pixels.fileno(), self.context.memory("input", 0).tobytes(), source.offset)
                context.run()
                self.assertEqual(context.output(0).argmax(), DIGITS.index(digit))
                found = os.pread(scores.fileno(), target.size, target.offset)
                self.assertEqual(found, self.context.memory("output", 0).tobytes())
            scores.truncate(target.offset + target.size - 1)
            self.raises("argument", lambda: self.network.context(outputs={0: scores.fileno()}))
            self.raises("argument", lambda: self.network.context(inputs={1: pixels.fileno()}))
        self.raises("argument", lambda: self.network.context(inputs={0: -1}))

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


    def raises(self, kind: str, call: Callable[[], object], *parts: str) -> None:
        with self.assertRaises(nvdla.Error) as caught:
            call()
        self.assertEqual(caught.exception.kind, kind, str(caught.exception))
        for part in parts:
            self.assertIn(part, str(caught.exception))
        self.assertNotIn("--", str(caught.exception), "options of a program")

    def test_what_names_no_tensor_is_refused(self) -> None:
        for which in (None, 1.5, 10**30):
            wrong: Any = which
            with self.assertRaisesRegex(TypeError, f"by its number or its name, not {re.escape(repr(which))}$"):
                self.context.output(wrong)

    def test_what_is_no_number_is_refused(self) -> None:
        zeros = np.zeros((1, 1, 28, 28))
        wrong = zeros.copy()
        wrong[0, 0, 0, 5] = np.nan
        self.raises("argument", lambda: self.context.set_input(0, wrong), "value 5 is not a number")
        nothing: Any = [[None] * 28] * 28
        self.raises("argument", lambda: self.context.set_input(0, nothing), "object")
        self.raises("argument", lambda: self.context.set_input(0, zeros.astype("datetime64[D]")), "datetime64")
        self.raises("argument", lambda: self.context.set_input(0, zeros.astype(str)))
        self.raises("argument", lambda: self.context.set_input(0, zeros + 1j), "complex")
        masked = np.ma.masked_array(zeros, zeros == 0)
        self.raises("argument", lambda: self.context.set_input(0, masked), "masked")
        self.context.set_input(0, np.ma.masked_array(zeros))
        for dtype in ["bool", "int8", ">i2", "uint64", "float16", ">f8"]:
            self.context.set_input(0, np.ones((28, 28)).astype(dtype))

    def test_byte_orders(self) -> None:
        numbers = np.arange(-20, 20).reshape(2, 4, 5)
        for kind in ["i2", "f2"]:
            big, little = numbers.astype(">" + kind), numbers.astype("<" + kind)
            np.testing.assert_array_equal(nvdla.pack(big), nvdla.pack(little))
            np.testing.assert_array_equal(nvdla.unpack(nvdla.pack(big), (2, 4, 5), ">" + kind), numbers)
        size = self.context.inputs[0].size
        elements = np.arange(size // 2) % 100
        self.context.set_input_bytes(0, elements.astype("<i2"))
        expected = self.context.memory("input", 0).copy()
        self.context.set_input_bytes(0, elements.astype(">i2"))
        np.testing.assert_array_equal(self.context.memory("input", 0), expected)

    def test_pictures(self) -> None:
        def picture(**options: Any) -> Callable[[], object]:
            return lambda: self.context.set_image(0, PICTURES["seven"], **options)

        for order in ["RGB", "rbg", ""]:
            self.raises("argument", picture(order=order), "bgr, rgb")
        # The loadable says how pictures become values: what contradicts it is refused, and what repeats it changes nothing.
        self.raises("argument", picture(mean=(1.0, 2.0)), "compiled for the mean")
        self.raises("argument", picture(normalize=2), "compiled for the divisor")
        self.raises("argument", picture(normalize=0), "normalize is 0")
        picture(order=None)()
        picture(mean=np.zeros(3, np.float32), normalize=np.float32(255), order="rgb")()

    def test_indices_and_numbers(self) -> None:
        self.context.set_image("data", PICTURES["seven"])
        self.context.run(timeout=np.float32(60))
        ways: list[Any] = [0, -1, np.int64(0), np.int8(-1), "prob", np.str_("prob")]
        for which in ways:
            self.assertEqual(self.context.output(which).argmax(), 7)
            self.assertEqual(self.context.view("output", which).size % 2, 0)
        wrong: list[Any] = [1, -2, "none", 2**70, 0.5, None]
        for which in wrong:
            with self.assertRaises((nvdla.Error, OverflowError, TypeError)):
                self.context.output(which)
        self.raises("argument", lambda: self.context.output(-2), "there is no output -2")
        upwards: Any = "upwards"
        self.raises("argument", lambda: self.context.memory(upwards, 0), "input, output")

    def test_representations(self) -> None:
        self.context.set_image(0, PICTURES["seven"])
        run = self.context.submit()
        run.wait()
        shown = [
            repr(thing)
            for thing in [
                self.network,
                self.network.loadable,
                self.context,
                self.context.outputs[0],
                self.network.loadable.operations()[0],
                run,
            ]
        ]
        for text, part in zip(shown, ["nv_small", "bytes", "'prob'", "1 x 10 x 1 x 1", "task 0", "ended"]):
            self.assertTrue(text.startswith("<nvdla.") and part in text, text)

    def test_sizes_without_end(self) -> None:
        ones = np.ones((1, 1, 1), np.int8)
        for strides in [(2**40, 2**62), (2**62, 2**63 - 1), (32, 2**50)]:
            cube = np.ones((64, 2, 2), np.int8)
            with self.assertRaises((nvdla.Error, MemoryError)):
                nvdla.pack(cube, 32, strides)
        self.assertEqual(nvdla.pack(ones).size, 32)
        with self.assertRaises((nvdla.Error, OverflowError)):
            nvdla.unpack(b"1" * 64, (2**31, 2**31, 2**31), np.int8)

    def test_tasks_that_await_one_run(self) -> None:
        async def wait(run: nvdla.Run) -> float:
            return await run

        async def all_of_them() -> None:
            self.context.set_image(0, PICTURES["seven"])
            run = self.context.submit()
            taken = await asyncio.wait_for(asyncio.gather(*(wait(run) for _ in range(5))), 60)
            self.assertEqual(len(set(taken)), 1)
            self.assertEqual(await run, taken[0])

        asyncio.run(all_of_them())
        self.assertEqual(self.context.output(0).argmax(), 7)

    def test_forked_processes(self) -> None:
        self.context.run()
        fork = multiprocessing.get_context("fork")
        results = fork.Queue()
        child = fork.Process(target=in_child, args=(self.context, results))
        child.start()
        told = results.get(timeout=60)
        child.join(60)
        self.assertTrue(told.startswith("unsupported") and "spawn" in told, told)
        self.context.run()

    def test_interruption(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            model = network_of_convolutions(folder, 160, 64, 64, 48, 0.01)
            loadable = nvdla.compile(model, "nv_full", precision="fp16")
            network = nvdla.Network(loadable, "model")
            context = network.context()
            limit = 0.1 if os.environ.get("NVDLA_TIMES") else 2.0
            calls: list[Callable[[], object]] = [
                context.run,
                context.run_surfaces,
                lambda: context.submit().wait(),
                lambda: context.submit().wait(timeout=500),
            ]
            for call in calls:
                self.assertLess(interrupted(call), limit)
                # The run was cancelled: the context is soon free.
                until = time.monotonic() + 60
                while context.busy and time.monotonic() < until:
                    time.sleep(0.001)
                self.assertFalse(context.busy)
            run = context.submit()
            run.cancel()
            with self.assertRaises(nvdla.Error) as caught:
                run.wait()
            self.assertEqual(caught.exception.kind, "cancelled")
            samples = folder / "samples"
            samples.mkdir()
            for at in range(50):
                np.save(samples / f"{at}.npy", np.ones((1, 64, 160, 160), np.float32))
            self.assertLess(interrupted(lambda: nvdla.compile(model, "nv_full", calibrate=samples)), limit)

    def test_every_configuration(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            model = network_of_convolutions(folder, 9, 3, 40, 1, 0.2)
            samples = folder / "samples"
            samples.mkdir()
            given = (np.arange(3 * 9 * 9) * 29 % 83 - 41.0).reshape(1, 3, 9, 9) / 41.0
            np.save(samples / "0.npy", given.astype(np.float32))
            for config, atom in CONFIGURATIONS:
                loadable = nvdla.compile(model, config, calibrate=samples)
                context = nvdla.Network(loadable, "model").context()
                context.set_input(0, given)
                surfaces = context.run_surfaces()
                (tensor,) = context.outputs
                self.assertEqual((tensor.shape, tensor.atom), ((1, 40, 9, 9), atom), config)
                memory = context.memory("output", 0)
                elements = nvdla.unpack(memory, (40, 9, 9), np.int8, atom)
                self.assertGreater(len(np.unique(elements)), 50)
                np.testing.assert_array_equal(nvdla.pack(elements, atom), memory)
                scale = np.reshape(tensor.scale, (-1, 1, 1)).astype(np.float32)
                zero = np.reshape(tensor.zero_point, (-1, 1, 1)).astype(np.float32)
                np.testing.assert_allclose(context.output(0)[0], (elements - zero) * scale, rtol=1e-6)
                view = context.view("output", 0)
                plain = view.transpose(0, 1, 4, 2, 3).reshape(1, -1, 9, 9)[:, :40]
                np.testing.assert_array_equal(plain[0], elements)
                array = surfaces[-1].array
                assert array is not None
                np.testing.assert_array_equal(array, elements)

    def test_errors_of_the_compiler(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.raises("file", lambda: nvdla.compile(folder / "none.onnx", "nv_full"))
            (folder / "bad.onnx").write_bytes(b"no model")
            self.raises("file", lambda: nvdla.compile(folder / "bad.onnx", "nv_full"))
            self.raises("argument", lambda: nvdla.compile(EXAMPLE / "lenet.onnx", "nv_small"), "option calibrate")
            color: Any = "RGB"
            self.raises("argument", lambda: nvdla.compile(EXAMPLE / "lenet.onnx", "nv_full", color=color))
            self.raises(
                "refused",
                lambda: nvdla.compile(
                    EXAMPLE / "lenet.onnx", "nv_small", precision="mixed", calibrate=EXAMPLE / "calibration"
                ),
            )
            self.raises(
                "file", lambda: nvdla.compile(EXAMPLE / "lenet.onnx", "nv_small", calibrate=folder / "nothing")
            )
            wrong: dict[str, Any] = {"precision": 1, "clock": "x", "batch": "2", "inputs": "data", "shapes": {"data": 3}}
            for option, value in wrong.items():
                with self.assertRaisesRegex(TypeError, f"^{option}: "):
                    nvdla.compile(EXAMPLE / "lenet.onnx", "nv_small", **{option: value})
            with self.assertRaisesRegex(TypeError, "samples"):
                nvdla.compile(EXAMPLE / "lenet.onnx", "nv_small", calibrate=cast(Any, 5))
            infinite = network_of_convolutions(folder, 9, 3, 8, 1, float("inf"))
            self.raises("refused", lambda: nvdla.compile(infinite, "nv_full", precision="fp16"))
            large = network_of_convolutions(folder, 9, 3, 8, 1, 1e6)
            with self.assertWarnsRegex(UserWarning, "half precision"):
                nvdla.compile(large, "nv_full", precision="fp16")


if __name__ == "__main__":
    unittest.main()
