# SPDX-License-Identifier: MIT OR Apache-2.0

"""A loadable as a predictor of KServe: Open Inference Protocol 2, by REST and gRPC.

    pip install target/packages/nvdla-*.whl kserve
    python kserve_predictor.py --loadable lenet.nvdla --model_name lenet --contexts 4 --queue 16

One replica serves one device. A request that finds the queue full gets 503, so that a balancer asks another replica. A device
that does not answer makes the replica not ready. SIGTERM ends it after the requests that it has taken.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
from typing import Any

import kserve
import numpy as np
from kserve import InferInput, InferOutput, InferRequest, InferResponse, Model, ModelServer
from kserve.errors import InvalidInput, ModelNotReady
from kserve.utils.utils import generate_uuid

import nvdla

LIMIT = 30.0
"""Seconds that a run may take."""
BROKEN = ("device", "deadline")
"""The kinds of errors after which the device is not used."""


class Predictor(Model):  # type: ignore[misc]
    """A network with as many contexts as requests may run at the same time."""

    def __init__(self, name: str, loadable: str, device: str, contexts: int, queue: int) -> None:
        super().__init__(name)
        network = nvdla.Network(loadable, device)
        made = [network.context() for _ in range(contexts)]
        self.inputs, self.outputs = made[0].inputs, made[0].outputs
        self.free: asyncio.Queue[nvdla.Context] = asyncio.Queue()
        for context in made:
            self.free.put_nowait(context)
        self.room = contexts + queue
        self.ready = True

    async def get_input_types(self) -> list[dict[str, Any]]:
        """The inputs, for the protocol's metadata."""
        return [{"name": tensor.name, "datatype": "FP32", "shape": list(tensor.shape)} for tensor in self.inputs]

    async def get_output_types(self) -> list[dict[str, Any]]:
        """The outputs, for the protocol's metadata."""
        return [{"name": tensor.name, "datatype": "FP32", "shape": list(tensor.shape)} for tensor in self.outputs]

    async def healthy(self) -> bool:
        """Whether a balancer may send requests."""
        return bool(self.ready)

    def arrays(self, inputs: list[InferInput]) -> dict[str, Any]:
        """The inputs of a request by their names, which are the network's."""
        given = {tensor.name: tensor.as_numpy() for tensor in inputs}
        names = [tensor.name for tensor in self.inputs]
        if sorted(given) != sorted(names):
            raise InvalidInput(f"the inputs are {sorted(given)}; the network has {sorted(names)}")
        return given

    async def predict(self, payload: InferRequest, headers: Any = None, response_headers: Any = None) -> InferResponse:
        """Runs the network once."""
        given = self.arrays(payload.inputs)
        if not self.ready or self.room == 0:
            raise ModelNotReady(self.name, "The queue is full." if self.ready else "The device failed.")
        self.room -= 1
        try:
            context = await self.free.get()
            try:
                for name, array in given.items():
                    context.set_input(name, array)
                await context.submit(LIMIT)
                results = [(tensor.name, context.output(tensor.name)) for tensor in self.outputs]
            finally:
                self.free.put_nowait(context)
        except nvdla.Error as error:
            if error.kind in BROKEN:
                logging.error("%s is not ready: %s", self.name, error)
                self.ready = False
                raise ModelNotReady(self.name, str(error)) from error
            raise InvalidInput(str(error)) from error
        finally:
            self.room += 1
        outputs = []
        for name, array in results:
            output = InferOutput(name, list(array.shape), "FP32")
            output.set_data_from_numpy(np.ascontiguousarray(array), binary_data=payload.use_binary_outputs)
            outputs.append(output)
        return InferResponse(payload.id or generate_uuid(), self.name, outputs)


def main() -> None:
    """Serves until SIGTERM."""
    parser = argparse.ArgumentParser(parents=[kserve.model_server.parser], description=__doc__)
    parser.add_argument("--loadable", required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--contexts", type=int, default=2)
    parser.add_argument("--queue", type=int, default=16)
    given = parser.parse_args()
    server = ModelServer(http_port=given.http_port, grpc_port=given.grpc_port, workers=1)
    server.start([Predictor(given.model_name, given.loadable, given.device, given.contexts, given.queue)])


if __name__ == "__main__":
    main()
