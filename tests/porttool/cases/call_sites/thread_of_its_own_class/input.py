import threading

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 2)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


class Server(threading.Thread):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def run(self):
        self.model(torch.ones(3, 4))


model = torch.compile(Net())
Server(model).start()
