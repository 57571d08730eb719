//! Programs as graphs, and the costs of their operations.

use crate::programs::program;
use crate::r::conditions::Result;
use crate::r::{handle, sexp};
use extendr_api::prelude::*;
use pjrt_base::room;
use pjrt_core::Executable;
use pjrt_ir::hlo::OperationCost;
use pjrt_program::graph::Graph;

/// The nodes of a program or an executable, folded to about so many, as columns; `from` and `to` are the edges. Positions
/// count from 1; the parent of an outermost node is 0.
pub fn program_graph(x: Robj, max_nodes: f64) -> Result<List> {
    let graph = if x.inherits("PJRTLoadedExecutable") {
        Graph::of_hlo(&handle::get::<Executable>(sexp::of(&x), "executable")?.optimized_module()?)
    } else {
        let program = program::get(&x)?;
        room::check_room(8 * program.code().len(), "to read the program")?;
        Graph::of_program(program)?
    };
    let nodes = graph.view(max_nodes as usize);
    let edges = nodes.iter().enumerate().flat_map(|(i, node)| node.inputs.iter().map(move |&input| (input, i)));
    let (from, to): (Vec<i32>, Vec<i32>) = edges.map(|(from, to)| (from as i32 + 1, to as i32 + 1)).unzip();
    Ok(list!(
        nodes = list!(
            parent = nodes.iter().map(|node| node.parent.map_or(0, |parent| parent as i32 + 1)).collect::<Vec<_>>(),
            label = nodes.iter().map(|node| node.label.as_str()).collect::<Strings>(),
            detail = nodes.iter().map(|node| node.detail.as_str()).collect::<Strings>(),
            role = nodes.iter().map(|node| node.role.name()).collect::<Strings>(),
            operations = nodes.iter().map(|node| node.operations as f64).collect::<Vec<_>>(),
            source = nodes.iter().map(|node| node.place.as_str()).collect::<Strings>()
        ),
        edges = list!(from = from, to = to)
    ))
}

/// The estimated cost of each operation of the optimized program, as columns.
pub fn executable_operation_costs(executable: &Executable) -> Result<List> {
    let costs = executable.optimized_module()?.operation_costs();
    let strings = |of: fn(&OperationCost) -> &str| costs.iter().map(of).collect::<Strings>();
    let numbers = |of: fn(&OperationCost) -> f64| costs.iter().map(of).collect::<Vec<_>>();
    Ok(list!(
        operation = strings(|cost| &cost.name),
        opcode = strings(|cost| &cost.opcode),
        shape = strings(|cost| &cost.shape),
        times = costs.iter().map(|cost| cost.times.map_or(Rfloat::na(), Rfloat::from)).collect::<Doubles>(),
        flops = costs.iter().map(|c| if c.is_known { c.cost.flops.into() } else { Rfloat::na() }).collect::<Doubles>(),
        transcendentals = numbers(|cost| cost.cost.transcendentals),
        bytes = numbers(|cost| cost.cost.bytes),
        op_name = strings(|cost| &cost.op_name),
        file = strings(|cost| &cost.file),
        line = costs.iter().map(|cost| cost.line.map_or(Rint::na(), Rint::from)).collect::<Integers>()
    ))
}
