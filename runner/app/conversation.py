"""Several prompts in one session: each is a run of its own, as a resume with a new prompt is."""

from __future__ import annotations

from dataclasses import dataclass, replace

from runner.adapters.journal import LOG, session_dir
from runner.app.world import RunOptions
from runner.core.spec import TaskSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The task whose prompt is replaced each time, and where the first prompt goes.

    Caps, budget and time limit count for each prompt anew; a spec whose `resume.budget_scope` is
    `session` has one budget for all. Between prompts nothing is held, so another run may go on
    with the session.
    """

    spec: TaskSpec
    options: RunOptions

    @property
    def session_id(self) -> str:
        """The session of every prompt. Only for options that name one."""
        named = self.options.session_id or self.options.resume
        assert named is not None, "whoever makes a conversation names its session"
        return named

    def part(
        self, prompt: str | None = None, timeout_s: float | None = None
    ) -> tuple[TaskSpec, RunOptions]:
        """What to run for one prompt; None is the prompt of the spec.

        The shorter of `timeout_s` and the spec's own limit holds. Raises `SessionError` when the
        id is none.
        """
        spec = self.spec if prompt is None else replace(self.spec, prompt=prompt)
        if timeout_s is not None:
            spec = replace(spec, timeout=min(timeout_s, spec.timeout or timeout_s))
        has_begun = (session_dir(self.options.home, self.session_id) / LOG).exists()
        if not has_begun:
            return spec, self.options
        going_on = replace(self.options, session_id=None, resume=self.session_id, fork=False)
        return spec, going_on
