# Writes inst/AUTHORS: the crates that are compiled into the package on some platform, with their authors and licences. Fails for
# a licence that src/rust/deny.toml does not allow.
#
#   Rscript tools/authors.R [--check]    --check: writes nothing, and fails if inst/AUTHORS is out of date

# The list of licences in deny.toml, one per line.
deny <- readLines("src/rust/deny.toml")
from <- which(deny == "allow = [")
to <- from + which(deny[-seq_len(from)] == "]")[[1L]]
accepted <- sub('^ *"(.*)",?$', "\\1", deny[seq(from + 1L, to - 1L)])

# Licences are written as "A OR B", "A AND (B OR C)" or the old "A/B". Whether one can choose accepted licences only.
is_accepted <- function(licence) {
  words <- gsub("/", " OR ", licence, fixed = TRUE)
  names <- accepted[order(-nchar(accepted))]
  for (name in names) {
    words <- gsub(paste0("(^|[ (])", gsub(".", "[.]", name, fixed = TRUE), "(?=$|[ )])"), "\\1TRUE", words, perl = TRUE)
  }
  words <- gsub("OR", "||", gsub("AND", "&&", words, fixed = TRUE), fixed = TRUE)
  words <- gsub("[^()|& ]*[a-z0-9][^()|& ]*", "FALSE", gsub("WITH", "&&", words, fixed = TRUE))
  grepl("^[TRUEFALS()|& ]+$", words) && isTRUE(eval(parse(text = words)))
}
stopifnot(
  is_accepted("MIT/Apache-2.0"), is_accepted("Apache-2.0 WITH LLVM-exception OR MIT"), is_accepted("(MIT OR GPL-3.0) AND Unicode-3.0"),
  !is_accepted("GPL-3.0"), !is_accepted("MIT AND GPL-3.0-only"), !is_accepted("")
)

cargo <- c("metadata", "--format-version=1", "--locked", "--manifest-path=src/rust/Cargo.toml")
metadata <- system2("cargo", cargo, stdout = TRUE)
metadata <- jsonlite::fromJSON(paste(metadata, collapse = ""), simplifyVector = FALSE)
packages <- metadata$packages
names(packages) <- vapply(packages, `[[`, "", "id")
nodes <- metadata$resolve$nodes
names(nodes) <- vapply(nodes, `[[`, "", "id")

# What the package needs, without the dependencies of tests.
needed <- metadata$resolve$root
todo <- needed
while (length(todo) > 0L) {
  used <- unlist(lapply(nodes[[todo[[1L]]]]$deps, function(dep) {
    kinds <- lapply(dep$dep_kinds, `[[`, "kind")
    if (any(vapply(kinds, function(kind) is.null(kind) || kind == "build", NA))) dep$pkg
  }))
  new <- setdiff(used, needed)
  needed <- c(needed, new)
  todo <- c(todo[-1L], new)
}
# the package's own crates have no source
crates <- Filter(function(package) !is.null(package$source), packages[needed])
crates <- crates[order(vapply(crates, `[[`, "", "name"), vapply(crates, `[[`, "", "version"), method = "radix")]

licences <- vapply(crates, function(crate) if (is.null(crate$license)) "" else crate$license, "")
refused <- !vapply(licences, is_accepted, NA)
if (any(refused)) {
  names <- vapply(crates[refused], function(crate) paste(crate$name, crate$version), "")
  stop("these crates have licences that tools/authors.R does not accept: ", toString(sprintf("%s (%s)", names, licences[refused])))
}

# Authors without addresses. Crates that name none have those of their repository, which the manifest names.
entry <- function(crate, licence) {
  authors <- trimws(sub("<[^>]*>", "", unlist(crate$authors)))
  authors <- authors[nzchar(authors)]
  authors <- if (length(authors) > 0L) toString(authors) else paste("the authors of", crate$name)
  c(
    sprintf("%s %s", crate$name, crate$version),
    strwrap(paste("Authors:", authors), 100, indent = 2, exdent = 4),
    paste("  Licence:", gsub("/", " OR ", licence, fixed = TRUE))
  )
}
text <- c(
  "The Rust crates that are compiled into pjrt, their authors and licences. Not every system needs all of them.",
  "Written by tools/authors.R from the crates' manifests.",
  unlist(Map(function(crate, licence) c("", entry(crate, licence)), crates, licences), use.names = FALSE)
)

path <- "inst/AUTHORS"
if ("--check" %in% commandArgs(TRUE)) {
  if (!file.exists(path) || !identical(readLines(path, encoding = "UTF-8"), enc2utf8(text))) {
    stop("inst/AUTHORS is out of date: run `Rscript tools/authors.R`")
  }
} else {
  writeLines(enc2utf8(text), path, useBytes = TRUE)
  cat(sprintf("wrote %s: %d crates\n", path, length(crates)))
}
