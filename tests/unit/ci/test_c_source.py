"""ci/c_source.py finds the functions of a preprocessed C file and what their bodies name."""

from __future__ import annotations

import c_source

HERE = '# 1 "/tree/a.c"\n'


def functions(text: str) -> dict[str, c_source.Function]:
    """The functions of a text that counts as one of the tree's files."""
    return c_source.parse(HERE + text, ("/tree/",)).functions


def test_definitions_are_found_and_other_braces_are_not() -> None:
    found = functions(
        "struct s { int a; };\n"
        "enum e { A, B };\n"
        "static int table[] = { 1, 2 };\n"
        "static int declared(int);\n"
        "static int (*pointer)(int);\n"
        "static inline const char *text(void)\n{ return 0; }\n"
        "static void *many(int a, void (*f)(int)) { if (a) { f(a); } return 0; }\n"
        "static int __attribute__((unused)) marked(void) { return 1; }\n"
    )
    assert set(found) == {"text", "many", "marked"}


def test_names_and_calls_are_told_apart() -> None:
    function = functions("static int f(struct s *x) { return g(x->a) + x->count + (int)(h) + 1; }")
    assert function["f"].calls == {"g"}
    assert {"g", "h", "a", "count", "x"} <= function["f"].names


def test_calls_through_members_and_through_expressions_are_seen() -> None:
    found = functions(
        "static void f(struct s *x) { x->wake(1); (*x).stop (2); (x->end)(3); }\n"
        "static void g(void) { table[1](2); (*p)(3); }\n"
    )
    assert found["f"].member_calls == {"wake", "stop", "end"}
    assert len(found["g"].expression_calls) == 2


def test_what_stands_in_quotes_is_no_code() -> None:
    function = functions("static void f(void) { g(\"} PyErr_Clear() {\", '}', '\\''); }")
    assert function["f"].names == {"g"}


def test_line_numbers_and_files_come_from_the_markers() -> None:
    found = functions('int a;\n\nint f(void) {\n}\n# 70 "/tree/b.h" 1\nint g(void) {\n}\n')
    assert (found["f"].file, found["f"].line) == ("/tree/a.c", 3)
    assert (found["g"].file, found["g"].line) == ("/tree/b.h", 70)


def test_functions_of_other_trees_have_no_body() -> None:
    found = functions('int f(void) { g(); }\n# 1 "/usr/include/x.h" 1\nint g(void) { }\n')
    assert set(found) == {"f"}


def test_a_body_that_a_marker_interrupts_stays_whole() -> None:
    found = functions('int f(void) {\n  g();\n# 20 "/tree/a.c"\n  h();\n}\n')
    assert found["f"].calls == {"g", "h"}
