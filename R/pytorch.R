# Folders of PyTorch models: src/rust/program/src/pytorch.rs reads the description of a function.

# The exported function in a folder. Besides the parts of JAX's functions it has `weights`, a named list of buffers with
# the names that the program's inputs have in `inputs$path`. A caller of the function passes the other inputs that are
# kept: the leaves of `input_tree` are their rows. The program takes all kept rows in their order. pjrt_function()
# passes `weights` as the default of an argument.
load_pytorch <- function(folder, device, name) {
  facts <- call_with_text(ffi_pytorch_read, folder, name)
  files <- facts$files
  facts$files <- NULL
  inputs <- as_table(c(list(name = facts$inputs$path), facts$inputs))
  inputs$dtype[!nzchar(inputs$dtype)] <- NA_character_
  inputs$kept <- facts$kept
  facts$kept <- NULL
  facts$inputs <- inputs
  facts$outputs <- as_table(c(list(name = facts$outputs$path), facts$outputs))
  facts$platforms <- character()
  facts$num_devices <- 1
  facts["calling_convention"] <- list(NULL)
  facts$ordered_effects <- facts$unordered_effects <- facts$disabled_checks <- character()
  facts$custom_calls <- as_table(list(target = character(), available = logical()))
  facts$has_vjp <- FALSE
  facts$order <- 0L
  facts$framework <- "PyTorch"
  facts$weights <- load_pytorch_weights(folder, files, inputs, device)
  facts
}

# The weights of a model as a named list of buffers, used in place where possible. A model can be exported without them.
load_pytorch_weights <- function(folder, files, inputs, device) {
  rows <- which(nzchar(files))
  if (!dir.exists(file.path(folder, "data"))) {
    rows <- rows[!startsWith(files[rows], "data/")]
  }
  paths <- as_utf8(file.path(folder, files[rows]))
  buffers <- call_with_text(ffi_npy_load_files, paths, as_pjrt_device(device), shows_progress(), console_columns())
  names(buffers) <- inputs$path[rows]
  for (i in seq_along(rows)) {
    check_pytorch_weight(buffers[[i]], paths[[i]], inputs$dtype[[rows[[i]]]], inputs$shape[[rows[[i]]]])
  }
  buffers
}

check_pytorch_weight <- function(buffer, path, dtype, shape) {
  found <- shape(buffer)
  if (!identical(as.character(elt_type(buffer)), dtype) || !identical(as.character(found), as.character(shape))) {
    type <- function(dtype, shape) sprintf("%s[%s]", dtype, paste(shape, collapse = "x"))
    abort_input(
      "'", path, "' is not the weight that the model was exported with: it is ", type(elt_type(buffer), found),
      ", not ",
      type(dtype, shape), "."
    )
  }
}
