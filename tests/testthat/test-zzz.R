# Slow: starts many sessions.

test_that("loading the package starts no client and no plugin", {
  child <- run_child(quote({
    cat(length(ls(pjrt:::the$clients)), length(ls(pjrt:::the$plugins)), "\n")
  }))
  expect_clean(child, "0 0 ")
})

test_that("objects survive unloading and reloading the package", {
  child <- run_child(quote({
    folder <- find.package("pjrt")
    make <- function() {
      list(
        buffer = pjrt_buffer(c(1, 2)), double = compile(unary_program("2xf32")),
        large = as_array(pjrt_buffer(1:1e6 + 0)),
        raw = as_raw(pjrt_buffer(1:1e6), TRUE),
        pending = as_array_async(pjrt_execute(compile(loop_program(1e6)), pjrt_scalar(1, "f64"))),
        compiling = pjrt_compile_async(pjrt_program(unary_program("f32"))),
        shared = pjrt_buffer(as.double(1:1e6), "f64"),
        device = devices()[[1L]], options = pjrt_execution_options()
      )
    }
    kept <- make()
    for (way in c("unloaded", "taken from memory")) {
      dropped <- make()
      sums <- c(sum(dropped$large), sum(as.integer(dropped$raw)))
      if (way == "unloaded") detach("package:pjrt", unload = TRUE) else unloadNamespace("pjrt")
      if (way == "taken from memory") library.dynam.unload("pjrt", folder)
      # memory allocated by the package is still valid after unloading
      cat("pjrt" %in% loadedNamespaces(), identical(sums, c(sum(dropped$large), sum(as.integer(dropped$raw)))), "")
      rm(dropped)
      gc()
      gc()
      library(pjrt)
      x <- pjrt_execute(compile(unary_program("2xf32")), pjrt_buffer(c(1, 2)))
      cat(as_array(x), as_array(kept$buffer), as_array(pjrt_execute(kept$double, kept$buffer)), value(kept$pending), "")
      cat(
        as_array(pjrt_execute(value(kept$compiling), pjrt_scalar(4, device = kept$device))), sum(as_array(kept$shared)),
        "\n"
      )
    }
    rm(kept)
    gc()
    cat(as_array(pjrt_scalar(3)), "\n")
  }))
  expect_clean(child, c(rep("FALSE TRUE 2 4 1 2 2 4 2 8 500000500000 ", 2), "3 "))
})
