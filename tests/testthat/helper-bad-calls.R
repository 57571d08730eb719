# Calls the functions of a table with bad values and records the outcomes.

# Tries a third of the bad values for every argument of the rows and uses, another third for the next argument, and in
# tools/soak.sh all of them. There are `at_least` as many. Expects that valid values are accepted, that invalid
# ones raise an error of this package, that nothing warns, and that the objects still work afterwards. Returns the calls
# of the suite.
try_bad_input <- function(rows, uses = list(), at_least) {
  expect_identical(arguments_missing_from(rows), character())
  local_place()
  # not every session has the packages whose methods our generics use
  local_in_package("neighbour_generic", function(name, x) NULL)
  o <- input_objects()
  withr::defer(unlink(o$folder, recursive = TRUE))
  tried <- try_inputs(input_cases(rows, uses, o), o)
  calls <- function(rows) with(tried[rows, ], sprintf("%s(%s) given %s: %s%s", name, argument, value, message, warning))
  expect_identical(calls(tried$class == "foreign"), character())
  expect_identical(calls(nzchar(tried$warning)), character())
  expect_identical(calls(tried$class == "accepted" & !tried$right), character())
  expect_identical(calls(tried$class != "accepted" & tried$right), character())
  expect_gte(nrow(tried), at_least / times(4, 1))

  expect_identical(as_array(pjrt_execute(o$add, o$x, o$x)), array(c(2, 4), 2L))
  expect_identical(lapply(pjrt_execute_sharded(o$both, list(o$x, o$z)), as_array), rep(list(array(c(4, 6), 2L)), 2L))
  expect_identical(names(o$opened), c("x", "y"))
  tried[tried$in_suite, ]
}

# Whether the suite tries these values for this argument.
in_suite <- function(name, argument, labels) {
  one <- function(text) sum(utf8ToInt(enc2utf8(text)) * seq_len(nchar(text)))
  start <- one(paste(name, argument))
  labels == "right values" | (seq_along(labels) + start) %% 3L == 0L
}

# Blocks downloads, and installs and removes plugins in a temporary folder only.
local_place <- function(env = parent.frame()) {
  folder <- withr::local_tempdir(.local_envir = env)
  work <- file.path(folder, "a/b")
  dir.create(work, recursive = TRUE)
  withr::local_dir(work, .local_envir = env)
  withr::local_envvar(
    R_USER_CACHE_DIR = file.path(folder, "cache"), PJRT_INSTALL = "0", PJRT_INDEX_URL = "http://127.0.0.1:9/simple",
    PJRT_PLUGIN_PATH_CPU = real_plugin(), PJRT_PLUGIN_URL_CPU = "http://127.0.0.1:9/cpu", .local_envir = env
  )
  local_manifest(folder, env = env)
}

# The function arguments that are missing from the rows. Entries without a name match the remaining arguments in order,
# or `...`.
arguments_missing_from <- function(rows) {
  missed <- lapply(names(rows), function(name) {
    arguments <- setdiff(names(formals(args(get(name, asNamespace("pjrt"))))), "...")
    given <- names(rows[[name]]$arguments)
    sprintf("%s(%s)", name, setdiff(arguments, given)[-seq_len(sum(!nzchar(given)))])
  })
  as.character(unlist(missed))
}

# The registered methods, including those for generics of packages that may not be installed.
registered_methods <- function() {
  parsed <- parseNamespaceFile("pjrt", dirname(system.file(package = "pjrt")))$S3methods
  generics <- sub("^.*::", "", parsed[, 1L])
  methods <- data.frame(generic = generics, class = parsed[, 2L], name = paste(generics, parsed[, 2L], sep = "."))
  methods[!duplicated(methods$name), ]
}

is_our_class <- function(class) grepl("PJRT", class)

