# SPDX-License-Identifier: Apache-2.0
"""Proves that every rule of tools/check can fail, each with a tiny bad tree."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from checks import formatting, history  # noqa: E402
from checks.main import run  # noqa: E402

SPDX = "/* SPDX-License-Identifier: Apache-2.0 */\n"
GOOD = {
    "src/core/good.c": SPDX + '#include "core/good.h"\n\nint good(void) { return 1; }\n',
    "src/core/good.h": SPDX + "int good(void);\n",
    "include/tilework/tilework.h": SPDX + "#define TW_API\nTW_API int tw_one(void);\n",
    "include/tilework/files.h": SPDX + "TW_API int tw_read(void);\n",
    "cmake/exports.txt": "tw_one\n",
    "cmake/exports_io.txt": "tw_read\n",
    "src/ops/families.def": SPDX + "TW_FAMILY(pool)\n",
    "src/ops/ops.def": SPDX + 'TW_OP(POOL, 1, pool, "pool")\n'
                              'TW_OP(POOL_BACKWARD, 2, pool, "pool_backward")\n',
    "src/ops/pool/pool.def": SPDX + "TW_ROW(pool, rows, f32, avx2, POOL)\n"
                                    "TW_ROW(pool, plain, any, ref, POOL)\n"
                                    "TW_ROW(pool, plain, any, ref, POOL_BACKWARD)\n",
    "src/ops/pool/NOTES.md": "# Pooling\n",
    "src/ops/pool/pool_test.c": SPDX + "int kinds[] = {TW_OP_POOL, TW_OP_POOL_BACKWARD};\n",
    "shapes/pool.txt": "# two problems\npool n=1\npool n=1 pass=bwd\n",
    ".clang-format": "BasedOnStyle: LLVM\nIndentWidth: 4\nColumnLimit: 100\n",
}


def nested(levels):
    body = "".join("  " * i + "if (x)\n" for i in range(levels)) + "x = 0;\n"
    return SPDX + "void deep(int x)\n{\n" + body + "}\n"


def long_function(lines):
    return SPDX + "void tall(void)\n{\n" + "    ;\n" * (lines - 3) + "}\n"


# rule, what is changed in the good tree (None removes a file)
BAD = [
    ("layer", {"src/core/bad.c": SPDX + '#include "ops/op.h"\n'}),
    ("layer", {"src/ops/bad.c": SPDX + '#include "graph/graph.h"\n'}),
    ("layer", {"src/graph/bad.c": SPDX + '#include "plan/plan.h"\n'}),
    ("layer", {"src/formats/bad.c": SPDX + '#include "ops/op.h"\n'}),
    ("layer", {"src/train/bad.c": SPDX + '#include "formats/bytes.h"\n'}),
    ("layer", {"cli/bad.c": SPDX + '#include "plan/plan.h"\n'}),
    ("layer", {"examples/bad.c": SPDX + '#include "core/error.h"\n'}),
    ("layer", {"src/tile/bad.c": SPDX + '#include "../core/error.h"\n'}),
    ("layer", {"src/tile/bad.c": SPDX + '#include "tilework/tensor.h"\n'}),
    ("layer", {"src/tile/bad.c": SPDX + '#include "brgemm.h"\n'}),
    ("intrinsics", {"src/tile/bad.c": SPDX + "#include <immintrin.h>\n"}),
    ("intrinsics", {"src/ops/bad.c": SPDX + "__m256 x;\n"}),
    ("system", {"src/runtime/bad.c": SPDX + "#include <pthread.h>\n"}),
    ("calls", {"src/ops/bad.c": SPDX + "void *f(void) { return malloc(1); }\n"}),
    ("calls", {"src/core/bad.c": SPDX + "void f(void) { abort(); }\n"}),
    ("file-length", {"src/core/bad.c": SPDX + "int x;\n" * 500}),
    ("file-length", {"include/tilework/bad.h": SPDX + "int x;\n" * 1000}),
    ("line-length", {"src/core/bad.c": SPDX + "int " + "x" * 100 + ";\n"}),
    ("function-length", {"src/core/bad.c": long_function(61)}),
    ("function-length", {"src/tile/bad_body.h": long_function(151)}),
    ("parameters", {"src/core/bad.c": SPDX + "int f(int a, int b, int c, int d, int e, int g,\n"
                                             "      int (*h)(int, int))\n{ return 0; }\n"}),
    ("nesting", {"src/core/bad.c": nested(5)}),
    ("exports", {"cmake/exports.txt": "tw_one\ntw_two\n"}),
    ("exports", {"cmake/exports.txt": "# none\n"}),
    ("exports", {"cmake/exports_io.txt": None}),
    ("exports", {"include/tilework/bad.h": SPDX + "TW_API int other(void);\n",
                 "cmake/exports_io.txt": "other\ntw_read\n"}),
    ("exports", {"include/tilework/bad.h": SPDX + "TW_API int tw_a(void);\n",
                 "cmake/exports_io.txt": "tw_read\ntw_a\n"}),
    ("family", {"src/ops/pool/NOTES.md": None}),
    ("family", {"src/ops/pool/pool_test.c": None}),
    ("family", {"src/ops/pool/pool.def": None}),
    ("row", {"src/ops/pool/pool_test.c": SPDX + "int kinds[] = {TW_OP_POOL};\n"}),
    ("row", {"shapes/pool.txt": "pool n=1\n"}),
    ("row", {"src/ops/pool/pool.def": SPDX + "TW_ROW(pool, plain, any, ref, POOL)\n"}),
    ("row", {"src/ops/pool/pool.def": GOOD["src/ops/pool/pool.def"].replace("avx2", "mmx")}),
    ("row", {"src/ops/pool/pool.def": GOOD["src/ops/pool/pool.def"]
             + "TW_ROW(pool, late, any, avx2, POOL)\n"}),
    ("problem", {"shapes/pool.txt": GOOD["shapes/pool.txt"] + "pool pass=sideways\n"}),
    ("spdx", {"src/core/bad.c": "int x;\n"}),
    ("unique-name", {"src/ops/good.c": SPDX}),
    ("tab", {"src/core/bad.c": SPDX + "\tint x;\n"}),
    ("trailing-blank", {"docs/bad.md": "# Title \n"}),
    ("carriage-return", {"docs/bad.md": "# Title\r\n"}),
    ("final-newline", {"docs/bad.md": "# Title"}),
    ("utf-8", {"docs/bad.md": b"\xff\xfe"}),
    ("word", {"docs/bad.md": "TO" "DO: write this\n"}),
    ("word", {"src/core/bad.c": SPDX + "#if " "0\n#endif\n"}),
    ("allow", {"tools/allow.txt": "line-length src/core/good.c 120 not needed any more\n"}),
    ("allow", {"tools/allow.txt": "line-length src/core/good.c\n"}),
    ("format", {"src/core/bad.c": SPDX + "int   x ;\n"}),
]


class Rules(unittest.TestCase):
    """Each bad tree breaks its rule; the good one breaks none."""

    def setUp(self):
        self.root, self.build = (tempfile.mkdtemp(prefix="tilework-check-") for _ in range(2))
        self.addCleanup(shutil.rmtree, self.root)
        self.addCleanup(shutil.rmtree, self.build)

    def rules(self, changes, build=None):
        for name, content in {**GOOD, **changes}.items():
            if content is None:
                continue
            path = os.path.join(self.root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
        report = run(self.root, build)
        return {line.split(": ")[1] for line in report.lines()}

    def library(self, source, *flags):
        path = os.path.join(self.build, "libtilework.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", *flags, "-o", path], input=source,
                       text=True, check=True)
        return self.build

    def test_good_tree(self):
        self.assertEqual(self.rules({}), set())

    def test_allowed(self):
        allow = "nesting src/core/bad.c:deep 5 five levels read best here\n"
        changes = {"src/core/bad.c": nested(5), "tools/allow.txt": allow}
        self.assertNotIn("nesting", self.rules(changes))

    def test_library(self):
        self.assertEqual(self.rules({}, self.library("int tw_one(void) { return 1; }")), set())

    def test_library_exports_too_much(self):
        source = "int tw_one(void) { return 1; } int stray(void) { return 1; }"
        self.assertEqual(self.rules({}, self.library(source)), {"exports"})

    def test_library_exports_too_little(self):
        self.assertEqual(self.rules({}, self.library("int tw_none;")), {"exports"})

    def test_library_needs_too_much(self):
        source = "int tw_one(void) { return 1; }"
        build = self.library(source, "-Wl,--no-as-needed", "-lgcc_s")
        self.assertEqual(self.rules({}, build), {"needed"})

    def test_library_missing(self):
        self.assertEqual(self.rules({}, os.path.join(self.root, "nowhere")), {"exports"})

    def test_subjects(self):
        for good in ("core: what it does", "random, dropout: both", 'Revert "core: it"'):
            self.assertIsNone(history.problem(good), good)
        for bad in ("no scope", "Core: capital", "core:", "core: " + "x" * 80):
            self.assertIsNotNone(history.problem(bad), bad)


def add_cases():
    for number, (rule, changes) in enumerate(BAD):
        def case(self, rule=rule, changes=changes):
            if rule == "format" and not formatting.find():
                self.skipTest("no clang-format 14")
            self.assertIn(rule, self.rules(changes))
        setattr(Rules, f"test_{number:02}_{rule.replace('-', '_')}", case)


add_cases()

if __name__ == "__main__":
    unittest.main()
