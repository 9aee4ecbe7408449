"""What the plug-in `functions` adds."""

from __future__ import annotations

from scraper.plugin import FLEET, Command, Plugin, Task

PLUGIN = Plugin(
    name="functions",
    summary="runs functions of your own on workers",
    settings="scraper.plugins.functions.settings:FunctionsSettings",
    worker="scraper.plugins.functions.worker.part:FunctionsPart",
    commands={"run": Command(FLEET, "scraper.plugins.functions.command")},
    tasks=[
        Task(
            "call_functions",
            "scraper.plugins.functions.worker.part:call_functions",
            {"message": "scraper.plugins.functions.group:is_group"},
        )
    ],
)
