"""The YAML of a spec is read strictly, by the rules of YAML 1.2; hostile text is refused fast."""

from __future__ import annotations

import time
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.adapters.specfile import load_spec
from runner.adapters.specfile.problem import Problem, Source, SpecError
from runner.adapters.specfile.yaml_document import Fields, Items, Node, Scalar, parse
from runner.adapters.specfile.yaml_text import MAX_BYTES, Unreadable, plain_value

SOURCE = Source(name="t.yaml", folder=Path("/"))


def problems_of(text: str | bytes) -> list[str]:
    """What is wrong with this text as YAML."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return [str(problem) for problem in parse(data, SOURCE)[1]]


def plain(node: Node | None) -> object:
    """The tree as Python values."""
    match node:
        case Scalar():
            return node.value
        case Items():
            return [plain(entry) for entry in node.entries]
        case Fields():
            return {name: plain(entry.node) for name, entry in node.fields.items()}
        case _:
            return "broken"


def test_a_pair_of_escapes_is_the_character_that_json_means() -> None:
    """JSON is YAML: a character above U+FFFF is itself when it is written as two escapes."""
    tree, problems = parse(b'{"a": "\\ud83d\\ude00!", "\\ud83d\\ude00": 1}', SOURCE)
    assert (plain(tree), problems) == ({"a": "\N{GRINNING FACE}!", "\N{GRINNING FACE}": 1}, [])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, text) for text in ("no", "yes", "on", "off", "NO", "y", "22:22", "1:30:00")),
        *((text, text) for text in ("1_000", "2024-01-31", "0b11", "1e", "-", "nan", "inf", "0x")),
        ("true", True),
        ("False", False),
        ("tRue", "tRue"),
        ("null", None),
        ("~", None),
        ("5", 5),
        ("-5", -5),
        ("+5", 5),
        ("0", 0),
        ("0x10", 16),
        ("0o10", 8),
        ("1e3", Decimal(1000)),
        ("1e-06", Decimal("0.000001")),
        ("3.10", Decimal("3.10")),
        (".5", Decimal("0.5")),
        ("5.", Decimal(5)),
    ],
)
def test_plain_scalars_follow_the_core_schema(text: str, value: object) -> None:
    """An unquoted scalar means what YAML 1.2 says it means, with its exact type."""
    read = plain_value(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    "text", ["010", "-007", "00", "01.5", ".inf", "-.INF", ".NaN", "9" * 5_000, "1e999", "0" * 50]
)
def test_numbers_that_are_ambiguous_or_endless_are_refused(text: str) -> None:
    """No number is guessed when versions of YAML disagree, and none is endless."""
    assert isinstance(plain_value(text), Unreadable)


def test_positions_survive_byte_order_marks_and_line_ends() -> None:
    """The tree and the lines are the same when the file comes from Windows."""
    unix, problems = parse(b"a: 1\nb:\n  - x\n", SOURCE)
    assert problems == []
    assert parse(b"\xef\xbb\xbfa: 1\r\nb:\r\n  - x\r\n", SOURCE) == (unix, [])


REFUSED = [
    ("", ":1: the document is empty\nhint: a spec needs at least `name`, `prompt` and `model`"),
    (
        "# only\n",
        ":1: the document is empty\nhint: a spec needs at least `name`, `prompt` and `model`",
    ),
    ("a: 1\n---\nb: 2\n", ":2: a second document\nhint: one file is one task: remove the `---`, "
     "or split the file"),
    ("%YAML 1.1\n---\na: 1\n", ":1: another version of YAML\nhint: remove the %YAML line: "
     "YAML 1.2 is what is read here"),
    ("a: {b: 1, b: 2}", ":1: a.b: a duplicate of the key in line 1\nhint: keep one of the two"),
    ("on: 1\n'on': 2", ":2: on: a duplicate of the key in line 1\nhint: keep one of the two"),
    ("true: 1", ":1: a key must be text, not true\nhint: quote the key"),
    ("? [a]\n: 1", ":1: a key must be text\n"
     "hint: put a text that starts with `{` or `[` in quotes"),
    ("a: {{ inputs.x }}", ":1: a: a key must be text\n"
     "hint: put a text that starts with `{` or `[` in quotes"),
    ("a: &x 1", ":1: a: anchors (&x) are refused\n"
     "hint: write the value out where it is needed, or use `extends`"),
    ("a: *x", ":1: a: aliases (*x) are refused\n"
     "hint: write the value out, or use `extends`; quote a text that starts with `*`"),
    ("<<: {a: 1}", ":1: merge keys (<<) are refused\nhint: use `extends`"),
    *(
        (f"a: {tag} x", f':1: a: the tag "{tag}" is refused\nhint: remove the tag: the key decides '
         "the type; quote a text that starts with `!`")
        for tag in ("!!python/name:os.system", "!!binary", "!!set", "!custom", "!!timestamp", "!")
    ),
    ("a: !!python/object/apply:os.system [echo]",
     ':1: a: the tag "!!python/object/apply:os.system" is refused\n'
     "hint: remove the tag: the key decides the type; quote a text that starts with `!`"),
    ("a: .nan", ":1: a: .nan is not a finite number\nhint: write a finite number"),
    ("a:\n\t- b", ":2: not valid YAML: a tab cannot stand here\nhint: indent with spaces"),
    ("a: b: c", ":1: not valid YAML: `: ` cannot stand here\n"
     "hint: put a text that holds `: ` in quotes, or check the indentation of this line"),
    ("a: 1\nbcd\ne: 2", ":3: not valid YAML: a line without `key: value`\n"
     "hint: write `key: value`; a text of several lines starts with `key: |` and is indented"),
    ("a: 1\n b: 2", ":2: not valid YAML: `: ` cannot stand here\n"
     "hint: put a text that holds `: ` in quotes, or check the indentation of this line"),
    ("a:\n  - 1\n - 2", ":3: not valid YAML: the indentation does not fit the lines above\n"
     "hint: indent the keys of one map, and the dashes of one list, by the same number of spaces"),
    ("a: [1, 2", ":1: not valid YAML: the text ends inside a value\n"
     "hint: close the quote or the bracket"),
    ('a: "x', ":1: not valid YAML: the text ends inside a value\n"
     "hint: close the quote or the bracket"),
    ("a: @x", ":1: not valid YAML: found character '@' that cannot start any token\n"
     "hint: put a text that starts with a special character in quotes"),
    ('a: "\\d"', ":1: not valid YAML: found unknown escape character 'd'\n"
     "hint: write a text with backslashes in 'single quotes'"),
    ('a: "\\0"', ":1: a: an escape names a character that text cannot hold"),
    ('a: "\\ud800"', ":1: a: an escape names a character that text cannot hold"),
    ('a: "\\U99999999"', ":1: a number in an escape or a directive is out of range"),
    ('"\\e[31m": 1', ':1: the key "\\x1b[31m" holds a control character'),
    *(
        (f"a: 1\nb: x{char}y", f":2: the control character {shown} is not allowed\n"
         "hint: remove it; if it belongs into a text, write that text in double quotes "
         "with the escape")
        for char, shown in [("\0", "\\x00"), ("\x1b", "\\x1b"), ("\x85", "\\x85"),
                            ("\u2028", "\\u2028"), ("\u202e", "\\u202e"), ("\ufeff", "\\ufeff")]
    ),
    (b"a: 1\nb: \xff", ":2: not valid UTF-8\nhint: save the file as UTF-8"),
    ("a: 1".encode("utf-16"), ":1: encoded as UTF-16\nhint: save the file as UTF-8"),
    ("#" * (MAX_BYTES + 1), ":1: larger than 256 KiB\n"
     "hint: move a long prompt to a file and name it with `prompt_file`"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), REFUSED, ids=[str(row[0])[:30] for row in REFUSED])
def test_what_a_spec_may_not_hold_is_refused_with_its_line(
    text: str | bytes, expected: str
) -> None:
    """There is exactly one problem, with line and advice, when one thing is not allowed."""
    assert problems_of(text) == [f"t.yaml{expected}"]


def test_all_refused_things_are_found_in_one_pass() -> None:
    """What can be read is read on, so that the list is whole when several things are refused."""
    text = "a: &x 1\nb: *x\nc: !t {d: 010, d: 2}\n1: e\nf: [.inf]\n"
    assert [problem.split("\n")[0] for problem in problems_of(text)] == [
        "t.yaml:1: a: anchors (&x) are refused",
        "t.yaml:2: b: aliases (*x) are refused",
        't.yaml:3: c: the tag "!t" is refused',
        't.yaml:3: c.d: "010" starts with 0: versions of YAML read it differently',
        "t.yaml:3: c.d: a duplicate of the key in line 3",
        "t.yaml:4: a key must be text, not 1",
        "t.yaml:5: f[0]: .inf is not a finite number",
    ]


BOMB = "a: &a [x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE = {
    "3,000 brackets": "[" * 3_000,
    "brackets to the limit": "[" * MAX_BYTES,
    "brackets on lines": "[\n" * (MAX_BYTES // 2),
    "braces": "{a: " * (MAX_BYTES // 4),
    "dashes": "- " * (MAX_BYTES // 2),
    "question marks": "? " * (MAX_BYTES // 2),
    "a million keys": "".join(f"k{i}: 1\n" for i in range(1_000_000)),
    "as many keys as fit": "".join(f"k{i}: 1\n" for i in range(MAX_BYTES // 10)),
    "the same key over and over": "k: 1\n" * (MAX_BYTES // 5),
    "an alias bomb": BOMB,
    "anchors": "- &a\n" * (MAX_BYTES // 5),
    "documents": "---\n" * (MAX_BYTES // 4),
    "one endless key": "k" * (MAX_BYTES - 3) + ": 1",
    "one endless number": "k: " + "9" * (MAX_BYTES - 3),
    "a huge version": "%YAML 1." + "9" * 10_000 + "\n--- a",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_refused_within_seconds(text: str) -> None:
    """The answer comes after a little work when the text wants to exhaust the reader.

    Alone it takes under a second; the bound leaves room for coverage and a full worker.
    """
    started = time.process_time()
    found = problems_of(text)
    assert (bool(found), time.process_time() - started < 5.0) == (True, True)


def test_a_long_list_of_problems_is_cut(tmp_path: Path) -> None:
    """A hundred problems are listed at once, and the rest is counted, when there are thousands of
    unknown keys."""
    (tmp_path / "t.yaml").write_text("".join(f"max_turn{i}: 1\n" for i in range(2_400)))
    started = time.process_time()
    with pytest.raises(SpecError) as caught:
        load_spec(tmp_path / "t.yaml", stdin=str)
    problems = caught.value.problems
    seconds = time.process_time() - started
    assert (len(problems), problems[-1].message) == (101, "2303 more problems, not shown")
    assert seconds < 5.0


@given(
    st.binary(max_size=300) | st.text(alphabet="ab:-[]{}&*!|>'\"%@`#?,~<. \n\t0\\U").map(str.encode)
)
def test_no_text_makes_the_reader_fail(data: bytes) -> None:
    """There is a tree or there are problems, and never an exception, whatever the bytes are."""
    tree, problems = parse(data, SOURCE)
    assert tree is not None or problems


def test_messages_hold_no_control_characters() -> None:
    """A problem is plain lines of text when path and message hold escape sequences."""
    problem = Problem(
        file="a\x1b]0;x", line=2, column=1, path="k\u202e", message="m\r\n::error", hint="h\0"
    )
    assert str(problem) == "a\\x1b]0;x:2: k\\u202e: m\\r\\n::error\nhint: h\\x00"
    assert plain(None) == "broken"
