#' Load and save safetensors files
#'
#' `pjrt_load_safetensors()` loads the tensors of a file as buffers, `pjrt_save_safetensors()` saves buffers, and
#' `safetensors_info()` lists the tensors of a file without loading them. [pjrt_open_safetensors()] loads tensors one by
#' one.
#'
#' Tensors do not pass through R's memory. On a CPU, tensors whose data begin at a multiple of 64 bytes are
#' memory-mapped and not copied; their pages are read on first use. This is true for most tensors in files that
#' `pjrt_save_safetensors()` wrote. All others are read once, by several threads. If a program donates a mapped buffer,
#' it works on a copy: files are never modified.
#'
#' @section Files that change:
#' While tensors of a file are in use, you can delete the file, or replace it by renaming another one, as
#' `pjrt_save_safetensors()` does; the buffers keep their content. If the file is overwritten in place or truncated,
#' using its buffers, or results that were not complete yet, raises `pjrt_error_file_changed`.
#'
#' @section Several files:
#' A model can be split into files with an index, `<name>.safetensors.index.json`. It is loaded like a single file. With
#' `max_shard_size`, `pjrt_save_safetensors()` writes files `<name>-00001-of-00003.safetensors` and so on, and an index.
#' A tensor that is larger than this gets a separate file.
#'
#' Saving replaces earlier files of the same path after all data are written. If it fails, the earlier files are
#' unchanged. Metadata of the files are loaded after the index's.
#'
#' @section Nested lists:
#' The parameters of a model and the state of its training are nested lists. Files contain arrays with names, so
#' `pjrt_save_safetensors()` joins the names on the way to each array with `separator`: `params$dense$w` becomes
#' `"params.dense.w"`. Elements without names are numbered from 0, as in Python: `params$layers[[2]]$w` becomes
#' `"params.layers.1.w"`. These are the names that Hugging Face and flax write, flax also with `separator = "/"`.
#'
#' There are two ways to load a nested list:
#' * `like` is a list with the same structure, such as the first state of a training. The result has its structure,
#'   including `NULL` and empty lists, which files do not contain. Its own arrays are not used. All of its names must be
#'   in the file and, unless `extra` is `"ignore"`, no others.
#' * `separator` splits the names. The elements of a list have no names if the file numbers them from 0 without gaps.
#'
#' `rename` translates names if the file and the list have different ones, for example
#' `rename = function(names) sub("^model[.]", "", names)`.
#'
#' @section Tied tensors:
#' A buffer that occurs several times in a list is written once, under its first name. The metadata of the file contain
#' its other names, as PyTorch and Hugging Face write them: entries with the name of a tensor as their value. When such
#' a file is loaded, the tensor has all of its names, and is one buffer. `attr(, "metadata")` does not contain these
#' entries.
#'
#' @section Types:
#' All types that both the format and PJRT have, by their names in the format: `BOOL`, `I8` to `I64`, `U8` to `U64`,
#' `F16`, `BF16`, `F32`, `F64`, `C64`, `F8_E4M3` (`f8e4m3fn`), `F8_E5M2`, `F8_E8M0`, `F8_E4M3FNUZ`, `F8_E5M2FNUZ` and
#' `F4` (`f4e2m1fn`, with an even number of elements). The format lacks `c128`, integers of 2 and 4 bits and the other
#' 8-bit floats; PJRT lacks `F6_E2M3` and `F6_E3M2`. `safetensors_info()` lists tensors of these two types, and of `I4`,
#' `U4`, `I2` and `U2`, which some programs write although the format does not define them. To load the other tensors
#' of such a file, name them in `names`.
#'
#' @param path A string.
#'   * To load: a file, an index, or a folder with `model.safetensors`, `model.safetensors.index.json` or a single
#'     safetensors file. If the file does not exist but its index does, the index is loaded.
#'   * To save: the file, or the prefix of the files if there are several. A name that ends in `.json` is an index's.
#' @param device A device: anything that [as_pjrt_device()] takes.
#' @param names A character vector of names, or a numeric vector of positions from 1: the tensors to load. Default: all.
#'   Other tensors are not read.
#' @param like A nested list: the structure and names of the result, instead of `names`.
#' @param extra A string: with `"error"`, a file with other tensors than `like` raises an error; with `"ignore"`, these
#'   are not read.
#' @param separator A string between the parts of a name, such as `"."` or `"/"`. To load, `NULL` is `"."` with `like`;
#'   without it, the result has no nested lists.
#' @param rename A function that takes all names and returns as many new ones. To save, it takes the list's names and
#'   returns the file's; to load, the reverse. `names` and `like` have the new names.
#' @param tensors A named list of buffers, or of nested lists of buffers. `NULL` is ignored.
#' @param metadata A named character vector, or a named list of strings. Default: the metadata of `tensors`, if it was
#'   loaded from a file; `character()` for none.
#' @param max_shard_size A number of bytes, or a string such as `"5GB"` or `"500MiB"`: the maximum size of the tensors
#'   in a file. Default: a single file of any size.
#' @return
#' * `pjrt_load_safetensors()`: a named list of `PJRTBuffer`s, in the order of `names` or of the file; or a nested list,
#'   see below. If the file has metadata, they are the attribute `"metadata"`, a named character vector.
#' * `pjrt_save_safetensors()`: a string, the path to load from, invisibly: the file, or the index. If `path` is a
#'   symbolic link, this is where it leads.
#' * `safetensors_info()`: a data frame with a row for each tensor: `name`, `dtype` (the format's name for types that
#'   PJRT lacks), `shape` (a list of integer vectors), `bytes`, `offset` (the position of the first byte in the file,
#'   from 0) and, for an index, `file`. Metadata are an attribute, as above.
#' @section Errors:
#' * `pjrt_error_safetensors_invalid`: the file is damaged or not a safetensors file.
#' * `pjrt_error_io`: a file cannot be read or written.
#' * `pjrt_error_file_changed`: the file was changed while it was in use.
#' * `pjrt_error_unsupported_dtype`: the format or PJRT lacks a type.
#' * `pjrt_error_invalid_input`: an argument is invalid, or a tensor does not exist; the message contains the names in
#'   the file, the most similar first.
#' @seealso `vignette("train")` saves and resumes a training (see [pjrt_articles])
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- tempfile(fileext = ".safetensors")
#' weights <- list(
#'   w = pjrt_buffer(matrix(rnorm(6), 2)), b = pjrt_buffer(c(1, 2), "bf16")
#' )
#' pjrt_save_safetensors(weights, path, metadata = c(epoch = "12"))
#'
#' safetensors_info(path)
#' model <- pjrt_load_safetensors(path)
#' model$w
#' attr(model, "metadata")
#' pjrt_load_safetensors(path, names = "b")
#'
#' # nested lists
#' state <- list(params = list(dense = weights), step = pjrt_scalar(7L))
#' pjrt_save_safetensors(state, path)
#' safetensors_info(path)$name
#' pjrt_load_safetensors(path, separator = ".")$params$dense$b
#' params <- pjrt_load_safetensors(
#'   path, like = state["params"], extra = "ignore"
#' )
#' @export
pjrt_load_safetensors <- function(path, device = NULL, names = NULL, like = NULL, extra = c("error", "ignore"),
                                  separator = NULL, rename = NULL) {
  extra <- check_choice(extra, c("error", "ignore"), "extra")
  if (!is.null(separator)) check_string(separator, "separator")
  check_rename(rename)
  if (!is.null(like)) {
    if (!is.null(names)) {
      abort_input("`names` and `like` must not both be given: `like` has the names.")
    }
    names <- names_like(like, separator %||% ".")
  }
  file <- open_safetensors(path, as_pjrt_device(device))
  on.exit(close(file))
  known <- renamed(call_native(ffi_safetensors_names, file), rename)
  chosen <- if (is.null(names)) seq_along(known) else tensor_positions(names, known)
  if (!is.null(like) && extra == "error") check_no_more(known, chosen)
  tensors <- load_tensors(file, chosen, known)
  if (!is.null(like)) {
    tensors <- unflatten(build_tree(like), unname(tensors))
  } else if (!is.null(separator)) {
    tensors <- nested_tensors(tensors, separator)
  }
  attr(tensors, "metadata") <- safetensors_metadata(file)
  tensors
}

