# Sourced by tools/config.R: the linker flags for the Rust library on a system, named as by Sys.info(). They export only the
# entry point and omit the Rust library's debug information.
link_flags <- function(system) {
  switch(
    system,
    Linux = paste(
      # -S -x: symbols of other objects stay, because R CMD check looks for those of R
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
