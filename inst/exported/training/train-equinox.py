"""The same for equinox. The parameters are the module itself.

    pip install jax equinox optax flatbuffers
    python train-equinox.py
"""

import pickle

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax import export


class Network(eqx.Module):
    hidden: eqx.nn.Linear
    out: eqx.nn.Linear

    def __init__(self, key):
        keys = jax.random.split(key)
        self.hidden = eqx.nn.Linear(4, 16, key=keys[0])
        self.out = eqx.nn.Linear(16, 3, key=keys[1])

    def __call__(self, x):
        return self.out(jax.nn.relu(self.hidden(x)))


# every module in the parameters, and optax's states
for module in (Network, eqx.nn.Linear):
    export.register_pytree_node_serialization(
        module, serialized_name=module.__name__, serialize_auxdata=pickle.dumps, deserialize_auxdata=pickle.loads
    )
for state in (optax.ScaleByAdamState, optax.EmptyState):
    export.register_namedtuple_serialization(state, serialized_name=f"optax.{state.__name__}")

optimizer = optax.adam(0.01)


def init(key):
    network = Network(key)
    return {"network": network, "opt_state": optimizer.init(network)}


def mean_loss(network, x, species):
    return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(network)(x), species).mean()


def step(network, opt_state, x, species):
    loss, slopes = jax.value_and_grad(mean_loss)(network, x, species)
    updates, opt_state = optimizer.update(slopes, opt_state, network)
    return {"network": optax.apply_updates(network, updates), "opt_state": opt_state, "loss": loss}


def predict(network, x):
    return jax.nn.softmax(jax.vmap(network)(x))


(b,) = export.symbolic_shape("b")
x = jax.ShapeDtypeStruct((b, 4), "float32")
species = jax.ShapeDtypeStruct((b,), "int32")
key = jax.random.key(0)
state = jax.eval_shape(init, key)


def save(name, function, *args):
    exported = export.export(function, platforms=["cpu"])(*args)
    open(f"equinox-{name}.jaxexport", "wb").write(exported.serialize())


save("init", jax.jit(init), key)
save("step", jax.jit(step, donate_argnums=(0, 1)), state["network"], state["opt_state"], x, species)
save("predict", jax.jit(predict), state["network"], x)
