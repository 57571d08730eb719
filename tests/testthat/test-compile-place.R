# Compilers in processes of their own: a crash ends them, not the session.
# Slow: each compiler is a process.

skip_on_os("windows")
old <- options(pjrt.cache = FALSE, pjrt.compile = "apart")

# Programs that crash XLA's compiler for CPUs.
crashing <- list(
  SIGFPE = "module @division {
  func.func @main() -> tensor<i32> {
    %a = stablehlo.constant dense<1> : tensor<i32>
    %b = stablehlo.constant dense<0> : tensor<i32>
    %y = stablehlo.divide %a, %b : tensor<i32>
    return %y : tensor<i32>
  }
}",
  SIGSEGV = "module @conversion {
  func.func @main() -> tensor<2xi8> {
    %a = stablehlo.constant dense<(1.0, 2.0)> : tensor<2xcomplex<f32>>
    %y = stablehlo.convert %a : (tensor<2xcomplex<f32>>) -> tensor<2xi8>
    return %y : tensor<2xi8>
  }
}"
)
# newer compilers compute it
if (plugin_api(115)) crashing$SIGFPE <- NULL

# The processes of this session's compilers.
helpers <- function(of = Sys.getpid()) {
  stats <- Sys.glob("/proc/[0-9]*/stat")
  # processes end meanwhile
  read <- function(file) c(tryCatch(suppressWarnings(readLines(file, n = 1L)), error = function(e) NULL), "")[[1L]]
  lines <- vapply(stats, read, "", USE.NAMES = FALSE)
  pattern <- sprintf("^([0-9]+) \\(pjrt-compiler\\) [^Z] %d .*", of)
  as.integer(sub(pattern, "\\1", grep(pattern, lines, value = TRUE)))
}

# Ends the idle processes of all of this session's clients, including the clients of earlier tests.
end_helpers <- function() {
  tools::pskill(helpers(), tools::SIGKILL)
  expect_true(comes_true(function() length(helpers()) == 0L))
}

skip_without_proc <- function() skip_if_not(file.exists("/proc/self/stat"), "the system has no /proc")

# Evaluates code until a time limit, which R treats as an interrupt.
with_limit <- function(code, seconds = 0.5) {
  setTimeLimit(elapsed = seconds)
  on.exit(setTimeLimit(elapsed = Inf))
  code
}

test_that("a program that crashes the compiler raises an error, and everything else goes on", {
  kept <- pjrt_buffer(c(1, 2, 3))
  double <- compile(unary_program("3xf32"))
  for (signal in names(crashing)) {
    error <- expect_error(pjrt_compile(pjrt_program(crashing[[signal]])), class = "pjrt_error_compiler_crashed")
    expect_match(conditionMessage(error), signal, fixed = TRUE)
    expect_match(conditionMessage(error), "^Program `[a-z]+`: The compiler crashed")
    expect_match(conditionMessage(error), "writeLines(as.character(program)", fixed = TRUE)
    promise <- pjrt_compile_async(pjrt_program(crashing[[signal]]))
    for (i in 1:2) expect_error(value(promise), class = "pjrt_error_compiler_crashed")
    expect_identical(as_array(pjrt_execute(compile(unary_program("3xf32", "multiply")), kept)), array(c(1, 4, 9)))
    expect_identical(as_array(pjrt_execute(double, kept)), array(c(2, 4, 6)))
  }
})

test_that("executables are the same as from a compiler inside", {
  programs <- list(
    plain = pjrt_program(add_program("2x3xf32")), donating = pjrt_program(add_program("2x3xf32", donates)),
    step = pjrt_program(path = fixture("mlp-step.mlir")), loop = pjrt_program(loop_program(10))
  )
  described <- function(executable) {
    info <- executable_info(executable)
    info$origin <- info$origin$origin
    list(unclass(info), format(executable))
  }
  in_place <- function(place, program) {
    withr::local_options(pjrt.compile = place)
    described(pjrt_compile(program))
  }
  for (name in names(programs)) {
    expect_identical(in_place("apart", programs[[name]]), in_place("inside", programs[[name]]), label = name)
  }
})

