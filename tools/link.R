# Sourced by tools/config.R: the linker flags for the Rust library on a system, named as by Sys.info(). They export only
# the entry point and omit the Rust library's debug information.
link_flags <- function(system) {
  switch(
    system,
    Linux = paste(
      # all addresses are resolved at load time and read-only from then on; no executable stack
      "-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack",
      "-Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,-S -Wl,-x -ldl -lpthread -lm"
    ),
    Darwin = paste(
      "-Wl,-dead_strip -Wl,-exported_symbol,_R_init_pjrt -Wl,-S -Wl,-x",
      "-framework Security -framework SystemConfiguration -framework CoreFoundation -liconv"
    ),
    # src/pjrt-win.def lists the exports
    Windows = paste(
      "-Wl,--gc-sections -Wl,--strip-all",
      "-lws2_32 -ladvapi32 -luserenv -lbcrypt -lcrypt32 -lncrypt -lsecur32 -lntdll -liphlpapi"
    ),
    "-lm"
  )
}

# The command that removes the names of the Rust library's functions, which the linker keeps on Linux. The names of what
# the library uses stay, because R CMD check looks for R's.
strip_command <- function(system) {
  if (system == "Linux" && nzchar(Sys.which("strip"))) "strip -x $(SHLIB)" else ":"
}
