# Sourced by tools/config.R: the flags that link the Rust library, on the system that Sys.info() names so. Only the entry
# point is exported, and the Rust library's debug information is left out.
link_flags <- function(system) {
  switch(
    system,
    Linux = "-Wl,--gc-sections -Wl,--exclude-libs,ALL -Wl,--strip-all -ldl -lpthread -lm",
    Darwin = paste(
      "-Wl,-dead_strip -Wl,-exported_symbol,_R_init_pjrt -Wl,-S -Wl,-x",
      "-framework Security -framework SystemConfiguration -framework CoreFoundation -liconv"
    ),
    # src/pjrt-win.def names what is exported
    Windows = paste(
      "-Wl,--gc-sections -Wl,--strip-all",
      "-lws2_32 -ladvapi32 -luserenv -lbcrypt -lcrypt32 -lncrypt -lsecur32 -lntdll -liphlpapi"
    ),
    "-lm"
  )
}
