//! How a function is printed: its arguments and its result as trees of names.

use super::{abbreviated, Callable, Nested};
use pjrt_base::counted::counted;
use pjrt_base::error::Result;
use pjrt_data::tree::{add_step, Kind};

/// About how many lines a tree has. Deeper lists are folded to one line each.
const MOST_LINES: usize = 40;

/// How many elements of a list are shown.
const MOST_ELEMENTS: usize = 12;

/// What is said of an array.
#[derive(Clone, Default)]
struct Facts {
    kind: String,
    /// Such as "donated".
    notes: Vec<String>,
    /// Where it comes from, for a step.
    from: Option<String>,
}

/// A node of the tree that is printed.
struct Item {
    label: String,
    /// The kind of an element without arrays is what it is.
    facts: Facts,
    children: Vec<Item>,
    count: usize,
}

impl Item {
    /// The nodes for a list; `facts` returns the facts of an array.
    fn of(label: String, nested: &Nested, facts: &dyn Fn(usize) -> Facts) -> Item {
        let mut item = Item { label, facts: Facts::default(), children: Vec::new(), count: nested.rows.len() };
        match nested.tree.root() {
            Kind::Null => item.facts.kind = "NULL".to_owned(),
            Kind::Leaf => item.facts = nested.rows.first().map(|&row| facts(row)).unwrap_or_default(),
            Kind::List | Kind::NamedList => {
                for (i, (name, element)) in nested.elements().into_iter().enumerate() {
                    let mut label = String::new();
                    add_step(&mut label, name, i);
                    let mut child = Item::of(label, &element, facts);
                    child.gather();
                    item.children.push(child);
                }
                if item.children.is_empty() {
                    item.facts.kind = "list()".to_owned();
                }
            }
        }
        item
    }

    /// Moves what is true of all arrays from the elements to the list.
    fn gather(&mut self) {
        let notes = self.children.iter().find(|child| child.count > 0).map(|child| child.facts.notes.clone());
        for note in notes.unwrap_or_default() {
            if self.children.iter().all(|child| child.count == 0 || child.facts.notes.contains(&note)) {
                self.children.iter_mut().for_each(|child| child.facts.notes.retain(|other| *other != note));
                self.facts.notes.push(note);
            }
        }
        let parent = |child: &Item| {
            let own = child.facts.from.as_ref()?;
            let parent = own.strip_suffix(&child.label)?;
            let parent = parent.strip_suffix('$').unwrap_or(parent);
            (joined(parent, &child.label) == *own).then(|| parent.to_owned())
        };
        let parents: Vec<_> = self.children.iter().filter(|child| child.count > 0).map(parent).collect();
        if let Some(Some(first)) = parents.first().filter(|first| parents.iter().all(|other| other == *first)) {
            self.children.iter_mut().for_each(|child| child.facts.from = None);
            self.facts.from = Some(first.clone());
        }
    }

    /// The number of lines if lists at this depth are folded. A list of one element has the line of this.
    fn height(&self, depth: usize) -> usize {
        if depth == 0 {
            return 1;
        }
        let shown = self.children.iter().take(MOST_ELEMENTS);
        let below: usize = shown.map(|child| child.height(depth - 1)).sum();
        below + usize::from(self.children.len() != 1)
    }

    fn depth(&self) -> usize {
        self.children.iter().map(|child| 1 + child.depth()).max().unwrap_or(0)
    }

    /// Adds the lines of a node. `path` leads to it from the line above, through lists of one element, whose
    /// facts are `above`.
    fn add_to(&self, lines: &mut Vec<String>, indent: usize, path: &str, above: &Facts, depth: usize) {
        let path = joined(path, &self.label);
        let mut said = above.clone();
        said.notes.extend(self.facts.notes.iter().cloned());
        said.from = self.facts.from.clone().or_else(|| Some(joined(above.from.as_ref()?, &self.label)));
        if let ([only], true) = (self.children.as_slice(), depth > 0) {
            return only.add_to(lines, indent, &path, &said, depth - 1);
        }
        let is_folded = depth == 0 && !self.children.is_empty();
        let mut parts = vec![if is_folded { counted(self.count, "array") } else { self.facts.kind.clone() }];
        parts.extend(said.notes);
        parts.extend(said.from.map(|from| match from.is_empty() {
            true => "from the result".to_owned(),
            false => format!("from {from}"),
        }));
        parts.retain(|part| !part.is_empty());
        let text = parts.join(", ");
        let colon = if text.is_empty() { "" } else { ": " };
        lines.push(format!("{}{path}{colon}{text}", " ".repeat(indent)));
        if depth > 0 {
            self.add_children(lines, indent + 2, depth - 1);
        }
    }

