"""Calls of jitted functions with many parameters in a dictionary. Exports the functions to the folder that the command line
names, for bench/function.R, and prints medians as `name microseconds`."""

import pathlib
import statistics
import sys
import time

import jax
import jax.numpy as jnp

folder = pathlib.Path(sys.argv[1])


def model(params, x):
    """As small as a program with these arguments can be, so that the call is timed."""
    return x + params["p000"] + params[max(params)]


def median_time(n, call):
    rounds = []
    for i in range(11):
        start = time.perf_counter()
        for _ in range(n):
            call()
        if i > 0:
            rounds.append((time.perf_counter() - start) * 1e6 / n)
    return statistics.median(rounds)


def measure(name, function, count):
    params = {f"p{i:03}": jnp.full((4,), 0.01, jnp.float32) for i in range(count)}
    x = jnp.full((4,), 0.01, jnp.float32)
    # all parameters are passed, as for a model that uses them all
    jitted = jax.jit(function, keep_unused=True)
    exported = jax.export.export(jitted)(params, x)
    (folder / f"{name}.jaxexport").write_bytes(exported.serialize())
    jitted(params, x).block_until_ready()
    print(name, median_time(500, lambda: jitted(params, x)))


def every(params, x):
    for p in params.values():
        x = x + p
    return x


def train(params, x):
    return {"params": {name: p * 0.5 for name, p in params.items()}, "loss": x.sum()}


def measure_step(name, count):
    """A loop that feeds donated parameters back."""
    params = {f"p{i:03}": jnp.full((4,), 0.01, jnp.float32) for i in range(count)}
    x = jnp.full((4,), 0.01, jnp.float32)
    jitted = jax.jit(train, donate_argnums=0)
    (folder / f"{name}.jaxexport").write_bytes(jax.export.export(jitted)(params, x).serialize())
    state = [params]

    def step():
        state[0] = jitted(state[0], x)["params"]

    step()
    print(name, median_time(500, step))


measure("parameters_2", model, 2)
measure("parameters_50", model, 50)
measure("parameters_200", model, 200)
measure("all_used_200", every, 200)
measure_step("step_200", 200)
