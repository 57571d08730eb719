# Copies the packages that this package imports and suggests from the libraries of one R into the library of another R that lacks
# them. Only packages without compiled code work in both. Others, and the packages that need them, are skipped.
#
#   Rscript tools/borrow.R LIBRARY LIBRARIES_OF_THE_OTHER_R

arguments <- commandArgs(trailingOnly = TRUE)
library <- arguments[[1L]]
lenders <- strsplit(arguments[[2L]], ":", fixed = TRUE)[[1L]]

fields <- c("Depends", "Imports", "LinkingTo")

# The packages that these fields of a DESCRIPTION list.
needs <- function(description, fields) {
  named <- description[, intersect(fields, colnames(description))]
  setdiff(sub("[ (].*$", "", trimws(unlist(strsplit(named[!is.na(named)], ",")))), c("R", ""))
}

is_here <- function(package) nzchar(system.file(package = package, lib.loc = c(library, .libPaths())))

# The folders to copy for a package and its dependencies, or NA if it cannot be copied.
to_copy <- function(package) {
  if (is_here(package)) {
    return(character())
  }
  folder <- Find(dir.exists, file.path(lenders, package))
  if (is.null(folder)) {
    return(NA_character_)
  }
  description <- read.dcf(file.path(folder, "DESCRIPTION"))
  if (dir.exists(file.path(folder, "libs"))) {
    return(NA_character_)
  }
  c(folder, unlist(lapply(needs(description, fields), to_copy)))
}

own <- read.dcf("DESCRIPTION")
for (package in setdiff(needs(own, c("Imports", "Suggests")), c("tengen", "safetensors"))) {
  folders <- to_copy(package)
  if (anyNA(folders)) {
    cat("this R lacks package ", package, "\n", sep = "")
  } else if (length(folders) > 0L) {
    file.copy(folders, library, recursive = TRUE)
    cat("copied for package ", package, ": ", toString(unique(basename(folders))), "\n", sep = "")
  }
}
