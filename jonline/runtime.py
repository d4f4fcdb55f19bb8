"""Process settings that are made on purpose and before JAX starts, and a report of those in force.

Nothing is switched when jonline is imported.
"""

import os
import platform
from importlib import metadata

import jax

from jonline import checks

_PACKAGES = ("jax", "jaxlib", "optax", "numpy", "chex")
_DETERMINISTIC = "--xla_gpu_deterministic_ops=true"
# XLA compiles a loop that touches fewer bytes, 1 024 by default, into one kernel.
_EXTRA = "--xla_backend_extra_options"
_WHOLE_LOOPS = f"{_EXTRA}=xla_cpu_small_while_loop_byte_threshold={1 << 30}"
_OPTIMIZATION = (  # how far programs are optimised, which their text does not show
    "jax_disable_most_optimizations",
    "jax_exec_time_optimization_effort",
    "jax_memory_fitting_effort",
    "jax_memory_fitting_level",
    "jax_optimization_level",
)
_VECTORS = ("sse", "ssse", "avx", "fma", "f16c", "bmi", "amx")  # what x86 computes in vectors with


def configure(
    *,
    threads: int | None = None,
    host_devices: int | None = None,
    deterministic_gpu: bool = False,
    cache: str | os.PathLike | None = None,
) -> None:
    """Sets up JAX's backend for sweeps; call it before the first array is made.

    On a CPU, XLA splits even small operations over a pool of threads in every round, which costs
    more than it brings. `threads=1` stops that, and `host_devices=2` lets two blocks of lanes run
    side by side instead.

    With `threads` set, XLA also compiles the loop over rounds into one kernel instead of one for
    each few operations, 1.2 to 3 times as fast for few lanes or a large model: a flag of XLA for
    all programs of the process, which is part of a checkpoint's fingerprint (docs/reproducibility).

    Args:
      threads: size of XLA's thread pool on the CPU, >= 1 (environment variable NPROC); None leaves
        it, and the loops. An `--xla_backend_extra_options` of your own in XLA_FLAGS stays.
      host_devices: number of CPU devices, >= 1, e.g. one for each core; None leaves it.
      deterministic_gpu: add the XLA flag `--xla_gpu_deterministic_ops=true`, which makes repeated
        runs on one kind of GPU equal. Equality of a GPU with a CPU is not promised.
      cache: a folder in which JAX keeps compiled programs, so that another process that needs the
        same need not compile it again; None keeps none.

    Raises:
      TypeError, ValueError: if a number is not an integer >= 1.
      RuntimeError: if JAX's backend runs already, so that settings would have no effect.
    """
    if threads is not None:
        checks.at_least("threads", threads, 1)
    if host_devices is not None:
        checks.at_least("host_devices", host_devices, 1)
    devices = jax.config.values["jax_num_cpu_devices"]
    try:
        jax.config.update("jax_num_cpu_devices", devices + 1)  # to another value: JAX may refuse it
    except RuntimeError as error:
        raise RuntimeError(
            "configure() comes too late: JAX's backend runs already. Call it before the first JAX "
            "array is made, or in a new process."
        ) from error
    jax.config.update("jax_num_cpu_devices", host_devices or devices)
    if threads is not None:
        os.environ["NPROC"] = str(threads)
        _add_flag(_WHOLE_LOOPS)
    if cache is not None:
        jax.config.update("jax_compilation_cache_dir", str(checks.path("cache", cache)))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    if deterministic_gpu:
        _add_flag(_DETERMINISTIC)


def _add_flag(flag: str) -> None:
    """Adds a flag to XLA_FLAGS, unless that sets it already."""
    flags = os.environ.get("XLA_FLAGS", "")
    if flag.partition("=")[0] not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} {flag}".strip()


def join(
    coordinator: str | None = None, num_processes: int | None = None, process_id: int | None = None
) -> None:
    """Makes this process one of several that share the blocks of every sweep.

    Call it in each of them, after `configure` and before the first array is made, and then the same
    sweeps in the same order: each plays its own blocks on its own devices, and all get all results.

    Args:
      coordinator: "host:port" of process 0, free there.
      num_processes: P >= 1.
      process_id: 0…P - 1, of this process.
        All three None: as Slurm, Open MPI or the cloud's metadata say.

    Raises:
      TypeError, ValueError: if only some are given, or a number is out of range.
      RuntimeError: if JAX's backend runs already, or the others do not come.
    """
    if coordinator is None and num_processes is None and process_id is None:
        jax.distributed.initialize()
        return
    if coordinator is None or num_processes is None or process_id is None:
        raise ValueError("coordinator, num_processes and process_id must be given all or none")
    if not isinstance(coordinator, str):
        raise TypeError(f'coordinator must be "host:port", got {coordinator!r}')
    host, _, port = coordinator.rpartition(":")
    known = bool(host) and port.isdecimal()
    checks.require(known, "coordinator", 'be "host:port"', repr(coordinator))
    checks.at_least("num_processes", num_processes, 1)
    checks.at_least("process_id", process_id, 0)
    checks.require(process_id < num_processes, "process_id", f"be < {num_processes}", process_id)
    jax.distributed.initialize(coordinator, num_processes, process_id)


def versions() -> dict[str, str]:
    """Returns what can influence bits and speed: versions, devices, CPU, flags, kind of keys.

    Starts JAX's backend if it does not run yet.
    """
    devices = jax.local_devices()
    return {name: _version(name) for name in ("jonline", *_PACKAGES)} | {
        "python": platform.python_version(),
        "system": platform.platform(),
        "device": f"{len(devices)} x {devices[0].device_kind}",
        "cpu": _cpu(),
        "backend": jax.default_backend(),
        "prng_impl": str(jax.config.values["jax_default_prng_impl"]),
        "x64": str(jax.config.values["jax_enable_x64"]),
        "optimization": " ".join(str(jax.config.values.get(name)) for name in _OPTIMIZATION),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
        "NPROC": os.environ.get("NPROC", ""),
    }


def settings() -> dict[str, str]:
    """Returns JAX's settings, those of this thread."""
    values = jax.config.values
    return {name: str(getattr(jax.config, name, values[name])) for name in sorted(values)}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # a checkout on the path
        return "not installed"


def _cpu() -> str:
    """Returns the maker and family of the CPU and what it computes in vectors with."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            first = file.read().partition("\n\n")[0]
    except OSError:
        return platform.processor() or platform.machine()
    pairs = [line.partition(":")[::2] for line in first.splitlines()]
    known = {name.strip(): value.strip() for name, value in pairs}
    names = ("vendor_id", "cpu family", "CPU implementer", "CPU architecture")
    features = known.get("Features", "").split()  # of ARM
    features += [flag for flag in known.get("flags", "").split() if flag.startswith(_VECTORS)]
    return " ".join([*(known[name] for name in names if name in known), *sorted(features)])
