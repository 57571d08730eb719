//! A program as a portable artifact, for plugins that read no other form.

use super::{older, OLDEST};
use crate::program::stablehlo::Versions;
use crate::program::{Format, Program};
use pjrt_base::error::Result;
use pjrt_ir::module::annotations::PARTITIONS;
use pjrt_ir::module::{Attribute, Name, Operation, Value};
use std::collections::HashMap;

impl Program {
    /// Whether it is a portable artifact, or an HLO module, which has no other form.
    pub fn is_portable(&self) -> bool {
        self.format() != Format::Mlir || self.stablehlo_version().is_some()
    }

    /// The program as a portable artifact, in words of `versions`, those that the plugin reads. `None` if it is one.
    ///
    /// # Errors
    /// `UnsupportedProgram`, which names the operation, for what has no portable form; `ProgramVersion` for what is too new.
    pub fn to_portable(&self, versions: Option<Versions>) -> Result<Option<Program>> {
        if self.is_portable() {
            return Ok(None);
        }
        let mut module = self.whole_module("The plugin reads programs only as portable artifacts")?;
        older::make_older(&mut module, versions.map_or(OLDEST, |versions| versions.current), false)?;
        let count = module.root.attribute(PARTITIONS).and_then(Attribute::as_integer);
        if count.is_none_or(|count| count <= 1) && !module.root.contains(BY_HAND) {
            without_shardings(&mut module.root, &mut HashMap::new());
        }
        Program::new(module.artifact()?, Format::Mlir).map(Some)
    }
}

/// What is divided by hand, along a mesh that must stay.
const BY_HAND: &str = "sdy.manual_computation";

