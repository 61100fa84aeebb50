"""The resource `outbox`, with which handlers write their messages."""

from __future__ import annotations

from framework import App, resource
from framework_outbox.plugin import OutboxPlugin
from framework_outbox.settings import OutboxMisused
from framework_outbox.writing import Outbox


@resource
async def outbox(app: App) -> Outbox:
    """Opened before the first handler runs: the table is there from then on."""
    plugin = next((each.plugin for each in app.plugins.plugins if isinstance(each.plugin, OutboxPlugin)), None)
    if plugin is None:
        raise OutboxMisused("the plugin 'outbox' is not loaded; see plugins.block and plugins.only")
    table = plugin.table()
    try:
        await app.world.workers.run(table.create)
    finally:
        await app.world.workers.run(table.close)
    return Outbox(plugin.settings.table)
