#!/usr/bin/env bash
# Builds the image on a base made with debootstrap and runs it with the options of compose.yaml, on a machine
# that reaches Debian's mirror and a Python package index, but no container registry:
#   sudo deploy/try-image.sh
# It needs Docker, debootstrap and python3-venv; about five minutes and 3 GB of disk. It ends and removes what it
# starts; the images rumi-base:bookworm and rumi stay, as a cache of the next run.
set -euo pipefail
cd "$(dirname "$0")/.."

base=rumi-base:bookworm
port=${PORT:-18799} # of the packages' server; the same one each time, so that Docker's cache is of use
name=rumi-try-$$
scratch=$(mktemp -d)
finish() {
    docker rm --force "$name" >/dev/null 2>&1 || true
    docker volume rm "$name" >/dev/null 2>&1 || true
    [ -z "${server:-}" ] || kill "$server" 2>/dev/null || true
    rm -rf "$scratch"
}
trap finish EXIT
step() { printf '%4d s  %s\n' "$SECONDS" "$*"; }
fail() { echo "✗ $*" >&2; exit 1; }

for program in docker debootstrap python3; do
    command -v "$program" >/dev/null || fail "$program is missing"
done

if ! docker image inspect "$base" >/dev/null 2>&1; then
    step "base: debootstrap bookworm"
    debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv bookworm "$scratch/root" \
        "${MIRROR:-http://deb.debian.org/debian}" >"$scratch/debootstrap" || { tail "$scratch/debootstrap"; exit 1; }
    tar -C "$scratch/root" -c . | docker import - "$base" >/dev/null
    rm -rf "$scratch/root"
fi

# The build reaches no index by itself here: this machine's pip downloads, with its own settings, and a server on
# the loopback passes the files on. The build checks their hashes, as always.
step "packages: download"
wheels=${WHEELS:-$scratch/wheels}
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" download --quiet --no-deps --require-hashes -r requirements.lock -d "$wheels"
"$scratch/venv/bin/pip" install --quiet --no-index --find-links "$wheels" pyyaml
python3 -m http.server --bind 127.0.0.1 --directory "$wheels" "$port" >"$scratch/server" 2>&1 &
server=$!
printf 'FROM %s\nENV PIP_NO_INDEX=1 PIP_FIND_LINKS=http://127.0.0.1:%s/\n' "$base" "$port" >"$scratch/Dockerfile"

step "image: docker build"
build() { docker build "$@" >"$scratch/build" 2>&1 || { tail -n 20 "$scratch/build"; fail "docker build"; }; }
build --tag rumi-base:offline - <"$scratch/Dockerfile"
build --network host --build-arg BASE=rumi-base:offline --build-arg COMMIT="$(git rev-parse HEAD 2>/dev/null || true)" \
    --tag rumi --file deploy/Dockerfile .
step "image: $(docker image inspect --format '{{.Size}}' rumi | awk '{printf "%.0f MB", $1 / 1e6}')"

# The options of `docker run` that mean what compose.yaml says, one word a line. Docker of Debian 12 has no Compose
# that knows systempaths=unconfined.
"$scratch/venv/bin/python" - "$name" >"$scratch/options" <<'PYTHON'
import sys

import yaml

service = yaml.safe_load(open("deploy/compose.yaml"))["services"]["rumi"]
for key in ("image", "build", "restart", "stop_grace_period", "ports"):
    service.pop(key, None)  # the trial's own business
words = {"init": ["--init"], "read_only": ["--read-only"]}
flags = {"cap_drop": "--cap-drop", "security_opt": "--security-opt", "tmpfs": "--tmpfs", "volumes": "--volume"}
flags |= {"mem_limit": "--memory", "pids_limit": "--pids-limit"}
for key, value in service.items():
    if key in words and value is True:
        print(*words[key], sep="\n")
        continue
    for one in value if isinstance(value, list) else [value]:
        text = str(one).replace("seccomp=", "seccomp=deploy/").replace("home:", sys.argv[1] + ":")
        print(flags[key], text, sep="\n")  # a key that is not known here ends the trial
PYTHON
mapfile -t options <"$scratch/options"
echo "       docker run ${options[*]}"
# Without keys of models, the demo answers.
once() { docker run --rm "${options[@]}" rumi "$@"; }

step "rumi --version, rumi doctor"
once --version
once doctor || fail "rumi doctor"
step "a turn that runs a command in bubblewrap"
once chat -p '$ echo "six times seven is $((6 * 7))"; id -u; ls /' 2>&1 | tee "$scratch/turn"
grep -q '^six times seven is 42' "$scratch/turn" || fail "the command did not run"

step "rumi serve, until its health check succeeds"
docker run --detach --name "$name" --health-interval 2s --publish 127.0.0.1:8080:8080 "${options[@]}" rumi >/dev/null
for _ in $(seq 120); do
    health=$(docker inspect --format '{{.State.Health.Status}}' "$name")
    [ "$health" != healthy ] || break
    sleep 1
done
[ "$health" = healthy ] || { docker logs "$name" | tail -n 20; fail "it is $health"; }
python3 -c 'import urllib.request as u; print("page:", u.urlopen("http://127.0.0.1:8080/healthz", timeout=5).status)'
docker exec "$name" rumi status | head -n 5
step "SIGTERM"
docker stop --time 60 "$name" >/dev/null
code=$(docker inspect --format '{{.State.ExitCode}}' "$name")
[ "$code" = 0 ] || fail "it ended with $code"
step "all of it worked"
