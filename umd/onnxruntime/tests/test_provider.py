# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tests the provider with an unmodified ONNX Runtime, on the built-in model or the device that DEVICE names."""

import itertools
import json
import os
import pathlib
import tempfile
import threading
import unittest

import numpy as np
import onnx
import onnxruntime as ort
import onnxruntime_ep_nvdla as nvdla
from onnxruntime import quantization

import models

DEVICE = os.environ.get("DEVICE", "model")
ort.set_default_logger_severity(3)


def devices():
    return [device for device in ort.get_ep_devices() if device.ep_name == nvdla.get_ep_name()]


def session(model, entries=(), **options):
    """A session with the provider. `model` is a model or a path."""
    settings = ort.SessionOptions()
    settings.log_severity_level = int(os.environ.get("LOG", "3"))
    for key, value in dict(entries).items():
        settings.add_session_config_entry(key, value)
    options = {"device": DEVICE, **{key: str(value) for key, value in options.items()}}
    settings.add_provider_for_devices(devices(), options)
    # Without `enable_fallback=0` the Python package prints a provider's error and goes on with the processor alone.
    model = model if isinstance(model, str) else model.SerializeToString()
    return ort.InferenceSession(model, sess_options=settings, enable_fallback=0)


def expected(model, inputs):
    model = model if isinstance(model, str) else model.SerializeToString()
    return ort.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)


def decibels(found, right):
    found, right = found.astype(np.float64), right.astype(np.float64)
    return 10 * np.log10((right**2).sum() / max(((found - right) ** 2).sum(), 1e-30))


