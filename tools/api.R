# Compares what the installed library asks of R with R's API, as R CMD check does, and more strictly: functions and variables
# that are not in the API of the R that runs this are named, and make it fail. From R 4.5 on, R knows its API.
#
#   Rscript tools/api.R [path of pjrt.so]

known <- c("funAPI", "varAPI", "readFileSyms", "unmap")
if (!all(vapply(known, exists, NA, envir = asNamespace("tools"), inherits = FALSE))) {
  message("R ", getRversion(), " does not know its API: nothing was compared.")
  quit(status = 0L)
}

# The names that a library asks others for, without the version that the linker adds. The library has no other symbols.
undefined <- function(library) {
  lines <- system2("nm", c("-D", "--undefined-only", "--format=posix", shQuote(library)), stdout = TRUE)
  names <- unique(sub("[@ ].*", "", lines))
  # those of the C library and the linker
  names[!startsWith(names, "_")]
}

# What of it R itself has: functions and variables.
from_r <- function(names) {
  command <- file.path(R.home("bin"), "exec", "R")
  shared <- file.path(R.home("lib"), paste0("libR", .Platform$dynlib.ext))
  intersect(names, tools:::readFileSyms(if (file.exists(shared)) shared else command)$name)
}

library <- c(commandArgs(trailingOnly = TRUE), system.file("libs", paste0("pjrt", .Platform$dynlib.ext), package = "pjrt"))[[1L]]
if (!file.exists(library)) stop("There is no library '", library, "'.")
asked <- undefined(library)
# C names of functions that have another name in the headers
api <- c(tools:::unmap(tools:::funAPI()$name), tools:::varAPI()$name)
outside <- setdiff(tools:::nonAPI, c(tools:::funAPI()$name, tools:::varAPI()$name))
if (length(from_r(asked)) == 0L) stop("'", library, "' asks nothing of R: its symbols could not be read.")
bad <- union(intersect(asked, outside), {
  found <- from_r(asked)
  found[!tools:::unmap(found) %in% api & !found %in% tools:::varAPI()$name]
})
if (length(bad) > 0L) {
  stop("Not in the API of R ", getRversion(), ": ", paste(sort(bad), collapse = ", "))
}
cat(sprintf("%d functions and variables of R are used, all of them in the API of R %s.\n", length(from_r(asked)), getRversion()))
