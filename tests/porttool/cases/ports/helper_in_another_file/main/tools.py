import os
import sys

X = 1


def first():
    return sys.path


def cwd():
    return os.getcwd()
