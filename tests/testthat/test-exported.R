# Slow: compiles many programs.

# The files are made by src/rust/program/fixtures/exported/make.py, with the numbers that JAX computes.
exported_path <- function(name) fixture(file.path("exported", paste0(name, ".jaxexport")))
load_fixture <- function(name, ...) pjrt_load_exported(exported_path(name), ...)
exported_runs <- function() source(fixture(file.path("exported", "runs.R")), local = TRUE)$value

test_that("exported functions compute what JAX computes", {
  runs <- exported_runs()
  expect_setequal(names(runs), c("simple", "tree", "unused", "donated", "vjp", "vjp-1", "mlp", "mlp-1", "mlp-2"))
  for (name in names(runs)) {
    run <- runs[[name]]
    # the order of the derivative is behind the name
    parts <- strsplit(name, "-", fixed = TRUE)[[1L]]
    exported <- load_fixture(parts[[1L]], vjp = if (length(parts) > 1L) as.numeric(parts[[2L]]) else FALSE)
    for (executable in list(pjrt_compile(exported), value(pjrt_compile_async(exported)))) {
      inputs <- lapply(run$inputs, function(x) pjrt_buffer(x$data, x$dtype, shape = as.integer(x$dim)))
      outputs <- do.call(pjrt_execute, c(executable, inputs, simplify = FALSE))
      expect_length(outputs, length(run$outputs))
      for (i in seq_along(outputs)) {
        expected <- run$outputs[[i]]
        expect_identical(shape(outputs[[i]]), as.integer(expected$dim))
        expect_equal(as.vector(as_array(outputs[[i]])), expected$data, tolerance = 1e-6)
      }
    }
  }
})

test_that("trees, arrays and facts equal the Python function's", {
  x <- load_fixture("tree")
  expect_s3_class(x, "PJRTExported")
  expect_identical(x$name, "layers")
  expect_identical(x$inputs$path, c(
    "args[0]['layers'][0]['b']", "args[0]['layers'][0]['w']", "args[0]['layers'][1]['w']", "args[1]", "kwargs['scale']"
  ))
  expect_identical(x$inputs$dtype, rep("f32", 5))
  expect_identical(x$inputs$shape, list(3L, c(4L, 3L), c(3L, 2L), c(5L, 4L), integer()))
  expect_identical(x$inputs$kept, rep(TRUE, 5))
  expect_identical(x$outputs$path, c("result['hidden'][0]", "result['scores']", "result['sum'][0]"))
  expect_identical(x$input_tree, list(
    args = list(list(layers = list(list(b = 1L, w = 2L), list(w = 3L)), none = NULL), 4L), kwargs = list(scale = 5L)
  ))
  expect_identical(x$output_tree, list(hidden = list(1L, NULL), scores = 2L, sum = list(3L)))
  expect_identical(x$platforms, "cpu")
  expect_identical(x$num_devices, 1)
  expect_true("jax_version" %in% names(x))
  expect_null(x$jax_version)
  expect_false(x$has_vjp)
  expect_true(load_fixture("vjp")$has_vjp)
  expect_s3_class(x$program, "PJRTProgram")
  expect_identical(load_fixture("unused")$inputs$kept, c(TRUE, FALSE, TRUE))
})

test_that("a derivative takes arguments and cotangents, and returns the arguments' cotangents", {
  x <- load_fixture("mlp", vjp = TRUE)
  expect_identical(x$name, "mlp")
  expect_identical(x$order, 1L)
  arguments <- c("params['b1']", "params['w1']", "params['w2']", "x", "labels", "scale")
  expect_identical(x$inputs$name, c(arguments, "cotangents['hits']", "cotangents['loss']"))
  expect_identical(x$inputs$dtype[7:8], c("float0", "f32"))
  expect_identical(x$inputs$kept, rep(c(TRUE, FALSE, TRUE), c(6, 1, 1)))
  expect_identical(x$outputs$name, arguments)
  expect_identical(x$outputs$dtype[[5L]], "float0")
  expect_identical(x$outputs$path, load_fixture("mlp")$inputs$path)
  params <- list(b1 = 1L, w1 = 2L, w2 = 3L)
  expect_identical(x$input_tree, list(
    args = list(params, 4L, 5L), kwargs = list(scale = 6L, cotangents = list(hits = 7L, loss = 8L))
  ))
  expect_identical(x$output_tree, list(args = list(params, 4L, 5L), kwargs = list(scale = 6L)))
  expect_true(x$has_vjp)
  expect_identical(format(load_fixture("mlp", vjp = 1)), format(x))
  second <- load_fixture("mlp", vjp = 2)
  expect_identical(second$outputs$name, x$inputs$name)
  expect_false(second$has_vjp)
  expect_identical(load_fixture("mlp", vjp = FALSE)$order, 0L)
  expect_refused(load_fixture("mlp", vjp = 3), "invalid_input", "serialize(vjp_order=3)")
  expect_refused(load_fixture("simple", vjp = TRUE), "invalid_input", "does not contain the derivative of `square`")
  for (bad in list(NA, "yes", -1, 1.5, 1:2, NULL, 1e6)) {
    expect_refused(load_fixture("mlp", vjp = bad), "invalid_input", "`vjp` must be TRUE, FALSE or the order")
  }
})