test_that("limits of memory and time raise an error, and hold for later programs too", {
  skip_if_not(file.exists("/proc/self/statm"), "the system does not tell the memory of a process")
  long <- pjrt_program(chain_program(8000))
  withr::with_options(list(pjrt.compile_timeout = 0.1), {
    expect_error(pjrt_compile(long), "longer than 0.1 seconds", class = "pjrt_error_deadline_exceeded")
  })
  withr::with_options(list(pjrt.compile_memory = "20MB"), {
    expect_error(pjrt_compile(long), "more than 20000000 bytes", class = "pjrt_error_resource_exhausted")
  })
  withr::with_options(list(pjrt.compile_memory = "50GB", pjrt.compile_timeout = 600), {
    expect_s3_class(compile(unary_program("4xf32")), "PJRTLoadedExecutable")
  })
})

test_that("the options are checked", {
  small <- pjrt_program(unary_program("f32"))
  refused <- function(...) {
    withr::local_options(...)
    expect_error(pjrt_compile(small), class = "pjrt_error_invalid_type")
  }
  expect_snapshot(for (value in list("elsewhere", NA, 1, c("apart", "inside"))) print(refused(pjrt.compile = value)))
  expect_snapshot(for (value in list(-1, "much", NA_real_)) print(refused(pjrt.compile_memory = value)))
  expect_snapshot(for (value in list(0, "1", c(1, 2), NA_real_)) print(refused(pjrt.compile_timeout = value)))
  refused(pjrt.compile_timeout = bit64::as.integer64(-1))
  withr::local_options(pjrt.compile_timeout = bit64::as.integer64(60))
  expect_identical(as_array(pjrt_execute(pjrt_compile(small), pjrt_scalar(2))), 4)
})

test_that("a session is warned once that limits have no effect in its own process", {
  child <- run_child(quote({
    options(pjrt.compile = "inside", pjrt.compile_memory = "8GB", pjrt.cache = FALSE)
    warned <- function() tryCatch(pjrt_compile(pjrt_program(unary_program("f32"))), pjrt_warning = conditionMessage)
    cat(warned(), "\n")
    cat(class(warned()), "\n")
    options(pjrt.compile_memory = "much")
    cat(tryCatch(warned(), pjrt_error_invalid_type = function(e) "refused"), "\n")
  }), env = c(PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_DISCOVER = "0"))
  expect_clean(child)
  expect_match(child$out[[1L]], "compile in R's process, where `options(pjrt.compile_memory", fixed = TRUE)
  expect_identical(child$out[-(1:2)], c("PJRTLoadedExecutable ", "refused "))
})

test_that("an interrupted or forgotten compile ends its process at once", {
  skip_without_proc()
  end_helpers()
  long <- pjrt_program(chain_program(20000))
  compile(unary_program("f32"))
  expect_length(helpers(), 1L)
  expect_error(with_limit(pjrt_compile(long)), "reached elapsed time limit")
  expect_true(comes_true(function() length(helpers()) == 0L, 2))
  promise <- pjrt_compile_async(long)
  expect_true(comes_true(function() length(helpers()) == 1L))
  rm(promise)
  gc()
  expect_true(comes_true(function() length(helpers()) == 0L, 2))
  expect_s3_class(compile(unary_program("f32")), "PJRTLoadedExecutable")
})

test_that("several programs compile at the same time, and one process stays", {
  skip_without_proc()
  end_helpers()
  most <- 0L
  promises <- lapply(1:3, function(i) pjrt_compile_async(pjrt_program(chain_program(3000L + i))))
  while (!all(vapply(promises, is_ready, NA))) most <- max(most, length(helpers()))
  expect_identical(most, min(3L, as.integer(pjrt:::system_facts()[["processors"]])))
  lapply(promises, await)
  expect_true(comes_true(function() length(helpers()) == 1L))
})

test_that("a process that ends before it reads a program is replaced", {
  skip_without_proc()
  compile(unary_program("f32"))
  idle <- helpers()
  tools::pskill(idle, tools::SIGSTOP)
  # one that is not stopped yet may still read
  expect_true(comes_true(function() grepl(") T ", readLines(sprintf("/proc/%d/stat", idle)), fixed = TRUE)))
  promise <- pjrt_compile_async(pjrt_program(unary_program("3xf32")))
  expect_false(comes_true(function() is_ready(promise), 0.3))
  tools::pskill(idle, tools::SIGKILL)
  expect_s3_class(value(promise), "PJRTLoadedExecutable")
})

