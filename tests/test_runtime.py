import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import jonline

ROOT = Path(__file__).parents[1]


def child(script, **variables):
    """Runs a script in a new process and returns what it prints as JSON."""
    environ = {
        name: value for name, value in os.environ.items() if name not in ("NPROC", "XLA_FLAGS")
    }
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import json, os\n" + script],
        cwd=ROOT,
        env=environ | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_configure_sets_threads_devices_and_flags():
    found = child(
        """
import jax, jonline
jonline.configure(threads=1, host_devices=3, deterministic_gpu=True)
jonline.configure(deterministic_gpu=True)
kept = len(jax.local_devices())
print(json.dumps([os.environ["NPROC"], os.environ["XLA_FLAGS"], kept, jonline.versions()]))
""",
        XLA_FLAGS="--xla_cpu_enable_fast_math=false",
    )
    loops = "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=1073741824"
    flags = f"--xla_cpu_enable_fast_math=false {loops} --xla_gpu_deterministic_ops=true"
    assert found[:3] == ["1", flags, 3]
    assert found[3]["NPROC"] == "1" and found[3]["XLA_FLAGS"] == flags
    assert found[3]["device"] == "3 x cpu"


def test_configure_without_arguments_sets_nothing_and_bad_values_neither():
    found = child(
        """
import jax, jonline
before = dict(os.environ)
jonline.configure()
errors = []
for bad in (dict(threads=0), dict(threads=1.0), dict(host_devices=0), dict(host_devices="2"),
            dict(threads=1, host_devices=-1), dict(threads=True)):
    try:
        jonline.configure(**bad)
    except (TypeError, ValueError) as error:
        errors.append(f"{type(error).__name__}: {error}")
print(json.dumps([dict(os.environ) == before, errors, len(jax.local_devices())]))
"""
    )
    same, errors, devices = found
    assert same and devices == 1
    assert errors[0] == "ValueError: threads must be >= 1, got 0"
    assert errors[1].startswith("TypeError: threads must be a Python int")
    assert errors[2] == "ValueError: host_devices must be >= 1, got 0"
    assert errors[3].startswith("TypeError: host_devices must be a Python int")
    assert errors[4] == "ValueError: host_devices must be >= 1, got -1"
    assert errors[5].startswith("TypeError: threads must be a Python int")


def test_configure_after_the_first_array_is_an_error_and_sets_nothing():
    found = child(
        """
import jax.numpy as jnp, jonline
jnp.zeros(())
before, messages = dict(os.environ), []
for settings in (dict(threads=1), dict(host_devices=2), dict(deterministic_gpu=True)):
    try:
        jonline.configure(**settings)
    except RuntimeError as error:
        messages.append(str(error))
print(json.dumps([messages, dict(os.environ) == before]))
"""
    )
    messages, same = found
    assert len(messages) == 3 and same
    assert all("comes too late" in message for message in messages)


def test_import_changes_no_setting_and_starts_no_backend():
    found = child(
        """
import jax
environ, values = dict(os.environ), dict(jax.config.values)
import jonline
same = [dict(os.environ) == environ, dict(jax.config.values) == values]
jax.config.update("jax_num_cpu_devices", 2)  # an error if the backend runs
print(json.dumps([*same, len(jax.local_devices())]))
"""
    )
    assert found == [True, True, 2]


def test_environment_reports_strings():
    found = jonline.versions()
    assert set(found) == {
        "jonline", "jax", "jaxlib", "optax", "numpy", "chex", "python", "system", "device",
        "cpu", "backend", "prng_impl", "x64", "optimization", "XLA_FLAGS", "NPROC",
    }  # fmt: skip
    assert all(type(value) is str for value in found.values())
    assert found["jonline"] == jonline.__version__


def test_versions_need_no_installed_jonline(monkeypatch):
    from importlib import metadata

    version = metadata.version
    assert jonline.versions()["jonline"] == jonline.__version__

    def missing(name):
        if name == "jonline":
            raise metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert jonline.versions()["jonline"] == "not installed"


@pytest.mark.parametrize("name", ["threads", "host_devices"])
def test_numbers_are_checked_even_when_it_is_too_late(name):
    jonline.versions()
    with pytest.raises(ValueError, match=f"{name} must be >= 1, got 0"):
        jonline.configure(**{name: 0})
