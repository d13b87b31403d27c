# SPDX-License-Identifier: Apache-2.0
"""Commit subjects are `scope: what`, at most 72 characters."""
import re

_SUBJECT = re.compile(r'^([a-z0-9_.+/-]+(, ?[a-z0-9_.+/-]+)*: \S.*|Revert ".*)$')
LONGEST = 72


def problem(subject):
    """What is wrong with a subject, or None."""
    if len(subject) > LONGEST:
        return f"{len(subject)} characters; at most {LONGEST}"
    if not _SUBJECT.match(subject):
        return "not of the form `scope: what`"
    return None


def check(tree, report):
    if not tree.is_git:
        return
    # What upstream has cannot be reworded; the root commit is not ours; merges name themselves.
    upstream = tree.git("for-each-ref", "--format=^%(refname)", "refs/remotes").split()
    log = tree.git("log", "--no-merges", "--min-parents=1", "--format=%h%x09%s", "HEAD", *upstream)
    for line in log.splitlines():
        commit, subject = line.split("\t", 1)
        what = problem(subject)
        if what:
            report.add("commit", commit, "commit-subject", f"{what}: {subject}", commit)