test_that("files of older versions of JAX are read, and compute the same", {
  files <- list.files(fixture("exported/versions"), full.names = TRUE)
  # versions 2 to 12 of the format, and no version 7, which JAX took back
  expect_gte(length(files), 10L)
  w <- pjrt_buffer(c(1, 2, 3))
  x <- pjrt_buffer(matrix(1:6, 2), "f32")
  newest <- pjrt_load_exported(fixture("exported/versions/jax-0.12.0.jaxexport"))
  expect_identical(newest$jax_version, "0.12.0")
  for (file in files) {
    for (vjp in c(FALSE, TRUE)) {
      exported <- pjrt_load_exported(file, vjp = vjp)
      cotangent <- if (vjp) "cotangents['loss']"
      expect_identical(exported$inputs$name, c("params['w']", "x", "scale", cotangent), label = basename(file))
      inputs <- list(w, x, pjrt_scalar(2), if (vjp) pjrt_scalar(1))
      out <- do.call(pjrt_execute, c(pjrt_compile(exported), Filter(Negate(is.null), inputs), simplify = FALSE))
      expected <- if (vjp) c(312, 712, 1112) else 2536
      expect_equal(as.vector(as_array(out[[1L]])), expected, label = basename(file))
    }
  }
})

test_that("what a plugin reads and cannot upgrade is rewritten", {
  # JAX 0.4.30: a.at[i].apply(jnp.exp), which XLA's own reader refuses
  run <- pjrt_function(load_fixture("scatter"), as = "array")
  expect_equal(as.vector(run(c(1, 2, 3), c(0L, 2L))), c(exp(1), 2, exp(3)), tolerance = 1e-6)
})

test_that("inputs have the names that the Python function gave them", {
  expect_identical(load_fixture("tree")$inputs$name, c(
    "params['layers'][0]['b']", "params['layers'][0]['w']", "params['layers'][1]['w']", "x", "scale"
  ))
  expect_identical(load_fixture("unused")$inputs$name, c("x", "args[1]", "y"))
  expect_identical(load_fixture("expressions")$inputs$name, c("x", "y", "z"))
  expect_identical(load_fixture("tree")$outputs$name, load_fixture("tree")$outputs$path)
})

test_that("the custom calls of a function and their handlers are listed", {
  expect_identical(
    load_fixture("everywhere")$custom_calls,
    data.frame(target = c("cusolver_potrf_ffi", "lapack_spotrf_ffi"), available = c(FALSE, TRUE))
  )
  expect_identical(load_fixture("simple")$custom_calls, data.frame(target = character(), available = logical()))
  expect_identical(load_fixture("symbolic")$custom_calls$target, character())
})

test_that("a donated argument is taken over", {
  donating <- pjrt_compile(load_fixture("donated"))
  x <- pjrt_buffer(1:4, "f32")
  expect_identical(as_array(pjrt_execute(donating, x, pjrt_buffer(rep(1, 4)))), array(c(2, 3, 4, 5)))
  expect_true(is_deleted(x))
})

test_that("keys are passed as their data", {
  key <- load_fixture("key")
  expect_identical(key$inputs$dtype, "key<fry>")
  out <- pjrt_execute(pjrt_compile(key), pjrt_buffer(c(3, 4), "ui32"))
  expect_equal(as.vector(as_array(out, int64 = "double")), c(3, 4))
})

test_that("a function for two devices runs on both", {
  x <- load_fixture("devices")
  expect_identical(x$num_devices, 2)
  executable <- pjrt_compile(x, devices = c("cpu:0", "cpu:1"))
  data <- matrix(1:12, 4)
  inputs <- lapply(pjrt_shard(data, c("cpu:0", "cpu:1"), dtype = "f32"), list)
  outputs <- pjrt_execute_sharded(executable, inputs)
  expect_equal(pjrt_unshard(outputs), data / 4)
})

test_that("unordered effects do not matter", {
  run <- pjrt_compile(load_fixture("unordered"))
  expect_identical(as_array(pjrt_execute(run, pjrt_buffer(1:3, "f32"))), array(c(2, 3, 4)))
})

