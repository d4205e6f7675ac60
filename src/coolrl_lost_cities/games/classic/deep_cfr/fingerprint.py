"""What a measurement was made on: hardware, versions, commit, settings, and how busy it was."""

import datetime
import hashlib
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

import torch

from coolrl_lost_cities.games.classic.deep_cfr.config import DeepCFRConfig, config_to_yaml

_GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
_CPU_INFO = Path("/proc/cpuinfo")
_BUSY = 0.5  # processes that wanted the machine before we did, on average over the last minute


@dataclass(frozen=True)
class Fingerprint:
    """The environment of a measurement. What cannot be read is "", `dirty` None.

    `load` is the number of processes that wanted a processor, over the last minute before.
    """

    measured: str
    cpu: str
    cores: int
    gpu: str
    python: str
    torch: str
    threads: int
    device: str
    governor: str
    commit: str
    dirty: bool | None
    config: str
    load: float

    @property
    def busy(self) -> bool:
        """Whether others used the machine when the measurement began."""
        return self.load > _BUSY

    @property
    def machine(self) -> str:
        """The machine in one line."""
        parts = [
            self.gpu if self.device != "cpu" else self.cpu,
            f"{self.cores} cores",
            f"torch {self.torch}",
            f"{self.threads} threads",
            f"governor {self.governor}" if self.governor else "",
            f"load {self.load:.1f} before" + (", a busy machine" if self.busy else ""),
        ]
        return ", ".join(part for part in parts if part)

    @property
    def sources(self) -> str:
        """The sources in one line."""
        changes = " with changes" if self.dirty else ""
        return f"commit {self.commit[:12]}{changes}" if self.commit else "no commit known"


def take_fingerprint(config: DeepCFRConfig) -> Fingerprint:
    """Return the environment as it is now. The config counts without its name and folder."""
    commit, dirty = _commit()
    return Fingerprint(
        measured=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        gpu=torch.cuda.get_device_name() if torch.cuda.is_available() else "",
        python=platform.python_version(),
        torch=torch.__version__,
        threads=config.run.num_threads,
        device=config.run.device,
        governor=_read(_GOVERNOR),
        commit=commit,
        dirty=dirty,
        config=config_hash(config),
        load=os.getloadavg()[0],
    )


def config_hash(config: DeepCFRConfig) -> str:
    """Return 12 digits that tell configurations apart, whatever their name and folder."""
    lines = config_to_yaml(config).splitlines()
    kept = [line for line in lines if not line.startswith(("  name:", "  out:"))]
    return hashlib.sha256("\n".join(kept).encode()).hexdigest()[:12]


def _cpu() -> str:
    names = [line for line in _read(_CPU_INFO).splitlines() if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.processor()


def _commit() -> tuple[str, bool | None]:
    here = Path(__file__).parent
    commit = _git(here, "rev-parse", "HEAD")
    return commit, bool(_git(here, "status", "--porcelain")) if commit else None


def _git(folder: Path, *words: str) -> str:
    command = ["git", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
