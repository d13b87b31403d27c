# SPDX-License-Identifier: Apache-2.0
"""Wrong command lines, data files and pictures: a sentence each, never a signal."""
import gzip
import os

from proofs import samples
from proofs.prover import group

# Arguments, and what the sentence must have.
COMMANDS = (
    (("trian", "cnn"), ("trian", "train")),
    (("train",), ("cnn",)),
    (("train", "rnn"), ("rnn", "cnn")),
    (("train", "cnn", "--epocks", "3"), ("--epocks", "--epochs")),
    (("train", "cnn", "-x"), ("-x",)),
    (("train", "cnn", "--epochs"), ("--epochs",)),
    (("train", "cnn", "--epochs", "many"), ("--epochs many",)),
    (("train", "cnn", "--epochs", "-1"), ("--epochs -1",)),
    (("train", "cnn", "--epochs", "9999999999999999999999"), ("--epochs",)),
    (("train", "cnn", "--batch", "0"), ("--batch 0",)),
    (("train", "cnn", "--batch", "1.5"), ("--batch 1.5",)),
    (("train", "cnn", "--lr", "nan"), ("--lr nan",)),
    (("train", "cnn", "--lr", "-0.1"), ("--lr -0.1",)),
    (("train", "cnn", "--threads", "1e9"), ("--threads 1e9",)),
    (("train", "cnn", "--json=yes"), ("--json",)),
    (("train", "cnn", "--data", "mnits"), ("mnits", "mnist")),
    (("train", "cnn", "--data", "shakespeare"), ("shakespeare", "1x28x28")),
    (("train", "cnn", "--data", "cifar10"), ("cifar10", "1x28x28")),
    (("train", "cnn", "--resume", "nowhere.ckpt"), ("nowhere.ckpt",)),
    (("train", "cnn", "--predict", "nowhere.png"), ("nowhere.png",)),
    (("train", "cnn", "--epochs", "1", "--save", "nowhere/x.ckpt"), ("nowhere/x.ckpt",)),
    (("data", "mnits"), ("mnits", "mnist")),
    (("data", "mnist", "--offline"), ("mnist",)),
    (("data", "mnist", "--offline", "--folder", "nowhere"), ("nowhere",)),
    (("list", "gem"), ("gem", "gemm")),
    (("explain", "gem m=2"), ("gem", "gemm")),
    (("explain", "gemm mm=3"), ("column 6", "'mm'", "nearest")),
    (("explain", "gemm m"), ("column 6",)),
    (("explain", "gemm m="), ("column 6",)),
    (("explain", "gemm m=4 n=q"), ("column 10", "n=q")),
    (("explain", "gemm m=-4"), ("column 6", "-4")),
    (("explain", "gemm m=99999999999999999999"), ("column 6",)),
    (("explain", "gemm m=4 m=5"), ("column 10",)),
    (("explain", "gemm m=4 dtype=f33"), ("column 10", "f33", "f32")),
    (("explain", "gemm m=4000000000 n=4000000000 k=4000000000"), ()),
    (("explain", "conv n=1 c=1 h=4 k=1 r=9"), ("larger",)),
    (("explain", "conv n=1 c=3 h=4 k=4 r=3 groups=2"), ("group",)),
    (("explain", "conv pass=sideways"), ("column 6", "sideways")),
    (("explain", "conv layout=nwhc"), ("column 6", "nwhc", "nhwc")),
    (("explain", ""), ()),
    (("explain",), ()),
    (("verify", "--set", "nowhere"), ("nowhere",)),
    (("verify", "--kernel", "tw_gemm_packed_f33__avx2", "gemm"), ("tw_gemm_packed_f33__avx2",)),
    (("verify", "--isa", "avx3", "gemm"), ("avx3", "avx2")),
    (("bench", "--file", "nowhere.txt"), ("nowhere.txt",)),
    (("bench", "--seconds", "0", "gemm"), ("--seconds 0",)),
    (("bench", "--warm", "--cold", "gemm m=2"), ("--warm", "--cold")),
    (("cases",), ("file",)),
    (("cases", "nowhere.jsonl"), ("nowhere.jsonl",)),
    (("completion", "tcsh"), ("tcsh",)),
    (("help", "trian"), ("trian", "train")),
)


@group("bad commands")
def bad_commands(p):
    for arguments, names in COMMANDS:
        words = " ".join(f"'{a}'" if " " in a or not a else a for a in arguments)
        p.refuses(f"tw {words}", p.tw(*arguments, timeout=60), names)
    result = p.tw("doctor", env={"TW_MAX_ISA": "avx3", "TW_LOG": "error"}, timeout=60)
    said = [line for line in (result.out + result.err).splitlines() if "avx3" in line]
    p.claim("TW_MAX_ISA=avx3 with TW_LOG=error", bool(said),
            said[0] if said else f"{result.end}, not a word", "a line with avx3")


@group("bad case files")
def bad_case_files(p):
    good = ('{"id":"A","op":"Relu","attrs":{},"inputs":{"x":{"dtype":"f32","shape":[2],'
            '"data":[1,-1]}},"outputs":{"y":{"dtype":"f32","shape":[2],"data":[1,0]}}}\n')
    path = samples.write(p.path("cut.jsonl"), (good + good[:70]).encode())
    p.refuses("tw cases with half a line", p.tw("cases", path), ("line 2",))
    odd = ("[]", "3", "{}", '{"id":3}', '{"id":"B","op":"Relu"}', good.replace("[2]", "[-2]"),
           good.replace("[2]", "[3]"), good.replace("f32", "f33"), good.replace('"Relu"', "[]"),
           good.replace("[2]", "[1e30]"), good.replace('"attrs":{}', '"attrs":7'),
           good.replace('"x"', '"q"'))
    tries = [(text.strip()[:60], p.tw("cases", samples.write(p.path("odd.jsonl"), text.encode())))
             for text in odd]
    wrong = [f"{name}: {r.end}" for name, r in tries if r.code not in (0, 1, 2)]
    p.claim("tw cases with odd lines", not wrong, "; ".join(wrong) or f"{len(tries)} inputs",
            "no signal")


