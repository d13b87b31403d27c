# SPDX-License-Identifier: Apache-2.0
"""Runs groups of claims against a build and prints a line for each."""
import argparse
import importlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOPICS = {"foundation": ("foundation", "quality", "bad_input", "checkpoints")}
# What the caller's environment must not decide.
OURS = ("TW_DATA", "TW_SHAPES", "TW_MAX_ISA", "TW_THREADS", "TW_CACHE", "TW_MIRROR", "TW_LOG")
SANITIZERS = re.compile(r"AddressSanitizer|ThreadSanitizer|LeakSanitizer|runtime error:")

_groups = []


def group(name, minutes=False, slow=False):
    """Registers a function of a Prover that makes claims. minutes: left out by --fast; slow: only
    with --slow."""
    def register(function):
        _groups.append((name, function, minutes, slow))
        return function
    return register


class Result:
    """What a process left: code (negative: the signal, None: past its time), texts, resources."""

    def __init__(self, code, out, err, seconds, megabytes):
        self.code, self.out, self.err = code, out, err
        self.seconds, self.megabytes = seconds, megabytes

    @property
    def end(self):
        if self.code is None:
            return f"stopped after {self.seconds:.0f} s"
        if self.code < 0:
            return signal.Signals(-self.code).name
        return f"exit code {self.code}"

    @property
    def last(self):
        """The last line that it wrote, for messages."""
        lines = (self.err.strip() or self.out.strip()).splitlines()
        return lines[-1] if lines else "printed nothing"


