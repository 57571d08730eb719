# What this machine has for CUDA: a list of
# * `cuda`, `module`: the newest CUDA that the driver's library has, and the version of the kernel's module; NA when not there.
# * `needs`: the CUDA that the plugin needs, NA when its file does not tell.
# * `libraries`: a data frame with a row for each library that the plugin uses: its `name`; its `place` ("loaded", "file"
#   or "missing"); the `path` of the file; what it is needed for (`only_for`, NA when for everything); and the `problem`
#   that a file has.
# Without `plugin`, the path of a plugin's library, of the driver alone. Nothing is loaded but the driver's library.
cuda_report <- function(plugin = "") {
  report <- call_native(ffi_cuda_report, enc2utf8(plugin))
  of_driver <- lapply(report[c("cuda", "module", "needs")], function(x) x %||% NA_character_)
  libraries <- as.data.frame(report[c("name", "place", "path", "only_for", "problem")], stringsAsFactors = FALSE)
  c(of_driver, list(libraries = libraries))
}

# Names folders of Python packages in which CUDA's libraries are looked for besides the plugin's own.
cuda_look_in <- function(folders) {
  call_native(ffi_cuda_look_in, enc2utf8(folders))
}
