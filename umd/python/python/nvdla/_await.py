# SPDX-License-Identifier: MIT OR Apache-2.0

"""Waits for a run in an event loop, which watches the run's file descriptor. No thread is needed."""

from __future__ import annotations

import asyncio

from . import _nvdla


async def wait(run: _nvdla.Run) -> float:
    """Returns the seconds that the run took."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(run.fileno(), ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(run.fileno())
    return run.wait()
