# Two plugins for the CPU in one session, under two names: the one of the tests, and one that lies around it.

test_that("two plugins for the same devices work side by side", {
  other <- omitting_plugin()
  child <- run_child(quote({
    pjrt_register_plugin("cpu", Sys.getenv("PJRT_REAL_PLUGIN"))
    pjrt_register_plugin("other", Sys.getenv("OTHER_PLUGIN"), list(cpu_device_count = 2L))
    program <- pjrt_program(unary_program("3xf32"))
    x <- pjrt_buffer(c(1, 2, 3), device = "cpu:0")
    y <- copy_buffer(x, "other:1")
    print(c(platform(x), platform(y), as.character(length(devices("other")))))
    print(as_array(pjrt_execute(pjrt_compile(program, device = "other:1"), y)))
    print(as_array(copy_buffer(y + 1, "cpu:0") * x))
    error <- tryCatch(pjrt_execute(pjrt_compile(program, device = "cpu:0"), copy_buffer(x, "other:0")), error = identity)
    cat(class(error)[[1L]], "\n")
    message <- conditionMessage(error)
    named <- paste0("of plugin '", normalizePath(Sys.getenv(c("PJRT_REAL_PLUGIN", "OTHER_PLUGIN"))), "'")
    cat(vapply(named, grepl, NA, message, fixed = TRUE), "\n")
    print(pjrt_plugins()$platform[pjrt_plugins()$loaded])
    close(pjrt_client("other"))
    print(as_array(x))
  }), c(PJRT_PLUGIN_PATH_CPU = NA, PJRT_CACHE = "0", OTHER_PLUGIN = other[["PJRT_PLUGIN_PATH_CPU"]], PJRT_REAL_PLUGIN = real_plugin()))
  expect_clean(child, c(
    "[1] \"cpu\" \"cpu\" \"2\"  ", "[1] 2 4 6", "[1]  2  6 12", "pjrt_error_device_mismatch ", "TRUE TRUE ",
    "[1] \"cpu\"   \"other\"", "[1] 1 2 3"
  ))
})
