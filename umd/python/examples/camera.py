# SPDX-License-Identifier: MIT OR Apache-2.0

"""A camera in front of a detector, without a copy: NVDLA reads the memory into which the camera's driver writes.

    python camera.py NET VIDEO FRAMES BOXES.ppm

NET is CenterFace with an input of pictures, VIDEO the camera's node, such as /dev/video0. The last frame is written with its boxes.
docs/examples.md has more. Source of the calls: the kernel's include/uapi/linux/videodev2.h, for 64-bit processors.
"""

from __future__ import annotations

import collections
import ctypes
import errno
import fcntl
import mmap
import os
import struct
import sys
import tempfile
import time

import numpy as np
import numpy.typing as npt

import nvdla
from centerface import detections

BUFFERS, DEPTH = 4, 2
"""Buffers of the camera, each with a context, and frames on the device at a time."""
LEAST, MOST = 0.5, 10
"""The least score of a detection, and the greatest number of detections."""
XR24 = int.from_bytes(b"XR24", "little")
"""Blue, green, red and a byte without meaning, in this order in memory."""
CAPTURE, MMAP, PROGRESSIVE = 1, 1, 1


class Video:
    """A camera's node, with a queue of buffers."""

    def __init__(self, path: str, width: int, height: int, line: int) -> None:
        self.fd = os.open(path, os.O_RDWR)
        wanted = [width, height, XR24, PROGRESSIVE, line]
        given = self.call(5, 208, [CAPTURE, 0, *wanted, line * height])[2:7]
        if list(given) != wanted:
            raise SystemExit(f"{path} gives {given}, the network takes {wanted}: width, height, format, field, bytes per line")
        self.count = self.call(8, 20, [BUFFERS, CAPTURE, MMAP])[0]

    def call(self, number: int, size: int, words: list[int], direction: int = 3) -> tuple[int, ...]:
        """An ioctl of video, whose structure begins with these 32-bit words and has `size` bytes."""
        data = bytearray(struct.pack(f"{len(words)}I", *words).ljust(size, b"\0"))
        fcntl.ioctl(self.fd, direction << 30 | size << 16 | ord("V") << 8 | number, data)
        return struct.unpack(f"{size // 4}I", data)

    def export(self, index: int) -> int:
        """The descriptor of a buffer: a dma-buf."""
        return self.call(16, 64, [CAPTURE, index, 0, os.O_CLOEXEC | os.O_RDWR])[4]

    def queue(self, index: int) -> None:
        """Gives a buffer to the driver."""
        self.call(15, 88, [index, CAPTURE, 0, 0, PROGRESSIVE, *[0] * 10, MMAP])

    def dequeue(self) -> int:
        """Waits for a buffer that the driver has filled."""
        return self.call(17, 88, [0, CAPTURE, *[0] * 13, MMAP])[0]

    def start(self) -> None:
        self.call(18, 4, [CAPTURE], direction=1)


def protect(frames: list[npt.NDArray[np.uint8]], access: int) -> None:
    """Gives the frames to this process, or takes them: with no access it would end by a signal if it touched one."""
    library = ctypes.CDLL(None, use_errno=True)
    for frame in frames:
        start = frame.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
        if library.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(frame.ctypes.data + frame.nbytes - start), access):
            raise OSError(ctypes.get_errno(), "mprotect")


def readable(frames: list[npt.NDArray[np.uint8]]) -> int:
    """How many of the frames this process can read, asked by a call that fails where a signal would end the process."""
    count = 0
    with tempfile.TemporaryFile() as file:
        for frame in frames:
            try:
                count += os.pwrite(file.fileno(), frame.data[:1], 0)
            except OSError as error:
                if error.errno != errno.EFAULT:
                    raise
    return count


def main(net: str, node: str, frames: int, path: str) -> None:
    network = nvdla.Network(net)
    print("device:", network.device)
    source = network.context().inputs[0]
    if source.format != "A8B8G8R8":
        raise SystemExit(f"the input is {source.format}, not a picture: compile with --color")
    _, _, height, width = source.shape
    video = Video(node, width, height, source.line_stride)
    contexts = []
    for index in range(video.count):
        fd = video.export(index)
        contexts.append(network.context(inputs={0: fd}))
        os.close(fd)
        video.queue(index)
    pixels = [context.memory("input", 0) for context in contexts]
    protect(pixels, 0)
    video.start()
    running: collections.deque[tuple[int, nvdla.Run]] = collections.deque()
    start = time.monotonic()
    for frame in range(1, frames + 1):
        index = video.dequeue()
        running.append((index, contexts[index].submit()))
        while len(running) >= (DEPTH if frame < frames else 1):
            index, run = running.popleft()
            run.wait()
            heat, size, offset = (contexts[index].output(k)[0] for k in range(3))
            boxes = detections(heat[0], size, offset, LEAST, MOST)
            if frame < frames:
                video.queue(index)
    print(f"{frames} frames, {frames / (time.monotonic() - start):.1f} per second")
    print("frames that this process can read:", readable(pixels))

    protect(pixels, mmap.PROT_READ | mmap.PROT_WRITE)
    print("frames that it can read for the picture:", readable(pixels))
    picture = contexts[index].view("input", 0)[0, :, :, 2::-1].astype(np.uint8)
    for _, score, *box in boxes[boxes[:, 1] > 0]:
        top, left, bottom, right = (float(part * extent) for part, extent in zip(box, (height, width) * 2))
        print(f"face {score:.3f}: {left:.1f} {top:.1f} {right:.1f} {bottom:.1f}")
        inside = picture[int(top) : int(bottom) + 1, int(left) : int(right) + 1]
        middle = inside[2:-2, 2:-2].copy()
        inside[:] = 0, 255, 0
        inside[2:-2, 2:-2] = middle
    with open(path, "wb") as file:
        file.write(f"P6 {width} {height} 255\n".encode() + picture.tobytes())


if __name__ == "__main__":
    if len(sys.argv) != 5:
        raise SystemExit("usage: camera.py NET VIDEO FRAMES BOXES.ppm")
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
