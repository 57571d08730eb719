# Bad values, and what comes of giving them to every function of helper-bad-input.R.

# The objects that all are of, and those that are of no use any more.
input_objects <- function() {
  o <- routine_objects()
  o$with_option <- function(name, value, code) {
    old <- options(structure(list(value), names = name))
    on.exit(options(old))
    code
  }
  # as they were before something was saved there
  o$renew_paths <- function() {
    unlink(c(list.files(), "../a"))
    path_values(o$folder)
  }
  o$forget_registered <- function() {
    session <- getFromNamespace("the", "pjrt")
    session[["registered"]] <- list()
  }
  local(envir = o, {
    saved <- file.path(folder, "saved")
    data_type <- structure("f32", class = c("PJRTDataType", "DataType"))
    element_type <- elt_type(x)
    stages <- inspect_hlo(program)
    square <- pjrt_buffer(diag(2))
    donated <- pjrt_buffer(c(1, 2), "f64")
    pjrt_execute(compile(add_program("2xf64", donates)), donated, x)
    deleted <- pjrt_delete(pjrt_buffer(c(1, 2), "f64"))
    gone <- pjrt:::new_client(plugin, list(cpu_device_count = 1L))
    gone_device <- devices(gone)[[1L]]
    gone_memory <- memory_spaces(gone)[[1L]]
    gone_buffer <- pjrt_buffer(c(1, 2), "f64", device = gone_device)
    gone_add <- pjrt_compile(program, device = gone_device)
    gone_promise <- as_array_async(gone_buffer)
    close(gone)
    shut <- safetensors_open(model)
    close(shut)
  })
  o
}

# The bad values that any argument is given, by what they are.
plain_values <- function() {
  list(
    `NULL` = NULL, `NA` = NA, `NA_integer_` = NA_integer_, `NA_real_` = NA_real_, `NA_character_` = NA_character_,
    `NA_complex_` = NA_complex_, `list()` = list(), `list(1)` = list(1), `list(a = NULL)` = list(a = NULL),
    `a function` = function(x) x, `a primitive` = sum, `an environment` = new.env(), `a factor` = factor("a"),
    `a Date` = as.Date("2020-01-01"), `a time` = .POSIXct(0, "UTC"), `an S4 object` = methods::getClass("numeric"),
    `a formula` = y ~ x, `a call` = quote(f(x)), `a symbol` = quote(f), `an expression` = expression(1),
    `a pairlist` = pairlist(a = 1), `1i` = 1i, `raw()` = raw(), `as.raw(0:2)` = as.raw(0:2),
    `a data frame` = data.frame(a = 1), `a matrix` = matrix(1:4, 2), `integer64` = bit64::as.integer64(1),
    `logical()` = logical(), `integer()` = integer(), `double()` = double(), `character()` = character(),
    `TRUE` = TRUE, `c(TRUE, FALSE)` = c(TRUE, FALSE), `1L` = 1L, `0L` = 0L, `-1L` = -1L, `-1` = -1, `1.5` = 1.5,
    `1:2` = 1:2, `1:1000` = 1:1000, `c(1, NA)` = c(1, NA), `NaN` = NaN, `Inf` = Inf, `-Inf` = -Inf, `1e300` = 1e300,
    `-1e300` = -1e300, `2^31` = 2^31, `-2^31` = -2^31, `2^53` = 2^53, `1e18` = 1e18, `1e-300` = 1e-300,
    `""` = "", `"a"` = "a", `c("a", "b")` = c("a", "b"), `c("a", NA)` = c("a", NA), `c(n = "a")` = c(n = "a"),
    `a long string` = strrep("a", 1e5), `invalid UTF-8` = `Encoding<-`("\xff\xfe", "UTF-8"),
    `latin1` = `Encoding<-`("\xe9", "latin1"),
    `bytes` = `Encoding<-`("\xe9", "bytes"), `a line end` = "a\nb", `"../a"` = "../a", `"cpu:9"` = "cpu:9",
    `"%s"` = "%s", `a null pointer` = null_pointer()
  )
}

null_pointer <- function() unserialize(serialize(methods::new("externalptr"), NULL))

