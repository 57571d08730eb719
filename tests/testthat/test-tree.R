# Slow: collects garbage at every allocation.

# Structures of nested lists.

repr <- function(x) tree_repr(build_tree(x))

test_that("flatten() returns the leaves from left to right", {
  expect_identical(flatten(list(1, list("a", list(TRUE)), 2L)), list(1, "a", TRUE, 2L))
  expect_identical(flatten(list(a = 1, b = list(c = 2))), list(1, 2))
  expect_identical(flatten(3), list(3))
  expect_identical(flatten(NULL), list())
  expect_identical(flatten(list()), list())
  expect_identical(flatten(list(NULL, list(NULL), 1)), list(1))
})

test_that("a list without a class is a node, and everything else a leaf", {
  leaves <- list(
    data.frame(a = 1), structure(list(1, 2), class = "mine"), factor("a"), 1:3, matrix(1:4, 2), "a", TRUE, 1i, raw(2),
    NA,
    sum, function(x) x, quote(f), quote(f(x)), y ~ x, expression(1, 2), pairlist(a = 1), globalenv(), Sys.time(),
    methods::getClass("numeric"), numeric_version("1.0"), .Machine$double.xmax, integer(), null_pointer()
  )
  for (leaf in leaves) {
    expect_identical(tree_root_kind(build_tree(leaf)), "leaf")
    expect_identical(flatten(leaf), list(leaf))
    expect_identical(unflatten(build_tree(leaf), list(leaf)), leaf)
  }
  expect_identical(tree_root_kind(build_tree(list(1))), "list")
  expect_identical(tree_root_kind(build_tree(list(a = 1))), "list")
  expect_identical(tree_root_kind(build_tree(list())), "list")
  expect_identical(tree_root_kind(build_tree(NULL)), "null")
})

test_that("an S4 object that is a list is a leaf", {
  environment <- new.env()
  class <- methods::setClass("ListForTree", contains = "list", where = environment)
  withr::defer(methods::removeClass("ListForTree", where = environment))
  object <- class(list(1, 2))
  expect_identical(flatten(object), list(object))
})

test_that("a tree keeps the names of a list, and no other attributes", {
  grid <- matrix(list(1, "a", NULL, 2), 2, dimnames = list(c("x", "y"), NULL))
  expect_identical(repr(grid), "list(*, *, NULL, *)")
  expect_identical(unflatten(build_tree(grid), flatten(grid)), list(1, "a", NULL, 2))
  noted <- structure(list(a = 1), note = "b")
  expect_identical(unflatten(build_tree(noted), flatten(noted)), list(a = 1))
  row <- array(list(1, 2), 2L, list(c("a", "b")))
  expect_identical(unflatten(build_tree(row), flatten(row)), list(a = 1, b = 2))
})

test_that("unflatten() restores what flatten() and build_tree() took apart", {
  values <- list(
    list(), list(NULL), list(1), list(a = 1), structure(list(), names = character()), list(a = 1, 2), list(1, b = NULL),
    structure(list(1, 2), names = c("", "")), list(a = 1, a = 2), list(list(list(list(1)))), NULL, 1, "a",
    list(x = list(y = list(), z = list(1, NULL, w = list(NULL)))), list(data.frame(a = 1), list(sum))
  )
  for (value in values) expect_identical(unflatten(build_tree(value), flatten(value)), value)
  expect_identical(unflatten(build_tree(list(a = 1, b = list(2))), list("x", NULL)), list(a = "x", b = list(NULL)))
})

# A nested list with random names, sizes and leaves, and no attributes but names.
random_list <- function(depth) {
  kind <- sample(c("leaf", "null", "list"), 1L, prob = c(0.4, 0.1, if (depth > 0L) 0.5 else 0))
  if (kind == "null") return(NULL)
  if (kind == "leaf") return(list(1, "a", 1:3, sum, factor("a"), data.frame(a = 1), globalenv())[[sample(7L, 1L)]])
  out <- lapply(seq_len(sample(0:4, 1L)), function(i) random_list(depth - 1L))
  names <- sample(c("", "a", "b", "w x", "\u00e9", "\u4e2d", "a$b"), length(out), replace = TRUE)
  if (stats::runif(1L) < 0.6) structure(out, names = names) else out
}

