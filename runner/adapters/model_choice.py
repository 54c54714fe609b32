"""Several models behind one port: each request goes to the model it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runner.core.messages import ModelReply, ModelRequest
from runner.ports import Delta, Model


class ModelChoice:
    """A `Model` of models by id; a request names one of them."""

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models

    async def ask(self, request: ModelRequest, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Ask the model the request names."""
        return await self._models[request.model].ask(request, on_delta)

    async def ready(self) -> None:
        """Wait for all of them."""
        for model in self._models.values():
            await model.ready()

    async def count_tokens(self, request: ModelRequest) -> int:
        """Count as the model the request names."""
        return await self._models[request.model].count_tokens(request)

    async def aclose(self) -> None:
        """Let go of all of them."""
        for model in self._models.values():
            await model.aclose()
