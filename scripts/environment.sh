# Sourced by the scripts beside it: makes .venv once, and again only when what it was made from has changed.
#
#   ensure_environment ""      the package
#   ensure_environment "dev"   the package with what its tests need
#
# STITCHCUDA_PYTHON=/path/to/python picks the interpreter. STITCHCUDA_VENV=none uses that interpreter's own
# packages instead of making an environment (a machine without a network that has them all).

say() { printf '%s\n' "stitchcuda: $*" >&2; }

fail() { say "$*"; exit 3; }

find_python() {
  local candidate
  for candidate in ${STITCHCUDA_PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  fail "no Python 3.11 or newer found; install one, or set STITCHCUDA_PYTHON=/path/to/python"
}

ensure_environment() {
  local extras=$1 python wanted stamp
  python=$(find_python) || exit 3
  command -v g++ >/dev/null || fail "g++ is missing; install a C++17 compiler (Debian, Ubuntu: apt-get install g++)"
  if [ "${STITCHCUDA_VENV:-}" = none ]; then
    PYTHON=$python
    export PYTHONPATH="$PWD/src${PYTHONPATH:+:$PYTHONPATH}"
    return
  fi
  PYTHON=$PWD/.venv/bin/python
  stamp=.venv/.made-from
  wanted=$({ cat pyproject.toml constraints.txt; "$python" -VV; } | sha256sum | cut -d' ' -f1)
  # The dev environment serves both commands.
  if [ -x "$PYTHON" ] && [ -f "$stamp" ] && { [ "$(cat "$stamp")" = "$wanted dev" ] || [ "$(cat "$stamp")" = "$wanted $extras" ]; }; then
    return
  fi
  say "making the environment in .venv (once; a few minutes, most of it PyTorch)"
  "$python" -m venv .venv || fail "cannot make .venv; Debian and Ubuntu need: apt-get install python3-venv"
  # The pinned torch first: asked for by name and version, a local CPU build is taken where there is one.
  "$PYTHON" -m pip install --quiet --disable-pip-version-check "$(grep '^torch==' constraints.txt)" ||
    fail "installing PyTorch failed; see the lines above"
  "$PYTHON" -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".${extras:+[$extras]}" ||
    fail "installing the packages failed; see the lines above"
  printf '%s' "$wanted $extras" >"$stamp"
  say "environment ready"
}
