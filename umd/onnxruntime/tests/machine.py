#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs tests or a program of this folder in the virtual machine, where the provider finds the kernel module's devices.

    machine.py FOLDER [PROGRAM [ARGUMENT...]]

FOLDER gets a copy of this Python, of its packages, and of the libraries of both, which the machine has from no distribution. The
machine has an nv_full and an nv_small. Without PROGRAM the tests of `test_provider.py` run. An argument that is a file is copied too.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PACKAGES = ("numpy", "numpy.libs", "onnx", "ml_dtypes", "google", "typing_extensions.py", "onnxruntime", "flatbuffers", "packaging",
            "onnxruntime_ep_nvdla")


def libraries(files):
    """The loader and the libraries that these files need, by name."""
    found = {}
    for file in files:
        listed = subprocess.run(["ldd", file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        for word in listed.split():
            if word.startswith("/"):
                found[pathlib.Path(word).name] = word
    return found


def copy(source, to):
    ignored = shutil.ignore_patterns("__pycache__", "test", "tests", "idlelib", "ensurepip", "tkinter", "turtledemo", "config-*",
                                     "*.a", "site-packages")
    if pathlib.Path(source).is_dir():
        shutil.copytree(source, to, ignore=ignored, symlinks=True)
    else:
        shutil.copy(source, to)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib").mkdir(parents=True)
    copy(os.path.realpath(sys.executable), folder / "python")
    copy(sysconfig.get_path("stdlib"), folder / "lib" / version)
    (folder / "site").mkdir()
    site = pathlib.Path(sysconfig.get_path("platlib"))
    for name in PACKAGES:
        if (site / name).exists():
            copy(site / name, folder / "site" / name)
    (folder / "tests").mkdir()
    for file in HERE.glob("*.py"):
        shutil.copy(file, folder / "tests")
    arguments = []
    for argument in sys.argv[2:] or ["__main__.py", "test_provider"]:
        if os.path.isfile(argument):
            shutil.copy(argument, folder / "tests")
            argument = pathlib.Path(argument).name
        arguments.append(str(folder / "tests" / argument) if (folder / "tests" / argument).is_file() else argument)
    needed = libraries([folder / "python", *folder.rglob("*.so"), *folder.rglob("*.so.*")])
    (folder / "needed").mkdir()
    for name, path in needed.items():
        shutil.copy(path, folder / "needed" / name)
    loader = next(folder / "needed" / name for name in needed if name.startswith("ld-linux"))
    start = folder / "start"
    start.write_text(f"#!/bin/sh\nmkdir -p /tmp/contexts\nexport DEVICE=auto CONTEXTS=/tmp/contexts PYTHONHOME={folder} PYTHONPATH={folder}/site\n"
                     f"exec {loader} --library-path {folder}/needed {folder}/python \"$@\"\n")
    start.chmod(0o755)
    command = ["cargo", "xtask", "vm", "--config", "nv_full", "--config", "nv_small", "--memory", "3072", "--timeout", "1800",
               "--share", folder, "--", start, *arguments]
    sys.exit(subprocess.run(command, cwd=ROOT).returncode)


main()
