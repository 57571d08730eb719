use super::*;
use crate::exported::Key;

fn input(kind: &str, donated: bool) -> Input {
    Input { kind: kind.to_owned(), kept: true, donated, symbolic: false }
}

fn named(inputs: &[(&str, &str)], outputs: &[(&str, &str)]) -> Callable {
    let inputs = inputs.iter().map(|(name, kind)| ((*name).to_owned(), input(kind, false))).collect();
    let outputs = outputs.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
    Callable::of_names("f", inputs, outputs, 1).unwrap()
}

/// A step of a model with Adam, as optax writes it; the second argument of `nodes` is the number of the first leaf.
fn training() -> Callable {
    let model = |at: usize| Tree::Dict(vec![("b".into(), Tree::Leaf(at)), ("w".into(), Tree::Leaf(at + 1))]);
    let keys = ["count", "mu", "nu"].map(|key| Key::Attribute(key.to_owned())).to_vec();
    let adam = |at: usize| Tree::Custom {
        name: "Adam".into(),
        children: vec![Tree::Leaf(at), model(at + 1), model(at + 3)],
        keys: keys.clone(),
    };
    let empty = || Tree::custom("Empty".into(), Vec::new());
    let optimizer = |at: usize| Tree::Tuple(vec![empty(), Tree::Tuple(vec![adam(at), Tree::None])]);
    let args = Tree::Tuple(vec![model(0), optimizer(2), Tree::Leaf(7), Tree::None]);
    let pair = Tree::Tuple(vec![args, Tree::Dict(vec![("rate".into(), Tree::Leaf(8))])]);
    let names = [Some("params".to_owned()), Some("opt_state".to_owned()), Some("x".to_owned()), None];
    let kinds = ["f32[]", "f32[3]", "i32[]", "f32[]", "f32[3]", "f32[]", "f32[3]", "f32[4x3]", "f32[]"];
    Callable {
        name: "step".into(),
        arguments: arguments::of_pair(&pair, &names, None).unwrap(),
        classes: arguments::classes(&pair),
        inputs: kinds.iter().enumerate().map(|(i, kind)| input(kind, i < 7)).collect(),
        outputs: kinds[..7].iter().chain(&["f32[]"]).map(|&kind| kind.to_owned()).collect(),
        result: Some(Nested::of(&Tree::Tuple(vec![model(0), optimizer(2), Tree::None, Tree::Leaf(7)])).unwrap()),
        has_weights: false,
        devices: 1,
        state: None,
    }
    .checked()
    .unwrap()
}

fn message<T>(result: Result<T>) -> String {
    result.err().map(|error| error.message().to_owned()).unwrap_or_default()
}

#[test]
fn arguments_have_the_names_of_python() {
    let f = training();
    assert_eq!(f.names(), ["params", "opt_state", "x", "x4", "rate"]);
    assert_eq!(
        f.input_paths(),
        [
            "params$b",
            "params$w",
            "opt_state[[2]][[1]]$count",
            "opt_state[[2]][[1]]$mu$b",
            "opt_state[[2]][[1]]$mu$w",
            "opt_state[[2]][[1]]$nu$b",
            "opt_state[[2]][[1]]$nu$w",
            "x",
            "rate"
        ]
    );
    let adam = Class { argument: 1, path: "/1/0".into(), names: ["count", "mu", "nu"].map(str::to_owned).to_vec() };
    assert_eq!(f.classes, [adam]);
    assert_eq!(f.optional(), [false, false, false, true, false]);
    assert_eq!(f.output_paths().unwrap()[2], "[[2]][[2]][[1]]$count");
    assert_eq!(Callable::of_text(&f.to_text().unwrap()).unwrap(), f);
    let renamed = f.renamed(&["p", "o", "x", "none", "r"]).unwrap();
    assert_eq!(renamed.input_paths()[2], "o[[2]][[1]]$count");
    assert!(message(renamed.clone().renamed(&["p", "p", "a.b", "", "r"])).ends_with("got `p`, `a.b`, ``."));
}