# Our own objects: one of each class, and those that are of no use any more.
object_values <- function(o) {
  with(o, list(
    `a plugin` = plugin, `a client` = client, `a device` = here, `a memory` = memory, `a buffer` = x, `a program` = program,
    `an executable` = add, `execution options` = options, `compile options` = pjrt_compile_options(),
    `an array promise` = array, `a compiling promise` = compiled, `a model file` = opened,
    `a donated buffer` = donated, `a deleted buffer` = deleted, `a closed client` = gone, `a closed device` = gone_device,
    `a closed memory` = gone_memory, `a closed buffer` = gone_buffer, `a closed executable` = gone_add,
    `a closed promise` = gone_promise, `a closed model file` = shut
  ))
}

# What has a class of ours and is none of its objects.
impostors <- function(class, o) {
  pointer <- if (class == "PJRTProgram") pjrt_scalar(1) else pjrt_program(o$text)
  loaded <- Find(function(x) inherits(x, class), object_values(o))
  made <- list(
    `a list` = list(), `a number` = 1, `a string` = "a", `a function` = function() NULL, `an environment` = new.env(),
    `a null pointer` = null_pointer(), `a foreign pointer` = pointer
  )
  made <- lapply(made, `attr<-`, "class", class)
  if (!is.null(loaded)) made[["one from a file"]] <- unserialize(serialize(loaded, NULL))
  structure(made, names = sprintf("%s as %s", names(made), class))
}

# Paths at which there is nothing that could be read or written.
path_values <- function(folder) {
  folder <- file.path(folder, "paths")
  unlink(folder, recursive = TRUE)
  dir.create(folder)
  at <- function(name) file.path(folder, name)
  dir.create(at("folder"))
  file.symlink(at("nothing"), at("dangling"))
  file.symlink(at("loop"), at("loop"))
  file.create(at("empty"))
  writeBin(as.raw(0:255), at("bytes"))
  list(
    `a folder` = at("folder"), `a missing file` = at("missing"), `a missing folder` = at("missing/a"),
    `a file as folder` = at("empty/a"), `a dangling link` = at("dangling"), `a link to itself` = at("loop"),
    `an empty file` = at("empty"), `a file of bytes` = at("bytes"), `a long name` = at(strrep("a", 300)),
    `a long path` = paste0(folder, strrep("/a", 3000)), `/proc/self/mem` = "/proc/self/mem", `/dev/full` = "/dev/full",
    `/dev/null` = "/dev/null", `a URL` = "http://127.0.0.1:9/a"
  )
}

# The methods that are registered, those for generics of packages that may not be there as well.
registered_methods <- function() {
  parsed <- parseNamespaceFile("pjrt", dirname(system.file(package = "pjrt")))$S3methods
  generics <- sub("^.*::", "", parsed[, 1L])
  methods <- data.frame(generic = generics, class = parsed[, 2L], name = paste(generics, parsed[, 2L], sep = "."))
  methods[!duplicated(methods$name), ]
}

is_our_class <- function(class) grepl("PJRT", class)

# The function behind a row: an exported one, or the generic of a method, where there is one to call.
row_function <- function(method, name, env) {
  if (nrow(method) == 0L) {
    as.name(name)
  } else if (exists(method$generic, env)) {
    as.name(method$generic)
  } else {
    getFromNamespace(name, "pjrt")
  }
}

# What is to be tried: a call for each argument of each function, and the values that its `bad` is in turn. A call without
# any has nothing but right values.
input_cases <- function(o) {
  methods <- registered_methods()
  kinds <- input_kinds()
  plain <- c(plain_values(), object_values(o))
  paths <- path_values(o$folder)
  known <- list()
  impostors_of <- function(class) {
    if (is.null(known[[class]])) known[[class]] <<- impostors(class, o)
    known[[class]]
  }
  # `self` is the class whose method takes them
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
        call = right, argument = if (nzchar(label)) label else paste0("..", i), kind = kind, labels = arguments[[i]]$labels,
        values = values(kind, if (i == 1L) self)
      ))
    }))
  }
  of_use <- function(name, use) {
    kind <- kinds[[use$kind]]
    list(list(
      name = name, argument = "", call = use$expr, values = values(kind), after = use$after, refuses = FALSE, kind = kind,
      labels = use$labels
    ))
  }
  rows <- input_rows()
  uses <- input_uses()
  cases <- c(
    unlist(Map(of_row, names(rows), rows), FALSE, FALSE), unlist(Map(of_use, names(uses), uses), FALSE, FALSE)
  )
  Filter(Negate(is.null), cases)
}

