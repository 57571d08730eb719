# Ctrl-C in a terminal and other ways to interrupt R.
# Slow: starts many sessions and waits in them.

test_that("Ctrl-C in a terminal ends every wait and leaves everything usable", {
  terminal <- local_waiting_terminal(PORT = local_slow_server())
  # tools/interrupts.R tries all
  for (name in times(names(waits)[c(TRUE, FALSE)], names(waits))) {
    terminal$type(sprintf("begin(waits[['%s']])", name))
    expect_shows(terminal, "beginning", info = name)
    Sys.sleep(0.15)
    if (match(name, names(waits)) %% 4 == 1) terminal$press_ctrl_c() else terminal$interrupt()
    expect_shows(terminal, "ready> ", info = name)
    terminal$type("check()")
    expect_shows(terminal, "usable 42 FALSE FALSE", info = name)
    expect_shows(terminal, "ready> ")
  }
  # the file is complete or does not exist
  terminal$type(
    "cat('saved', !file.exists(saved) || identical(as_array(pjrt_load_safetensors(saved)$x), as_array(large)), '\\n')"
  )
  expect_shows(terminal, "saved TRUE")
  terminal$type("cat('files', setdiff(list.files(dirname(saved), 'safetensors'), basename(c(model, saved))), '\\n')")
  expect_shows(terminal, "files  ?\\r")
  terminal$type("class(value(compiling))")
  expect_shows(terminal, "PJRTLoadedExecutable", 120)
  expect_no_match(terminal$all(), "not reached|Error|Warning")
})

test_that("Ctrl-C in a terminal ends our waits like R's own", {
  terminal <- local_waiting_terminal()
  around <- list(
    "tryCatch" = c(
      "tryCatch(go(), interrupt = function(e) cat('caught', class(e), '\\n'))", "caught interrupt condition"
    ),
    "calling handler" = c("withCallingHandlers(go(), interrupt = function(e) cat('see', 'n\\n'))", "see n"),
    "list" = c("tryCatch(go(list(endless, endless)), interrupt = function(e) cat('list', 'ended\\n'))", "list ended"),
    "resume" = c(
      "withCallingHandlers(go(finite), interrupt = function(e) tryInvokeRestart('resume')); cat('go', 'ne on\\n')",
      "go ne on"
    ),
    "finally" = c("tryCatch(go(), finally = cat('final', 'ly\\n'))", "final ly"),
    "try" = c("try(go())", ""),
    "suppressed messages" = c("suppressMessages(go())", ""),
    # knitr opens a graphics device, and every R has pdf()
    "knitr" = c("knitr::knit(text = c('```{r, dev = \"pdf\"}', 'go()', '```'), quiet = TRUE)", ""),
    "source" = c("source(textConnection('go()'))", ""),
    "prompt" = c("cat('go', 'ing\\n', sep = '', file = stderr())", "")
  )
  terminal$type("go <- function(x = endless) { cat('go', 'ing\\n', sep = '', file = stderr()); await(x) }")
  terminal$type("finite <- pjrt_execute(compile(loop_program(3e7)), pjrt_scalar(1, 'f64'))")
  for (name in names(around)) {
    terminal$type(around[[name]][[1L]])
    expect_shows(terminal, "going", info = name)
    Sys.sleep(0.15)
    terminal$press_ctrl_c()
    expect_shows(terminal, paste0(around[[name]][[2L]], "[^!]*ready> "), info = name)
    terminal$type("check()")
    expect_shows(terminal, "usable 42 FALSE FALSE", info = name)
    expect_shows(terminal, "ready> ")
  }
  # in the browser, the wait ends at the browser's prompt
  terminal$type("local({ browser(); 1 })")
  expect_shows(terminal, "Browse.*> ")
  terminal$type("go()")
  expect_shows(terminal, "going")
  terminal$press_ctrl_c()
  expect_shows(terminal, "Browse.*> ")
  terminal$type("Q")
  expect_shows(terminal, "ready> ")
  expect_no_match(terminal$all(), "Error|Warning")
})

test_that("an interrupted script ends the same way as in R's own waits", {
  # the exit status and the output after "waiting"
  ends <- function(program, arguments) {
    env <- waiting_env(R_LIBS = paste(.libPaths(), collapse = .Platform$path.sep), R_TESTS = "")
    child <- withr::with_envvar(env, processx::process$new(program, arguments, stdout = "|", stderr = "|"))
    withr::defer(child$kill())
    next_line <- line_reader(child)
    while (child$is_alive() && !identical(next_line(), "waiting")) {}
    Sys.sleep(0.1)
    child$interrupt()
    child$wait(60000)
    # reading the output of a running process would block
    if (child$is_alive()) return("goes on")
    list(child$get_exit_status(), child$read_all_output(), child$read_all_error())
  }
  waiting <- withr::local_tempfile(
    fileext = ".R", lines = c("cat('waiting\\n')", "Sys.sleep(100)", "cat('not reached\\n')")
  )
  for (how in list(c("R", "--vanilla", "--no-echo", "-f"), c("Rscript", "--vanilla"))) {
    program <- file.path(R.home("bin"), how[[1L]])
    as_r_does <- ends(program, c(how[-1L], waiting))
    expect_identical(as_r_does[[1L]], 1L)
    for (wait in list(quote(await(endless)), quote(pjrt_compile(long)))) {
      script <- waiting_script(quote(cat("waiting\n")), wait, quote(cat("not reached\n")))
      expect_identical(ends(program, c(how[-1L], script)), as_r_does)
    }
  }
})

test_that("setTimeLimit() ends a wait with R's own error", {
  child <- run_child(quote({
    loop <- compile(loop_program(2e7))
    long <- pjrt_program(chain_program(6000))
    ends <- function(begun, wait) {
      # only the wait is limited
      force(begun)
      error <- tryCatch(
        {
          setTimeLimit(elapsed = 0.1)
          wait(begun)
        },
        error = identity, interrupt = function(e) stop("no interrupt")
      )
      setTimeLimit()
      cat(conditionMessage(error), "\n")
      begun
    }
    y <- ends(pjrt_execute(loop, pjrt_scalar(1, "f64")), await)
    promise <- ends(pjrt_compile_async(long), value)
    cat(as_array(y), class(value(promise)), "\n")
  }))
  expect_clean(child, c(rep("reached elapsed time limit ", 2), "2 PJRTLoadedExecutable "))
})