# ---- Data sets -----------------------------------------------------------------------------------

def _opened(p, folder, name):
    return p.tw("data", name, "--offline", "--folder", folder, timeout=60)


def _cut_everywhere(p, what, folder, name, file):
    path = os.path.join(folder, file)
    whole = samples.read(path)
    tries = []
    for place in samples.cuts(len(whole)):
        samples.write(path, whole[:place])
        tries.append((f"{file} cut at {place}", _opened(p, folder, name)))
    samples.write(path, whole)
    p.refuses_all(what, tries)


@group("damaged data")
def damaged_data(p):
    pixels, labels = samples.built_in_digits(p.root)
    part = pixels[:784 * 500], labels[:500]
    folder = samples.data_set(p.path("sets", "fashion-mnist"), part, part)
    result = _opened(p, folder, "fashion-mnist")
    p.claim("a small data set in IDX files", result.code == 0, f"{result.end}, {result.last}",
            "exit code 0")
    for file in ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"):
        _cut_everywhere(p, f"{file} cut anywhere", folder, "fashion-mnist", file)
    images = os.path.join(folder, "train-images-idx3-ubyte.gz")
    packed, plain = samples.read(images), samples.idx((500, 28, 28), part[0])
    samples.write(images, plain)
    _cut_everywhere(p, "the same unpacked, cut anywhere", folder, "fashion-mnist",
                    os.path.basename(images))
    tries = []
    for place, damaged in samples.flips(packed, 40):
        samples.write(images, damaged)
        tries.append((f"bit of byte {place}", _opened(p, folder, "fashion-mnist")))
    p.refuses_all("a bit of it turned over", tries, codes=(0, 1, 2))
    samples.write(images, gzip.compress(samples.idx((1 << 31, 28, 28), part[0])))
    p.refuses("a file that claims 2^31 pictures", _opened(p, folder, "fashion-mnist"), (images,))
    samples.write(images, gzip.compress(bytes(700 << 20), 1))
    p.refuses("a file that unpacks to 700 MiB", _opened(p, folder, "fashion-mnist"), (images,))
    samples.write(images, gzip.compress(samples.idx((499, 28, 28), part[0][784:])))
    p.refuses("499 pictures with 500 labels", _opened(p, folder, "fashion-mnist"), ("499",))
    samples.data_set(folder, (part[0], part[1][:250] + b"\x11" + part[1][251:]), part)
    p.refuses("a label of 17", _opened(p, folder, "fashion-mnist"), ("label 17",))
    p.refuses("training with a label of 17",
              p.tw("train", "cnn", "--data", "fashion-mnist",
                   env={"TW_DATA": os.path.dirname(folder)}), ("label 17",))
    folder = samples.data_set(p.path("sets", "mnist"), part, part)
    p.refuses("mnist that is not the published one", _opened(p, folder, "mnist"),
              (folder, "SHA-256"))
    samples.data_set(p.path("sets", "fashion-mnist"), (b"", b""), part)
    p.refuses("a training set of no pictures",
              p.tw("train", "cnn", "--data", "fashion-mnist",
                   env={"TW_DATA": os.path.dirname(folder)}), (" 0 training",))


# ---- Pictures ------------------------------------------------------------------------------------

@group("pictures")
def pictures(p):
    saved, figures = p.path("digits.ckpt"), None
    _, figures = p.train("--epochs", "3", "--seed", "3", "--save", saved)
    if not figures:
        p.claim("a network to predict with", False, "tw train failed", "a checkpoint")
        return
    pixels, labels = samples.built_in_digits(p.root)
    right, numbers = 0, range(0, 5000, 250)
    for n in numbers:
        picture = samples.png(28, 28, pixels[784 * n:784 * n + 784])
        path = samples.write(p.path("digit.png"), picture)
        result = p.tw("train", "cnn", "--resume", saved, "--predict", path)
        right += result.code == 0 and result.out.endswith(f"digit.png: {labels[n]}\n")
    p.claim("--predict of PNG files", right >= 0.8 * len(numbers),
            f"{right} of {len(numbers)} right after 3 epochs", ">= 80 %")
    predict = ("train", "cnn", "--resume", saved, "--predict")
    for what, data in (("of 1x1", samples.png(1, 1, b"\x80")),
                       ("of 300x1", samples.png(300, 1, bytes(300)))):
        result = p.tw(*predict, samples.write(p.path("odd.png"), data))
        p.claim(f"--predict of a PNG {what}", result.code == 0, f"{result.end}, {result.last}",
                "exit code 0")
    whole = samples.read(path)
    tries = [(f"cut at {place}", p.tw(*predict, samples.write(path, whole[:place])))
             for place in samples.cuts(len(whole) - 12)]  # the last chunk says only that it ends
    p.refuses_all("--predict of a PNG cut anywhere", tries)
    tries = [(f"bit of byte {place}", p.tw(*predict, samples.write(path, damaged)))
             for place, damaged in samples.flips(whole, 40)]
    p.refuses_all("--predict of a PNG with a bit turned over", tries, codes=(0, 1, 2))
    for what, data in (("no picture", b"not a picture at all\n"), ("an empty file", b"")):
        p.refuses(f"--predict of {what}", p.tw(*predict, samples.write(path, data)), (path,))
