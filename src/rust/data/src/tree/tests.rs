use super::*;

/// A tree from text like that of [`Tree::repr`], with "," between elements.
fn tree(text: &str) -> Tree {
    let mut builder = Builder::default();
    read(&mut builder, text, "");
    builder.finish()
}

fn read(builder: &mut Builder, text: &str, name: &str) {
    let list = text.strip_prefix("list").and_then(|rest| rest.strip_suffix(')'));
    match (text, list) {
        ("*", _) => builder.leaf(name).unwrap(),
        ("NULL", _) => builder.null(name).unwrap(),
        (_, Some(list)) => {
            let (has_names, elements) = match list.strip_prefix("<named>(") {
                Some(elements) => (true, elements),
                None => (false, &list[1..]),
            };
            let elements = split(elements);
            builder.open(has_names, elements.len(), name).unwrap();
            for element in elements {
                let (name, element) = match element.split_once(" = ") {
                    Some((name, element)) if !name.contains('(') => (name, element),
                    _ => ("", element),
                };
                read(builder, element, name);
            }
            builder.close();
        }
        _ => panic!("{text}"),
    }
}

fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        depth += i32::from(c == '(') - i32::from(c == ')');
        if c == ',' && depth == 0 {
            parts.push(text[start..i].trim());
            start = i + 1;
        }
    }
    parts.extend(Some(text[start..].trim()).filter(|last| !last.is_empty()));
    parts
}

#[test]
fn nodes_without_leaves_have_paths() {
    let some = tree("list<named>(a = NULL, b = list(*, list(NULL), list()))");
    assert_eq!(some.empty_paths(), ["a", "b[[2]]", "b[[2]][[1]]", "b[[3]]"]);
    assert_eq!(some.paths(), ["b[[1]]"]);
    assert_eq!(tree("list()").empty_paths(), [""]);
}

const TREES: [&str; 14] = [
    "*",
    "NULL",
    "list()",
    "list<named>()",
    "list(*)",
    "list<named>(*)",
    "list<named>(a = *)",
    "list<named>(b = *)",
    "list(NULL)",
    "list(list(), *)",
    "list(list(*))",
    "list(*, *)",
    "list<named>(l = list(*, list<named>(a = NULL, b = *)), *)",
    "list(list(list(*), *), list<named>(x = *, y = list(*, NULL), list()))",
];

fn deep(levels: usize) -> Result<Tree> {
    let mut builder = Builder::default();
    for _ in 0..levels {
        builder.open(false, 1, "")?;
    }
    builder.leaf("")?;
    (0..levels).for_each(|_| builder.close());
    Ok(builder.finish())
}

#[test]
fn a_tree_is_equal_to_itself_alone_and_so_is_its_hash() {
    for (i, a) in TREES.iter().enumerate() {
        assert_eq!(tree(a).repr(), *a);
        for (j, b) in TREES.iter().enumerate() {
            assert_eq!(tree(a) == tree(b), i == j, "{a} {b}");
            assert_eq!(tree(a).hash() == tree(b).hash(), i == j, "{a} {b}");
            assert_eq!(tree(a).difference(&tree(b)).is_none(), i == j, "{a} {b}");
        }
    }
}

#[test]
fn names_with_the_same_letters_are_told_apart() {
    let named = |a: &str, b: &str| tree(&format!("list<named>({a} = *, {b} = *)"));
    assert_ne!(named("ab", "c"), named("a", "bc"));
    assert_ne!(named("ab", "c").hash(), named("a", "bc").hash());
}

#[test]
fn leaves_have_paths() {
    let tree = tree(TREES[12]);
    assert_eq!(tree.size(), 3);
    assert_eq!(tree.path(0).unwrap(), "l[[1]]");
    assert_eq!(tree.path(1).unwrap(), "l[[2]]$b");
    assert_eq!(tree.path(2).unwrap(), "[[2]]");
    assert_eq!(tree.path(3), None);
    assert_eq!(tree.paths(), ["l[[1]]", "l[[2]]$b", "[[2]]"]);
    assert_eq!(super::tests::tree("*").path(0).unwrap(), "");
    assert_eq!(super::tests::tree("*").paths(), [""]);
    assert_eq!(super::tests::tree("NULL").path(0), None);
}

#[test]
fn names_that_r_cannot_read_have_backticks() {
    let named = |name: &str| {
        let mut path = "x".to_owned();
        add_step(&mut path, name, 0);
        path
    };
    for name in ["a", ".a", "a.1_b", "é", "..."] {
        assert_eq!(named(name), format!("x${name}"));
    }
    for name in ["a b", "_a", "1", ".1", "if", "linear/~/w", "a-b"] {
        assert_eq!(named(name), format!("x$`{name}`"));
    }
    assert_eq!(named("a`\\"), "x$`a\\`\\\\`");
}