# The positions that lead to leaf `k`, as code, found by plain R. Also checks tree_path().
path_code <- function(marked, k) {
  path <- ""
  code <- "marked"
  here <- marked
  while (is.list(here)) {
    i <- which(vapply(here, function(element) k %in% unlist(element), NA))
    name <- names(here)[i]
    quoted <- if (identical(make.names(name), name)) name else paste0("`", name, "`")
    step <- if (is.null(name) || !nzchar(name)) sprintf("[[%d]]", i) else paste0(if (nzchar(path)) "$", quoted)
    path <- paste0(path, step)
    code <- sprintf("%s[[%d]]", code, i)
    here <- here[[i]]
  }
  expect_identical(tree_path(build_tree(marked), k), path)
  code
}

test_that("random nested lists survive, and equal ones alone have equal trees", {
  withr::local_seed(1)
  lists <- replicate(times(40L, 200L), random_list(5L), simplify = FALSE)
  trees <- lapply(lists, build_tree)
  for (i in seq_along(lists)) {
    leaves <- flatten(lists[[i]])
    expect_identical(unflatten(trees[[i]], leaves), lists[[i]])
    expect_identical(tree_size(trees[[i]]), length(leaves))
    marked <- unflatten(trees[[i]], as.list(seq_along(leaves)))
    for (k in seq_along(leaves)) {
      expect_identical(eval(parse(text = path_code(marked, k)), list(marked = marked)), k)
    }
    expect_null(tree_diff(trees[[i]], build_tree(lists[[i]])))
  }
  hashes <- vapply(trees, tree_hash, "")
  reprs <- vapply(trees, tree_repr, "")
  expect_identical(length(unique(hashes)), length(unique(reprs)))
  few <- seq_len(times(30L, 100L))
  for (i in few) {
    same <- vapply(trees[few], tree_equal, NA, trees[[i]])
    expect_identical(same, reprs[few] == reprs[[i]])
    expect_identical(hashes[few] == hashes[[i]], same)
    expect_identical(vapply(trees[few], function(tree) is.null(tree_diff(tree, trees[[i]])), NA), same)
  }
})

test_that("unflatten() refuses a wrong number of leaves", {
  tree <- build_tree(list(1, list(2, 3)))
  expect_refused(unflatten(tree, list(1)), "invalid_input", "unflatten(): got 1 leaf but the tree has 3")
  expect_refused(unflatten(tree, as.list(1:4)), "invalid_input", "unflatten(): got 4 leaves but the tree has 3")
  expect_refused(unflatten(tree, 1:3), "invalid_input", "`x` must be a list of leaves")
})

test_that("names that are NA or not text are refused", {
  for (f in list(build_tree, flatten)) {
    expect_refused(f(structure(list(1, 2), names = c("a", NA))), "invalid_input", "tree names must not be NA")
    expect_refused(
      f(list(list(structure(list(1), names = NA_character_)))), "invalid_input", "tree names must not be NA"
    )
  }
  expect_refused(build_tree(list(b = structure(list(1), names = NA_character_))), "invalid_input", "NA")
  for (name in plain_values()[c("invalid UTF-8", "bytes")]) {
    expect_refused(build_tree(structure(list(1), names = name)), "invalid_input", "must be valid text")
  }
})

test_that("names are kept in UTF-8 whatever their encoding", {
  latin1 <- `Encoding<-`("\xe9", "latin1")
  a <- build_tree(structure(list(1, 2), names = c(latin1, "b")))
  b <- build_tree(structure(list(1, 2), names = c("\u00e9", "b")))
  expect_identical(Encoding(tree_child_names(a))[[1L]], "UTF-8")
  expect_identical(tree_child_names(a), c("\u00e9", "b"))
  expect_true(tree_equal(a, b))
  expect_identical(tree_hash(a), tree_hash(b))
  expect_identical(tree_path(a, 1), "\u00e9")
  expect_identical(names(unflatten(a, list(1, 2))), c("\u00e9", "b"))
  expect_true(tree_equal(tree_filter_by_names(b, latin1), tree_filter_by_names(a, "\u00e9")))
  expect_identical(tree_leaf_mask(b, latin1), c(TRUE, FALSE))
})

