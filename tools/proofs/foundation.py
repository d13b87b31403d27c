# SPDX-License-Identifier: Apache-2.0
"""The figures: training, recorded cases, kernels against their references, speed."""
import glob
import json
import os
import re

from proofs.prover import group

TWO_CORES = ("--threads", "2")
# Figures per operation: the least share of the measured multiply-add peak on one thread.
LEAST_OF_PEAK = ([(f"conv{n} {part}", 0.60) for n in (2, 3) for part in ("fwd", "dgrad", "wgrad")]
                 + [("conv1 fwd", 0.30), ("conv1 wgrad", 0.30), ("gemm 1024", 0.60)])
ROUNDS = 3  # of one and two threads in turn: other work on the machine disturbs single ones
HUGE = {"C18L": 8, "C91L": 9, "C91M": 12}  # recorded cases that take minutes: GiB they may need


# ---- Training ------------------------------------------------------------------------------------

@group("train digits")
def train_digits(p):
    result, figures = p.train(*TWO_CORES)
    if not figures:
        p.claim("tw train cnn", False, f"{result.end}, {result.last}", "a trained network")
        return
    accuracy, rate = 100 * figures["test_accuracy"], figures["images_per_second"]
    megabytes = max(figures["peak_megabytes"], result.megabytes)
    p.claim("tw train cnn on the built-in digits, time", result.seconds < 90,
            f"{result.seconds:.1f} s, {rate:.0f} images/s", "< 90 s")
    p.claim("tw train cnn on the built-in digits, test accuracy", accuracy >= 96.5,
            f"{accuracy:.2f} %", ">= 96.5 %")
    p.claim("tw train cnn on the built-in digits, peak memory", megabytes < 300,
            f"{megabytes:.0f} MB", "< 300 MB")


@group("same weights")
def same_weights(p):
    digests = []
    for threads in ("1", "2", "2"):
        _, figures = p.train("--epochs", "2", "--seed", "5", "--threads", threads)
        digests.append(figures["weights_sha256"] if figures else "none")
    p.claim("the same seed gives the same weights on 1 and 2 threads, and again",
            len(set(digests)) == 1 and digests[0] != "none", " ".join(d[:12] for d in digests),
            "equal digests")
    _, figures = p.train("--epochs", "2", "--seed", "6")
    p.claim("another seed gives other weights",
            bool(figures) and figures["weights_sha256"] not in digests,
            figures["weights_sha256"][:12] if figures else "no figures", "another digest")


@group("train mnist", minutes=True)
def train_mnist(p):
    if not os.path.isdir(os.path.join(p.data, "mnist")):
        p.absent("tw train cnn --data mnist", f"there is no {p.data}/mnist")
        return
    result, figures = p.train("--data", "mnist", "--epochs", "5", *TWO_CORES,
                              env={"TW_DATA": p.data})
    if not figures:
        p.claim("tw train cnn --data mnist", False, f"{result.end}, {result.last}", "5 epochs")
        return
    times = [float(t) for t in re.findall(r"^epoch .* ([\d.]+) s$", result.err, re.M)]
    accuracy = 100 * figures["test_accuracy"]
    p.claim("tw train cnn --data mnist --epochs 5, test accuracy", accuracy >= 99.0,
            f"{accuracy:.2f} %", ">= 99.0 %")
    p.claim("tw train cnn --data mnist --epochs 5, one epoch", max(times, default=99) < 25,
            f"{min(times, default=0):.1f} to {max(times, default=0):.1f} s, "
            f"{figures['images_per_second']:.0f} images/s", "< 25 s")


# ---- Recorded cases ------------------------------------------------------------------------------

def _without_huge(p, path):
    """A copy of a file of cases that lacks the huge ones."""
    copy = p.path("cases", os.path.basename(path))
    with open(path, encoding="utf-8") as source, open(copy, "w", encoding="utf-8") as target:
        target.writelines(line for line in source
                          if line.strip() and json.loads(line)["id"] not in HUGE)
    return copy