# The function to call for a row: an exported function, a generic or, if the generic is not available, the method
# itself.
row_function <- function(method, name, env) {
  member <- c(Ops = "+", Math = "exp", Summary = "sum", Complex = "Re", matrixOps = "%*%")[method$generic]
  if (nrow(method) > 0L && !is.na(member)) {
    return(as.name(member))
  }
  if (nrow(method) == 0L) {
    as.name(name)
  } else if (exists(method$generic, env)) {
    as.name(method$generic)
  } else {
    getFromNamespace(name, "pjrt")
  }
}

# The cases to try: for each argument of each row, a call with `bad` in its place and the values to give `bad`. A case
# without values calls the function with valid arguments only.
input_cases <- function(rows, uses, o) {
  methods <- registered_methods()
  kinds <- input_kinds()
  plain <- c(plain_values(), object_values(o))
  paths <- path_values(o$folder)
  known <- list()
  impostors_of <- function(class) {
    if (is.null(known[[class]])) known[[class]] <<- impostors(class, o)
    known[[class]]
  }
  # `self`: the class of the method under test
  values <- function(kind, self = NULL) {
    classes <- unique(c("PJRTBuffer", kind$classes, self))
    all <- c(plain, if (kind$paths) paths, do.call(c, lapply(classes, impostors_of)))
    all <- all[setdiff(names(all), kind$spared)]
    if (is.null(self)) all else all[vapply(all, inherits, NA, self)]
  }
  of_row <- function(name, row) {
    method <- methods[methods$name == name, ]
    self <- if (isTRUE(is_our_class(method$class))) method$class
    arguments <- row$arguments
    valid <- lapply(arguments, function(x) if ("valid" %in% names(x)) x$valid else kinds[[x$kind]]$valid)
    right <- as.call(c(row_function(method, name, o), valid))
    case <- list(name = name, argument = "", call = right, values = list(), after = row$after, refuses = row$refuses)
    c(list(case), lapply(seq_along(arguments), function(i) {
      kind <- kinds[[arguments[[i]]$kind]]
      if (is.null(kind)) {
        return(NULL)
      }
      right[[i + 1L]] <- quote(bad)
      label <- names(arguments)[i] %||% ""
      utils::modifyList(case, list(
        call = right, argument = if (nzchar(label)) label else paste0("..", i), kind = kind,
        labels = arguments[[i]]$labels,
        values = values(kind, if (i == 1L) self)
      ))
    }))
  }
  of_use <- function(name, use) {
    kind <- kinds[[use$kind]]
    list(list(
      name = name, argument = "", call = use$expr, values = values(kind), after = use$after, refuses = FALSE,
      kind = kind,
      labels = use$labels
    ))
  }
  cases <- c(
    unlist(Map(of_row, names(rows), rows), FALSE, FALSE), unlist(Map(of_use, names(uses), uses), FALSE, FALSE)
  )
  Filter(Negate(is.null), cases)
}

# Whether a value is valid for the case's argument.
is_right <- function(case, value, label) {
  if (case$refuses || paste0("!", label) %in% case$labels) {
    return(FALSE)
  }
  label %in% case$labels || case$kind$accepts(value, label)
}

# Tries all cases and returns a data frame with a row for each call.
try_inputs <- function(cases, o) {
  sink(nullfile())
  on.exit(sink())
  all <- lapply(cases, function(case) {
    labels <- names(case$values) %||% "right values"
    chosen <- in_suite(case$name, case$argument, labels)
    tried <- lapply(if (is_soak()) seq_along(labels) else which(chosen), function(i) {
      env <- new.env(parent = o)
      if (length(case$values) > 0L) assign("bad", case$values[[i]], env)
      right <- length(case$values) == 0L && !case$refuses ||
        length(case$values) > 0L && is_right(case, env$bad, labels[[i]])
      c(
        case[c("name", "argument")], value = labels[[i]], right = right, in_suite = chosen[[i]],
        outcome(case, env, o$folder)
      )
    })
    column <- function(name) vapply(tried, function(one) format(one[[name]]), "")
    flag <- function(name) vapply(tried, function(one) one[[name]], NA)
    list(
      name = column("name"), argument = column("argument"), value = column("value"), right = flag("right"),
      in_suite = flag("in_suite"),
      class = column("class"), message = column("message"), warning = column("warning")
    )
  })
  columns <- names(all[[1L]])
  as.data.frame(lapply(structure(columns, names = columns), function(name) unlist(lapply(all, `[[`, name))))
}

