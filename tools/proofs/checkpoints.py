# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: interruptions that go on exactly, damaged and foreign files, a full disk."""
import os
import re
import resource
import signal
import time

from proofs import samples
from proofs.prover import group

EPOCHS = ("--epochs", "6")
SEED = ("--seed", "7")


def _uninterrupted(p):
    """The digest of the weights of a run that nothing disturbed."""
    def train():
        _, figures = p.train(*EPOCHS, *SEED)
        return figures["weights_sha256"] if figures else "none"
    return p.cached("uninterrupted", train)


def _saved(p):
    """A good checkpoint after one epoch, as bytes."""
    def train():
        path = p.path("good.ckpt")
        result, figures = p.train("--epochs", "1", *SEED, "--save", path)
        if not figures:
            raise RuntimeError(f"tw train --save: {result.end}, {result.last}")
        return samples.read(path)
    return p.cached("saved", train)


def _stop_in_epoch(p, epochs, path, number, *more):
    """Trains until `epochs` epochs are done and a little longer, then sends a signal."""
    process = p.start([p.tw_path, "train", "cnn", "--json", *EPOCHS, *SEED, "--save", path, *more])
    begin = time.monotonic()
    while time.monotonic() - begin < 120 and p.runs(process):
        if len(re.findall(rb"^epoch", p.err_so_far(process), re.M)) >= epochs:
            break
        time.sleep(0.01)
    time.sleep(0.12 if epochs else 0.5)
    process.send_signal(number)
    return p.finish(process)


def _resumes(p, what, path, *more):
    _, figures = p.train(*EPOCHS, "--resume", path, *more)
    digest = figures["weights_sha256"] if figures else "no figures"
    p.claim(what, digest == _uninterrupted(p), digest[:12],
            f"{_uninterrupted(p)[:12]}, as without a stop")


@group("interruption")
def interruption(p):
    for number, code, end in ((signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 130, "SIGTERM")):
        path = p.path(end + ".ckpt")
        result = _stop_in_epoch(p, 1, path, number)
        p.claim(f"{end} in training", result.code == code and os.path.isfile(path)
                and "stopped in epoch" in result.err, f"{result.end}, {result.last}",
                f"exit code {code} and a checkpoint")
        _resumes(p, f"--resume after {end}", path)
    path = p.path("killed.ckpt")
    for epoch in (2, 3):
        result = _stop_in_epoch(p, epoch, path, signal.SIGKILL)
        p.claim(f"kill -9 after {epoch} epochs", result.code == -9 and os.path.isfile(path),
                f"{result.end}, {os.path.getsize(path)} bytes saved", "a checkpoint")
        _resumes(p, f"--resume after kill -9 after {epoch} epochs", path, "--threads", "1")
    result = _stop_in_epoch(p, 0, p.path("x.ckpt"), signal.SIGINT, "--batch", "4")
    p.claim("Ctrl-C in the first epoch", result.code == 130, f"{result.end}, {result.last}",
            "exit code 130")
    result = p.tw("train", "cnn", *EPOCHS, "--resume", p.path("x.ckpt"), "--batch", "8")
    p.refuses("--resume inside an epoch with another --batch", result,
              ("--batch 8", "batches of 4"))


@group("bad checkpoints")
def bad_checkpoints(p):
    good = _saved(p)
    path = p.path("bad.ckpt")
    picture = samples.write(p.path("blank.png"), samples.png(28, 28, bytes(784)))

    def resumed(data):
        samples.write(path, data)
        return p.tw("train", "cnn", "--resume", path, "--predict", picture, timeout=60)

    result = resumed(good)
    p.claim("a good checkpoint", result.code == 0, f"{result.end}, {result.last}", "exit code 0")
    tries = [(f"cut at {place}", resumed(good[:place])) for place in samples.cuts(len(good))]
    p.refuses_all("a checkpoint cut anywhere", tries)
    p.refuses("a checkpoint with bytes after its end", resumed(good + b"more"), (path,))
    _, begin = samples.checkpoint_header(good)
    tries = [(f"bit of byte {place}", resumed(damaged))
             for place, damaged in samples.flips(good, 60, 0, begin)]
    p.refuses_all("a checkpoint's table with a bit turned over", tries, codes=(0, 1, 2))
    p.refuses("a checkpoint that is no checkpoint", resumed(b"hello, world\n" * 100), (path,))
    _foreign(p, good, resumed)


