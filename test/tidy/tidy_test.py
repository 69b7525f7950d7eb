# SPDX-License-Identifier: MIT
"""STYLE.md, as far as a machine can check it, over this checkout."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import tidy  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("rule", tidy.CHECKS)
def test_rule(rule):
    findings = tidy.CHECKS[rule](tidy.Tree(ROOT))
    assert not findings, f"{len(findings)} findings\n" + "\n".join(findings)
