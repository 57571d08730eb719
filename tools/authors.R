# Writes inst/AUTHORS and inst/LICENCES: the crates that are compiled into the package on some platform with their
# authors and licences, and the texts of these licences, which binary packages must contain. Fails for a licence that
# src/rust/deny.toml does not allow.
#
#   Rscript tools/authors.R [--check]    --check: writes nothing, and fails if one of the files is out of date

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
  is_accepted("MIT/Apache-2.0"), is_accepted("Apache-2.0 WITH LLVM-exception OR MIT"),
  is_accepted("(MIT OR GPL-3.0) AND Unicode-3.0"),
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
  stop(
    "these crates have licences that tools/authors.R does not accept: ",
    toString(sprintf("%s (%s)", names, licences[refused]))
  )
}

# Authors without addresses. Crates that name none have the authors of their repository, which the manifest names.
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

# The files with the texts of a crate's licences. Where one can choose, MIT's is enough.
licence_files <- function(crate, licence) {
  files <- list.files(
    dirname(crate$manifest_path), "^(licen[sc]e|copying|copyright|notice|unlicense)", full.names = TRUE,
    ignore.case = TRUE
  )
  files <- files[!dir.exists(files)]
  mit <- grepl("mit|third-party", basename(files), ignore.case = TRUE)
  if (grepl("MIT", licence) && !grepl("AND", licence) && any(mit)) files[mit] else files
}

mit <- c(
  "Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation",
  "files (the \"Software\"), to deal in the Software without restriction, including without limitation the rights to use, copy,",
  "modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the",
  "Software is furnished to do so, subject to the following conditions:", "",
  "The above copyright notice and this permission notice shall be included in all copies or substantial portions of the",
  "Software.", "",
  "THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE",
  "WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR",
  "COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE,",
  "ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."
)

# The texts of a crate. One that contains none has the text that its manifest names, with its authors.
licence_texts <- function(crate, licence) {
  files <- licence_files(crate, licence)
  if (length(files) > 0L) {
    return(lapply(files, function(file) {
      lines <- sub(
        "[ \t\r]+$", "", iconv(readLines(file, warn = FALSE, encoding = "UTF-8"), "UTF-8", "UTF-8", sub = "?")
      )
      filled <- which(nzchar(lines))
      lines[seq(min(filled), max(filled))]
    }))
  }
  if (!grepl("MIT", licence)) {
    stop("crate ", crate$name, " has no text of its licence ", licence)
  }
  authors <- trimws(sub("<[^>]*>", "", unlist(crate$authors)))
  list(c("MIT License", "", paste("Copyright (c)", toString(authors)), "", mit))
}

# Each text once, after the names of its crates.
of_crates <- Map(licence_texts, crates, licences)
texts <- unlist(of_crates, recursive = FALSE, use.names = FALSE)
owners <- rep(vapply(crates, function(crate) paste(crate$name, crate$version), ""), lengths(of_crates))
keys <- vapply(texts, function(lines) gsub("[[:space:]]+", " ", paste(lines, collapse = " ")), "")
line <- strrep("-", 100)
licence_lines <- c(
  "The licences of the Rust crates that are compiled into pjrt. AUTHORS lists the crates.",
  "Written by tools/authors.R from the crates' files. Of a crate that one can use under several licences, MIT's is shown.",
  unlist(lapply(unique(keys), function(key) {
    c("", line, strwrap(toString(unique(owners[keys == key])), 100), line, "", texts[[match(key, keys)]])
  }))
)

files <- list("inst/AUTHORS" = text, "inst/LICENCES" = licence_lines)
for (path in names(files)) {
  lines <- enc2utf8(files[[path]])
  if ("--check" %in% commandArgs(TRUE)) {
    if (!file.exists(path) || !identical(readLines(path, encoding = "UTF-8"), lines)) {
      stop(path, " is out of date: run `Rscript tools/authors.R`")
    }
  } else {
    writeLines(lines, path, useBytes = TRUE)
    cat(sprintf("wrote %s: %d crates, %d lines\n", path, length(crates), length(lines)))
  }
}
