#' Register functions for custom calls
#'
#' A program can call a function of yours: `stablehlo.custom_call @name`. `pjrt_register_custom_call()` registers the
#' function, written in C, C++, Rust or another language that compiles to machine code.
#' `pjrt_unregister_custom_call()` removes it, or an R function that [pjrt_register_r_call()] has registered.
#'
#' A handler is a function of XLA's FFI. It receives the arguments, results and attributes of a call as one C struct,
#' and returns `NULL` or an error. The header `pjrt/ffi.h` describes the structs and has short functions to read them;
#' use it with `LinkingTo: pjrt`, or with `system.file("include", package = "pjrt")`. Handlers that use XLA's own
#' headers also work. Complete examples in C and Rust are in `system.file("custom-calls", package = "pjrt")`.
#'
#' Register a handler before you compile a program that calls it. If the plugin of a platform is not loaded yet, the
#' handler waits for it. If you register a name again, the new handlers replace the old ones, also in compiled programs.
#' A library with a handler stays loaded until the session ends. If you remove a handler, programs that call it fail
#' from then on.
#'
#' A handler runs on any thread, and several calls may run at once. It must not call R, and must not use the arguments
#' or the results after it has returned. If it returns an error, the execution fails: reading an output raises the error
#' with its message. Without `has_side_effect = true`, the compiler may remove, duplicate or reorder calls.
#'
#' Compiled programs that call your handlers are not kept in the [cache][pjrt_cache] on disk, because the next session
#' may have other handlers. [pjrt_save_executable()] saves them; register the handlers before you load them.
#'
#' @section print_tensor:
#' The package provides handlers for [linear algebra][linear-algebra], and `print_tensor`, which prints its argument
#' from within a program on the CPU or an NVIDIA GPU.
#' ```
#' stablehlo.custom_call @print_tensor(%x) {
#'   api_version = 4 : i32, has_side_effect = true,
#'   backend_config = {print_header = "x:", print_footer = ""}
#' } : (tensor<4xf32>) -> ()
#' ```
#' The text appears in R's output, where `capture.output()`, `sink()` and knitr see it: while R waits for a result, in
#' [is_ready()], and before [pjrt_execute()] returns if the program is short. The options `pjrt.print_max_rows`,
#' `pjrt.print_max_width` and `pjrt.print_max_rows_slice` limit it as they do for `print()`. Attributes:
#' * `print_header`: the first line, by default `PJRTBuffer`; `""` for none.
#' * `print_footer`: the last line, by default dtype and shape such as `[ f32{2,3} ]`; `""` for none.
#'
#' If the call has a result, it is a copy of the argument.
#'
#' @param target_name A string: the name that programs call.
#' @param handler A named list of external pointers to functions, one for each platform: `host` or `cpu`, `cuda`, and so
#'   on. `getNativeSymbolInfo(name, library)$address` is such a pointer.
#' @param .package A string or `NULL`: the package that the handler belongs to. When its namespace is unloaded, the
#'   handler is removed. Call `pjrt_register_custom_call()` in its `.onLoad()`.
#' @return `pjrt_register_custom_call()`: `NULL`, invisibly. `pjrt_unregister_custom_call()`: invisibly, whether there
#'   was a function of this name.
#' @section Errors:
#' * `pjrt_error_invalid_input` for arguments that are not as described.
#' * `pjrt_error_invalid_pointer` for an external pointer that is null or does not point to a function.
#' * [pjrt_compile()] raises `pjrt_error_custom_call`, also of class `pjrt_error_not_found`, for a program that calls a
#'   name without a handler.
#'
#' If a plugin refuses a handler, there is a warning of class `pjrt_warning`.
#' @seealso [pjrt_register_r_call()] for R functions, [linear-algebra], [pjrt_compile()], [pjrt_execute()]
#' @examplesIf pjrt::plugins_downloaded("cpu")
#' program <- pjrt_program('
#' func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
#'   %y = stablehlo.add %x, %x : tensor<2xf32>
#'   stablehlo.custom_call @print_tensor(%y) {
#'     api_version = 4 : i32, has_side_effect = true,
#'     backend_config = {print_header = "twice x:"}
#'   } : (tensor<2xf32>) -> ()
#'   return %y : tensor<2xf32>
#' }')
#' await(pjrt_execute(pjrt_compile(program), pjrt_buffer(c(1, 2.5))))
#' @export
pjrt_register_custom_call <- function(target_name, handler, .package = NULL) {
  check_string(target_name, "target_name")
  handler <- check_handler(handler)
  check_package(.package)
  call_with_text(ffi_custom_call_register, enc2utf8(target_name), names(handler), handler)
  keep_handler(target_name, handler, .package)
}

