#' Read and write safetensors files
#'
#' `safetensors_load()` loads the tensors of a file as buffers, `safetensors_save()` saves buffers, and
#' `safetensors_info()` tells what is in a file without loading it. [safetensors_open()] loads tensors one by one.
#'
#' Nothing goes through R's memory. On a CPU, tensors that begin at a multiple of 64 bytes in memory stay where they are: the file is
#' mapped, and its pages are read when they are used first. So it is with most tensors of files that
#' `safetensors_save()` has written. All others are read once, by several threads. Programs that take over such a
#' buffer's memory (donation) work on a copy; the file is never written to.
#'
#' @section Files that change:
#' A file whose tensors are in use can be removed, or replaced by another that is renamed, as `safetensors_save()`
#' does: the buffers keep what they were loaded from. A file that is overwritten in place or cut short is another matter:
#' all use of its buffers, and of results that were not complete yet, is then an error of class `pjrt_error_file_changed`.
#'
#' @section Several files:
#' A model can be divided into files that an index, `<name>.safetensors.index.json`, holds together. It is loaded like one
#' file. With `max_shard_size`, what does not fit into one file is saved as `<name>-00001-of-00003.safetensors` and so on, with
#' such an index. A tensor that is larger has a file of its own.
#'
#' A save replaces what an earlier one to the same path has left, after all is written: when something goes wrong, or the disk
#' is full, that stays as it was.
#'
#' @section Types:
#' All types of the format that PJRT has, by their names there: `BOOL`, `I8` to `I64`, `U8` to `U64`, `F16`, `BF16`, `F32`,
#' `F64`, `C64`, `F8_E4M3` (`f8e4m3fn`), `F8_E5M2`, `F8_E8M0`, `F8_E4M3FNUZ`, `F8_E5M2FNUZ` and `F4` (`f4e2m1fn`, of which
#' there must be an even number). The format has no place for `c128`, integers of 2 and 4 bits and the other floats of 8 bits; PJRT has none
#' for `F6_E2M3` and `F6_E3M2`.
#'
#' @param path
#' * To load: a file, an index, or a folder with `model.safetensors`, `model.safetensors.index.json` or, if it has neither, a
#'   single such file. A file that is not there is loaded from its index.
#' * To save: the file; what its name begins with when there are several.
#' @param device The device to load to: anything that [as_pjrt_device()] takes.
#' @param names The tensors to load, all by default. Nothing is read of others.
#' @param tensors A named list of buffers. Other values are converted with [pjrt_buffer()].
#' @param metadata A named character vector, or a named list of strings. By default what a list has that was loaded, if `tensors`
#'   is such; `character()` for none.
#' @param max_shard_size The number of bytes of tensors that one file holds at most, or a string such as `"5GB"` or `"500MiB"`;
#'   by default there is one file of any size.
#' @return
#' * `safetensors_load()`: a named list of `PJRTBuffer`, in the order of `names` or of the file. If the file has
#'   metadata, they are its attribute `"metadata"`, a named character vector.
#' * `safetensors_save()`: the path to load from, invisibly: the file, or the index of several.
#' * `safetensors_info()`: a data frame with a row for each tensor: `name`, `dtype` (the format's own name for what PJRT
#'   lacks), `shape` (a list of integer vectors), `bytes`, `offset` of the first byte in the file and, for an index, `file`.
#'   Metadata are its attribute, as above.
#' @section Errors:
#' `pjrt_error_safetensors_invalid` for files that are damaged or no safetensors files, `pjrt_error_io` for what the system refuses,
#' `pjrt_error_file_changed` for a file that is changed meanwhile, `pjrt_error_unsupported_dtype` for types that the format or
#' PJRT lacks, `pjrt_error_invalid_input` for arguments that make no sense.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- tempfile(fileext = ".safetensors")
#' weights <- list(w = pjrt_buffer(matrix(rnorm(6), 2)), b = pjrt_buffer(c(1, 2), "bf16"))
#' safetensors_save(weights, path, metadata = c(epoch = "12"))
#'
#' safetensors_info(path)
#' model <- safetensors_load(path)
#' model$w
#' attr(model, "metadata")
#' safetensors_load(path, names = "b")
#' @export
safetensors_load <- function(path, device = NULL, names = NULL) {
  file <- open_safetensors(path, as_pjrt_device(device))
  on.exit(close(file))
  known <- call_native(ffi_safetensors_names, file)
  chosen <- if (is.null(names)) seq_along(known) else tensor_positions(names, known)
  tensors <- load_tensors(file, chosen, known)
  attr(tensors, "metadata") <- safetensors_metadata(file)
  tensors
}

