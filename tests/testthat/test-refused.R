# Programs that would hang, or return what is not theirs, are refused when they are compiled.

old <- options(pjrt.cache = FALSE)

both <- function(code) {
  code <- substitute(code)
  for (place in c("apart", "inside")) {
    withr::with_options(list(pjrt.compile = place), eval(code, parent.frame()))
  }
}

test_that("queues between program and host are refused", {
  programs <- c(
    infeed = 'func.func @main() -> tensor<3xf32> {
      %t = stablehlo.create_token : !stablehlo.token
      %r:2 = "stablehlo.infeed"(%t) {infeed_config = "", layout = [[0]]} : (!stablehlo.token) -> (tensor<3xf32>,
        !stablehlo.token)
      return %r#0 : tensor<3xf32>
    }',
    outfeed = 'func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %t = stablehlo.create_token : !stablehlo.token
      %u = "stablehlo.outfeed"(%x, %t) {outfeed_config = ""} : (tensor<3xf32>, !stablehlo.token) -> !stablehlo.token
      return %x : tensor<3xf32>
    }'
  )
  both(for (name in names(programs)) {
    error <- expect_error(compile(programs[[name]]), class = "pjrt_error_unsupported_program")
    expect_match(conditionMessage(error), sprintf("an operation `%s`", name), fixed = TRUE)
  })
})

# Programs whose collective operations need two devices.
collectives <- function() {
  of <- function(operation, attributes, out = "tensor<4xf32>", region = "") {
    sprintf('func.func @main(%%x: tensor<4xf32>) -> %s {
      %%0 = "stablehlo.%s"(%%x) %s {%s} : (tensor<4xf32>) -> %s
      return %%0 : %s
    }', out, operation, region, attributes, out, out)
  }
  groups <- "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
  sums <- "({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    })"
  c(
    of("collective_permute", "source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>"),
    of("all_reduce", groups, region = sums),
    of("all_gather", paste0("all_gather_dim = 0 : i64, ", groups), out = "tensor<8xf32>"),
    of("reduce_scatter", paste0("scatter_dimension = 0 : i64, ", groups), out = "tensor<2xf32>", region = sums),
    of("all_to_all", paste0("split_dimension = 0 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, ", groups))
  )
}

test_that("collective operations between more devices than there are are refused", {
  for (text in collectives()) {
    error <- expect_error(compile(text), class = "pjrt_error_invalid_input")
    expect_match(conditionMessage(error), "need 2 devices, but it is compiled for 1: `num_replicas` is 1", fixed = TRUE)
  }
})

test_that("collective operations between as many devices as there are compile", {
  client <- pjrt:::new_client(pjrt_plugin("cpu"), list(cpu_device_count = 2L))
  withr::defer(close(client))
  options <- pjrt_compile_options(num_replicas = 2L)
  both(for (text in collectives()) {
    expect_s3_class(pjrt_compile(pjrt_program(text), options, devices = devices(client)), "PJRTLoadedExecutable")
  })
})

test_that("results of bounded size are refused", {
  text <- 'func.func @main(%x: tensor<4xf32>, %n: tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>> {
    %0 = "stablehlo.set_dimension_size"(%x, %n) {dimension = 0 : i64}
      : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
    return %0 : tensor<?xf32, #stablehlo.bounds<4>>
  }'
  both(expect_error(compile(text), class = "pjrt_error_dynamic_shape"))
})

test_that("arrays of impossible sizes are refused, and the session goes on", {
  x <- pjrt_buffer(c(1, 2))
  sizes <- c("4294967296x4294967296", "0x4294967296x4294967296", "1152921504606846976x16", "99999999999999999999")
  for (size in sizes[1:3]) {
    error <- expect_error(pjrt_program(identity_program(paste0(size, "xf32"))), class = "pjrt_error_invalid_input")
    expect_match(conditionMessage(error), "which no memory can hold")
  }
  # in an operation, an attribute and a type alias, too
  expect_error(pjrt_program(
    "func.func @main() { %0 = stablehlo.iota dim = 0 : tensor<4294967296x4294967296xf32> return }"))
  expect_error(pjrt_program("!t = tensor<4294967296x4294967296xf32>\nfunc.func @main() { return }"))
  expect_s3_class(pjrt_program(identity_program("1000000x1000000xf32")), "PJRTProgram")
  expect_identical(as_array(x), array(c(1, 2)))
})

# The messages of a condition and of those that caused it.
messages <- function(error) {
  c(conditionMessage(error), if (!is.null(error$parent)) messages(error$parent))
}

test_that("programs and R functions nest to a limit", {
  recursive <- function(x) {
    depth <<- depth + 1L
    as_array(pjrt_execute(nested, pjrt_scalar(x)))
  }
  depth <- 0L
  local_r_call("refused_recursive", recursive)
  nested <- compile('func.func @main(%x: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.custom_call @refused_recursive(%x) {api_version = 4 : i32,
      has_side_effect = true} : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }')
  error <- within_seconds(expect_error(as_array(pjrt_execute(nested, pjrt_scalar(1))), class = "pjrt_error"), 120)
  expect_match(paste(messages(error), collapse = "\n"), "levels deep, which is the limit")
  # hints are not repeated by the errors of all levels
  expect_length(gregexpr("Let the function return", conditionMessage(error))[[1L]], 1L)
  expect_length(gregexpr("The error's `parent` is", conditionMessage(error))[[1L]], 1L)
  expect_identical(depth, 16L)
  expect_identical(as_array(pjrt_execute(compile(unary_program("f32")), pjrt_scalar(2))), 4)
})

test_that("a user who may have few threads gets an error", {
  skip_if_not(can_switch_user(), "needs another user")
  folder <- shared_folder()
  plugin <- file.path(folder, "plugin.so")
  file.copy(real_plugin(), plugin)
  Sys.chmod(plugin, "0755", use_umask = FALSE)
  for (threads in c(3L, 6L, 10L)) {
    child <- as_other_user(quote({
      text <- "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
      run <- function() as_array(pjrt_execute(pjrt_compile(pjrt_program(text)), pjrt_buffer(c(1, 2))))
      said <- tryCatch(run(), pjrt_error = function(e) paste(class(e)[[1L]], grepl("ulimit -u", conditionMessage(e))))
      cat(said, "\n")
    }), c(PJRT_PLUGIN_PATH_CPU = plugin), folder, threads)
    expect_identical(child$status, 0L)
    expect_match(child$out, "^(1 2|pjrt_error_resource_exhausted TRUE) $", label = threads)
  }
})

# the same session may run other files
options(old)