# Whether a value is right here after all.
is_right <- function(case, value, label) {
  if (case$refuses || paste0("!", label) %in% case$labels) {
    return(FALSE)
  }
  label %in% case$labels || case$kind$accepts(value, label)
}

# Tries all cases: a data frame with a row for each call.
try_inputs <- function(cases, o) {
  sink(nullfile())
  on.exit(sink())
  all <- lapply(cases, function(case) {
    labels <- names(case$values) %||% "right values"
    tried <- lapply(seq_along(labels), function(i) {
      env <- new.env(parent = o)
      if (length(case$values) > 0L) assign("bad", case$values[[i]], env)
      right <- length(case$values) == 0L && !case$refuses || length(case$values) > 0L && is_right(case, env$bad, labels[[i]])
      c(case[c("name", "argument")], value = labels[[i]], right = right, outcome(case, env, o$folder))
    })
    column <- function(name) vapply(tried, function(one) format(one[[name]]), "")
    list(
      name = column("name"), argument = column("argument"), value = column("value"), right = column("right") == "TRUE",
      class = column("class"), message = column("message"), warning = column("warning")
    )
  })
  columns <- names(all[[1L]])
  as.data.frame(lapply(structure(columns, names = columns), function(name) unlist(lapply(all, `[[`, name))))
}

# What one call comes to: "accepted", the kind of our error, or "foreign", the message, and a warning. What the plugin cannot
# do is not the input's fault.
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
        list(class = sub("pjrt_error_", "", class(e)[[1L]]), message = masked(conditionMessage(e), env$bad, folder))
      },
      error = function(e) list(class = "foreign", message = conditionMessage(e))
    ),
    warning = function(w) {
      warning <<- conditionMessage(w)
      invokeRestart("muffleWarning")
    },
    pjrt_message = function(m) invokeRestart("muffleMessage")
  )
  c(told, warning = warning)
}

# A message without the value that it quotes, the names of folders, and what is in memory.
masked <- function(message, value, folder) {
  message <- gsub(folder, "<folder>", message, fixed = TRUE)
  message <- gsub(normalizePath("../.."), "<folder>", message, fixed = TRUE)
  # one line for each client of the session
  message <- gsub("i The cpu client has [^\n]*(\ni The cpu client has [^\n]*)*", "i The cpu client has <buffers>.", message)
  one <- !is.object(value) && is.atomic(value) && length(value) == 1L && !is.na(value)
  if (one && is.character(value) && Encoding(value) != "bytes") {
    quoted <- c(sprintf("'%s'", value), sprintf("\"%s\"", value), if (nchar(enc2utf8(value), "bytes") > 1L) enc2utf8(value))
    for (word in quoted) message <- gsub(word, "<given>", message, fixed = TRUE, useBytes = TRUE)
  }
  words <- c(pjrt:::given(value), if (one && is.numeric(value)) c(sprintf("%.0f", value), value))
  for (before in c(", not ", "; it is ", "not with ", "not by ", "bounds: ", "no tensor ")) {
    for (word in unique(words)) {
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

# The refusals as a text: for each argument its messages, each with the values that it is said of. Arguments of which the
# same is said come together.
refusals <- function(tried) {
  tried <- tried[!tried$right, ]
  where <- ifelse(nzchar(tried$argument), sprintf("%s(%s)", tried$name, tried$argument), tried$name)
  said <- sprintf("* %s: %s", tried$class, tried$message)
  blocks <- vapply(split(seq_along(said), factor(where, unique(where))), FUN.VALUE = "", function(rows) {
    values <- split(tried$value[rows], factor(said[rows], unique(said[rows])))
    # those of which most is true
    most <- which.max(lengths(values))
    if (length(values[[most]]) > 30L) values[[most]] <- sprintf("all the other %d", length(values[[most]]))
    shown <- vapply(values, function(x) paste(strwrap(toString(x), 120, indent = 6, exdent = 6), collapse = "\n"), "")
    paste0(names(values), "\n", shown, collapse = "\n")
  })
  heads <- tapply(names(blocks), factor(blocks, unique(blocks)), function(x) paste(strwrap(toString(x), 120), collapse = "\n"))
  paste0(heads, "\n", names(heads), collapse = "\n\n")
}
