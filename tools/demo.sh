#!/bin/sh
# Sets up the machine, builds the package and runs the demo: logistic regression on real data with a compiled program.
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh
install_base
install_package
install_plugin
exec Rscript --vanilla tools/demo.R