def _foreign(p, good, resumed):
    table, _ = samples.checkpoint_header(good)
    weight = next(name for name in table if "__" not in name and "optimizer" not in name)

    def rename(t):
        t["another"] = t.pop(weight)

    def reshape(t):
        t[weight]["shape"] = t[weight]["shape"][::-1]

    def retype(t):
        t[weight]["dtype"] = "I32"

    def overlap(t):
        t[weight]["data_offsets"] = [0, 1 << 60]

    def set_data(key, value):
        return lambda t: t["__metadata__"].__setitem__(key, value)

    for what, change, names in (
            ("with a weight of another name", rename, (weight,)),
            ("with a weight of another shape", reshape, (weight,)),
            ("with a weight of another type", retype, (weight,)),
            ("with offsets beyond its end", overlap, (weight,)),
            ("of another network", set_data("network", "unet"), ("unet", "cnn")),
            ("of a later version", set_data("version", "99"), ("99",)),
            ("with a step that is no number", set_data("step", "soon"), ("step", "soon")),
            ("with batches of -3", set_data("param.batch", "-3"), ("-3",)),
            ("with a rate of nan", set_data("param.lr", "nan"), ("nan",)),
            ("without metadata", lambda t: t.pop("__metadata__"), ())):
        p.refuses(f"a checkpoint {what}", resumed(samples.with_header(good, change)), names)
    path = p.path("far.ckpt")
    for key, value in (("step", "100000"), ("epoch", "-5"), ("rng_offset", "-1"), ("step", "-1")):
        samples.write(path, samples.with_header(good, set_data(key, value)))
        p.refuses(f"a checkpoint whose {key} is {value}",
                  p.tw("train", "cnn", "--resume", path, "--epochs", "3", timeout=120))


# ---- No space ------------------------------------------------------------------------------------

def _namespace(p):
    """Whether this user may mount a small file system of its own."""
    return p.run("unshare", "-m", "true").code == 0


@group("full disk")
def full_disk(p):
    good = _saved(p)
    old = samples.write(p.path("full", "old.ckpt"), good)
    if os.access("/usr/bin/unshare", os.X_OK) and _namespace(p):
        after = p.path("after.ckpt")
        disk = os.path.dirname(p.path("disk", "x"))
        script = ('mount -t tmpfs -o size="$1"k none "$2" || exit 99; cp "$3" "$2/c" || exit 99; '
                  '"$4" train cnn --epochs 2 --resume "$2/c" --save "$2/c"; code=$?; '
                  'cp "$2/c" "$5"; ls -A "$2" >"$5.list"; exit $code')
        result = p.run("unshare", "-m", "sh", "-c", script, "sh", str(len(good) * 3 // 2048),
                       disk, old, p.tw_path, after)
        p.refuses("--save on a full disk", result, ("disk/c",), codes=(1,))
        same = os.path.isfile(after) and samples.read(after) == good
        left = samples.read(after + ".list").decode().split()
        p.claim("the old checkpoint after a full disk", same and left == ["c"],
                f"{'the same bytes' if same else 'changed'}, files {left}", "the same, alone")
    else:
        p.absent("--save on a full disk", "mounting needs the rights of root")
    limit = len(good) // 2
    result = p.tw("train", "cnn", "--epochs", "2", "--resume", old, "--save", old,
                  restore_signals=False,  # SIGXFSZ stays ignored, as Python has it
                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    p.refuses("--save above the limit of file sizes", result, ("old.ckpt",), codes=(1,))
    same, left = samples.read(old) == good, os.listdir(os.path.dirname(old))
    p.claim("the old checkpoint after that", same and left == ["old.ckpt"],
            f"{'the same bytes' if same else 'changed'}, files {left}", "the same, alone")
