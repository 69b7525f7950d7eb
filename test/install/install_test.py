# SPDX-License-Identifier: MIT
"""What `make install` leaves behind is complete, and a program can be built against it."""
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ.get("PRAZO", ROOT / "build" / "prazo")).resolve().parent

PROGRAM = r"""
#include <prazo/deadline.h>
#include <stdio.h>
int main(void)
{
    char text[16];
    size_t len = prazo_deadline_format_grpc(text, 1500000);
    printf("%.*s %lld\n", (int)len, text, (long long)prazo_deadline_margin_us(1000000, 0));
    return 0;
}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    subprocess.run(["cmake", "--install", BUILD], env={**os.environ, "DESTDIR": str(root)},
                   check=True, capture_output=True)
    cache = (BUILD / "CMakeCache.txt").read_text()
    return root, root / re.search(r"CMAKE_INSTALL_PREFIX:PATH=/(.*)", cache).group(1)


def test_everything_is_there(installed):
    _, prefix = installed
    names = {str(p.relative_to(prefix)) for p in prefix.rglob("*") if p.is_file()}
    assert "bin/prazo" in names
    headers = {f"include/prazo/{p.name}" for p in (ROOT / "include" / "prazo").glob("*.h")}
    pages = {f"share/man/man1/{p.name}" for p in (ROOT / "man").glob("*.1")}
    assert headers | pages <= names
    assert any(n.endswith("/libprazo.a") for n in names)
    assert any(n.endswith("/pkgconfig/prazo.pc") for n in names)
    subprocess.run([prefix / "bin" / "prazo", "version"], check=True)


@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang"])
def test_a_program_builds_against_it(installed, tmp_path, compiler):
    root, prefix = installed
    pc = next(prefix.rglob("prazo.pc"))
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "--static", "prazo"], check=True,
                           capture_output=True, text=True,
                           env={**os.environ, "PKG_CONFIG_PATH": str(pc.parent),
                                "PKG_CONFIG_SYSROOT_DIR": str(root)}).stdout.split()
    source = tmp_path / ("main.cc" if compiler == "g++" else "main.c")
    source.write_text(PROGRAM)
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", source, "-o", tmp_path / "main", *flags],
                   check=True)
    out = subprocess.run([tmp_path / "main"], check=True, capture_output=True, text=True).stdout
    assert out == "1500m 50000\n" or out == "1500000u 50000\n"


def test_library_needs_libc_only(installed):
    """libprazo holds pure policies: it must not drag in an event loop, a resolver or a parser."""
    _, prefix = installed
    symbols = subprocess.run(["nm", "-u", next(prefix.rglob("libprazo.a"))], check=True,
                             capture_output=True, text=True).stdout
    assert not re.findall(r"\b(?:uv|ares|yaml|llhttp)_\w+", symbols)


def examples():
    return sorted((ROOT / "examples").glob("*.yaml"))


@pytest.mark.parametrize("example", examples(), ids=lambda p: p.name)
def test_example_is_valid(example):
    done = subprocess.run([BUILD / "prazo", "run", "--check", example], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
