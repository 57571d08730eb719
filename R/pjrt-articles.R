#' Read the articles
#'
#' `vignette("data", package = "pjrt")` opens the article "Arrays on devices", if it is installed.
#' `vignette(package = "pjrt")` lists the installed articles. R builds articles together with the source package, so
#' `R CMD INSTALL` of a clone does not install them.
#'
#' @section Articles that are not installed:
#' The articles are R Markdown files in the folder `vignettes` of the sources, which any editor shows. To read them with
#' their results, use one of these in a clone:
#' * `rmarkdown::render("vignettes/data.Rmd")` makes one article. It needs the packages knitr and rmarkdown, and pandoc.
#' * `R CMD build .` and then `R CMD INSTALL` of the file that it makes install all articles that have a name below.
#' * `sh tools/site.sh` sets up a Debian or Ubuntu machine, and makes the website in the folder `docs`, with all
#'   articles and help pages.
#'
#' @section Start here:
#' * `vignette("pjrt")`: Get started
#' * `vignette("data")`: Arrays on devices
#' * `vignette("operators")`: Operators and fused programs
#' * `vignette("programs")`: Programs and executables
#' * `vignette("waiting")`: Asynchronous execution
#' * `vignette("stablehlo")`: StableHLO for R users
#' * `vignette("r-in-programs")`: R functions in programs
#' @section Models:
#' * `vignette("jax")`: A JAX model in R
#' * `vignette("pytorch")`: A PyTorch model in R
#' * `vignette("train")`: Train a flax model with optax in R
#' * `vignette("python")`: Arrays shared with Python
#' @section Hardware:
#' * `vignette("plugins")`: Plugins and hardware
#' * `vignette("several-devices")`: Several devices
#' * `vignette("workers")`: Several processes
#' * `vignette("cluster")`: On a cluster
#' @section In depth:
#' * `vignette("slow")`: Why is my program slow?
#' * `vignette("event-loop")`: Shiny and other event loops
#' * `vignette("using-pjrt")`: Using pjrt in your package
#' @section On the website only:
#' These are in the folder `vignettes/articles`:
#' * `which-function.Rmd`: Which function?
#' * `coming-from.Rmd`: Coming from torch, tensorflow, reticulate + JAX
#' * `demo.Rmd`: The demo
#' * `asynchronous.Rmd`: Thinking asynchronously
#' * `loading-a-model.Rmd`: Loading a model
#' * `models-in-files.Rmd`: Models in files
#' * `transformer.Rmd`: A transformer in Hugging Face's layout
#' * `installation.Rmd`: Installation and settings
#' * `many-processes.Rmd`: A thousand processes
#' * `performance.Rmd`: Performance
#' * `reliability.Rmd`: Reliability
#' @seealso [pjrt-package], the functions by task
#' @examples
#' # the names of the articles that are installed
#' installed <- vignette(package = "pjrt")$results[, "Item"]
#' installed
#' @name pjrt_articles
NULL