#[test]
fn a_tree_is_made_again_from_its_nodes() {
    for text in TREES {
        let tree = tree(text);
        assert_eq!(Tree::of_nodes(tree.views()).unwrap(), tree);
        let count = tree.views().count();
        assert!(Tree::of_nodes(tree.views().take(count - 1)).is_err());
        assert!(Tree::of_nodes(tree.views().chain(tree.views())).is_err());
    }
    let tree = tree(TREES[13]);
    assert_eq!(tree.child(1).unwrap().repr(), "list<named>(x = *, y = list(*, NULL), list())");
    assert_eq!(tree.child(2), None);
}

#[test]
fn differences_name_the_first_node_that_differs() {
    let difference = |a: &str, b: &str| {
        let found = tree(a).difference(&tree(b)).unwrap();
        (found.prefix, found.a, found.b)
    };
    let text = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(difference("*", "NULL"), text("", "*", "NULL"));
    assert_eq!(
        difference("list<named>(m = list<named>(w = *, b = *))", "list<named>(m = list<named>(w = *, b = list(*)))"),
        text("m$b", "*", "list(*)")
    );
    let (a, b) = ("list<named>(m = list<named>(w = *, b = *))", "list<named>(m = list<named>(w = *, c = *))");
    assert_eq!(difference(a, b), text("m", "list<named>(w = *, b = *)", "list<named>(w = *, c = *)"));
    assert_eq!(difference("list(*, list(*))", "list(*, list(*, *))"), text("[[2]]", "list(*)", "list(*, *)"));
    assert_eq!(difference("list()", "list<named>()"), text("", "list()", "list<named>()"));
}

#[test]
fn children_are_chosen_by_name() {
    let tree = tree("list<named>(a = *, b = list(*, *), *, a = NULL)");
    let names = |names: &[&'static str]| names.iter().copied().collect::<HashSet<_>>();
    assert_eq!(tree.filter(&names(&["b"])).unwrap().repr(), "list<named>(b = list(*, *))");
    assert_eq!(tree.filter(&names(&["b", "a", "c"])).unwrap().repr(), "list<named>(a = *, b = list(*, *), a = NULL)");
    assert_eq!(tree.filter(&names(&[])).unwrap(), super::tests::tree("list<named>()"));
    assert_eq!(tree.leaf_mask(&names(&["b"])), [false, true, true, false]);
    assert_eq!(tree.leaf_mask(&names(&["", "c"])), [false; 4]);
    assert_eq!(super::tests::tree("*").leaf_mask(&names(&["a"])), [false]);
    for unnamed in ["*", "NULL", "list(*)"] {
        assert!(super::tests::tree(unnamed).filter(&names(&["a"])).is_err());
    }
}

#[test]
fn trees_become_children() {
    let (a, b) = (tree(TREES[12]), tree("*"));
    let unnamed = Tree::concat(&[&a, &b], None).unwrap();
    assert_eq!(unnamed, tree(&format!("list({}, *)", TREES[12])));
    assert_eq!((unnamed.size(), unnamed.depth()), (4, 4));
    let named = Tree::concat(&[&b, &a], Some(&["x", ""])).unwrap();
    assert_eq!(named, tree(&format!("list<named>(x = *, {})", TREES[12])));
    assert_eq!(named.path(2).unwrap(), "[[2]]$l[[2]]$b");
    assert_eq!(Tree::concat(&[], None).unwrap(), tree("list()"));
    assert_eq!(Tree::concat(&[], Some(&[])).unwrap(), tree("list<named>()"));
    assert!(Tree::concat(&[&a], Some(&[])).is_err());
}

#[test]
fn lists_with_names_are_listed_each_before_its_elements() {
    let tree = tree("list(list<named>(a = list<named>(), *), list(*), list<named>(b = *))");
    let names: Vec<(usize, Vec<&str>)> = tree.named_lists().map(|(count, names)| (count, names.collect())).collect();
    assert_eq!(names, [(2, vec!["a", ""]), (0, vec![]), (1, vec!["b"])]);
}

#[test]
fn children_of_the_root_have_names_kinds_and_sizes() {
    let tree = tree("list<named>(a = *, b = list(*, *), NULL)");
    let children: Vec<_> = tree.children().map(|(child, leaves)| (child.name, child.kind.name(), leaves)).collect();
    assert_eq!(children, [("a", "leaf", 1), ("b", "list", 2), ("", "null", 0)]);
    assert_eq!(super::tests::tree("*").children().count(), 0);
}

#[test]
fn deep_trees_are_refused_and_the_deepest_ones_work() {
    assert!(deep(MAX_DEPTH + 1).is_err());
    let tree = deep(MAX_DEPTH).unwrap();
    assert_eq!(tree, tree.clone());
    assert_eq!((tree.size(), tree.depth()), (1, MAX_DEPTH));
    assert_eq!(tree.path(0).unwrap().len(), 5 * MAX_DEPTH);
    assert_eq!(tree.repr().len(), 6 * MAX_DEPTH + 1);
    assert_ne!(tree.hash(), deep(MAX_DEPTH - 1).unwrap().hash());
    assert_eq!(tree.difference(&deep(MAX_DEPTH - 1).unwrap()).unwrap().a, "list(*)");
    assert!(Tree::concat(&[&tree], None).is_err());
}
