"""ci/check_mirror.py finds modules without a test of the same name."""

from __future__ import annotations

from pathlib import Path

import check_mirror

TEST = "def test_it_works() -> None: ...\n"


def mirrored(root: Path) -> Path:
    for module, test in [
        ("fastprod/errors.py", "tests/unit/test_errors.py"),
        ("fastprod/_core/wire.pxd", "tests/unit/_core/test_wire.py"),
        ("fastprod/_core/io/channel.pyx", "tests/unit/_core/io/test_channel.py"),
        ("fastprod/client/metadata/metadata.py", "tests/unit/client/metadata/test_metadata.py"),
    ]:
        for path, text in [(root / module, ""), (root / test, TEST)]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    (root / "fastprod" / "client" / "__init__.py").write_text("")
    return root


def test_a_mirrored_tree_has_no_faults(tmp_path: Path) -> None:
    assert check_mirror.check(mirrored(tmp_path)) == []


def test_a_missing_test_file_is_found_for_each_kind_of_module(tmp_path: Path) -> None:
    root = mirrored(tmp_path)
    for test in root.rglob("test_*.py"):
        test.unlink()
    assert check_mirror.check(root) == [
        "fastprod/errors: no test in tests/unit/test_errors.py",
        "fastprod/_core/wire: no test in tests/unit/_core/test_wire.py",
        "fastprod/_core/io/channel: no test in tests/unit/_core/io/test_channel.py",
        "fastprod/client/metadata/metadata: no test in tests/unit/client/metadata/test_metadata.py",
    ]


def test_a_namesake_without_a_test_in_it_is_found(tmp_path: Path) -> None:
    root = mirrored(tmp_path)
    (root / "tests/unit/test_errors.py").write_text("# def test_nothing(): ...\n")
    assert check_mirror.check(root) == ["fastprod/errors: no test in tests/unit/test_errors.py"]


def test_a_folder_that_is_left_out_needs_none(tmp_path: Path) -> None:
    root = mirrored(tmp_path)
    for name in check_mirror.LEFT_OUT:
        (root / "fastprod" / name).mkdir(parents=True)
        (root / "fastprod" / name / "module.py").write_text("")
    assert check_mirror.check(root) == []


def test_an_exception_excuses_and_a_needless_one_is_a_fault(tmp_path: Path) -> None:
    root = mirrored(tmp_path)
    (root / "tests/unit/test_errors.py").unlink()
    (root / "ci").mkdir()
    toml = root / "ci" / "exceptions.toml"
    toml.write_text('[mirror]\n"fastprod/errors" = "a table"\n')
    assert check_mirror.check(root) == []
    toml.write_text('[mirror]\n"fastprod/errors" = "a table"\n"fastprod/_core/wire" = "?"\n')
    assert check_mirror.check(root) == [
        "ci/exceptions.toml: [mirror] fastprod/_core/wire: not a module without tests"
    ]
