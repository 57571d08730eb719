# Slow: tries every bad value.
# Bad input to the function for custom calls. helper-bad-input.R explains the rows.

rows <- list(
  pjrt_register_custom_call = row(
    target_name = of("string", "a", "!\"\""), handler = of("list", list(host = pointer)),
    .package = of("string", NULL, "NULL", "!\"\"", "!latin1", "!a long string")
  ),
  pjrt_register_r_call = row(
    target_name = of("string", "a", "!\"\""), f = of("fun", identity, "a function as PJRTBuffer"),
    as = of("choice", "array"),
    .package = of("string", NULL, "NULL", "!\"\"", "!latin1", "!a long string")
  ),
  pjrt_unregister_custom_call = row(target_name = of("string", "a", "!\"\""))
)

# Bad values inside an argument; `.` in the name stands for the value.
uses <- list(
  `pjrt_register_custom_call("a", list(host = .))` = use(pjrt_register_custom_call("a", list(host = bad)), "none"),
  `pjrt_register_custom_call("a", list(cuda = .))` = use(pjrt_register_custom_call("a", list(cuda = bad)), "none")
)

test_that("functions for custom calls refuse bad input with an error of this package", {
  tried <- try_bad_input(rows, uses, at_least = 300)
  expect_snapshot(cat(refusals(tried)))
})
