# Checks that the installed library uses only R's API, more strictly than R CMD check: it lists functions and variables
# that are not in the API of the R that runs this script, and fails if there are any. R lists its API from version 4.5
# on.
#
#   Rscript tools/api.R [path of pjrt.so]

known <- c("funAPI", "varAPI", "unmap")
if (!all(vapply(known, exists, NA, envir = asNamespace("tools"), inherits = FALSE))) {
  message("R ", getRversion(), " does not list its API: nothing was checked.")
  quit(status = 0L)
}

# The undefined or the defined dynamic symbols of a file, without the version that the linker adds.
symbols <- function(file, which) {
  lines <- system2("nm", c("-D", paste0("--", which, "-only"), "--format=posix", shQuote(file)), stdout = TRUE)
  unique(sub("[@ ].*", "", lines))
}

# The names of functions and variables that R itself defines.
from_r <- function(names) {
  command <- file.path(R.home("bin"), "exec", "R")
  shared <- file.path(R.home("lib"), paste0("libR", .Platform$dynlib.ext))
  intersect(names, symbols(if (file.exists(shared)) shared else command, "defined"))
}

library <- c(
  commandArgs(trailingOnly = TRUE), system.file("libs", paste0("pjrt", .Platform$dynlib.ext), package = "pjrt")
)[[1L]]
if (!file.exists(library)) stop("The library '", library, "' does not exist.")
asked <- symbols(library, "undefined")
# drop symbols of the C library and the linker
asked <- asked[!startsWith(asked, "_")]
# the C names of functions that R's headers rename
api <- c(tools:::unmap(tools:::funAPI()$name), tools:::varAPI()$name)
outside <- setdiff(tools:::nonAPI, c(tools:::funAPI()$name, tools:::varAPI()$name))
if (length(from_r(asked)) == 0L) stop("No symbols of R were found in '", library, "': cannot read its symbols.")
bad <- union(intersect(asked, outside), {
  found <- from_r(asked)
  found[!tools:::unmap(found) %in% api & !found %in% tools:::varAPI()$name]
})
if (length(bad) > 0L) {
  stop("Not in the API of R ", getRversion(), ": ", paste(sort(bad), collapse = ", "))
}
used <- length(from_r(asked))
cat(sprintf("The library uses %d functions and variables of R, all of them in the API of R %s.\n", used, getRversion()))
