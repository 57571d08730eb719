# A trace with these events, in seconds.
made_trace <- function(..., seconds = 10) {
  events <- rbind(...)
  structure(class = "PJRTTrace", list(
    events = events, lanes = unique(c("R", events$lane)), devices = unique(events$lane[events$kind == "run"]),
    seconds = seconds, dropped = 0, ended = Sys.time()
  ))
}

event <- function(start, end, kind, lane = "R", call = NA_character_, line = NA_integer_, program = NA_character_,
                  outcome = NA_character_) {
  data.frame(
    start, end, lane, kind, name = program, bytes = NA_real_, dtype = NA_character_, shape = NA_character_, program,
    call,
    line, file = if (is.na(line)) NA_character_ else "a.R", outcome
  )
}

test_that("R's time is counted once, for the innermost event", {
  trace <- made_trace(
    event(1, 5, "call"), event(2, 4, "wait"), event(3, 3.5, "callback"), event(5, 6, "call"), event(8, 9, "gc")
  )
  r <- summary(trace)$r
  seconds <- structure(r$seconds, names = r$kind)
  expect_equal(
    seconds[c("call", "wait", "callback", "gc", "R")], c(call = 3, wait = 1.5, callback = 0.5, gc = 1, R = 4)
  )
  expect_equal(sum(r$share), 1)
})

test_that("a device's idle time does not count overlapping runs twice", {
  trace <- made_trace(
    event(1, 4, "run", "d", program = "a"), event(2, 6, "run", "d", program = "b"),
    event(8, 9, "run", "d", program = "a")
  )
  summary <- summary(trace)
  expect_equal(summary$devices, data.frame(device = "d", runs = 3L, busy = 6, idle = 0.4))
  expect_equal(summary$programs$program, c("a", "b"))
  expect_equal(summary$programs$runs, c(2L, 1L))
  expect_equal(summary$programs$median, c(2, 4))
})

test_that("the report says where R waited, how long devices idled, and what helps", {
  waits <- lapply(0:4, function(i) event(2 * i, 2 * i + 1.2, "wait", call = "as_array(y)", line = 12L))
  runs <- lapply(0:4, function(i) event(2 * i, 2 * i + 1.2, "run", "d", program = "f"))
  trace <- do.call(made_trace, c(waits, runs, list(event(9.5, 9.6, "wait", call = "await(x)"))))
  lines <- paste(capture.output(returned <- withVisible(print(trace))), collapse = "\n")
  expect_identical(returned, list(value = trace, visible = FALSE))
  expect_match(lines, "R waited 61% of the time, mostly in `as_array(y)` at line 12 of a.R.", fixed = TRUE)
  expect_match(lines, "d was idle 40% of the time (5 runs).", fixed = TRUE)
  expect_match(lines, "f: 5 runs, 6 s, median 1.2 s", fixed = TRUE)
  expect_match(lines, "* In 5 calls of `as_array(y)` at line 12", fixed = TRUE)
  expect_identical(summary(trace)$waits$times, c(5L, 1L))
  expect_true(all(nchar(strsplit(lines, "\n")[[1L]]) <= 80L))
  once <- utils::capture.output(print(summary(made_trace(event(0, 1, "run", "d", program = "g")))))
  expect_match(once, "d was idle 90% of the time (1 run).", fixed = TRUE, all = FALSE)
  expect_match(once, "10 s, 1 event$", all = FALSE)
  expect_match(once, "g: 1 run, 1 s, median 1 s", fixed = TRUE, all = FALSE)
})

test_that("advice fits what takes the time", {
  advice <- function(...) paste(summary(made_trace(...))$advice, collapse = " ")
  expect_match(advice(event(0, 9.5, "run", "d", program = "f"), event(0, 9, "wait")), "busy almost all the time")
  compile <- function(i) event(2 * i, 2 * i + 1, "compile", "compile", program = "f", outcome = "compiled")
  expect_match(advice(compile(0), compile(1), compile(2)), "3 programs were compiled.*same shapes")
  expect_no_match(advice(compile(0)), "same shapes")
  await <- function(i) transform(event(2 * i, 2 * i + 1, "wait"), name = "compilation")
  expect_no_match(advice(compile(0), compile(1), compile(2), await(0), await(1), await(2)), "before you read")
  expect_match(advice(event(0, 4, "conversion"), event(5, 6, "download")), "Upload values once")
  expect_match(advice(event(0, 4, "gc")), "pjrt_delete")
  runs <- lapply(1:200, function(i) event(i / 50, i / 50 + 1e-5, "run", "d", program = "f"))
  expect_match(do.call(advice, runs), "200 runs are short")
  expect_match(advice(event(0, 1, "call")), "Rprof")
})

test_that("the summary of a real loop that waits finds its line, and that of an empty trace works", {
  exe <- compile(loop_program(2e6))
  code <- parse(text = "
    for (i in 1:5) {
      x <- as_array(pjrt_execute(exe, pjrt_scalar(1, 'f64')))
    }", keep.source = TRUE)
  summary <- summary(pjrt_trace(eval(code)))
  expect_identical(summary$waits$call[[1L]], "as_array(pjrt_execute(exe, pjrt_scalar(1, \"f64\")))")
  expect_identical(summary$devices$runs, 5L)
  expect_equal(sum(summary$r$share), 1, tolerance = 0.01)
  expect_output(print(pjrt_trace(NULL)), "R hardly waited.")
})
