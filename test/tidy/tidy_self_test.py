# SPDX-License-Identifier: MIT
"""The checker itself: each rule finds its fault, and leaves the correct form alone."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import tidy  # noqa: E402

HEAD = "/* SPDX-License-Identifier: MIT */\n/* What it does. */\n"

# rule, files, text expected in the one finding (None: no finding)
CASES = [
    ("layers", {"src/core/a.c": '#include "gateway/b.h"\n'}, "core includes gateway/b.h"),
    ("layers", {"src/http/a.c": '#include "config/b.h"\n'}, "http includes config/b.h"),
    ("layers", {"src/gateway/a.c": '#include "io/io.h"\n#include "base/str.h"\n'}, None),
    ("layers", {"src/base/a.c": "#include <prazo/b.h>\n", "src/core/b.c": ""}, "base includes prazo/b.h"),
    ("layers", {"src/base/a.c": "#include <prazo/b.h>\n", "src/base/b.c": ""}, None),
    ("layers", {"src/other/a.c": ""}, "not in a known layer"),
    ("third_party", {"src/gateway/a.c": "#include <uv.h>\n"}, "<uv.h>"),
    ("third_party", {"src/io/uv_loop.c": "#include <uv.h>\n"}, None),
    ("third_party", {"src/http/conn.c": "#include <llhttp.h>\n"}, "<llhttp.h>"),
    ("third_party", {"src/http/h1_parse.c": "#include <llhttp.h>\n"}, None),
    ("banned", {"src/core/a.c": "x = atoi(s);\n"}, "atoi() is banned"),
    ("banned", {"src/core/a.c": "/* atoi(s) */ const char *s = \"rand()\";\n"}, None),
    ("banned", {"src/core/a.c": "p = malloc(4);\n"}, "malloc() is banned"),
    ("banned", {"src/base/a.c": "p = malloc(4);\n"}, None),
    ("banned", {"src/core/a.c": "prazo_scope_free(s); ops->free(s); _Static_assert(1, \"\");\n"}, None),
    ("banned", {"src/core/a.c": "assert(x);\n"}, "PRAZO_ASSERT"),
    ("file_length", {"src/core/a.c": "\n" * 701}, "701 lines"),
    ("file_length", {"src/core/a.c": "\n" * 700}, None),
    ("function_length", {"src/core/a.c": "int f(void)\n{\n" + "    g();\n" * 78 + "}\n"}, "f() has 81 lines"),
    ("function_length", {"src/core/a.c": "int f(void)\n{\n" + "    g();\n" * 77 + "}\n"}, None),
    ("head_comment", {"src/core/a.c": "int x;\n"}, "first line must be"),
    ("head_comment", {"src/core/a.c": HEAD.splitlines()[0] + "\nint x;\n"}, "say what the file does"),
    ("head_comment", {"src/core/a.c": HEAD}, None),
    ("headers_alone", {"src/core/a.h": "int f(size_t n);\n"}, "does not compile alone with gcc"),
    ("headers_alone", {"include/prazo/a.h": "enum e { A }; static inline enum e f(void) { return 0; }\n"},
     "does not compile alone with g++"),
    ("headers_alone", {"src/core/a.h": "#include <stddef.h>\nint f(size_t n);\n"}, None),
    ("dead_headers", {"src/core/a.h": ""}, "nothing includes"),
    ("dead_headers", {"src/core/a.h": "", "src/core/a.c": '#include "core/a.h"\n'}, None),
    ("doc_links", {"README.md": "[a](docs/a.md)\n"}, "no such file"),
    ("doc_links", {"README.md": "[a](docs/a.md#some-part)\n", "docs/a.md": "## Some `part`\n"}, None),
    ("doc_links", {"README.md": "[a](docs/a.md#other)\n", "docs/a.md": "## Part\n"}, "no such heading"),
    ("doc_links", {"README.md": "```\n[a](gone.md)\n```\n[b](https://example.org/)\n"}, None),
    ("make_words", {"README.md": "`make fly`\n", "Makefile": "run:\n"}, "make fly"),
    ("make_words", {"README.md": "`make run`, or make do\n", "Makefile": "run:\n"}, None),
    ("text", {"a.yaml": "a: 1 \n"}, "white space at the end"),
    ("text", {"a.yaml": "a: 1"}, "no newline at the end"),
    ("text", {"src/core/a.c": "\tint x;\n"}, "tab"),
    ("text", {"Makefile": "a:\n\tb\n", "test/fuzz/corpus/h1/1": "GET / HTTP/1.1\r\n"}, None),
    ("unfinished", {"src/core/a.c": "/* TO" + "DO later */\n"}, "unfinished"),
    ("unfinished", {"test/integration/a_test.py": "pytest.sk" + "ip('no')\n"}, "may not be skipped"),
    ("unfinished", {"src/core/a.c": "skip_blanks(s);\n"}, None),
    ("changelog", {"CMakeLists.txt": "project(prazo VERSION 1.2.3)\n", "CHANGELOG.md": "## 1.2.2\n"}, "1.2.3"),
    ("changelog", {"CMakeLists.txt": "project(prazo VERSION 1.2.3)\n",
                   "CHANGELOG.md": "## Unreleased 1.2.3\n### Fixes\n"}, None),
    ("changelog", {"CMakeLists.txt": "project(prazo VERSION 1.2.3)\n",
                   "CHANGELOG.md": "## 1.2.3\n### Stuff\n"}, "sections are"),
]


@pytest.mark.parametrize("rule,files,expected", CASES, ids=[f"{c[0]}-{i}" for i, c in enumerate(CASES)])
def test_finds(tmp_path, rule, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(text.encode())
    findings = tidy.CHECKS[rule](tidy.Tree(tmp_path, tracked=False))
    if expected is None:
        assert findings == []
    else:
        assert len(findings) == 1 and expected in findings[0]


def test_every_rule_has_a_case():
    assert {case[0] for case in CASES} == set(tidy.CHECKS)
