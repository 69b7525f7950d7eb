# SPDX-License-Identifier: MIT
"""Reads Prometheus text (and OpenMetrics), strictly."""

import re

_SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)\Z')
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\n"])*)"(?:,|\Z)')
_UNESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Metrics(dict):
    """{(name, frozenset of (label, value) pairs): value}"""

    def value(self, metric_name, **labels):
        """Sum over the series that have all these labels (0 if none has); the name must exist."""
        wanted = set(labels.items())
        series = [(key[1], value) for key, value in self.items() if key[0] == metric_name]
        assert series, f"there is no metric {metric_name}"
        return sum(value for have, value in series if wanted <= have)

    def labels(self, metric_name):
        """The label sets of that name, as dicts."""
        return [dict(key[1]) for key in self if key[0] == metric_name]

    def names(self):
        return {key[0] for key in self}


def _parse_labels(text):
    labels, at = set(), 0
    while at < len(text):
        match = _LABEL.match(text, at)
        assert match, f"malformed labels {text!r}"
        labels.add((match[1], re.sub(r'\\[\\n"]', lambda m: _UNESCAPED[m[0]], match[2])))
        at = match.end()
    return frozenset(labels)


def parse_metrics(text):
    metrics = Metrics()
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        match = _SAMPLE.match(line)
        assert match, f"malformed sample {line!r}"
        key = (match[1], _parse_labels(match[2] or ""))
        assert key not in metrics, f"series twice: {line!r}"
        metrics[key] = float(match[3])
    return metrics
