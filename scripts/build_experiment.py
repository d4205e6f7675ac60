"""Rebuild `patches/torch-compile/experiment.bundle` from this repository's own history.

The bundle holds two branches of the trainer alone. `main` is every commit of this repository up to
the one before the port was merged, reduced to the trainer's paths. `experiments/torch-compile` is
`scripts/experiment.patch` on the commit that carries the trailer `Experiment-base: torch-compile`,
with a `Nonce:` trailer found by search so that its id begins with 05cc02a.

    python scripts/build_experiment.py            # writes the bundle, searching the nonce if needed
    python scripts/build_experiment.py --check    # rebuilds in memory and compares the ids

The search tries 2**28 hashes on average: some minutes on two cores.
"""

from __future__ import annotations

import argparse
import email
import email.policy
import hashlib
import itertools
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATCH = ROOT / "scripts" / "experiment.patch"
BUNDLE = ROOT / "patches" / "torch-compile" / "experiment.bundle"
NONCE_FILE = ROOT / "scripts" / "experiment.nonce"
EXPERIMENT = "experiments/torch-compile"
PREFIX = "05cc02a"
BASE_TRAILER = "Experiment-base: torch-compile"
PORT_TRAILER = "Port: torch-compile"
# What the trainer is, as paths: the demo's repository holds these and nothing else.
TRAINER_PATHS = ("src", "configs", "tests/deep_cfr", "pyproject.toml", ".gitignore", "LICENSE")
CHUNK = 1 << 20


def git(folder: Path, *arguments: str, data: bytes = b"", **variables: str) -> bytes:
    """Run git in a folder, sealed from the user's configuration, and return what it printed."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    sealed = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        input=data,
        capture_output=True,
        env=inherited | sealed | variables,
        check=False,
    )
    if done.returncode:
        sys.exit(f"git {' '.join(arguments)} failed:\n{done.stderr.decode()}")
    return done.stdout


def trainer_history(tip: str) -> Iterator[str]:
    """Yield the first-parent commits up to the one before the port's merge, oldest first."""
    for commit in git(ROOT, "rev-list", "--first-parent", "--reverse", tip).decode().split():
        messages = git(
            ROOT, "log", "--format=%B", f"{commit}^1..{commit}" if parents(commit) else commit
        )
        if re.search(rf"^{re.escape(PORT_TRAILER)}$", messages.decode(), re.MULTILINE):
            return
        yield commit


def parents(commit: str) -> list[str]:
    return git(ROOT, "rev-list", "--parents", "--max-count=1", commit).decode().split()[1:]


def reduced_tree(commit: str) -> str:
    """Return the tree of a commit with the trainer's paths only."""
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        entries = git(ROOT, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *TRAINER_PATHS)
        git(ROOT, "update-index", "-z", "--index-info", data=entries, **index)
        return git(ROOT, "write-tree", **index).decode().strip()


def reduced_commit(commit: str, tree: str, parent: str | None) -> str:
    """Write a commit with the message, people and dates of another one."""
    form = "%an%x00%ae%x00%aD%x00%cn%x00%ce%x00%cD%x00%B"
    fields = git(ROOT, "log", "--max-count=1", f"--format={form}", commit).decode().split("\0")
    names = ("AUTHOR_NAME", "AUTHOR_EMAIL", "AUTHOR_DATE")
    names += ("COMMITTER_NAME", "COMMITTER_EMAIL", "COMMITTER_DATE")
    people = {f"GIT_{name}": value for name, value in zip(names, fields, strict=False)}
    above = ["-p", parent] if parent else []
    message = fields[6].rstrip("\n").encode() + b"\n"
    return git(ROOT, "commit-tree", tree, *above, data=message, **people).decode().strip()


def reduced_main(tip: str) -> tuple[str, str]:
    """Return (main, the experiment's base): the trainer's history as commits of its own."""
    parent: str | None = None
    base: str | None = None
    last_tree = None
    for commit in trainer_history(tip):
        tree = reduced_tree(commit)
        body = git(ROOT, "log", "--max-count=1", "--format=%B", commit).decode()
        if not git(ROOT, "ls-tree", tree) or tree == last_tree:
            continue
        parent = reduced_commit(commit, tree, parent)
        last_tree = tree
        if BASE_TRAILER in body.splitlines():
            base = parent
    if parent is None or base is None:
        sys.exit(f"no commit with the trailer '{BASE_TRAILER}': fetch the whole history first")
    return parent, base


