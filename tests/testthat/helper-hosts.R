# Two hosts for a test: namespaces of Linux with a network and a name of their own each, and a link between them. They
# share files and processors. Returns their addresses, a function that makes a command run on one of them, and Open
# MPI's launcher on the first, which starts half of its processes on the second. Skips the test where the system or its
# user may not do this.
two_hosts <- function(env = parent.frame()) {
  if (any(Sys.which(c("ip", "unshare", "mpirun.openmpi")) == "")) testthat::skip("no ip, unshare or mpirun.openmpi")
  id <- Sys.getpid() %% 60000L
  hosts <- paste0("pj", id, c("a", "b"))
  subnet <- sprintf("10.%d.%d", 200L + id %/% 250L %% 50L, id %% 250L)
  addresses <- paste0(subnet, ".", 1:2)
  ip <- function(...) {
    done <- processx::run("ip", c(...), error_on_status = FALSE)
    if (done$status != 0L) testthat::skip(paste("no network namespaces:", done$stderr))
  }
  withr::defer(for (host in hosts) processx::run("ip", c("netns", "del", host), error_on_status = FALSE), envir = env)
  for (host in hosts) ip("netns", "add", host)
  ip(
    "link", "add", hosts[[1L]], "netns", hosts[[1L]], "type", "veth", "peer", "name", hosts[[2L]], "netns", hosts[[2L]]
  )
  for (i in 1:2) {
    ip("-n", hosts[[i]], "addr", "add", paste0(addresses[[i]], "/24"), "dev", hosts[[i]])
    for (device in c("lo", hosts[[i]])) ip("-n", hosts[[i]], "link", "set", device, "up")
  }
  # called with a host's name and the words of a command
  agent <- withr::local_tempfile(.local_envir = env)
  writeLines(c(
    "#!/bin/sh", "host=$1", "shift",
    "exec ip netns exec \"$host\" unshare --uts sh -c 'hostname \"$0\" && eval exec \"$*\"' \"$host\" \"$@\""
  ), agent)
  Sys.chmod(agent, "700")
  on <- function(i) c(agent, hosts[[i]])
  sent <- function() {
    counter <- file.path("/sys/class/net", hosts[[1L]], "statistics/tx_bytes")
    as.numeric(processx::run(agent, c(hosts[[1L]], "cat", counter))$stdout)
  }
  launcher <- c(
    on(1L), "mpirun.openmpi", "--mca", "plm_rsh_agent", agent, "--host", paste0(hosts, ":2", collapse = ",")
  )
  list(addresses = addresses, on = on, launcher = launcher, sent = sent)
}
