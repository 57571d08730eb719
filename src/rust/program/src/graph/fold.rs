//! Folds the nodes of a large function into groups: chains first, then stretches of the program, which begin at the
//! operations that cost the most. No group gets a path from itself to itself.

use super::view::{Node, Role};
use std::collections::{BTreeMap, BTreeSet};

/// The nodes in about `most` groups.
pub(super) fn fold(mut items: Vec<Node>, most: usize) -> Vec<Node> {
    // How many nodes the inputs and outputs may take.
    let (inputs, outputs) = (most / 4, most / 8);
    let room = most.saturating_sub(inputs + outputs).max(1);
    for groups in [chains, stretches] {
        if operations(&items) > room {
            let groups = groups(&items, room);
            items = contract(items, &groups);
        }
    }
    for (role, room) in [(Role::Input, inputs), (Role::Output, outputs)] {
        items = fold_ends(items, role, room.max(1));
    }
    items
}

fn operations(items: &[Node]) -> usize {
    items.iter().filter(|item| !item.role.is_end()).count()
}

/// The group of each item: chains of operations that each use only the previous one and inputs. Stops when there
/// are `room` groups.
fn chains(items: &[Node], room: usize) -> Vec<usize> {
    let consumers = consumers(items);
    let mut groups: Vec<usize> = (0..items.len()).collect();
    let mut left = operations(items);
    for (i, item) in items.iter().enumerate() {
        if left <= room {
            break;
        }
        let mut sources = item.inputs.iter().filter(|&&input| items[input].role != Role::Input);
        if let (Some(&source), None) = (sources.next(), sources.next()) {
            let is_plain = |item: &Node| !item.role.is_end() && item.inner.is_empty();
            if consumers[source] == [i] && is_plain(item) && is_plain(&items[source]) {
                groups[i] = groups[source];
                left -= 1;
            }
        }
    }
    groups
}

/// For each item, those that use it.
fn consumers(items: &[Node]) -> Vec<Vec<usize>> {
    let mut consumers = vec![Vec::new(); items.len()];
    for (i, item) in items.iter().enumerate() {
        item.inputs.iter().for_each(|&input| consumers[input].push(i));
    }
    consumers
}

/// The group of each item: so many stretches of the program.
fn stretches(items: &[Node], room: usize) -> Vec<usize> {
    let order: Vec<usize> = (0..items.len()).filter(|&i| !items[i].role.is_end()).collect();
    let is_heavy = |item: &Node| matches!(item.role, Role::Product | Role::Control | Role::Call);
    let heavy: Vec<usize> = (1..order.len()).filter(|&at| is_heavy(&items[order[at]])).collect();
    let step = heavy.len().div_ceil(room.saturating_sub(1).max(1)).max(1);
    let mut starts: BTreeSet<usize> = heavy.into_iter().step_by(step).chain([0]).collect();
    // Cut what is much longer than the others.
    let even = order.len().div_ceil(room).max(1);
    for at in (0..order.len()).step_by(even) {
        let last = starts.range(..=at).next_back().copied().unwrap_or(0);
        let next = starts.range(at + 1..).next().copied().unwrap_or(order.len());
        if starts.len() < room && at - last >= 2 * even && next - at >= even {
            starts.insert(at);
        }
    }
    let mut groups: Vec<usize> = (0..items.len()).collect();
    for (at, &i) in order.iter().enumerate() {
        let start = starts.range(..=at).next_back().copied().unwrap_or(0);
        groups[i] = order[start];
    }
    groups
}

/// Merges inputs that the same operations use, or outputs of the same ones, if there are more than `room`.
fn fold_ends(items: Vec<Node>, role: Role, room: usize) -> Vec<Node> {
    let ends: Vec<usize> = (0..items.len()).filter(|&i| items[i].role == role).collect();
    if ends.len() <= room {
        return items;
    }
    let consumers = consumers(&items);
    let mut kinds: BTreeMap<&[usize], Vec<usize>> = BTreeMap::new();
    for &end in &ends {
        let neighbours = if role == Role::Output { &items[end].inputs } else { &consumers[end] };
        kinds.entry(neighbours).or_default().push(end);
    }
    let mut groups: Vec<usize> = (0..items.len()).collect();
    let mut kinds: Vec<Vec<usize>> = kinds.into_values().collect();
    // The largest groups stay apart, the rest is one.
    kinds.sort_by_key(|members| (std::cmp::Reverse(members.len()), members.first().copied()));
    if kinds.len() > room {
        let rest = kinds.split_off(room - 1).concat();
        kinds.push(rest);
    }
    for members in kinds {
        let first = members.iter().min().copied().unwrap_or(0);
        members.into_iter().for_each(|member| groups[member] = first);
    }
    contract(items, &groups)
}

