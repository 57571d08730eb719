//! Estimates of what each operation of a compiled module costs, from the shapes alone.
//!
//! The help page of `executable_cost()` states the rules. A fusion keeps intermediate results in registers: it computes
//! all of its parts, but only moves its operands and its result.

use super::{Computation, HloInstructionProto, HloModuleProto, ShapeProto, TUPLE};
use crate::module::{is_elementwise, is_listed};
use pjrt_data::dtype::DType;
use std::collections::HashMap;

/// Computations nest less deep: the estimate uses recursion.
const MAX_NESTING: usize = 100;

/// Operations that compute each element, in addition to [`is_elementwise`].
const ARITHMETIC: &str = "clamp compare is-finite select";

/// How often each instruction is listed at most, on average: computations may call the same ones many times, and in a
/// damaged module they call themselves.
const LISTED: usize = 100;

/// What one operation costs each time that it runs.
#[derive(Debug, Clone)]
pub struct OperationCost {
    pub name: String,
    pub opcode: String,
    /// The type of the result, as in HLO.
    pub shape: String,
    /// How often it runs in one execution, if the compiler knows the iterations of its loops.
    pub times: Option<f64>,
    pub cost: Totals,
    /// Whether the number of floating point operations is known. It is unknown for foreign functions.
    pub is_known: bool,
    /// The name in the source's framework, and the place in the source.
    pub op_name: String,
    pub file: String,
    pub line: Option<i32>,
}

/// Floating point operations, transcendental functions and bytes that are read and written.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    pub flops: f64,
    pub transcendentals: f64,
    pub bytes: f64,
}

impl Totals {
    fn add(&mut self, other: Totals, times: f64) {
        self.flops += times * other.flops;
        self.transcendentals += times * other.transcendentals;
        self.bytes += times * other.bytes;
    }

    fn flops(flops: f64) -> Totals {
        Totals { flops, ..Totals::default() }
    }
}

impl HloModuleProto {
    /// The cost of each operation that does work, in the order of the program. Bodies of loops, branches and called functions
    /// are listed one by one.
    pub fn operation_costs(&self) -> Vec<OperationCost> {
        let computations = self.by_id();
        let left = LISTED * self.instructions().count();
        let (costs, totals) = (Vec::new(), HashMap::new());
        let mut estimate = Estimate { module: self, computations: &computations, costs, left, totals };
        estimate.list(self.entry_computation_id, Some(1.0), 0);
        estimate.costs
    }

    /// The sum of the costs of its operations, with every loop counted once.
    pub fn total_cost(&self) -> Totals {
        let mut total = Totals::default();
        self.operation_costs().iter().for_each(|operation| total.add(operation.cost, 1.0));
        total
    }
}

struct Estimate<'a> {
    module: &'a HloModuleProto,
    computations: &'a HashMap<i64, Computation<'a>>,
    costs: Vec<OperationCost>,
    /// How many more instructions are listed.
    left: usize,
    /// The totals of computations that are known. Computations may call the same ones many times.
    totals: HashMap<i64, (Totals, bool)>,
}

