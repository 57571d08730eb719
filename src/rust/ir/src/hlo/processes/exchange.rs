//! What a collective operation becomes.

use super::super::wire::damage;
use super::super::{HloInstructionProto, HloModuleProto, LiteralProto, ShapeProto, SliceDimensions, TUPLE};
use super::block::{Block, Operand};
use super::groups::Groups;
use super::{is_collective, Process};
use pjrt_base::error::Result;

const U32: i32 = 8;

impl Process {
    /// Makes what an instruction becomes. Returns whether it becomes something else.
    pub(super) fn replace(&self, block: &mut Block, of: &HloInstructionProto, module: &HloModuleProto) -> Result<bool> {
        match of.opcode.as_str() {
            "partition-id" | "replica-id" => {
                let counts_processes = (of.opcode == "partition-id") == self.are_partitions;
                let number = if counts_processes { self.rank as u32 } else { 0 };
                block.constant(U32, LiteralProto { u32s: vec![number], ..Default::default() });
                block.name_as(of);
            }
            "all-reduce"
            | "all-gather"
            | "reduce-scatter"
            | "all-to-all"
            | "collective-permute"
            | "collective-broadcast" => self.exchange(block, of, module)?,
            opcode if is_collective(of) => {
                bail!(UnsupportedProgram, "The operation `{opcode}` cannot run in several processes.")
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn exchange(&self, block: &mut Block, of: &HloInstructionProto, module: &HloModuleProto) -> Result<()> {
        let operands = of.operand_ids.iter().map(|&id| block.operand(id)).collect::<Result<Vec<_>>>()?;
        let groups = self.groups(of)?;
        let is_alone = groups.size == 1 && of.opcode != "collective-permute";
        let reduction = || Ok(format!("op = \"{}\", {}", reducer(of, module)?, groups.text()));
        let one = |block: &mut Block, x: &Operand| match of.opcode.as_str() {
            _ if is_alone => Ok(block.reshape(x, &x.dims)),
            "all-reduce" => Ok(block.call("all_reduce", &reduction()?, x, &x.dims)),
            // The sum, or another reduction, is divided along a dimension.
            "reduce-scatter" => {
                let attributes = reduction()?;
                let parts = divided(block, x, dimension(of, x)?, groups.size)?;
                Ok(block.call("reduce_scatter", &attributes, &parts, &parts.dims[1..]))
            }
            "collective-broadcast" => {
                Ok(block.call("broadcast", &format!("root = 0 : i64, {}", groups.text()), x, &x.dims))
            }
            "collective-permute" => Ok(self.permuted(block, of, x)),
            "all-gather" => gathered(block, of, x, &groups),
            _ => to_all(block, of, x, &groups),
        };
        let results = if of.opcode == "all-to-all" && of.dimensions.is_empty() && !is_alone {
            tuple_to_all(block, &operands, &groups)?
        } else {
            operands.iter().map(|x| one(block, x)).collect::<Result<Vec<_>>>()?
        };
        let shape = of.shape.clone().unwrap_or_default();
        if shape.element_type == TUPLE {
            let ids: Vec<i64> = results.iter().map(|result| result.id).collect();
            block.add("tuple", shape, &ids);
        } else if results.len() != 1 {
            return Err(damage("a collective operation has several operands and one result"));
        }
        block.name_as(of);
        Ok(())
    }

    fn permuted(&self, block: &mut Block, of: &HloInstructionProto, x: &Operand) -> Operand {
        // Without a channel, the pairs are replicas of the same partition; with one, partitions of the same replica.
        let across = if self.are_partitions { of.channel_id > 0 } else { of.channel_id <= 0 };
        if !across {
            return block.reshape(x, &x.dims);
        }
        let ends = of.source_target_pairs.iter().flat_map(|pair| [pair.source, pair.target]);
        let pairs: Vec<String> = ends.map(|rank| rank.to_string()).collect();
        block.call("permute", &format!("pairs = array<i64: {}>", pairs.join(", ")), x, &x.dims)
    }
}

/// Arrays from the group are joined along a dimension.
fn gathered(block: &mut Block, of: &HloInstructionProto, x: &Operand, groups: &Groups) -> Result<Operand> {
    let d = dimension(of, x)?;
    let mut dims = x.dims.clone();
    dims[d] *= groups.size as i64;
    let parts = block.call("all_gather", &groups.text(), x, &with(&x.dims, 0, groups.size as i64));
    let moved = block.move_dimension(&parts, 0, d);
    Ok(block.reshape(&moved, &dims))
}

/// Part i along a dimension goes to process i of the group.
fn to_all(block: &mut Block, of: &HloInstructionProto, x: &Operand, groups: &Groups) -> Result<Operand> {
    let d = dimension(of, x)?;
    let parts = divided(block, x, d, groups.size)?;
    let dims = parts.dims.clone();
    let parts = block.call("all_to_all", &groups.text(), &parts, &dims);
    let moved = block.move_dimension(&parts, 0, d);
    Ok(block.reshape(&moved, &x.dims))
}

/// Operand i goes to process i of the group, and result i comes from there.
fn tuple_to_all(block: &mut Block, operands: &[Operand], groups: &Groups) -> Result<Vec<Operand>> {
    let Some(first) = operands.first() else { return Err(damage("an operation has no operands")) };
    let is_equal = operands.iter().all(|x| x.dims == first.dims && x.element_type == first.element_type);
    if !is_equal || operands.len() != groups.size {
        return Err(damage("`all-to-all` has operands of other number or shape than its groups"));
    }
    let one = with(&first.dims, 0, 1);
    let rows: Vec<i64> = operands.iter().map(|x| block.reshape(x, &one).id).collect();
    let all = with(&first.dims, 0, operands.len() as i64);
    let made = block.add("concatenate", ShapeProto::row_major(first.element_type, &all), &rows);
    made.dimensions = vec![0];
    let joined = Operand::of(made);
    let parts = block.call("all_to_all", &groups.text(), &joined, &all);
    let part = |i: usize| {
        let range = |(d, &dim): (usize, &i64)| match d {
            0 => SliceDimensions { start: i as i64, limit: i as i64 + 1, stride: 1 },
            _ => SliceDimensions { start: 0, limit: dim, stride: 1 },
        };
        let ranges = parts.dims.iter().enumerate().map(range).collect();
        let made = block.add("slice", ShapeProto::row_major(parts.element_type, &one), &[parts.id]);
        made.slice_dimensions = ranges;
        let row = Operand::of(made);
        block.reshape(&row, &first.dims)
    };
    Ok((0..operands.len()).map(part).collect())
}

/// An array whose first dimension counts the equal parts along dimension `d`.
fn divided(block: &mut Block, x: &Operand, d: usize, count: usize) -> Result<Operand> {
    let count = count as i64;
    ensure!(x.dims[d] % count == 0, damage("an operation divides an array unequally"));
    let mut dims = x.dims.clone();
    dims[d] /= count;
    let parts = block.reshape(x, &with(&dims, d, count));
    Ok(block.move_dimension(&parts, d, 0))
}

fn dimension(of: &HloInstructionProto, x: &Operand) -> Result<usize> {
    let d = of.dimensions.first().and_then(|&d| usize::try_from(d).ok()).filter(|&d| d < x.dims.len());
    d.ok_or_else(|| damage("an operation has a dimension that its operand lacks"))
}

/// The name of an operation's reduction.
fn reducer<'a>(of: &HloInstructionProto, module: &'a HloModuleProto) -> Result<&'a str> {
    let called = of.called_computation_ids.first();
    let computation = module.computations.iter().find(|computation| Some(&computation.id) == called);
    let root = computation.and_then(|c| c.find(c.root_id).map(|root| (c, root)));
    let Some((computation, root)) = root else { return Err(damage("a reduction has no computation")) };
    let is_parameter = |&id: &i64| computation.find(id).is_some_and(|i| i.opcode == "parameter");
    let is_plain = root.operand_ids.len() == 2
        && root.operand_ids.iter().all(is_parameter)
        && root.operand_ids[0] != root.operand_ids[1];
    Ok(match root.opcode.as_str() {
        "add" if is_plain => "sum",
        "multiply" if is_plain => "prod",
        "maximum" if is_plain => "max",
        "minimum" if is_plain => "min",
        name @ ("and" | "or" | "xor") if is_plain => name,
        _ => bail!(
            UnsupportedProgram,
            "Processes reduce by a sum, product, maximum, minimum, and, or, or xor. The program's `{}` does something else.",
            of.opcode
        ),
    })
}

impl Groups {
    /// The groups as attributes of a call.
    fn text(&self) -> String {
        let ranks: Vec<String> = self.ranks.iter().map(i64::to_string).collect();
        format!("groups = array<i64: {}>, group_size = {} : i64", ranks.join(", "), self.size)
    }
}

/// Dimensions with one more at a place.
fn with(dims: &[i64], at: usize, dim: i64) -> Vec<i64> {
    let mut dims = dims.to_vec();
    dims.insert(at, dim);
    dims
}
