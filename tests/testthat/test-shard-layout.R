# Slow: compiles many programs.

four <- devices(new_client(pjrt_plugin("cpu"), list(cpu_device_count = 4L)))

sharded <- function(name) pjrt_program(path = fixture(file.path("sharded", name)))

# x %*% w + b and the row sums of x, partitioned by JAX over a 2x2 mesh, in every program format.
forms <- c("gspmd.mlir", "gspmd.mlirbc", "gspmd.artifact", "shardy.mlir", "shardy.mlirbc", "shardy.artifact")
x <- matrix(seq(-4, 3.75, by = 0.25), 8)
w <- matrix(seq(-1.5, 1.375, by = 0.125), 4)
b <- c(1, 2, 3, 4, 5, 6)
expected <- list(x %*% w + rep(b, each = 8), array(rowSums(x)))

step <- function(name, ...) pjrt_compile(sharded(paste0("step-", name)), ..., devices = four)

inputs_of <- function(executable, x, w, b) {
  Map(
    list, pjrt_shard(x, executable = executable, input = 1L), pjrt_shard(w, executable = executable, input = 2L),
    pjrt_shard(b, executable = executable, input = 3L)
  )
}

# Compiles a program with one input and one output of these shardings for `count` devices.
identity_of <- function(type, input, output = input, count = 4L) {
  annotation <- function(sharding) if (nzchar(sharding)) sprintf(" {mhlo.sharding = \"{%s}\"}", sharding) else ""
  pjrt_compile(pjrt_program(sprintf(
    "module attributes {mhlo.num_partitions = %d : i32} {
      func.func @main(%%x: tensor<%s>%s) -> (tensor<%s>%s) {
        %%0 = stablehlo.add %%x, %%x : tensor<%s>
        return %%0 : tensor<%s>
      }
    }", count, type, annotation(input), type, annotation(output), type, type
  )), devices = four)
}

test_that("a partitioned program computes what one device computes", {
  for (form in forms) {
    executable <- step(form)
    expect_identical(devices(executable), four, label = form)
    out <- pjrt_execute_sharded(executable, inputs_of(executable, x, w, b))
    for (output in 1:2) {
      expect_equal(pjrt_unshard(out, executable = executable, output = output), expected[[output]], label = form)
      parts <- lapply(out, `[[`, output)
      expect_identical(
        pjrt_unshard(parts, executable = executable, output = output),
        pjrt_unshard(out, executable = executable, output = output)
      )
    }
  }
})

test_that("unspecified shardings are chosen as in JAX", {
  for (form in forms) {
    executable <- step(form)
    expect_identical(executable_info(executable)$inputs$shape, list(c(4L, 2L), c(4L, 3L), 3L), label = form)
    expect_identical(executable_info(executable)$outputs$shape, list(c(4L, 3L), 4L), label = form)
    expect_identical(executable_info(executable)$inputs$sharding, c(
      "devices=[2,2]<=[4]", "devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate",
      "devices=[2,2]<=[2,2]T(1,0) last_tile_dim_replicate"
    ))
    expect_identical(
      executable_info(executable)$outputs$sharding,
      c("devices=[2,2]<=[4]", "devices=[2,2]<=[4] last_tile_dim_replicate")
    )
    out <- pjrt_execute_sharded(executable, inputs_of(executable, x, w, b))
    expect_identical(lapply(out, function(part) lapply(part, shape)), rep(list(list(c(4L, 3L), 4L)), 4L))
  }
  expect_output(print(summary(executable)), "devices=[2,2]<=[4]", fixed = TRUE)
  expect_identical(executable_info(compile(add_program("f32")))$inputs$sharding, c(NA_character_, NA))
  expect_false(any(grepl("sharding", utils::capture.output(print(summary(compile(add_program("f32"))))))))
})

