#' Flatten and rebuild nested lists
#'
#' Functions for models whose parameters, inputs or states are nested lists. `flatten()` returns the leaves of a nested
#' list, `build_tree()` its structure, and `unflatten()` combines both again. Lists without a class are nodes.
#' Everything else is a leaf: buffers, vectors, functions, and lists with a class such as data frames. `NULL` is an
#' empty node, not a leaf.
#'
#' A tree keeps the names of lists, converted to UTF-8, and no other attributes. It has at most 10,000 levels.
#'
#' @param x `flatten()`, `build_tree()`: a nested list, or a leaf. `unflatten()`: a list of as many leaves as the tree
#'   has.
#' @param tree,in_tree An `RTree`, from [build_tree()].
#' @param f A function.
#' @return
#' * `flatten()`: the list of leaves, from left to right.
#' * `build_tree()`: an `RTree`.
#' * `unflatten()`: the nested list with these leaves.
#' * `flatten_fun()`: a function of class `FlattenedFunction`. It takes the leaves of the list of arguments whose
#'   structure is `in_tree`, and calls `f` with these arguments. It returns a list of two: the `RTree` and the leaves of
#'   the result.
#' @section Errors:
#' `pjrt_error_invalid_input` for names that are `NA`, lists that are nested too deep, and a wrong number of leaves.
#' @seealso [tree_size()] and others to inspect a tree, [map_tree()] to apply a function to every leaf
#' @examples
#' model <- list(layer = list(w = matrix(1:4, 2), b = 1:2), rate = 0.1)
#' tree <- build_tree(model)
#' tree
#' leaves <- flatten(model)
#' length(leaves)
#' identical(unflatten(tree, leaves), model)
#'
#' add <- function(x, y) list(sum = x + y)
#' sums <- flatten_fun(add, build_tree(list(1, y = 2)))
#' sums(10, 20)
#' @export
build_tree <- function(x) {
  .Call(ffi_tree_build, x)
}

#' @rdname build_tree
#' @export
flatten <- function(x) {
  .Call(ffi_tree_flatten, x)
}

#' @rdname build_tree
#' @export
unflatten <- function(tree, x) {
  .Call(ffi_tree_unflatten, tree, x)
}

#' @rdname build_tree
#' @export
flatten_fun <- function(f, in_tree) {
  check_function(f, "f")
  if (!inherits(in_tree, "RTree")) {
    abort_type("`in_tree`: expected an `RTree` (as returned by `build_tree()`), not ", given(in_tree), ".")
  }
  is_single <- tree_root_kind(in_tree) == "leaf"
  structure(class = "FlattenedFunction", function(...) {
    arguments <- unflatten(in_tree, list(...))
    result <- do.call(f, if (is_single) list(arguments) else as.list(arguments), quote = TRUE)
    .Call(ffi_tree_take_apart, result)
  })
}

#' @export
print.FlattenedFunction <- function(x, ...) {
  if (is.function(x) && is.environment(environment(x))) {
    cat("<FlattenedFunction: ", format(environment(x)$in_tree), ">\n", sep = "")
  } else {
    cat("<FlattenedFunction>\n")
  }
  invisible(x)
}

check_function <- function(x, name) {
  if (!is.function(x)) {
    abort_type("`", name, "` must be a function, not ", given(x), ".")
  }
}

#' Inspect and combine trees
#'
#' An `RTree` is the structure of a nested list, from [build_tree()]. These functions describe one, compare two, and
#' make new ones of old.
#'
#' @param tree,x,a,b An `RTree`.
#' @param i A whole number: the position of a leaf, from 1, in the order of [flatten()].
#' @param names `tree_filter_by_names()`: a character vector, the children to keep. `tree_concat()`: a character vector
#'   with a name for each child, `""` for none, or `NULL` for a list without names.
#' @param children A list of `RTree`s.
#' @param groups A character vector: names of children of the root.
#' @param ... Not used.
#' @return
#' * `tree_size()`: the number of leaves.
#' * `tree_equal()`: whether both trees have the same structure and the same names.
#' * `tree_hash()`: a string of digits, equal for equal trees in every session.
#' * `tree_root_kind()`: `"leaf"`, `"list"` or `"null"`.
#' * `tree_child_names()`: the names of the root's children, `""` for those without one. `NULL` if the root is not a
#'   list with names.
#' * `tree_child_kinds()`, `tree_child_sizes()`: for each child of the root, its kind and its number of leaves.
#' * `tree_path()`: how to reach a leaf, as in `"layer$b"` or `"[[2]]$w"`, with backticks where R needs them; `""` if
#'   the root is a leaf.
#' * `tree_filter_by_names()`: the tree with only these children of the root, in the tree's order.
#' * `tree_concat()`: the tree of a list with these children.
#' * `tree_leaf_mask()`: for each leaf, whether it is below a child of the root that has one of these names.
#' * `tree_repr()`, `format()`: the tree as a string, with `*` for a leaf.
#' * `tree_diff()`: `NULL` for equal trees. Otherwise a list of strings that describe the first difference: `prefix` is
#'   its path, `a` and `b` are what the trees have there.
#' * `print()`: `x`, invisibly.
#' @seealso [build_tree()], [map_tree()]
#' @examples
#' tree <- build_tree(list(layer = list(w = 1, b = 2), rate = 3))
#' tree_size(tree)
#' tree_path(tree, 2)
#' tree_child_sizes(tree)
#' tree_leaf_mask(tree, "layer")
#' tree_filter_by_names(tree, "layer")
#' tree_diff(tree, build_tree(list(layer = list(w = 1, b = NULL), rate = 3)))
#' @name tree
NULL

