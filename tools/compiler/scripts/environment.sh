#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Makes the Python environment of these scripts under target/compiler-python, and prints its interpreter's path.
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
home="$root/target/compiler-python"
if [ ! -x "$home/bin/python" ]; then
    python3 -m venv "$home"
    "$home/bin/pip" install --quiet numpy onnx onnxruntime pillow >&2
    # LiteRT, for tflite.py, is not there for all machines.
    "$home/bin/pip" install --quiet ai-edge-litert >&2 || echo "no LiteRT: tflite.py will not run" >&2
    # Without what only its examples need.
    "$home/bin/pip" install --quiet --no-deps ncnn >&2
fi
echo "$home/bin/python"
