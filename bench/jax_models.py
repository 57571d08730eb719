"""38 models and small programs, as users of JAX write them, each awaited at once, for bench/models.R. Prints medians as
`name microseconds`. Writes the programs and their inputs to the folder that the command line names, if it is empty. Set
PJRT_NAMES_AND_LIBRARY_PATHS to run JAX on the plugin that pjrt uses."""

import pathlib
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.ode import odeint

rng = np.random.default_rng(1)
models = {}


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def model(*inputs):
    """Adds a function, with its inputs, to the models."""

    def add(function):
        models[function.__name__] = (function, inputs)
        return function

    return add


key = np.array([1, 2], np.uint32)

# ---- loops over a series ----


@model(floats(128), floats(128))
def ppo_advantage(rewards, values):
    def step(carry, now):
        reward, value, following = now
        carry = reward + 0.99 * following - value + 0.99 * 0.95 * carry
        return carry, carry

    following = jnp.append(values[1:], 0.0)
    return lax.scan(step, 0.0, (rewards, values, following), reverse=True)[1]


@model(floats(100))
def kalman(observed):
    def step(state, y):
        mean, variance = state
        variance = variance + 0.1
        gain = variance / (variance + 1.0)
        mean = mean + gain * (y - mean)
        return (mean, (1.0 - gain) * variance), mean

    return lax.scan(step, (0.0, 1.0), observed)[1]


@model(floats(8, 8), floats(8, 100))
def viterbi(transition, emission):
    def step(score, now):
        paths = score[:, None] + transition
        return jnp.max(paths, 0) + now, jnp.argmax(paths, 0)

    last, back = lax.scan(step, emission[:, 0], emission.T[1:])
    return jnp.max(last), back


@model(floats(32, 16), floats(32, 96), floats(32, 96), floats(20, 4, 32), floats(4, 32))
def gru(out, input_weights, state_weights, series, state):
    def step(h, x):
        a, b = x @ input_weights, h @ state_weights
        gate = jax.nn.sigmoid(a[:, :64] + b[:, :64])
        update, reset = gate[:, :32], gate[:, 32:]
        new = jnp.tanh(a[:, 64:] + reset * b[:, 64:])
        return update * h + (1.0 - update) * new, None

    return lax.scan(step, state, series)[0] @ out


@model(floats(32, 128), floats(32, 128), floats(20, 4, 32))
def lstm(input_weights, state_weights, series):
    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ input_weights + h @ state_weights, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((4, 32))
    return lax.scan(step, (zero, zero), series)[1]


@model(floats(10_000))
def moving_average(x):
    return jnp.cumsum(x)[100:] - jnp.cumsum(x)[:-100]


# ---- differential equations and simulation ----


def oscillator(y, t, mu):
    return jnp.array([y[1], mu * (1.0 - y[0] ** 2) * y[1] - y[0]])


@model(np.array([2.0, 0.0], np.float32), np.float32(1.0))
def ode_step(y, mu):
    return odeint(oscillator, y, jnp.array([0.0, 0.1]), mu)[1]


def lorenz(y):
    return jnp.array([10.0 * (y[1] - y[0]), y[0] * (28.0 - y[2]) - y[1], y[0] * y[1] - 8.0 / 3.0 * y[2]])


@model(np.array([1.0, 1.0, 1.0], np.float32))
def rk4_scan(y):
    def step(y, _):
        k1 = lorenz(y)
        k2 = lorenz(y + 0.005 * k1)
        k3 = lorenz(y + 0.005 * k2)
        k4 = lorenz(y + 0.01 * k3)
        y = y + 0.01 / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return y, y

    return lax.scan(step, y, None, length=50)[1]


@model(floats(64, 64), floats(64, 64))
def wave(now, before):
    around = sum(jnp.roll(now, shift, axis) for shift in (1, -1) for axis in (0, 1))
    return 2.0 * now - before + 0.1 * (around - 4.0 * now), now


