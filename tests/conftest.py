"""What all tests share: their order, and what the garbage collector looks at.

The long ones come first, then what runs the documentation, then the rooms. `make test` gives each
of two processes one half, and who is done takes over from the other's end: a kernel, a browser or a
pool that a file's tests share is mostly made by one of them only, and no long test at the end keeps
one of them waiting.
"""

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("no deadline", deadline=None)  # a busy machine is no fault of an example
settings.load_profile("no deadline")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector from what is imported for the tests, half a million objects.

    It took a fifth of the time in which the tests are found.
    """
    usual = gc.get_threshold()
    gc.set_threshold(0)  # what is imported may switch the collector on and off
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*usual)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=place)


def place(item: pytest.Item) -> tuple[bool, bool, str]:
    """Return where a test comes; those of one place stay in their order."""
    room = item.path.parent.name
    return item.get_closest_marker("slow") is None, room != "tests", room
