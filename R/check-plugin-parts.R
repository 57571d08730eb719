# What pjrt_check_plugin() tries, by part: functions of the plugin's path and the report's folder that return checks by
# name.
# A check returns TRUE, or what is wrong.

# Registers the plugin under a name of its own and creates a client.
start_checked <- function(path) {
  pjrt_register_plugin("checked", path)
  pjrt_client("checked")
}

# The first device of the plugin.
checked_device <- function(path) devices(start_checked(path))[[1L]]

# TRUE, or the expected and the found values as text.
check_same <- function(found, expected, tolerance = 0) {
  same <- if (tolerance == 0) identical(found, expected) else all.equal(found, expected, tolerance = tolerance)
  if (isTRUE(same)) {
    return(TRUE)
  }
  shown <- function(x) paste(utils::head(format(as.vector(x), digits = 7, trim = TRUE), 4L), collapse = " ")
  if (length(found) == length(expected) && is.numeric(found) && is.numeric(expected)) {
    wrong <- which(!mapply(function(a, b) isTRUE(all.equal(a, b, tolerance = tolerance)), found, expected))
    return(sprintf(
      "%d of %d elements differ, such as element %d: %s instead of %s", length(wrong), length(found), wrong[[1L]],
      shown(found[[wrong[[1L]]]]), shown(expected[[wrong[[1L]]]])
    ))
  }
  sprintf("%s instead of %s", shown(found), shown(expected))
}

# The functions without which nothing can be done; there is another way for all others.
needed_functions <- paste0("PJRT_", c(
  "Error_Destroy", "Error_Message", "Error_GetCode", "Client_Create", "Client_Destroy", "Client_PlatformName",
  "Client_AddressableDevices", "Client_Compile", "Client_BufferFromHostBuffer", "Device_GetDescription",
  "DeviceDescription_Id", "LoadedExecutable_Destroy", "LoadedExecutable_GetExecutable", "LoadedExecutable_Execute",
  "Executable_Destroy", "Buffer_Destroy", "Buffer_ReadyEvent", "Buffer_ToHostBuffer", "Event_Destroy", "Event_Await"
))

missing_functions <- function() {
  all <- call_native(ffi_plugin_functions, as_pjrt_plugin("checked"))
  all$name[!all$present]
}

check_start <- function(path, folder) {
  list(
    "the library loads and names its API version" = function() {
      pjrt_register_plugin("checked", path)
      check_same(pjrt_api_version(as_pjrt_plugin("checked"))[["major"]] == 0L, TRUE)
    },
    "it has the functions that this package needs" = function() {
      missing <- intersect(needed_functions, missing_functions())
      if (length(missing) == 0L) TRUE else paste("it lacks", toString(missing))
    },
    "it has all functions of the newest API" = function() {
      missing <- setdiff(missing_functions(), needed_functions)
      if (length(missing) == 0L) TRUE else pjrt_abort(paste("it lacks", toString(missing)), "unimplemented")
    },
    "attributes can be read" = function() is.list(plugin_attributes("checked")),
    "extensions have sizes" = function() all(plugin_info("checked")$extensions$size > 0),
    "a client is created" = function() inherits(start_checked(path), "PJRTClient"),
    "the client has a platform" = function() nzchar(platform(pjrt_client("checked"))),
    "it has devices" = function() length(devices(pjrt_client("checked"))) > 0L,
    "devices have their own numbers" = function() {
      ids <- vapply(devices(pjrt_client("checked")), function(device) device_info(device)$id, 0)
      !anyDuplicated(ids)
    },
    "devices have memory spaces" = function() {
      spaces <- memory_spaces(devices(pjrt_client("checked"))[[1L]])
      if (length(spaces) > 0L) TRUE else skipped("the plugin has no memory spaces")
    }
  )
}

checked_dtypes <- c(
  "pred", "i2", "i4", "i8", "i16", "i32", "i64", "ui2", "ui4", "ui8", "ui16", "ui32", "ui64", "f16", "bf16", "f32",
  "f64",
  "f8e4m3fn", "f8e5m2", "f4e2m1fn", "c64", "c128"
)

