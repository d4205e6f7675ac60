import os


def cwd():
    return os.getcwd()
