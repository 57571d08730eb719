"""Gives an exported program static shapes: refine.py PROGRAM OUTPUT PLATFORM [TYPE NAME]...

PROGRAM is a portable artifact of StableHLO. PLATFORM is the value of its first argument, or -1 if it has no such argument. The
TYPEs, such as tensor<32x4xf32>, and NAMEs are those of the other arguments. Exits with 3 without JAX."""

import json
import os
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
try:
    from jax.extend import mlir
    from jax.extend.mlir import ir
    from jax.interpreters.mlir import make_ir_context
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(3)

NAME = "pjrt_dynamic_main"


def attributes(all_attributes, i):
    return str(all_attributes[i]) if all_attributes is not None else "{}"


def of_function(operation, name):
    return operation.attributes[name] if name in operation.attributes else None


def wrapper(function, platform, types, names):
    """A main function with static shapes that calls the program's own."""
    kind = function.type
    inputs, outputs = of_function(function, "arg_attrs"), of_function(function, "res_attrs")
    first = 1 if platform >= 0 else 0
    lines, arguments, values = [], [], []
    if platform >= 0:
        lines.append(f"%platform = stablehlo.constant dense<{platform}> : {kind.inputs[0]}")
        values.append("%platform")
    for i, (static, name, dynamic) in enumerate(zip(types, names, kind.inputs[first:], strict=True)):
        arguments.append(f"%x{i}: {static} {attributes(inputs, first + i)} loc({json.dumps(name)})")
        if static == str(dynamic):
            values.append(f"%x{i}")
        else:
            lines.append(f"%y{i} = stablehlo.convert %x{i} : ({static}) -> {dynamic}")
            values.append(f"%y{i}")
    count = len(kind.results)
    results = [f"{result} {attributes(outputs, i)}" for i, result in enumerate(kind.results)]
    returned = [f"%z#{i}" for i in range(count)] if count != 1 else ["%z"]
    of_inputs = ", ".join(map(str, kind.inputs))
    of_results = ", ".join(map(str, kind.results))
    called = f"%z:{count} = " if count > 1 else "%z = " if count == 1 else ""
    lines.append(f"{called}func.call @{NAME}({', '.join(values)}) : ({of_inputs}) -> ({of_results})")
    lines.append(f"func.return {', '.join(returned)}" + (f" : {of_results}" if count else ""))
    body = "\n".join(lines)
    return f"func.func public @main({', '.join(arguments)}) -> ({', '.join(results)}) {{\n{body}\n}}"


def main():
    program, output, platform, *arguments = sys.argv[1:]
    with open(program, "rb") as file:
        code = file.read()
    with make_ir_context() as context:
        module = mlir.deserialize_portable_artifact(code, context)
        module = module if isinstance(module, ir.Module) else ir.Module.parse(module)
        functions = [op for op in module.body.operations if "sym_name" in op.attributes]
        function = next(op for op in functions if ir.StringAttr(op.attributes["sym_name"]).value == "main")
        text = wrapper(function, int(platform), arguments[::2], arguments[1::2])
        function.attributes["sym_name"] = ir.StringAttr.get(NAME)
        function.attributes["sym_visibility"] = ir.StringAttr.get("private")
        whole = str(module).rstrip()
        whole = f"{whole[:-1]}\n{text}\n}}"
        static = mlir.refine_polymorphic_shapes(
            mlir_module=whole.encode(), enable_shape_assertions=True, validate_static_shapes=True, enable_shardy=True
        )
    with open(output, "wb") as file:
        file.write(static)


main()
