from push import push
from store import stored


def glue():
    push(stored())
