//! The shown part of a graph: the nodes of the main function, and inside them the nodes of regions and functions that
//! fit.

use super::fold::fold;
use super::{Graph, Op};
use pjrt_ir::module::is_listed;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The most nodes of a view.
const MOST: usize = 100_000;
/// The most edges to the operands of tuples. In nested tuples, each has the edges of all that it contains.
const MAX_EDGES: usize = 4_000_000;
/// Boxes nest less deep.
const MAX_NESTING: usize = 50;

/// Operations that only move elements.
const MOVEMENTS: &str =
    "reshape transpose broadcast broadcast_in_dim slice dynamic_slice pad dynamic_update_slice concatenate gather \
    dynamic_gather scatter reverse copy dynamic_reshape dynamic_broadcast_in_dim real_dynamic_slice dynamic_pad";

/// What a node does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    Input,
    Output,
    Constant,
    Product,
    #[default]
    Elementwise,
    Reduction,
    Movement,
    Control,
    Call,
    /// Several operations.
    Group,
}

impl Role {
    /// That of its variant, in lower case.
    pub fn name(self) -> String {
        format!("{self:?}").to_ascii_lowercase()
    }

    pub(super) fn is_end(self) -> bool {
        matches!(self, Role::Input | Role::Output)
    }

    pub(super) fn of(label: &str) -> Role {
        let word = label.split(' ').next().unwrap_or_default().replace('-', "_");
        match word.as_str() {
            "constant" | "iota" => Role::Constant,
            "dot_general" | "dot" | "convolution" | "ragged_dot" | "scaled_dot" => Role::Product,
            "reduce" | "reduce_window" | "sort" | "select_and_scatter" | "topk" | "top_k" | "fft" | "cholesky"
            | "triangular_solve" => Role::Reduction,
            name if is_listed(MOVEMENTS, name) => Role::Movement,
            "while" | "if" | "case" | "conditional" | "call" | "fusion" | "map" | "composite" | "async_start"
            | "manual_computation" => Role::Control,
            "custom_call" | "infeed" | "outfeed" | "send" | "recv" | "rng" | "rng_bit_generator" => Role::Call,
            name if ["all_", "collective_", "reduce_scatter"].iter().any(|start| name.starts_with(start)) => Role::Call,
            _ => Role::Elementwise,
        }
    }
}

/// A node of a view.
#[derive(Debug, Clone, Default)]
pub struct Node {
    /// The node that contains it.
    pub parent: Option<usize>,
    /// Such as `dot_general`, or the name of an input.
    pub label: String,
    /// The type of the result, such as `f32[2x3]`, or what a group consists of.
    pub detail: String,
    pub role: Role,
    /// How many operations it stands for, with the operations in its regions and functions.
    pub operations: usize,
    /// The nodes with the same parent that its operands come from.
    pub inputs: Vec<usize>,
    /// The source, such as `"model.py:12"`.
    pub place: String,
    /// Bodies that can be shown inside.
    pub(super) inner: Vec<usize>,
    /// The kinds of the operations in a group.
    pub(super) parts: Vec<String>,
}

impl Op {
    /// Whether it is shown as an operation.
    fn is_counted(&self) -> bool {
        self.value.is_none() && !self.is_passing && !self.node.role.is_end()
    }
}

impl Graph {
    /// The nodes of the graph, at most about so many; regions and functions that fit are shown inside of their operations. A
    /// node comes after the one that contains it and after its inputs.
    pub fn view(&self, max_nodes: usize) -> Vec<Node> {
        let max_nodes = max_nodes.clamp(1, MOST);
        let mut builder =
            Builder { graph: self, levels: HashMap::new(), sizes: HashMap::new(), nodes: Vec::new(), edges: MAX_EDGES };
        let items = builder.level(self.entry);
        let items = if items.len() > max_nodes { fold(items, max_nodes) } else { items };
        let mut waiting = BinaryHeap::new();
        builder.add(items, None, 0, &mut waiting);
        let half = builder.size(self.entry, 0) / 2;
        while let Some(Reverse((size, node, depth, inner))) = waiting.pop() {
            // Such as a call of the function that a wrapper is for.
            let is_most = builder.nodes[node].operations > half;
            if builder.nodes.len() + size <= max_nodes {
                builder.expand(node, depth, &inner, &mut waiting);
            } else if let ([body], true) = (&inner[..], is_most) {
                let room = max_nodes.saturating_sub(builder.nodes.len());
                let items = builder.inside(*body);
                if room > 1 {
                    builder.add(fold(items, room), Some(node), depth, &mut waiting);
                }
            }
        }
        builder.nodes
    }
}

/// Nodes that can be expanded, the smallest first: the number of nodes in it, its number, its depth and its bodies.
type Waiting = BinaryHeap<Reverse<(usize, usize, usize, Vec<usize>)>>;

struct Builder<'a> {
    graph: &'a Graph,
    levels: HashMap<usize, Vec<Node>>,
    /// The numbers of operations of bodies, with all that is inside.
    sizes: HashMap<usize, usize>,
    nodes: Vec<Node>,
    /// How many more edges there may be.
    edges: usize,
}

