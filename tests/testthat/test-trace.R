# Slow: starts sessions and compiles with records.

# Evaluates lines of code as a script, with source references.
run_script <- function(lines, env = parent.frame()) {
  file <- withr::local_tempfile(fileext = ".R", lines = lines)
  source(file, local = env, keep.source = TRUE)
  basename(file)
}

events_of <- function(trace, kind) {
  events <- as.data.frame(trace)
  events[events$kind == kind, ]
}

test_that("a trace has each step of a computation, with lane, size, program, call and line", {
  withr::local_options(pjrt.dispatch = "inline")
  exe <- compile(unary_program("300x200xf32"))
  here <- as.character(device(pjrt_scalar(1)))
  file <- run_script(c(
    "trace <- pjrt_trace({",
    "  x <- pjrt_buffer(matrix(1, 300, 200), \"f32\")",
    "  y <- pjrt_execute(exe, x)",
    "",
    "  z <- as_array(y)",
    "})"
  ))
  expect_identical(z, matrix(2, 300, 200))
  events <- as.data.frame(trace)
  expect_named(events, c(
    "start", "end", "lane", "kind", "name", "bytes", "dtype", "shape", "program", "call", "line", "file", "outcome"
  ))
  expect_false(is.unsorted(events$start))
  expect_true(all(events$start >= 0 & events$start <= events$end & events$end <= trace$seconds))
  expect_identical(events$name[events$kind == "call"], c("pjrt_buffer", "pjrt_execute", "as_array"))
  # what is done at which line
  expected <- list(call = 2:5, upload = 2L, conversion = 2L, launch = 3L, run = 3L, download = 5L)
  for (kind in names(expected)) {
    found <- events_of(trace, kind)
    expect_true(nrow(found) > 0L && all(found$line %in% expected[[kind]]), label = kind)
    expect_identical(unique(found$file), file)
  }
  arrays <- events[events$kind %in% c("upload", "conversion", "download"), ]
  expect_identical(unique(arrays$dtype), "f32")
  expect_identical(unique(arrays$shape), "[300x200]")
  expect_identical(unique(arrays$bytes), 240000)
  expect_identical(events_of(trace, "upload")$outcome, "converted")
  run <- events_of(trace, "run")
  expect_identical(run$program, "main")
  expect_identical(trace$devices, run$lane)
  expect_identical(unique(events$lane[events$kind != "run"]), "R")
  expect_identical(events_of(trace, "download")$call, "as_array(y)")
  # events of one thread lie beside or inside each other
  r <- events[events$lane == "R", ]
  inside <- outer(r$start, r$start, ">") & outer(r$start, r$end, "<")
  expect_true(all(outer(r$end, r$end, "<=")[inside]))
})

test_that("launches on a dispatch thread keep the line that asked for them, and R's wait lasts as long as the run", {
  withr::local_options(pjrt.dispatch = "thread")
  exe <- compile(loop_program(3e7))
  x <- pjrt_scalar(1, "f64")
  run_script(c("trace <- pjrt_trace({", "  y <- pjrt_execute(exe, x)", "  await(y)", "})"))
  launch <- events_of(trace, "launch")
  expect_identical(launch$lane, "dispatch 0")
  expect_identical(launch$line, 2L)
  run <- events_of(trace, "run")
  wait <- events_of(trace, "wait")
  wait <- wait[wait$lane == "R", ]
  expect_identical(wait$line, 3L)
  length <- run$end - run$start
  expect_gt(length, 0.01)
  expect_equal(wait$end - wait$start, length, tolerance = 0.3)
  expect_identical(trace$lanes, c("R", "dispatch 0", run$lane))
})

test_that("compilations have phases, and say where the program came from", {
  env <- c(PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_CACHE_DIR = withr::local_tempdir(), PJRT_CACHE = "1")
  child <- run_child(env = env, quote({
    text <- unary_program("3xf32")
    devices("cpu")
    outcome <- function(expr) {
      trace <- as.data.frame(pjrt_trace(expr))
      phases <- trace$name[trace$kind == "phase"]
      cat(trace$outcome[trace$kind == "compile"], ": ", paste(phases, collapse = ", "), "\n", sep = "")
    }
    outcome(exe <- compile(text))
    outcome(same <- compile(text))
    rm(exe, same)
    invisible(list(gc(), gc()))
    outcome(exe <- compile(text))
    options(pjrt.cache = FALSE)
    outcome(await(pjrt_compile_async(pjrt_program(text))))
    outcome(try(compile("func.func @main() -> tensor<f32> { %x = stablehlo.nothing : tensor<f32> }"), silent = TRUE))
  }))
  phases <- "check the program, compiler, describe the executable"
  expect_clean(child, c(
    paste0("not in the cache: look in the cache, ", phases, ", keep in the cache"), "shared: look in the cache",
    "from the cache: look in the cache", paste0("compiled: ", phases), "error: check the program, compiler"
  ))
})

