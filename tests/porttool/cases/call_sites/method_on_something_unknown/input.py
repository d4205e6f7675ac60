import torch


def prepare(model, **options):
    model.compile(mode="max-autotune")
    return model