test_that("what cannot run here is refused with the remedy", {
  for (compile in list(pjrt_compile, pjrt_compile_async)) {
    refused <- function(name, message) expect_refused(compile(load_fixture(name)), "invalid_input", message)
    refused("tpu", "is for the platform \"tpu\", not for \"cpu\"")
    refused("tpu", "platforms=[\"cpu\"]")
    refused("symbolic", "has symbolic dimensions, whose sizes are not known: b")
    refused("symbolic", "Give the shapes of inputs: shapes = list(x = c(32, 64, 4)).")
    refused("symbolic", "Give the sizes: shapes = list(b = 32).")
    refused("ordered", "has ordered effects, which are not supported: <class '__main__.Ordered'>")
  }
  expect_identical(load_fixture("symbolic")$inputs$shape, list(c("b", "2*b", "4")))
})

test_that("other files are refused with what to write instead", {
  pickle <- fixture("exported/executable.pickle")
  expect_refused(pjrt_load_exported(pickle), "invalid_input", "jax.export.export(jax.jit(f))(*args).serialize()")
  expect_refused(pjrt_load_exported(pickle), "invalid_input", "a Python pickle")
  expect_refused(pjrt_load_exported(fixture("square.artifact")), "invalid_input", "pjrt_program()")
  expect_refused(pjrt_load_exported(charToRaw("module {}")), "invalid_input", "pjrt_program()")
  for (bad in list(raw(), as.raw(rep(255, 100)))) {
    expect_refused(pjrt_load_exported(bad), "invalid_input", "The exported program is damaged")
  }
  for (bad in list(1, NA_character_, NULL, list(), "")) {
    expect_refused(pjrt_load_exported(bad), "invalid_input", "`x` must be")
  }
  expect_refused(pjrt_load_exported(file.path(tempdir(), "none.jaxexport")), "io", "none.jaxexport")
})

test_that("damaged files raise an error or load", {
  content <- readBin(exported_path("simple"), "raw", 1e5)
  outcomes <- vapply(seq_along(content), function(i) {
    content[i] <- xor(content[i], as.raw(0x41))
    tryCatch(class(pjrt_load_exported(content))[[1L]], pjrt_error_invalid_input = function(e) "refused")
  }, "")
  expect_setequal(outcomes, c("PJRTExported", "refused"))
  # a NUL, which ends text in C, in names and other text
  zeros <- vapply(which(content >= 0x20 & content < 0x7f), function(i) {
    content[i] <- as.raw(0)
    tryCatch({
      found <- pjrt_load_exported(content)
      utils::capture.output(print(found), str(found), print(pjrt_function(found)))
      "loads"
    }, pjrt_error = conditionMessage)
  }, "")
  expect_true(any(zeros == "loads"))
  expect_match(zeros, "a text has a NUL character", fixed = TRUE, all = FALSE)
  expect_refused(pjrt_load_exported(content[seq_len(400)]), "invalid_input", "damaged")
  text <- charToRaw(unary_program("f32"))
  error <- expect_refused(pjrt_load_exported(text), "invalid_input", "is the text of a program")
  expect_match(conditionMessage(error), "pjrt_program()", fixed = TRUE)
})

test_that("bytes and files are the same, and pjrt_program() takes the program", {
  path <- exported_path("simple")
  content <- readBin(path, "raw", 1e5)
  expect_identical(format(pjrt_load_exported(content)), format(pjrt_load_exported(path)))
  programs <- list(pjrt_program(content), pjrt_program(path = path), load_fixture("simple")$program)
  expect_length(unique(vapply(programs, format, "")), 1L)
  out <- pjrt_execute(pjrt_compile(programs[[1L]]), pjrt_buffer(matrix(1:6, 2), "f32"))
  expect_identical(as_array(out), matrix((1:6)^2, 2))
})

test_that("pjrt_program() refuses functions whose program alone cannot be compiled", {
  reasons <- c(
    platforms = "is for several platforms", symbolic = "has symbolic dimensions", ordered = "has ordered effects"
  )
  for (name in names(reasons)) {
    expect_refused(pjrt_program(path = exported_path(name)), "invalid_input", reasons[[name]])
    expect_refused(pjrt_program(readBin(exported_path(name), "raw", 1e5)), "invalid_input", "pjrt_load_exported()")
  }
})