test_that("replicated arrays stay replicated", {
  for (name in c("gspmd-whole.mlir", "shardy-whole.mlir")) {
    executable <- step(name)
    expect_identical(executable_info(executable)$outputs$sharding[[1L]], "replicated", label = name)
    expect_identical(executable_info(executable)$outputs$shape, list(c(8L, 6L), 4L), label = name)
    out <- pjrt_execute_sharded(executable, inputs_of(executable, x, w, b))
    for (part in out) expect_equal(as_array(part[[1L]]), expected[[1L]])
    expect_equal(pjrt_unshard(out, executable = executable), expected[[1L]])
  }
})

test_that("the propagation options control what GSPMD may divide", {
  shapes <- function(...) {
    executable <- step("gspmd.mlir", pjrt_compile_options(...))
    c(executable_info(executable)$inputs$shape[3L], executable_info(executable)$outputs$shape)
  }
  option <- function(parameters = NULL, output = NULL) {
    shapes(
      allow_spmd_sharding_propagation_to_parameters = parameters, allow_spmd_sharding_propagation_to_output = output
    )
  }
  expect_identical(option(), list(3L, c(4L, 3L), 4L))
  expect_identical(option(TRUE, TRUE), option())
  expect_identical(option(FALSE), list(6L, c(4L, 3L), 4L))
  expect_identical(option(output = FALSE), list(3L, c(8L, 6L), 8L))
  expect_identical(option(c(FALSE, FALSE, TRUE), c(FALSE, FALSE)), option(output = FALSE))
  whole <- pjrt_compile_options(allow_spmd_sharding_propagation_to_output = TRUE)
  expect_identical(executable_info(step("gspmd-whole.mlir", whole))$outputs$shape, list(c(4L, 3L), 4L))
  # these would abort the process
  expect_refused(option(c(TRUE, FALSE)), "invalid_input", "to_parameters` has 2 values, but the program has 3.")
  expect_refused(option(output = rep(TRUE, 3)), "invalid_input", "to_output` has 3 values, but the program has 2.")
  for (bad in list(NA, 1, "TRUE", c(TRUE, NA), logical())) {
    expect_refused(option(bad), "invalid_input", "to_parameters` must be TRUE, FALSE, NULL, or one such value for each")
    expect_refused(option(output = bad), "invalid_input", "to_output` must be TRUE, FALSE, NULL")
  }
})

test_that("the cache key contains the propagation options", {
  child <- run_child(quote({
    options(pjrt.cache_dir = tempfile())
    pjrt_client("cpu", cpu_device_count = 4L)
    text <- "module attributes {mhlo.num_partitions = 4 : i32} {
      func.func @main(%x: tensor<8xf32> {mhlo.sharding = \"{devices=[4]<=[4]}\"}) -> tensor<8xf32> {
        %0 = stablehlo.add %x, %x : tensor<8xf32>
        return %0 : tensor<8xf32>
      }
    }"
    size <- function(...) executable_info(compile(text, pjrt_compile_options(...)))$outputs$shape[[1L]]
    for (i in 1:2) cat(size(), size(allow_spmd_sharding_propagation_to_output = FALSE), "")
  }))
  expect_clean(child, "2 8 2 8 ")
})

test_that("a program's own device count is the default", {
  child <- run_child(bquote({
    program <- pjrt_program(path = .(normalizePath(fixture("sharded/step-shardy.mlir"))))
    # the client has too few devices at first
    message <- tryCatch(pjrt_compile(program), pjrt_error_invalid_input = conditionMessage)
    cat(strsplit(message, "\n")[[1L]][[1L]], "\n")
    close(pjrt_client("cpu"))
    pjrt_client("cpu", cpu_device_count = 8L)
    executable <- pjrt_compile(program)
    cat(length(devices(executable)), "\n")
    cat(nchar(inspect_hlo(program)$after_optimizations) > 0, "\n")
    stopifnot(identical(devices(value(pjrt_compile_async(program))), devices(executable)))
    x <- matrix(1:32 + 0, 8)
    parts <- pjrt_shard(x, executable = executable, input = "arg0")
    stopifnot(identical(as_array(parts[[4L]]), x[5:8, 3:4]))
  }), env = c(PJRT_CPU_DEVICE_COUNT = "2"))
  expect_clean(child, c(
    "A program of 1 replica and 4 partitions needs 4 devices, but the client has 2. ", "4 ", "TRUE "
  ))
})

