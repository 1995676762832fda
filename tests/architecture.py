"""The rooms of the package and who imports whom, read off the code.

python tests/architecture.py    # writes the picture in docs/architecture.md anew
"""

import ast
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

TOP = Path(__file__).parents[1]
SOURCE = TOP / "src" / "hctrellis"
PAGE = TOP / "docs" / "architecture.md"
BEGIN, END = "<!-- imports: written by tests/architecture.py -->", "<!-- end of imports -->"


def modules():
    """All modules, by dotted name below the package, with their files."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = path
    return found


def room(module):
    """The folder of a module, or its own name at the root of the package."""
    return module.split(".")[0]


def imports(path, known):
    """The modules of the package that a file imports, those inside functions included.

    What is imported for types alone is not.
    """
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if inside(name) in known else node.module for name in names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module":
            found |= {arg.value for arg in node.args if isinstance(arg, ast.Constant)}
    return {inside(name) for name in found if inside(name) in known}


def inside(name):
    """A dotted name below the package; None for other packages."""
    package, _, rest = name.partition(".")
    return rest if package == "hctrellis" else None


@cache
def graph():
    """What each module imports."""
    known = modules()
    return {name: imports(path, known) - {name, ""} for name, path in known.items() if name}


def layers():
    """The rooms in the order in which docs/architecture.md lists them, the lowest first."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [row.split("`")[1].rstrip("/").removesuffix(".py") for row in rows][::-1]


def picture():
    """Each room, the highest first, and the rooms that it imports; nearer ones first."""
    order, edges = layers(), {}
    for module, targets in graph().items():
        edges.setdefault(room(module), set()).update(room(target) for target in targets)
    width = max(map(len, order))
    lines = []
    for name in order[::-1]:
        below = [other for other in order[::-1] if other in edges.get(name, ()) and other != name]
        lines.append(f"{name:{width}}  {' '.join(below)}".rstrip())
    return "\n".join([BEGIN, "```text", *lines, "```", END])


def cycle():
    """A cycle of imports, or None; what is imported inside functions counts."""
    sorter = TopologicalSorter(graph())
    try:
        sorter.prepare()
    except ValueError as error:
        return error.args[1]
    return None


def main():
    text = PAGE.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    PAGE.write_text(before + picture() + after)


if __name__ == "__main__":
    main()
