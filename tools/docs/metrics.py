"""The reference of metrics and alert rules, read from the calls that create them and from
deploy/prometheus/alerts.yml."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import yaml

from tools.docs.markup import plain, table

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
METRICS = """# Metrics and alert rules

[Monitoring](../how-to/monitoring.md#prometheus-metrics) explains how to collect them. Worker
processes serve the metrics that begin with `scraper_worker_`, and `scraper metrics` all others.
"""
ALERTS_HEAD = """## Alert rules

`deploy/prometheus/alerts.yml` has these rules. Their thresholds are a starting point.
"""
# The name of a call that creates a metric contains its type.
TYPES = ("gauge", "counter", "histogram")


class Metric(NamedTuple):
    name: str
    type: str
    labels: tuple[str, ...]
    help: str


def metrics_page() -> str:
    rows = [
        (f"`{metric.name}`", metric.type, ", ".join(f"`{label}`" for label in metric.labels),
         plain(metric.help))
        for metric in sorted(set(metrics()))
    ]  # fmt: skip
    return (
        METRICS
        + "\n## Metrics\n\n"
        + table(("metric", "type", "labels", "means"), rows)
        + "\n"
        + ALERTS_HEAD
        + "\n"
        + table(("alert", "severity", "summary"), alert_rows())
    )


def metrics() -> Iterator[Metric]:
    """Yields each metric that a module of the package creates."""
    for path in sorted((ROOT / "scraper").rglob("*.py")):
        text = path.read_text()
        if '"scraper_' not in text:
            continue
        module = import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Name(id=function)):
                    arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
                    yield from _metric(function, _literals(arguments, module))
                case ast.Tuple():
                    yield from _metric("counter", _literals(node.elts, module))


def _metric(function: str, values: list[object]) -> Iterator[Metric]:
    """Yields the metric, if a call with a name, a help text and labels creates one."""
    kind = next((kind for kind in TYPES if kind in function.lower()), None)
    texts = [value for value in values if isinstance(value, str)]
    if kind is None or len(texts) < 2 or not texts[0].startswith("scraper_"):
        return
    labels = next((tuple(value) for value in values if isinstance(value, list)), ())
    yield Metric(f"{texts[0]}_total" if kind == "counter" else texts[0], kind, labels, texts[1])


def _literals(nodes: Sequence[ast.expr], module: ModuleType) -> list[object]:
    return [value for node in nodes if (value := _literal(node, module)) is not None]


def _literal(node: ast.expr, module: ModuleType) -> object | None:
    """Returns a text or a list, with the module's constants in it."""
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return getattr(module, name, None)
        case ast.List(elts=elements):
            return _literals(elements, module)
        case ast.JoinedStr(values=parts):
            return "".join(str(value) for value in _literals(parts, module))
        case ast.FormattedValue(value=value):
            return _literal(value, module)
        case _:
            return None


def alert_rows() -> list[tuple[str, ...]]:
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return [
        (f"`{rule['alert']}`", rule["labels"]["severity"],
         plain(_without_templates(rule["annotations"]["summary"])))
        for group in groups
        for rule in group["rules"]
    ]  # fmt: skip


def _without_templates(summary: str) -> str:
    """Replaces the templates of Prometheus: `{{ $labels.site }}` becomes SITE, a value N."""
    summary = re.sub(r"\{\{ with .*?\{\{ end \}\}", "", summary)
    summary = re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: match[1].upper(), summary)
    return re.sub(r"\{\{ \$value.*?\}\}", "N", summary)