#' @rdname pjrt_load_safetensors
#' @usage
#' pjrt_save_safetensors(tensors, path, metadata = NULL,
#'   max_shard_size = NULL, separator = ".", rename = NULL)
#' @export
pjrt_save_safetensors <- function(tensors, path, metadata = NULL, max_shard_size = NULL, separator = ".",
                                  rename = NULL) {
  check_string(path, "path")
  check_string(separator, "separator")
  check_rename(rename)
  check_names(tensors)
  tensors <- flat_tensors(tensors, separator, rename)
  check_tensors(tensors)
  metadata <- check_metadata(metadata %||% attr(tensors, "metadata"))
  saved <- call_with_text(
    ffi_safetensors_save, unname(tensors), as_utf8(names(tensors)), full_path(path),
    as_utf8(names(metadata)), as_utf8(metadata), shard_limit(max_shard_size), shows_progress(), console_columns()
  )
  invisible(saved)
}

#' @rdname pjrt_load_safetensors
#' @export
safetensors_info <- function(path) {
  file <- open_safetensors(path, NULL)
  on.exit(close(file))
  columns <- call_native(ffi_safetensors_describe, file)
  table <- as_table(columns[!vapply(columns, is.null, NA)])
  attr(table, "metadata") <- safetensors_metadata(file)
  table
}