test_that("names that R makes as they are asked for are read", {
  x <- as.list(1:3)
  names(x) <- 11:13
  expect_identical(tree_child_names(build_tree(x)), c("11", "12", "13"))
  expect_identical(unflatten(build_tree(x), flatten(x)), as.list(c(`11` = 1L, `12` = 2L, `13` = 3L)))
})

test_that("later changes of the names do not change the tree", {
  x <- list(a = 1, b = 2)
  tree <- build_tree(x)
  names(x)[[1L]] <- "c"
  expect_identical(tree_child_names(tree), c("a", "b"))
  made <- unflatten(tree, list(1, 2))
  names(made)[[1L]] <- "d"
  expect_identical(names(unflatten(tree, list(1, 2))), c("a", "b"))
})

test_that("trees count their leaves", {
  expect_identical(tree_size(build_tree(1)), 1L)
  expect_identical(tree_size(build_tree(NULL)), 0L)
  expect_identical(tree_size(build_tree(list(1, NULL, list(2, data.frame(a = 1))))), 3L)
})

test_that("names, number and places of NULL decide whether trees are equal", {
  values <- list(
    1, NULL, list(), structure(list(), names = character()), list(1), list(a = 1), list(b = 1), list(1, 2),
    list(1, NULL),
    list(NULL, 1), list(list(1)), structure(list(1), names = ""), list(a = 1, b = 2), list(b = 1, a = 2),
    list(ab = 1, c = 2),
    list(a = 1, bc = 2)
  )
  trees <- lapply(values, build_tree)
  for (i in seq_along(values)) {
    for (j in seq_along(values)) {
      expect_identical(tree_equal(trees[[i]], trees[[j]]), i == j)
      expect_identical(tree_hash(trees[[i]]) == tree_hash(trees[[j]]), i == j)
    }
  }
  expect_true(tree_equal(build_tree(list(a = 1)), build_tree(list(a = "other leaf"))))
})

test_that("the hash is a decimal number of 64 bits, the same in every session", {
  expect_match(tree_hash(build_tree(list(a = 1))), "^[0-9]{1,20}$")
  child <- run_child(quote(cat(tree_hash(build_tree(list(a = 1, b = list(NULL)))), "\n")))
  expect_clean(child, paste0(tree_hash(build_tree(list(a = 1, b = list(NULL)))), " "))
})

test_that("children have names, kinds and sizes", {
  tree <- build_tree(list(a = 1, list(2, 3), c = NULL))
  expect_identical(tree_child_names(tree), c("a", "", "c"))
  expect_identical(tree_child_kinds(tree), c("leaf", "list", "null"))
  expect_identical(tree_child_sizes(tree), c(1L, 2L, 0L))
  expect_null(tree_child_names(build_tree(list(1, 2))))
  expect_null(tree_child_names(build_tree(list())))
  expect_null(tree_child_names(build_tree(1)))
  expect_null(tree_child_names(build_tree(NULL)))
  expect_identical(tree_child_names(build_tree(structure(list(), names = character()))), character())
  expect_identical(tree_child_kinds(build_tree(list())), character())
  expect_identical(tree_child_sizes(build_tree(list())), integer())
  for (tree in list(build_tree(1), build_tree(NULL))) {
    expect_refused(tree_child_kinds(tree), "invalid_input", "requires a tree whose root is a list node")
    expect_refused(tree_child_sizes(tree), "invalid_input", "requires a tree whose root is a list node")
  }
})

test_that("leaves have paths", {
  tree <- build_tree(list(a = list(b = 1), 2, l = list(3, list(b = 4))))
  expect_identical(tree_path(tree, 1), "a$b")
  expect_identical(tree_path(tree, 2L), "[[2]]")
  expect_identical(tree_path(tree, 3), "l[[1]]")
  expect_identical(tree_path(tree, 4), "l[[2]]$b")
  expect_identical(tree_path(build_tree(1), 1), "")
  for (i in list(0, 5, -1, 1e300)) expect_refused(tree_path(tree, i), "invalid_input", "no leaf with index")
  expect_refused(tree_path(build_tree(NULL), 1), "invalid_input", "no leaf with index 1")
})

