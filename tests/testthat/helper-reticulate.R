# Environment variables with which reticulate uses a Python that has these modules; skips the test if there is none.
# PJRT_TEST_TORCH_PYTHON names one with PyTorch, if there is one.
reticulate_env <- function(modules = "numpy") {
  testthat::skip_if_not_installed("reticulate")
  python <- if ("torch" %in% modules) Sys.getenv("PJRT_TEST_TORCH_PYTHON") else test_python()
  testthat::skip_if(!nzchar(python), "PJRT_TEST_TORCH_PYTHON names no Python")
  modules <- paste(modules, collapse = " ")
  import <- sprintf("import importlib.util\nassert all(map(importlib.util.find_spec, '%s'.split()))\n", modules)
  tell <- "import os, sys\nprint(sys.executable)\nprint(os.environ.get('PYTHONPATH', ''))"
  run <- processx::run(python, c("-c", paste0(import, tell)), error_on_status = FALSE)
  testthat::skip_if(run$status != 0L, paste("Python lacks one of", modules))
  lines <- strsplit(run$stdout, "\n", fixed = TRUE)[[1L]]
  c(
    RETICULATE_PYTHON = lines[[1L]], PYTHONPATH = if (length(lines) > 1L) lines[[2L]] else "", JAX_PLATFORMS = "cpu",
    CUDA_VISIBLE_DEVICES = "", PYTHONWARNINGS = "ignore", lone_session()
  )
}

# Runs a list of quoted code in one child that has reticulate. Returns what came of each: "done", the message of an
# error, or nothing if the session ended before. The status of the session is an attribute.
python_results <- function(parts, env) {
  run <- lapply(names(parts), function(name) bquote({
    said <- tryCatch(
      {
        .(parts[[name]])
        "done"
      },
      error = conditionMessage
    )
    cat(.(name), ": ", gsub("\n", " ", said), "\n", sep = "")
    rm(list = setdiff(ls(), first))
  }))
  code <- as.call(c(quote(`{`), quote(library(reticulate)), quote(first <- c(ls(), "first")), run))
  child <- run_child(code, env, helpers = c("programs", "dlpack"))
  results <- lapply(names(parts), function(name) {
    prefix <- paste0(name, ": ")
    substring(child$out[startsWith(child$out, prefix)], nchar(prefix) + 1L)
  })
  structure(stats::setNames(results, names(parts)), status = child$status, err = child$err)
}

# Runs `code` in a child that has reticulate, and expects that it prints "done" and ends well.
expect_python <- function(code, env) {
  code <- bquote({
    library(reticulate)
    .(code)
    cat("done\n")
  })
  child <- run_child(code, env, helpers = c("programs", "dlpack"))
  testthat::expect_identical(child$status, 0L, info = paste(child$err, collapse = "\n"))
  testthat::expect_identical(child$out, "done", info = paste(child$err, collapse = "\n"))
}
