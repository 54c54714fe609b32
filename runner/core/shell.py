"""What a Bash command would run: from the syntax tree of `shfmt --to-json` to decoded words.

Rules of this file:
* A construct is understood when it is named here; everything else is `odd`, and no rule that
  allows covers it. Nothing is guessed.
* Every simple command anywhere in the tree is listed, so that rules that deny see it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from runner.core.rules import Word
from runner.core.shell_words import Node, decoded
from runner.core.written import as_written

MAX_CHARS: Final = 10_000

_POSITIONS = frozenset(
    [
        "Pos",
        "End",
        "ValuePos",
        "ValueEnd",
        "OpPos",
        "Position",
        "Time",
        "Semicolon",
        "Left",
        "Right",
        "Lparen",
        "Rparen",
        "Comments",
        "Last",
        "Backquotes",
    ]
)
_JOINERS = frozenset({"&&", "||", "|", "|&"})
_WRITES = frozenset({">", ">>", ">|", "&>", "&>>"})
_READS = frozenset({"<", "<&", "<<", "<<-", "<<<"})
_SAFE_ASSIGNMENTS = frozenset({"CI", "NODE_ENV", "NO_COLOR", "LANG", "LC_ALL"})
_DELIMITER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EVALUATING = frozenset({"DeclClause", "LetClause", "TestClause", "ArithmCmd", "ArithmExp"})
_KNOWN = frozenset(
    [
        "File",
        "CallExpr",
        "BinaryCmd",
        "Block",
        "Subshell",
        "IfClause",
        "WhileClause",
        "ForClause",
        "CaseClause",
        "FuncDecl",
        "WordIter",
        "CStyleLoop",
        "TimeClause",
        "DeclClause",
        "LetClause",
        "TestClause",
        "ArithmCmd",
        "TestDecl",
        "Lit",
        "SglQuoted",
        "DblQuoted",
        "ParamExp",
        "CmdSubst",
        "ArithmExp",
        "ProcSubst",
        "ExtGlob",
        "BraceExp",
        "BinaryArithm",
        "UnaryArithm",
        "ParenArithm",
        "FlagsArithm",
        "BinaryTest",
        "UnaryTest",
        "ParenTest",
        "Word",
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One simple command: its words, decoded, and whether it sets variables that may matter.

    `written` are the same words with their patterns, as `written.as_written` has them.
    """

    words: tuple[Word, ...]
    assigns: bool = False
    written: tuple[Word, ...] = field(default=(), compare=False)

    @property
    def argv(self) -> tuple[str, ...] | None:
        """The words as the program will get them; None when one is not known before."""
        texts = [word[0] if len(word) == 1 else None for word in self.words]
        return tuple(t for t in texts if t is not None) if None not in texts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """A whole command line. `odd` says what no rule that allows covers, `opaque` what not even
    a rule that denies can be compared with; None when there is nothing of the kind. `writes` and
    `reads` are the files of redirections."""

    commands: tuple[Command, ...] = ()
    writes: tuple[Word, ...] = ()
    reads: tuple[Word, ...] = ()
    odd: str | None = None
    opaque: str | None = None


@dataclass(slots=True)
class _Found:
    commands: list[Command] = field(default_factory=list)
    writes: list[Word] = field(default_factory=list)
    reads: list[Word] = field(default_factory=list)
    odd: str | None = None
    opaque: str | None = None


_LONG_COMMENT = re.compile(r"#[^\n]*\\\n")


def unparsed(why: str) -> Script:
    """A command line that could not be taken apart."""
    return Script(odd=why, opaque=why)


def hidden(command: str) -> str | None:
    """Why a command is not worth parsing: too long, or with characters that parsers differ on."""
    if len(command) > MAX_CHARS:
        return f"it is longer than {MAX_CHARS} characters"
    strange = next((c for c in command if not c.isprintable() and c not in "\n\t"), None)
    if strange is not None:
        return f"it holds the character U+{ord(strange):04X}"
    # To Bash a comment ends with its line; to shfmt a backslash there hides the next one.
    return "a comment in it ends with a backslash" if _LONG_COMMENT.search(command) else None


def read(tree: Node) -> Script:
    """The script of a syntax tree."""
    found = _Found()
    for node in _nodes(tree):
        _note(node, found)
    found.odd = found.opaque or _oddity(tree)
    return Script(
        commands=tuple(found.commands),
        writes=tuple(found.writes),
        reads=tuple(found.reads),
        odd=found.odd,
        opaque=found.opaque,
    )


