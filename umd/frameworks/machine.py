#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs a Python program in the virtual machine, where the plugins of frameworks find the kernel module's devices.

    machine.py [OPTION...] FOLDER PROGRAM [ARGUMENT...]

FOLDER gets a copy of this Python, of its packages, of the libraries of both, and of the Python files beside PROGRAM, because the machine
has no distribution. The machine has an nv_full and an nv_small. An argument that is a file is copied too, and one that is a folder is
shared at its path. An argument NAME=VALUE is a variable of the environment, and its VALUE is treated in the same way. An OPTION is one
of `cargo xtask vm` without a value, such as --camera.
"""

import itertools
import pathlib
import shutil
import subprocess
import sys
import sysconfig

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Packages that no program of the machine needs.
LEFT = ("pip", "setuptools", "_distutils_hack", "sympy", "mpmath", "PIL", "pillow.libs", "onnxconverter_common")


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
                                     "*.a", "*.dist-info", "site-packages", *LEFT)
    if source.is_dir():
        shutil.copytree(source, to, ignore=ignored, symlinks=True)
    else:
        shutil.copy(source, to)


def main():
    given = list(itertools.dropwhile(lambda argument: argument.startswith("--"), sys.argv[1:]))
    options = sys.argv[1:len(sys.argv) - len(given)]
    if len(given) < 2:
        sys.exit(__doc__)
    folder, program = (pathlib.Path(argument).resolve() for argument in given[:2])
    shutil.rmtree(folder, ignore_errors=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (folder / "lib").mkdir(parents=True)
    copy(pathlib.Path(sys.executable).resolve(), folder / "python")
    copy(pathlib.Path(sysconfig.get_path("stdlib")), folder / "lib" / version)
    copy(pathlib.Path(sysconfig.get_path("platlib")), folder / "site")
    (folder / "tests").mkdir()
    for file in program.parent.glob("*.py"):
        shutil.copy(file, folder / "tests")
    arguments, shares, variables = [folder / "tests" / program.name], [folder], {"DEVICE": "auto", "CONTEXTS": "/tmp"}
    for argument in given[2:]:
        name, _, value = argument.rpartition("=")
        path = pathlib.Path(value).resolve()
        if path.is_file():
            value = shutil.copy(path, folder / "tests")
        elif path.is_dir():
            shares.append(path)
            value = path
        if name:
            variables[name] = value
        else:
            arguments.append(value)
    needed = libraries([folder / "python", *folder.rglob("*.so"), *folder.rglob("*.so.*")])
    (folder / "needed").mkdir()
    for name, path in needed.items():
        shutil.copy(path, folder / "needed" / name)
    loader = next(folder / "needed" / name for name in needed if name.startswith("ld-linux"))
    variables |= {"PYTHONHOME": folder, "PYTHONPATH": folder / "site"}
    start = folder / "start"
    start.write_text("#!/bin/sh\n" + "".join(f"export {name}='{value}'\n" for name, value in variables.items())
                     + f"exec {loader} --library-path {folder}/needed {folder}/python \"$@\"\n")
    start.chmod(0o755)
    # The model is slower than an NVDLA, and in half precision exceeds the driver's usual time limit of a task.
    command = ["cargo", "xtask", "vm", "--config", "nv_full", "--config", "nv_small", "--memory", "3072", "--timeout", "1800",
               "--parameter", "timeout_ms=600000", "--parameter", "max_timeout_ms=0", *options,
               *(word for share in shares for word in ("--share", share)), "--", start, *arguments]
    sys.exit(subprocess.run(command, cwd=ROOT).returncode)


main()