impl Estimate<'_> {
    fn list(&mut self, id: i64, times: Option<f64>, depth: usize) {
        let Some(computation) = self.computations.get(&id).filter(|_| depth <= MAX_NESTING) else { return };
        for instruction in &computation.proto.instructions {
            let Some(left) = self.left.checked_sub(1) else { return };
            self.left = left;
            let times_inside = match instruction.opcode.as_str() {
                "while" => times.zip(instruction.trip_count()).map(|(outer, count)| outer * count),
                "call" | "async-start" => times,
                "conditional" => None,
                _ => {
                    self.add(computation, instruction, times);
                    continue;
                }
            };
            for &inner in &instruction.called_computation_ids {
                self.list(inner, times_inside, depth + 1);
            }
        }
    }

    fn add(&mut self, computation: &Computation, instruction: &HloInstructionProto, times: Option<f64>) {
        let Some(bytes) = bytes(computation, instruction) else { return };
        let (mut cost, is_known) = self.work(computation, instruction, 0);
        cost.bytes = bytes;
        let place = self.module.place(instruction);
        self.costs.push(OperationCost {
            name: instruction.name.clone(),
            opcode: match instruction.opcode.as_str() {
                "custom-call" => format!("custom-call {}", instruction.custom_call_target),
                opcode => opcode.to_owned(),
            },
            shape: instruction.shape.as_ref().map(|shape| shape.text(false)).unwrap_or_default(),
            times,
            cost,
            is_known,
            op_name: instruction.metadata.as_ref().map(|m| m.op_name.clone()).unwrap_or_default(),
            file: place.map(|(file, _)| file.to_owned()).unwrap_or_default(),
            line: place.map(|(_, line)| line),
        });
    }

    /// What an instruction computes, and whether that is known.
    fn work(&mut self, computation: &Computation, instruction: &HloInstructionProto, depth: usize) -> (Totals, bool) {
        let elements = |shape: Option<&ShapeProto>| shape.map_or(0.0, elements);
        let result = elements(instruction.shape.as_ref());
        let operand = |number: usize| computation.operand(instruction, number);
        let mut each = |count: f64| {
            let (inner, is_known) = match instruction.called_computation_ids.last() {
                Some(id) => self.total(*id, depth + 1),
                None => (Totals::flops(1.0), true),
            };
            let mut total = Totals::default();
            total.add(inner, count.max(0.0));
            (total, is_known)
        };
        let known = |flops: f64| (Totals::flops(flops), true);
        match instruction.opcode.as_str() {
            "dot" => {
                // The number of products that are added up for each element.
                let contracted = instruction.dot_dimension_numbers.iter().flat_map(|numbers| &numbers.lhs_contracting);
                known(2.0 * result * product_of(operand(0), contracted))
            }
            "convolution" => known(convolution(instruction, operand(0), operand(1), instruction.shape.as_ref())),
            "custom-call" => foreign(instruction, operand(0), operand(1)).map_or((Totals::default(), false), known),
            "map" => each(result),
            "fusion" | "call" => each(1.0),
            name @ ("reduce" | "all-reduce" | "reduce-scatter") => {
                let inputs = instruction.operand_ids.len().div_ceil(2).max(1) as f64;
                let outputs = if name == "reduce" && result > 0.0 { result / inputs } else { 0.0 };
                each(elements(operand(0)) - outputs)
            }
            "reduce-window" => {
                // The results have one shape.
                let results = instruction.shape.as_ref().map_or(1, |shape| shape.tuple_shapes.len().max(1)) as f64;
                each(result / results * (window(instruction) - 1.0))
            }
            "select-and-scatter" => each(elements(operand(1)) * window(instruction)),
            "scatter" => each(elements(operand(instruction.operand_ids.len().saturating_sub(1)))),
            "sort" => {
                let sorted = operand(0);
                let length = instruction.dimensions.first().map_or(1, |&along| dim(sorted, along)).max(2) as f64;
                known(elements(sorted) * length.log2().ceil())
            }
            "fft" => {
                let length = instruction.fft_length.iter().map(|&n| n as f64).product::<f64>().max(2.0);
                known(5.0 * result.max(elements(operand(0))) * length.log2())
            }
            "cholesky" => known(result * last_dim(operand(0)) / 3.0),
            "triangular-solve" => known(result * last_dim(operand(0))),
            name if is_transcendental(name) => (Totals { transcendentals: result, ..Totals::default() }, true),
            // StableHLO's names have no hyphens.
            name if is_elementwise(&name.replace('-', "_")) || is_listed(ARITHMETIC, name) => known(result),
            _ => known(0.0),
        }
    }

    /// What a computation computes in all.
    fn total(&mut self, id: i64, depth: usize) -> (Totals, bool) {
        if let Some(&known) = self.totals.get(&id) {
            return known;
        }
        let (mut total, mut is_known) = (Totals::default(), true);
        let Some(computation) = self.computations.get(&id).filter(|_| depth < MAX_NESTING) else {
            return (total, false);
        };
        // Until it is known: it may contain itself.
        self.totals.insert(id, (total, false));
        for instruction in &computation.proto.instructions {
            let (work, knows) = self.work(computation, instruction, depth);
            total.add(work, 1.0);
            is_known &= knows;
        }
        self.totals.insert(id, (total, is_known));
        (total, is_known)
    }
}

