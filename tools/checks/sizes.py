# SPDX-License-Identifier: Apache-2.0
"""Limits of size: small files, small functions, short lines, few parameters, little nesting."""
import os
import re

from checks import csource
from checks.exports import declared

FILE_LINES = 500
HEADER_LINES = 1000
FUNCTION_LINES = 60
KERNEL_LINES = 150
COLUMNS = 100
PARAMETERS = 6
NESTING = 4

_CODE = (".c", ".h", ".cu", ".cuh", ".cc", ".cpp", ".def", ".py", ".cmake")


def check(tree, report):
    public = set().union(*declared(tree).values())
    for name in tree.files:
        text = tree.text(name)
        if text is None or not (name.endswith(_CODE) or text.startswith("#!")
                                or os.path.basename(name) in ("CMakeLists.txt", "Makefile")):
            continue
        lines = text.splitlines()
        limit = HEADER_LINES if name.startswith("include/") else FILE_LINES
        if len(lines) > limit:
            report.add(name, limit + 1, "file-length", f"{len(lines)} lines; at most {limit}",
                       size=len(lines))
        _check_columns(report, name, lines)
        if name.endswith((".c", ".h", ".cu", ".cuh")):
            _check_functions(report, name, text, public)


def _check_columns(report, name, lines):
    widest = max((len(line) for line in lines), default=0)
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS:
            report.add(name, number, "line-length", f"{len(line)} columns; at most {COLUMNS}",
                       size=widest)


def _check_functions(report, name, text, public):
    kernel = bool(re.search(r"_body\.h$|\.cuh?$", name))
    limit = KERNEL_LINES if kernel else FUNCTION_LINES
    for function in csource.functions(text):
        place = name, function.first
        if function.lines > limit:
            report.add(*place, "function-length",
                       f"{function.name}() has {function.lines} lines; at most {limit}",
                       function.name, function.lines)
        if function.parameters > PARAMETERS and function.name not in public:
            report.add(*place, "parameters",
                       f"{function.name}() has {function.parameters} parameters; at most "
                       f"{PARAMETERS}, else a struct", function.name, function.parameters)
        if function.nesting > NESTING:
            report.add(*place, "nesting",
                       f"{function.name}() nests {function.nesting} levels; at most {NESTING}",
                       function.name, function.nesting)
