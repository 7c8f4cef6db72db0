#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs compiled networks on other devices than the built-in model, and compares the outputs with the model's.

    devices.py FOLDER [NAME...] [--config CONFIG] [--rtl PROGRAM] [--vm] [--runtime PROGRAM] [--option=OPTION...]

FOLDER holds networks as `accuracy.py FOLDER digits mtcnn ocr` leaves them: models, and pictures for calibration. NAMEs (all
without any):

    lenet, resnet, inception, depthwise     trained on digits: grey pictures
    pnet, rnet, onet, ocr-cls               colour pictures, drawn here; the first output only
    pnet-72                                 P-Net over 72 x 72 pixels, in bands of lines

--rtl       runs them on NVIDIA's Verilog: a program of `cargo xtask rtl`, of the configuration
--vm        runs them in a virtual machine, through the kernel module, by this project's runtime
--runtime   and in the same machine by NVIDIA's runtime: a static program that was built from its source
--option    a further option of nvdla_compiler, as in --option=--optimize --option=memory

Loadables are int8. One line per network gives the checksum of the output on the model, and whether each device has the same.
Programs are those of target/release. Needs the packages of `environment.sh`.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys

import numpy
import onnx
from PIL import Image

from accuracy import shaped

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
PROGRAMS = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release")
# Model, calibration pictures, height and width, channels, mean and divisor, the output.
NETWORKS = {name: (f"digits/{name}", "digits/calibration", (28, 28), 1, "0", "255", "logits")
            for name in ("lenet", "resnet", "inception", "depthwise")}
NETWORKS |= {name: (name, name + "/calibration", (side, side), 3, "127.5", "128", "box")
             for name, side in (("pnet", 12), ("rnet", 24), ("onet", 48))}
NETWORKS["ocr-cls"] = ("ocr-cls", "ocr-cls/calibration", (48, 192), 3, "127.5", "127.5", None)
NETWORKS["pnet-72"] = ("pnet-72", "onet/calibration", (72, 72), 3, "127.5", "128", "box")
# Said of a program without output.
NOTHING = "no output"


def picture(size, channels, path):
    """A picture that all decoders read alike: grey levels of 8 x 8 pixels for colour, any pixels for grey ones."""
    random = numpy.random.default_rng(7)
    if channels == 1:
        Image.fromarray(random.integers(0, 256, size, numpy.uint8)).save(path + ".pgm")
        return path + ".pgm"
    blocks = random.integers(0, 256, [-(-extent // 8) for extent in size], numpy.uint8)
    grey = blocks.repeat(8, 0).repeat(8, 1)[: size[0], : size[1]]
    Image.fromarray(grey).convert("RGB").save(path + ".jpg", quality=100, subsampling=0)
    return path + ".jpg"


def compile_all(arguments, home):
    """Compiles the networks into `home`: (name, loadable, picture) of each."""
    for name in arguments.names or NETWORKS:
        model, calibration, size, channels, mean, divisor, output = NETWORKS[name]
        loadable, options = os.path.join(home, name + ".nvdla"), ["--outputs", output] if output else []
        if name == "pnet-72":
            wide = shaped(onnx.load(os.path.join(arguments.folder, "pnet/model.onnx")), [1, 3, *size])
            os.makedirs(os.path.join(arguments.folder, model), exist_ok=True)
            onnx.save(wide, os.path.join(arguments.folder, model, "model.onnx"))
            options += ["--resize", "stretch", "--optimize", "memory"]
        command = [os.path.join(PROGRAMS, "nvdla_compiler"), os.path.join(arguments.folder, model, "model.onnx"), "-o",
                   loadable, "--config", arguments.config, "--calibrate", os.path.join(arguments.folder, calibration),
                   "--mean", mean, "--std", divisor, "--method", "max"]
        subprocess.run(command + options + arguments.option, check=True)
        yield name, loadable, picture(size, channels, os.path.join(home, name))


def on_host(loadable, image, device, home):
    """The checksum of the output on a device that this machine has."""
    command = [os.path.join(PROGRAMS, "nvdla_runtime"), "--loadable", loadable, "--image", image, "--device", device]
    subprocess.run(command + ["--rawdump"], check=True, cwd=home, stdout=subprocess.DEVNULL)
    with open(os.path.join(home, "output.dimg"), "rb") as file:
        return hashlib.md5(file.read()).hexdigest()


def in_machine(networks, arguments, home):
    """The checksums in the virtual machine, by network and runtime."""
    runtimes = ["nvdla_runtime"]
    if arguments.runtime:
        runtimes.append(shutil.copy(arguments.runtime, os.path.join(home, "nvidia_runtime")))
    lines = ["cd /tmp"]
    for name, loadable, image in networks:
        for at, runtime in enumerate(runtimes):
            lines += ["rm -f output.dimg", f"{runtime} --loadable {loadable} --image {image} --rawdump > log 2>&1 || cat log",
                      f"echo RESULT {name} {at} $(md5sum < output.dimg)"]
    script = os.path.join(home, "run.sh")
    with open(script, "w") as file:
        file.write("\n".join(lines) + "\n")
    command = ["cargo", "xtask", "vm", "--config", arguments.config, "--share", home, "--timeout", "3000", "--", "sh", script]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            _, name, at, *checksum = line.split()
            found[name, int(at)] = checksum[0] if checksum else NOTHING
        else:
            print(line, file=sys.stderr)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *NETWORKS])
    parser.add_argument("--config", default="nv_small")
    parser.add_argument("--rtl", metavar="PROGRAM")
    parser.add_argument("--vm", action="store_true")
    parser.add_argument("--runtime", metavar="PROGRAM")
    parser.add_argument("--option", action="append", default=[])
    arguments = parser.parse_args()
    home = os.path.abspath(os.path.join(arguments.folder, "devices", arguments.config))
    os.makedirs(home, exist_ok=True)
    networks = list(compile_all(arguments, home))
    guest = in_machine(networks, arguments, home) if arguments.vm else {}
    failed = False
    for name, loadable, image in networks:
        expected = on_host(loadable, image, "model", home)
        devices = {"RTL": on_host(loadable, image, "rtl:" + os.path.abspath(arguments.rtl), home)} if arguments.rtl else {}
        if arguments.vm:
            devices["kernel module"] = guest.get((name, 0))
        if arguments.vm and arguments.runtime:
            devices["NVIDIA's runtime"] = guest.get((name, 1))
        say = {expected: "same", NOTHING: NOTHING}
        results = ", ".join(f"{device}: {say.get(found, 'DIFFERENT')}" for device, found in devices.items())
        print(f"{name:10} {arguments.config:9} {expected}  {results}", flush=True)
        failed |= any(found != expected for found in devices.values())
    sys.exit(failed)


if __name__ == "__main__":
    main()