test_that("the process ends with the session, even if it is killed while the compiler works", {
  skip_without_proc()
  child <- start_child(quote({
    options(pjrt.cache = FALSE, pjrt.compile = "apart")
    promise <- pjrt_compile_async(pjrt_program(chain_program(30000)))
    Sys.sleep(1)
    cat("started\n")
    Sys.sleep(600)
  }))
  expect_identical(line_reader(child)(), "started")
  found <- NULL
  expect_true(comes_true(function() length(found <<- helpers(child$get_pid())) == 1L))
  child$kill()
  expect_true(comes_true(function() !any(file.exists(sprintf("/proc/%d/exe", found)))))
})

test_that("a session with a compile in progress ends quickly", {
  took <- system.time(child <- run_child(quote({
    options(pjrt.cache = FALSE, pjrt.compile = "apart")
    promise <- pjrt_compile_async(pjrt_program(chain_program(100000)))
    Sys.sleep(0.5)
    cat("end\n")
  })))[["elapsed"]]
  expect_clean(child, "end")
})

test_that("forks leave the process alone", {
  skip_on_os("windows")
  compile(unary_program("f32"))
  before <- helpers()
  promise <- pjrt_compile_async(pjrt_program(chain_program(3000)))
  found <- parallel::mclapply(1:2, function(i) {
    rm(promise, envir = parent.env(environment()))
    gc()
    tryCatch(class(compile(unary_program("i8"))), error = function(e) class(e)[[1L]])
  }, mc.cores = 2L)
  expect_identical(unlist(found), rep("pjrt_error_forked", 2L))
  expect_s3_class(value(promise), "PJRTLoadedExecutable")
  expect_true(all(before %in% helpers()))
})

test_that("the compiler works in the session's folder", {
  folder <- withr::local_tempdir()
  withr::local_dir(folder)
  options <- pjrt_compile_options(debug_options = list(xla_dump_to = "stages", xla_dump_hlo_as_text = TRUE))
  compile(unary_program("2xf32"), compile_options = options)
  expect_gt(length(list.files("stages")), 0L)
})

test_that("a closed client's process ends", {
  skip_without_proc()
  client <- pjrt:::new_client(pjrt_plugin("cpu"))
  before <- helpers()
  pjrt_compile(pjrt_program(unary_program("f32")), device = devices(client)[[1L]])
  expect_length(setdiff(helpers(), before), 1L)
  close(client)
  expect_identical(sort(helpers()), sort(before))
})

test_that("the report says where programs are compiled", {
  pjrt_client("cpu")
  expect_identical(pjrt_sitrep()$compiler[["cpu"]], "in a separate process")
  withr::local_options(pjrt.compile = "inside")
  expect_match(pjrt_sitrep()$compiler[["cpu"]], "in R's process")
})

test_that("a session whose plugin was removed goes on, and compiles in its own process", {
  plugin <- file.path(withr::local_tempdir(), "plugin.so")
  file.copy(real_plugin(), plugin)
  child <- run_child(bquote({
    plugin <- .(plugin)
    options(pjrt.compile = "apart")
    x <- pjrt_buffer(c(1, 2, 3))
    run <- function(operation) {
      as_array(pjrt_execute(pjrt_compile(pjrt_program(unary_program("3xf32", operation))), x))
    }
    run("add")
    before <- pjrt_sitrep()$compiler[["cpu"]]
    unlink(plugin)
    cat(before, pjrt_sitrep()$compiler[["cpu"]], run("multiply"), sep = "\n")
  }), env = c(PJRT_PLUGIN_PATH_CPU = plugin))
  expect_clean(child)
  expect_identical(child$out[[1L]], "in a separate process")
  expect_match(child$out[[2L]], "in R's process")
  expect_identical(as.numeric(child$out[3:5]), c(1, 4, 9))
})

test_that("the helper's program says what it is", {
  path <- system.file("bin", "pjrt-compiler", package = "pjrt")
  said <- suppressWarnings(system2(path, stdout = TRUE, stderr = TRUE, stdin = nullfile()))
  expect_identical(attr(said, "status"), 2L)
  expect_match(said, "to compile in a separate process")
})

# the same session may run other files
options(old)
