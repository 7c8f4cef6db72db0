# SPDX-License-Identifier: MIT OR Apache-2.0

"""Waits for a run in an event loop, which watches a file descriptor. No thread is needed."""

from __future__ import annotations

import asyncio
import os

from . import _nvdla


async def wait(run: _nvdla.Run) -> float:
    """Returns the seconds that the run took. Any number of tasks may await one run."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    # An event loop has one callback per descriptor, so each waiting task has its own.
    descriptor = os.dup(run.fileno())
    try:
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
    finally:
        os.close(descriptor)
    return run._result()
