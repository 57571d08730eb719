use super::*;

fn shapes(texts: &[&str]) -> Vec<Vec<String>> {
    let shape = |text: &&str| text.split(';').filter(|dim| !dim.is_empty()).map(str::to_owned).collect();
    texts.iter().map(shape).collect()
}

/// Solves for inputs `x`, `y`, ... with these shapes.
fn solved(texts: &[&str], given: &[(&str, &[i64])]) -> Result<Vec<(String, i64)>> {
    let shapes = shapes(texts);
    let names = ["x", "y['a']", "z"];
    let paths = ["args[0]", "args[1]['a']", "kwargs['z']"];
    let inputs: Vec<_> =
        (0..shapes.len()).map(|i| Input { name: names[i], path: paths[i], shape: &shapes[i] }).collect();
    let given: Vec<_> = given.iter().map(|&(name, dims)| Given { name, dims }).collect();
    Ok(solve(&inputs, &given, inputs.iter().map(|input| input.shape))?.into_iter().collect())
}

fn pairs(values: &[(&str, i64)]) -> Vec<(String, i64)> {
    values.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
}

#[test]
fn shapes_and_sizes_determine_the_variables() {
    for given in
        [&[("x", &[32, 4][..])][..], &[("args[0]", &[32, 4])], &[("b", &[32])], &[("x", &[32, 4]), ("b", &[32])]]
    {
        assert_eq!(solved(&["b;4"], given).unwrap(), pairs(&[("b", 32)]));
    }
    let given: &[(&str, &[i64])] = &[("y$a", &[5, 11]), ("kwargs.z", &[3])];
    assert_eq!(solved(&["b + n", "b;2*b + 1", "floordiv(n, 2)"], given).unwrap_err().kind(), Kind::InvalidInput);
    let given: &[(&str, &[i64])] = &[("y$a", &[5, 11]), ("x", &[12]), ("z", &[3])];
    assert_eq!(solved(&["b + n", "b;2*b + 1", "floordiv(n, 2)"], given).unwrap(), pairs(&[("b", 5), ("n", 7)]));
    assert_eq!(solved(&["3;4"], &[]).unwrap(), []);
    // An input comes before a dimension of the same name.
    assert_eq!(solved(&["x"], &[("x", &[2])]).unwrap(), pairs(&[("x", 2)]));
}

#[test]
fn contradictions_are_told() {
    let message = |texts: &[&str], given: &[(&str, &[i64])]| {
        let error = solved(texts, given).unwrap_err();
        (error.kind() == Kind::ShapeMismatch, error.message().to_owned())
    };
    for (texts, given, expected) in [
        (&["b;4"][..], &[("x", &[32, 5][..])][..], "Dimension 2 of `x` must be 4, not 5."),
        (&["b;4"], &[("x", &[32])], "The shape of `x` must have 2 dimensions, as in (b, 4), not 1."),
        (&["2*b"], &[("x", &[3])], "Dimension 1 of `x` is `2*b`, which cannot be 3."),
        (&["b;2*b"], &[("x", &[3, 5])], "Dimension 2 of `x` is `2*b`, which is 6 with b = 3, not 5."),
        (&["b;b"], &[("x", &[3, 5])], "Dimension 2 of `x` is `b`, which is 3 with b = 3, not 5."),
        (&["b"], &[("b", &[3]), ("b", &[4])], "The dimension `b` has two sizes: 3 and 4."),
        (&["b - 3"], &[("b", &[3]), ("x", &[1])], "Dimension 1 of `x` is `b - 3`, which is 0 with b = 3, not 1."),
        (&["b"], &[("b", &[0])], "The dimension `b` must be at least 1, not 0."),
        (
            &["b + 4"],
            &[("x", &[2])],
            "The dimension `b` must be at least 1, not -2, since dimension 1 of `x` is `b + 4` = 2.",
        ),
    ] {
        assert_eq!(message(texts, given), (true, expected.to_owned()));
    }
}

#[test]
fn what_is_missing_is_told() {
    let error = solved(&["b;4", "b;n"], &[("y.a", &[2, 3]), ("w", &[1]), ("v", &[])]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "The function has no input and no symbolic dimension named `w`, `v`.\nIts inputs are `x`, `y['a']`.\nIts symbolic \
         dimensions are `b`, `n`."
    );
    let error = solved(&["b;4", "b;n"], &[("b", &[2])]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "The size of the symbolic dimension `n` is not known.\nGive it, or the shape of an input that has it: `y['a']` (b, n)."
    );
    assert!(solved(&["b"], &[("b", &[1, 2])]).unwrap_err().message().contains("must be one number, not 2"));
    assert!(solved(&["b+"], &[]).unwrap_err().message().contains("damaged"));
}

#[test]
fn outputs_have_the_sizes_of_their_expressions() {
    let values: Values = [("b".to_owned(), 3)].into();
    let shape = shapes(&["b;8*b + 4;floordiv(b, 2);7"]).remove(0);
    assert_eq!(evaluate(&shape, &values).unwrap(), [3, 28, 1, 7]);
    let error = evaluate(&shapes(&["b - 4"]).remove(0), &values).unwrap_err();
    assert_eq!(error.message(), "The dimension `b - 4` has no size for b = 3.");
}

#[test]
fn more_variables_than_any_function_has_are_damage() {
    let many = |count: usize| (0..count).map(|i| format!("v{i}")).collect::<Vec<_>>();
    assert_eq!(variables([many(1000).as_slice()].into_iter()).unwrap().len(), 1000);
    assert!(variables([many(1001).as_slice()].into_iter()).is_err());
}
