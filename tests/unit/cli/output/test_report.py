"""fastprod.cli.output.report: names and values in columns."""

from __future__ import annotations

from fastprod.cli.output.report import Report


def test_values_of_a_section_stand_in_one_column() -> None:
    report = Report()
    report.line("a", 1)
    report.line("long", "x\ny")
    report.heading("part")
    report.line("b", "")
    report.line("cc", 2)
    report.heading("empty")
    assert report.text() == "a     1\nlong  x\n      y\n\npart\n  b\n  cc  2\n\nempty"


def test_a_report_without_lines_is_empty() -> None:
    assert Report().text() == ""