impl Builder<'_> {
    fn add(&mut self, items: Vec<Node>, parent: Option<usize>, depth: usize, waiting: &mut Waiting) {
        let first = self.nodes.len();
        for mut item in items {
            let inner = std::mem::take(&mut item.inner);
            if !inner.is_empty() && depth < MAX_NESTING {
                let boxes = if inner.len() > 1 { inner.len() } else { 0 };
                let size = inner.iter().map(|&body| self.inside(body).len()).sum::<usize>() + boxes;
                waiting.push(Reverse((size, self.nodes.len(), depth + 1, inner)));
            }
            item.parent = parent;
            item.inputs.iter_mut().for_each(|input| *input += first);
            self.nodes.push(item);
        }
    }

    /// Shows the operations inside of a node.
    fn expand(&mut self, node: usize, depth: usize, inner: &[usize], waiting: &mut Waiting) {
        let (parent, is_loop) = (Some(node), self.nodes[node].label.starts_with("while"));
        if let [body] = inner {
            let items = self.inside(*body);
            return self.add(items, parent, depth, waiting);
        }
        for (i, &body) in inner.iter().enumerate() {
            let label = match self.graph.bodies[body].name.as_str() {
                "" if is_loop => if i == 0 { "condition" } else { "body" }.into(),
                "" => format!("branch {}", i + 1),
                name => name.to_owned(),
            };
            let (number, operations) = (self.nodes.len(), self.size(body, 0));
            self.nodes.push(Node { parent, label, role: Role::Control, operations, ..Node::default() });
            let items = self.inside(body);
            self.add(items, Some(number), depth + 1, waiting);
        }
    }

    /// The items of a body without its inputs and outputs.
    fn inside(&mut self, body: usize) -> Vec<Node> {
        let items = self.level(body);
        let mut places = vec![None; items.len()];
        let mut kept = Vec::new();
        for (i, mut item) in items.into_iter().enumerate() {
            if !item.role.is_end() {
                places[i] = Some(kept.len());
                item.inputs = item.inputs.iter().filter_map(|&input| places[input]).collect();
                kept.push(item);
            }
        }
        kept
    }

    /// The number of operations in a body. A damaged module may have cycles.
    fn size(&mut self, body: usize, depth: usize) -> usize {
        if let Some(&size) = self.sizes.get(&body) {
            return size;
        }
        self.sizes.insert(body, 0);
        let Some(found) = self.graph.bodies.get(body).filter(|_| depth < 1000) else { return 0 };
        let mut size = 0usize;
        for op in found.ops.iter().filter(|op| op.is_counted()) {
            size = size.saturating_add(1);
            for &inner in &op.node.inner {
                size = size.saturating_add(self.size(inner, depth + 1));
            }
        }
        self.sizes.insert(body, size);
        size
    }

    /// A body without tuples, and with constants as part of the operations that use them.
    fn level(&mut self, body: usize) -> Vec<Node> {
        if let Some(items) = self.levels.get(&body) {
            return items.clone();
        }
        let graph = self.graph;
        let ops = graph.bodies.get(body).map(|body| body.ops.as_slice()).unwrap_or_default();
        let mut items: Vec<Node> = Vec::new();
        // The items that an operation stands for, or the value of a constant.
        let mut found: Vec<Result<Vec<usize>, &str>> = Vec::with_capacity(ops.len());
        for op in ops {
            let operands: Vec<&Result<Vec<usize>, &str>> =
                op.node.inputs.iter().filter_map(|&i| found.get(i)).collect();
            let passed = match (op.node.label.as_str(), &operands[..]) {
                ("broadcast_in_dim" | "broadcast" | "convert" | "reshape", [Err(value)]) => Some(*value),
                _ => None,
            };
            if let Some(value) = op.value.as_deref().or(passed) {
                found.push(Err(value));
                continue;
            }
            let mut inputs: Vec<usize> = operands.iter().filter_map(|o| o.as_deref().ok()).flatten().copied().collect();
            inputs.sort_unstable();
            inputs.dedup();
            if op.is_passing {
                match self.edges.checked_sub(inputs.len()) {
                    Some(left) => self.edges = left,
                    None => inputs.clear(),
                }
                found.push(Ok(inputs));
                continue;
            }
            let operations = usize::from(!op.node.role.is_end());
            let mut item = Node { operations, inputs, inner: Vec::new(), ..op.node.clone() };
            match (item.role, &operands[..]) {
                (Role::Elementwise, [_, _] | [_, _, _]) if operands.iter().any(|operand| operand.is_err()) => {
                    let values = operands.iter().map(|operand| operand.as_ref().err().copied().unwrap_or("_"));
                    item.label = format!("{}({})", item.label, values.collect::<Vec<_>>().join(", "));
                }
                (Role::Output, [Err(value)]) => item.detail = format!("{} = {value}", item.detail),
                _ => {}
            }
            for &inner in &op.node.inner {
                item.operations = item.operations.saturating_add(self.size(inner, 0));
                let plain = graph.bodies.get(inner).map(|body| body.ops.as_slice()).unwrap_or_default();
                let mut plain = plain.iter().filter(|op| op.is_counted());
                match (plain.next(), plain.next()) {
                    (Some(_), Some(_)) => item.inner.push(inner),
                    (Some(only), None) if op.node.inner.len() == 1 && !op.node.label.contains(' ') => {
                        item.label = format!("{} {}", op.node.label, only.node.label);
                    }
                    // A function of one operation, whose name the label has already.
                    (Some(_), None) if op.node.inner.len() == 1 && item.role == Role::Control => item.inner.push(inner),
                    _ => {}
                }
            }
            found.push(Ok(vec![items.len()]));
            items.push(item);
        }
        self.levels.insert(body, items.clone());
        items
    }
}