test_that("exported functions are immutable, and impostors are refused", {
  x <- load_fixture("simple")
  expect_refused(x$name <- "a", "invalid_input", "immutable")
  expect_refused(x[["name"]] <- "a", "invalid_input", "immutable")
  expect_refused(x["name"] <- "a", "invalid_input", "immutable")
  for (bad in list(list(), 1, "a", function() NULL)) {
    bad <- structure(bad, class = "PJRTExported")
    expect_refused(pjrt_compile(bad), "invalid_pointer", "`program` must be a `PJRTExported`")
    expect_refused(format(bad), "invalid_pointer", "must be a `PJRTExported`")
  }
  expect_refused(pjrt_compile(without_content(x)), "invalid_pointer")
  expect_identical(format(without_content(x)), "<PJRTExported of another session>")
})

test_that("exported functions are read like lists", {
  x <- load_fixture("simple")
  expect_identical(names(x), names(as.list(x)))
  expect_length(x, length(names(x)))
  expect_identical(lapply(x, identity), as.list(x))
  expect_identical(x[["name"]], "square")
  expect_identical(x[[1]], x$name)
  expect_identical(x[c("name", "order")], list(name = "square", order = 0L))
  # as in a list, the beginning of a name is enough, and other names are NULL
  expect_identical(x$plat, "cpu")
  expect_null(x$none)
  expect_null(x[["none"]])
  expect_refused(x[[100]], "invalid_input", "`i` must be the name or the position of an element of `x`, not 100.")
  expect_identical(x$program, x$program)
  expect_identical(as.character(x), as.character(x$program))
  expect_refused(as.character(x, 2), "invalid_input")
  expect_match(utils::capture.output(str(x)), "$ inputs", fixed = TRUE, all = FALSE)
  expect_identical(rownames(summary(x)), names(x))
})

test_that("exported functions are saved with their programs, and models with their weights", {
  x <- pjrt_buffer(matrix(1:6, 2), "f32")
  for (name in c("simple", "vjp", "mlp", "symbolic", "platforms")) {
    exported <- load_fixture(name, vjp = name == "mlp")
    restored <- unserialize(serialize(list(exported, exported), NULL))
    expect_identical(format(restored[[1L]]), format(exported))
    facts <- setdiff(names(exported), "program")
    expect_identical(as.list(restored[[1L]])[facts], as.list(exported)[facts])
    expect_identical(restored[[2L]]$program, restored[[1L]]$program)
    expect_identical(as.character(restored[[1L]]$program), as.character(exported$program))
  }
  restored <- unserialize(serialize(load_fixture("simple"), NULL))
  expect_identical(as_array(pjrt_execute(pjrt_compile(restored), x)), matrix((1:6)^2, 2))
  model <- pjrt_load_exported(system.file("exported", "iris-torch", package = "pjrt"))
  restored <- unserialize(serialize(list(model, model$weights), NULL))
  expect_identical(format(restored[[1L]]), format(model))
  expect_equal(lapply(restored[[1L]]$weights, as_array), lapply(model$weights, as_array))
  # an object that occurs in several places stays one object
  expect_identical(restored[[1L]]$weights, restored[[2L]])
  data <- as.matrix(iris[1:4])
  expect_equal(as_array(pjrt_function(restored[[1L]])(data)), as_array(pjrt_function(model)(data)))
  withr::with_options(list(pjrt.serialize = FALSE), lost <- serialize(model, NULL))
  expect_identical(format(unserialize(lost)), "<PJRTExported of another session>")
  expect_refused(unserialize(lost)$name, "invalid_pointer", "options(pjrt.serialize = FALSE)")
  damaged <- serialize(load_fixture("simple"), NULL)
  at <- length(damaged) %/% 2L
  damaged[at] <- xor(damaged[at], as.raw(1))
  expect_refused(pjrt_compile(unserialize(damaged)), "serialized_invalid")
})

test_that("print() shows what to pass and what comes back", {
  for (name in c("tree", "unused", "platforms", "symbolic", "ordered", "unordered", "devices", "key", "everywhere")) {
    expect_snapshot(load_fixture(name), cran = TRUE)
  }
  expect_snapshot(load_fixture("mlp", vjp = 2), cran = TRUE)
})

test_that("the example is a network of two layers", {
  network <- pjrt_load_exported(system.file("exported", "network.jaxexport", package = "pjrt"))
  arrays <- lapply(network$inputs$shape, function(shape) array(sin(seq_len(prod(shape))), shape))
  names(arrays) <- network$inputs$path
  out <- as_array(do.call(pjrt_execute, c(pjrt_compile(network), unname(lapply(arrays, pjrt_buffer)))))
  p <- unname(arrays)
  hidden <- pmax(sweep(p[[5]] %*% p[[2]], 2, p[[1]], "+"), 0)
  odds <- exp(sweep(hidden %*% p[[4]], 2, p[[3]], "+"))
  expect_equal(out, odds / rowSums(odds), tolerance = 1e-5)
})
