# Tests that find rare errors by repetition repeat little in the suite, and much in tools/soak.sh, which sets
# PJRT_SOAK=1. Children have these functions, too.

is_soak <- function() identical(Sys.getenv("PJRT_SOAK"), "1")

# How often to repeat something: the first number in the suite, the second in tools/soak.sh.
times <- function(short, soak) if (is_soak()) soak else short

# Collects garbage at every `step`th allocation in the suite, and at every one in tools/soak.sh, until torture(0). R
# compiles no functions meanwhile: that would take longer than everything else.
torture <- function(step) {
  gctorture2(0)
  compiler::enableJIT(if (step > 0) 0 else 3)
  if (step > 0) gctorture2(times(step, 1))
  invisible()
}

# The tests run with programs that are compiled elsewhere than by default if PJRT_TEST_COMPILE says where.
if (nzchar(Sys.getenv("PJRT_TEST_COMPILE"))) options(pjrt.compile = Sys.getenv("PJRT_TEST_COMPILE"))