test_that("children are selected by name", {
  tree <- build_tree(list(a = 1, b = list(2, 3), c = list(x = 4)))
  chosen <- tree_filter_by_names(tree, c("c", "a", "none"))
  expect_true(tree_equal(chosen, build_tree(list(a = 1, c = list(x = 4)))))
  expect_identical(unflatten(chosen, list("first", "second")), list(a = "first", c = list(x = "second")))
  expect_identical(tree_path(chosen, 2), "c$x")
  expect_true(tree_equal(tree_filter_by_names(tree, character()), build_tree(structure(list(), names = character()))))
  for (unnamed in list(1, NULL, list(1, 2), list())) {
    expect_refused(tree_filter_by_names(build_tree(unnamed), "a"), "invalid_input", "tree must have names")
  }
})

test_that("trees are combined into a list", {
  a <- build_tree(list(x = 1, 2))
  b <- build_tree(3)
  expect_true(tree_equal(tree_concat(list(a, b)), build_tree(list(list(x = 1, 2), 3))))
  named <- tree_concat(list(a, b, a), names = c("p", "", "q"))
  expect_true(tree_equal(named, build_tree(list(p = list(x = 1, 2), 3, q = list(x = 1, 2)))))
  expect_identical(unflatten(named, as.list(1:5)), list(p = list(x = 1L, 2L), 3L, q = list(x = 4L, 5L)))
  expect_true(tree_equal(tree_concat(list()), build_tree(list())))
  expect_identical(tree_child_names(tree_concat(list(), character())), character())
  expect_refused(tree_concat(list(a, b), "p"), "invalid_input", "names must match the number of children")
  expect_refused(tree_concat(list(a, b), c("p", NA)), "invalid_input", "names must not be NA")
  expect_refused(tree_concat(list(a, 1)), "invalid_input", "expected an `RTree` (as returned by `build_tree()`)")
})

test_that("a mask marks the leaves of children", {
  tree <- build_tree(list(a = 1, b = list(2, NULL, 3), 4, c = NULL))
  expect_identical(tree_leaf_mask(tree, "b"), c(FALSE, TRUE, TRUE, FALSE))
  expect_identical(tree_leaf_mask(tree, c("c", "a", "none")), c(TRUE, FALSE, FALSE, FALSE))
  expect_identical(tree_leaf_mask(tree, character()), rep(FALSE, 4L))
  expect_identical(tree_leaf_mask(tree, ""), rep(FALSE, 4L))
  expect_identical(tree_leaf_mask(build_tree(1), "a"), FALSE)
  expect_identical(tree_leaf_mask(build_tree(list(1, 2)), "a"), c(FALSE, FALSE))
  expect_identical(tree_leaf_mask(build_tree(NULL), "a"), logical())
})

test_that("trees are shown as text", {
  expect_identical(repr(1), "*")
  expect_identical(repr(NULL), "NULL")
  expect_identical(repr(list(1, 2)), "list(*, *)")
  expect_identical(repr(list()), "list()")
  expect_identical(repr(list(a = 1)), "list<named>(a = *)")
  expect_identical(repr(structure(list(), names = character())), "list<named>()")
  expect_identical(
    repr(list(a = list(1, b = NULL), list(list()))), "list<named>(a = list<named>(*, b = NULL), list(list()))"
  )
  tree <- build_tree(list(a = 1, 2))
  expect_identical(format(tree), "list<named>(a = *, *)")
  expect_output(returned <- withVisible(print(tree)), "^list<named>\\(a = \\*, \\*\\)$")
  expect_false(returned$visible)
  expect_s3_class(tree, "RTree", exact = TRUE)
})