@model((rng.random((128, 128)) < 0.4).astype(np.int32))
def game_of_life(alive):
    def step(alive, _):
        shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
        around = sum(jnp.roll(alive, shift, (0, 1)) for shift in shifts)
        return ((around == 3) | ((alive == 1) & (around == 2))).astype(jnp.int32), None

    return lax.scan(step, alive, None, length=10)[0]


@model(floats(100, 3), floats(100, 3))
def bodies(position, speed):
    between = position[None] - position[:, None]
    pull = between / ((between**2).sum(-1, keepdims=True) + 0.01) ** 1.5
    speed = speed + 0.01 * pull.sum(1)
    return position + 0.01 * speed, speed


@model(np.float32(0.0))
def mandelbrot(shift):
    re, im = jnp.meshgrid(jnp.linspace(-2.0, 1.0, 64) + shift, jnp.linspace(-1.0, 1.0, 64))

    def step(_, state):
        a, b, n = state
        a, b = a * a - b * b + re, 2.0 * a * b + im
        return a, b, n + (a * a + b * b < 4.0)

    zero = jnp.zeros_like(re)
    return lax.fori_loop(0, 50, step, (zero, zero, jnp.zeros(re.shape, jnp.int32)))[2]


# ---- sampling ----


def log_density(x):
    return -0.5 * jnp.sum(x**2) - jnp.sum(jnp.cos(x))


@model(key, floats(8))
def metropolis(key, x):
    noise, accept = jax.random.split(key)
    proposal = x + 0.3 * jax.random.normal(noise, x.shape)
    better = jnp.log(jax.random.uniform(accept)) < log_density(proposal) - log_density(x)
    return jnp.where(better, proposal, x)


@model(key, floats(8))
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


@model(key, floats(8))
def hmc_50(key, x):
    def draw(x, key):
        x = hmc(key, x)
        return x, x

    return lax.scan(draw, x, jax.random.split(key, 50))[1]


@model(key)
def normals(key):
    return jax.random.normal(key, (10_000,))


@model(key, np.float32(100.0), np.float32(0.2))
def option_price(key, start, volatility):
    noise = jax.random.normal(key, (5_000, 12))
    paths = start * jnp.exp(jnp.cumsum(-0.5 * volatility**2 / 12 + volatility * noise / 12**0.5, 1))
    return jnp.mean(jnp.maximum(paths[:, -1] - 100.0, 0.0))


# ---- solvers ----


@model(1.0 + np.abs(floats(8)))
def newton(x):
    """The number of iterations depends on the data."""

    def improve(state):
        x, _, turns = state
        step = (x * x * x - 2.0) / (3.0 * x * x)
        return x - step, jnp.max(jnp.abs(step)), turns + 1

    return lax.while_loop(lambda state: (state[1] > 1e-6) & (state[2] < 50), improve, (x, jnp.float32(1.0), 0))[0]


@model(floats(64, 64), floats(64))
def conjugate_gradient(a, b):
    a = a @ a.T + 64.0 * jnp.eye(64)

    def step(_, state):
        x, r, p, rr = state
        ap = a @ p
        alpha = rr / (p @ ap)
        r = r - alpha * ap
        new = r @ r
        return x + alpha * p, r, r + (new / rr) * p, new

    return lax.fori_loop(0, 20, step, (jnp.zeros(64), b, b, b @ b))[0]


@model(np.abs(floats(100, 100)), floats(100))
def power_iteration(a, v):
    def step(_, v):
        v = a @ v
        return v / jnp.linalg.norm(v)

    return lax.fori_loop(0, 30, step, v)


@model(np.abs(floats(50, 50)))
def sinkhorn(cost):
    kernel = jnp.exp(-cost)

    def step(_, state):
        u, v = state
        u = 1.0 / (kernel @ v)
        return u, 1.0 / (kernel.T @ u)

    u, v = lax.fori_loop(0, 30, step, (jnp.ones(50), jnp.ones(50)))
    return u[:, None] * kernel * v[None]


# ---- statistics ----


