# Measures the time from Ctrl-C to the prompt in a real terminal, during every kind of wait and work.
#
#   Rscript tools/interrupts.R [TIMES]
#
# prints for each kind the median and the maximum of TIMES measurements (20 by default), in milliseconds from the signal
# to the prompt. Fails if more than a tenth of them take longer than half a second. Run it in the package's sources,
# with the package installed.

times <- c(as.integer(commandArgs(trailingOnly = TRUE)), 20L)[[1L]]

library(pjrt)
library(testthat)
helpers <- c("children", "plugins", "terminal", "fake-plugin", "custom-calls", "interrupts")
for (helper in helpers) source(sprintf("tests/testthat/helper-%s.R", helper))
real_plugin <- function() normalizePath(pjrt:::plugin_path("cpu"))

measure <- function(terminal, name) {
  vapply(seq_len(times), FUN.VALUE = 0, function(i) {
    terminal$type(sprintf("begin(waits[['%s']])", name))
    expect_shows(terminal, "beginning", info = name)
    # interrupt repeated work at different moments
    Sys.sleep(stats::runif(1L, 0.1, 0.4))
    sent <- proc.time()[["elapsed"]]
    terminal$interrupt()
    if (is.na(terminal$see("ready> ", 10, poll = 1))) stop(name, ": no prompt, but this output: ", terminal$shown())
    1000 * (proc.time()[["elapsed"]] - sent)
  })
}

main <- function() {
  terminal <- local_waiting_terminal(PORT = local_slow_server())
  cat(sprintf("%-24s %7s %7s\n", "milliseconds", "median", "slowest"))
  all <- lapply(stats::setNames(nm = names(waits)), function(name) {
    took <- measure(terminal, name)
    cat(sprintf("%-24s %7.0f %7.0f\n", name, stats::median(took), max(took)))
    took
  })
  all <- unlist(all)
  cat(sprintf(
    "\n%d interrupts: median %.0f ms, 90%% within %.0f, 99%% within %.0f, slowest %.0f\n", length(all),
    stats::median(all),
    stats::quantile(all, 0.9), stats::quantile(all, 0.99), max(all)
  ))
  quit("no", status = stats::quantile(all, 0.9) > 500)
}
main()
