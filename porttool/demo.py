"""A repository with a stale experiment, written to try everything on.

It is the trainer of this very project before the port, from the bundle that comes with the port:
`main` has moved on, `experiments/torch-compile` has not.
"""

from __future__ import annotations

from pathlib import Path

from porttool.errors import RepositoryError
from porttool.git.commits import CommitId, Signature
from porttool.git.plumbing import Git
from porttool.git.publish import RefUpdate, publish
from porttool.git.quarantine import Quarantine
from porttool.git.repo import Identity, Repository, open_repository
from porttool.plan.plan import PLAN_NAME, load_plan

PORT = "torch-compile"
_NOBODY = Identity("porttool demo", "demo@porttool.invalid")


def demo_port() -> Path:
    """Return the folder of the port that the demo is about, in the checkout or the package."""
    package = Path(__file__).resolve().parent
    for folder in (package.parent / "patches" / PORT, package / "_demo" / PORT):
        if (folder / PLAN_NAME).is_file():
            return folder
    raise RepositoryError(
        "this installation has no demo",
        where=str(package),
        why="neither a checkout's patches folder nor the packaged copy of it is there",
        next="pip install --force-reinstall porttool",
    )


def write_demo(folder: Path) -> None:
    """Write the repository and check out its main.

    Raises RepositoryError when the folder holds anything; then it is left as it is.
    """
    try:
        full = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise _no_folder(folder, error) from error
    if full:
        raise RepositoryError(
            f"{folder} is not empty",
            where=str(folder),
            why="a demo is a repository of its own",
            next="name a folder that does not exist",
        )
    port = demo_port()
    plan = load_plan(port / PLAN_NAME)
    assert plan.bundle_path is not None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _no_folder(folder, error) from error
    git = Git(folder)
    git.run("init", "--quiet", "--initial-branch=main", "--template=", "--", str(folder.resolve()))
    with open_repository(folder) as repo:
        identity = _identity(repo)
        with Quarantine(repo) as quarantine:
            heads = quarantine.unbundle(plan.bundle_path)
            main = heads["refs/heads/main"]
            files = {
                f"patches/{PORT}/{path.name}": path.read_bytes()
                for path in sorted(port.iterdir())
                if path.suffix in (".yaml", ".patch")
            }
            facts = quarantine.commit(main)
            who: Signature = identity.at(facts.committed.seconds)
            with_port = quarantine.write_commit(
                quarantine.write_tree(facts.tree, dict(files)),
                [main],
                author=who.raw(),
                committer=who.raw(),
                message=f"patches: the port of {plan.experiment.branch}, not applied\n".encode(),
            )
            experiment = heads[f"refs/heads/{plan.experiment.branch}"]
            _publish(repo, quarantine, with_port, experiment, plan.experiment.branch)
    git.run("reset", "--quiet", "--hard", "main")


def _no_folder(folder: Path, error: OSError) -> RepositoryError:
    return RepositoryError(
        f"the folder {folder} cannot be made",
        where=str(error.filename or folder),
        why=error.strerror or str(error),
        next="name a folder in a place where you may write, such as: porttool demo ~/porttool-demo",
    )


def _publish(
    repo: Repository, quarantine: Quarantine, main: CommitId, experiment: CommitId, branch: str
) -> None:
    updates = [
        RefUpdate("refs/heads/main", None, main),
        RefUpdate(f"refs/heads/{branch}", None, experiment),
    ]
    publish(repo, quarantine, updates, reason="porttool demo")


def _identity(repo: Repository) -> Identity:
    """Return who the user is; where git does not know, the demo's repository gets a name."""
    try:
        return repo.identity()
    except RepositoryError:
        repo.git.run("config", "user.name", _NOBODY.name)
        repo.git.run("config", "user.email", _NOBODY.email)
        return _NOBODY
