# Copies the packages that this package imports and suggests into the library of an R that lacks them, from the libraries of
# another R. Only packages that are nothing but R code work in both; the others are left out, and what needs them.
#
#   Rscript tools/borrow.R LIBRARY LIBRARIES_OF_THE_OTHER_R

arguments <- commandArgs(trailingOnly = TRUE)
library <- arguments[[1L]]
lenders <- strsplit(arguments[[2L]], ":", fixed = TRUE)[[1L]]

fields <- c("Depends", "Imports", "LinkingTo")

# The packages that a DESCRIPTION names.
needs <- function(description, fields) {
  named <- description[, intersect(fields, colnames(description))]
  setdiff(sub("[ (].*$", "", trimws(unlist(strsplit(named[!is.na(named)], ",")))), c("R", ""))
}

is_here <- function(package) nzchar(system.file(package = package, lib.loc = c(library, .libPaths())))

# The folders to copy so that a package works, or NA if that cannot be.
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