def _nodes(tree: Any) -> Iterator[Node]:
    """Every node, in no order that matters; without recursion, since trees may be deep."""
    left = [tree]
    while left:
        item = left.pop()
        if isinstance(item, Mapping):
            yield item
            left.extend(value for key, value in item.items() if key not in _POSITIONS)
        elif isinstance(item, list):
            left.extend(item)


def _note(node: Node, found: _Found) -> None:
    kind = node.get("Type")
    redirects = node.get("Redirs", ())
    found.writes.extend(word for one in redirects for word in _written(one))
    found.reads.extend(decoded(one.get("Word") or {}) for one in redirects if one.get("Op") == "<")
    if kind is not None and kind not in _KNOWN:
        found.opaque = f"it holds a construct that is not understood: {kind}"
    elif kind == "CallExpr":
        args = node.get("Args", ())
        words, written = tuple(map(decoded, args)), tuple(map(as_written, args))
        assigns = _matters(node.get("Assigns", ()))
        found.commands.append(Command(words=words, assigns=assigns, written=written))
    elif kind == "ParamExp" and str((node.get("Exp") or {}).get("Op", "")).startswith("@"):
        found.opaque = "it expands a variable with @"
    elif kind in _EVALUATING and any(_executes(inner) for inner in _nodes(node)):
        found.opaque = "a test, a declaration or arithmetic in it runs what a text says"


def _written(redirect: Node) -> Iterator[Word]:
    """The file a redirection writes, if any; a copy of a descriptor is none."""
    operator, target = redirect.get("Op"), decoded(redirect.get("Word") or {})
    is_copy = operator == ">&" and re.fullmatch(r"\d+-?|-", target[0] or "x") is not None
    if operator not in _READS and not (is_copy and len(target) == 1):
        yield target


def _executes(node: Node) -> bool:
    value = node.get("Value")
    return isinstance(value, str) and ("$(" in value or "`" in value)


def _matters(assigns: Any) -> bool:
    return any(
        assign.get("Name", {}).get("Value") not in _SAFE_ASSIGNMENTS
        or not _only(assign, "Name", "Value")
        or (assign.get("Value") is not None and None in decoded(assign["Value"]))
        for assign in assigns
    )


def _oddity(tree: Node) -> str | None:
    """The first construct that is not among the few that rules that allow cover."""
    left = list(tree.get("Stmts", ())) if _only(tree, "Stmts") else [{}]
    while left:
        statement = left.pop(0)
        command = statement.get("Cmd") or {}
        if statement.get("Background"):
            return "it leaves a command in the background"
        if not _only(statement, "Cmd", "Redirs", "Negated"):
            return "it holds more than plain commands"
        for redirect in statement.get("Redirs", ()):
            if not _harmless(redirect):
                return "it redirects to or from a file, which a rule for the command is not about"
        if command.get("Type") == "BinaryCmd" and command.get("Op") in _JOINERS:
            if not _only(command, "Op", "X", "Y"):
                return "it holds more than plain commands"
            left[:0] = (command["X"], command["Y"])
        elif command.get("Type") == "TimeClause" and _only(command, "Stmt", "PosixFormat"):
            left[:0] = [command.get("Stmt") or {}]
        elif command.get("Type") != "CallExpr" or not _only(command, "Assigns", "Args"):
            return f"it holds more than plain commands: {command.get('Type', 'nothing')}"
    return None


def _only(node: Node, *keys: str) -> bool:
    """The node says nothing but this."""
    return all(
        key in keys or key == "Type" or key in _POSITIONS or value in (None, False, "", [])
        for key, value in node.items()
    )


def _harmless(redirect: Node) -> bool:
    """A copy of a descriptor, the null device, or text that stands in the command itself."""
    if not _only(redirect, "Op", "N", "Word", "Hdoc"):
        return False
    operator, target = redirect.get("Op"), decoded(redirect.get("Word") or {})
    number = (redirect.get("N") or {}).get("Value", "1")
    if not number.isdigit() or len(target) != 1 or target[0] is None:
        return False
    if operator in (">&", "<&"):
        return target[0].isdigit() or target[0] == "-"
    if operator in ("<<", "<<-"):
        body = (redirect.get("Hdoc") or {}).get("Parts", ())
        is_text = all(part.get("Type") == "Lit" for part in body)
        return bool(_DELIMITER.fullmatch(target[0])) and is_text
    return operator == "<<<" or (
        (operator in _WRITES or operator == "<") and target[0] == "/dev/null"
    )