test_that("a device count that contradicts the program is refused with both values", {
  program <- sharded("step-gspmd.artifact")
  for (form in forms) {
    error <- expect_refused(
      step(form, pjrt_compile_options(num_partitions = 2L)), "invalid_input",
      "`num_partitions` is 2, but the program is for 4: it has `mhlo.num_partitions = 4`."
    )
    expect_refused(
      step(form, pjrt_compile_options(num_replicas = 2L)), "invalid_input",
      "`num_replicas` is 2, but the program is for 1"
    )
  }
  expect_identical(error$call[[1L]], quote(pjrt_compile))
  expect_refused(
    pjrt_compile_async(program, pjrt_compile_options(1L, 1L)), "invalid_input", "is 1, but the program is for 4"
  )
  expect_refused(pjrt_compile(program, device = four[[1L]]), "invalid_input", "needs 4 devices, not 1")
  expect_refused(pjrt_compile(program, devices = four[1:3]), "invalid_input", "needs 4 devices, not 3")
  portable <- pjrt_compile_options(compile_portable_executable = TRUE)
  expect_refused(pjrt_compile(program, portable), "invalid_input", "runs on one device")
  assigned <- pjrt_compile_options(device_assignment = 0:1)
  expect_refused(pjrt_compile(program, assigned), "invalid_input", "needs 4 devices, not 2")
  # without its own count, a program is for one device or for the number in the options
  expect_length(devices(compile(unary_program("4xf32"))), 1L)
  expect_length(devices(compile(unary_program("4xf32"), pjrt_compile_options(num_replicas = 2L))), 2L)
})

test_that("meshes of any order and dimension are supported", {
  x <- array(seq_len(4 * 6 * 2) + 0, c(4, 6, 2))
  cases <- list(
    "devices=[2,2,1]<=[4]" = list(x[1:2, 1:3, ], x[1:2, 4:6, ], x[3:4, 1:3, ], x[3:4, 4:6, ]),
    "devices=[1,2,2]<=[2,2]T(1,0)" = list(
      x[, 1:3, 1, drop = FALSE], x[, 4:6, 1, drop = FALSE], x[, 1:3, 2, drop = FALSE], x[, 4:6, 2, drop = FALSE]
    ),
    "devices=[4,1,1]3,1,0,2" = list(
      x[3, , , drop = FALSE], x[2, , , drop = FALSE], x[4, , , drop = FALSE], x[1, , , drop = FALSE]
    ),
    "devices=[1,1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate" = list(
      x[, , 1, drop = FALSE], x[, , 2, drop = FALSE], x[, , 1, drop = FALSE], x[, , 2, drop = FALSE]
    ),
    "replicated" = list(x, x, x, x)
  )
  for (sharding in names(cases)) {
    executable <- identity_of("4x6x2xf32", sharding)
    parts <- pjrt_shard(x, executable = executable, input = 1L)
    expect_identical(lapply(parts, device), four, label = sharding)
    expect_identical(lapply(parts, as_array), cases[[sharding]], label = sharding)
    expect_identical(
      pjrt_unshard(pjrt_execute_sharded(executable, parts), executable = executable), 2 * x, label = sharding
    )
  }
})

