# SPDX-License-Identifier: Apache-2.0
"""Small files to feed: pictures, IDX data sets, checkpoints with other content, cut files."""
import gzip
import json
import os
import random
import struct
import zlib

SEED = 20  # of everything that is drawn: each run feeds the same


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def cuts(size, n=40):
    """Where to cut `size` bytes: the first few places, the last few, and evenly in between."""
    places = set(range(min(size, 12))) | {size - k for k in range(1, 9) if k <= size}
    places |= {size * k // n for k in range(n)}
    return sorted(p for p in places if 0 <= p < size)


def flips(data, n, first=0, last=None):
    """n copies of data, each with one bit of [first, last) turned over: (place, copy)."""
    draw = random.Random(SEED)
    for _ in range(n):
        place, bit = draw.randrange(first, last or len(data)), draw.randrange(8)
        yield place, data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1:]


def png(width, height, grey):
    """A grey PNG of rows of bytes."""
    def chunk(kind, body):
        body = kind + body
        return struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    rows = b"".join(b"\0" + grey[y * width:(y + 1) * width] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def built_in_digits(root):
    """The pictures (5,000 of 784 bytes) and labels that the library carries."""
    folder = os.path.join(root, "data", "digits")
    images = gzip.decompress(read(os.path.join(folder, "digits-images-idx3-ubyte.gz")))
    labels = gzip.decompress(read(os.path.join(folder, "digits-labels-idx1-ubyte.gz")))
    return images[16:], labels[8:]


def idx(dims, data):
    return (struct.pack(">BBBB", 0, 0, 8, len(dims))
            + b"".join(struct.pack(">I", d) for d in dims) + data)


def data_set(folder, train, test):
    """The four files of mnist and its relatives; train and test are (pictures, labels)."""
    for prefix, (pixels, labels) in (("train", train), ("t10k", test)):
        write(os.path.join(folder, prefix + "-images-idx3-ubyte.gz"),
              gzip.compress(idx((len(pixels) // 784, 28, 28), pixels), mtime=0))
        write(os.path.join(folder, prefix + "-labels-idx1-ubyte.gz"),
              gzip.compress(idx((len(labels),), labels), mtime=0))
    return folder


def checkpoint_header(data):
    """A safetensors file's table, and where its data begins."""
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + size]), 8 + size


def with_header(data, change):
    """The file after change(table)."""
    table, begin = checkpoint_header(data)
    change(table)
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data[begin:]
