//! `chlo.mulhi`, the upper half of a product, by operations that every plugin has.

use pjrt_base::error::Result;
use pjrt_ir::module::{Attribute, Module, Operation, Tensor, Type, Value};
use pjrt_ir::text;

/// Replaces each `chlo.mulhi` of integers of fixed shape by a call of a function, one for each type.
pub(super) fn expand(module: &mut Module) -> Result<()> {
    // The types, and the text of the function for each.
    let mut functions: Vec<(&Type, String)> = Vec::new();
    let types = &module.types;
    call(&mut module.root, &mut |operand| {
        let kind = &types[operand.0 as usize];
        let at = match functions.iter().position(|(known, _)| *known == kind) {
            Some(at) => at,
            None => {
                functions.push((kind, function(&name(functions.len()), kind.as_tensor()?)?));
                functions.len() - 1
            }
        };
        Some(name(at))
    });
    let text: String = functions.into_iter().map(|(_, text)| text).collect();
    let made = text::whole(text.as_bytes())?;
    let first = module.types.len() as u32;
    module.types.extend(made.types);
    if let Some(block) = module.root.regions.first_mut().and_then(|region| region.blocks.first_mut()) {
        let functions =
            made.root.regions.into_iter().flat_map(|region| region.blocks).flat_map(|block| block.operations);
        block.operations.extend(functions.map(|mut function| {
            renumber(&mut function, first);
            function
        }));
    }
    Ok(())
}

fn name(at: usize) -> String {
    format!("pjrt.mulhi.{at}")
}

fn call(operation: &mut Operation, name: &mut impl FnMut(Value) -> Option<String>) {
    if let (&[operand, _], "chlo.mulhi") = (&operation.operands[..], &*operation.name) {
        if let Some(name) = name(operand) {
            operation.name = "func.call".into();
            operation.attributes = vec![("callee".into(), Attribute::Symbol([name.into()].into()))];
        }
    }
    operation.inner_mut().for_each(|operation| call(operation, name));
}

/// Schoolbook multiplication with digits of half the width: no product of two of them is too large for the type. `None`
/// for other arrays than of integers of a fixed size.
fn function(name: &str, tensor: &Tensor) -> Option<String> {
    let info = tensor.element.dtype()?.info();
    let is_unsigned = info.mlir.starts_with('u');
    if tensor.elements().is_none() || !(is_unsigned || info.mlir.starts_with('i')) || info.mlir == "i1" {
        return None;
    }
    let half = info.bits / 2;
    let dims: String = tensor.dims.iter().map(|dim| format!("{dim}x")).collect();
    let kind = format!("tensor<{dims}{}>", info.mlir);
    let upper = if is_unsigned { "logical" } else { "arithmetic" };
    let low = |x: &str| format!("stablehlo.and %{x}, %mask : {kind}");
    let high = |x: &str| format!("stablehlo.shift_right_{upper} %{x}, %half : {kind}");
    let product = |x: &str, y: &str| format!("stablehlo.multiply %{x}, %{y} : {kind}");
    let sum = |x: &str, y: &str| format!("stablehlo.add %{x}, %{y} : {kind}");
    let lines = [
        ("half", format!("stablehlo.constant dense<{half}> : {kind}")),
        ("mask", format!("stablehlo.constant dense<{}> : {kind}", (1u64 << half) - 1)),
        ("x0", low("x")),
        ("x1", high("x")),
        ("y0", low("y")),
        ("y1", high("y")),
        ("p00", product("x0", "y0")),
        ("p01", product("x0", "y1")),
        ("p10", product("x1", "y0")),
        ("p11", product("x1", "y1")),
        ("carry", format!("stablehlo.shift_right_logical %p00, %half : {kind}")),
        ("s", sum("p10", "carry")),
        ("s0", low("s")),
        ("s1", high("s")),
        ("t", sum("p01", "s0")),
        ("t1", high("t")),
        ("u", sum("p11", "s1")),
        ("r", sum("u", "t1")),
    ];
    let body: String = lines.iter().map(|(name, line)| format!("  %{name} = {line}\n")).collect();
    Some(format!("func.func private @{name}(%x: {kind}, %y: {kind}) -> {kind} {{\n{body}  return %r : {kind}\n}}\n"))
}

/// Adds `first` to the numbers of all values.
fn renumber(operation: &mut Operation, first: u32) {
    let add = |values: &mut Vec<Value>| values.iter_mut().for_each(|value| value.0 += first);
    add(&mut operation.operands);
    add(&mut operation.results);
    for block in operation.regions.iter_mut().flat_map(|region| &mut region.blocks) {
        add(&mut block.arguments);
        block.operations.iter_mut().for_each(|operation| renumber(operation, first));
    }
}
