import torch
from torch import nn


class Net(nn.Module):
	def __init__(self):
		super().__init__()
		self.a = nn.Linear(4, 4)
		self.b = nn.Linear(4, 2)

	def forward(self, x):
		return self.b(torch.relu(self.a(x)))


def build():
	net = Net()
	net.forward = torch.compile(net.forward)
	do = torch.compile(
		Net()
	)
	return net, do


model, other = build()
out = model(torch.ones(3, 4)) + other(torch.ones(3, 4))
