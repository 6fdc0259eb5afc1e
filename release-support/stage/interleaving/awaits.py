"""Makes every await of chosen files, but those in `WITHOUT`, a place where a step may end.

Rules of this module:

1. `await x` becomes `await through(label, x)`: x is evaluated as before, then the step ends, then x
   is awaited. Nothing else of the files is changed.
2. An await where the product relies on nothing being able to happen is named in `WITHOUT` with the
   reason; there an outside process may still act.
3. It works where Python compiles a file, so that it also holds for modules that are loaded again.

The module imports nothing of the host.
"""

from __future__ import annotations

import ast
import importlib.machinery
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from ..boot import PLUGIN

_DISPATCHERS: Final = frozenset(
    {"process_llm_result_tools", "_execute_tool_request", "process_tools", "_run_tool"}
)
_ROOMS: Final = (
    *("gate", "host", "look_up", "execution", "evaluation"),
    *("guild_preflight/observe", "guild_preflight/single_flight", "guild_preflight/request"),
    "guild_preflight/checked_stream",
    "guild_preflight/cache",  # it awaits nothing, and has a clock
)
# The dispatchers of both hosts and the whole gate: which functions of a file, by the end of its
# path; None for all of them.
FILES: Final[Mapping[str, frozenset[str] | None]] = {
    "agent.py": _DISPATCHERS,
    "helpers/extension.py": frozenset({"call_extensions_async"}),
    "helpers/mcp_handler.py": frozenset({"execute", "call_tool", "call_tool_op"}),
    f"_45_{PLUGIN}.py": None,
    **{f"{PLUGIN}/helpers/{room}.py": None for room in _ROOMS},
}
HOOK: Final = f"_45_{PLUGIN}.execute: guard"

# From the gate's last look to the server that the framework finds nothing waits: each coroutine
# begins in the step that makes it. Other threads and processes can act there all the same.
WITHOUT: Final = frozenset(
    {
        ("execution", "execute_checked", "execute"),
        ("execution", "execute", "run"),
        ("mcp_handler", "execute", "call_tool"),
    }
)


class Meets(Protocol):
    """Where steps end, while a schedule is played."""

    async def point(self, label: str) -> None: ...

    def has_answered(self, label: str) -> None: ...

    def moment(self, label: str, *, is_long: bool = False) -> None: ...


Listener = Callable[[str, dict[str, Any]], None]

playing: Meets | None = None
told: list[Listener] = []


def tell(end: str, namespace: dict[str, Any]) -> None:
    """Say that a rewritten file was loaded."""
    for listener in told:
        listener(end, namespace)


async def through(label: str, awaited: Awaitable[Any]) -> Any:
    """End a step, then await; tell when the hook is done."""
    if playing is not None:
        try:
            await playing.point(label)
        except BaseException:
            if hasattr(awaited, "close"):
                awaited.close()
            raise
    answer = await awaited
    if label == HOOK and playing is not None:
        playing.has_answered(label)
    return answer


def install(*listeners: Listener) -> None:
    """Rewrite the files as they are loaded from now on.

    Args:
        listeners: each is told of a file that was loaded: the end of its path, its namespace.
    """
    told.extend(listeners)
    load_code = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: Any, fullname: str) -> Any:
        path = self.get_filename(fullname)
        if path not in codes:
            end = next((end for end in FILES if path.endswith(f"/{end}")), None)
            if end is None:
                codes[path] = load_code(self, fullname)
            else:
                tree = _Rewrite(Path(path).stem, FILES[end]).visit(ast.parse(self.get_data(path)))
                tree = ast.fix_missing_locations(_with_import(tree, end))
                codes[path] = compile(tree, path, "exec", dont_inherit=True)
        return codes[path]

    codes: dict[str, Any] = {}
    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def _with_import(tree: ast.Module, end: str) -> ast.Module:
    ours = ast.parse(
        f"from stage.interleaving import awaits as _awaits\n_awaits.tell({end!r}, globals())"
    ).body
    return ast.Module([*tree.body, *ours], tree.type_ignores)


class _Rewrite(ast.NodeTransformer):
    def __init__(self, module: str, functions: frozenset[str] | None) -> None:
        self._module, self._functions = module, functions
        self._within: list[str] = []

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()
        return node

    def visit_Await(self, node: ast.Await) -> ast.AST:
        self.generic_visit(node)
        function = self._within[-1]
        awaited = node.value.func if isinstance(node.value, ast.Call) else node.value
        called = awaited.attr if isinstance(awaited, ast.Attribute) else ast.unparse(awaited)
        chosen = self._functions is None or function in self._functions
        if not chosen or (self._module, function, called) in WITHOUT:
            return node
        label = ast.Constant(f"{self._module}.{function}: {ast.unparse(awaited)}")
        name = ast.Attribute(ast.Name("_awaits", ast.Load()), "through", ast.Load())
        return ast.copy_location(ast.Await(ast.Call(name, [label, node.value], [])), node)