/// The bytes that an instruction reads and writes; `None` for those that do nothing.
fn bytes(computation: &Computation, instruction: &HloInstructionProto) -> Option<f64> {
    let result = instruction.shape.as_ref().map_or(0.0, size);
    let operand = |number: usize| computation.operand(instruction, number).map_or(0.0, size);
    Some(match instruction.opcode.as_str() {
        "parameter" | "constant" | "tuple" | "get-tuple-element" | "bitcast" | "after-all" | "opt-barrier"
        | "domain" | "partition-id" | "replica-id" | "add-dependency" | "async-done" | "async-update" => return None,
        "slice" | "dynamic-slice" => 2.0 * result,
        "gather" => 2.0 * result + operand(1),
        // In place: only the update moves.
        "dynamic-update-slice" => 2.0 * operand(1),
        "scatter" => {
            let inputs = instruction.operand_ids.len() / 2;
            operand(inputs) + (inputs + 1..instruction.operand_ids.len()).map(|i| 3.0 * operand(i)).sum::<f64>()
        }
        _ => (0..instruction.operand_ids.len()).map(operand).sum::<f64>() + result,
    })
}

fn elements(shape: &ShapeProto) -> f64 {
    match shape.element_type {
        TUPLE => shape.tuple_shapes.iter().map(elements).sum(),
        code if DType::from_xla_code(code).is_none() => 0.0,
        _ => shape.dimensions.iter().map(|&dim| dim as f64).product(),
    }
}

fn size(shape: &ShapeProto) -> f64 {
    match (shape.element_type, DType::from_xla_code(shape.element_type)) {
        (TUPLE, _) => shape.tuple_shapes.iter().map(size).sum(),
        (_, None) => 0.0,
        (_, Some(dtype)) => elements(shape) * f64::from(dtype.info().bits) / 8.0,
    }
}

fn last_dim(shape: Option<&ShapeProto>) -> f64 {
    shape.and_then(|shape| shape.dimensions.last()).map_or(0.0, |&dim| dim as f64)
}

/// The size along a dimension, by its number; 1 if there is none.
fn dim(shape: Option<&ShapeProto>, number: i64) -> i64 {
    usize::try_from(number).ok().and_then(|number| shape?.dimensions.get(number).copied()).unwrap_or(1)
}

fn product_of<'a>(shape: Option<&ShapeProto>, dims: impl IntoIterator<Item = &'a i64>) -> f64 {
    dims.into_iter().map(|&number| dim(shape, number) as f64).product()
}

/// The elements of an operation's window.
fn window(instruction: &HloInstructionProto) -> f64 {
    instruction.window.as_ref().map_or(1.0, |window| window.dimensions.iter().map(|dim| dim.size as f64).product())
}

/// The floating point operations of a convolution. Padding costs nothing.
fn convolution(
    instruction: &HloInstructionProto,
    input: Option<&ShapeProto>,
    kernel: Option<&ShapeProto>,
    output: Option<&ShapeProto>,
) -> f64 {
    let (Some(numbers), Some(window)) = (&instruction.convolution_dimension_numbers, &instruction.window) else {
        return 0.0;
    };
    let mut pairs = 1.0;
    for (i, along) in window.dimensions.iter().enumerate() {
        let size = |shape, spatial: &[i64]| spatial.get(i).map_or(1, |&number| dim(shape, number));
        pairs *= valid_pairs(along, size(input, &numbers.input_spatial), size(output, &numbers.output_spatial));
    }
    let results = product_of(output, &[numbers.output_batch, numbers.output_feature]);
    // The kernel has the input features of one group.
    let per_group = dim(kernel, numbers.kernel_input_feature) as f64;
    2.0 * results * per_group * pairs / instruction.batch_group_count.max(1) as f64
}

