# SPDX-License-Identifier: Apache-2.0
"""C files are as clang-format 14 leaves them. Manifests (.def) are tables, laid out by hand."""
import re
import shutil
import subprocess

VERSION = "14"
_WARNING = re.compile(r"^(?P<path>.+?):(?P<line>\d+):\d+: (?:error|warning): code should be")


def find():
    """The command of the right version; others format differently."""
    for command in (f"clang-format-{VERSION}", "clang-format"):
        path = shutil.which(command)
        if path:
            text = subprocess.run([path, "--version"], capture_output=True, text=True,
                                  check=False).stdout
            if re.search(rf"version {VERSION}\.", text):
                return path
    return None


def check(tree, report):
    names = tree.under()
    if not names:
        return
    command = find()
    if not command:
        report.add(".clang-format", 1, "format", f"clang-format {VERSION} was not found: "
                   f"install clang-format-{VERSION} from Debian or Ubuntu, or clang-format==14.0.6 "
                   "from PyPI")
        return
    result = subprocess.run([command, "--dry-run", "--style=file", *names], cwd=tree.root,
                            capture_output=True, text=True, check=False)
    first = {}
    for line in result.stderr.splitlines():
        match = _WARNING.match(line)
        if match:
            first.setdefault(match.group("path"), int(match.group("line")))
    for path, line in first.items():
        report.add(path, line, "format", "run clang-format -i on this file")