    /// The lines of a list, each of whose elements begins one, or of a single array.
    fn lines(&self) -> Vec<String> {
        if self.children.is_empty() {
            return vec![format!("    {}", self.facts.kind)];
        }
        let height = |depth: usize| self.children.iter().map(|child| child.height(depth)).sum::<usize>();
        let depth = (0..self.depth()).rev().find(|&depth| height(depth) <= MOST_LINES).unwrap_or(0);
        let mut lines = Vec::new();
        self.add_children(&mut lines, 4, depth);
        lines
    }

    fn add_children(&self, lines: &mut Vec<String>, indent: usize, depth: usize) {
        let all = self.children.len();
        let shown = if all > MOST_ELEMENTS { MOST_ELEMENTS - 2 } else { all };
        self.children[..shown].iter().for_each(|child| child.add_to(lines, indent, "", &Facts::default(), depth));
        if all > shown {
            lines.push(format!("{}... {} more", " ".repeat(indent), all - shown));
        }
    }
}

impl Callable {
    /// The lines that print the function. `has_weights` says whether the model's weights are the default.
    ///
    /// # Errors
    /// `InvalidInput` for lists that are too large.
    pub fn lines(&self, has_weights: bool) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        match &self.state {
            Some(state) => {
                let is_state = |name: &str| state.names.iter().any(|known| known == name);
                section(&mut lines, "state", self.argument_lines(has_weights, is_state)?);
                section(&mut lines, "arguments", self.argument_lines(has_weights, |name| !is_state(name))?);
                let result = self.result.iter().flat_map(Nested::elements);
                let others = Nested::list(&result.skip(state.names.len()).collect::<Vec<_>>())?;
                let is_empty = others.rows.is_empty();
                section(&mut lines, "other outputs", if is_empty { Vec::new() } else { self.tree_of(&others).lines() });
            }
            None => {
                section(&mut lines, "arguments", self.argument_lines(has_weights, |_| true)?);
                let result = match (&self.result, self.outputs.as_slice()) {
                    (Some(result), _) => self.tree_of(result).lines(),
                    (None, [only]) => vec![format!("    {only}")],
                    (None, []) => Vec::new(),
                    (None, all) => self.tree_of(&Nested::plain(all.len())?).lines(),
                };
                section(&mut lines, "result", result);
            }
        }
        Ok(lines)
    }

    /// The signature in one line.
    pub fn signature(&self) -> String {
        let paths = self.input_paths();
        let mut inputs = Vec::new();
        for rows in self.inputs_of_arguments() {
            for &row in rows.iter().filter(|&&row| self.inputs[row].kept) {
                let donated = if self.inputs[row].donated { ", donated" } else { "" };
                inputs.push(format!("{}: {}{donated}", paths[row], self.inputs[row].kind));
            }
        }
        let outputs = abbreviated(self.outputs.clone());
        let outputs = if self.outputs.len() == 1 { outputs } else { format!("({outputs})") };
        format!("{}({}) -> {outputs}", self.name, abbreviated(inputs))
    }

    fn argument_lines(&self, has_weights: bool, is_shown: impl Fn(&str) -> bool) -> Result<Vec<String>> {
        let mut elements = self.arguments.elements();
        let weights = if self.has_weights && has_weights { elements.pop() } else { None };
        elements.retain(|(name, _)| is_shown(name));
        let list = Nested::list(&elements)?;
        let from = |row: usize| {
            let state = self.state.as_ref()?;
            Some(state.outputs[state.sources[row]?].clone())
        };
        let facts = |row: usize| {
            let input = &self.inputs[row];
            let notes = [(input.donated, "donated"), (!input.kept, "not used")];
            let notes = notes.iter().filter(|(holds, _)| *holds).map(|(_, note)| (*note).to_owned()).collect();
            Facts { kind: input.kind.clone(), notes, from: from(row) }
        };
        let root = Item::of(String::new(), &list, &facts);
        let mut lines = if root.children.is_empty() { Vec::new() } else { root.lines() };
        // Of a model's weights, only the number matters.
        if let Some((name, part)) = weights.filter(|(name, _)| is_shown(name)) {
            lines.push(format!("    {name}: {} of the model", counted(part.rows.len(), "array")));
        }
        Ok(lines)
    }

    fn tree_of(&self, outputs: &Nested) -> Item {
        let facts = |row: usize| Facts { kind: self.outputs[row].clone(), ..Facts::default() };
        Item::of(String::new(), outputs, &facts)
    }
}

/// A path with another step.
fn joined(path: &str, step: &str) -> String {
    let dollar = if path.is_empty() || step.starts_with("[[") { "" } else { "$" };
    format!("{path}{dollar}{step}")
}

/// Adds lines below a title.
fn section(lines: &mut Vec<String>, title: &str, content: Vec<String>) {
    if content.is_empty() {
        return lines.push(format!("  {title}: none"));
    }
    lines.push(format!("  {title}:"));
    lines.extend(content);
}