#' @rdname safetensors_load
#' @export
safetensors_save <- function(tensors, path, metadata = NULL, max_shard_size = NULL) {
  check_string(path, "path")
  check_tensors(tensors)
  metadata <- check_metadata(metadata %||% attr(tensors, "metadata"))
  saved <- call_with_text(
    ffi_safetensors_save, unname(as.list(tensors)), as_utf8(names(tensors)), full_path(path),
    as_utf8(names(metadata)), as_utf8(metadata), shard_limit(max_shard_size), interactive(), console_columns()
  )
  invisible(saved)
}

#' @rdname safetensors_load
#' @export
safetensors_info <- function(path) {
  file <- open_safetensors(path, NULL)
  on.exit(close(file))
  columns <- call_native(ffi_safetensors_describe, file)
  table <- as_table(columns[!vapply(columns, is.null, NA)])
  attr(table, "metadata") <- safetensors_metadata(file)
  table
}

#' Load tensors one by one
#'
#' `safetensors_open()` reads what is in a safetensors file, or in the index of several, and loads nothing. Tensors are loaded when
#' they are asked for, so that a model may be larger than memory. Files of an index are opened when something of them is.
#'
#' The handle is like a named list that cannot be changed: `x[["name"]]`, `x$name` and `x[[2]]` load one tensor,
#' `x[c("name", "other")]` loads several, and `as.list()`, as `lapply()` calls it, all. Nothing is kept: to ask twice loads
#' twice. `close()` lets go of the files; buffers that were loaded stay good.
#'
#' @inheritParams safetensors_load
#' @param x,con A `PJRTSafetensors`.
#' @param i,name Names or positions of tensors.
#' @param exact Has no effect: names are given in full.
#' @param ... Not used.
#' @return `safetensors_open()`: a `PJRTSafetensors`. `x[[i]]` and `x$name`: a `PJRTBuffer`; `x[i]` and `as.list(x)`: a
#'   named list of such.
#'   `names()` and `length()`: the names and the number of the tensors.
#' @section Errors:
#' As those of [safetensors_load()]; `pjrt_error_invalid_input` for tensors that are not there and a handle that is
#' closed.
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' path <- tempfile(fileext = ".safetensors")
#' safetensors_save(list(w = pjrt_buffer(matrix(1:6, 2)), b = pjrt_buffer(1:2)), path)
#' model <- safetensors_open(path)
#' model
#' names(model)
#' model[["w"]]
#' close(model)
#' @export
safetensors_open <- function(path, device = NULL) {
  open_safetensors(path, as_pjrt_device(device))
}

#' @rdname safetensors_open
#' @export
names.PJRTSafetensors <- function(x) {
  call_native(ffi_safetensors_names, x)
}

#' @rdname safetensors_open
#' @export
length.PJRTSafetensors <- function(x) {
  length(names(x))
}

#' @rdname safetensors_open
#' @export
`[[.PJRTSafetensors` <- function(x, i, exact = TRUE) {
  known <- names(x)
  position <- tensor_positions(i, known)
  if (length(position) != 1L) {
    abort_input("`x[[i]]` is one tensor, not ", length(position), ".", hints = "`x[i]` gives a list of several.")
  }
  load_tensors(x, position, known)[[1L]]
}

#' @rdname safetensors_open
#' @export
`$.PJRTSafetensors` <- function(x, name) {
  x[[name]]
}

#' @rdname safetensors_open
#' @export
`[.PJRTSafetensors` <- function(x, i) {
  known <- names(x)
  load_tensors(x, if (missing(i)) seq_along(known) else tensor_positions(i, known), known)
}

#' @rdname safetensors_open
#' @export
as.list.PJRTSafetensors <- function(x, ...) {
  x[]
}

#' @rdname safetensors_open
#' @usage \method{[}{PJRTSafetensors}(x, ...) <- value
#' @param value Not used: to assign is an error.
#' @export
`[<-.PJRTSafetensors` <- function(x, ..., value) {
  abort_input("A file does not change.", hints = "Save a list of buffers with safetensors_save().")
}

#' @export
`[[<-.PJRTSafetensors` <- `[<-.PJRTSafetensors`

#' @export
`$<-.PJRTSafetensors` <- `[<-.PJRTSafetensors`

#' @export
`names<-.PJRTSafetensors` <- `[<-.PJRTSafetensors`

#' @export
`length<-.PJRTSafetensors` <- `[<-.PJRTSafetensors`

#' @rdname safetensors_open
#' @export
close.PJRTSafetensors <- function(con, ...) {
  invisible(call_native(ffi_safetensors_close, con))
}

