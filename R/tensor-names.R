# Names of tensors in files, and the nested lists that they stand for: "params.dense.w" for params$dense$w. Elements
# without names are numbered from 0, as in files of Python.

# The leaves of a nested list, with their names in a file. The metadata stay.
flat_tensors <- function(tensors, separator, rename) {
  names <- call_with_text(ffi_tensor_names_join, build_tree(tensors), as_utf8(separator))
  structure(flatten(tensors), names = renamed(names, rename), metadata = attr(tensors, "metadata"))
}

# The nested list of tensors whose names in a file are known.
nested_tensors <- function(tensors, separator) {
  nested <- call_with_text(ffi_tensor_names_nest, as_utf8(names(tensors)), as_utf8(separator))
  unflatten(nested$tree, unname(tensors)[nested$order])
}

# The names that a nested list has in a file.
names_like <- function(like, separator) {
  tree <- build_tree(like)
  if (tree_root_kind(tree) == "leaf") {
    abort_type("`like` must be a nested list, not ", given(like), ".")
  }
  call_with_text(ffi_tensor_names_join, tree, as_utf8(separator))
}

# Names after the user's function `rename`.
renamed <- function(names, rename) {
  if (is.null(rename)) {
    return(names)
  }
  new <- rename(names)
  if (!is.character(new) || length(new) != length(names) || anyNA(new)) {
    abort_type("`rename` must return as many names as it gets: got ", given(new), " for ", length(names), " names.")
  }
  if (anyDuplicated(new) > 0L) {
    twice <- new[[anyDuplicated(new)]]
    abort_input("`rename` returns the name \"", twice, "\" for ", quoted_list(names[new == twice]), ".")
  }
  new
}

check_rename <- function(rename) {
  if (!is.null(rename) && !is.function(rename)) {
    abort_type("`rename` must be NULL or a function of names, not ", given(rename), ".")
  }
}