def experiment_body(base: str) -> bytes:
    """Return the experiment as a raw commit without its nonce, ready for one more trailer line."""
    mail = email.message_from_bytes(PATCH.read_bytes(), policy=email.policy.default)
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
        git(ROOT, "read-tree", base, **index)
        git(ROOT, "apply", "--cached", str(PATCH), **index)
        tree = git(ROOT, "write-tree", **index).decode().strip()
    seconds = int(mail["Date"].datetime.timestamp())
    person = f"{mail['From']} {seconds} +0000"
    subject = re.sub(r"^\[PATCH[^]]*\]\s*", "", str(mail["Subject"]))
    text = mail.get_content().partition("\n---\n")[0].strip()
    return (
        f"tree {tree}\nparent {base}\nauthor {person}\ncommitter {person}\n\n"
        f"{subject}\n\n{text}\n\nNonce: "
    ).encode()


def commit_id(body: bytes) -> str:
    return hashlib.sha1(b"commit %d\0" % len(body) + body).hexdigest()


def try_chunk(arguments: tuple[bytes, int]) -> str | None:
    """Return the first of a chunk's nonces, 10 hex digits each, that gives the wanted prefix."""
    body, first = arguments
    start = hashlib.sha1(b"commit %d\0" % (len(body) + 11) + body)
    wanted = bytes.fromhex(PREFIX + "0")
    for number in range(first, first + CHUNK):
        attempt = start.copy()
        attempt.update(b"%010x\n" % number)
        digest = attempt.digest()
        if digest[:3] == wanted[:3] and digest[3] >> 4 == wanted[3] >> 4:
            return f"{number:010x}"
    return None


def find_nonce(body: bytes) -> str:
    """Search nonces in order on all cores; the first one found wins."""
    chunks = ((body, first) for first in itertools.count(0, CHUNK))
    with multiprocessing.Pool() as pool:
        for tried, nonce in enumerate(pool.imap(try_chunk, itertools.islice(chunks, 1 << 14))):
            print(f"\r{(tried + 1) * CHUNK / 1e6:.0f} million tried", end="", file=sys.stderr)
            if nonce:
                print(file=sys.stderr)
                return nonce
    sys.exit("no nonce in 2**34 tries: change the message of scripts/experiment.patch by a word")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--check", action="store_true", help="compare with the bundle, write nothing"
    )
    parser.add_argument("--tip", default="HEAD", help="where to read the history from")
    options = parser.parse_args()
    trainer_main, base = reduced_main(options.tip)
    body = experiment_body(base)
    nonce = NONCE_FILE.read_text().strip() if NONCE_FILE.exists() else ""
    if not commit_id(body + f"{nonce}\n".encode()).startswith(PREFIX):
        nonce = find_nonce(body)
    commit = body + f"{nonce}\n".encode()
    tips = {"refs/heads/main": trainer_main, f"refs/heads/{EXPERIMENT}": commit_id(commit)}
    if options.check:
        listed = git(ROOT, "bundle", "list-heads", str(BUNDLE)).decode().split("\n")
        bundled = {ref: tip for tip, ref in (line.split() for line in listed if line)}
        sys.exit(None if bundled == tips else f"the bundle has {bundled}, the history gives {tips}")
    git(ROOT, "hash-object", "-t", "commit", "-w", "--stdin", data=commit)
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder)
        git(bare, "init", "--quiet", "--bare", "--initial-branch=main")
        objects = git(ROOT, "rev-parse", "--git-path", "objects").decode().strip()
        (bare / "objects/info/alternates").write_text(str(ROOT / objects) + "\n")
        for ref, tip in tips.items():
            git(bare, "update-ref", ref, tip)
        # One thread packs the same objects into the same bytes every time.
        git(bare, "-c", "pack.threads=1", "bundle", "create", "--quiet", str(BUNDLE), *tips)
    NONCE_FILE.write_text(nonce + "\n")
    print(f"{BUNDLE.relative_to(ROOT)}: main {trainer_main}, {EXPERIMENT} {commit_id(commit)}")


if __name__ == "__main__":
    main()