# Keeps the handler of a target, which native code has.
keep_handler <- function(target_name, handler, package) {
  the$custom_calls[[target_name]] <- list(handler = handler, package = package)
  if (!is.null(package)) {
    unregister_with(package)
  }
  warn_about_custom_calls()
  invisible(NULL)
}

check_package <- function(.package) {
  check_string_or_null(.package, ".package")
  if (!is.null(.package) && !(validUTF8(.package) && nchar(.package, "bytes") <= 100L)) {
    abort_input("`.package` must be the name of a package, not ", given(.package), ".")
  }
}

# The handlers by platform as the FFI names it, in which CPUs are hosts.
check_handler <- function(handler) {
  if (inherits(handler, "NativeSymbolInfo")) {
    abort_type(
      "`handler` must be a named list of external pointers, not ", given(handler), ".",
      hints = "Use its address: list(host = handler$address)."
    )
  }
  platforms <- names(handler)
  if (!is.list(handler) || is.object(handler) || length(handler) == 0L || is.null(platforms)) {
    abort_type(
      "`handler` must be a named list of external pointers, such as list(host = pointer), not ", given(handler), "."
    )
  }
  if (anyNA(platforms) || !all(is_platform_name(platforms))) {
    abort_input("Each element of `handler` must have the name of a platform, such as \"host\" or \"cuda\".")
  }
  for (platform in platforms) {
    if (typeof(handler[[platform]]) != "externalptr") {
      abort_type(
        "`handler$", platform, "` must be an external pointer to a function, not ", given(handler[[platform]]), "."
      )
    }
  }
  platforms <- tolower(platforms)
  platforms[platforms == "cpu"] <- "host"
  if (anyDuplicated(platforms) > 0L) {
    abort_input("`handler` has two functions for the platform \"", platforms[duplicated(platforms)][[1L]], "\".")
  }
  names(handler) <- platforms
  handler
}

#' @rdname pjrt_register_custom_call
#' @export
pjrt_unregister_custom_call <- function(target_name) {
  check_string(target_name, "target_name")
  if (!validUTF8(enc2utf8(target_name))) {
    abort_input("'", target_name, "' is not valid UTF-8.")
  }
  if (is.null(the$custom_calls[[target_name]])) {
    return(invisible(FALSE))
  }
  call_native(ffi_custom_call_unregister, enc2utf8(target_name))
  the$custom_calls[[target_name]] <- NULL
  invisible(TRUE)
}

# Removes a package's handlers when its namespace is unloaded.
unregister_with <- function(package) {
  if (package %in% the$handler_packages) {
    return()
  }
  the$handler_packages <- c(the$handler_packages, package)
  setHook(packageEvent(package, "onUnload"), function(...) {
    if (isNamespaceLoaded("pjrt")) getNamespace("pjrt")$pjrt_unregister_custom_calls(package)
  })
}

# Removes the handlers of a package. Programs that call them fail from then on.
pjrt_unregister_custom_calls <- function(package) {
  is_of <- function(entry) identical(entry$package, package)
  for (target in names(Filter(is_of, the$custom_calls))) {
    call_native(ffi_custom_call_unregister, target)
    the$custom_calls[[target]] <- NULL
  }
  invisible(NULL)
}

# A warning for each handler that a plugin has refused.
warn_about_custom_calls <- function() {
  for (problem in call_native(ffi_custom_call_problems)) {
    warn(problem)
  }
}

# Writes what a program prints, in pieces; native code calls this by name.
write_output <- function(pieces) {
  for (piece in pieces) cat(piece)
}

# Linear algebra targets in short: a routine of LAPACK once for all types.
short_targets <- function(targets) {
  targets <- setdiff(targets, "print_tensor")
  toString(unique(sub("^lapack_[sdcz](.*)_ffi$", "lapack_*\\1_ffi", targets)))
}

# The devices for which JAX and XLA have functions of such a name, if any.
made_for <- function(target) {
  patterns <- c(
    "GPUs of NVIDIA" = "^(cu(_|solver|sparse|blas|dnn|fft|rand|da)|__cu)",
    "GPUs of AMD" = "^(hip|roc|miopen)",
    "GPUs" = "^(__gpu\\$|mosaic_gpu|triton)",
    "TPUs" = "^tpu_|^LuDecomposition$"
  )
  names(patterns)[vapply(patterns, grepl, NA, target)]
}
