# Uses everything that the package registers once, and more, see tests/testthat/helper-leaks.R: for tools/memcheck.sh. From
# the package's sources, with the package installed.

library(pjrt)
# R would compile its functions meanwhile, which takes longer than all the rest
invisible(compiler::enableJIT(0))
for (helper in c("programs", "plugins", "sharing", "routines", "leaks")) source(sprintf("tests/testthat/helper-%s.R", helper))
real_plugin <- function() normalizePath(pjrt:::plugin_path("cpu"))
do.call(Sys.setenv, as.list(lone_session()))

objects <- leak_objects()
uses <- c(leak_uses(), routine_uses())
uses <- uses[!duplicated(names(uses))]
for (name in names(uses)) {
  tryCatch(used(uses[[name]], objects), error = function(e) stop(name, ": ", conditionMessage(e)))
}
cat(length(uses), "uses\n")
