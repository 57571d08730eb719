# Slow: tries every bad value.
# Bad input to functions for nested lists. helper-bad-input.R explains the rows.

rows <- list(
  build_tree = row(x = "any"),
  flatten = row(x = "any"),
  unflatten = row(tree = "tree", x = of("list", leaves)),
  flatten_fun = row(f = of("fun", identity, "a function as PJRTBuffer"), in_tree = "tree"),
  map_tree = row(.x = of("any", 1), .f = "fun"),
  pmap_tree = row(.l = of("list", list(1), "list(1)", "list(a = NULL)"), .f = "fun"),
  tree_size = row(tree = "tree"),
  tree_equal = row(a = "tree", b = "tree"),
  tree_hash = row(tree = "tree"),
  tree_root_kind = row(tree = "tree"),
  tree_child_names = row(tree = "tree"),
  tree_child_kinds = row(tree = "tree"),
  tree_child_sizes = row(tree = "tree"),
  tree_path = row(tree = "tree", i = of("index", 1, "1L")),
  tree_filter_by_names = row(tree = "tree", names = "texts"),
  tree_concat = row(
    children = of("list", list(tree), "list()"),
    names = of("texts", NULL, "NULL", "!character()", "!c(\"a\", \"b\")")
  ),
  tree_leaf_mask = row(tree = "tree", groups = "texts"),
  tree_repr = row(tree = "tree"),
  tree_diff = row(a = "tree", b = "tree")
)

# Bad values inside an argument; `.` in the name stands for the value.
uses <- list(`tree_concat(list(tree, .))` = use(tree_concat(list(tree, bad)), "tree"))

test_that("functions for nested lists refuse bad input with an error of this package", {
  tried <- try_bad_input(rows, uses, at_least = 2000)
  expect_snapshot(cat(refusals(tried)))
})