test_that("the first difference between trees has a place", {
  diff <- function(a, b) tree_diff(build_tree(a), build_tree(b))
  expect_null(diff(list(a = 1), list(a = 2)))
  expect_identical(diff(1, NULL), list(prefix = "", a = "*", b = "NULL"))
  expect_identical(
    diff(list(model = list(w = 1, bias = 2)), list(model = list(w = 1, bias = list(2)))),
    list(prefix = "model$bias", a = "*", b = "list(*)")
  )
  expect_identical(
    diff(list(1, list(a = 1)), list(1, list(b = 1))),
    list(prefix = "[[2]]", a = "list<named>(a = *)", b = "list<named>(b = *)")
  )
})

test_that("map_tree() keeps the structure", {
  x <- list(a = 1, b = list(2, NULL, c = 3), list())
  expect_identical(map_tree(x, function(leaf) leaf * 2), list(a = 2, b = list(4, NULL, c = 6), list()))
  expect_identical(map_tree(x, `+`, 10), list(a = 11, b = list(12, NULL, c = 13), list()))
  expect_identical(map_tree(2, sqrt), sqrt(2))
  expect_null(map_tree(NULL, stop))
  expect_identical(map_tree(list(a = 1), function(leaf) NULL), list(a = NULL))
  expect_identical(map_tree(list(a = quote(f(x))), class), list(a = "call"))
})

test_that("an error in map_tree() names the leaf", {
  error <- expect_refused(
    map_tree(list(a = 1, b = list(c = "x")), function(leaf) leaf + 1), "leaf_failed",
    "Error applying `.f` to leaf at `b$c`."
  )
  expect_match(conditionMessage(error), "non-numeric argument to binary operator")
  expect_s3_class(error$parent, "simpleError")
  expect_identical(conditionCall(error)[[1L]], quote(map_tree))
  expect_refused(map_tree(1, function(leaf) stop("bad")), "leaf_failed", "Error applying `.f` to the only leaf.")
  expect_identical(map_tree(list(1), function(leaf) tryCatch(stop(), error = function(e) "handled")), list("handled"))
})

test_that("pmap_tree() takes leaves at the same place", {
  x <- list(a = 1, b = list(2, NULL))
  y <- list(a = 10, b = list(20, NULL))
  expect_identical(pmap_tree(list(x, y), `+`), list(a = 11, b = list(22, NULL)))
  expect_identical(pmap_tree(list(x, y, x), function(...) sum(...), 100), list(a = 112, b = list(124, NULL)))
  expect_identical(pmap_tree(list(q = x, p = y), function(p, q) p - q), list(a = 9, b = list(18, NULL)))
  expect_identical(pmap_tree(list(list(quote(g(1))), list(2)), function(a, b) class(a)), list("call"))
  error <- expect_refused(
    pmap_tree(list(list(model = list(w = 1, bias = 2)), list(model = list(w = 1, bias = NULL))), `+`), "invalid_input",
    "All trees in `.l` must have the same structure."
  )
  expect_match(conditionMessage(error), "First mismatch at `model$bias`:", fixed = TRUE)
  error <- expect_refused(pmap_tree(list(list(a = "x"), list(a = 1)), `+`), "leaf_failed", "leaf at `a`")
  expect_s3_class(error$parent, "simpleError")
  expect_refused(pmap_tree(list(), `+`), "invalid_input", "`.l` must be a list")
})

test_that("flatten_fun() turns a function of nested lists into one of leaves", {
  f <- flatten_fun(function(x, y) list(s = x$a + y, rest = list(x, NULL)), build_tree(list(list(a = 1), y = 2)))
  expect_s3_class(f, "FlattenedFunction")
  result <- f(10, 20)
  expect_length(result, 2L)
  expect_null(names(result))
  expect_true(tree_equal(result[[1L]], build_tree(list(s = 0, rest = list(list(a = 0), NULL)))))
  expect_identical(result[[2L]], list(30, 10))
  expect_refused(f(1), "invalid_input", "unflatten(): got 1 leaf but the tree has 2")
  expect_refused(flatten_fun(identity, 3), "invalid_input", "`in_tree`: expected an `RTree`")
  expect_identical(flatten_fun(function() 1, build_tree(NULL))()[[2L]], list(1))
  expect_identical(flatten_fun(class, build_tree(1))(data.frame(a = 1))[[2L]], list("data.frame"))
  expect_identical(flatten_fun(function(x) class(x), build_tree(list(1)))(quote(f(x)))[[2L]], list("call"))
  expect_output(print(f), "<FlattenedFunction: list<named>(list<named>(a = *), y = *)>", fixed = TRUE)
})