/// How many pairs of an output and a place in the kernel meet an element of the input.
fn valid_pairs(along: &super::WindowDimension, from: i64, to: i64) -> f64 {
    const MANY: i64 = 100_000;
    let (base, dilation, stride) = (along.base_dilation.max(1), along.window_dilation.max(1), along.stride.max(1));
    if along.size.saturating_mul(to) > MANY * 100 {
        return along.size as f64 * to as f64;
    }
    let mut count = 0u64;
    for place in 0..along.size {
        for output in 0..to {
            let at = output.saturating_mul(stride).saturating_add(place.saturating_mul(dilation));
            let at = at.saturating_sub(along.padding_low);
            count += u64::from(at >= 0 && at % base == 0 && at / base < from);
        }
    }
    count as f64
}

/// The floating point operations of a function that XLA calls for a product or a convolution; `None` for others.
fn foreign(instruction: &HloInstructionProto, lhs: Option<&ShapeProto>, rhs: Option<&ShapeProto>) -> Option<f64> {
    let target = instruction.custom_call_target.as_str();
    let result = instruction.shape.as_ref()?;
    let output = if result.element_type == TUPLE { result.tuple_shapes.first()? } else { result };
    let is_product = ["gemm", "matmul"].iter().any(|word| target.contains(word));
    if target.starts_with("__") && is_product {
        let config = String::from_utf8_lossy(&instruction.backend_config);
        let dims = match config.split_once("\"lhs_contracting_dimensions\":[") {
            Some((_, list)) => {
                let list = list.split(']').next().unwrap_or_default();
                list.split(',').filter_map(|dim| dim.trim().trim_matches('"').parse().ok()).collect()
            }
            // The rows of the first matrix, as oneDNN multiplies.
            None => vec![lhs?.dimensions.len() as i64 - 1],
        };
        return Some(2.0 * elements(output) * product_of(lhs, &dims));
    }
    let is_forward =
        target.starts_with("__cudnn$convForward") || target.starts_with("__cudnn$convBiasActivationForward");
    is_forward.then(|| convolution(instruction, lhs, rhs, Some(output)))
}

/// Whether an operation computes a function such as the exponential of each element, by its name in HLO.
pub fn is_transcendental(opcode: &str) -> bool {
    const NAMES: &str = "acos acosh asin asinh atan2 atanh cbrt cosh cosine erf exponential exponential-minus-one log \
        log-plus-one logistic power rsqrt sine sinh sqrt tan tanh";
    is_listed(NAMES, opcode)
}

#[cfg(test)]
mod tests {
    use super::super::examples::instruction;
    use super::super::{HloComputationProto, WindowDimension};
    use super::*;
    use crate::module::Dot;

    fn computation(id: i64, instructions: Vec<HloInstructionProto>) -> HloComputationProto {
        HloComputationProto { id, instructions, ..Default::default() }
    }

    fn costs(computations: Vec<HloComputationProto>) -> Vec<OperationCost> {
        HloModuleProto { computations, entry_computation_id: 1, ..Default::default() }.operation_costs()
    }