test_that("callbacks, garbage collections, files and work of several threads are recorded", {
  pjrt_register_r_call("trace_twice", function(x) 2 * x)
  withr::defer(pjrt_unregister_custom_call("trace_twice"))
  exe <- compile("func.func @main(%x: tensor<3xf64>) -> tensor<3xf64> {
    %y = stablehlo.custom_call @trace_twice(%x) {api_version = 4 : i32} : (tensor<3xf64>) -> tensor<3xf64>
    return %y : tensor<3xf64>
  }")
  x <- pjrt_buffer(c(1, 2, 3), "f64")
  trace <- pjrt_trace(y <- as_array(pjrt_execute(exe, x)))
  expect_equal(c(y), c(2, 4, 6))
  expect_identical(events_of(trace, "callback")$name, "trace_twice")
  expect_identical(events_of(trace, "callback")$lane, "R")

  file <- withr::local_tempfile(fileext = ".safetensors")
  trace <- pjrt_trace({
    pjrt_save_safetensors(list(x = x), file)
    pjrt_load_safetensors(file)
  })
  expect_identical(events_of(trace, "file")$name, c("save 1 array", "load 1 array"))
  expect_identical(events_of(trace, "file")$bytes, c(24, 24))

  trace <- pjrt_trace(kept <- lapply(1:12, function(i) pjrt_buffer(matrix(1, 2000, 1000), "f32")))
  expect_gt(nrow(events_of(trace, "gc")), 0L)

  trace <- pjrt_trace(await(pjrt_buffer(matrix(1, 2000, 2000), "f32")))
  conversion <- events_of(trace, "conversion")
  expect_identical(conversion$lane, "upload")
  expect_match(conversion$call, "pjrt_buffer(matrix(", fixed = TRUE)
  work <- events_of(trace, "work")
  expect_true(all(grepl("^worker [0-9]$", work$lane)))
})

test_that("every device of a launch has its run", {
  both <- devices("cpu")
  skip_if(length(both) < 2L)
  options <- pjrt_compile_options(num_replicas = 2L)
  exe <- pjrt_compile(pjrt_program(all_reduce_program("2xf32", 2)), options, devices = both[1:2])
  x <- lapply(both[1:2], function(device) list(pjrt_buffer(c(1, 2), "f32", device = device)))
  trace <- pjrt_trace(lapply(pjrt_execute_sharded(exe, x), function(y) as_array(y)))
  expect_length(trace$devices, 2L)
  expect_setequal(events_of(trace, "run")$lane, trace$devices)
})

test_that("a trace ends when the code fails or is interrupted, and is written all the same", {
  file <- withr::local_tempfile(fileext = ".json")
  expect_error(pjrt_trace(stop("on purpose"), file), "on purpose")
  expect_true(file.exists(file))
  interrupted <- tryCatch(
    pjrt_trace({
      tools::pskill(Sys.getpid(), tools::SIGINT)
      Sys.sleep(60)
    }),
    interrupt = function(e) "interrupted"
  )
  expect_identical(interrupted, "interrupted")
  expect_error(pjrt_stop_trace(), class = "pjrt_error_trace")
  trace <- pjrt_trace(try(pjrt_execute(compile(unary_program("2xf32")), pjrt_scalar(1)), silent = TRUE))
  calls <- events_of(trace, "call")
  expect_identical(calls$outcome[calls$name == "pjrt_execute"], "error")
})

test_that("a second trace is refused, and the first goes on", {
  pjrt_start_trace()
  expect_error(pjrt_start_trace(), class = "pjrt_error_trace")
  expect_error(pjrt_trace(1), class = "pjrt_error_trace")
  x <- pjrt_scalar(1)
  trace <- pjrt_stop_trace()
  expect_identical(events_of(trace, "upload")$outcome, "copied by the plugin")
  expect_error(pjrt_stop_trace(), class = "pjrt_error_trace")
  expect_identical(nrow(as.data.frame(pjrt_trace(NULL))), 0L)
})

test_that("a trace keeps a bounded number of events, and counts the others", {
  trace <- pjrt_trace(for (i in 1:100) shape(pjrt_scalar(1)), max_events = 10)
  expect_identical(nrow(as.data.frame(trace)), 10L)
  expect_gt(trace$dropped, 100)
})

test_that("runs that go on when the trace ends are unfinished", {
  withr::local_options(pjrt.dispatch = "thread")
  exe <- compile(waiting_program(6))
  x <- pjrt_scalar(1, "f64")
  trace <- pjrt_trace({
    y <- pjrt_execute(exe, x)
    while (Sys.getenv("never") == "" && !is_ready(x)) NULL
    # by then, the thread has begun
    Sys.sleep(0.5)
  })
  run <- events_of(trace, "run")
  expect_identical(run$outcome, "unfinished")
  expect_equal(run$end, trace$seconds)
  # the next one does not have its end
  later <- pjrt_trace(await(y))
  expect_identical(nrow(events_of(later, "run")), 0L)
})