#' Load single tensors of safetensors files
#'
#' `pjrt_open_safetensors()` opens a safetensors file, or the index of several, without loading tensors. Each tensor is
#' loaded when you use it, so a model can be larger than memory. The files of an index are opened on first use.
#'
#' The result works like a read-only named list: `x[["name"]]`, `x$name` and `x[[2]]` load one tensor,
#' `x[c("name", "other")]` loads several, and `as.list()`, which `lapply()` calls, loads all. Tensors are not kept:
#' using one twice loads it twice. `close()` closes the files; buffers that were loaded stay valid.
#'
#' @inheritParams pjrt_load_safetensors
#' @param path A string: a file, an index, or a folder, as for [pjrt_load_safetensors()].
#' @param x,con A `PJRTSafetensors`.
#' @param i,name Names or positions, from 1, of tensors.
#' @param exact Not used: names are always matched in full.
#' @param ... Not used.
#' @return `pjrt_open_safetensors()`: a `PJRTSafetensors`. `x[[i]]` and `x$name`: a `PJRTBuffer`. `x[i]` and
#'   `as.list(x)`: a named list of `PJRTBuffer`s. `names()`: a character vector. `length()`: the number of tensors.
#' @section Errors:
#' The errors of [pjrt_load_safetensors()]; `pjrt_error_invalid_input` if a tensor does not exist or the file is closed.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- tempfile(fileext = ".safetensors")
#' weights <- list(w = pjrt_buffer(matrix(1:6, 2)), b = pjrt_buffer(1:2))
#' pjrt_save_safetensors(weights, path)
#' model <- pjrt_open_safetensors(path)
#' model
#' names(model)
#' model[["w"]]
#' close(model)
#' @export
pjrt_open_safetensors <- function(path, device = NULL) {
  open_safetensors(path, as_pjrt_device(device))
}

#' @rdname pjrt_open_safetensors
#' @export
names.PJRTSafetensors <- function(x) {
  call_native(ffi_safetensors_names, x)
}

#' @rdname pjrt_open_safetensors
#' @export
length.PJRTSafetensors <- function(x) {
  length(names(x))
}

#' @rdname pjrt_open_safetensors
#' @export
`[[.PJRTSafetensors` <- function(x, i, exact = TRUE) {
  known <- names(x)
  position <- tensor_positions(i, known)
  if (length(position) != 1L) {
    abort_input("`x[[i]]` selects one tensor, not ", length(position), ".", hints = "`x[i]` returns a list of several.")
  }
  load_tensors(x, position, known)[[1L]]
}

#' @rdname pjrt_open_safetensors
#' @export
`$.PJRTSafetensors` <- function(x, name) {
  x[[name]]
}

#' @rdname pjrt_open_safetensors
#' @export
`[.PJRTSafetensors` <- function(x, i) {
  known <- names(x)
  load_tensors(x, if (missing(i)) seq_along(known) else tensor_positions(i, known), known)
}

#' @rdname pjrt_open_safetensors
#' @export
as.list.PJRTSafetensors <- function(x, ...) {
  check_unused(...)
  x[]
}

#' @rdname pjrt_open_safetensors
#' @usage \method{[}{PJRTSafetensors}(x, ...) <- value
#' @param value Not used: assignments are errors.
#' @export
`[<-.PJRTSafetensors` <- function(x, ..., value) {
  abort_input("Safetensors files are read-only.", hints = "Save a list of buffers with pjrt_save_safetensors().")
}

#' @export
`[[<-.PJRTSafetensors` <- `[<-.PJRTSafetensors`

#' @export
`$<-.PJRTSafetensors` <- `[<-.PJRTSafetensors`

#' @export
`names<-.PJRTSafetensors` <- `[<-.PJRTSafetensors`

#' @export
`length<-.PJRTSafetensors` <- `[<-.PJRTSafetensors`

#' @rdname pjrt_open_safetensors
#' @export
close.PJRTSafetensors <- function(con, ...) {
  check_unused(...)
  invisible(call_native(ffi_safetensors_close, con))
}

#' @rdname pjrt_open_safetensors
#' @export
format.PJRTSafetensors <- function(x, ...) {
  dead <- dead_text(x, "PJRTSafetensors")
  if (!is.null(dead)) {
    return(dead)
  }
  described <- call_native(ffi_safetensors_summary, x)
  if (is.null(described)) {
    return("<PJRTSafetensors closed>")
  }
  files <- if (is.na(described$files)) "" else paste(" in", counted(described$files, "file"))
  sprintf(
    "<PJRTSafetensors '%s': %s%s, for %s>", described$path, counted(described$tensors, "tensor"), files,
    described$device
  )
}