@group("recorded cases")
def recorded_cases(p):
    files = sorted(glob.glob(os.path.join(p.cases, "*.jsonl")))
    if not files:
        p.absent("tw cases", f"there is no {p.cases}")
        return
    result = p.tw("cases", *(_without_huge(p, path) for path in files))
    found = re.search(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", result.out, re.M)
    p.claim(f"tw cases, {len(files)} files", bool(found) and found.group(2) == "0"
            and result.code == 0, found.group(0) if found else f"{result.end}, {result.last}",
            "0 failed")
    for line in re.findall(r"^FAILED .*$", result.out, re.M):
        p.claim("tw cases, " + line.split()[1].rstrip(":"), False, line[8:200],
                "its recorded result")
    skipped = set(re.findall(r"^skipped \S+ operation (\S+) is not there", result.out, re.M))
    if skipped:
        p.absent(f"tw cases, {len(skipped)} operations", " ".join(sorted(skipped)))
    others = re.findall(r"^skipped (?!\S+ operation \S+ is not there).*$", result.out, re.M)
    if others:
        p.absent(f"tw cases, {len(others)} other cases", "; ".join(others)[:300])


def _free_gib():
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(re.search(r"MemAvailable:\s+(\d+) kB", file.read()).group(1)) / (1 << 20)


@group("huge cases", minutes=True)
def huge_cases(p):
    for name, path in (("C18L", "conv"), ("C91L", "softmax_reduce"), ("C91M", "softmax_reduce")):
        what, path = f"tw cases --id {name}", os.path.join(p.cases, path + ".jsonl")
        free = _free_gib()
        if not os.path.isfile(path):
            p.absent(what, f"there is no {path}")
        elif free < HUGE[name]:
            p.absent(what, f"needs {HUGE[name]} GiB of memory, {free:.1f} are free")
        else:
            result = p.tw("cases", "--id", name, path, timeout=400)
            p.claim(what, result.code == 0 and "1 passed, 0 failed" in result.out,
                    f"{result.last}, {result.seconds:.0f} s, {result.megabytes:.0f} MB",
                    "1 passed")


# ---- Kernels -------------------------------------------------------------------------------------

@group("verify")
def verify(p):
    doctor = p.tw("doctor").out
    for level in ("baseline", "avx2", "avx512"):
        what = f"tw verify --set all, TW_MAX_ISA={level}"
        if level != "baseline" and not re.search(rf"\b{level}", doctor):
            p.absent(what, f"this processor has no {level}")
            continue
        result = p.tw("verify", "--set", "all", env={"TW_MAX_ISA": level})
        p.claim(what, result.code == 0 and bool(re.search(r"[1-9]\d* passed, 0 failed",
                                                          result.out)),
                f"{result.last}, {result.seconds:.1f} s", "0 failed")


def _bench(p, threads, seconds):
    path = p.path(f"bench{threads}.json")
    result = p.tw("bench", "--set", "cnn", "--threads", threads, "--seconds", seconds,
                  "--json", path)
    if result.code != 0:
        raise RuntimeError(f"tw bench: {result.end}, {result.last}")
    with open(path, encoding="utf-8") as file:
        figures = json.load(file)
    rows = {row["name"]: row["median_s"] for row in figures["results"]}
    shares = {row["name"]: row["flops"] / row["median_s"] / figures["peak_flops"]
              for row in figures["results"]}
    return rows, shares


@group("speed")
def speed(p):
    if p.sanitized():
        p.absent("share of the peak", "sanitizers are not fast")
        return
    rounds = 1 if p.options.fast else ROUNDS
    one, two = [], []
    for _ in range(rounds):
        one.append(_bench(p, 1, 0.2))
        two.append(_bench(p, 2, 0.2))
    for name, least in LEAST_OF_PEAK:
        tries = [shares[name] for _, shares in one]
        best = max(tries)
        p.claim(f"{name}, 1 thread, of the multiply-add peak", best >= least,
                f"{100 * best:.1f} %, best of " + " ".join(f"{100 * t:.1f}" for t in tries),
                f">= {100 * least:.0f} %")
    if len(os.sched_getaffinity(0)) < 2:
        p.absent("2 threads against 1", "there is one CPU")
        return
    for name, _ in LEAST_OF_PEAK:
        ratios = [a[0][name] / b[0][name] for a, b in zip(one, two)]
        p.claim(f"{name}, 2 threads against 1", max(ratios) >= 1.8,
                f"{max(ratios):.2f} times, best of " + " ".join(f"{r:.2f}" for r in ratios),
                ">= 1.8 times")


@group("overhead")
def overhead(p):
    result = p.tw("bench", "overhead")
    found = re.search(r"^ *([\d.]+) .*  (tw_run, one .*)$", result.out, re.M)
    p.claim("tw bench overhead, a call of one operation", bool(found) and result.code == 0,
            f"{found.group(1)} ns, {found.group(2)}" if found else result.last,
            "a printed figure")
