# SPDX-License-Identifier: MIT
"""The rules of STYLE.md that a machine can check.

Each check takes a Tree and returns findings, "path:line: what; what to do instead". It knows
nothing about this repository beyond the layout in STYLE.md, so that its own test can give it
small trees that break one rule each.
"""
import re
import subprocess
from pathlib import Path

# What each layer may include besides itself. Includes go one way; nothing reaches up or sideways.
LAYERS = {
    "base": set(),
    "core": {"base"},
    "io": {"core", "base"},
    "config": {"io", "core", "base"},
    "http": {"io", "core", "base"},
    "gateway": {"http", "config", "io", "core", "base"},
    "lab": {"gateway", "http", "config", "io", "core", "base"},
    "cli": {"lab", "gateway", "http", "config", "io", "core", "base"},
}

# Third-party headers and the only files that may see them.
THIRD_PARTY = {
    "uv.h": r"src/io/uv_\w+\.[ch]",
    "ares.h": r"src/io/ares\.c",
    "llhttp.h": r"src/http/h1\w*\.[ch]",
    "yaml.h": r"src/config/\w+\.[ch]",
}

BANNED = {
    "sprintf": "snprintf", "vsprintf": "vsnprintf", "strcpy": "memcpy with a length",
    "strcat": "prazo_buf_add", "strtok": "prazo_str functions", "atoi": "a parser that sees errors",
    "gets": "fgets", "rand": "prazo_prng", "time": "the now that was handed in",
    "gettimeofday": "the now that was handed in", "alloca": "the arena",
    "assert": "PRAZO_ASSERT, which stays on in release",
}
ALLOCATORS = ("malloc", "calloc", "realloc", "free", "strdup", "strndup", "asprintf")

FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 80
CHANGELOG_SECTIONS = ["Safety", "Features", "Fixes", "Internals"]


class Tree:
    """A checkout: the files that git tracks, or in a test all files."""

    def __init__(self, root, tracked=True):
        self.root = Path(root)
        if tracked:
            out = subprocess.run(["git", "ls-files", "-z"], cwd=root, check=True, capture_output=True)
            names = [n for n in out.stdout.decode().split("\0") if n]
        else:
            names = [str(p.relative_to(root)) for p in self.root.rglob("*") if p.is_file()]
        self.names = sorted(n for n in names if (self.root / n).is_file())

    def matching(self, pattern):
        return [n for n in self.names if re.fullmatch(pattern, n)]

    def text(self, name):
        return (self.root / name).read_text(encoding="utf-8", errors="replace")

    def sources(self):
        return self.matching(r"(src|include)/.*\.[ch]")


