# SPDX-License-Identifier: Apache-2.0
"""Dependencies point one way; instructions and system calls live in their own files."""
import os
import re

from checks import csource

# What a folder's files may include, besides public headers and core.
_ABOVE = {
    "core": ["core"],
    "arch": ["arch"],
    "runtime": ["runtime", "arch"],
    "tile": ["tile", "runtime", "arch"],
    "ops": ["ops", "tile", "runtime", "arch"],
    "graph": ["graph", "ops", "tile", "runtime", "arch"],
    "plan": ["plan", "graph", "ops", "tile", "runtime", "arch"],
    "comm": ["comm", "runtime", "arch"],
    "simple": ["simple"],
    "formats": ["formats"],
    "train": ["train"],
    "simple": ["simple"],
}
_FACES = ["cli", "shim", "bench", "examples"]  # public headers, core, and their own files

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
_PUBLIC = re.compile(r"^tilework/[\w/]+\.(h|def)$")
_INTRINSICS = re.compile(r"\b(_mm\d*_\w+|__m(128|256|512)\w*|__builtin_ia32_\w+|v(ld|st)[1-4]q_\w+"
                         r"|float(16|32|64)x\d+_t|__asm__|asm)\b")
_INTRINSIC_HEADERS = re.compile(r"^(\w*intrin|arm_neon|arm_sve|arm_acle|cpuid)\.h$")
_SYSTEM_HEADERS = re.compile(r"^(unistd|pthread|windows|signal|dlfcn|fcntl|dirent|sched|poll"
                             r"|termios|linux/\w+|sys/\w+)\.h$")
_CALLS = re.compile(r"(?<![\w.>])(malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup"
                    r"|alloca|abort|exit|printf|puts|putchar|perror)\s*\(")


_TEST = re.compile(r"_(test\.c|testing\.h|fuzz\.h)$")  # files that only tests include


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def check(tree, report):
    for name in tree.under("src", *_FACES):
        source = csource.without_comments(tree.text(name) or "")
        raw = tree.text(name) or ""
        # A raw match counts only where the blanked source still has a directive.
        kept = {line_of(source, m.start())
                for m in re.finditer(r"^[ \t]*#[ \t]*include\b", source, re.MULTILINE)}
        for match in _INCLUDE.finditer(raw):
            line = line_of(raw, match.start() + len(match.group()) - len(match.group().lstrip()))
            if line in kept:
                _check_include(report, name, line, match.group(1), match.group(2))
        _check_words(report, name, source)


def _layer(name):
    parts = name.split("/")
    return parts[1] if parts[0] == "src" else parts[0]


def _check_include(report, name, line, bracket, header):
    layer = _layer(name)
    is_test = bool(_TEST.search(name))
    if bracket == "<":
        if header.startswith("tilework/"):
            if not _PUBLIC.match(header):
                report.add(name, line, "layer", f"<{header}> is no public header")
            return
        if _INTRINSIC_HEADERS.match(header) and layer != "arch":
            report.add(name, line, "intrinsics", f"<{header}> belongs to src/arch")
        if name.startswith("src/") and _SYSTEM_HEADERS.match(header) and not is_test \
                and not _is_system_file(name):
            report.add(name, line, "system", f"<{header}> belongs to src/core/*_posix.c, "
                       "src/core/*_windows.c or src/arch")
        return
    if ".." in header.split("/"):
        report.add(name, line, "layer", f'"{header}" leaves its folder: paths are relative to src/')
        return
    if layer in _FACES:
        target = header.split("/")[0] if "/" in header else layer
        if layer == "examples" and target != "examples":
            report.add(name, line, "layer", f'"{header}": an example uses public headers only')
        elif target not in ("core", layer) and not (layer == "shim" and "/" not in header):
            report.add(name, line, "layer", f'"{header}": {layer} may use public headers and core')
        return
    if is_test and header in ("harness.h", os.path.basename(header)):
        return  # tests have the tests folder on their path
    target = header.split("/")[0]
    if target == "tilework":
        report.add(name, line, "layer", f'"{header}": write public headers as <{header}>')
    elif "/" not in header:
        report.add(name, line, "layer", f'"{header}": write the path from src/')
    elif target == "ops" and layer == "ops":
        return
    elif target != "core" and target not in _ABOVE.get(layer, []):
        allowed = " ".join(["core"] + [one for one in _ABOVE.get(layer, []) if one != "core"])
        report.add(name, line, "layer", f'"{header}": {layer} may include {allowed} only')


def _is_system_file(name):
    return bool(re.match(r"src/core/\w+_(posix|windows)\.c$|src/arch/", name))


def _check_words(report, name, source):
    layer = _layer(name)
    is_test = bool(_TEST.search(name))
    if layer != "arch" and not is_test and not _is_system_file(name) and layer != "shim":
        for match in _INTRINSICS.finditer(source):
            if match.group() in ("asm", "__asm__") and layer in ("formats", "train"):
                continue  # .incbin
            report.add(name, line_of(source, match.start()), "intrinsics",
                       f"{match.group()} belongs to src/arch")
    if not name.startswith("src/") or is_test:
        return
    in_core = layer == "core"
    for match in _CALLS.finditer(source):
        word = match.group(1)
        if in_core and word not in ("abort", "exit", "printf", "puts", "perror"):
            continue
        report.add(name, line_of(source, match.start()), "calls",
                   f"{word}(): memory comes from core/alloc.h, failures are returned, "
                   "nothing is printed")
