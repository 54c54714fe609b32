"""AskUserQuestion: nobody is here."""

from __future__ import annotations

from tests.tools.bench import Bench, descriptions


def test_the_answer_is_to_decide_alone(bench: Bench) -> None:
    """The sentence from the texts is the answer, whatever is asked."""
    question = {
        "question": "Which one?",
        "header": "Choice",
        "options": [{"label": "A", "description": "the first"}, {"label": "B"}],
        "multiSelect": False,
    }
    answer = bench.text("AskUserQuestion", questions=[question])
    assert answer == descriptions()["AskUserQuestion.answer"].strip()
    assert answer.startswith("Nobody is here to answer. Decide for yourself")
