import argparse

from train import Learner


def main(argv=None):
    parser = argparse.ArgumentParser()
    optim = parser.add_argument_group("optimizer")
    parser.add_argument("--width", type=int, default=4)
    optim.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args(argv)
    return Learner(args).save()
