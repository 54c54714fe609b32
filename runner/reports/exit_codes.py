"""The exit codes as a table for people, as JSON, and as Markdown."""

from __future__ import annotations

from typing import Any

from runner.core.endings import EXIT_ROWS, ExitRow


def exit_code_rows() -> list[dict[str, Any]]:
    """Every exit code as a JSON object."""
    return [
        {
            "code": row.code,
            "subtype": row.subtype,
            "error_types": list(row.error_types),
            "meaning": row.meaning,
            "advice": row.advice,
        }
        for row in EXIT_ROWS
    ]


def exit_code_lines() -> list[str]:
    """The table for a terminal: code and ending, below them what it means and what to do."""
    lines = []
    for row in EXIT_ROWS:
        lines += [f"{row.code:>3}  {_name(row)}", f"     {row.meaning}: {row.advice}"]
    return lines


def exit_code_markdown() -> list[str]:
    """The table for the documentation."""
    head = [
        "| code | subtype | `error_type` | means | the pipeline should |",
        "|---|---|---|---|---|",
    ]
    return head + [
        f"| {row.code} | {f'`{row.subtype}`' if row.subtype else 'none, there is no session'} "
        f"| {', '.join(f'`{name}`' for name in row.error_types)} | {row.meaning} | {row.advice} |"
        for row in EXIT_ROWS
    ]


def _name(row: ExitRow) -> str:
    subtype = row.subtype or "no session"
    return f"{subtype}: {', '.join(row.error_types)}" if row.error_types else subtype
