"""Calls of jitted functions with many parameters in a dictionary, and steps of a convolutional network. Exports the functions to
the folder that the command line names, for bench/function.R, and prints medians as `name microseconds`. Set
PJRT_NAMES_AND_LIBRARY_PATHS to run JAX on the plugin that pjrt uses."""

import pathlib
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

folder = pathlib.Path(sys.argv[1])


def export(name, jitted, *args):
    (folder / f"{name}.jaxexport").write_bytes(jax.export.export(jitted, platforms=["cpu"])(*args).serialize())


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
    export(name, jitted, params, x)
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
    export(name, jitted, params, x)
    state = [params]

    def step():
        state[0] = jitted(state[0], x)["params"]

    step()
    print(name, median_time(500, step))


def cnn_loss(params, x, y):
    for layer in ("conv1", "conv2"):
        x = jax.lax.conv_general_dilated(
            x, params[layer], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        x = jax.lax.reduce_window(jax.nn.relu(x), -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    logits = x.reshape(x.shape[0], -1) @ params["dense"]
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * y, axis=1))


def cnn_train(params, x, y):
    loss, gradient = jax.value_and_grad(cnn_loss)(params, x, y)
    return {"params": {name: p - 0.01 * gradient[name] for name, p in params.items()}, "loss": loss}


def measure_cnn(name):
    """A network for images of 28x28, each step awaited."""
    shapes = {"conv1": (3, 3, 1, 16), "conv2": (3, 3, 16, 32), "dense": (7 * 7 * 32, 10)}
    params = {layer: jnp.full(shape, 0.01, jnp.float32) for layer, shape in shapes.items()}
    x, y = jnp.full((32, 28, 28, 1), 0.01, jnp.float32), jnp.full((32, 10), 0.01, jnp.float32)
    jitted = jax.jit(cnn_train, donate_argnums=0)
    export(name, jitted, params, x, y)
    state = [params]

    def step():
        out = jitted(state[0], x, y)
        state[0] = out["params"]
        out["loss"].block_until_ready()

    step()
    print(name, median_time(10, step))


def measure_memory(name):
    """A copy of 40 MB, which shows how busy the machine is."""
    source, target = np.ones(10_000_000, np.float32), np.empty(10_000_000, np.float32)
    print(name, median_time(5, lambda: np.copyto(target, source)))


measure("parameters_2", model, 2)
measure("parameters_50", model, 50)
measure("parameters_200", model, 200)
measure("all_used_200", every, 200)
measure_step("step_200", 200)
measure_cnn("cnn_step")
measure_memory("memcpy_40mb")
