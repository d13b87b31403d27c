# SPDX-License-Identifier: Apache-2.0
"""Command line of tools/check."""
import argparse
import os
import time

from checks import exports, formatting, history, layers, manifest, sizes, text
from checks.tree import Report, Tree

RULES = [text, layers, sizes, manifest, exports, history, formatting]


def run(root, build=None, only=None):
    """Runs the rules on a tree and returns the report."""
    tree = Tree(root, build)
    report = Report(tree)
    for rule in RULES:
        name = rule.__name__.split(".")[-1]
        if only and name not in only:
            continue
        start = time.monotonic()
        rule.check(tree, report)
        report.seconds[name] = time.monotonic() - start
    if not only:
        report.check_allowances()
    return report


def main(arguments):
    """Prints one line for each violation; the exit status says whether there was one."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    names = [rule.__name__.split(".")[-1] for rule in RULES]
    parser = argparse.ArgumentParser(prog="tools/check", description="Checks Tilework's own rules.")
    parser.add_argument("--root", default=here, help="the source tree")
    parser.add_argument("--build", help="build folder whose libraries are checked; default: build/")
    parser.add_argument("--only", action="append", choices=names, help="run one group of rules")
    parser.add_argument("--write-exports", action="store_true",
                        help="rewrite cmake/exports*.txt from the public headers, and stop")
    parser.add_argument("--times", action="store_true", help="say how long each group took")
    options = parser.parse_args(arguments)
    if options.write_exports:
        exports.write(Tree(options.root, None))
        return 0

    report = run(options.root, options.build, options.only)
    for line in report.lines():
        print(line)
    if options.times:
        for name, seconds in report.seconds.items():
            print(f"{seconds:6.2f} s  {name}")
    for note in report.notes:
        print("note: " + note)
    count = len(report.found)
    print("tools/check: " + (f"{count} violations" if count else "all rules hold"))
    return 1 if count else 0
