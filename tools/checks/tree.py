# SPDX-License-Identifier: Apache-2.0
"""The files that are checked, and the list of what was found."""
import os
import subprocess

C_FILES = (".c", ".h", ".cu", ".cuh")
CPP_FILES = (".cc", ".cpp")


class Tree:
    """The files of a source tree: what git tracks or would add, or all of a folder without git."""

    def __init__(self, root, build):
        self.root = os.path.abspath(root)
        self.explicit_build = build is not None
        self.build = os.path.abspath(build) if build else os.path.join(self.root, "build")
        self.is_git = os.path.exists(os.path.join(self.root, ".git"))
        self.files = sorted(self._git_files() if self.is_git else self._all_files())
        self._texts = {}

    def _git_files(self):
        out = self.git("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = [name for name in out.split("\0") if name]
        return [name for name in names if os.path.isfile(os.path.join(self.root, name))]

    def _all_files(self):
        for folder, _, names in os.walk(self.root):
            for name in names:
                yield os.path.relpath(os.path.join(folder, name), self.root)

    def git(self, *arguments):
        """What a git command prints."""
        return subprocess.run(["git", "-C", self.root, *arguments], check=True,
                              capture_output=True, text=True).stdout

    def path(self, name):
        return os.path.join(self.root, name)

    def has(self, name):
        return os.path.isfile(self.path(name))

    def text(self, name):
        """The content, or None for a binary file."""
        if name not in self._texts:
            with open(self.path(name), "rb") as file:
                data = file.read()
            try:
                self._texts[name] = None if b"\0" in data else data.decode("utf-8")
            except UnicodeDecodeError:
                self._texts[name] = None
        return self._texts[name]

    def under(self, *folders, ending=C_FILES):
        """Files below folders (all, if none is given) whose name has one of the endings."""
        return [name for name in self.files if name.endswith(ending)
                and (not folders or any(name.startswith(folder + "/") for folder in folders))]


class Report:
    """Violations, less those that tools/allow.txt allows.

    A line of that file is `rule path[:name] limit reason…`: the violation may be as large as the
    limit says. An entry that allows more than is needed is a violation itself, so that the list can
    only shrink.
    """

    ALLOW = "tools/allow.txt"

    def __init__(self, tree):
        self.found = []
        self.notes = []
        self.seconds = {}
        self.allowed = {}
        if not tree.has(self.ALLOW):
            return
        for number, line in enumerate((tree.text(self.ALLOW) or "").splitlines(), 1):
            words = line.split(None, 3)
            if not words or words[0].startswith("#"):
                continue
            if len(words) < 4 or not words[2].isdigit():
                self.add(self.ALLOW, number, "allow", "a line is: rule path[:name] limit reason")
                continue
            self.allowed[words[0], words[1]] = [int(words[2]), number, 0]

    def add(self, path, line, rule, what, name=None, size=1):
        """Reports a violation; `name` (a function, say) and `size` are what allowances refer to."""
        entry = self.allowed.get((rule, f"{path}:{name}" if name else path))
        if entry and size <= entry[0]:
            entry[2] = max(entry[2], size)
            return
        self.found.append((path, line, rule, what))

    def check_allowances(self):
        for (rule, subject), (limit, line, used) in self.allowed.items():
            if used < limit:
                self.add(self.ALLOW, line, "allow",
                         f"{rule} {subject} is {used or 'within the rule'}, no longer {limit}: "
                         + ("lower the limit" if used else "remove the line"))

    def lines(self):
        for path, line, rule, what in sorted(set(self.found)):
            yield f"{path}:{line}: {rule}: {what}"