#' @rdname tree
#' @export
tree_size <- function(tree) {
  .Call(ffi_tree_size, tree)
}

#' @rdname tree
#' @export
tree_equal <- function(a, b) {
  .Call(ffi_tree_equal, a, b)
}

#' @rdname tree
#' @export
tree_hash <- function(tree) {
  .Call(ffi_tree_hash, tree)
}

#' @rdname tree
#' @export
tree_root_kind <- function(tree) {
  .Call(ffi_tree_root_kind, tree)
}

#' @rdname tree
#' @export
tree_child_names <- function(tree) {
  .Call(ffi_tree_child_names, tree)
}

#' @rdname tree
#' @export
tree_child_kinds <- function(tree) {
  .Call(ffi_tree_child_kinds, tree)
}

#' @rdname tree
#' @export
tree_child_sizes <- function(tree) {
  .Call(ffi_tree_child_sizes, tree)
}

#' @rdname tree
#' @export
tree_path <- function(tree, i) {
  .Call(ffi_tree_path, tree, i)
}

#' @rdname tree
#' @export
tree_filter_by_names <- function(tree, names) {
  .Call(ffi_tree_filter, tree, names)
}

#' @rdname tree
#' @export
tree_concat <- function(children, names = NULL) {
  .Call(ffi_tree_concat, children, names)
}

#' @rdname tree
#' @export
tree_leaf_mask <- function(tree, groups) {
  .Call(ffi_tree_leaf_mask, tree, groups)
}

#' @rdname tree
#' @export
tree_repr <- function(tree) {
  .Call(ffi_tree_repr, tree)
}

#' @rdname tree
#' @export
tree_diff <- function(a, b) {
  .Call(ffi_tree_diff, a, b)
}

#' @rdname tree
#' @export
format.RTree <- function(x, ...) {
  dead_text(x, "RTree") %||% tree_repr(x)
}

#' @rdname tree
#' @export
print.RTree <- function(x, ...) {
  cat(format.RTree(x), "\n", sep = "")
  invisible(x)
}

#' Apply a function to the leaves of nested lists
#'
#' `map_tree()` applies a function to every leaf of a nested list, and returns the results in a list of the same
#' structure. `pmap_tree()` takes several nested lists of the same structure, and applies a function to the leaves that
#' they have at the same place. See [build_tree()] for what a leaf is.
#'
#' @param .x A nested list, or a leaf.
#' @param .l A list of nested lists. Its names are the names of the function's arguments.
#' @param .f A function: of a leaf, or of as many leaves as `.l` has elements.
#' @param ... Further arguments for `.f`.
#' @return A nested list of the same structure.
#' @section Errors:
#' `pjrt_error_leaf_failed` if `.f` raises an error. The message names the leaf, and field `parent` contains the error.
#' `pjrt_error_invalid_input` if the structures differ.
#' @seealso [flatten()], [tree_diff()]
#' @examples
#' model <- list(layer = list(w = 1, b = 2), rate = 3)
#' gradient <- list(layer = list(w = 0.1, b = 0.2), rate = 0)
#' str(map_tree(model, function(leaf) -leaf))
#' descend <- function(x, g, step) x - step * g
#' str(pmap_tree(list(model, gradient), descend, step = 0.5))
#' @export
map_tree <- function(.x, .f, ...) {
  check_function(.f, ".f")
  parts <- .Call(ffi_tree_take_apart, .x)
  leaves <- parts[[2L]]
  apply_to_leaves(parts[[1L]], sys.call(), function(i) .f(leaves[[i]], ...))
}

#' @rdname map_tree
#' @export
pmap_tree <- function(.l, .f, ...) {
  if (typeof(.l) != "list" || is.object(.l) || length(.l) == 0L) {
    abort_type("`.l` must be a list of at least one nested list, not ", given(.l), ".")
  }
  check_function(.f, ".f")
  parts <- lapply(.l, function(x) .Call(ffi_tree_take_apart, x))
  tree <- parts[[1L]][[1L]]
  for (part in parts[-1L]) {
    check_same_tree(tree, part[[1L]])
  }
  leaves <- lapply(parts, `[[`, 2L)
  apply_to_leaves(tree, sys.call(), function(i) {
    do.call(.f, c(lapply(leaves, `[[`, i), list(...)), quote = TRUE)
  })
}

check_same_tree <- function(a, b) {
  found <- tree_diff(a, b)
  if (!is.null(found)) {
    where <- if (nzchar(found$prefix)) paste0("`", found$prefix, "`") else "the root"
    abort_input(
      "All trees in `.l` must have the same structure.",
      hints = sprintf("First mismatch at %s: %s is not %s.", where, clipped(found$a, 60L), clipped(found$b, 60L))
    )
  }
}

# The nested list with a value for each leaf, given by its position.
apply_to_leaves <- function(tree, call, value_at) {
  values <- vector("list", tree_size(tree))
  i <- 0L
  withCallingHandlers(
    for (i in seq_along(values)) {
      value <- value_at(i)
      if (!is.null(value)) values[[i]] <- value
    },
    error = function(e) {
      path <- tree_path(tree, i)
      pjrt_abort(
        if (nzchar(path)) sprintf(
          "Error applying `.f` to leaf at `%s`.", path
        ) else "Error applying `.f` to the only leaf.",
        "leaf_failed", hints = paste("Caused by:", conditionMessage(e)), call = call, parent = e
      )
    }
  )
  unflatten(tree, values)
}
