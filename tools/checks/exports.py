# SPDX-License-Identifier: Apache-2.0
"""Headers, checked-in lists and libraries agree on what is exported, and on what is needed."""
import os
import re
import subprocess

from checks import csource

LISTS = {"tilework": "cmake/exports.txt", "tilework_io": "cmake/exports_io.txt"}
_TITLE = ("# The public symbols of lib{}, sorted. tools/check compares them with the headers and "
          "the library.")
_NEEDED = re.compile(r"^(libc|libm|libpthread|libdl|librt|ld-linux[\w-]*)\.so\.\d+$")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", re.MULTILINE)
_DECLARATION = re.compile(r"\bTW_API\b[^;{}()]*?\b(\w+)\s*\(")


def declared(tree):
    """{library: {function: (header, line)}}: tilework.h and what it includes, and the rest."""
    headers = tree.under("include/tilework", ending=".h")
    sources = {name: csource.without_comments(tree.text(name) or "") for name in headers}
    umbrella, queue = set(), ["include/tilework/tilework.h"]
    while queue:
        name = queue.pop()
        if name in umbrella or name not in sources:
            continue
        umbrella.add(name)
        queue += ["include/" + header
                  for header in re.findall(r"#\s*include\s*<(tilework/\w+\.h)>", tree.text(name))]
    result = {"tilework": {}, "tilework_io": {}}
    for name, source in sources.items():
        library = "tilework" if name in umbrella else "tilework_io"
        source = _DIRECTIVE.sub(lambda match: "\n" * match.group().count("\n"), source)
        for match in _DECLARATION.finditer(source):
            line = source.count("\n", 0, match.start()) + 1
            result[library][match.group(1)] = (name, line)
    return result


def write(tree):
    """Writes the lists from the headers."""
    for library, functions in declared(tree).items():
        if functions:
            with open(tree.path(LISTS[library]), "w", encoding="utf-8") as file:
                file.write("\n".join([_TITLE.format(library), *sorted(functions)]) + "\n")


def check(tree, report):
    for library, functions in declared(tree).items():
        path = LISTS[library]
        if not tree.has(path):
            if functions:
                report.add(path, 1, "exports", "missing: run tools/check --write-exports")
            continue
        lines = (tree.text(path) or "").splitlines()
        listed = {line: number for number, line in enumerate(lines, 1)
                  if line and not line.startswith("#")}
        _check_list(report, path, listed, functions)
        _check_library(tree, report, library, listed)


def _check_list(report, path, listed, functions):
    for name, (header, line) in functions.items():
        if not name.startswith("tw_"):
            report.add(header, line, "exports", f"{name}: public functions begin with tw_")
        if name not in listed:
            report.add(header, line, "exports", f"{name} is declared but not in {path}")
    for name, line in listed.items():
        if name not in functions:
            report.add(path, line, "exports", f"{name} is declared in no header of this library")
    if list(listed) != sorted(listed):
        report.add(path, 1, "exports", "not sorted: run tools/check --write-exports")


def _check_library(tree, report, library, listed):
    path = os.path.join(tree.build, f"lib{library}.so")
    if not os.path.exists(path):
        if library == "tilework":
            message = f"{path} is not there"
            if tree.explicit_build:
                report.add(LISTS[library], 1, "exports", message)
            else:
                report.notes.append(message + ": exported symbols were not checked")
        return
    if not tree.explicit_build and \
            os.path.getmtime(path) < os.path.getmtime(tree.path(LISTS[library])):
        report.notes.append(f"{path} is older than {LISTS[library]} and was not checked")
        return
    symbols = _tool("nm", "-D", "--defined-only", path)
    exported = {line.split()[2].split("@")[0] for line in symbols.splitlines()
                if len(line.split()) == 3 and line.split()[1] not in "Aa"}
    for name in sorted(exported - set(listed)):
        report.add(LISTS[library], 1, "exports",
                   f"lib{library}.so exports {name}, which is not here")
    for name in sorted(set(listed) - exported):
        report.add(LISTS[library], listed[name], "exports",
                   f"lib{library}.so does not export {name}")
    if library == "tilework":
        for name in re.findall(r"\(NEEDED\).*\[(.+?)\]", _tool("readelf", "-d", path)):
            if not _NEEDED.match(name):
                report.add("CMakeLists.txt", 1, "needed", f"libtilework.so needs {name}; only "
                           "libc, libm, pthread, dl and the loader are allowed")


def _tool(*command):
    environment = dict(os.environ, LC_ALL="C")
    return subprocess.run(command, check=True, capture_output=True, text=True,
                          env=environment).stdout