test_that("buffers and files can be divided among devices", {
  w <- matrix(seq_len(48) + 0, 8)
  path <- withr::local_tempfile(fileext = ".safetensors")
  narrow <- matrix(rep(c(0, 0.5, -1, 6), 12), 8)
  pjrt_save_safetensors(
    list(w = pjrt_buffer(w), n = pjrt_buffer(narrow, "f4e2m1fn"), odd = pjrt_buffer(1:3, "i8")), path
  )
  model <- pjrt_open_safetensors(path)
  shardings <- c(
    "devices=[2,2]<=[4]", "devices=[4,1]<=[4]", "devices=[1,2,2]<=[4] last_tile_dim_replicate", "replicated",
    "devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate", "maximal device=2"
  )
  for (sharding in shardings) {
    executable <- identity_of("8x6xf32", sharding)
    expected <- lapply(pjrt_shard(w, executable = executable, input = 1L), as_array)
    sources <- list(
      pjrt_buffer(w, device = four[[2L]]), pjrt_buffer(w, device = "cpu:1"),
      pjrt_execute(compile(unary_program("8x6xf32", "multiply")), pjrt_buffer(sqrt(w)))
    )
    for (source in sources) {
      parts <- pjrt_shard(source, executable = executable, input = 1L)
      expect_identical(lapply(parts, device), four, label = sharding)
      expect_equal(lapply(parts, as_array), expected, label = sharding, tolerance = 1e-6)
    }
    parts <- pjrt_shard(model, executable = executable, input = "%x", tensor = "w")
    expect_identical(lapply(parts, device), four, label = sharding)
    expect_identical(lapply(parts, as_array), expected, label = sharding)
    expect_identical(
      pjrt_unshard(pjrt_execute_sharded(executable, parts), executable = executable), 2 * w, label = sharding
    )

    small <- pjrt_program(sprintf("module attributes {mhlo.num_partitions = 4 : i32} {
      func.func @main(%%x: tensor<8x6xf4E2M1FN> {mhlo.sharding = \"{%s}\"}) -> tensor<8x6xf32> {
        %%0 = stablehlo.convert %%x : (tensor<8x6xf4E2M1FN>) -> tensor<8x6xf32>
        return %%0 : tensor<8x6xf32>
      }
    }", sharding))
    small <- pjrt_compile(small, devices = four)
    from_array <- lapply(pjrt_shard(narrow, executable = small, input = 1L), as_array)
    expect_identical(
      lapply(pjrt_shard(model, executable = small, input = 1L, tensor = 2L), as_array), from_array, label = sharding
    )
    from_buffer <- pjrt_shard(pjrt_buffer(narrow, "f4e2m1fn"), executable = small, input = 1L)
    expect_identical(lapply(from_buffer, as_array), from_array, label = sharding)
  }
})

test_that("a part that is already on its device is not copied", {
  executable <- identity_of("4xf32", "replicated")
  x <- pjrt_buffer(c(1, 2, 3, 4), device = four[[3L]])
  parts <- pjrt_shard(x, executable = executable, input = 1L)
  expect_identical(vapply(parts, identical, NA, x), c(FALSE, FALSE, TRUE, FALSE))
  expect_null(attr(x, "division"))
})

test_that("each device allocates only its part", {
  path <- withr::local_tempfile(fileext = ".safetensors")
  pjrt_save_safetensors(list(w = pjrt_empty("f32", c(4096, 1024))), path)
  model <- pjrt_open_safetensors(path)
  source <- pjrt_empty("f32", c(4096, 1024))
  live <- function() {
    # small buffers of other tests may need a second collection
    for (i in 1:2) gc()
    sum(pjrt_memory_stats()$clients$live_bytes)
  }
  before <- live()
  for (sharding in c("devices=[4,1]<=[4]", "devices=[1,4]<=[4]", "devices=[2,2]<=[4]")) {
    executable <- identity_of("4096x1024xf32", sharding)
    for (x in list(model, source, matrix(0, 4096, 1024))) {
      parts <- pjrt_shard(x, executable = executable, input = 1L, tensor = if (inherits(x, "PJRTSafetensors")) "w")
      expect_identical(live() - before, 4 * 4096 * 1024, label = paste(sharding, class(x)[[1L]]))
      rm(parts)
    }
  }
})

test_that("only the needed parts of a file are read", {
  # a sparse file of 1 GB
  path <- withr::local_tempfile(fileext = ".safetensors")
  header <- "{\"w\":{\"dtype\":\"I8\",\"shape\":[1024,1048576],\"data_offsets\":[0,1073741824]}}"
  header <- paste0(header, strrep(" ", 120L - nchar(header)))
  writeBin(c(as.raw(c(nchar(header), rep(0, 7))), charToRaw(header)), path)
  file <- file(path, "r+b")
  seek(file, 128 + 1073741824 - 1, rw = "write")
  writeBin(as.raw(7), file)
  close(file)
  resident <- function() {
    line <- grep("^VmRSS", readLines("/proc/self/status"), value = TRUE)
    as.numeric(gsub("[^0-9]", "", line)) * 1024
  }
  model <- pjrt_open_safetensors(path)
  before <- resident()
  rows <- pjrt_shard(model, executable = identity_of("1024x1048576xi8", "devices=[4,1]<=[4]"), input = 1L, tensor = "w")
  expect_lt(resident() - before, 2e8)
  expect_identical(rows[[4L]][[256, 1048576]], 7L)
  # a few columns of every row
  rm(rows)
  last <- pjrt:::call_native(pjrt:::ffi_safetensors_share, model, 1L, c(0, 1048572), c(1024, 4), c(1024, 4), four[[4L]])
  expect_identical(as_array(last)[1024, ], c(0L, 0L, 0L, 7L))
  expect_lt(resident() - before, 2e8)
})

test_that("unequal parts are padded with zeros and restored without them", {
  for (rows in c(5L, 6L, 7L)) {
    x <- matrix(seq_len(3 * rows) + 0, rows)
    executable <- identity_of(sprintf("%dx3xf32", rows), "devices=[4,1]<=[4]")
    parts <- pjrt_shard(x, executable = executable, input = 1L)
    expect_identical(lapply(parts, shape), rep(list(c(2L, 3L)), 4L))
    padded <- rbind(x, matrix(0, 8 - rows, 3))
    expect_identical(do.call(rbind, lapply(parts, as_array)), padded)
    path <- withr::local_tempfile(fileext = ".safetensors")
    pjrt_save_safetensors(list(x = pjrt_buffer(x)), path)
    from_file <- pjrt_shard(pjrt_open_safetensors(path), executable = executable, input = 1L, tensor = "x")
    expect_identical(lapply(from_file, as_array), lapply(parts, as_array))
    from_buffer <- pjrt_shard(pjrt_buffer(x), executable = executable, input = 1L)
    expect_identical(lapply(from_buffer, as_array), lapply(parts, as_array))
    expect_identical(pjrt_unshard(pjrt_execute_sharded(executable, parts), executable = executable), 2 * x)
  }
})

test_that("every R type can be divided and reassembled", {
  values <- list(
    i1 = matrix(c(TRUE, FALSE, TRUE, TRUE), 2), i32 = matrix(1:4, 2), `complex<f32>` = matrix(c(1i, 2 + 1i, 3, 4), 2),
    i64 = bit64::as.integer64(c("9007199254740993", "-1", "0", "9223372036854775807"))
  )
  dim(values$i64) <- c(2L, 2L)
  for (type in names(values)) {
    executable <- pjrt_compile(pjrt_program(sprintf("module attributes {mhlo.num_partitions = 4 : i32} {
      func.func @main(%%x: tensor<2x2x%s> {mhlo.sharding = \"{devices=[2,2]<=[4]}\"}) -> tensor<2x2x%s> {
        return %%x : tensor<2x2x%s>
      }
    }", type, type, type)), devices = four)
    parts <- pjrt_shard(values[[type]], executable = executable, input = 1L)
    expect_identical(lapply(parts, shape), rep(list(c(1L, 1L)), 4L), label = type)
    out <- pjrt_unshard(pjrt_execute_sharded(executable, parts), executable = executable)
    expect_bits(out, as_array(pjrt_buffer(values[[type]])))
  }
  # the dtype is that of the program's input
  executable <- identity_of("4xbf16", "devices=[4]<=[4]")
  expect_identical(as.character(elt_type(pjrt_shard(c(1, 2, 3, 4), executable = executable, input = 1L)[[1L]])), "bf16")
})

test_that("replicas can have different arrays or the same one", {
  text <- "module attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 2 : i32} {
    func.func @main(%x: tensor<4x2xf32> {mhlo.sharding = \"{devices=[1,2]<=[2]}\"}, %s: tensor<f32>) -> tensor<4x2xf32> {
      %0 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
      %1 = stablehlo.multiply %x, %0 : tensor<4x2xf32>
      return %1 : tensor<4x2xf32>
    }
  }"
  executable <- compile(text, devices = four)
  x <- matrix(1:16 + 0, 8)
  parts <- pjrt_shard(x, executable = executable, input = "x")
  expect_identical(lapply(parts, as_array), list(
    x[1:4, 1, drop = FALSE], x[1:4, 2, drop = FALSE], x[5:8, 1, drop = FALSE], x[5:8, 2, drop = FALSE]
  ))
  scalars <- pjrt_shard(3, executable = executable, input = "s", dim = NULL)
  expect_identical(lapply(scalars, shape), rep(list(integer()), 4L))
  out <- pjrt_execute_sharded(executable, Map(list, parts, scalars))
  expect_identical(pjrt_unshard(out, executable = executable), 3 * x)
  expect_identical(pjrt_unshard(out, dim = NULL, executable = executable), 3 * x[1:4, ])
  same <- pjrt_shard(x[1:4, ], executable = executable, dim = NULL, input = "x")
  expect_identical(lapply(same, as_array)[3:4], list(x[1:4, 1, drop = FALSE], x[1:4, 2, drop = FALSE]))
  expect_refused(pjrt_shard(x[1:4, ], executable = executable, input = "x"), "shape_mismatch", "has the shape [8x2]")
  expect_refused(
    pjrt_shard(3, executable = executable, input = "s"), "invalid_input", "`dim` must be NULL for a scalar"
  )
  # with replicas only, `input` makes no difference
  replicas <- compile(unary_program("2xf32"), pjrt_compile_options(num_replicas = 4L), devices = four)
  expect_identical(
    lapply(pjrt_shard(1:8 + 0, executable = replicas, input = 1L), as_array),
    lapply(pjrt_shard(1:8 + 0, executable = replicas), as_array)
  )
  out <- pjrt_execute_sharded(replicas, pjrt_shard(1:8 + 0, executable = replicas))
  expect_identical(pjrt_unshard(out, executable = replicas), pjrt_unshard(out))
})

test_that("a program for one device uses whole arrays", {
  double <- compile(unary_program("2x2xf32"))
  x <- pjrt_shard(diag(2), executable = double, input = 1L)
  expect_length(x, 1L)
  expect_identical(pjrt_unshard(pjrt_execute_sharded(double, x), executable = double), 2 * diag(2))
})

test_that("shardings survive the cache and saving", {
  executable <- step("gspmd.mlir")
  path <- withr::local_tempfile()
  pjrt_save_executable(executable, path)
  loaded <- pjrt_load_executable(path, device = four)
  expect_identical(executable_info(loaded)$inputs, executable_info(executable)$inputs)
  expect_identical(executable_info(loaded)$outputs, executable_info(executable)$outputs)
  out <- pjrt_execute_sharded(loaded, inputs_of(loaded, x, w, b))
  expect_equal(pjrt_unshard(out, executable = loaded, output = 1L), expected[[1L]])
  expect_equal(pjrt_unshard(out, executable = loaded, output = 2L), expected[[2L]])
  uneven <- identity_of("5xf32", "devices=[4]<=[4]")
  again <- pjrt_deserialize(pjrt_serialize(uneven), device = four)
  out <- pjrt_execute_sharded(again, pjrt_shard(1:5 + 0, executable = again, input = 1L))
  expect_identical(pjrt_unshard(out, executable = again), array(2 * (1:5)))
  # the options need not repeat the number of partitions
  expect_length(devices(pjrt_load_executable(path, device = four, compile_options = pjrt_compile_options())), 4L)
  other <- pjrt_compile_options(num_partitions = 2L)
  expect_refused(pjrt_load_executable(path, device = four, compile_options = other), "invalid_input", "4 partitions")
})

test_that("parts of an array that is divided in another way are refused, though they have the right shape", {
  square <- matrix(as.numeric(1:16), 4)
  turned <- identity_of("4x4xf32", "devices=[2,2]<=[4]", "devices=[2,2]<=[2,2]T(1,0)")
  double <- pjrt_function(turned)
  first <- double(square)
  expect_identical(pjrt_unshard(first, executable = turned), 2 * square)
  refusal <- "Argument 1 (`x`) has parts of an array that is divided among the devices in another way than input 1"
  expect_refused(double(first), "invalid_input", refusal)
  expect_refused(double(lapply(first, identity)), "invalid_input", refusal)
  step <- pjrt_step(turned, state = c(x = 1))
  state <- step(list(x = square))
  expect_identical(pjrt_unshard(state$x, executable = turned), 2 * square)
  expect_refused(step(state), "invalid_input", "divided among the devices in another way")

  kept <- identity_of("5x3xf32", "devices=[4,1]<=[4]")
  double <- pjrt_function(kept)
  x <- matrix(as.numeric(1:15), 5)
  expect_identical(pjrt_unshard(double(double(x)), executable = kept), 4 * x)
  shards <- pjrt_shard(x, executable = kept, input = 1L)
  expect_identical(pjrt_unshard(double(shards), executable = kept), 2 * x)
  rows <- identity_of("5x3xf32", "devices=[4,1]3,1,0,2")
  expect_refused(pjrt_function(rows)(shards), "invalid_input", "divided among the devices in another way")
  expect_refused(
    pjrt_unshard(shards, executable = rows), "invalid_input",
    "`buffers` has parts of an array that is divided among the devices in another way than output 1"
  )
  expect_refused(
    pjrt_unshard(rev(shards), executable = kept), "device_mismatch",
    "Element 1 of `buffers` is on device 'CpuDevice(id=3)', but part 1 of the array is on device 'CpuDevice(id=0)'."
  )
})

test_that("functions on several devices take what those on one device take, with the same errors", {
  double <- pjrt_function(identity_of("4x2xi64", "devices=[4,1]<=[4]"), as = "array")
  long <- structure(bit64::as.integer64(1:8) * bit64::as.integer64("1099511627776"), dim = c(4L, 2L))
  expect_identical(as.vector(double(double(long))), as.vector(long * 4L))
  double <- pjrt_function(identity_of("4x2xi32", "devices=[4,1]<=[4]"), as = "array")
  missing <- matrix(c(1:7, NA), 4)
  absent <- "no representation at the XLA level; the first is element"
  expect_refused(double(missing), "invalid_input", paste("Argument 1 (`x`) has 1 NA value, which has", absent, "8."))
  expect_refused(double(missing + NA), "invalid_input", paste("8 NA values, which have", absent, "1."))
  expect_refused(
    double(replace(missing, 8, 1e12)), "invalid_input", "1 value that i32 cannot hold; the first is element 8."
  )
  expect_refused(double(missing * 1i), "unsupported_dtype", "Argument 1 (`x`): Unsupported type: i32 for complex data.")
  expect_refused(double("a"), "invalid_type", "Argument 1 (`x`) must be a `PJRTBuffer` or an R array of numbers")
})

test_that("arrays that do not fit an input or output are refused", {
  executable <- step("gspmd.mlir")
  expect_refused(
    pjrt_shard(x[1:6, ], executable = executable, input = 1L), "shape_mismatch",
    "`x` has the shape [6x4], but the whole array of input 1 (`%arg0`) has the shape [8x4]."
  )
  expect_refused(
    pjrt_shard(pjrt_buffer(x, "f64"), executable = executable, input = 1L), "dtype_mismatch", "of type f64, but input 1"
  )
  expect_refused(
    pjrt_shard(pjrt_buffer(b), executable = executable, input = 1L), "shape_mismatch",
    "[6], but the whole array of input 1"
  )
  for (bad in list(0, 4, 1.5, NA, "arg7", character(), list(1), TRUE)) {
    expect_refused(
      pjrt_shard(x, executable = executable, input = bad), "invalid_input",
      "`input` must be a number or name of the program's 3 inputs"
    )
  }
  expect_refused(
    pjrt_shard(x, four, input = 1L), "invalid_input", "`input` needs `executable`"
  )
  expect_refused(pjrt_shard(list(1), executable = executable, input = 1L), "invalid_input", "`x` must be an R vector")
  expect_refused(
    pjrt_shard(pjrt_buffer(x), executable = executable, input = 1L, dtype = "f32"), "invalid_input", "keep their type"
  )
  expect_refused(pjrt_shard(x, executable = executable, tensor = "w"), "invalid_input", "`tensor` needs `input`")
  expect_refused(
    pjrt_shard(x, executable = executable, input = 1L, tensor = "w"), "invalid_input", "pjrt_open_safetensors()"
  )
  error <- expect_refused(pjrt_shard(x, executable = executable, input = 9L), "invalid_input")
  expect_identical(error$call[[1L]], quote(pjrt_shard))

  path <- withr::local_tempfile(fileext = ".safetensors")
  pjrt_save_safetensors(list(w = pjrt_buffer(x), i = pjrt_buffer(matrix(1:32, 8))), path)
  model <- pjrt_open_safetensors(path)
  expect_refused(
    pjrt_shard(model, executable = executable, input = 1L), "invalid_input", "select one of its tensors with `tensor`"
  )
  expect_refused(
    pjrt_shard(model, executable = executable, input = 1L, tensor = "v"), "invalid_input", "There is no tensor \"v\""
  )
  expect_refused(
    pjrt_shard(model, executable = executable, input = 1L, tensor = 1:2), "invalid_input",
    "must select one tensor, not 2"
  )
  expect_refused(
    pjrt_shard(model, executable = executable, input = 1L, tensor = "i"), "dtype_mismatch", "of type i32, but input 1"
  )
  expect_refused(
    pjrt_shard(model, executable = executable, input = 3L, tensor = "w"), "shape_mismatch",
    "[8x4], but the whole array of input 3"
  )
  close(model)
  expect_refused(pjrt_shard(model, executable = executable, input = 1L, tensor = "w"), "invalid_input", "closed")

  out <- pjrt_execute_sharded(executable, inputs_of(executable, x, w, b))
  for (bad in list(0, 3, "1", NA)) {
    expect_refused(
      pjrt_unshard(out, executable = executable, output = bad), "invalid_input", "`output` must be a number from 1 to 2"
    )
  }
  expect_refused(
    pjrt_unshard(out[1:3], executable = executable), "invalid_input",
    "a list of length 4, with an element for each device"
  )
  expect_refused(pjrt_unshard(rep(list(1), 4), executable = executable), "invalid_input", "element 1 is 1")
  parts <- lapply(out, `[[`, 2L)
  expect_refused(
    pjrt_unshard(parts, executable = executable), "shape_mismatch", "[4], but a part of output 1 has [4x3]"
  )
  expect_refused(pjrt_unshard(out, output = 1L), "invalid_input", "`output` needs `executable`")
  expect_refused(pjrt_unshard(out, executable = 1), "invalid_input", "`executable` must be a `PJRTLoadedExecutable`")
})

test_that("inputs are found by every spelling of their names", {
  path <- system.file("exported", "network.jaxexport", package = "pjrt")
  executable <- pjrt_compile(pjrt_load_exported(path))
  w <- matrix(1:32 + 0, 4)
  for (name in c("params['hidden']['w']", "params$hidden$w", "params/hidden/w", "params.hidden.w")) {
    expect_identical(as_array(pjrt_shard(w, executable = executable, input = name)[[1L]]), w)
  }
  for (bad in c("params$hidden", "w", "", "params$hidden$v")) {
    expect_refused(
      pjrt_shard(w, executable = executable, input = bad), "invalid_input",
      "`input` must be a number or name of the program's 5 inputs"
    )
  }
})
