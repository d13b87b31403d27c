# SPDX-License-Identifier: Apache-2.0
"""What is shipped: size, dependencies, consumers, planning and allocation, and the test suites."""
import os
import re

from proofs.prover import group

# Fixed names of the C library and the loader on Linux.
SYSTEM_LIBRARIES = {"libc", "libm", "libpthread", "libdl", "ld-linux-x86-64", "ld-linux-aarch64",
                    "linux-vdso"}
SUITES = (
    ("public headers alone, C11 and C++17", "^header_"),
    ("linking against each library", "^link_"),
    ("find_package and pkg-config consumers", "^(install|consumer_)"),
    ("gradients against finite differences", "gradient"),
    ("tw data against a local server", "^download_test$"),
    ("the library for Windows by a cross-compiler", "^windows_"),
    ("NEON in qemu-user", "^neon_"),
)


def _probe(p):
    """Lines of fields that probe.c prints, or None with the reason."""
    program = p.path("probe")
    flags = ["-fsanitize=" + p.sanitized()] if p.sanitized() else []
    compiled = p.run("cc", "-std=c11", "-O2", "-D_DEFAULT_SOURCE", *flags, "-I",
                     os.path.join(p.root, "include"), "-o", program,
                     os.path.join(p.root, "tools", "proofs", "probe.c"), "-L", p.build,
                     "-Wl,-rpath," + p.build, "-ltilework")
    if compiled.code != 0:
        return None, compiled
    result = p.run(program, timeout=120)
    return [line.split("\t") for line in result.out.splitlines()], result


def _probed(p):
    rows, result = p.cached("probe", lambda: _probe(p))
    if rows is None or result.code != 0:
        p.claim("the probe of the library", False, f"{result.end}, {result.last}", "exit code 0")
    return rows or []


@group("planning")
def planning(p):
    for kind, *fields in _probed(p):
        if kind == "plan":
            first, median = map(float, fields)
            p.claim("planning a training step", max(first, median) < 50,
                    f"{first:.2f} ms the first time, {median:.2f} ms then", "< 50 ms")
        if kind == "run":
            runs, hooks, libc = map(int, fields)
            p.claim("allocations of tw_run", hooks == 0 and libc <= 0,
                    f"{hooks} through tw_set_allocator" +
                    (f", {libc} of the C library" if libc >= 0 else "") +
                    f" in {runs} training steps on 2 threads", "0")
        if kind == "left":
            p.claim("memory left at the end", fields == ["0"], f"{fields[0]} blocks", "0")


@group("bad calls")
def bad_calls(p):
    for kind, *fields in _probed(p):
        if kind == "bad":
            call, status, sentence = fields
            p.claim(f"the library given {call}",
                    status not in ("TW_OK", "TW_INTERNAL", "TW_UNKNOWN") and len(sentence) > 10,
                    f"{status}, {sentence}", "a status and a sentence")


@group("library")
def library(p):
    path = os.path.join(p.build, "libtilework.so")
    megabytes = os.path.getsize(path) / 1e6
    p.claim("size of libtilework.so", megabytes < 15, f"{megabytes:.2f} MB", "< 15 MB")
    if p.sanitized():
        p.absent("what libtilework.so needs", "a sanitizer's libraries are added to it")
        return
    names = re.findall(r"^\s*(\S+)(?: =>| \()", p.run("ldd", path).out, re.M)
    others = [n for n in names
              if os.path.basename(n).split(".so")[0] not in SYSTEM_LIBRARIES]
    p.claim("what libtilework.so needs", bool(names) and not others,
            " ".join(map(os.path.basename, names)), "only the C library's parts")


@group("digits")
def digits(p):
    folder = os.path.join(p.root, "data", "digits")
    size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    p.claim("size of the built-in digits", size <= 1.5e6, f"{size / 1e6:.2f} MB", "<= 1.5 MB")
    with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
        text = file.read()
    found = [word for word in ("MNIST", "licence") if re.search(word, text, re.I)]
    p.claim("data/digits/README.md has origin and licence", len(found) == 2,
            f"{len(text)} bytes with {' and '.join(found)}", "both")


@group("suites")
def suites(p):
    for what, pattern in SUITES:
        result = p.run("ctest", "--test-dir", p.build, "-R", pattern, timeout=900)
        found = re.search(r"(\d+)% tests passed, (\d+) tests failed out of (\d+)", result.out)
        if not found:
            p.absent(what, f"the build has no test like {pattern} (needs -DTW_TESTS=ON, and for "
                           "other targets -DTW_CROSS=ON)")
            continue
        failed = re.findall(r"^\s*\d+ - (\S+) \(.*\)$", result.out, re.M)
        p.claim(what, found.group(2) == "0",
                f"{found.group(3)} tests" if not failed else f"failed: {' '.join(failed)}",
                "all pass")


@group("sanitizers", slow=True)
def sanitizers(p):
    for name in ("address,undefined", "undefined", "thread"):
        folder = os.path.join(p.build, "prove-" + name.split(",", maxsplit=1)[0])
        made = p.run("cmake", "-S", p.root, "-B", folder, "-G", "Ninja", "-DTW_TESTS=ON",
                     "-DTW_CROSS=OFF", "-DTW_SANITIZE=" + name,
                     "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
        if made.code == 0:
            made = p.run("cmake", "--build", folder, timeout=1800)
        if made.code != 0:
            p.claim(f"tests under -fsanitize={name}", False, f"{made.end}, {made.last}", "a build")
            continue
        result = p.run("ctest", "--test-dir", folder, timeout=3600)
        found = re.search(r"\d+% tests passed, (\d+) tests failed out of (\d+)", result.out)
        failed = re.findall(r"^\s*\d+ - (\S+) \(.*\)$", result.out, re.M)
        p.claim(f"tests under -fsanitize={name}", bool(found) and found.group(1) == "0",
                f"{found.group(2) if found else 'no'} tests" +
                (", failed: " + " ".join(failed) if failed else ""), "all pass")
