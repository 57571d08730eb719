# Run by R CMD INSTALL: installs the shared library, and the compiler's helper where there is one.

put <- function(files, folder) {
  folder <- file.path(R_PACKAGE_DIR, paste0(folder, R_ARCH))
  dir.create(folder, recursive = TRUE, showWarnings = FALSE)
  copies <- file.path(folder, files)
  # a new file: a session may still run the old one
  unlink(copies)
  stopifnot(file.copy(files, copies))
  Sys.chmod(copies, "755")
}

put(Sys.glob(paste0("*", SHLIB_EXT)), "libs")
if (file.exists("pjrt-compiler")) {
  put("pjrt-compiler", "bin")
}
