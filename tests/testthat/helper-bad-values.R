# The values that the tests of bad input try, and the objects behind them.

# One object of each class, and unusable ones.
input_objects <- function() {
  o <- routine_objects()
  o$with_option <- function(name, value, code) {
    old <- options(structure(list(value), names = name))
    on.exit(options(old))
    code
  }
  # restores the paths after something was saved there
  o$renew_paths <- function() {
    unlink(c(list.files(), "../a"))
    path_values(o$folder)
  }
  o$forget_registered <- function() {
    session <- getFromNamespace("the", "pjrt")
    session[["registered"]] <- list()
  }
  local(envir = o, {
    saved <- file.path(folder, "saved")
    data_type <- structure("f32", class = c("PJRTDataType", "DataType"))
    element_type <- elt_type(x)
    symbolic <- pjrt_load_exported(system.file("exported", "loss.jaxexport", package = "pjrt"))
    trace <- pjrt_trace(as_array(x))
    stages <- inspect_hlo(program)
    measured <- pjrt_benchmark(add, x, x, times = 3, limits = FALSE)
    unloaded <- structure(
      c(
        pjrt:::describe_executable(add),
        list(platform = "cpu", device_kind = "cpu", compile_seconds = 0, bytes = pjrt_serialize(add))
      ),
      class = "PJRTExecutable"
    )
    compared <- pjrt_benchmark(measured, other = measured)
    square <- pjrt_buffer(diag(2))
    donated <- pjrt_buffer(c(1, 2), "f64")
    pjrt_execute(compile(add_program("2xf64", donates)), donated, x)
    deleted <- pjrt_delete(pjrt_buffer(c(1, 2), "f64"))
    gone <- pjrt:::new_client(plugin, list(cpu_device_count = 1L))
    gone_device <- devices(gone)[[1L]]
    gone_memory <- memory_spaces(gone)[[1L]]
    gone_buffer <- pjrt_buffer(c(1, 2), "f64", device = gone_device)
    gone_add <- pjrt_compile(program, device = gone_device)
    gone_promise <- as_array_async(gone_buffer)
    close(gone)
    shut <- pjrt_open_safetensors(model)
    close(shut)
  })
  o
}

# The values that every argument is given, by label.
plain_values <- function() {
  list(
    `NULL` = NULL, `NA` = NA, `NA_integer_` = NA_integer_, `NA_real_` = NA_real_, `NA_character_` = NA_character_,
    `NA_complex_` = NA_complex_, `list()` = list(), `list(1)` = list(1), `list(a = NULL)` = list(a = NULL),
    `a function` = function(x) x, `a primitive` = sum, `an environment` = new.env(), `a factor` = factor("a"),
    `a Date` = as.Date("2020-01-01"), `a time` = .POSIXct(0, "UTC"), `an S4 object` = methods::getClass("numeric"),
    `a formula` = y ~ x, `a call` = quote(f(x)), `a symbol` = quote(f), `an expression` = expression(1),
    `a pairlist` = pairlist(a = 1), `1i` = 1i, `raw()` = raw(), `as.raw(0:2)` = as.raw(0:2),
    `a data frame` = data.frame(a = 1), `a matrix` = matrix(1:4, 2), `integer64` = bit64::as.integer64(1),
    `logical()` = logical(), `integer()` = integer(), `double()` = double(), `character()` = character(),
    `TRUE` = TRUE, `c(TRUE, FALSE)` = c(TRUE, FALSE), `1L` = 1L, `0L` = 0L, `-1L` = -1L, `-1` = -1, `1.5` = 1.5,
    `1:2` = 1:2, `1:1000` = 1:1000, `c(1, NA)` = c(1, NA), `NaN` = NaN, `Inf` = Inf, `-Inf` = -Inf, `1e300` = 1e300,
    `-1e300` = -1e300, `2^31` = 2^31, `-2^31` = -2^31, `2^53` = 2^53, `1e18` = 1e18, `1e-300` = 1e-300,
    `""` = "", `"a"` = "a", `c("a", "b")` = c("a", "b"), `c("a", NA)` = c("a", NA), `c(n = "a")` = c(n = "a"),
    `a long string` = strrep("a", 1e5), `invalid UTF-8` = `Encoding<-`("\xff\xfe", "UTF-8"),
    `latin1` = `Encoding<-`("\xe9", "latin1"),
    `bytes` = `Encoding<-`("\xe9", "bytes"), `a line end` = "a\nb", `"../a"` = "../a", `"cpu:9"` = "cpu:9",
    `"%s"` = "%s", `a null pointer` = null_pointer()
  )
}

null_pointer <- function() unserialize(serialize(methods::new("externalptr"), NULL))

# Our own objects, by label: one of each class, and unusable ones.
object_values <- function(o) {
  with(o, list(
    `a plugin` = plugin, `a client` = client, `a device` = here, `a memory` = memory, `a buffer` = x,
    `a program` = program,
    `an executable` = add, `execution options` = options, `compile options` = pjrt_compile_options(),
    `an array promise` = array, `a compiling promise` = compiled, `a model file` = opened,
    `a donated buffer` = donated, `a deleted buffer` = deleted, `a closed client` = gone,
    `a closed device` = gone_device,
    `a closed memory` = gone_memory, `a closed buffer` = gone_buffer, `a closed executable` = gone_add,
    `a closed promise` = gone_promise, `a closed model file` = shut
  ))
}

# Objects with one of our classes that are not ours.
impostors <- function(class, o) {
  pointer <- if (class == "PJRTProgram") pjrt_scalar(1) else pjrt_program(o$text)
  loaded <- Find(function(x) inherits(x, class), object_values(o))
  made <- list(
    `a list` = list(), `a number` = 1, `a string` = "a", `a function` = function() NULL, `an environment` = new.env(),
    `a null pointer` = null_pointer(), `a foreign pointer` = pointer
  )
  made <- lapply(made, `attr<-`, "class", class)
  if (!is.null(loaded)) made[["one from a file"]] <- unserialize(serialize(loaded, NULL, version = 2))
  structure(made, names = sprintf("%s as %s", names(made), class))
}

# Paths, by label, that hold no valid file or cannot be accessed.
path_values <- function(folder) {
  folder <- file.path(folder, "paths")
  unlink(folder, recursive = TRUE)
  dir.create(folder)
  at <- function(name) file.path(folder, name)
  dir.create(at("folder"))
  file.symlink(at("nothing"), at("dangling"))
  file.symlink(at("loop"), at("loop"))
  file.create(at("empty"))
  writeBin(as.raw(0:255), at("bytes"))
  list(
    `a folder` = at("folder"), `a missing file` = at("missing"), `a missing folder` = at("missing/a"),
    `a file as folder` = at("empty/a"), `a dangling link` = at("dangling"), `a link to itself` = at("loop"),
    `an empty file` = at("empty"), `a file of bytes` = at("bytes"), `a long name` = at(strrep("a", 300)),
    `a long path` = paste0(folder, strrep("/a", 3000)), `/proc/self/mem` = "/proc/self/mem", `/dev/full` = "/dev/full",
    `/dev/null` = "/dev/null", `a URL` = "http://127.0.0.1:9/a"
  )
}
