"""Finds the files that a tool in Python is made of, and what is certainly wrong with it; runs none.

Rules of this file:
* A file counts that an `import` statement of the module, or of what that imports, leads to in the
  folder. What a program imports by a text is not seen, and the tool's process refuses it.
* What Python itself or an installed package has is never taken from the folder, but for the module
  that the task names: else a file that an agent writes would come before it.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_FILES = 1_000


def files_of(module: str, folder: Path) -> tuple[Path, ...]:
    """Every file of the folder that importing the module may load; none when it is elsewhere."""
    own = module.partition(".")[0]
    waiting, found = [module], dict.fromkeys(located(module, folder))
    if not found:
        return ()
    read: set[Path] = set()
    while waiting and len(found) < MAX_FILES:
        for path in located(waiting.pop(), folder):
            found[path] = None
            if path not in read:
                read.add(path)
                names = _imported(path, _name_of(path, folder))
                waiting += [name for name in names if _is_local(name, own, folder)]
    return tuple(found)


def located(module: str, folder: Path) -> tuple[Path, ...]:
    """The files that the import of one module runs, those of its packages first; nothing when the
    folder does not have it."""
    here, found = folder, list[Path]()
    for part in module.split("."):
        if found and found[-1].name != "__init__.py" and here == found[-1].parent:
            return ()  # below a module that is no package
        package, file = here / part / "__init__.py", here / f"{part}.py"
        if package.is_file():
            found.append(package)
            here = here / part
        elif file.is_file():
            found.append(file)
        elif (here / part).is_dir():
            here = here / part
        else:
            return ()
    return tuple(found)


def problem(reference: str, folder: Path) -> str | None:
    """What is certainly wrong with `module:function`; None when only running it can tell more."""
    module, _, function = reference.partition(":")
    found = located(module, folder)
    if not found:
        if _is_installed(module.partition(".")[0]):
            return None
        return f"there is no module `{module}` in {folder}, and none is installed; correct `python`"
    path, name = found[-1], function.partition(".")[0]
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        return f"{path} is no Python that this version reads: {error}"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    names = set(_defined(tree))
    if name in names or names & {"*", "__getattr__"}:
        return None
    return f"{path} has no function `{name}`; correct `python`, or define it there"


def _defined(tree: ast.Module) -> Iterator[str]:
    """The names that a module may bind at its top, in a condition or a `try` too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).partition(".")[0]


def _imported(path: Path, name: str) -> Iterator[str]:
    """The modules that the file's statements may import, wherever in it they stand."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join((*(above if node.level else ()), *filter(None, (node.module,))))
            yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _name_of(path: Path, folder: Path) -> str:
    parts = path.relative_to(folder).with_suffix("").parts
    return ".".join(parts[:-1] if path.name == "__init__.py" else parts)


def _is_local(name: str, own: str, folder: Path) -> bool:
    top = name.partition(".")[0]
    if not top or top == own:
        return bool(top)
    return top not in sys.stdlib_module_names and not _is_installed(top, folder)


def _is_installed(top: str, beside: Path | None = None) -> bool:
    """Whether the runner's own Python has the module, and not only since it runs in that folder."""
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return False
    if found is None or beside is None or found.origin is None:
        return found is not None and beside is None
    return Path(found.origin) not in (beside / f"{top}.py", beside / top / "__init__.py")