check_arrays <- function(path, folder) {
  on <- checked_device(path)
  values <- function(dtype, n) {
    x <- (seq_len(n) - 1L) %% 2L
    if (dtype == "pred") x == 1L else if (startsWith(dtype, "c")) complex(real = x, imaginary = 1 - x) else as.double(x)
  }
  back <- function(buffer) {
    found <- as_array(buffer, int64 = "double")
    if (is.integer(found)) storage.mode(found) <- "double"
    found
  }
  both_ways <- lapply(checked_dtypes, function(dtype) {
    function() {
      for (dims in list(1L, 33L, c(3L, 5L), c(2L, 3L, 4L), 0L)) {
        x <- array(values(dtype, prod(dims)), dims)
        same <- check_same(back(pjrt_buffer(x, dtype, on)), x)
        if (!isTRUE(same)) {
          return(paste0("shape ", toString(dims), ": ", same))
        }
      }
      TRUE
    }
  })
  names(both_ways) <- paste(checked_dtypes, "to the device and back")
  x <- matrix(as.double(1:12), 3)
  c(both_ways, list(
    "a matrix by row" = function() {
      bytes <- as_raw(pjrt_buffer(x, "f32", on), row_major = TRUE)
      check_same(readBin(bytes, "double", 12L, size = 4L), as.vector(t(x)))
    },
    "a matrix by column" = function() {
      bytes <- as_raw(pjrt_buffer(x, "f32", on), row_major = FALSE)
      check_same(readBin(bytes, "double", 12L, size = 4L), as.vector(x))
    },
    "bytes by row" = function() {
      bytes <- writeBin(as.vector(t(x)), raw(), size = 4L)
      check_same(back(pjrt_buffer(bytes, dtype = "f32", device = on, shape = dim(x), row_major = TRUE)), x)
    },
    "a part of an array" = function() check_same(back(pjrt_buffer(x, "f32", on))[2L, ], as.vector(x[2L, ])),
    "an array as text" = function() {
      check_same(as.double(format_buffer(pjrt_buffer(c(1, 12), "f32", on))), c(1, 12))
    },
    "copies in each memory space" = function() {
      spaces <- memory_spaces(on)
      if (length(spaces) == 0L) {
        return(skipped("the plugin has no memory spaces"))
      }
      for (space in spaces) {
        same <- check_same(back(copy_buffer(pjrt_buffer(x, "f32", on), space)), x)
        if (!isTRUE(same)) {
          return(paste0(as.character(space), ": ", same))
        }
      }
      TRUE
    },
    "a copy on another device" = function() {
      others <- devices(pjrt_client("checked"))
      if (length(others) < 2L) {
        return(skipped("there is one device"))
      }
      check_same(back(copy_buffer(pjrt_buffer(x, "f32", on), others[[2L]])), x)
    },
    "100,000 elements" = function() {
      large <- as.double(seq_len(1e5))
      check_same(back(pjrt_buffer(large, "f32", on)), array(large))
    }
  ))
}

checked_program <- "func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.multiply %x, %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}"

check_programs <- function(path, folder) {
  on <- checked_device(path)
  squares <- function(program) {
    executable <- pjrt_compile(program, device = on)
    check_same(as.vector(as_array(pjrt_execute(executable, pjrt_buffer(c(1, 2, 3), "f32", on)))), c(1, 4, 9))
  }
  # the squares of the elements of a matrix
  given <- function(name, format = "mlir") {
    function() {
      program <- pjrt_program(path = system.file("check", name, package = "pjrt", mustWork = TRUE), format = format)
      x <- matrix(c(1, 2, 3, 4), 2)
      if (format == "hlo") x <- 3
      input <- pjrt_buffer(x, "f32", on, shape = dim(x) %||% integer())
      check_same(as_array(pjrt_execute(pjrt_compile(program, device = on), input)), x^2)
    }
  }
  list(
    "text" = function() squares(pjrt_program(checked_program)),
    "text with locations" = function() {
      squares(pjrt_program(sub(": tensor<3xf32>\n", ": tensor<3xf32> loc(\"a\")\n", checked_program)))
    },
    "bytecode" = given("square.mlirbc"),
    "a portable artifact of StableHLO 1.0" = given("square.artifact"),
    "HLO" = given("square.hlo.pb", "hlo"),
    "the signature of an executable" = function() {
      info <- executable_info(pjrt_compile(pjrt_program(checked_program), device = on))
      check_same(list(info$outputs$dtype, info$outputs$shape), list("f32", list(3L)))
    },
    "the optimized program" = function() {
      any(nzchar(inspect_hlo(pjrt_compile(pjrt_program(checked_program), device = on))$after_optimizations))
    },
    "a program with a mistake is refused" = function() {
      refused <- tryCatch(
        pjrt_compile(pjrt_program(sub("stablehlo.multiply", "stablehlo.nothing", checked_program)), device = on),
        pjrt_error = identity
      )
      inherits(refused, "pjrt_error")
    }
  )
}

