//! The names of the parts of registered types, such as named tuples. A file has only their number, but the program's
//! names of its arguments and results lead through them: `opt_state[1][0].count`.

use super::tree::{Key, Tree};
use std::collections::HashMap;

/// How a name leads to a part of an argument: the argument, and a key for each node on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    pub root: String,
    keys: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Attribute(String),
    /// Within brackets: with quotes, and without them, where it is usually a position.
    Quoted(String),
    Bare(String),
}

impl Way {
    /// The way that a name describes, if it is one.
    pub fn of(name: &str) -> Option<Way> {
        let (root, mut rest) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
        let mut keys = Vec::new();
        while !rest.is_empty() {
            let (step, after) = if let Some(attribute) = rest.strip_prefix('.') {
                let (attribute, after) = attribute.split_at(attribute.find(['.', '[']).unwrap_or(attribute.len()));
                (Step::Attribute(attribute.to_owned()), after)
            } else {
                item(rest.strip_prefix('[')?)?
            };
            keys.push(step);
            rest = after;
        }
        Some(Way { root: root.to_owned(), keys })
    }
}

/// What is within brackets, and the text after them.
fn item(text: &str) -> Option<(Step, &str)> {
    let Some(quote) = text.chars().next().filter(|&c| matches!(c, '\'' | '"')) else {
        let (text, after) = text.split_once(']')?;
        return Some((Step::Bare(text.to_owned()), after));
    };
    let (mut key, mut chars) = (String::new(), text[1..].char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => key.push(chars.next()?.1),
            c if c == quote => {
                let after = text[1 + at + 1..].strip_prefix(']')?;
                return Some((Step::Quoted(key), after));
            }
            c => key.push(c),
        }
    }
    None
}

/// The names that attributes of types have, by the type, the number of parts and the part. `None` where they differ.
#[derive(Default)]
pub(super) struct Types(HashMap<(String, usize, usize), Option<String>>);

/// Names the parts of registered types in a tree, at a depth in the ways, after the ways to its leaves. Those that have a way
/// of another length than the tree has are ignored. Returns a leaf below the node that has a way.
pub(super) fn name(node: &mut Tree, ways: &[Option<Way>], types: &mut Types, depth: usize) -> Option<usize> {
    if let Tree::Leaf(leaf) = node {
        return ways.get(*leaf)?.as_ref().filter(|way| way.keys.len() == depth).map(|_| *leaf);
    }
    let leaves: Vec<_> = node.parts_mut().into_iter().map(|part| self::name(part, ways, types, depth + 1)).collect();
    if let Tree::Custom { name, keys, .. } = node {
        for (i, leaf) in leaves.iter().enumerate() {
            match leaf.and_then(|leaf| ways[leaf].as_ref()).map(|way| &way.keys[depth]) {
                Some(Step::Attribute(text)) => {
                    let place = (name.clone(), leaves.len(), i);
                    let known = types.0.entry(place).or_insert_with(|| Some(text.clone()));
                    if known.as_ref() != Some(text) {
                        *known = None;
                    }
                    keys[i] = Key::Attribute(text.clone());
                }
                Some(Step::Quoted(text)) => keys[i] = Key::Item(text.clone()),
                Some(Step::Bare(_)) | None => {}
            }
        }
    }
    leaves.into_iter().flatten().next()
}

/// The root of the ways to a tree's leaves, if they agree on it.
pub(super) fn root(tree: &Tree, ways: &[Option<Way>]) -> Option<String> {
    let mut found: Option<&str> = None;
    let agree = tree.every_leaf(0, &mut |leaf, depth| {
        let Some(way) = ways.get(leaf).and_then(Option::as_ref) else { return true };
        way.keys.len() == depth && !way.root.is_empty() && *found.get_or_insert(&way.root) == way.root
    });
    found.filter(|root| agree && !root.bytes().all(|byte| byte.is_ascii_digit())).map(str::to_owned)
}

/// Where the positional arguments begin that Python collects in one, `*args`: their names lead through their positions
/// in it, as in `args[0]['w']`.
pub(super) fn collected(args: &[Tree], ways: &[Option<Way>]) -> Option<usize> {
    // `Some(None)` for an argument without names.
    let position = |arg: &Tree| {
        let mut found = None;
        let agree = arg.every_leaf(0, &mut |leaf, depth| {
            let Some(way) = ways.get(leaf).and_then(Option::as_ref) else { return true };
            let position = match &way.keys[..] {
                [Step::Bare(text), ..] if way.keys.len() == depth + 1 => text.parse().ok(),
                _ => None,
            };
            position.is_some() && *found.get_or_insert(position) == position
        });
        agree.then_some(found.flatten())
    };
    let begins = |(i, arg): (usize, &Tree)| i.checked_sub(position(arg)??);
    let start = args.iter().enumerate().find_map(begins)?;
    let is_at = |(i, arg)| position(arg).is_some_and(|found| found.is_none_or(|position| position == i));
    args[start..].iter().enumerate().all(is_at).then_some(start)
}

