"""Lists the experiments, or runs one: `python -m experiments [NAME [--help | options]]`.

An experiment is a file of this package with a dataclass `Options` (a subclass of `SharedOptions`)
and `main(options)`; its name is the file's. A tool has options of its own, and its `main` returns
the exit status.
"""

import ast
import os
import sys
from collections.abc import Sequence

from experiments.shared import commands

MOST_DEVICES = 4  # each compiles the programs for itself
TOOLS = ("compare",)
INTERRUPTED = 130  # exit status after Ctrl-C, as of a shell


def names() -> list[str]:
    """Returns the names of all experiments, sorted; the tools are none."""
    return [name for name in commands.paths() if name not in TOOLS]


def listing() -> str:
    """Returns a line for each experiment and tool: its name, the first line of its docstring."""
    width = max(map(len, names()))
    lines = []
    paths = commands.paths()
    for name in (*names(), *TOOLS):
        source = ast.parse(paths[name].read_text(encoding="utf-8"))
        summary = (ast.get_docstring(source) or "").partition("\n")[0]
        lines.append(f"  {name:{width}}  {summary}")
    return "\n".join(lines)


def main(arguments: Sequence[str], *, own_process: bool = False) -> int:
    """Runs the command line; returns the exit status.

    In a process of its own it first sets JAX up for sweeps: CPU devices with one thread each.
    """
    usage = "usage: python -m experiments NAME [--help | options]\n\n" + listing()
    if not arguments or arguments[0] in ("-h", "--help"):
        print(usage)
        return 0
    name, *rest = arguments
    if name not in (*names(), *TOOLS):
        return _fail(f"there is no experiment {name!r}\n{usage}")
    written = []
    try:
        import tyro

        from experiments.shared import outputs

        written = outputs.written
        written.clear()
        module = commands.load(name)
        options = tyro.cli(
            module.Options,
            prog=f"python -m experiments {name}",
            description=module.__doc__,
            args=rest,
            config=(tyro.conf.FlagCreatePairsOff,),
        )
        if name in TOOLS:
            return module.main(options)
        if own_process:
            import jonline

            jonline.configure(threads=1, host_devices=min(MOST_DEVICES, os.cpu_count() or 1))
            _join_others()
        options.folder()  # a bad one is found before anything is played
        module.main(options)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in ("jonline", "experiments"):
            raise
        return _fail(f'{name} needs the package {error.name}: pip install -e ".[all]"')
    except (ImportError, OSError, ValueError) as error:
        return _fail(str(error))
    except KeyboardInterrupt:
        what = "not all" if written else "nothing"
        print(f"\ninterrupted; {what} was written", file=sys.stderr)  # below a bar
        return INTERRUPTED
    return 0


def _join_others() -> None:
    """Joins the processes that the environment names, or the tasks of a Slurm job step."""
    import jonline

    named = [os.environ.get(f"JONLINE_{name}") for name in ("COORDINATOR", "PROCESSES", "PROCESS")]
    coordinator, num_processes, process_id = named
    if coordinator and num_processes and process_id:
        jonline.join(coordinator, int(num_processes), int(process_id))
    elif any(named):
        raise ValueError("JONLINE_COORDINATOR, JONLINE_PROCESSES, JONLINE_PROCESS: all or none")
    elif int(os.environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
        jonline.join()


def _fail(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    status = main(sys.argv[1:], own_process=True)
    if status == INTERRUPTED:  # without waiting for threads that still play
        sys.stdout.flush()
        os._exit(status)
    sys.exit(status)