# The outcome of one call: its class ("accepted", the kind of our error, or "foreign"), its message and any warning.
# Calls that the plugin does not implement count as accepted.
outcome <- function(case, env, folder) {
  warning <- ""
  told <- withCallingHandlers(
    tryCatch(
      {
        env$made <- eval(case$call, env)
        eval(case$after, env)
        list(class = "accepted", message = "")
      },
      pjrt_error_unimplemented = function(e) list(class = "accepted", message = ""),
      pjrt_error = function(e) {
        list(class = main_class(e), message = masked(conditionMessage(e), env$bad, folder))
      },
      error = function(e) list(class = "foreign", message = conditionMessage(e))
    ),
    pjrt_warning_na = function(w) invokeRestart("muffleWarning"),
    warning = function(w) {
      warning <<- conditionMessage(w)
      invokeRestart("muffleWarning")
    },
    pjrt_message = function(m) invokeRestart("muffleMessage")
  )
  c(told, warning = warning)
}

# Masks what differs between runs: the quoted value, folder names and the contents of memory.
masked <- function(message, value, folder) {
  message <- gsub(folder, "<folder>", message, fixed = TRUE)
  message <- gsub(normalizePath("../.."), "<folder>", message, fixed = TRUE)
  # one line for each client of the session
  message <- gsub(
    "i The cpu client has [^\n]*(\ni The cpu client has [^\n]*)*", "i The cpu client has <buffers>.", message
  )
  one <- !is.object(value) && is.atomic(value) && length(value) == 1L && !is.na(value)
  if (one && is.character(value) && Encoding(value) != "bytes") {
    quoted <- c(
      sprintf("'%s'", value), sprintf("\"%s\"", value), if (nchar(enc2utf8(value), "bytes") > 1L) enc2utf8(value)
    )
    for (word in quoted) message <- gsub(word, "<given>", message, fixed = TRUE, useBytes = TRUE)
  }
  words <- c(pjrt:::given(value), if (one && is.numeric(value)) c(sprintf("%.0f", value), value))
  for (word in unique(words)) {
    if (!grepl(word, message, fixed = TRUE, useBytes = TRUE)) next
    for (before in c(", not ", "; it is ", "not with ", "not by ", "bounds: ", "no tensor ")) {
      message <- gsub(paste0(before, word), paste0(before, "<given>"), message, fixed = TRUE, useBytes = TRUE)
    }
  }
  message <- gsub("Known types: [^\n]*", "Known types: <types>.", message)
  message <- gsub("an object of class <[^>]*>", "<given>", message)
  message <- gsub("Invalid plugin: <[^>]*>", "Invalid plugin: <class>", message)
  message <- gsub("not of type <[^>]*>", "not of type <its type>", message)
  message <- gsub("(/a){100,}|a{100,}", "<long>", message)
  gsub("\n", "\n    ", message, fixed = TRUE)
}

# The class of an error that its tables name: the parent of those that say what is wrong with the input.
main_class <- function(e) {
  sub("^invalid_(type|value|file)$", "invalid_input", sub("pjrt_error_", "", class(e)[[1L]]))
}

# Formats the refusals: each message once, followed by the arguments that raise it.
refusals <- function(tried) {
  tried <- tried[!tried$right, ]
  where <- ifelse(nzchar(tried$argument), sprintf("%s(%s)", tried$name, tried$argument), tried$name)
  message <- sprintf("%s: %s", tried$class, tried$message)
  blocks <- lapply(split(where, factor(message, unique(message))), function(arguments) {
    paste(strwrap(toString(unique(arguments)), 120, indent = 4, exdent = 6), collapse = "\n")
  })
  paste0(names(blocks), "\n", unlist(blocks), collapse = "\n")
}
