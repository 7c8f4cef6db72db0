# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs the tests of this folder, or those of the modules that are named, with the ONNX Runtime and the provider of the environment."""

import sys
import unittest

import onnxruntime as ort
import onnxruntime_ep_nvdla as nvdla

print("ONNX Runtime", ort.__version__)
ort.register_execution_provider_library("nvdla", nvdla.get_library_path())
# Registered, unregistered and registered again.
ort.unregister_execution_provider_library("nvdla")
ort.register_execution_provider_library("nvdla", nvdla.get_library_path())
unittest.main(module=None, argv=["tests", *(sys.argv[1:] or ["test_provider", "test_faults"])])
