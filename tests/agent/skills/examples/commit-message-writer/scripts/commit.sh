#!/bin/sh
set -eu
message=$(realpath "$2")
cd "$1"
git commit --quiet --file "$message"
git log -1 --format='%an: %s'
