"""A flax network that R trains with optax. Writes three functions to the current folder: the first state, a step of the
training, and the prediction.

    pip install jax flax optax flatbuffers
    python train-flax.py
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from jax import export

# jax.export writes tuples, lists and dictionaries. It must be told the names of other types: here, of optax's states.
for state in (optax.ScaleByAdamState, optax.EmptyState):
    export.register_namedtuple_serialization(state, serialized_name=f"optax.{state.__name__}")


class Network(nn.Module):
    @nn.compact
    def __call__(self, x, training):
        x = nn.relu(nn.Dense(16)(x))
        x = nn.Dropout(0.1, deterministic=not training)(x)
        return nn.Dense(3)(x)


network = Network()
optimizer = optax.adam(0.01)


def init(key):
    params = network.init(key, jnp.zeros((1, 4)), training=False)["params"]
    return {"params": params, "opt_state": optimizer.init(params), "key": key}


def step(params, opt_state, key, x, species):
    key, noise = jax.random.split(key)

    def mean_loss(params):
        scores = network.apply({"params": params}, x, training=True, rngs={"dropout": noise})
        return optax.softmax_cross_entropy_with_integer_labels(scores, species).mean()

    loss, slopes = jax.value_and_grad(mean_loss)(params)
    updates, opt_state = optimizer.update(slopes, opt_state, params)
    return {"params": optax.apply_updates(params, updates), "opt_state": opt_state, "key": key, "loss": loss}


def predict(params, x):
    return jax.nn.softmax(network.apply({"params": params}, x, training=False))


# shapes: a batch of any size
(b,) = export.symbolic_shape("b")
x = jax.ShapeDtypeStruct((b, 4), "float32")
species = jax.ShapeDtypeStruct((b,), "int32")
key = jax.random.key(0)
state = jax.eval_shape(init, key)


def save(name, function, *args):
    exported = export.export(function, platforms=["cpu"])(*args)
    open(f"flax-{name}.jaxexport", "wb").write(exported.serialize())


# the step reuses the memory of the parameters, of the optimizer's state and of the key
save("init", jax.jit(init), key)
save("step", jax.jit(step, donate_argnums=(0, 1, 2)), state["params"], state["opt_state"], state["key"], x, species)
save("predict", jax.jit(predict), state["params"], x)
