"""The same for PyTorch. torchax turns a module into a function of JAX, so that optax can train its weights.

    pip install torchax "torch<2.13" jax optax flatbuffers
    python train-torch.py
"""

import jax
import optax
import torch
import torchax
from jax import export

for state in (optax.ScaleByAdamState, optax.EmptyState):
    export.register_namedtuple_serialization(state, serialized_name=f"optax.{state.__name__}")

torch.manual_seed(1)
network = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
weights, forward = torchax.extract_jax(network)
optimizer = optax.adam(0.01)


def init():
    return {"weights": weights, "opt_state": optimizer.init(weights)}


def mean_loss(weights, x, species):
    return optax.softmax_cross_entropy_with_integer_labels(forward(weights, (x,)), species).mean()


def step(weights, opt_state, x, species):
    loss, slopes = jax.value_and_grad(mean_loss)(weights, x, species)
    updates, opt_state = optimizer.update(slopes, opt_state, weights)
    return {"weights": optax.apply_updates(weights, updates), "opt_state": opt_state, "loss": loss}


def predict(weights, x):
    return jax.nn.softmax(forward(weights, (x,)))


(b,) = export.symbolic_shape("b")
x = jax.ShapeDtypeStruct((b, 4), "float32")
species = jax.ShapeDtypeStruct((b,), "int32")
state = jax.eval_shape(init)


def save(name, function, *args):
    exported = export.export(function, platforms=["cpu"])(*args)
    open(f"torch-{name}.jaxexport", "wb").write(exported.serialize())


# the first state contains the weights that PyTorch drew
save("init", jax.jit(init))
save("step", jax.jit(step, donate_argnums=(0, 1)), state["weights"], state["opt_state"], x, species)
save("predict", jax.jit(predict), state["weights"], x)
