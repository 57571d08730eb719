# Before R 4.3, an operator has no method if its operands have different ones, and since then newer versions of bit64
# have R choose theirs. So bit64's operators and ours become the same functions there, which leave bit64's numbers to
# bit64.

disconnect_bit64 <- function() {
  remove_hook(packageEvent("bit64", "onLoad"), share_operators)
  if (isNamespaceLoaded("bit64")) {
    for (name in names(the$bit64_methods)) {
      registerS3method(name, "integer64", the$bit64_methods[[name]], asNamespace("bit64"))
    }
  }
}

share_operators <- function(...) {
  is_ours_chosen <- has_new_generics() &&
    !exists("chooseOpsMethod.integer64", asNamespace("bit64"), inherits = FALSE)
  if (is_ours_chosen) {
    return(invisible())
  }
  names <- c("+", "-", "*", "/", "^", "%%", "%/%", "==", "!=", "<", "<=", ">", ">=", "&", "|")
  names <- names[vapply(paste0(names, ".integer64"), exists, NA, asNamespace("bit64"), inherits = FALSE)]
  the$bit64_methods <- mget(paste0(names, ".integer64"), asNamespace("bit64"))
  names(the$bit64_methods) <- names
  for (name in names) {
    method <- shared_operator(name, the$bit64_methods[[name]])
    registerS3method(name, "integer64", method, baseenv())
    registerS3method(name, "PJRTBuffer", method, baseenv())
  }
}

shared_operator <- function(name, theirs) {
  force(name)
  force(theirs)
  function(e1, e2) {
    if (missing(e2)) {
      if (inherits(e1, "PJRTBuffer")) .Call(ffi_operator_1, name, e1, NULL) else theirs(e1)
    } else if (inherits(e1, "PJRTBuffer") || inherits(e2, "PJRTBuffer")) {
      .Call(ffi_operator_2, name, e1, e2)
    } else {
      theirs(e1, e2)
    }
  }
}