def random(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Provider(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def division(self):
        return json.loads((self.folder / "partition.json").read_text())

    def near(self, found, right, least):
        for one, other in zip(found, right, strict=True):
            self.assertEqual((one.shape, one.dtype), (other.shape, other.dtype))
            self.assertGreaterEqual(decibels(one, other), least)

    def test_a_whole_network_runs_on_nvdla(self):
        model, x = models.lenet(), {"x": random(1, 1, 28, 28)}
        found = session(model, config="nv_full", dump_dir=self.folder).run(None, x)
        self.near(found, expected(model, x), 40)
        division = self.division()
        self.assertEqual((len(division["groups"]), division["processor"]), (1, []))

    def test_a_network_is_divided(self):
        model, x = models.divided(), {"x": random(1, 8, 24, 24)}
        found = session(model, config="nv_full", min_nodes=0, dump_dir=self.folder).run(None, x)
        right = expected(model, x)
        self.near(found[:2], right[:2], 40)
        np.testing.assert_array_equal(found[2], right[2])
        division = self.division()
        self.assertEqual(len(division["groups"]), 2)
        refused = {node["operator"]: node["reason"] for node in division["processor"]}
        self.assertEqual(set(refused), {"LayerNormalization", "TopK"})
        self.assertIn("nothing is known", refused["LayerNormalization"])

    def test_outputs_that_nothing_reads(self):
        b = models.Builder()
        first, _ = b.node("Split", b.node("Relu", b.conv("x", 8, 16)), outputs=2, axis=1)
        model = b.model([("x", [1, 8, 16, 16])], [(b.conv(first, 8, 8), [1, 8, 16, 16])])
        x = {"x": random(1, 8, 16, 16)}
        found = session(model, config="nv_full", min_nodes=0, dump_dir=self.folder).run(None, x)
        self.near(found, expected(model, x), 40)
        self.assertEqual(self.division()["processor"], [])

    def test_values_that_a_branch_reads(self):
        """The graphs of an If read two values of the graph around them. One is read again behind the If, the other is not."""
        b = models.Builder()
        y, hidden = (b.node("Relu", b.conv("x", 8, 8)) for _ in range(2))

        def branch(operator, value):
            output = onnx.helper.make_tensor_value_info("branch", onnx.TensorProto.FLOAT, [1, 8, 16, 16])
            return onnx.helper.make_graph([onnx.helper.make_node(operator, [value], ["branch"])], operator, [], [output])

        chosen = b.node("If", "choice", then_branch=branch("Neg", y), else_branch=branch("Exp", hidden))
        z = b.node("Add", b.conv(chosen, 8, 8), y)
        model = b.model([("x", [1, 8, 16, 16]), ("choice", [], onnx.TensorProto.BOOL)], [(z, [1, 8, 16, 16])])
        for choice in True, False:
            x = {"x": random(1, 8, 16, 16), "choice": np.array(choice)}
            found = session(model, config="nv_full", min_nodes=0, dump_dir=self.folder).run(None, x)
            self.near(found, expected(model, x), 40)
            division = self.division()
            self.assertEqual([node["operator"] for node in division["processor"]], ["If"])
            self.assertEqual(len(division["groups"]), 2)

    def test_bodies_that_read_nothing_from_outside(self):
        """A convolution in front of a Loop or a Scan, and one in its body, whose graph has a name of its own or that of the model."""
        info, node, kind = onnx.helper.make_tensor_value_info, onnx.helper.make_node, onnx.TensorProto
        for operator, name in itertools.product(["Loop", "Scan"], ["body", "test"]):
            b = models.Builder()
            x = b.node("Relu", b.conv("x", 8, 8))
            weights = onnx.numpy_helper.from_array(random(8, 8, 3, 3, seed=9) / 8, "w")
            conv = [node("Conv", ["h", "w"], ["c"], pads=[1] * 4), node("Relu", ["c"], ["d"])]
            if operator == "Loop":
                nodes = [*conv, node("Identity", ["go"], ["on"])]
                given = [info("k", kind.INT64, []), info("go", kind.BOOL, []), info("h", kind.FLOAT, [1, 8, 16, 16])]
                made = [info("on", kind.BOOL, []), info("d", kind.FLOAT, [1, 8, 16, 16])]
            else:
                nodes = [*conv, node("Identity", ["s"], ["e"])]
                given = [info("s", kind.FLOAT, [1]), info("h", kind.FLOAT, [1, 8, 16, 16])]
                made = [info("e", kind.FLOAT, [1]), info("d", kind.FLOAT, [1, 8, 16, 16])]
            body = onnx.helper.make_graph(nodes, name, given, made, [weights])
            if operator == "Loop":
                y = b.node("Loop", b.constant(np.int64(2)), b.constant(np.bool_(True)), x, body=body)
            else:
                state = b.constant(np.zeros(1, np.float32))
                x = b.node("Unsqueeze", x, b.constant(np.array([0], np.int64)))
                _, y = b.node("Scan", state, x, outputs=2, body=body, num_scan_inputs=1)
            shape = [1, 8, 16, 16] if operator == "Loop" else [1, 1, 8, 16, 16]
            model, x = b.model([("x", [1, 8, 16, 16])], [(y, shape)]), {"x": random(1, 8, 16, 16)}
            found = session(model, config="nv_full", min_nodes=0, dump_dir=self.folder).run(None, x)
            self.near(found, expected(model, x), 40)
            # The model's graph is divided last. Version 1.23 takes the groups of one graph, and does not tell graphs of one name apart.
            division = self.division()
            self.assertTrue(division["groups"], (operator, name))
            is_last = operator in [node["operator"] for node in division["processor"]]
            self.assertEqual(is_last, name == "body" or ort.__version__ >= "1.24", (operator, name))

    def test_numbers_beyond_half_precision(self):
        """A mask as exporters of transformers write it, and inputs whose sizes are brought down by the network."""
        b = models.Builder()
        lowest = b.constant(np.float32(np.finfo(np.float32).min))
        mask = b.node("Mul", b.node("Sub", b.constant(np.float32(1)), "mask"), lowest)
        scores = b.node("Add", b.node("Mul", "x", b.constant(np.float32(0.5))), mask)
        model = b.model([("x", [1, 4, 16, 16]), ("mask", [1, 1, 1, 16])],
                        [(b.node("Softmax", scores, axis=-1), [1, 4, 16, 16])])
        x = {"x": random(1, 4, 16, 16), "mask": np.repeat(np.float32([[[[1, 0]]]]), 8, axis=3)}
        found = session(model, config="nv_full", min_nodes=0, dump_dir=self.folder).run(None, x)
        self.near(found, expected(model, x), 40)
        self.assertIn("beyond half precision", self.division()["processor"][0]["reason"])
        b = models.Builder()
        model = b.model([("x", [1, 4, 8, 8])], [(b.node("Mul", "x", b.constant(np.float32(1e-5))), [1, 4, 8, 8])])
        x = {"x": np.float32(1e6) * np.sign(random(1, 4, 8, 8))}
        found = session(model, config="nv_full", min_nodes=0).run(None, x)
        np.testing.assert_allclose(found[0], np.sign(x["x"]) * 0.655, rtol=1e-2)

    def test_no_number_in_one_picture_of_a_batch(self):
        """NaN of a picture reaches what the processor makes NaN, and no other picture and no later run."""
        for batch, channels, group in (3, 3, 1), (3, 8, 8), (2, 40, 2), (80, 1, 1):
            b = models.Builder()
            y = b.node("Relu", b.node("Conv", "x", b.weights(channels, channels // group, 3, 3), b.weights(channels),
                                      pads=[1] * 4, group=group))
            mean = b.node("GlobalAveragePool", b.conv(y, channels, 8))
            model = b.model([("x", [batch, channels, 16, 16])],
                            [(y, [batch, channels, 16, 16]), (mean, [batch, 8, 1, 1])])
            one, x = session(model, config="nv_full", min_nodes=0), {"x": random(batch, channels, 16, 16)}
            clean = one.run(None, x)
            spoiled = {"x": x["x"].copy()}
            spoiled["x"][1, 0, 7, 7] = np.nan
            for found, right, before in zip(one.run(None, spoiled), expected(model, spoiled), clean, strict=True):
                self.assertTrue(np.isnan(found[np.isnan(right)]).all())
                np.testing.assert_array_equal(np.delete(found, 1, axis=0), np.delete(before, 1, axis=0))
            for found, before in zip(one.run(None, x), clean, strict=True):
                np.testing.assert_array_equal(found, before)

    def test_heads_with_the_channels_last(self):
        model, x = models.heads(), {"x": random(1, 8, 16, 16)}
        found = session(model, config="nv_full", min_nodes=0, dump_dir=self.folder).run(None, x)
        self.near(found, expected(model, x), 40)
        division = self.division()
        self.assertIn("LpNormalization", {node["operator"] for node in division["processor"]})
        self.assertTrue(division["groups"])

    def test_int8_needs_a_table_or_a_quantized_model(self):
        model, x = models.divided(), {"x": random(1, 8, 24, 24)}
        right = expected(model, x)
        found = session(model, config="nv_small", dump_dir=self.folder).run(None, x)
        self.near(found, right, 100)
        self.assertEqual((len(self.division()["groups"]), len(self.division()["warnings"])), (0, 1))
        path, table = self.folder / "model.onnx", self.folder / "table.json"
        onnx.save(model, path)
        nvdla.write_calibration_table(path, [{"x": random(1, 8, 24, 24, seed=seed)} for seed in range(4)], table)
        options = {"config": "nv_small", "calibtable": table, "min_nodes": 0}
        found = session(model, **options, dump_dir=self.folder).run(None, x)
        self.near(found[:2], right[:2], 20)
        self.assertEqual(len(self.division()["groups"]), 2)

    def test_a_quantized_model_keeps_its_integers(self):
        model = models.divided()
        float_path, path = self.folder / "float.onnx", self.folder / "model.onnx"
        onnx.save(model, float_path)

        class Samples(quantization.CalibrationDataReader):
            samples = iter([{"x": random(1, 8, 24, 24, seed=seed)} for seed in range(4)])

            def get_next(self):
                return next(self.samples, None)

        for activations in (quantization.QuantType.QUInt8, quantization.QuantType.QInt8):
            Samples.samples = iter([{"x": random(1, 8, 24, 24, seed=seed)} for seed in range(4)])
            quantization.quantize_static(
                float_path, path, Samples(), activation_type=activations, per_channel=True,
                op_types_to_quantize=["Conv", "Add", "Relu", "GlobalAveragePool"])
            x = {"x": random(1, 8, 24, 24)}
            right = expected(str(path), x)
            found = session(str(path), config="nv_small", min_nodes=0, dump_dir=self.folder).run(None, x)
            self.near(found[:2], right[:2], 25)
            division = self.division()
            self.assertGreaterEqual(len(division["groups"]), 2)
            kept = [t for group in division["groups"] for t in group["inputs"] + group["outputs"] if t["quantization"]]
            self.assertTrue(kept, "no group passes integers on")

    def test_activations_of_16_bits_have_half_precision(self):
        """Where the configuration has it; else 8 bits."""
        b = models.Builder()
        scale, zero = b.constant(np.float32(2**-12)), b.constant(np.int16(0))

        def rounded(x):
            return b.node("DequantizeLinear", b.node("QuantizeLinear", x, scale, zero), scale, zero)

        y = rounded(b.node("Sigmoid", rounded(b.conv(rounded("x"), 8, 8))))
        model, x = b.model([("x", [1, 8, 16, 16])], [(y, [1, 8, 16, 16])]), {"x": random(1, 8, 16, 16)}
        model.opset_import[0].version = 21
        for config, least in ("nv_full", 55), ("nv_small", 25):
            found = session(model, config=config, min_nodes=0, dump_dir=self.folder).run(None, x)
            self.near(found, expected(model, x), least)
            self.assertTrue(self.division()["groups"])

    def test_limits_beyond_a_quantized_range(self):
        """A minimum or maximum with a number beyond what the integers of its tensor are, or at their ends: from -1.28 to 1.27."""
        for operator, limit in ("Min", -2), ("Min", -1.28), ("Min", 1.27), ("Max", 2), ("Max", 1.27), ("Max", -1.28):
            b = models.Builder()
            scale, zero = b.constant(np.float32(0.01)), b.constant(np.uint8(128))
            x = b.node("DequantizeLinear", b.node("QuantizeLinear", "x", scale, zero), scale, zero)
            x = b.node("Mul", b.node(operator, x, b.constant(np.float32(limit))), b.constant(np.float32(0.5)))
            x = b.node("DequantizeLinear", b.node("QuantizeLinear", x, scale, zero), scale, zero)
            model, x = b.model([("x", [1, 8, 4, 4])], [(x, [1, 8, 4, 4])]), {"x": random(1, 8, 4, 4)}
            found = session(model, config="nv_small", min_nodes=0, dump_dir=self.folder).run(None, x)
            self.assertTrue(self.division()["groups"])
            np.testing.assert_allclose(found[0], expected(model, x)[0], rtol=0, atol=0.011, err_msg=f"{operator} {limit}")

    def test_a_compiled_model_is_written_and_read(self):
        model, x = models.divided(), {"x": random(1, 8, 24, 24)}
        path = self.folder / "model.onnx"
        onnx.save(model, path)
        for mode in "10":
            context = self.folder / f"context_{mode}.onnx"
            entries = {"ep.context_enable": "1", "ep.context_embed_mode": mode, "ep.context_file_path": str(context)}
            first = session(str(path), entries, config="nv_full", min_nodes=0).run(None, x)
            nodes = [node for node in onnx.load(context).graph.node if node.op_type == "EPContext"]
            self.assertEqual(len(nodes), 2)
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in nodes[0].attribute}
            self.assertEqual(attributes["source"], b"NvdlaExecutionProvider")
            self.assertEqual(attributes["hardware_architecture"], b"nv_full")
            second = session(str(context)).run(None, x)
            for one, other in zip(first, second):
                np.testing.assert_array_equal(one, other)
            with self.assertRaisesRegex(Exception, "nv_full.*nv_large"):
                session(str(context), config="nv_large")

    def test_compiled_models_beside_one_another(self):
        """Models that are compiled from the same one keep their own files, whose default place is beside the model."""
        model, x = models.lenet(), {"x": random(1, 1, 28, 28)}
        path, table = self.folder / "model.onnx", self.folder / "table.json"
        onnx.save(model, path)
        nvdla.write_calibration_table(path, [x], table)
        right = []
        for name, options in ("model_ctx", {"precision": "fp16"}), ("int8", {"calibtable": table}):
            entries = {"ep.context_enable": "1"}
            if name == "int8":
                entries["ep.context_file_path"] = str(self.folder / "int8.onnx")
            right.append(session(str(path), entries, config="nv_full", **options).run(None, x)[0])
        self.assertFalse(np.array_equal(*right))
        for name, outputs in zip(("model_ctx", "int8"), right):
            self.assertEqual(len(list(self.folder.glob(f"{name}_*.nvdla"))), 1)
            np.testing.assert_array_equal(session(str(self.folder / f"{name}.onnx")).run(None, x)[0], outputs)

    def test_a_compiled_model_does_not_need_the_compiler(self):
        path, context = self.folder / "model.onnx", self.folder / "context.onnx"
        onnx.save(models.lenet(), path)
        entries = {"ep.context_enable": "1", "ep.context_embed_mode": "1", "ep.context_file_path": str(context)}
        session(str(path), entries, config="nv_full", dump_dir=self.folder / "compiled")
        session(str(context), dump_dir=self.folder / "opened")
        self.assertTrue((self.folder / "compiled/partition.json").exists())
        self.assertEqual(list((self.folder / "opened").iterdir()), [])

    def test_a_compiled_model_of_another_version_is_read(self):
        """CONTEXTS is a folder in which each version of ONNX Runtime leaves a compiled model for the next ones."""
        folder = pathlib.Path(os.environ["CONTEXTS"])
        path, context = self.folder / "model.onnx", folder / f"{ort.__version__}.onnx"
        onnx.save(models.divided(), path)
        context.unlink(missing_ok=True)
        entries = {"ep.context_enable": "1", "ep.context_embed_mode": "0", "ep.context_file_path": str(context)}
        inputs = {"x": random(1, 8, 24, 24)}
        right = session(str(path), entries, config="nv_full", min_nodes=0).run(None, inputs)
        for other in sorted(folder.glob("*.onnx")):
            # Newer versions write a newer version of the format, which older ones refuse.
            written = onnx.load(other)
            written.ir_version = 9
            onnx.save(written, other)
            found = session(str(other)).run(None, inputs)
            for one, two in zip(found[:2], right[:2]):
                np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-3, err_msg=other.name)

    def test_a_batch_that_is_not_fixed_stays_on_the_processor(self):
        model, x = models.divided("N"), {"x": random(3, 8, 24, 24)}
        found = session(model, config="nv_full", dump_dir=self.folder).run(None, x)
        self.near(found[:2], expected(model, x)[:2], 100)
        division = self.division()
        self.assertEqual(division["groups"], [])
        self.assertIn("is not fixed", division["processor"][0]["reason"])

    def test_options_that_are_wrong_are_named(self):
        wrong = {"config": "nv_tiny", "precision": "int4", "calibtable": "/no/table", "sram": "x", "timeout_ms": "-1",
                 "dump_dir": "/proc/no"}
        for name, value in wrong.items():
            with self.assertRaisesRegex(Exception, f"the option {name}={value}"):
                session(models.lenet(), **{name: value})
        with self.assertRaisesRegex(Exception, "/no/such/device"):
            session(models.lenet(), device="/no/such/device", config="nv_full")

    def test_the_processor_can_be_forbidden(self):
        entries = {"session.disable_cpu_ep_fallback": "1"}
        model, x = models.lenet(), {"x": random(1, 1, 28, 28)}
        self.near(session(model, entries, config="nv_full").run(None, x), expected(model, x), 40)
        with self.assertRaises(Exception):
            session(models.divided(), entries, config="nv_full")

    def test_threads_and_sessions_share_the_device(self):
        model = models.divided()
        sessions = [session(model, config="nv_full", min_nodes=0) for _ in range(2)]
        inputs = [{"x": random(1, 8, 24, 24, seed=seed)} for seed in range(8)]
        right = [sessions[0].run(None, x) for x in inputs]
        failures = []

        def work(number):
            for k in range(number, number + 8):
                found = sessions[number % 2].run(None, inputs[k % 8])
                if any(not np.array_equal(one, other) for one, other in zip(found, right[k % 8])):
                    failures.append((number, k))

        threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_other_types_of_elements(self):
        b = models.Builder(3)
        half = b.node("Cast", b.node("Relu", b.conv(b.node("Cast", "x", to=onnx.TensorProto.FLOAT), 8, 16)),
                      to=onnx.TensorProto.FLOAT16)
        model = b.model([("x", [1, 8, 16, 16], onnx.TensorProto.UINT8)],
                        [(half, [1, 16, 16, 16], onnx.TensorProto.FLOAT16)])
        x = {"x": np.random.default_rng(1).integers(0, 256, (1, 8, 16, 16), np.uint8)}
        found = session(model, config="nv_full", min_nodes=0, dump_dir=self.folder).run(None, x)
        self.near(found, expected(model, x), 40)
        self.assertEqual(self.division()["processor"], [])

