"""fastprod.spark.jobs.manifest: what a job has to do survives it, and is done once."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from fastprod.load.file_splits import FileSplit
from fastprod.load.input_files import InputError, InputFile
from fastprod.spark.jobs.manifest import Manifest, state_folder

FILE = InputFile("/data/a.csv", "/data", 100, 1)
SPLITS = [FileSplit(FILE, "bytes", 0, 50, 50), FileSplit(FILE, "bytes", 50, 100, 50)]
SETTINGS = {"topic": "t"}


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """The state folder of job "job", of which the first of two splits is done."""
    manifest = Manifest.open(tmp_path, "job", SETTINGS)
    manifest.add([FILE], SPLITS)
    manifest.mark(0, {"rows": 5})
    manifest.close()
    return tmp_path


def test_a_job_goes_on_with_what_has_no_mark(begun: Path) -> None:
    manifest = Manifest.open(begun, "job", SETTINGS)
    assert manifest.new_files([FILE]) == []
    assert manifest.left() == [(1, SPLITS[1])]
    assert manifest.done() == {0: {"rows": 5}}
    manifest.mark(1, {"rows": 6})
    assert manifest.left() == []
    manifest.close()


def test_new_files_join_the_job_with_numbers_of_their_own(begun: Path) -> None:
    manifest = Manifest.open(begun, "job", SETTINGS)
    other = InputFile("/data/b.csv", "/data", 7, 1)
    assert manifest.new_files([FILE, other]) == [other]
    split = FileSplit(other, "bytes", 0, 7, 7)
    manifest.add([other], [split])
    assert manifest.left() == [(1, SPLITS[1]), (2, split)]
    manifest.close()


@pytest.mark.parametrize(
    "changed", [dataclasses.replace(FILE, size_bytes=101), dataclasses.replace(FILE, mtime_ns=2)]
)
def test_a_file_that_has_changed_ends_the_job(begun: Path, changed: InputFile) -> None:
    manifest = Manifest.open(begun, "job", SETTINGS)
    with pytest.raises(
        InputError,
        match=r"a\.csv has changed since this job began \(100 bytes of 1970-01-01 00:00:00\.0+1",
    ):
        manifest.new_files([changed])
    with pytest.raises(InputError, match="is not there any more"):
        manifest.new_files([])
    manifest.close()


def test_a_file_that_was_found_by_another_folder_has_other_columns(tmp_path: Path) -> None:
    file = InputFile("/data/day=1/a.csv", "/data", 100, 1)
    manifest = Manifest.open(tmp_path, "job", SETTINGS)
    manifest.add([file], [])
    for root in ("/data/day=1", "/data/day=1/a.csv"):
        now = dataclasses.replace(file, root=root)
        assert manifest.new_files([now]) == []
        with pytest.raises(InputError, match=rf"was found by /data when .*, and by {root} now"):
            manifest.new_files([now], by_folders=True)
    now = dataclasses.replace(file, root="/")
    assert manifest.new_files([now], by_folders=True) == []
    manifest.close()


def test_other_settings_are_another_job(begun: Path) -> None:
    with pytest.raises(InputError, match="job job was begun with topic = 't', this is 'u'"):
        Manifest.open(begun, "job", {"topic": "u"})
    Manifest.open(begun, "job", SETTINGS).close()


def test_a_job_that_runs_is_not_begun_again(tmp_path: Path) -> None:
    manifest = Manifest.open(tmp_path, "job", SETTINGS)
    with pytest.raises(InputError, match="job job is running"):
        Manifest.open(tmp_path, "job", SETTINGS)
    manifest.close()
    Manifest.open(tmp_path, "job", SETTINGS).close()


def test_a_mark_that_was_not_finished_is_no_mark(begun: Path) -> None:
    (begun / "job" / "done" / ".1.abc").write_text('{"ro')
    manifest = Manifest.open(begun, "job", SETTINGS)
    assert [number for number, _ in manifest.left()] == [1]
    manifest.close()


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 99}', '{"version": 1}'])
def test_a_damaged_manifest_is_told(begun: Path, text: str) -> None:
    (begun / "job" / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json is"):
        Manifest.open(begun, "job", SETTINGS)


@pytest.mark.parametrize("is_older", [False, True])
def test_marks_without_their_manifest_are_told(begun: Path, *, is_older: bool) -> None:
    manifest = begun / "job" / "manifest.json"
    told = json.loads(manifest.read_text())
    manifest.unlink()
    if is_older:
        manifest.write_text(json.dumps({**told, "splits": told["splits"][:0]}))
    with pytest.raises(InputError, match="marks of splits that are done, and no manifest"):
        Manifest.open(begun, "job", SETTINGS)


@pytest.mark.parametrize("mark", [b"{", b"\xff"])
def test_a_damaged_mark_is_told(begun: Path, mark: bytes) -> None:
    path = begun / "job" / "done" / "0"
    path.write_bytes(mark)
    manifest = Manifest.open(begun, "job", SETTINGS)
    with pytest.raises(InputError, match=re.escape(f"{path} is damaged")):
        manifest.left()
    manifest.close()


@pytest.mark.parametrize("job_id", ["", "../x", "a/b", ".hidden", "x" * 129])
def test_an_id_that_is_no_name_of_a_folder_is_refused(tmp_path: Path, job_id: str) -> None:
    with pytest.raises(InputError, match="job id"):
        Manifest.open(tmp_path, job_id, SETTINGS)
    assert list(tmp_path.iterdir()) == []


def test_a_state_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").touch()
    with pytest.raises(InputError, match="state folder"):
        Manifest.open(tmp_path / "state", "job", SETTINGS)


def test_files_on_disk_are_whole_json(begun: Path) -> None:
    names = sorted(path.relative_to(begun).as_posix() for path in begun.rglob("*"))
    assert names == ["job", "job/done", "job/done/0", "job/lock", "job/manifest.json"]
    assert json.loads((begun / "job" / "manifest.json").read_text())["settings"] == SETTINGS


def test_state_is_where_the_user_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert state_folder() == Path("/somewhere/fastprod/jobs")
