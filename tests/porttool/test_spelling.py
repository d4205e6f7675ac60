"""How a place writes an imported name, and the import that it needs for that."""

import ast

import pytest

from porttool.learning.spelling import Way, import_for, respelled, way_to_write
from porttool.source.syntax import Names

DDP = "torch.nn.parallel.DistributedDataParallel"


@pytest.mark.parametrize(
    ("origin", "written", "statement"),
    [
        ("torch.compile", "torch.compile", "import torch"),
        ("torch.compile", "th.compile", "import torch as th"),
        ("torch.compile", "compile", "from torch import compile"),
        ("torch.compile", "c", "from torch import compile as c"),
        (DDP, DDP, "import torch.nn.parallel"),
        (DDP, "DDP", "from torch.nn.parallel import DistributedDataParallel as DDP"),
        (DDP, "nn.parallel.DistributedDataParallel", "from torch import nn"),
        (DDP, "parallel.DistributedDataParallel", "from torch.nn import parallel"),
        (DDP, "tnn.parallel.DistributedDataParallel", "from torch import nn as tnn"),
    ],
)
def test_the_import_makes_the_spelling_mean_the_name(origin, written, statement):
    assert import_for(origin, written) == statement
    tree = ast.parse(statement)
    assert Names(tree).qualified(ast.parse(written, mode="eval").body, tree) == origin


@pytest.mark.parametrize(
    ("file", "spelled", "way"),
    [
        ("import torch", "torch.compile", Way("torch.compile")),
        ("import torch as th", "torch.compile", Way("th.compile")),
        ("from torch import compile as c", "torch.compile", Way("c")),
        ("import torch\nfrom torch import compile as c", "c", Way("c")),
        # What the file has costs no import; only a long chain is not worth it.
        ("import torch", "c", Way("torch.compile")),
        ("", "torch.compile", Way("torch.compile", "import torch")),
        ("", "th.compile", Way("th.compile", "import torch as th")),
        ("th = 1", "th.compile", Way("th.compile", "import torch as th", taken=True)),
        ("c = 1\nimport torch", "c", Way("torch.compile")),
    ],
)
def test_a_place_writes_it_as_the_experiment_else_as_it_can(file, spelled, way):
    tree = ast.parse(file)
    assert way_to_write(Names(tree), "torch.compile", tree, [("torch.compile", spelled)]) == way


def test_a_long_chain_gives_way_to_the_experiments_import():
    tree = ast.parse("import torch")
    statement = "from torch.nn.parallel import DistributedDataParallel as DDP"
    assert way_to_write(Names(tree), DDP, tree, [(DDP, "DDP")]) == Way("DDP", statement)
    tree = ast.parse("import torch\nDDP = 1")
    assert way_to_write(Names(tree), DDP, tree, [(DDP, "DDP")]) == Way(DDP)


def test_a_name_is_respelled_as_a_whole_only():
    text = "c(x, self.c, cc, c.c, abc(c))"
    assert respelled(text, "c", "torch.compile") == (
        "torch.compile(x, self.c, cc, torch.compile.c, abc(torch.compile))"
    )
