# Slow: tries every bad value.
# Bad input to dispatchers. helper-bad-input.R explains the rows.

rows <- list(
  dispatcher = row(
    capacity = of("index", 1, "1L", "2^31", "2^53", "1e18", "1e300"),
    compile = of("fun", identity, "a function as PJRTBuffer"),
    static = "texts", backend = of("choice", "pjrt"), move_inputs = of("flag", TRUE),
    default_device = of("fun", identity, "a function as PJRTBuffer"),
    extractor = of("fun", NULL, "NULL", "a function as PJRTBuffer"),
    context = of("fun", NULL, "NULL", "a function as PJRTBuffer")
  ),
  dispatch = row(dispatcher = "dispatcher", args = of("list", list(anvl, anvl))),
  dispatcher_size = row(dispatcher = "dispatcher")
)

# Bad values inside an argument; `.` in the name stands for the value.
uses <- list(
  `dispatch(list(.))` = use(dispatch(dispatching, list(bad)), of("list", NULL)),
  `dispatch() of an array with data` = use(
    dispatch(
      dispatching, list(anvl, structure(list(data = bad, device = here, backend = "pjrt"), class = "AnvlArray"))
    ),
    of("buffer", NULL)
  )
)

test_that("dispatchers refuse bad input with an error of this package", {
  tried <- try_bad_input(rows, uses, at_least = 500)
  expect_snapshot(cat(refusals(tried)))
})
