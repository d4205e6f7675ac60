"""The folder of a run: what lies in it, when it may be written, and its log."""

import time
from pathlib import Path

from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, config_to_yaml
from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError

CONFIG = "config.yaml"
METRICS = "metrics.jsonl"
LOG = "train.log"
LATEST = "latest.pt"
NETWORKS = "networks.pt"


class RunFolderError(DeepCFRError):
    """A folder that already holds a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        latest = folder / LATEST
        resume = f"resume it with --resume {latest}, " if latest.exists() else ""
        super().__init__(
            f"{folder}: already holds a run; {resume}choose another folder with "
            "--set run.out=FOLDER, or allow its loss with --set run.overwrite=true"
        )


def continues(config: DeepCFRConfig, resume: Path | None) -> bool:
    """Say whether a run goes on in the folder of the checkpoint that it starts from."""
    return resume is not None and resume.parent.resolve() == Path(config.run.out).resolve()


def check_new(config: DeepCFRConfig) -> None:
    """Raise RunFolderError if a new run would mix with one that is there."""
    folder = Path(config.run.out)
    if not config.run.overwrite and _leftovers(folder):
        raise RunFolderError(folder)


def start_new(config: DeepCFRConfig) -> None:
    """Make the folder, remove the run that may be overwritten, write the resolved config."""
    folder = Path(config.run.out)
    folder.mkdir(parents=True, exist_ok=True)
    for path in _leftovers(folder):
        path.unlink()
    write_config(config)


def write_config(config: DeepCFRConfig) -> None:
    """Write the resolved config beside the results, whole or not at all."""
    path = Path(config.run.out) / CONFIG
    partial = path.with_name(f".{path.name}.partial")
    try:
        partial.write_text(config_to_yaml(config), encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def append_log(config: DeepCFRConfig, text: str) -> None:
    """Append lines to the log, each with the local time."""
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    with (Path(config.run.out) / LOG).open("a", encoding="utf-8") as file:
        file.writelines(f"{now} {line}\n" for line in text.splitlines())


def _leftovers(folder: Path) -> list[Path]:
    """Return what a run writes, other than its config, which is replaced anyway."""
    named = [folder / name for name in (METRICS, LOG, LATEST, NETWORKS)]
    return [path for path in named if path.exists()] + sorted(folder.glob("iteration_*.pt"))
