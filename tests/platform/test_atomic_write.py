"""New folders: complete or not there."""

from pathlib import Path

import pytest

from rumi.platform.atomic_write import new_folder


def test_a_new_folder_is_there_when_it_is_complete_and_not_before(tmp_path: Path) -> None:
    folder = tmp_path / "of" / "it"
    with new_folder(folder) as draft:
        (draft / "file").write_text("x")
        assert not folder.exists()
    assert (folder / "file").read_text() == "x"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.parent.iterdir()) == [folder]


def test_a_new_folder_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no"):
        with new_folder(tmp_path / "it") as draft:
            (draft / "file").write_text("x")
            raise ValueError("no")
    assert list(tmp_path.iterdir()) == []
