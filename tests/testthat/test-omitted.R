# Plugins that lack functions which others have: the CPU plugin without them.
# Slow: compiles a library and starts sessions.

test_that("arrays, programs and operators work with a plugin that has only the functions they need", {
  child <- run_child(quote({
    x <- pjrt_buffer(matrix(c(1, 2, 3, 4, 5, 6), 2))
    f <- pjrt_compile(pjrt_program(unary_program("2x3xf32")))
    y <- pjrt_execute(f, x)
    print(y)
    print(y[1, ])
    print(as_array(x * 2 + y))
    print(value(as_array_async(y)))
    invisible(capture.output(print(f), print(executable_info(f)), print(pjrt_client("cpu")), print(device(y))))
    str(executable_info(f)$cost)
    cat(class(tryCatch(executable_cost(f), error = identity))[[1L]], "\n")
    cat(class(tryCatch(inspect_hlo(f)$after_optimizations, error = identity))[[1L]], "\n")
    pjrt_delete(y)
    print(is_deleted(y))
  }), c(omitting_plugin(keep = needed_functions), PJRT_CPU_DEVICE_COUNT = "1", PJRT_CACHE = "0"))
  expect_clean(child)
  expect_snapshot(writeLines(child$out))
})

test_that("an operator names the function that it cannot do without", {
  child <- run_child(quote({
    error <- tryCatch(as_array(pjrt_buffer(c(1, 2)) + 1), error = identity)
    cat(class(error)[[1L]], error$call_name, "\n")
  }), c(omitting_plugin(omit = "PJRT_LoadedExecutable_Execute"), PJRT_CACHE = "0"))
  expect_clean(child, "pjrt_error_unsupported_call PJRT_LoadedExecutable_Execute ")
})
