"""Whether this machine can compile what torch.compile writes for the CPU."""

from coolrl_lost_cities.games.classic.deep_cfr.errors import DeepCFRError


class CompilerMissing(DeepCFRError):
    """No C++ compiler works here; built from what torch said when it looked for one."""

    def __init__(self, found: str) -> None:
        super().__init__(
            f"no working C++ compiler ({found}); install one (Debian: apt install g++), name it "
            "in the environment variable CXX, or set compile.*.enabled to false"
        )


def require_cpp_compiler() -> str:
    """Return the compiler that torch will call; raise CompilerMissing.

    Without this, torch.compile succeeds and the first training step fails.
    """
    # Only here is torch needed, and this is a private module of 2.13: there is no public question.
    from torch._inductor.cpp_builder import get_cpp_compiler  # noqa: PLC0415
    from torch._inductor.exc import InvalidCxxCompiler  # noqa: PLC0415

    try:
        return str(get_cpp_compiler())
    except InvalidCxxCompiler as error:
        raise CompilerMissing(str(error).splitlines()[0]) from error
