# Run by tools/memcheck.sh: calls every registered routine and the uses in tests/testthat/helper-leaks.R. Run it in the
# package's sources, with the package installed.

library(pjrt)
# under valgrind, R's byte-code compiler takes longer than everything else
invisible(compiler::enableJIT(0))
for (helper in c("programs", "plugins", "sharing", "routines", "leaks")) source(
  sprintf("tests/testthat/helper-%s.R", helper)
)
real_plugin <- function() normalizePath(pjrt:::plugin_path("cpu"))
do.call(Sys.setenv, as.list(lone_session()))

objects <- leak_objects()
uses <- c(leak_uses(), routine_uses())
uses <- uses[!duplicated(names(uses))]
for (name in names(uses)) {
  tryCatch(used(uses[[name]], objects), error = function(e) stop(name, ": ", conditionMessage(e)))
}
cat(length(uses), "uses\n")
