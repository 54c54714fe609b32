"""What model calls do to the state: attempts, charges, measurements, the model that is asked."""

from __future__ import annotations

from dataclasses import replace

from runner.core.events import Fee, SessionUsageCheckpoint
from runner.core.messages import Usage
from runner.core.shrink import measure, unmeasured
from runner.core.state import MAIN, State
from runner.core.thread import Thread


def with_thread(state: State, agent_id: str, thread: Thread) -> State:
    """The state with this conversation of an agent."""
    return replace(state, threads={**state.threads, agent_id: thread})


def attempt_over(state: State, agent_id: str = MAIN) -> State:
    """The model that is asked has answered, or failed to; an agent may have one of its own."""
    model = state.model if agent_id == MAIN else state.threads[agent_id].model
    over = state.attempts_over.get(model, 0) + 1
    return replace(state, attempts_over={**state.attempts_over, model: over})


def use_model(state: State, model: str) -> State:
    """Ask this model next. Another one counts tokens differently, so no measurement stands."""
    if model == state.model:
        return state
    other = nothing_measured(state)
    threads = {n: replace(thread, refused_tokens=None) for n, thread in other.threads.items()}
    return replace(other, threads=threads, model=model)


def nothing_measured(state: State) -> State:
    """What was measured of any conversation is not what will be sent."""
    threads = {name: unmeasured(thread) for name, thread in state.threads.items()}
    return replace(state, threads=threads)


def charge(state: State, agent_id: str, thread: Thread, event: SessionUsageCheckpoint) -> State:
    """A call of an agent is paid, and its request was measured by it."""
    usage = Usage(
        input_tokens=event.input_tokens,
        output_tokens=event.output_tokens,
        cache_read_tokens=event.cache_read_tokens,
        cache_write_tokens=event.cache_write_tokens,
        reasoning_tokens=event.reasoning_tokens,
    )
    if usage.prompt_tokens:  # a call without usage weighed nothing
        thread = measure(thread, usage.prompt_tokens, state.prefix_bytes)
    return replace(
        with_thread(state, agent_id, thread),
        ledger=state.ledger.settle(agent_id, event),
        usage=state.usage + usage if agent_id == MAIN else state.usage,
    )


def pay(state: State, fee: Fee) -> State:
    """A call that costs by itself is about to be made, for the model that is asked."""
    return replace(state, ledger=state.ledger.pay(state.model, fee))
