# Folders of PyTorch models: src/rust/program/src/exported/pytorch.rs reads the description of a function.

# The exported function in a folder, with its weights: a named list of buffers, used in place where possible. A model
# can be exported without them.
load_pytorch <- function(folder, device, name) {
  exported <- call_with_text(ffi_pytorch_read, folder, name)
  weights <- call_native(ffi_exported_weights, exported)
  is_there <- dir.exists(native_path(file.path(folder, "data"))) | !startsWith(weights$file, "data/")
  paths <- as_utf8(file.path(folder, weights$file[is_there]))
  buffers <- call_with_text(ffi_npy_load_files, paths, as_pjrt_device(device), shows_progress(), console_columns())
  names(buffers) <- weights$name[is_there]
  for (i in seq_along(buffers)) {
    row <- which(is_there)[[i]]
    check_pytorch_weight(buffers[[i]], paths[[i]], weights$dtype[[row]], weights$shape[[row]])
  }
  call_native(ffi_exported_keep_weights, exported, buffers)
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
