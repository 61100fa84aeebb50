"""Looks for what is wrong with settings, handlers and plugins together, as a start would find it; starts nothing.

For `check`, and for a test's application: a part that is wrong is left out, so that no mistake hides another.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.errors import Findings
from framework.hooks.host import PluginHost
from framework.net.real_world import real_world
from framework.runtime.plans.collect import AnyConsumer
from framework.runtime.plans.connect import check_keys, check_tls
from framework.runtime.plans.groups import group_plans
from framework.runtime.reports import Reports
from framework.settings.schema import AppSettings


def look(settings: AppSettings, consumers: Sequence[AnyConsumer], host: PluginHost, findings: Findings) -> None:
    """Note it all. What is wrong between consumers is `collect.py`'s to say, and with an engine's groups its own."""
    world = real_world()
    if not any("cluster.credentials" in str(mistake) for mistake in findings.mistakes):  # a key that is wrong is no key
        findings.tried(lambda: check_keys(settings))
    findings.tried(lambda: check_tls(settings))
    findings.note(*host.mistakes)
    findings.tried(lambda: group_plans(settings, consumers, host, Reports(None, world.workers), world))
