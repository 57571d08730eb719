"""Small programs with loops, as users of JAX write them, each awaited at once. Writes the programs and their inputs to the folder
that the command line names, for bench/waiting.R, and prints medians as `name microseconds`. Set PJRT_NAMES_AND_LIBRARY_PATHS to
run JAX on the plugin that pjrt uses."""

import pathlib
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.ode import odeint


def ppo_advantage(rewards, values):
    def step(carry, now):
        reward, value, following = now
        carry = reward + 0.99 * following - value + 0.99 * 0.95 * carry
        return carry, carry

    following = jnp.append(values[1:], 0.0)
    return lax.scan(step, 0.0, (rewards, values, following), reverse=True)[1]


def log_density(x):
    return -0.5 * jnp.sum(x**2) - jnp.sum(jnp.cos(x))


def metropolis(key, x):
    noise, accept = jax.random.split(key)
    proposal = x + 0.3 * jax.random.normal(noise, x.shape)
    better = jnp.log(jax.random.uniform(accept)) < log_density(proposal) - log_density(x)
    return jnp.where(better, proposal, x)


def oscillator(y, t, mu):
    return jnp.array([y[1], mu * (1.0 - y[0] ** 2) * y[1] - y[0]])


def ode_step(y, mu):
    return odeint(oscillator, y, jnp.array([0.0, 0.1]), mu)[1]


def lorenz(y):
    return jnp.array([10.0 * (y[1] - y[0]), y[0] * (28.0 - y[2]) - y[1], y[0] * y[1] - 8.0 / 3.0 * y[2]])


def rk4_scan(y):
    def step(y, _):
        k1 = lorenz(y)
        k2 = lorenz(y + 0.005 * k1)
        k3 = lorenz(y + 0.005 * k2)
        k4 = lorenz(y + 0.01 * k3)
        y = y + 0.01 / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return y, y

    return lax.scan(step, y, None, length=50)[1]


def hmc(key, x):
    slope = jax.grad(log_density)
    noise, accept = jax.random.split(key)
    p = jax.random.normal(noise, x.shape)

    def leap(_, state):
        x, p = state
        p = p + 0.05 * slope(x)
        x = x + 0.1 * p
        return x, p + 0.05 * slope(x)

    proposal, q = lax.fori_loop(0, 10, leap, (x, p))
    gain = log_density(proposal) - 0.5 * jnp.sum(q**2) - log_density(x) + 0.5 * jnp.sum(p**2)
    return jnp.where(jnp.log(jax.random.uniform(accept)) < gain, proposal, x)


def newton(x):
    """The number of iterations depends on the data."""

    def improve(state):
        x, _, turns = state
        step = (x * x * x - 2.0) / (3.0 * x * x)
        return x - step, jnp.max(jnp.abs(step)), turns + 1

    return lax.while_loop(lambda state: (state[1] > 1e-6) & (state[2] < 50), improve, (x, jnp.float32(1.0), 0))[0]


def kalman(observed):
    def step(state, y):
        mean, variance = state
        variance = variance + 0.1
        gain = variance / (variance + 1.0)
        mean = mean + gain * (y - mean)
        return (mean, (1.0 - gain) * variance), mean

    return lax.scan(step, (0.0, 1.0), observed)[1]


def branch(x):
    return lax.cond(jnp.sum(x) > 0, lambda x: jnp.sort(x), lambda x: -x, x)


def sort(x):
    return jnp.sort(x)


rng = np.random.default_rng(1)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


key = np.array([1, 2], np.uint32)
programs = {
    "ppo_advantage": (ppo_advantage, floats(128), floats(128)),
    "metropolis": (metropolis, key, floats(8)),
    "ode_step": (ode_step, np.array([2.0, 0.0], np.float32), np.float32(1.0)),
    "rk4_scan": (rk4_scan, np.array([1.0, 1.0, 1.0], np.float32)),
    "hmc": (hmc, key, floats(8)),
    "newton": (newton, 1.0 + np.abs(floats(8))),
    "kalman": (kalman, floats(100)),
    "branch": (branch, floats(64)),
    "sort": (sort, floats(256)),
}


def median_time(call, rounds=15, n=400):
    times = []
    for i in range(rounds + 1):
        start = time.perf_counter()
        for _ in range(n):
            call()
        if i > 0:
            times.append((time.perf_counter() - start) * 1e6 / n)
    return statistics.median(times)


folder = pathlib.Path(sys.argv[1])
for name, (function, *inputs) in programs.items():
    compiled = jax.jit(function, keep_unused=True)
    (folder / f"{name}.mlir").write_text(compiled.lower(*inputs).as_text())
    lines = [" ".join([str(x.dtype), *(repr(v) for v in np.ravel(x).tolist())]) for x in map(np.asarray, inputs)]
    (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")
    arguments = [jax.device_put(x) for x in inputs]
    print(name, median_time(lambda: compiled(*arguments).block_until_ready()), flush=True)