#' @rdname safetensors_open
#' @export
format.PJRTSafetensors <- function(x, ...) {
  # as loaded with a workspace, whose objects must be shown all the same
  told <- tryCatch(
    call_native(ffi_safetensors_summary, x),
    pjrt_error_invalid_pointer = function(e) list(path = "of another session")
  )
  if (is.null(told)) {
    return("<PJRTSafetensors closed>")
  }
  if (is.null(told$tensors)) {
    return(sprintf("<PJRTSafetensors %s>", told$path))
  }
  files <- if (is.na(told$files)) "" else sprintf(" in %.0f file(s)", told$files)
  sprintf("<PJRTSafetensors '%s': %.0f tensor(s)%s, for %s>", told$path, told$tensors, files, told$device)
}

#' @export
print.PJRTSafetensors <- function(x, ...) {
  cat(format(x), "\n", sep = "")
  invisible(x)
}

open_safetensors <- function(path, device) {
  check_string(path, "path")
  call_with_text(ffi_safetensors_open, full_path(path), device)
}

load_tensors <- function(file, positions, names) {
  tensors <- .Call(ffi_safetensors_load, file, as.integer(positions), interactive(), console_columns())
  names(tensors) <- names[positions]
  tensors
}

# The metadata of an open file as a named vector, NULL if it has none.
safetensors_metadata <- function(file) {
  told <- call_native(ffi_safetensors_metadata, file)
  if (!is.null(told)) structure(told$values, names = told$names)
}

# Positions of the tensors that names, or numbers, mean.
tensor_positions <- function(chosen, known) {
  if (is.character(chosen)) {
    if (anyNA(chosen) || !all(validEnc(chosen) & Encoding(chosen) != "bytes") || anyDuplicated(chosen) > 0L) {
      abort_input("Names of tensors must be text and not NA, and none may come twice.")
    }
    positions <- match(chosen, known)
    if (anyNA(positions)) {
      abort_unknown(chosen[is.na(positions)], known)
    }
    return(positions)
  }
  if (!is.numeric(chosen) || is.object(chosen)) {
    abort_input("Tensors are chosen by their names or by numbers, not by ", given(chosen), ".")
  }
  outside <- is.na(chosen) | chosen < 1 | chosen >= length(known) + 1
  if (any(outside)) {
    abort_input("There is no tensor ", chosen[outside][[1L]], ": they are numbered from 1 to ", length(known), ".")
  }
  as.integer(chosen)
}

abort_unknown <- function(unknown, known) {
  # the distance to very many would take its time
  near <- utils::head(known, 1e4)
  near <- near[order(utils::adist(unknown[[1L]], near, ignore.case = TRUE, partial = FALSE))]
  abort_input(
    "There is no tensor ", toString(shorten_list(sprintf("\"%s\"", unknown), 3L)), ".",
    hints = if (length(known) > 0L) {
      sprintf("The file has %d: %s.", length(known), toString(shorten_list(sprintf("\"%s\"", near), 3L)))
    } else {
      "The file has none."
    }
  )
}

check_tensors <- function(tensors) {
  if (!is.list(tensors) || is.object(tensors)) {
    abort_input("`tensors` must be a named list of buffers, not ", given(tensors), ".")
  }
  names <- names(tensors)
  if (length(tensors) > 0L && (is.null(names) || anyNA(names) || !all(nzchar(names)))) {
    abort_input("`tensors` must be a named list: every tensor needs a name.")
  }
  is_buffer <- vapply(tensors, inherits, NA, "PJRTBuffer")
  if (!all(is_buffer)) {
    abort_input(
      "Tensor \"", names[!is_buffer][[1L]], "\" must be a `PJRTBuffer`, not ", given(tensors[!is_buffer][[1L]]), ".", hints = "pjrt_buffer() makes one of R data."
    )
  }
}

# Metadata as a named character vector.
check_metadata <- function(metadata) {
  names <- names(metadata)
  is_text <- function(x) is.character(x) && length(x) == 1L && !is.na(x)
  valid <- (is.null(metadata) || is.list(metadata) || is.character(metadata)) && !is.object(metadata) &&
    all(vapply(metadata, is_text, NA)) && anyDuplicated(names) == 0L &&
    (length(metadata) == 0L || (!is.null(names) && !anyNA(names) && all(nzchar(names))))
  if (!valid) {
    abort_input("`metadata` must be a character vector, or a list of strings, with names of which none comes twice.")
  }
  structure(as.character(metadata), names = names)
}

shard_limit <- function(max_shard_size) {
  if (is.null(max_shard_size)) {
    return(-1)
  }
  bytes <- parse_bytes(max_shard_size, "`max_shard_size`")
  if (bytes < 1) {
    abort_input("`max_shard_size` must be at least a byte.")
  }
  bytes
}