/// One node for each group.
fn contract(items: Vec<Node>, groups: &[usize]) -> Vec<Node> {
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, &group) in groups.iter().enumerate() {
        members.entry(group).or_default().push(i);
    }
    // A group comes where its last member was, so that its inputs come first.
    let mut members: Vec<(usize, Vec<usize>)> = members.into_iter().collect();
    let is_end = |all: &[usize]| all.first().is_some_and(|&i| items[i].role == Role::Input);
    members.sort_by_key(|(_, all)| if is_end(all) { all.first().copied() } else { all.last().copied() });
    let places: BTreeMap<usize, usize> = members.iter().enumerate().map(|(i, (group, _))| (*group, i)).collect();
    members
        .iter()
        .enumerate()
        .map(|(place, (_, all))| {
            let parts: Vec<&Node> = all.iter().map(|&i| &items[i]).collect();
            let mut item = if let [only] = parts[..] { only.clone() } else { merged(&parts) };
            let inputs = parts.iter().flat_map(|part| &part.inputs).filter_map(|&i| places.get(&groups[i]).copied());
            item.inputs = inputs.filter(|&input| input != place).collect::<BTreeSet<_>>().into_iter().collect();
            item
        })
        .collect()
}

fn merged(parts: &[&Node]) -> Node {
    let first = parts[0];
    let operations = parts.iter().map(|part| part.operations).sum();
    let node = Node { operations, place: first.place.clone(), ..Node::default() };
    if first.role.is_end() {
        let what = if first.role == Role::Input { "inputs" } else { "outputs" };
        let labels: Vec<&str> = parts.iter().map(|part| &*part.label).collect();
        let detail = match labels[..] {
            [first, _, _, .., last] => format!("{first}, ..., {last}"),
            _ => labels.join(", "),
        };
        return Node { label: format!("{} {what}", parts.len()), detail, role: first.role, ..node };
    }
    // What costs the most gives the group its colour.
    let role = if parts.iter().any(|part| part.role == Role::Product) { Role::Product } else { Role::Group };
    let (label, detail) = (stretch_label(parts), format!("{operations} operations"));
    Node { label, detail, role, parts: kinds(parts), ..node }
}

/// The operations in their order, where they are known.
fn kinds(parts: &[&Node]) -> Vec<String> {
    let of = |part: &&Node| if part.parts.is_empty() { vec![part.label.clone()] } else { part.parts.clone() };
    parts.iter().flat_map(of).collect()
}

/// The operations in their order, if there are few, or the most important kinds.
fn stretch_label(parts: &[&Node]) -> String {
    let kinds = kinds(parts);
    if kinds.len() <= 3 {
        return kinds.join(" > ");
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for kind in &kinds {
        let word = kind.split(['(', ' ']).next().unwrap_or(kind);
        *counts.entry(word).or_default() += 1;
    }
    let weight = |kind: &str| match kind {
        "dot_general" | "dot" | "convolution" | "while" | "call" | "fusion" | "custom_call" => 1000,
        "reduce" | "sort" | "scatter" | "gather" | "exponential" | "tanh" => 3,
        "reshape" | "broadcast_in_dim" | "broadcast" | "convert" | "constant" | "slice" => 0,
        _ => 1,
    };
    let mut counts: Vec<(&str, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(kind, count)| std::cmp::Reverse(weight(kind) * count));
    let shown = counts.iter().take(3).map(|(kind, count)| match count {
        1 => (*kind).to_owned(),
        count => format!("{count} {kind}"),
    });
    shown.collect::<Vec<_>>().join(", ")
}
