import os
import resource
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import (
    FORMAT,
    VERSION,
    CheckpointError,
    load_checkpoint,
    save_checkpoint,
)


def contents(seed: int = 0) -> dict:
    generator = torch.Generator().manual_seed(seed)
    return {
        "iteration": seed,
        "weights": {"layers.0.weight": torch.randn(200, 300, generator=generator)},
        "generator": {"state": 1 << 100, "name": "PCG64"},
        "pairs": [(1, 0.5), None, True],
    }


def same(left: object, right: object) -> bool:
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and torch.equal(left, right)
    if isinstance(left, dict):
        assert isinstance(right, dict)
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


def test_what_was_saved_is_loaded(tmp_path):
    path = tmp_path / "latest.pt"
    save_checkpoint(path, contents())
    assert same(load_checkpoint(path), contents())
    assert os.listdir(tmp_path) == ["latest.pt"]


def test_saving_replaces_the_file_in_one_step(tmp_path):
    path = tmp_path / "latest.pt"
    save_checkpoint(path, contents(1))
    reader = path.open("rb")
    save_checkpoint(path, contents(2))
    whole = reader.read()  # whoever had the old file open still reads the old file
    reader.close()
    (tmp_path / "old.pt").write_bytes(whole)
    assert load_checkpoint(tmp_path / "old.pt")["iteration"] == 1
    assert load_checkpoint(path)["iteration"] == 2


def test_a_missing_checkpoint_names_the_ones_that_exist(tmp_path):
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(tmp_path / "latest.pt")
    assert str(caught.value) == (
        f"{tmp_path}/latest.pt: there is no such checkpoint; its folder holds no other checkpoint"
    )
    save_checkpoint(tmp_path / "iteration_000002.pt", contents())
    with pytest.raises(CheckpointError, match=r"try iteration_000002\.pt in the same folder"):
        load_checkpoint(tmp_path / "latest.pt")
    with pytest.raises(CheckpointError, match="no does not exist either"):
        load_checkpoint(tmp_path / "no" / "latest.pt")


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_torn_file_is_refused(tmp_path, share):
    path = tmp_path / "latest.pt"
    save_checkpoint(path, contents())
    data = path.read_bytes()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(CheckpointError, match=r"latest\.pt: is torn or damaged \(") as caught:
        load_checkpoint(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_a_flipped_bit_inside_the_tensors_is_refused(tmp_path, share):
    path = tmp_path / "latest.pt"
    save_checkpoint(path, contents())
    data = bytearray(path.read_bytes())
    data[int(share * len(data))] ^= 1
    path.write_bytes(data)
    assert torch.load(path, weights_only=True)["iteration"] == 0  # torch alone would not notice
    with pytest.raises(CheckpointError, match="is torn or damaged"):
        load_checkpoint(path)


def test_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "latest.pt"
    torch.save({"format": FORMAT, "version": VERSION + 1}, path)
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    assert str(caught.value) == (
        f"{path}: has format version {VERSION + 1}, this program reads version {VERSION}; "
        "update the program that reads it"
    )


def test_an_older_version_is_refused(tmp_path):
    path = tmp_path / "latest.pt"
    torch.save({"format": FORMAT, "version": VERSION - 1}, path)
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    assert str(caught.value) == (
        f"{path}: has format version {VERSION - 1}, this program reads version {VERSION}; "
        "go on with the program that wrote it"
    )


def test_foreign_files_are_refused(tmp_path):
    path = tmp_path / "latest.pt"
    for foreign in ({"state_dict": {}}, [1, 2], torch.zeros(3)):
        torch.save(foreign, path)
        with pytest.raises(CheckpointError, match="is not a checkpoint of this program"):
            load_checkpoint(path)


def test_a_file_that_would_run_code_is_refused_unrun(tmp_path):
    path = tmp_path / "latest.pt"
    torch.save({"format": FORMAT, "version": VERSION, "contents": Trap(tmp_path / "ran")}, path)
    with pytest.raises(CheckpointError, match="is not a checkpoint of this program"):
        load_checkpoint(path)
    assert not (tmp_path / "ran").exists()


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.mark.slow
def test_a_full_disk_leaves_the_checkpoint_before_it(tmp_path):
    path = tmp_path / "latest.pt"
    save_checkpoint(path, contents(1))
    before = path.read_bytes()
    program = """
        import sys, torch
        from pathlib import Path
        from coolrl_lost_cities.games.classic.deep_cfr.checkpoints import (
            CheckpointError, save_checkpoint)
        for name in ("latest.pt", "other.pt"):
            try:
                save_checkpoint(Path(sys.argv[1]) / name, {"weights": torch.zeros(1 << 20)})
            except CheckpointError as error:
                print(error)
    """
    # The kernel refuses writes past this size as it refuses them on a full disk.
    size = 1 << 20
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )
    assert done.stdout.splitlines() == [
        f"{path}: could not be written (File too large); the checkpoint before it is intact; "
        "free some space or write elsewhere",
        f"{tmp_path}/other.pt: could not be written (File too large); nothing was left behind; "
        "free some space or write elsewhere",
    ]
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["latest.pt"]


def test_a_missing_folder_is_a_clear_error(tmp_path):
    with pytest.raises(CheckpointError, match=r"could not be written \(No such file or directory"):
        save_checkpoint(tmp_path / "no" / "latest.pt", contents())


def test_a_bug_in_the_contents_is_not_called_a_full_disk(tmp_path):
    with pytest.raises(AttributeError):
        save_checkpoint(tmp_path / "latest.pt", {"function": lambda: 0})
    assert os.listdir(tmp_path) == []