@model(floats(1000, 4), floats(5, 4))
def k_means(x, centers):
    def step(centers, _):
        nearest = jnp.argmin(((x[:, None] - centers[None]) ** 2).sum(-1), 1)
        members = jax.nn.one_hot(nearest, 5)
        return members.T @ x / jnp.maximum(members.sum(0), 1.0)[:, None], None

    return lax.scan(step, centers, None, length=10)[0]


@model(floats(1000, 4), floats(5, 4))
def k_means_segments(x, centers):
    nearest = jnp.argmin(((x[:, None] - centers[None]) ** 2).sum(-1), 1)
    sums = jax.ops.segment_sum(x, nearest, 5)
    counts = jax.ops.segment_sum(jnp.ones(1000), nearest, 5)
    return sums / jnp.maximum(counts, 1.0)[:, None]


@model(floats(1000), floats(3), np.abs(floats(3)) + 0.5, np.full(3, 1 / 3, np.float32))
def mixture(x, mean, sd, weight):
    density = weight * jnp.exp(-0.5 * ((x[:, None] - mean) / sd) ** 2) / sd
    share = density / density.sum(1, keepdims=True)
    total = share.sum(0)
    mean = (share * x[:, None]).sum(0) / total
    return mean, jnp.sqrt((share * (x[:, None] - mean) ** 2).sum(0) / total), total / 1000


@model(floats(200, 3), floats(50, 3))
def kernel_matrix(x, y):
    return jnp.exp(-0.5 * ((x[:, None] - y[None]) ** 2).sum(-1))


@model(floats(2000, 20), (rng.random(2000) < 0.5).astype(np.float32), floats(20))
def logistic_step(x, y, beta):
    def loss(beta):
        eta = x @ beta
        return jnp.mean(jnp.logaddexp(0.0, eta) - y * eta)

    value, slope = jax.value_and_grad(loss)(beta)
    return beta - 0.1 * slope, value


@model(floats(256))
def sort(x):
    return jnp.sort(x)


@model(floats(64))
def branch(x):
    return lax.cond(jnp.sum(x) > 0, lambda x: jnp.sort(x), lambda x: -x, x)


@model(floats(10_000))
def histogram(x):
    return jnp.zeros(50, jnp.int32).at[jnp.clip((x * 10 + 25).astype(jnp.int32), 0, 49)].add(1)


# ---- neural networks ----


def dense(n, m):
    return 0.1 * floats(n, m), np.zeros(m, np.float32)


@model(dense(32, 64), dense(64, 64), dense(64, 1), floats(64, 32), floats(64, 1))
def mlp_step(one, two, three, x, y):
    def loss(params):
        h = x
        for weights, bias in params[:-1]:
            h = jnp.tanh(h @ weights + bias)
        weights, bias = params[-1]
        return jnp.mean((h @ weights + bias - y) ** 2)

    params = (one, two, three)
    value, slope = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda p, s: p - 0.01 * s, params, slope), value


adam_params = tuple(floats(16, 16) for _ in range(10))


@model(adam_params, adam_params, tuple(np.abs(p) for p in adam_params), adam_params)
def adam(params, first, second, slopes):
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, slopes)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, slopes)
    return jax.tree.map(lambda p, m, v: p - 0.001 * m / (jnp.sqrt(v) + 1e-8), params, first, second), first, second


def convolve(x, kernel):
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@model(0.1 * floats(3, 3, 1, 8), floats(4, 16, 16, 1))
def convolution(kernel, x):
    return jax.nn.relu(convolve(x, kernel))


@model(0.1 * floats(3, 3, 1, 8), 0.1 * floats(3, 3, 8, 8), 0.1 * floats(8, 4), floats(8, 16, 16, 1), floats(8, 4))
def convolution_gradient(one, two, out, x, y):
    def loss(one, two, out):
        h = jax.nn.relu(convolve(x, one))
        h = jax.nn.relu(convolve(h, two)).mean((1, 2))
        return jnp.mean((h @ out - y) ** 2)

    return jax.grad(loss, (0, 1, 2))(one, two, out)