test_that("children of a fork record nothing, and the parent goes on", {
  skip_on_os("windows")
  pjrt_start_trace()
  withr::defer(try(pjrt_stop_trace(), silent = TRUE))
  before <- pjrt_scalar(1)
  child <- parallel::mcparallel({
    on <- .Call(pjrt:::ffi_trace_is_on)
    class <- tryCatch(pjrt_stop_trace(), error = function(e) class(e)[[1L]])
    own <- pjrt_trace(tree_size(build_tree(list(1, 2))))
    list(on, class, inherits(own, "PJRTTrace"))
  })
  expect_identical(parallel::mccollect(child)[[1L]], list(FALSE, "pjrt_error_trace", TRUE))
  after <- pjrt_scalar(2)
  expect_identical(nrow(events_of(pjrt_stop_trace(), "upload")), 2L)
})

test_that("code without source references has calls and no lines", {
  code <- parse(text = "pjrt_trace(pjrt_buffer(c(1, 2)))", keep.source = FALSE)
  upload <- events_of(eval(code), "upload")
  expect_identical(upload$call, "pjrt_buffer(c(1, 2))")
})

# What a child prints that traces with a fake plugin whose profiler has this oddity.
profiled <- function(oddity, code) {
  code <- bquote({
    # the fake plugin has no devices
    try(pjrt_client("fake"), silent = TRUE)
    warned <- list()
    trace <- withCallingHandlers(pjrt_trace(Sys.sleep(0.05)), warning = function(w) {
      warned[[length(warned) + 1L]] <<- w
      invokeRestart("muffleWarning")
    })
    .(code)
  })
  run_child(code, env = c(PJRT_FAKE = oddity, PJRT_PLUGIN_PATH_FAKE = fake_library()))
}

test_that("the timeline of a plugin's profiler has lanes of its own, in every form of a trace", {
  child <- profiled("profiler", quote({
    stopifnot(length(warned) == 0L, length(trace$devices) == 0L)
    cat(trace$lanes, sep = "\n")
    events <- subset(as.data.frame(trace), kind == "device")
    stopifnot(events$lane == trace$lanes[2:3], events$start >= 0, events$end <= trace$seconds)
    cat(events$name, events$program, events$bytes, sep = "\n")
    cat(format(1e3 * (events$end - events$start)), sep = "\n")
    print(summary(trace)$operations)
    file <- tempfile(fileext = ".json")
    pjrt:::write_trace(trace, file)
    json <- paste(readLines(file), collapse = "")
    cat(regmatches(json, gregexpr("GPU:0[^\"]*", json))[[1L]], sep = "\n")
    grDevices::pdf(NULL)
    plot(trace)
    cat(grep("once|Operations", capture.output(print(trace)), value = TRUE), sep = "\n")
  }))
  expect_clean(child, c(
    "R", "GPU:0 stream 9 (MemcpyH2D)", "GPU:0 stream 10 (Compute)",
    "MemcpyH2D", "fused <kernel>", "NA", "jit_f", "4096", "NA", "1", "2",
    "            name program times seconds", "1 fused <kernel>   jit_f     1   0.002",
    "2      MemcpyH2D    <NA>     1   0.001",
    "GPU:0 stream 9 (MemcpyH2D)", "GPU:0 stream 10 (Compute)",
    "Operations on devices:", "  fused <kernel>: once, 2 ms", "  MemcpyH2D: once, 1 ms"
  ))
})

test_that("a profiler that fails costs its timeline, with a warning when the trace ends", {
  failures <- c(
    "create-fails" = "You may not profile.", "start-fails" = "You may not start.", "stop-fails" = "It cannot stop.",
    damaged = "The timeline is damaged.", complains = "Some events were lost."
  )
  for (oddity in names(failures)) {
    child <- profiled(paste0("profiler-", oddity), quote({
      stopifnot(length(warned) == 1L)
      w <- warned[[1L]]
      cat(class(w)[[1L]], sub(".*[.]so'", "", conditionMessage(w)), nrow(trace$events), sep = "\n")
      # the next trace is not affected
      invisible(suppressWarnings(pjrt_trace(1)))
    }))
    expect_clean(
      child, c("pjrt_warning_profiler", paste0(": ", failures[[oddity]]), if (oddity == "complains") 2 else 0)
    )
  }
})

test_that("an error of traced code is raised, even if the trace cannot be written or was ended", {
  path <- file.path(withr::local_tempdir(), "none", "trace.json")
  expect_warning(expect_error(pjrt_trace(stop("of the user"), path), "of the user"), "Cannot write")
  expect_error(pjrt_trace(pjrt_stop_trace(), tempfile(fileext = ".json")), class = "pjrt_error_trace")
  expect_error(
    pjrt_trace({
      pjrt_stop_trace()
      stop("of the user")
    }, tempfile(fileext = ".json")),
    "of the user"
  )
})