    #[test]
    fn products_reductions_and_fusions_are_counted() {
        let mut dot = instruction(3, "dot", &[2, 5], &[1, 2]);
        dot.dot_dimension_numbers = Some(Dot { lhs_contracting: vec![1], ..Default::default() });
        let mut fusion = instruction(4, "fusion", &[2, 5], &[3]);
        fusion.called_computation_ids = vec![2];
        let mut reduce = instruction(5, "reduce", &[2], &[4, 6]);
        reduce.called_computation_ids = vec![3];
        let adder = vec![
            instruction(1, "parameter", &[], &[]),
            instruction(2, "parameter", &[], &[]),
            instruction(3, "add", &[], &[1, 2]),
        ];
        let found = costs(vec![
            computation(
                1,
                vec![
                    instruction(1, "parameter", &[2, 3], &[]),
                    instruction(2, "parameter", &[3, 5], &[]),
                    dot,
                    fusion,
                    instruction(6, "constant", &[], &[]),
                    reduce,
                ],
            ),
            computation(
                2,
                vec![
                    instruction(1, "parameter", &[2, 5], &[]),
                    instruction(2, "exponential", &[2, 5], &[1]),
                    instruction(3, "add", &[2, 5], &[1, 2]),
                ],
            ),
            computation(3, adder),
        ]);
        let cost =
            |flops: f64, transcendentals: f64, floats: f64| Totals { flops, transcendentals, bytes: 4.0 * floats };
        let expected = [cost(60.0, 0.0, 31.0), cost(10.0, 10.0, 20.0), cost(8.0, 0.0, 13.0)];
        assert_eq!(found.iter().map(|operation| operation.cost).collect::<Vec<_>>(), expected);
        assert!(found.iter().all(|operation| operation.is_known && operation.times == Some(1.0)));
    }

    #[test]
    fn operations_on_each_element_have_one_flop_for_each() {
        for (opcode, flops) in [("add", 4.0), ("count-leading-zeros", 4.0), ("is-finite", 4.0), ("copy", 0.0)] {
            let found = costs(vec![computation(1, vec![instruction(1, opcode, &[4], &[])])]);
            assert_eq!(found[0].cost.flops, flops, "{opcode}");
        }
    }

    #[test]
    fn bodies_of_loops_run_as_often_as_the_compiler_knows() {
        let run = |config: &str| {
            let mut repeat = instruction(2, "while", &[4], &[1]);
            repeat.called_computation_ids = vec![2];
            repeat.backend_config = config.as_bytes().into();
            let body = vec![instruction(1, "parameter", &[4], &[]), instruction(2, "add", &[4], &[1, 1])];
            let found =
                costs(vec![computation(1, vec![instruction(1, "parameter", &[4], &[]), repeat]), computation(2, body)]);
            assert_eq!(found[0].cost.flops, 4.0);
            found[0].times
        };
        assert_eq!(run(r#"{"known_trip_count":{"n":"50"},"known_init_step":{"init":"0"}}"#), Some(50.0));
        assert_eq!(run(""), None);
    }

    #[test]
    fn damaged_modules_end() {
        let mut call = instruction(2, "call", &[4], &[9]);
        call.called_computation_ids = vec![1];
        let mut fusion = instruction(3, "fusion", &[4], &[2]);
        fusion.called_computation_ids = vec![1, 7];
        assert!(costs(vec![computation(1, vec![call, fusion])]).len() <= 200);
    }

    #[test]
    fn padding_of_convolutions_costs_nothing() {
        let along = |low: i64, base: i64| WindowDimension {
            size: 3,
            stride: 1,
            padding_low: low,
            padding_high: low,
            window_dilation: 1,
            base_dilation: base,
            ..Default::default()
        };
        assert_eq!(valid_pairs(&along(0, 1), 10, 8), 24.0);
        assert_eq!(valid_pairs(&along(1, 1), 10, 10), 28.0);
        assert_eq!(valid_pairs(&along(0, 2), 5, 7), 11.0);
    }

    #[test]
    fn computations_that_are_called_many_times_are_read_quickly() {
        for opcode in ["fusion", "call"] {
            let run = |id: i64, next: i64| HloInstructionProto {
                called_computation_ids: vec![next, next],
                ..instruction(id, opcode, &[4], &[])
            };
            let last = 90;
            let one = |id: i64| computation(id, vec![run(1, id + 1), run(2, id + 1), run(3, 0)]);
            let computations = (0..=last).map(one).collect();
            HloModuleProto { computations, ..Default::default() }.operation_costs();
        }
    }
}