/// Leaves out what Shardy says about a program for one device. `sources`: the values that others are equal to.
fn without_shardings(operation: &mut Operation, sources: &mut HashMap<Value, Value>) {
    let is_other = |(name, _): &(Name, Attribute)| !name.starts_with("sdy.");
    operation.attributes.retain(is_other);
    for key in ["arg_attrs", "res_attrs"] {
        let Some(Attribute::Array(items)) = operation.attribute(key) else { continue };
        let item = |item: &Attribute| match item {
            Attribute::Dictionary(pairs) => {
                Attribute::Dictionary(pairs.iter().filter(|pair| is_other(pair)).cloned().collect())
            }
            other => other.clone(),
        };
        let items = items.iter().map(item).collect();
        operation.set(key, Attribute::Array(items));
    }
    for block in operation.blocks_mut() {
        block.operations.retain_mut(|operation| {
            for operand in &mut operation.operands {
                *operand = sources.get(operand).copied().unwrap_or(*operand);
            }
            without_shardings(operation, sources);
            match &*operation.name {
                "sdy.mesh" | "sdy.sharding_group" => false,
                "sdy.sharding_constraint" | "sdy.reshard" => {
                    sources.extend(operation.results.iter().copied().zip(operation.operands.iter().copied()));
                    false
                }
                _ => true,
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pjrt_base::error::Kind;
    use pjrt_ir::module::Module;

    /// The text of the artifact of a program with these lines.
    fn written(attributes: &str, lines: &str) -> Result<String> {
        let text = format!(
            "module attributes {{{attributes}}} {{\n  sdy.mesh @mesh = <[\"x\"=2]>\n  func.func @main(%x: tensor<4xf32> {{sdy.sharding = \
             #sdy.sharding<@mesh, [{{\"x\"}}]>}}) -> tensor<4xf32> {{\n{lines}\n    return %x : tensor<4xf32>\n  }}\n}}"
        );
        let artifact = Program::new(text.into_bytes(), Format::Mlir)?.to_portable(None)?.unwrap();
        let module = Module::decode(artifact.code())?;
        assert!(module.artifact()? == artifact.code());
        module.text()
    }

    const PARTS: &str = "mhlo.num_partitions = 2 : i32, x.size = 1.5 : f32";

    #[test]
    fn operations_of_other_dialects_keep_their_form() {
        let text = written(
            PARTS,
            "%0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{\"x\"}]>] out_shardings=[<@mesh, [{\"x\"}]>] \
             manual_axes={\"x\"} (%y: tensor<2xf32>) {\n      %1 = chlo.erf %y : tensor<2xf32> -> tensor<2xf32>\n      %2 = \
             stablehlo.add %1, %y : tensor<2xf32>\n      sdy.return %2 : tensor<2xf32>\n    } : (tensor<4xf32>) -> tensor<4xf32>\n    \
             %3:2 = chlo.top_k(%0, k = 2) : tensor<4xf32> -> (tensor<2xf32>, tensor<2xi32>)",
        )
        .unwrap();
        for part in [
            "x.size = 1.5 : f32",
            "mesh = #sdy.mesh<[\"x\"=2]>",
            "{sdy.sharding = #sdy.sharding<@mesh, [{\"x\"}]>}",
            "\"sdy.manual_computation\"(%x)",
            "in_shardings = #sdy.sharding_per_value<[<@mesh, [{\"x\"}]>]>",
            "manual_axes = #sdy<manual_axes{\"x\"}>",
            "k = 2 : i64",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("cast"), "{text}");
    }

    #[test]
    fn a_program_for_one_device_has_no_shardings() {
        let constraint =
            "%0 = sdy.sharding_constraint %x <@mesh, [{\"x\"}]> : tensor<4xf32>\n    sdy.sharding_group %0 \
                          group_id=1 : tensor<4xf32>\n    %1 = stablehlo.tanh %0 : tensor<4xf32>";
        let text = written("", constraint).unwrap();
        assert!(text.contains("stablehlo.tanh %x") && !text.contains("sdy"), "{text}");
        let text = written(PARTS, constraint).unwrap();
        assert!(text.contains("\"sdy.sharding_constraint\"") && text.contains("group_id = 1 : i64"), "{text}");
    }

    #[test]
    fn groups_along_a_mesh_become_lists() {
        let reduction = "%0 = \"stablehlo.all_reduce\"(%x) <{replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, \
                         axes = [#stablehlo.axis_ref<name = \"x\">]>}> ({\n    ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n      %1 = \
                         stablehlo.add %a, %b : tensor<f32>\n      stablehlo.return %1 : tensor<f32>\n    }) : (tensor<4xf32>) -> \
                         tensor<4xf32>";
        assert!(written(PARTS, reduction).unwrap().contains("replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"));
    }

    #[test]
    fn names_of_attributes_and_types_and_numbers_at_the_end_are_in_their_places() {
        let named = "#lt = #stablehlo<comparison_direction LT>\n!t = tensor<2xi32>\n#places = loc(\"a\")\nmodule {\n  func.func \
                     @main(%x: !t) -> tensor<2xi1> {\n    %c = stablehlo.constant dense_resource<numbers> : tensor<2xi32>\n    %0 = \
                     \"stablehlo.compare\"(%x, %c) <{comparison_direction = #lt}> : (!t, !t) -> tensor<2xi1> loc(#places)\n    \
                     return %0 : tensor<2xi1>\n  }\n}\n{-#\n  dialect_resources: {\n    builtin: {\n      numbers: \
                     \"0x040000000100000002000000\"\n    }\n  }\n#-}\n";
        let text = |text: String| {
            let artifact = Program::new(text.into_bytes(), Format::Mlir)?.to_portable(None)?.unwrap();
            Module::decode(artifact.code())?.text()
        };
        let found = text(named.to_owned()).unwrap();
        for part in ["dense<[1, 2]> : tensor<2xi32>", "compare"] {
            assert!(found.contains(part), "{part} in {found}");
        }
        // One does not stand for others.
        let error = text(format!("#a = 1 : i32\n#b = [#a, #a]\n{named}")).unwrap_err();
        assert_eq!(error.kind(), Kind::UnsupportedProgram);
        assert!(error.message().contains("artifacts, and line 2 of this one has '#a', which is not"), "{error}");
    }

    #[test]
    fn quantized_types_are_written() {
        for kind in [
            "i8:f32, 5.00000000000000000000e-1:-3",
            "u8<1:200>:f32:0, {2.50000000000000000000e-1, 2.00000000000000000000e0:7}",
        ] {
            let kind = format!("tensor<2x!quant.uniform<{kind}>>");
            let quantize = format!("%0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> {kind}");
            assert!(written("", &quantize).unwrap().contains(&kind), "{kind}");
        }
        for kind in ["i8:f32:0, 0.5", "i64:f32, 0.5", "i8:f32, {0.5}", "i8, 0.5", "i8:f32, 0.5, 0.25", "i8<1>:f32, 0.5"]
        {
            let quantize =
                format!("%0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<{kind}>>");
            assert_eq!(written("", &quantize).unwrap_err().kind(), Kind::UnsupportedProgram, "{kind}");
        }
    }

    #[test]
    fn a_scatter_that_calls_functions_has_the_form_that_readers_need_not_rewrite() {
        let scatter = |operation: &str| {
            let text = format!(
                "func.func @main(%x: tensor<4xf32>, %i: tensor<1xi32>, %u: tensor<f32>) -> tensor<4xf32> {{\n  %0 = \
                 \"stablehlo.scatter\"(%x, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], \
                 scatter_dims_to_operand_dims = [0]>}}> ({{\n  ^bb0(%a: tensor<f32>, %b: tensor<f32>):\n    %1 = \
                 stablehlo.{operation} %a : tensor<f32>\n    stablehlo.return %1 : tensor<f32>\n  }}) : (tensor<4xf32>, \
                 tensor<1xi32>, tensor<f32>) -> tensor<4xf32>\n  return %0 : tensor<4xf32>\n}}"
            );
            let artifact = Program::new(text.into_bytes(), Format::Mlir).unwrap().to_portable(None).unwrap().unwrap();
            memchr::memmem::find(artifact.code(), b"scatter_v2").is_some()
        };
        assert!(scatter("sine") && !scatter("negate"));
    }
}