/// Names the remaining parts as other nodes of the same type name theirs.
pub(super) fn name_by_type(node: &mut Tree, types: &Types) {
    if let Tree::Custom { name, keys, .. } = node {
        let count = keys.len();
        for (i, key) in keys.iter_mut().enumerate() {
            if let (Key::Position, Some(Some(text))) = (&*key, types.0.get(&(name.clone(), count, i))) {
                *key = Key::Attribute(text.clone());
            }
        }
    }
    node.parts_mut().into_iter().for_each(|part| name_by_type(part, types));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> Option<String> {
        let way = Way::of(name)?;
        let step = |step: &Step| match step {
            Step::Attribute(text) => format!(" .{text}"),
            Step::Quoted(text) => format!(" '{text}"),
            Step::Bare(text) => format!(" {text}"),
        };
        Some(way.root + &way.keys.iter().map(step).collect::<String>())
    }

    #[test]
    fn names_are_taken_apart() {
        let ways = [
            ("x", "x"),
            ("", ""),
            ("opt_state[1][0].count", "opt_state 1 0 .count"),
            ("p.layers[0]['a.b]'].w", "p .layers 0 'a.b] .w"),
            (r#"p["it's"]['\'\\']"#, r"p 'it's ''\"),
            ("[<flat index 0>]", " <flat index 0>"),
        ];
        for (name, want) in ways {
            assert_eq!(shown(name).as_deref(), Some(want), "{name}");
        }
        for name in ["x[", "x['", "x['a'", "x['a'b]", "x[0]y", "x['\\"] {
            assert_eq!(shown(name), None, "{name}");
        }
    }

    fn custom(name: &str, children: Vec<Tree>) -> Tree {
        Tree::custom(name.to_owned(), children)
    }

    #[test]
    fn parts_are_named_after_ways_and_types() {
        let adam = |children| custom("Adam", children);
        let mut tree = Tree::Tuple(vec![
            adam(vec![Tree::Leaf(0), Tree::Dict(vec![("w".into(), Tree::Leaf(1))]), Tree::None]),
            adam(vec![Tree::Leaf(2), Tree::Leaf(3), Tree::Leaf(4)]),
            custom("Plain", vec![Tree::Leaf(5), Tree::Leaf(6)]),
            custom("Frozen", vec![Tree::Leaf(7), Tree::Leaf(8)]),
            custom("Frozen", vec![Tree::None, Tree::None]),
        ]);
        let names = [
            "s[0].count",
            "s[0].mu['w']",
            "",
            "s[1].mu",
            "s[1].nu",
            "s[2][<flat index 0>]",
            "s[2][1]",
            "s[3]['a']",
            "s[3]['b'].c",
        ];
        let ways: Vec<_> = names.iter().map(|name| Way::of(name)).collect();
        let mut types = Types::default();
        self::name(&mut tree, &ways, &mut types, 0);
        name_by_type(&mut tree, &types);
        let paths = tree.paths("s");
        assert_eq!(
            paths,
            [
                "s[0].count",
                "s[0].mu['w']",
                "s[1].count",
                "s[1].mu",
                "s[1].nu",
                "s[2][0]",
                "s[2][1]",
                "s[3]['a']",
                "s[3][1]"
            ]
        );
    }

    #[test]
    fn arguments_that_python_collects_begin_where_their_names_say() {
        let start = |args: Vec<Tree>, names: &[&str]| {
            let ways: Vec<_> = names.iter().map(|name| Way::of(name)).collect();
            collected(&args, &ways)
        };
        let pair = |at: usize| Tree::Tuple(vec![Tree::Leaf(at), Tree::Leaf(at + 1)]);
        let args = || vec![pair(0), Tree::Leaf(2), Tree::None, Tree::Dict(vec![("w".into(), Tree::Leaf(3))])];
        assert_eq!(start(args(), &["p[0]", "p[1]", "args[0]", "args[2]['w']"]), Some(1));
        assert_eq!(start(args(), &["p[0]", "p[1]", "", "args[1]['w']"]), Some(2));
        assert_eq!(start(args(), &["p[0]", "p[1]", "x", "y['w']"]), None);
        assert_eq!(start(args(), &["p[0][0]", "p[0][1]", "p[1]", "p[3]['w']"]), Some(0));
        // They disagree, or come before others.
        assert_eq!(start(args(), &["p[0]", "p[1]", "args[0]", "args[1]['w']"]), None);
        assert_eq!(start(args(), &["p[0]", "p[1]", "args[0]", "y['w']"]), None);
        assert_eq!(start(vec![Tree::Leaf(0)], &["args[1]"]), None);
    }
}
