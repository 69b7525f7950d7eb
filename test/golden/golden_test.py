# SPDX-License-Identifier: MIT
"""What the commands print, byte for byte: NAME.yaml with NAME.err (messages of `run --check`), with
NAME.out (`config`), and cli/*.txt (a command line and its whole result).

PRAZO names the binary. After a wanted change: PRAZO_GOLDEN_UPDATE=1 writes the expected files
again; read the difference before it is committed."""
import os
import re
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PRAZO = str(Path(os.environ.get("PRAZO", ROOT / "build/prazo")).resolve())
UPDATE = os.environ.get("PRAZO_GOLDEN_UPDATE") == "1"

# What the texts in here may use; everything else of the environment stays out.
ENV = {"PATH": os.environ["PATH"], "GOLDEN_SECRET": "hunter2", "GOLDEN_PORT": "9001"}


def prazo(*args, env=None, stdin=None):
    done = subprocess.run([PRAZO, *args], cwd=HERE, env={**ENV, **(env or {})}, input=stdin,
                          capture_output=True, timeout=30)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def compare(path, text):
    if UPDATE:
        path.write_text(text)
    assert text == path.read_text(), f"{path.name}; again: PRAZO={PRAZO} pytest {__file__}"


def names(ending):
    found = sorted(p.stem for p in HERE.glob(f"*.{ending}"))
    assert found
    return found


def test_every_file_has_its_expectation():
    for name in names("yaml"):
        assert (HERE / f"{name}.err").exists() or (HERE / f"{name}.out").exists(), name
    for ending in ("err", "out"):
        for name in names(ending):
            assert (HERE / f"{name}.yaml").exists(), name


@pytest.mark.parametrize("name", names("err"))
def test_messages(name):
    code, out, err = prazo("run", "--check", f"{name}.yaml")
    compare(HERE / f"{name}.err", err)
    has_error = ": error: " in err
    assert code == (1 if has_error else 0)
    assert out == ("" if has_error else f"{name}.yaml: the configuration is valid\n")
    assert "hunter2" not in err
    # `config` says the same and prints nothing of a file that is wrong.
    code, out, again = prazo("config", f"{name}.yaml")
    assert (code, again) == (1 if has_error else 0, err)
    assert bool(out) != has_error


@pytest.mark.parametrize("name", names("out"))
def test_effective_configuration(name):
    code, out, err = prazo("config", f"{name}.yaml")
    assert (code, err) == (0, "")
    # The only defaults that depend on the machine.
    stable = re.sub(r"^threads: \d+$", "threads: N", out, count=1, flags=re.M)
    if "name:" not in (HERE / f"{name}.yaml").read_text().splitlines()[0]:
        stable = re.sub(r"^name: .*$", "name: HOST", stable, count=1, flags=re.M)
    compare(HERE / f"{name}.out", stable)
    assert "hunter2" not in out
    code, again, err = prazo("config", "/dev/stdin", stdin=out.encode())
    assert (code, again, err) == (0, out, "")


@pytest.mark.parametrize("path", sorted((HERE / "cli").glob("*.txt")), ids=lambda p: p.stem)
def test_command_line(path):
    """First line: `$ prazo ARGS`; then what comes out, stderr lines marked, and the exit code."""
    command = path.read_text().splitlines()[0]
    assert command.startswith("$ prazo")
    code, out, err = prazo(*command.split()[2:])
    marked = "".join(f"stderr: {line}\n".replace("stderr: \n", "stderr:\n") for line in err.splitlines())
    compare(path, f"{command}\n{out}{marked}exit {code}\n")


def test_reference_is_up_to_date():
    code, reference, _ = prazo("config", "--reference")
    assert code == 0
    path = ROOT / "docs/config.md"
    begin, end = "<!-- begin: prazo config --reference -->\n", "<!-- end -->\n"
    text = path.read_text()
    head, rest = text.split(begin)
    held, tail = rest.split(end)
    if UPDATE:
        path.write_text(head + begin + reference + end + tail)
        held = reference
    assert held == reference, "docs/config.md is stale; PRAZO_GOLDEN_UPDATE=1 writes it again"


def test_examples_are_valid():
    examples = sorted((ROOT / "examples").glob("*.yaml"))
    assert examples
    for path in examples:
        code, _, err = prazo("run", "--check", str(path))
        assert (code, err) == (0, ""), path


def test_documented_yaml_is_valid(tmp_path):
    """Every YAML block of docs/config.md that starts with `listen:` is a whole configuration."""
    blocks = re.findall(r"```yaml\n(listen:.*?)```", (ROOT / "docs/config.md").read_text(), flags=re.S)
    assert blocks
    for number, block in enumerate(blocks):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block)
        code, _, err = prazo("run", "--check", str(path), env={"ORDERS_HOST": "orders.internal"})
        assert (code, err) == (0, "")


COMMANDS = ["run", "config", "demo", "version"]


@pytest.mark.parametrize("command", COMMANDS)
def test_man_page_has_every_option(command):
    page = (ROOT / f"man/prazo-{command}.1").read_text().replace("\\-", "-")
    _, out, _ = prazo("help", command)
    options = re.findall(r"--[a-z-]+", out.split("Options:")[1].split("\n\n")[0])
    assert "--help" in options
    for option in options:
        assert option in page, option


def test_man_pages_are_well_formed():
    pages = sorted((ROOT / "man").glob("*.1"))
    assert len(pages) == 2 + len(COMMANDS)  # prazo itself, and help, which has no options
    for page in pages:
        done = subprocess.run(["groff", "-man", "-ww", "-Kutf8", "-Tutf8", "-P-cbou", str(page)],
                              capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stderr) == (0, ""), page
        assert "NAME" in done.stdout and "EXIT" in done.stdout


def test_no_color_without_a_terminal_and_with_no_color():
    """On a terminal `error:` is coloured, unless NO_COLOR is set."""
    import pty
    for env, colored in (({"TERM": "xterm"}, True), ({"TERM": "xterm", "NO_COLOR": "1"}, False),
                         ({"TERM": "dumb"}, False), ({}, False)):
        main, other = pty.openpty()
        done = subprocess.run([PRAZO, "run", "--check", "values.yaml"], cwd=HERE, env={**ENV, **env},
                              stdout=subprocess.DEVNULL, stderr=other, timeout=30)
        os.close(other)
        seen = os.read(main, 65536)
        os.close(main)
        assert done.returncode == 1
        assert (b"\x1b[" in seen) == colored, env


def test_full_disk_is_an_error():
    with open("/dev/full", "wb") as full:
        for args in (["config", "smallest.yaml"], ["version"], ["help"], ["run", "--help"]):
            done = subprocess.run([PRAZO, *args], cwd=HERE, env=ENV, stdout=full,
                                  stderr=subprocess.PIPE, timeout=30)
            assert done.returncode == 1
            assert done.stderr == b"prazo: standard output: No space left on device\n"


def test_unreadable_file(tmp_path):
    for command in (["run"], ["run", "--check"], ["config"]):
        code, out, err = prazo(*command, "nowhere.yaml")
        assert (code, out) == (1, "")
        assert err == "nowhere.yaml: error: cannot be read: No such file or directory\n"
        assert prazo(*command, str(tmp_path))[0] == 1
