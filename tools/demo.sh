#!/bin/sh
# Sets up the machine, builds the package and runs the demo: logistic regression on real data with a compiled program.
set -eu
cd "$(dirname "$0")/.."
. tools/setup.sh
install_base
install_package
install_plugin
Rscript --vanilla tools/demo.R
cat <<END

To go on, start R here with
  R_LIBS=$library R
or install the package for all sessions with R CMD INSTALL .
END