#' @export
print.PJRTSafetensors <- function(x, ...) {
  print_lines(x)
}

open_safetensors <- function(path, device) {
  check_string(path, "path")
  call_with_text(ffi_safetensors_open, full_path(path), device)
}

load_tensors <- function(file, positions, names) {
  tensors <- .Call(ffi_safetensors_load, file, as.integer(positions), shows_progress(), console_columns())
  names(tensors) <- names[positions]
  tensors
}

# The metadata of an open file as a named vector, or NULL.
safetensors_metadata <- function(file) {
  described <- call_native(ffi_safetensors_metadata, file)
  if (!is.null(described)) structure(described$values, names = described$names)
}

# The positions of tensors, given by names or numbers.
tensor_positions <- function(chosen, known) {
  if (is.character(chosen)) {
    if (anyNA(chosen) || !all(validEnc(chosen) & Encoding(chosen) != "bytes") || anyDuplicated(chosen) > 0L) {
      abort_input("Names of tensors must be unique valid strings, and not NA.")
    }
    positions <- match(chosen, known)
    if (anyNA(positions)) {
      abort_unknown(chosen[is.na(positions)], known)
    }
    return(positions)
  }
  if (!is.numeric(chosen) || is.object(chosen)) {
    abort_type("Tensors must be selected by names or numbers, not by ", given(chosen), ".")
  }
  outside <- is.na(chosen) | chosen < 1 | chosen >= length(known) + 1
  if (any(outside)) {
    abort_input("There is no tensor ", chosen[outside][[1L]], ": tensors are numbered from 1 to ", length(known), ".")
  }
  as.integer(chosen)
}

abort_unknown <- function(unknown, known) {
  # distances to very many names would take long
  near <- utils::head(known, 1e4)
  near <- near[order(utils::adist(unknown[[1L]], near, ignore.case = TRUE, partial = FALSE))]
  abort_input(
    "There is no tensor ", toString(shorten_list(sprintf("\"%s\"", unknown), 3L)), ".",
    hints = if (length(known) > 0L) {
      sprintf(
        "The file has %s: %s.", counted(length(known), "tensor"), toString(shorten_list(sprintf("\"%s\"", near), 5L))
      )
    } else {
      "The file has no tensors."
    }
  )
}

# Checks that a file has no other tensors than these.
check_no_more <- function(known, chosen) {
  more <- known[setdiff(seq_along(known), chosen)]
  if (length(more) > 0L) {
    abort_input(
      "The file has ", counted(length(more), "tensor"), " that `like` does not have: ",
      toString(shorten_list(sprintf("\"%s\"", more), 3L)), ".",
      hints = "`extra = \"ignore\"` leaves them out."
    )
  }
}

check_names <- function(tensors) {
  if (!is.list(tensors) || is.object(tensors)) {
    abort_type("`tensors` must be a named list of buffers, not ", given(tensors), ".")
  }
  names <- names(tensors)
  if (length(tensors) > 0L && (is.null(names) || anyNA(names) || !all(nzchar(names)))) {
    abort_input(
      "`tensors` must be a named list: every tensor needs a name.",
      hints = "Only the elements of lists in the list can be without names."
    )
  }
  if (!is.null(names) && !all(validEnc(names))) {
    abort_input("'", names[!validEnc(names)][[1L]], "' is not valid UTF-8.")
  }
}

check_tensors <- function(tensors) {
  names <- names(tensors)
  is_buffer <- vapply(tensors, inherits, NA, "PJRTBuffer")
  if (!all(is_buffer)) {
    abort_type(
      "Tensor \"", names[!is_buffer][[1L]], "\" must be a `PJRTBuffer`, not ", given(tensors[!is_buffer][[1L]]), ".",
      hints = "pjrt_buffer() converts R data."
    )
  }
}

# Metadata as a named character vector.
check_metadata <- function(metadata) {
  names <- names(metadata)
  valid <- (is.null(metadata) || is.list(metadata) || is.character(metadata)) && !is.object(metadata) &&
    all(vapply(metadata, is_text, NA)) && anyDuplicated(names) == 0L &&
    (length(metadata) == 0L || (!is.null(names) && !anyNA(names) && all(nzchar(names))))
  if (!valid) {
    abort_input("`metadata` must be a character vector or a list of strings, with unique names.")
  }
  structure(as.character(metadata), names = names)
}

shard_limit <- function(max_shard_size) {
  if (is.null(max_shard_size)) {
    return(-1)
  }
  bytes <- parse_bytes(max_shard_size, "`max_shard_size`")
  if (bytes < 1) {
    abort_input("`max_shard_size` must be at least 1 byte.")
  }
  bytes
}
