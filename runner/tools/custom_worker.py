"""Runs one Python function of a task: a program of its own, so that it can be walled in and killed.

Standard input is a JSON object: `module`, `function`, `folder`, the `files` of the folder that may
be imported, and the `arguments` of a call, or what the `schema` of all calls says of them to see
whether there can be any. Standard output is the result and nothing else: what the function prints
goes where its errors go. Imports nothing of the package.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import json
import os
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any, cast

RETURNED = 86
"""The exit code after an answer. A function can end the program with any other before it returns,
which is no answer."""


def main() -> None:
    """Read what is asked, import, call, answer. What the function raises ends the program."""
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)  # whatever it prints, and whatever it starts prints, is no result
        asked = json.loads(os.fdopen(os.dup(0), "rb").read())
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.excepthook = tell
        sys.argv = [asked["module"]]
        confine(asked["folder"], asked["files"])
        function = found(asked["module"], asked["function"])
        if "schema" in asked:
            refuse_misfit(function, asked["schema"])
        else:
            answer.write(text_of(called(function, asked["arguments"])).encode("utf-8", "replace"))
    if "arguments" in asked:
        sys.exit(RETURNED)


def found(module: str, function: str) -> Callable[..., object]:
    """The function. Raises what importing its module raises, and `AttributeError`, `TypeError`."""
    start: Any = importlib.import_module(module)
    value = functools.reduce(getattr, function.split("."), start)
    if not callable(value):
        raise TypeError(f"{module}:{function} is {type(value).__name__}, which cannot be called")
    return cast("Callable[..., object]", value)


def called(function: Callable[..., object], arguments: Mapping[str, Any]) -> object:
    """What it returns, awaited when it is awaitable."""

    async def awaited(value: Awaitable[object]) -> object:
        return await value

    try:
        value = function(**arguments)
        return asyncio.run(awaited(value)) if inspect.isawaitable(value) else value
    except SystemExit as leave:
        raise RuntimeError(f"it left with sys.exit({leave.code!r})") from None


def text_of(value: object) -> str:
    """What the model reads: text as it is, nothing for None, else JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def refuse_misfit(function: Callable[..., object], schema: Mapping[str, Any]) -> None:
    """Raises `TypeError` when calls that fit the schema do not fit the function."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # of a builtin that does not say
        return
    try:
        signature.bind(**dict.fromkeys(schema["required"]))
        signature.bind_partial(**dict.fromkeys(schema["properties"]))
    except TypeError as misfit:
        raise TypeError(f"{misfit}; `input_schema` says otherwise") from None


# -- what may be imported from the folder ----------------------------------------------------------


class SourceAlone(SourceFileLoader):
    """Compiles what stands in the file: a cached form may be another's, and a new one litter."""

    def get_code(self, fullname: str) -> CodeType | None:
        """See the base."""
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class Pinned:
    """Finds, in one folder, the files that were there and watched when the run began; no other."""

    def __init__(self, folder: Path, files: frozenset[Path]) -> None:
        self._folder = folder
        self._files = files

    def find_spec(self, fullname: str, _target: ModuleType | None = None) -> ModuleSpec | None:
        """As for every finder of a place on the path: what the module is, or None."""
        here = self._folder / fullname.rpartition(".")[2]
        package, module = here / "__init__.py", here.with_name(f"{here.name}.py")
        if package in self._files:
            inside = [str(here)]
            return spec_from_file_location(
                fullname,
                package,
                loader=SourceAlone(fullname, str(package)),
                submodule_search_locations=inside,
            )
        if module in self._files:
            loader = SourceAlone(fullname, str(module))
            return spec_from_file_location(fullname, module, loader=loader)
        if any(here in file.parents for file in self._files):
            spec = ModuleSpec(fullname, None, is_package=True)
            spec.submodule_search_locations = [str(here)]
            return spec
        return None

    def invalidate_caches(self) -> None:
        """There are none."""


def confine(folder: str, names: Sequence[str]) -> None:
    """Let the folder come first on the path, with these of its files alone."""
    files = frozenset(map(Path, names))
    folders = {up for file in files for up in file.parents if up.is_relative_to(folder)}

    def hook(path: str) -> Pinned:
        if Path(path) not in folders:
            raise ImportError(f"not a folder of the tool: {path}")
        return Pinned(Path(path), files)

    if not files:
        return  # an installed module: nothing of the folder is needed
    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()
    sys.path.insert(0, folder)


def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show what was raised, without the part of the way there that is ours."""
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    traceback.print_exception(kind, error, trace)


def _is_ours(file: str) -> bool:
    return file == __file__ or file.startswith("<frozen importlib") or file in _BETWEEN


_BETWEEN = frozenset({asyncio.runners.__file__, asyncio.base_events.__file__, importlib.__file__})


if __name__ == "__main__":
    main()
