"""The README prints the example as it is, without annotations and long docstrings."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import cast

ROOT = Path(__file__).parents[3]


class _Bare(ast.NodeTransformer):
    """Takes away what a reader can do without."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
        first = cast("ast.Expr", node.body[0])
        text = cast("str", cast("ast.Constant", first.value).value)
        first.value = ast.Constant(text.split("\n")[0])
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        assert node.value is not None
        return ast.Assign([node.target], node.value)


def program(source: str) -> list[str]:
    """Functions and constants."""
    bare = ast.fix_missing_locations(_Bare().visit(ast.parse(source)))
    kept = (ast.FunctionDef, ast.Assign)
    return [ast.unparse(each) for each in bare.body if isinstance(each, kept)]


def test_the_readme_prints_the_example() -> None:
    readme = (ROOT / "README.md").read_text()
    (printed,) = re.findall(r"^```python spark example\n(.*?)^```$", readme, re.M | re.S)
    example = program((ROOT / "fastprod" / "spark" / "example.py").read_text())
    assert len(example) == 8
    assert program(printed) == example
