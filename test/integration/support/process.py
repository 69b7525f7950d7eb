# SPDX-License-Identifier: MIT
"""A prazo process under test: started, watched through /proc, ended and judged."""

import os
import re
import signal
import subprocess
import tempfile
import time

from . import clock

_ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
PRAZO = os.path.abspath(os.environ.get("PRAZO", os.path.join(_ROOT, "build", "prazo")))
IS_SANITIZED = re.search("asan|tsan|ubsan", PRAZO) is not None

_REPORTS = re.compile(r"ERROR: (Address|Leak|Memory)Sanitizer|WARNING: ThreadSanitizer"
                      r"|runtime error:|\bassert(ion)?\b.*fail", re.IGNORECASE)
_SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "exitcode=99:detect_leaks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99",
    "TSAN_OPTIONS": "exitcode=99:second_deadlock_stack=1",
}


def environment(extra=None):
    env = dict(os.environ)
    for name, value in _SANITIZER_OPTIONS.items():
        env.setdefault(name, value)
    env.update(extra or {})
    return env


def prazo(*args, timeout=20, env=None, **kwargs):
    """Runs a prazo command to its end; the CompletedProcess has text in stdout and stderr."""
    return subprocess.run([PRAZO, *map(str, args)], capture_output=True, text=True,
                          timeout=timeout * clock.SLACK, env=environment(env), **kwargs)


class Process:
    """A started prazo command. Its stderr goes to a file, so that it never blocks on a pipe.
    nofile: its limit of open descriptors, soft and hard.
    prefix: words of a command that executes it, such as ["sh", "-c", 'exec "$@" 2>&-', "sh"]."""

    def __init__(self, args, env=None, pass_fds=(), nofile=None, prefix=()):
        self.args = [*prefix, PRAZO, *map(str, args)]
        if nofile is not None:  # it executes the command: the pid stays
            self.args = ["prlimit", f"--nofile={nofile}:{nofile}", *self.args]
        self._stderr = tempfile.NamedTemporaryFile(prefix="prazo-stderr-", suffix=".log")
        self.process = subprocess.Popen(self.args, stdin=subprocess.DEVNULL,
                                        stdout=self._stderr, stderr=self._stderr,
                                        env=environment(env), pass_fds=pass_fds)
        self.pid = self.process.pid
        self.expected_exit = 0

    # ---- output ----

    def stderr_text(self):
        with open(self._stderr.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    # ---- life ----

    def is_running(self):
        return self.process.poll() is None

    def wait_ready(self, condition, timeout=10.0):
        """Waits until condition() is true; fails with the process's stderr if it ends before."""
        def ready_or_over():
            return not self.is_running() or condition()
        try:
            clock.wait_until(ready_or_over, timeout, "readiness")
        except AssertionError:
            self.kill()
            raise AssertionError(f"{self.args} did not get ready:\n{self.stderr_text()}") from None
        if not self.is_running():
            raise AssertionError(f"{self.args} ended with {self.process.returncode}:\n"
                                 f"{self.stderr_text()}")

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=20.0):
        """The exit code."""
        return self.process.wait(timeout * clock.SLACK)

    def terminate(self, timeout=20.0):
        """SIGTERM, and waits for the end."""
        if self.is_running():
            self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self):
        """SIGKILL; then no exit code is expected of it."""
        if self.is_running():
            self.process.kill()
            self.process.wait()
        self.expected_exit = None

    def close(self):
        """Ends it if it still runs, and fails if it did not end cleanly."""
        try:
            code = self.terminate()
        except subprocess.TimeoutExpired:
            text = self.stderr_text()
            self.kill()
            raise AssertionError(f"{self.args} did not end on SIGTERM:\n{text[-8000:]}") from None
        text = self.stderr_text()
        self._stderr.close()
        found = _REPORTS.search(text)
        assert not found, f"{self.args} reported:\n{text[max(0, found.start() - 200):][:8000]}"
        if self.expected_exit is not None:
            assert code == self.expected_exit, f"{self.args} exit {code}:\n{text[-8000:]}"

    # ---- /proc ----

    def _proc(self, name):
        with open(f"/proc/{self.pid}/{name}", encoding="ascii") as file:
            return file.read()

    def _status(self, key):
        return int(re.search(rf"^{key}:\s+(\d+)", self._proc("status"), re.MULTILINE)[1])

    def rss(self):
        """Resident bytes."""
        return self._status("VmRSS") * 1024

    def threads(self):
        return self._status("Threads")

    def fds(self):
        """Open file descriptors."""
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self):
        fields = self._proc("stat").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def cpu_share(self, seconds):
        """Share of one core used over that time: for what must not spin."""
        before, began = self.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        return (self.cpu_seconds() - before) / (time.monotonic() - began)
