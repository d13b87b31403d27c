# SPDX-License-Identifier: Apache-2.0
"""A kernel cannot exist without a test and a problem; a family has all its parts."""
import os
import re

from checks import csource

_ROW = re.compile(r"^[ \t]*TW_ROW\w*\s*\(([^)]*)\)", re.MULTILINE)
_OP = re.compile(r'^TW_OP\(\s*(\w+)\s*,\s*\d+\s*,\s*(\w+)\s*,\s*"(\w+)"\s*\)', re.MULTILINE)
_VALUE = re.compile(r"^TW_OP\(\s*(\w+)\s*,\s*(\d+)", re.MULTILINE)
_FAMILY = re.compile(r"^TW_FAMILY\((\w+)\)", re.MULTILINE)
_TARGETS = ("avx512bf16", "avx512", "avx2", "amx", "sse2", "neon", "sve", "ref", "sm75", "sm80",
            "sm90")


def check(tree, report):
    if not tree.has("src/ops/ops.def"):
        return
    operations = {}  # kind: (family, text)
    for kind, family, text in _OP.findall(tree.text("src/ops/ops.def")):
        operations[kind] = (family, text)
    reached = _reached(tree, report, operations)
    for family in _FAMILY.findall(tree.text("src/ops/families.def") or ""):
        _check_family(tree, report, family, operations, reached)


def _reached(tree, report, operations):
    """Operations that some problem of shapes/*.txt asks for."""
    reached = set()
    defaults = {}
    for name in tree.under("shapes", ending=".txt"):
        for number, line in enumerate((tree.text(name) or "").splitlines(), 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            kind = _operation(tree, words, operations, defaults)
            if kind:
                reached.add(kind)
            else:
                report.add(name, number, "problem", f"no operation of a family is meant by: {line}")
    return reached


def _operation(tree, words, operations, defaults):
    """The kind that a problem string means, by its op= or pass= key."""
    family = words[0]
    kinds = {text: kind for kind, (owner, text) in operations.items() if owner == family}
    values = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    if len(kinds) == 1:
        return next(iter(kinds.values()))
    if family not in defaults:
        plan = f"src/ops/{family}/{family}_plan.c"
        text = tree.text(plan) if tree.has(plan) else ""
        match = re.search(r'\{\s*"op"\s*,\s*"(\w+)"', text or "")
        defaults[family] = match.group(1) if match else None
    wanted = values.get("op", defaults[family])
    if wanted:
        return kinds.get(wanted)
    suffix = {"fwd": "", "bwd": "_backward"}.get(values.get("pass", "fwd"),
                                                 "_" + values.get("pass", ""))
    stems = [text for text in kinds if not any(text.startswith(other + "_") for other in kinds)]
    return next((kinds[stem + suffix] for stem in stems if stem + suffix in kinds), None)


def _check_family(tree, report, family, operations, reached):
    folder = f"src/ops/{family}"
    manifest = f"{folder}/{family}.def"
    if not tree.has(manifest):
        report.add("src/ops/families.def", 1, "family", f"{manifest} is missing")
        return
    if not tree.has(f"{folder}/NOTES.md"):
        report.add(manifest, 1, "family", f"{folder}/NOTES.md is missing")
    own = [name for name in tree.under(folder, ending=".c")
           if re.match(rf"{family}\w*_test\.c$", os.path.basename(name))]
    if not own:
        report.add(manifest, 1, "family", f"{folder}/{family}_test.c is missing")
    tested = "".join(csource.without_comments(tree.text(name) or "")
                     for name in own + tree.under(folder, ending="_testing.h")
                     + tree.under("tests", ending="_test.c"))
    _check_rows(tree, report, (family, manifest), operations, (reached, tested))


def _check_rows(tree, report, place, operations, proof):
    family, manifest = place
    reached, tested = proof
    text = csource.without_comments(tree.text(manifest))
    last = {}
    for match in _ROW.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        columns = [column.strip() for column in match.group(1).split(",")]
        if len(columns) < 5:
            report.add(manifest, line, "row", "a row has family, algorithm, types, target, kind")
            continue
        owner, algorithm, _, target, kind = columns[:5]
        if owner != family or operations.get(kind, ("",))[0] != family:
            report.add(manifest, line, "row", f"{owner} {kind}: not an operation of {family}")
        if target not in _TARGETS:
            report.add(manifest, line, "row", f"unknown target {target}")
        if last.get(kind) == "ref":
            report.add(manifest, line, "row",
                       f"{algorithm}: the reference of {kind} is the last row")
        last[kind] = target
        if not re.search(rf"\bTW_OP_{kind}\b", tested):
            report.add(manifest, line, "row", f"no test names TW_OP_{kind}")
        if kind not in reached:
            report.add(manifest, line, "row", f"no problem in shapes/*.txt reaches {kind}")
    # Kinds from 128 on are patterns: where no row takes them, their operations run one by one.
    patterns = {kind for kind, value in _VALUE.findall(tree.text("src/ops/ops.def"))
                if int(value) >= 128}
    for kind, (owner, _) in operations.items():
        if owner == family and last.get(kind) != "ref" and kind not in patterns:
            report.add(manifest, 1, "row", f"{kind} has no reference row at its end")
