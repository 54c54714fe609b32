"""Each request reaches the model it names, and all of them are closed."""

from __future__ import annotations

import asyncio

from runner.adapters.model_choice import ModelChoice
from runner.core.messages import ModelReply, ModelRequest
from tests.fakes import FakeModel, reply


def request_to(model: str) -> ModelRequest:
    return ModelRequest(model=model, system="", messages=(), tools=(), max_output_tokens=9)


def test_a_request_goes_to_the_model_it_names() -> None:
    """Asking and counting both follow the request's model."""
    models = {"a": FakeModel([reply("A")], counted_tokens=1), "b": FakeModel([reply("B")])}
    choice = ModelChoice(models)

    async def both() -> tuple[ModelReply, int]:
        await choice.ready()
        said = await choice.ask(request_to("b"), lambda delta: None)
        counted = await choice.count_tokens(request_to("a"))
        await choice.aclose()
        return said, counted

    said, counted = asyncio.run(both())
    assert (said.text, counted) == ("B", 1)
    assert [len(model.requests) for model in models.values()] == [0, 1]
