# SPDX-License-Identifier: Apache-2.0
"""Plain properties of files: licence line, blanks, words that do not belong here, unique names."""
import os
import re

SPDX = "SPDX-License-Identifier: Apache-2.0"
_LICENSED = (".c", ".h", ".cu", ".cuh", ".cc", ".cpp", ".def", ".cmake", ".py", ".sh")
_LICENSED_NAMES = ("CMakeLists.txt", "Makefile")
_UNIQUE = (".c", ".h", ".cu", ".cuh", ".cc", ".cpp", ".def", ".py", ".cmake")
_BINARY = (".png", ".jpg", ".jpeg", ".gz", ".npy", ".safetensors", ".onnx", ".gguf", ".wav", ".bin")
# Written in pieces, so that this file passes.
_WORDS = re.compile(r"\b(" + "|".join(["TO" "DO", "FIX" "ME", "X" "XX", "HA" "CK"]) + r")\b")
_DEAD = re.compile(r"^\s*#\s*if\s+" + "0" + r"\b")
_PLACES = re.compile(r"(?<![\w.])/" + r"(work|home|tmp/build)[/_]\w")


def check(tree, report):
    seen = {}
    for name in tree.files:
        base = os.path.basename(name)
        if base.endswith(_UNIQUE) and base != "__init__.py":
            # Public headers are written <tilework/…>, so they may share a name with an inner one.
            space = "public" if name.startswith("include/") else "inner"
            other = seen.setdefault((space, base.lower()), name)
            if other != name:
                report.add(name, 1, "unique-name", f"{other} has the same name")
        if name.endswith(_BINARY):
            continue
        text = tree.text(name)
        if text is None:
            report.add(name, 1, "utf-8", "a text file is UTF-8 without NUL")
            continue
        _check_text(report, name, text)


def _check_text(report, name, text):
    lines = text.split("\n")
    script = lines[0].startswith("#!") and len(lines) > 1
    if script or name.endswith(_LICENSED) or os.path.basename(name) in _LICENSED_NAMES:
        first = lines[1] if script else lines[0]
        if SPDX not in first:
            report.add(name, 1, "spdx", f"the first line is not {SPDX}")
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        report.add(name, len(lines), "final-newline", "a file ends with exactly one newline")
    makefile = os.path.basename(name) == "Makefile"
    for number, line in enumerate(lines, 1):
        if "\r" in line:
            report.add(name, number, "carriage-return", "lines end with a newline alone")
        elif line != line.rstrip():
            report.add(name, number, "trailing-blank", "blanks at the end of the line")
        if "\t" in line and not makefile:
            report.add(name, number, "tab", "a tab; indent with spaces")
        match = _WORDS.search(line) or _DEAD.search(line) or _PLACES.search(line)
        if match:
            report.add(name, number, "word", f"'{match.group().strip()}' does not belong here")
