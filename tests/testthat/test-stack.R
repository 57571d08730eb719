# Packages on top of this one, end to end: nested R lists go through trees, a dispatcher, a program with linear algebra
# and custom calls, and back into nested lists.

# Solves a %*% x = b for a symmetric `a`, by its eigenvalues, which it prints or passes to the handler `seen`.
solving_program <- function(n, prints) {
  see <- if (prints) {
    'stablehlo.custom_call @print_tensor(%w) {
      api_version = 4 : i32, has_side_effect = true, backend_config = {print_header = "eigenvalues", print_footer = ""}
    } : (V) -> ()'
  } else {
    ""
  }
  text <- paste0("func.func @main(%a: M, %b: V) -> (V, V) {
    %v, %w = stablehlo.custom_call @eigh(%a) {
      api_version = 4 : i32, operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
      result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<[0]> : tensor<1xindex>]
    } : (M) -> (M, V)
    ", see, "
    %seen = stablehlo.custom_call @stack_seen(%w) {api_version = 4 : i32} : (V) -> V
    %c = stablehlo.dot_general %v, %b, contracting_dims = [0] x [0] : (M, V) -> V
    %d = stablehlo.divide %c, %seen : V
    %x = stablehlo.dot_general %v, %d, contracting_dims = [1] x [0] : (M, V) -> V
    return %x, %w : V, V
  }")
  gsub("\\bV\\b", sprintf("tensor<%dxf32>", n), gsub("\\bM\\b", sprintf("tensor<%dx%dxf32>", n, n), text))
}

# As jit() of such a package: an R function of nested lists, compiled for each structure, type and static argument.
jit_solve <- function(capacity = 2) {
  log <- new.env()
  log$compiled <- 0L
  made <- dispatcher(
    capacity,
    static = "verbose", default_device = function() pjrt_device("cpu:0"),
    compile = function(info) {
      log$compiled <- log$compiled + 1L
      log$paths <- vapply(seq_along(info$leaves), function(i) tree_path(info$in_tree, i), "")
      verbose <- info$leaves[info$is_static][[1L]]
      n <- info$avals[[1L]]$shape[[1L]]
      aval <- list(dtype = "f32", shape = n, ambiguous = FALSE)
      list(
        exec = pjrt_compile(pjrt_program(solving_program(n, verbose))), client = pjrt_client("cpu"),
        device = pjrt_device("cpu:0"),
        out_tree = build_tree(list(solution = 1, spectrum = list(values = 2))), out_avals = list(aval, aval)
      )
    }
  )
  list(
    run = function(model, verbose) dispatch(made, list(model = model, verbose = verbose)), log = log, dispatcher = made
  )
}

symmetric <- function(n) crossprod(matrix(sin(seq_len(n * n)), n)) + diag(n)
on_device <- function(x) anvl_array(pjrt_buffer(x, "f32"))
expect_near <- function(object, expected) expect_equal(object, expected, tolerance = 1e-4)
values_in <- function(tree) map_tree(tree, function(leaf) as.vector(as_array(leaf$data)))

test_that("a jitted solver on nested lists agrees with R", {
  local_handler("stack_seen", "copies")
  jit <- jit_solve()
  for (n in c(3L, 5L)) {
    a <- symmetric(n)
    b <- cos(seq_len(n))
    model <- list(a = on_device(a), rest = list(b = on_device(b)))
    out <- jit$run(model, FALSE)
    expect_s3_class(out$solution, "AnvlArray")
    expect_near(values_in(out), list(solution = solve(a, b), spectrum = list(values = rev(eigen(a)$values))))
    # the inputs are as before
    expect_identical(as_array(model$a$data), as_array(pjrt_buffer(a)))
    expect_identical(values_in(jit$run(model, FALSE)), values_in(out))
  }
  expect_identical(jit$log$compiled, 2L)
  expect_identical(jit$log$paths, c("model$a", "model$rest$b", "verbose"))
  printed <- utils::capture.output(out <- values_in(jit$run(model, TRUE)))
  expect_identical(printed[[1L]], "eigenvalues")
  expect_near(as.numeric(printed[-1L]), out$spectrum$values)
  expect_identical(dispatcher_size(jit$dispatcher), 2L)
  # the least recently used program was dropped
  model <- list(a = on_device(symmetric(3)), rest = list(b = on_device(1:3)))
  jit$run(model, FALSE)
  expect_identical(jit$log$compiled, 4L)
})

test_that("a jitted solver survives garbage collection, and reports what fails", {
  local_handler("stack_seen", "copies")
  jit <- jit_solve()
  a <- symmetric(4)
  b <- c(1, -1, 2, 0)
  model <- list(a = on_device(a), rest = list(b = on_device(b)))
  jit$run(model, FALSE)
  withr::with_options(list(pjrt.dispatch = "thread"), {
    torture(7)
    outs <- lapply(1:5, function(i) jit$run(model, FALSE))
    torture(0)
  })
  for (out in outs) expect_near(values_in(out)$solution, solve(a, b))
  # a solution is an input again
  again <- jit$run(list(a = model$a, rest = list(b = outs[[1L]]$solution)), FALSE)
  expect_near(values_in(again)$solution, solve(a, solve(a, b)))
  local_handler("stack_seen", "takes_two")
  expect_error(values_in(jit$run(model, FALSE)), class = "pjrt_error")
})
