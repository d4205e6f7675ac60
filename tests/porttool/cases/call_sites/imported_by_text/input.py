import importlib

t = importlib.import_module("torch")
net = t.compile(t.nn.Linear(4, 2))