check_running <- function(path, folder) {
  on <- checked_device(path)
  square <- pjrt_compile(pjrt_program(checked_program), device = on)
  x <- function() pjrt_buffer(c(1, 2, 3), "f32", on)
  numbers <- function(buffer) as.vector(as_array(buffer))
  donating <- sub("tensor<3xf32>)", "tensor<3xf32> {tf.aliasing_output = 0 : i32})", checked_program, fixed = TRUE)
  list(
    "a donated input is gone, and its output right" = function() {
      given <- x()
      out <- pjrt_execute(pjrt_compile(pjrt_program(donating), device = on), given)
      same <- check_same(numbers(out), c(1, 4, 9))
      if (!isTRUE(same)) same else if (is_deleted(given)) TRUE else skipped("the plugin keeps donated inputs")
    },
    "an input that is not donated stays" = function() {
      given <- x()
      pjrt_execute(square, given)
      check_same(numbers(given), c(1, 2, 3))
    },
    "100 runs in a chain" = function() {
      value <- pjrt_buffer(c(1, 1, 1), "f32", on)
      for (i in 1:100) value <- pjrt_execute(square, value)
      check_same(numbers(value), c(1, 1, 1))
    },
    "50 runs at the same time" = function() {
      given <- lapply(1:50, function(i) pjrt_buffer(rep(i, 3), "f32", on))
      found <- vapply(lapply(given, function(x) pjrt_execute(square, x)), function(x) numbers(x)[[1L]], 0)
      check_same(found, as.double((1:50)^2))
    },
    "an input of another shape is an error" = function() {
      wrong <- tryCatch(pjrt_execute(square, pjrt_buffer(1, "f32", on)), pjrt_error = identity)
      inherits(wrong, "pjrt_error")
    },
    "results are ready in the end" = function() {
      out <- pjrt_execute(square, x())
      await(out)
      is_ready(out)
    },
    "buffers can be deleted while a program runs" = function() {
      given <- x()
      out <- pjrt_execute(square, given)
      pjrt_delete(given)
      check_same(numbers(out), c(1, 4, 9))
    }
  )
}

# A time limit is an interrupt for R.
check_interrupts <- function(path, folder) {
  # in the language of the session
  limit <- gettext("reached elapsed time limit", domain = "R")
  ends <- function(code) {
    start <- proc.time()[["elapsed"]]
    on.exit(setTimeLimit())
    finished <- tryCatch(
      {
        setTimeLimit(elapsed = 0.05)
        force(code)
        # the limit may end before this
        setTimeLimit()
        TRUE
      },
      error = function(e) if (conditionMessage(e) == limit) FALSE else stop(e)
    )
    took <- proc.time()[["elapsed"]] - start
    if (finished) {
      skipped("it took less than the time limit")
    } else {
      if (took < 10) TRUE else sprintf("it took %.1f s", took)
    }
  }
  lines <- sprintf("  %%v%d = stablehlo.sine %%v%d : tensor<3xf32>", seq_len(1000), seq_len(1000) - 1L)
  long <- sprintf(
    "func.func @main(%%v0: tensor<3xf32>) -> tensor<3xf32> {\n%s\n  return %%v1000 : tensor<3xf32>\n}",
    paste(lines, collapse = "\n")
  )
  list(
    "while a client is created" = function() ends(start_checked(path)),
    "while a program compiles" = function() ends(pjrt_compile(pjrt_program(long), device = checked_device(path))),
    "afterwards, programs compile" = function() {
      inherits(pjrt_compile(pjrt_program(checked_program), device = checked_device(path)), "PJRTLoadedExecutable")
    }
  )
}

check_saving <- function(path, folder) {
  on <- checked_device(path)
  list("an executable is saved" = function() {
    pjrt_save_executable(pjrt_compile(pjrt_program(checked_program), device = on), file.path(folder, "executable"))
    TRUE
  })
}

check_loading <- function(path, folder) {
  on <- checked_device(path)
  list("another process loads and runs it" = function() {
    saved <- file.path(folder, "executable")
    if (!file.exists(saved)) {
      return(skipped("no executable was saved"))
    }
    executable <- pjrt_load_executable(saved, device = on)
    check_same(as.vector(as_array(pjrt_execute(executable, pjrt_buffer(c(1, 2, 3), "f32", on)))), c(1, 4, 9))
  })
}

check_exit <- function(path, folder) {
  on <- checked_device(path)
  list("the process ends with programs and downloads pending" = function() {
    square <- pjrt_compile(pjrt_program(checked_program), device = on)
    outs <- lapply(1:20, function(i) pjrt_execute(square, pjrt_buffer(c(1, 2, 3), "f32", on)))
    assign("pending", lapply(outs, as_array_async), envir = globalenv())
    TRUE
  })
}

check_quick <- function(path = "", folder = "") {
  list(
    "the plugin starts" = function() inherits(start_checked(path), "PJRTClient"),
    "an array is kept" = function() {
      x <- matrix(as.double(1:6), 2)
      check_same(as_array(pjrt_buffer(x, "f32", checked_device(path))), x)
    },
    "a program runs" = function() check_programs(path, folder)[["text"]]()
  )
}

plugin_checks <- list(
  start = check_start, arrays = check_arrays, programs = check_programs,
  operations = check_operations, running = check_running,
  interrupts = check_interrupts, saving = check_saving, loading = check_loading, exit = check_exit, quick = check_quick
)