def code_only(text):
    """Comments, strings and character literals blanked; line numbers stay."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def includes(text):
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if found:
            yield number, found.group(1), found.group(2)


def layer_of(tree, name):
    """Layer of a file, or of the header that an include names; None outside the layers."""
    found = re.match(r"(?:src/)?(\w+)/", name)
    if found and found.group(1) in LAYERS:
        return found.group(1)
    found = re.match(r"(?:include/)?prazo/(\w+)\.h", name)
    if found:  # a public header belongs to the layer that holds its code
        for layer in LAYERS:
            if f"src/{layer}/{found.group(1)}.c" in tree.names:
                return layer
        return "base"
    return None


def check_layers(tree):
    out = []
    for name in tree.sources():
        own = layer_of(tree, name)
        if own is None:
            out.append(f"{name}:1: not in a known layer; layers are {' '.join(LAYERS)}")
            continue
        for line, _, header in includes(tree.text(name)):
            other = layer_of(tree, header)
            if other and other != own and other not in LAYERS[own]:
                out.append(f"{name}:{line}: {own} includes {header}; {own} may include "
                           f"{' '.join(sorted(LAYERS[own])) or 'libc only'}")
    return out


def check_third_party(tree):
    out = []
    for name in tree.sources():
        for line, _, header in includes(tree.text(name)):
            if header in THIRD_PARTY and not re.fullmatch(THIRD_PARTY[header], name):
                out.append(f"{name}:{line}: <{header}> may only be included by {THIRD_PARTY[header]}")
    return out


def check_banned(tree):
    out = []
    for name in tree.sources():
        banned = dict(BANNED)
        if not name.startswith("src/base/"):
            banned.update({a: "base/'s arena, pool or buf" for a in ALLOCATORS})
        pattern = re.compile(r"(?<![\w.>])(" + "|".join(banned) + r")\s*\(")
        for number, line in enumerate(code_only(tree.text(name)).splitlines(), 1):
            for found in pattern.finditer(line):
                word = found.group(1)
                out.append(f"{name}:{number}: {word}() is banned; use {banned[word]}")
    return out


def check_file_length(tree):
    out = []
    for name in tree.matching(r"(src|include|test)/.*\.[ch]"):
        lines = tree.text(name).count("\n")
        if lines > FILE_LINES_MAX:
            out.append(f"{name}:1: {lines} lines; at most {FILE_LINES_MAX}, split by subject")
    return out


def check_function_length(tree):
    names = tree.matching(r"(src|test)/.*\.c")
    if not names:
        return []
    tags = subprocess.run(
        ["ctags", "-L", "-", "-f", "-", "--languages=C", "--kinds-C=f", "--fields=+ne", "--sort=no"],
        cwd=tree.root, input="\n".join(names), capture_output=True, text=True, check=True).stdout
    out = []
    for tag in tags.splitlines():
        symbol, name = tag.split("\t")[:2]
        start, end = re.search(r"\tline:(\d+)", tag), re.search(r"\tend:(\d+)", tag)
        lines = int(end.group(1)) - int(start.group(1)) + 1 if end else 0
        if lines > FUNCTION_LINES_MAX:
            out.append(f"{name}:{start.group(1)}: {symbol}() has {lines} lines; "
                       f"at most {FUNCTION_LINES_MAX}, a screen is about 70")
    return out


def check_head_comment(tree):
    out = []
    for name in tree.matching(r"(src|include|test)/.*\.[ch]"):
        lines = tree.text(name).splitlines()
        if not lines or lines[0] != "/* SPDX-License-Identifier: MIT */":
            out.append(f"{name}:1: first line must be /* SPDX-License-Identifier: MIT */")
        elif len(lines) < 2 or not lines[1].startswith("/* "):
            out.append(f"{name}:2: say what the file does, what it does not, its invariants")
    return out


def check_headers_alone(tree):
    out = []
    base = ["-fsyntax-only", "-D_GNU_SOURCE", "-Isrc", "-Iinclude", "-I/usr/share/include/llhttp",
            "-Wall", "-Wextra", "-Werror"]
    for name in tree.matching(r"(src|include)/.*\.h"):
        runs = [["gcc", "-std=gnu11", "-x", "c"]]
        if name.startswith("include/"):
            runs = [["gcc", "-std=c11", "-x", "c"], ["g++", "-std=c++11", "-x", "c++"]]
        for compiler in runs:
            done = subprocess.run(compiler + base + ["-include", name, "/dev/null"], cwd=tree.root,
                                  capture_output=True, text=True)
            if done.returncode:
                error = next((l for l in done.stderr.splitlines() if "error" in l), done.stderr[:200])
                out.append(f"{name}:1: does not compile alone with {compiler[0]}: {error}")
    return out


def check_dead_headers(tree):
    used = set()
    for name in tree.matching(r"(src|include|test)/.*\.[ch]"):
        for _, _, header in includes(tree.text(name)):
            used.update({f"src/{header}", f"include/{header}", str(Path(name).parent / header)})
    return [f"{name}:1: nothing includes this header" for name in tree.sources()
            if name.endswith(".h") and name not in used]


def slug(heading):
    """The anchor that forges make of a heading."""
    plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", lambda m: m.group(1) or "", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def prose(text):
    """Markdown without fenced code."""
    return re.sub(r"^(```|~~~).*?^\1[^\n]*$", lambda m: "\n" * m.group().count("\n"), text,
                  flags=re.S | re.M)


def check_doc_links(tree):
    out = []
    known = set(tree.names) | {str(p) for n in tree.names for p in Path(n).parents}
    for name in tree.matching(r".*\.md"):
        for number, line in enumerate(prose(tree.text(name)).splitlines(), 1):
            for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, anchor = target.partition("#")
                full = name
                if path:
                    full = str((tree.root / name).parent.joinpath(path).resolve()
                               .relative_to(tree.root.resolve()))
                if full not in known:
                    out.append(f"{name}:{number}: link to {target}: no such file")
                elif anchor and full.endswith(".md"):
                    heads = re.findall(r"^#+ (.*)$", prose(tree.text(full)), flags=re.M)
                    ids = re.findall(r'<a (?:id|name)="([^"]+)"', tree.text(full))
                    if anchor not in [slug(h) for h in heads] + ids:
                        out.append(f"{name}:{number}: link to {target}: no such heading")
    return out


def check_make_words(tree):
    """Every `make WORD` that the documents show is a target."""
    if "Makefile" not in tree.names:
        return []
    targets = set(re.findall(r"^([\w-]+):", tree.text("Makefile"), flags=re.M))
    out = []
    for name in tree.matching(r".*\.md"):
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            for word in re.findall(r"(?:`|^ *\$? ?)make ([a-z][\w-]*)", line):
                if word not in targets and not word.startswith("build-"):
                    out.append(f"{name}:{number}: make {word}: the Makefile has no such target")
    return out


def check_text(tree):
    out = []
    for name in tree.names:
        data = (tree.root / name).read_bytes()
        if name.startswith("test/fuzz/corpus/") or b"\0" in data or not data:
            continue
        text = data.decode("utf-8", errors="replace")
        if not text.endswith("\n"):
            out.append(f"{name}:{text.count(chr(10)) + 1}: no newline at the end")
        for number, line in enumerate(text.split("\n"), 1):
            if line.endswith((" ", "\t", "\r")):
                out.append(f"{name}:{number}: white space at the end of the line")
            if "\t" in line and re.search(r"\.[ch]$", name):
                out.append(f"{name}:{number}: tab; indent with 4 spaces")
    return out


def check_unfinished(tree):
    """Nothing unfinished, and no test that can be left out."""
    marks = {r"\b(TODO|FI" + r"XME|XXX)\b": "unfinished",
             r"pytest\.(skip|xfail|mark\.skip\w*|mark\.xfail|importorskip)\b|(?<![\w])skip\(\)":
                 "a test may not be skipped"}
    out = []
    for name in tree.matching(r"(src|include|test|scripts|examples|cmake)/.*\.(c|h|py|sh|yaml|cmake)"):
        if name.startswith("test/tidy/"):
            continue
        for number, line in enumerate(tree.text(name).splitlines(), 1):
            for pattern, what in marks.items():
                found = re.search(pattern, line)
                if found:
                    out.append(f"{name}:{number}: {found.group()}: {what}")
    return out


def check_changelog(tree):
    if "CHANGELOG.md" not in tree.names:
        return ["CHANGELOG.md:1: missing"]
    out, text = [], tree.text("CHANGELOG.md")
    version = re.search(r"project\(prazo VERSION ([\d.]+)", tree.text("CMakeLists.txt")).group(1)
    if not re.search(rf"^## .*\b{re.escape(version)}\b", text, flags=re.M):
        out.append(f"CHANGELOG.md:1: no entry for version {version} of CMakeLists.txt")
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"### (.*)", line)
        if found and found.group(1) not in CHANGELOG_SECTIONS:
            out.append(f"CHANGELOG.md:{number}: sections are {' '.join(CHANGELOG_SECTIONS)}")
    return out


CHECKS = {name[len("check_"):]: value for name, value in sorted(globals().items())
          if name.startswith("check_")}
