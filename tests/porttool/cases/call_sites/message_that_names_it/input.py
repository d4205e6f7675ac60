import sys

sys.stdout.write("torch.compile(model) takes a while at first\n")