test_that("everything but a tree is refused in place of a tree", {
  tree <- build_tree(list(a = 1))
  loaded <- unserialize(serialize(tree, NULL))
  uses <- alist(
    unflatten(x, list(1)), tree_size(x), tree_equal(x, tree), tree_equal(tree, x), tree_hash(x), tree_root_kind(x),
    tree_child_names(x), tree_child_kinds(x), tree_child_sizes(x), tree_path(x, 1), tree_filter_by_names(x, "a"),
    tree_concat(list(x)), tree_leaf_mask(x, "a"), tree_repr(x), tree_diff(x, tree), tree_diff(tree, x),
    flatten_fun(sum, x)
  )
  shows <- alist(format.RTree(x), print.RTree(x))
  format.RTree <- getS3method("format", "RTree")
  print.RTree <- getS3method("print", "RTree")
  for (x in list(NULL, 1, list(), "a", loaded, structure(1, class = "RTree"))) {
    # a tree of another session prints
    for (use in c(uses, if (!identical(x, loaded)) shows)) {
      expect_refused(eval(use), "invalid_type", "expected an `RTree` (as returned by `build_tree()`)")
    }
  }
  expect_error(tree_size(loaded), "Create it again")
})

test_that("deep lists raise an error, and the deepest trees work", {
  child <- run_child(quote({
    nested <- function(levels) {
      x <- 1
      for (i in seq_len(levels)) x <- list(x)
      x
    }
    kind <- function(code) tryCatch({
      code
      "works"
    }, error = function(e) class(e)[[1L]])
    deep <- nested(1e5)
    cat(
      kind(build_tree(deep)), kind(flatten(deep)), kind(map_tree(deep, identity)),
      kind(pmap_tree(list(deep), identity)), "\n"
    )
    cat(kind(flatten_fun(function() deep, build_tree(NULL))()), "\n")
    rm(deep)
    most <- build_tree(nested(10000))
    other <- build_tree(nested(9999))
    cat(tree_size(most), tree_equal(most, most), tree_equal(most, other), tree_hash(most) == tree_hash(other), "\n")
    cat(nchar(tree_path(most, 1)), nchar(tree_repr(most)), nchar(tree_diff(most, other)$prefix), "\n")
    cat(length(flatten(unflatten(most, list(2)))), kind(build_tree(nested(10001))), kind(tree_concat(list(most))), "\n")
    rm(most, other)
    invisible(gc())
  }))
  deep <- rep("pjrt_error_invalid_value", 4L)
  expect_clean(child, c(
    paste(c(deep, ""), collapse = " "), "pjrt_error_invalid_value ", "1 TRUE FALSE FALSE ", "50000 60001 49995 ",
    "1 pjrt_error_invalid_value pjrt_error_invalid_value "
  ))
})

test_that("walks survive garbage collection at every allocation", {
  child <- run_child(quote({
    x <- structure(list(1, list("a", b = NULL)), names = c(`Encoding<-`("\xe9", "latin1"), "b"))
    names <- as.list(1:3)
    torture(5)
    names(names) <- 11:13
    tree <- build_tree(x)
    same <- unflatten(tree, flatten(x))
    numbered <- names(unflatten(build_tree(names), flatten(names)))
    part <- tree_filter_by_names(tree, "\u00e9")
    both <- unflatten(tree_concat(list(tree, part), c("p", "q")), list(1, "a", 2))
    refused <- tryCatch(build_tree(structure(list(1), names = NA_character_)), error = function(e) "refused")
    torture(0)
    names(x)[[1L]] <- "\u00e9"
    cat(identical(same, x), numbered, identical(both$p, x), names(both$q) == "\u00e9", refused, "\n")
  }))
  expect_clean(child, "TRUE 11 12 13 TRUE TRUE refused ")
})