@model(floats(4, 32, 16), floats(4, 32, 16), floats(4, 32, 16))
def attention(q, k, v):
    return jax.nn.softmax(jnp.einsum("hqd,hkd->hqk", q, k) / 4.0) @ v


blocks = tuple(tuple(0.1 * floats(*shape) for shape in ((64, 192), (64, 64), (64, 256), (256, 64))) for _ in range(2))


def normed(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def heads(x):
    return x.reshape(x.shape[0], 4, 16).transpose(1, 0, 2)


@model(blocks, floats(32, 64))
def transformer(blocks, x):
    for qkv, out, up, down in blocks:
        q, k, v = (heads(part) for part in jnp.split(normed(x) @ qkv, 3, axis=1))
        scores = jnp.where(jnp.tril(jnp.ones((32, 32), bool)), jnp.einsum("hqd,hkd->hqk", q, k) / 4.0, -1e9)
        x = x + (jax.nn.softmax(scores) @ v).transpose(1, 0, 2).reshape(32, 64) @ out
        x = x + jax.nn.gelu(normed(x) @ up) @ down
    return x


caches = tuple((floats(4, 64, 16), floats(4, 64, 16)) for _ in range(2))


@model(blocks, caches, np.int32(10), floats(1, 64))
def decoder_step(blocks, caches, place, x):
    """One token: most inputs and outputs are the cache of keys and values."""
    new = []
    for (qkv, out, up, down), (keys, values) in zip(blocks, caches):
        q, k, v = (heads(part) for part in jnp.split(normed(x) @ qkv, 3, axis=1))
        keys = lax.dynamic_update_slice(keys, k, (0, place, 0))
        values = lax.dynamic_update_slice(values, v, (0, place, 0))
        scores = jnp.where(jnp.arange(64) <= place, jnp.einsum("hqd,hkd->hqk", q, keys) / 4.0, -1e9)
        x = x + (jax.nn.softmax(scores) @ values).transpose(1, 0, 2).reshape(1, 64) @ out
        x = x + jax.nn.gelu(normed(x) @ up) @ down
        new.append((keys, values))
    return x, new, place + 1


@model(0.1 * floats(32, 4), 0.1 * floats(4, 32, 64), 0.1 * floats(4, 64, 32), floats(64, 32))
def mixture_of_experts(router, up, down, x):
    weight, chosen = lax.top_k(jax.nn.softmax(x @ router), 2)
    gate = (jax.nn.one_hot(chosen, 4) * weight[..., None]).sum(1)
    hidden = jax.nn.relu(jnp.einsum("nd,edh->neh", x, up))
    return jnp.einsum("neh,ehd,ne->nd", hidden, down, gate)


@model(floats(500, 32), rng.integers(0, 500, (16, 20)).astype(np.int32))
def embedding(table, words):
    return table[words].mean(1)


# ---- signals ----


@model(floats(1024))
def spectrum(x):
    return jnp.abs(jnp.fft.rfft(x))


def batch_time(call, n):
    start = time.perf_counter()
    for _ in range(n):
        call()
    return (time.perf_counter() - start) * 1e6 / n


def median_time(call):
    """Of 9 batches, of 20 ms each."""
    batch_time(call, 3)
    n = max(3, int(20_000 / batch_time(call, 5)))
    return statistics.median(batch_time(call, n) for _ in range(9))


folder = pathlib.Path(sys.argv[1])
empty = not any(folder.iterdir())
for name, (function, inputs) in models.items():
    compiled = jax.jit(function, keep_unused=True)
    if empty:
        (folder / f"{name}.mlir").write_text(compiled.lower(*inputs).as_text())
        for i, x in enumerate(jax.tree.leaves(inputs)):
            np.save(folder / f"{name}-{i:03}.npy", x)
    arguments = jax.tree.map(jax.device_put, inputs)
    print(name, median_time(lambda: jax.block_until_ready(compiled(*arguments))), flush=True)