class Prover:
    """A build, a temporary folder, and the claims made so far."""

    def __init__(self, options):
        self.options = options
        self.root = ROOT
        self.build = os.path.abspath(options.build)
        self.tw_path = os.path.join(self.build, "tw")
        shared = os.path.join(os.path.dirname(ROOT), "shared")
        self.data = os.environ.get("TW_DATA") or os.path.join(shared, "data")
        self.cases = os.path.join(shared, "cases")
        self.folder = tempfile.mkdtemp(prefix="tw-prove-")
        self.env = {key: value for key, value in os.environ.items() if key not in OURS}
        self.env.update(TW_CACHE=os.path.join(self.folder, "cache"), LC_ALL="C",
                        TW_SHAPES=os.path.join(ROOT, "shapes"))
        self.claims = []
        self.terminal = sys.stderr.isatty()
        self.group = ""

    # ---- Claims ----

    def _add(self, state, what, text, **more):
        self.status("")
        text = text.replace(self.folder + "/", "")
        more = {key: value.replace(self.folder + "/", "") for key, value in more.items()}
        self.claims.append(dict(state=state, group=self.group, what=what, **more))
        if not self.options.json:
            print(f"{state:<6} {what}: {text}", flush=True)
        return state == "holds"

    def claim(self, what, holds, measured, wanted):
        """One line. True if it holds."""
        text = measured if holds else f"{measured}, wanted {wanted}"
        return self._add("holds" if holds else "FAILS", what, text, measured=measured,
                         wanted=wanted)

    def absent(self, what, why):
        self._add("absent", what, why, why=why)

    def refuses(self, what, result, names=(), codes=(1, 2)):
        """That a command failed cleanly: its exit code, and one line that has all of `names`."""
        lines = result.err.strip().splitlines()
        missing = [name for name in names if name not in result.err]
        holds = result.code in codes and len(lines) == 1 and not missing
        wanted = f"exit code {' or '.join(map(str, codes))} and one line"
        if missing:
            wanted += f" with {', '.join(missing)}"
        return self.claim(what, holds, f"{result.end}, {result.last}", wanted)

    def refuses_all(self, what, tries, codes=(1, 2)):
        """The same of many inputs, (name, result), as one claim. Also 0, if codes has it."""
        wrong, seen = [], set()
        for name, result in tries:
            lines = result.err.strip().splitlines()
            if result.code not in codes or (result.code != 0 and len(lines) != 1):
                wrong.append(f"{name}: {result.end}, {result.last}")
            seen.add(result.code)
        measured = (f"{len(wrong)} of {len(tries)}: {wrong[0]}" if wrong else
                    f"{len(tries)} inputs, exit code {' or '.join(map(str, sorted(seen)))}")
        wanted = f"exit code {' or '.join(map(str, codes))} and one line"
        return self.claim(what, not wrong and bool(tries), measured, wanted)

    def status(self, text):
        """The progress line on a terminal."""
        if self.terminal:
            print(f"\r\033[K{text[:78]}", end="", file=sys.stderr, flush=True)

    # ---- Processes ----

    def path(self, *parts):
        path = os.path.join(self.folder, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def start(self, command, env=None, **more):
        """A process with its texts in files; finish() waits for it."""
        out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        process = subprocess.Popen(command, env={**self.env, **(env or {})}, cwd=self.folder,
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=err, **more)
        process.texts, process.begin = (out, err), time.monotonic()
        return process

    @staticmethod
    def runs(process):
        """Whether it has not ended; leaves it to finish() to collect."""
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    @staticmethod
    def err_so_far(process):
        return os.pread(process.texts[1].fileno(), 1 << 16, 0)

    def finish(self, process, timeout=600):
        late = threading.Event()
        timer = threading.Timer(timeout, lambda: (late.set(), os.kill(process.pid, 9)))
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in process.texts:
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
            file.close()
        code = None if late.is_set() else process.returncode
        result = Result(code, *texts, time.monotonic() - process.begin, usage.ru_maxrss / 1024)
        if SANITIZERS.search(result.err):
            self.claim("no report of a sanitizer", False, " ".join(map(str, process.args)),
                       "none; it said: " + SANITIZERS.search(result.err).group(0))
        return result

    def run(self, *command, env=None, timeout=600, **more):
        return self.finish(self.start(list(command), env, **more), timeout)

    def tw(self, *arguments, env=None, timeout=600, **more):
        return self.run(self.tw_path, *map(str, arguments), env=env, timeout=timeout, **more)

    def train(self, *arguments, env=None, timeout=600):
        """`tw train cnn --json` and its figures (None if it failed)."""
        result = self.tw("train", "cnn", "--json", *arguments, env=env, timeout=timeout)
        return result, json.loads(result.out) if result.code == 0 else None

    def cached(self, key, make):
        """A value that several groups share."""
        store = self.__dict__.setdefault("_cache", {})
        if key not in store:
            store[key] = make()
        return store[key]

    def sanitized(self):
        """The sanitizers of the build, as for -fsanitize=, or ''."""
        try:
            with open(os.path.join(self.build, "CMakeCache.txt"), encoding="utf-8") as file:
                found = re.search(r"^TW_SANITIZE:\w+=(.*)$", file.read(), re.M)
            return found.group(1) if found else ""
        except OSError:
            return ""

    # ---- All of it ----

    def _chosen(self):
        o = self.options
        for name, function, minutes, slow in _groups:
            if o.only and not re.search(o.only, name):
                continue
            if (minutes and o.fast) or (slow and not o.slow):
                continue
            yield name, function

    def prove(self):
        chosen = list(self._chosen())
        for number, (name, function) in enumerate(chosen, 1):
            self.group = name
            self.status(f"[{number}/{len(chosen)}] {name} …")
            try:
                function(self)
            except Exception as error:  # a claim that cannot be measured does not hold
                self.claim(name, False, f"{type(error).__name__}: {error}", "a measurement")
        self.status("")
        return self.close()

    def close(self):
        count = {state: sum(c["state"] == state for c in self.claims)
                 for state in ("holds", "FAILS", "absent")}
        if self.options.json:
            print(json.dumps({"passed": count["holds"], "failed": count["FAILS"],
                              "skipped": count["absent"], "claims": self.claims}, indent=1))
        else:
            print(f"{count['holds']} passed, {count['FAILS']} failed, {count['absent']} skipped")
        return 1 if count["FAILS"] or not count["holds"] else 0


def main(arguments):
    parser = argparse.ArgumentParser(prog="tools/prove", description=(
        "Measures what is promised and feeds wrong input to a build. A line each: 'holds', "
        "'FAILS' or 'absent' (what cannot be run here). Data sets are looked for in $TW_DATA or "
        "../shared/data, recorded cases in ../shared/cases."))
    parser.add_argument("topic", choices=sorted(TOPICS))
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), metavar="DIR",
                        help="the build to look at (build)")
    parser.add_argument("--only", metavar="PATTERN", help="only groups whose name has this")
    parser.add_argument("--fast", action="store_true", help="leave out what takes minutes")
    parser.add_argument("--slow", action="store_true", help="also build and test with sanitizers")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    parser.add_argument("--list", action="store_true", help="name the groups and end")
    options = parser.parse_args(arguments)
    for module in TOPICS[options.topic]:
        importlib.import_module("proofs." + module)
    if options.list:
        print("\n".join(name for name, *_ in _groups))
        return 0
    if not os.path.isfile(os.path.join(options.build, "tw")):
        print(f"tools/prove: there is no {options.build}/tw; build it (make build), or name "
              "another folder with --build", file=sys.stderr)
        return 2
    if options.only and not any(re.search(options.only, name) for name, *_ in _groups):
        print(f"tools/prove: no group is named like '{options.only}'; --list names them",
              file=sys.stderr)
        return 2
    prover = Prover(options)
    try:
        return prover.prove()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    finally:
        shutil.rmtree(prover.folder, ignore_errors=True)