#[test]
fn a_step_carries_what_has_a_structure_of_its_own() {
    let step = training().step(&Wanted::Any, &["loss".to_owned()]).unwrap();
    let state = step.state.as_ref().unwrap();
    assert_eq!(state.names, ["params", "opt_state"]);
    assert_eq!(state.sources[..7], [0, 1, 2, 3, 4, 5, 6].map(Some));
    assert_eq!(state.sources[7..], [None, None]);
    let result = step.result.as_ref().unwrap();
    let model = "list<named>(b = *, w = *)";
    let adam = format!("list<named>(count = *, mu = {model}, nu = {model})");
    let want = format!("list<named>(params = {model}, opt_state = list(list(), list({adam}, NULL)), loss = *)");
    assert_eq!(result.tree.repr(), want);
    assert_eq!(result.rows, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(
        step.lines(false).unwrap().join("\n"),
        "  state:
    params: donated, from [[1]]
      b: f32[]
      w: f32[3]
    opt_state: donated, from [[2]]
      [[1]]: list()
      [[2]]
        [[1]]
          count: i32[]
          mu
            b: f32[]
            w: f32[3]
          nu
            b: f32[]
            w: f32[3]
        [[2]]: NULL
  arguments:
    x: f32[4x3]
    x4: NULL
    rate: f32[]
  other outputs:
    loss: f32[]"
    );
    assert_eq!(Callable::of_text(&step.to_text().unwrap()).unwrap(), step);
}

#[test]
fn a_state_is_chosen_by_name_and_by_position() {
    let outputs = |output: Choice| Wanted::Outputs(vec![("params".to_owned(), output)]);
    for choice in [Choice::Position(1.0), Choice::Name("[[1]]".into())] {
        let step = training().step(&outputs(choice), &[]).unwrap();
        assert_eq!(step.state.unwrap().names, ["params"]);
        let names: Vec<_> =
            step.result.as_ref().unwrap().elements().iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(names, ["params", "output2", "output4"]);
    }
    let refused = |output| message(training().step(&outputs(output), &[]));
    assert_eq!(refused(Choice::Position(4.0)), "There is no output for `params$b`.");
    assert_eq!(refused(Choice::Position(5.0)), "`state` must name outputs: there is no output `5`.");
    assert_eq!(refused(Choice::Position(1.5)), "`state` must name outputs: there is no output `1.5`.");
    assert_eq!(refused(Choice::Name("new".into())), "`state` must name outputs: there is no output `new`.");
    let wrong = Wanted::Arguments(vec!["y".to_owned()]);
    assert_eq!(
        message(training().step(&wrong, &[])),
        "`state` must name arguments of the function, each once: got `y`."
    );
}

#[test]
fn names_of_programs_lead_into_lists() {
    let f =
        named(&[("params.b", "f32[2]"), ("params.w", "f32[2]"), ("%x", "f32[]"), ("%arg3", "f32[]")], &[("", "f32[]")]);
    assert_eq!(f.names(), ["params", "x", "x4"]);
    assert_eq!(f.input_paths(), ["params$b", "params$w", "x", "x4"]);
    let clash = named(&[("params", "f32[2]"), ("params.w", "f32[2]"), ("x1", "f32[]"), ("a", ""), ("a", "")], &[]);
    assert_eq!(clash.input_paths(), ["x1_1", "x2", "x1", "x4", "x5"]);
    let positions = named(&[("l.1", ""), ("l.0", ""), ("m.1", ""), ("m.x", "")], &[("a.0", ""), ("a.1", "")]);
    assert_eq!(positions.input_paths(), ["l[[2]]", "l[[1]]", "m$`1`", "m$x"]);
    assert_eq!(positions.output_paths().unwrap(), ["a[[1]]", "a[[2]]"]);
    let zeros = named(&[("l.00.w", ""), ("l.01.w", "")], &[("01", ""), ("00", "")]);
    assert_eq!(zeros.input_paths(), ["l[[1]]$w", "l[[2]]$w"]);
    assert_eq!(zeros.output_paths().unwrap(), ["[[2]]", "[[1]]"]);
    assert_eq!(named(&[], &[("a", ""), ("a", "")]).result, None);
    let deep = vec!["a"; 101].join("/");
    assert_eq!(named(&[], &[(&deep, ""), ("b", "")]).result, None);
    let deep = vec!["a"; 10_000].join("/");
    assert_eq!(named(&[(&deep, "")], &[]).names(), ["x1"]);
}

#[test]
fn long_trees_are_folded() {
    let names: Vec<String> =
        (0..20).flat_map(|i| (0..6).map(move |j| format!("p.layer{}.part{}.w{j}", i % 10, i / 10))).collect();
    let inputs: Vec<_> = names.iter().map(|name| (name.as_str(), "f32[2]")).collect();
    let lines = named(&inputs, &[("", "f32[]")]).lines(false).unwrap();
    assert_eq!(
        lines[..5],
        ["  arguments:", "    p", "      layer0", "        part0: 6 arrays", "        part1: 6 arrays"]
    );
    let wide: Vec<String> = (0..30).map(|i| format!("a{i}")).collect();
    let wide: Vec<_> = wide.iter().map(|name| (name.as_str(), "f32[]")).collect();
    let lines = named(&wide, &[]).lines(false).unwrap();
    assert_eq!(lines[10..], ["    a9: f32[]", "    ... 20 more", "  result: none"]);
}

#[test]
fn no_change_of_a_text_does_more_than_an_error() {
    let text = training().step(&Wanted::Any, &[]).unwrap().to_text().unwrap();
    for place in 0..text.len() {
        for other in *b"09\"[a-" {
            let mut changed = text.clone().into_bytes();
            changed[place] = other;
            let Ok(changed) = String::from_utf8(changed) else { continue };
            if let Ok(found) = Callable::of_text(&changed) {
                let _ = (found.lines(false), found.signature(), found.optional(), found.symbolic());
            }
        }
    }
}
