"""Calls that wrap an object, and how what they return differs from what they were given: a table.

A row is what porttool knows of one wrapper beforehand; `wrapper:` in `port.yaml` picks a row by its
callee, says otherwise where a project differs, and describes wrappers that no row is about.
"""

from __future__ import annotations

from porttool.frozen import dataclass

# What reads or writes the keys of a module's state.
KEYED_METHODS = (
    "state_dict",
    "load_state_dict",
    "named_parameters",
    "named_buffers",
    "named_modules",
    "named_children",
)

# The public names of a torch module: a wrapper that is a module answers to these itself.
_OF_EVERY_MODULE = """
T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double
dump_patches eval extra_repr float forward get_buffer get_extra_state get_parameter
get_submodule half ipu load_state_dict modules mtia named_buffers named_children named_modules
named_parameters parameters register_backward_hook register_buffer register_forward_hook
register_forward_pre_hook register_full_backward_hook register_full_backward_pre_hook
register_load_state_dict_post_hook register_load_state_dict_pre_hook register_module
register_parameter register_state_dict_post_hook register_state_dict_pre_hook requires_grad_
set_extra_state set_submodule share_memory state_dict to to_empty train training type xpu
zero_grad
"""
MODULE_NAMES = frozenset(_OF_EVERY_MODULE.split())


@dataclass(frozen=True)
class Wrapper:
    """The call that wraps an object, and how what it returns differs from what it was given.

    `callee` is its name in full, `aliases` other names of the same thing. `unwrap` is the attribute
    with the object inside, empty where there is none; `prefix` is what the keys of its state gain.
    `methods` are those whose results change. `types` are the classes that tell a wrapped object by
    `isinstance`. `adds` are attributes of its own; where `hides` is set, none of the object's own
    are reached through it, but for those of every module. `twice` and `copied` say what wrapping a
    wrapped object and a deep copy lead to.
    """

    callee: str = "torch.compile"
    unwrap: str = "_orig_mod"
    prefix: str = "_orig_mod."
    methods: tuple[str, ...] = KEYED_METHODS
    aliases: tuple[str, ...] = ()
    types: tuple[str, ...] = ("OptimizedModule",)
    adds: tuple[str, ...] = ()
    hides: bool = False
    twice: str = "wrapped twice: the result is a bare function without `state_dict`"
    copied: str = "the copy is wrapped too, and compiles again: copy the unwrapped module"

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names of the wrapper in full, none of which is the end of a later one."""
        return tuple(sorted((self.callee, *self.aliases), key=len, reverse=True))

    def is_called(self, origin: str | None) -> bool:
        """Tell whether a name in full, as a file's imports give it, is this wrapper.

        A relative import (".ema.EMA") counts where the callee ends in it.
        """
        if origin is None:
            return False
        if origin.startswith("."):
            inside = origin.lstrip(".")
            return self.callee == inside or self.callee.endswith(f".{inside}")
        return origin == self.callee or origin in self.aliases

    def is_defined(self, path: str, name: str) -> bool:
        """Tell whether this wrapper is what a file of the project defines under a name."""
        home = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return f".{home}.{name}".endswith(f".{self.callee}")


_PARALLEL = (
    "wrapped twice: the keys carry `module.` twice, and one unwrapping does not reach the module"
)

TABLE = (
    Wrapper(),
    Wrapper(
        callee="torch.nn.DataParallel",
        unwrap="module",
        prefix="module.",
        aliases=(
            "torch.nn.parallel.DataParallel",
            "torch.nn.parallel.data_parallel.DataParallel",
        ),
        types=("DataParallel", "DistributedDataParallel"),
        adds=("device_ids", "dim", "gather", "output_device", "parallel_apply", "replicate"),
        hides=True,
        twice=_PARALLEL,
        copied="the copy is wrapped too: copy the module inside",
    ),
    Wrapper(
        callee="torch.nn.parallel.DistributedDataParallel",
        unwrap="module",
        prefix="module.",
        aliases=("torch.nn.parallel.distributed.DistributedDataParallel",),
        types=("DataParallel", "DistributedDataParallel"),
        adds=("device_ids", "join", "no_sync", "output_device", "register_comm_hook"),
        hides=True,
        twice=_PARALLEL,
        copied="the copy is wrapped too, without the hooks that average gradients",
    ),
    Wrapper(
        callee="torch.jit.script",
        unwrap="",
        prefix="",
        methods=(),
        types=("ScriptModule", "RecursiveScriptModule"),
        adds=("code", "graph", "original_name", "save"),
        hides=True,
        twice="wrapped twice: a scripted module comes back as it is",
        copied="the copy is scripted too",
    ),
    Wrapper(
        # What comes back is a function: `functools.wraps` leaves the module in `__wrapped__`.
        callee="torch.autocast",
        unwrap="__wrapped__",
        prefix="",
        methods=(*KEYED_METHODS, "parameters", "eval", "train", "to"),
        aliases=(
            "torch.amp.autocast",
            "torch.amp.autocast_mode.autocast",
            "torch.cuda.amp.autocast",
        ),
        types=(),
        hides=True,
        twice="wrapped twice: only the inner autocast has a say",
        copied="a function is copied as itself: both names hold one module",
    ),
)


def known_wrapper(callee: str) -> Wrapper | None:
    """Return the row of a callee under any of its names, None where the table has none."""
    return next((row for row in TABLE if row.is_called(callee)), None)
