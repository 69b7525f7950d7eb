#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`make test`: builds what is needed, runs every suite, and ends with one summary.

A suite that fails, skips a test, or runs fewer tests than test/expected-counts says fails the run:
nothing is left out silently. Each suite prints the command that repeats it alone.
"""
import argparse
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "reports"
PYTEST = ["/usr/bin/python3", "-m", "pytest", "-q"]
BINARY = {"release": str(ROOT / "build/prazo"), "asan": str(ROOT / "build/asan/prazo"),
          "tsan": str(ROOT / "build/tsan/prazo")}


class Suite:
    def __init__(self, name, preset, command, env=None):
        self.name, self.preset, self.command, self.env = name, preset, command, env or {}
        self.report = REPORTS / f"{name}.xml"
        self.passed = self.failed = self.skipped = 0
        self.seconds = 0.0
        self.problem = ""

    def run(self):
        self.report.unlink(missing_ok=True)
        words = " ".join(f"{k}={v}" for k, v in self.env.items())
        print(f"\n== {self.name}\n   again: {words + ' ' if words else ''}{' '.join(self.command)}", flush=True)
        start = time.monotonic()
        env = {**os.environ, **self.env}
        done = subprocess.run(self.command + self.report_option(), cwd=ROOT, env=env)
        self.seconds = time.monotonic() - start
        if self.report.exists():
            self.count()
        if done.returncode != 0 and not self.failed:
            self.problem = f"exit code {done.returncode}"

    def report_option(self):
        if "ctest" in self.command:
            return ["--output-junit", str(self.report), "--test-output-size-passed", "1048576"]
        return [f"--junitxml={self.report}"]

    def count(self):
        for case in ET.parse(self.report).iter("testcase"):
            output = case.findtext("system-out") or ""
            if case.find("failure") is not None or case.find("error") is not None:
                self.failed += 1
            elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
                self.skipped += 1
            else:
                # cmocka: one executable holds many tests.
                inner = re.search(r"\[  PASSED  \] (\d+) test", output)
                self.passed += int(inner.group(1)) if inner else 1
                inner = re.search(r"\[  SKIPPED \] (\d+) test", output)
                self.skipped += int(inner.group(1)) if inner else 0

    def judge(self, expected):
        if self.failed:
            self.problem = f"{self.failed} failed"
        elif self.skipped:
            self.problem = f"{self.skipped} skipped; a skipped test is a failure"
        elif not self.problem and self.passed < expected:
            self.problem = f"expected at least {expected} tests (test/expected-counts)"
        return not self.problem


def fixed_addresses():
    """GCC 12's thread sanitizer cannot live with the address layouts of newer kernels."""
    words = ["setarch", "-R"]
    return words if subprocess.run(words + ["true"], capture_output=True).returncode == 0 else []


def suites(jobs):
    fixed = fixed_addresses()
    ctest = ["ctest", "--output-on-failure", "-j", str(jobs), "--no-tests=error", "--test-dir"]
    # Integration tests mostly wait, for clocks and sockets; twice the cores keeps both busy.
    many = PYTEST + ["-n", str(2 * jobs)]
    return [
        Suite("tidy", "", PYTEST + ["test/tidy"]),
        Suite("unit-asan", "asan", ctest + ["build/asan"]),
        Suite("unit-tsan", "tsan", fixed + ctest + ["build/tsan", "-L", "unit"]),
        Suite("golden", "release", PYTEST + ["test/golden"], {"PRAZO": BINARY["release"]}),
        Suite("install", "release", PYTEST + ["test/install"], {"PRAZO": BINARY["release"]}),
        Suite("integration", "release", many + ["test/integration"], {"PRAZO": BINARY["release"]}),
        Suite("integration-asan", "asan", many + ["test/integration"],
              {"PRAZO": BINARY["asan"], "PRAZO_TEST_SLACK": "3"}),
        Suite("integration-tsan", "tsan", fixed + many + ["-m", "threads", "test/integration"],
              {"PRAZO": BINARY["tsan"], "PRAZO_TEST_SLACK": "5"}),
    ]


def build(preset, jobs):
    print(f"== build {preset}", flush=True)
    done = subprocess.run(["make", "--no-print-directory", f"build-{preset}", f"JOBS={jobs}"], cwd=ROOT)
    if done.returncode:
        sys.exit(f"FAILED: build {preset}; nothing was tested")


def expected_counts():
    pairs = {}
    for line in (ROOT / "test" / "expected-counts").read_text().splitlines():
        if line and not line.startswith("#"):
            name, number = line.split()
            pairs[name] = int(number)
    return pairs


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--jobs", type=int, default=os.cpu_count())
    options.add_argument("suites", nargs="*", help="only these; default all")
    args = options.parse_args()
    start = time.monotonic()
    chosen = [s for s in suites(args.jobs) if not args.suites or s.name in args.suites]
    if args.suites and len(chosen) != len(set(args.suites)):
        options.error("known suites: " + " ".join(s.name for s in suites(args.jobs)))
    REPORTS.mkdir(parents=True, exist_ok=True)
    expected = expected_counts()
    for preset in dict.fromkeys(s.preset for s in chosen if s.preset):
        build(preset, args.jobs)
    for suite in chosen:
        suite.run()

    print("\n== summary")
    good = True
    for suite in chosen:
        fine = suite.judge(expected.get(suite.name, 1))
        good = good and fine
        print(f"{'ok  ' if fine else 'FAIL'} {suite.name:17s} {suite.passed:4d} passed "
              f"{suite.seconds:6.1f} s  {suite.problem}")
    total = sum(s.passed for s in chosen)
    failed = [s.name for s in chosen if s.problem]
    print(f"{total} passed in {time.monotonic() - start:.0f} s"
          + ("" if good else f"; FAILED: {' '.join(failed)}"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
