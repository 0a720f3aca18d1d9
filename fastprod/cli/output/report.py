"""Report: aligned names and values under headings, the same on a terminal and in a log."""

from __future__ import annotations

from fastprod.cli.output.standard_output import print_out


class Report:
    """Collects lines, and prints them at the end."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, str] | str] = []

    def heading(self, text: str) -> None:
        """Start a section."""
        self._lines.append(text)

    def line(self, name: str, value: object) -> None:
        """Add one line; the further lines of a value come below its first."""
        self._lines.append((name, str(value)))

    def text(self) -> str:
        """All lines, with the values of a section in one column."""
        sections: list[tuple[str, list[tuple[str, str]]]] = [("", [])]
        for line in self._lines:
            if isinstance(line, str):
                sections.append((line, []))
            else:
                sections[-1][1].append(line)
        blocks = []
        for heading, lines in sections:
            width = max((len(name) for name, _ in lines), default=0)
            indent = "  " if heading else ""
            block = [heading] if heading else []
            for name, value in lines:
                first, *rest = value.splitlines() or [""]
                block.append(f"{indent}{name:<{width}}  {first}".rstrip())
                block += [f"{indent}{'':<{width}}  {each}" for each in rest]
            if block:
                blocks.append("\n".join(block))
        return "\n\n".join(blocks)

    def print(self) -> None:
        """Write the report to standard output."""
        print_out(self.text())
