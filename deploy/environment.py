"""Makes the Python environment of a checkout, for `make`: `python3 deploy/environment.py .venv [PART…]`.

Without a part it installs what `rumi` needs (`default` in `requirements.lock`). A part is an extra of
`pyproject.toml`, `all` for all of them, or `everything`, which is also what tests and development need. What
was installed stays, and is updated with the rest. The file `.installed` in the environment lists the parts;
`.ready` says that they are everything. An interrupted run leaves both as they were; the next one continues.

It only needs the standard library, and its syntax is that of old versions of Python, so that they can say
what they lack.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

LEAST = (3, 11)
EVERYTHING = "everything"
MEGABYTES = {False: 300, True: 900}
"""The free disk space that the packages need while they are installed: without and with those for tests."""

TICK_S = 0.5


def main():
    """Make or update the environment; return the exit code."""
    venv, asked = os.path.abspath(sys.argv[1]), set(sys.argv[2:])
    problem = _unfit_python()
    if problem:
        return _failed(problem)
    try:
        # Two calls of make at once: the second one waits, and then finds everything done.
        with open(os.path.join(os.path.dirname(venv), "requirements.lock")) as lock:
            problem = _unknown_part(asked, _entries(lock.read()))
            if problem:
                return _failed(problem)
            _wait_for(lock)
            parts = _installed(venv) | asked
            if _is_current(venv) and parts <= _installed(venv):
                return _mark(venv, parts)
            problem = _unfit_disk(os.path.dirname(venv), EVERYTHING in parts)
            return _failed(problem) if problem else _make(venv, parts)
    except KeyboardInterrupt:
        return _failed("Interrupted. The next `make chat` starts this again.", 130)


def _wait_for(lock):
    import fcntl  # here: other systems have no such module, and get a sentence before

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        _say("Another make is making the environment; waiting for it…")
        fcntl.flock(lock, fcntl.LOCK_EX)


def _make(venv, parts):
    began = time.time()
    with open("requirements.lock") as lock:
        entries = _entries(lock.read())
    wanted = [entry for needed_by, entry in entries if _is_wanted(needed_by, parts)]
    python = os.path.join(venv, "bin", "python")
    new = not any(os.path.exists(os.path.join(venv, name)) for name in (".installed", ".ready"))
    present = set() if new else _present(venv)
    count = sum(_is_missing(entry, present) for entry in wanted)
    _say(f"{'Making' if new else 'Updating'} Rumi's environment in {venv}: one time, {count} packages.")
    if new and _run("creating it", [sys.executable, "-m", "venv", "--clear", venv], 0):
        return 1
    pip = [
        python,
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--progress-bar",
        "off",
    ]
    pip.append("--no-deps")
    if _install(pip, "packages", wanted, count):
        return 1
    # Only Rumi's own package needs the build backend, so most environments do without it.
    with tempfile.TemporaryDirectory() as backend:
        if EVERYTHING not in parts:
            build = [entry for needed_by, entry in entries if "build" in needed_by]
            if _install([*pip, "--target", backend], "the build backend", build, len(build)):
                return 1
        if _run("Rumi itself", [*pip, "--no-build-isolation", "-e", "."], 0, PYTHONPATH=backend):
            return 1
    _mark(venv, parts)
    _say(f"Ready after {time.time() - began:.0f} s.")
    return 0


def _install(pip, what, entries, count):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as chosen:
        chosen.write("\n".join(entries))
        chosen.flush()
        return _run(what, [*pip, "--require-hashes", "-r", chosen.name], count)


def _mark(venv, parts):
    with open(os.path.join(venv, ".marking"), "w") as marked:
        marked.write(" ".join(sorted(parts)) + "\n")
    os.replace(marked.name, os.path.join(venv, ".installed"))
    if EVERYTHING in parts:
        with open(os.path.join(venv, ".ready"), "w"):
            pass
    return 0


def _installed(venv):
    """Return the parts of an environment; one without a list has everything, by earlier versions of Rumi."""
    try:
        with open(os.path.join(venv, ".installed")) as marked:
            return set(marked.read().split())
    except OSError:
        return {EVERYTHING} if os.path.exists(os.path.join(venv, ".ready")) else {"default"}


def _is_current(venv):
    for name in (".installed", ".ready"):
        try:
            at = os.stat(os.path.join(venv, name)).st_mtime
        except OSError:
            continue
        if all(os.stat(path).st_mtime <= at for path in ("requirements.lock", "pyproject.toml")):
            return True
    return False


def _entries(lock):
    """Return the entries of the lock, each with the set of what needs it."""
    found = re.findall(r"^# (.*)\n((?:[^#\n].*\n?)+)", lock, re.MULTILINE)
    return [(set(needed_by.split(", ")), entry) for needed_by, entry in found]


def _is_wanted(needed_by, parts):
    if EVERYTHING in parts or "default" in needed_by:
        return True
    return not needed_by <= {"build", "dev"} if "all" in parts else bool(needed_by & parts)


def _unknown_part(asked, entries):
    known = {part for needed_by, _ in entries for part in needed_by} - {"build", "dev"}
    unknown = sorted(asked - known - {"all", EVERYTHING})
    if not unknown:
        return ""
    return f"Rumi has no extra {unknown[0]!r}. There are: all, {', '.join(sorted(known - {'default'}))}."


def _present(venv):
    """Return the names and versions of the installed packages, such as `mcp-2.3.0`."""
    folder = os.path.join(venv, "lib", f"python{_version()}", "site-packages")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return {name[: -len(".dist-info")].lower() for name in names if name.endswith(".dist-info")}


def _is_missing(entry, present):
    name, version = re.match(r"(\S+)==(\S+)", entry).groups()
    return f"{name.replace('-', '_')}-{version}" not in present


def _run(what, command, count, **variables):
    """Run a step, show its progress on a terminal, and explain its failure; return its exit code."""
    environment = dict(os.environ, LC_ALL="C", PIP_NO_COLOR="1", **variables)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, universal_newlines=True
    )
    began, done, shown, output = time.time(), 0, what, []
    os.set_blocking(process.stdout.fileno(), False)
    rest = ""
    try:
        while True:
            ended = process.poll() is not None
            piece = _read(process)
            rest += piece
            lines = rest.split("\n")
            rest = lines.pop()
            for line in lines:
                output.append(line)
                found = re.match(r"Collecting ([A-Za-z0-9._-]+)", line)
                if found:
                    done += 1
                    shown = f"{what}: {done} of {count}, {found.group(1)}"
                elif line.startswith("Installing collected"):
                    shown = what + ": unpacking"
            _progress(f"  {shown} · {time.time() - began:.0f} s")
            if ended and not piece:
                break
            time.sleep(TICK_S if not ended else 0)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        _progress("")
        raise
    output.append(rest)
    _progress("")
    if process.returncode:
        _failed(_reason("\n".join(output)))
        return process.returncode
    _say(f"  ✓ {what} · {time.time() - began:.0f} s")
    return 0


def _read(process):
    try:
        return process.stdout.read() or ""
    except (BlockingIOError, TypeError):  # nothing has been written
        return ""


def _reason(output):
    """Return one sentence about a failure of venv or pip, and what to do next."""
    if "No space left" in output or "Disk quota" in output:
        return f"The disk is full. Make room for about {MEGABYTES[False]} MB, then run `make chat` again."
    if "ensurepip" in output:
        return _no_venv()
    network = (
        r"name resolution|NewConnectionError|ConnectTimeout|ReadTimeout|Network is unreachable|ProxyError"
    )
    if re.search(network + r"|Connection refused|Max retries|CERTIFICATE_VERIFY_FAILED", output):
        return (
            "The package index cannot be reached. Check the network (or the variables PIP_INDEX_URL and "
            "HTTPS_PROXY), then run `make chat` again."
        )
    errors = [line for line in output.splitlines() if line.strip().lower().startswith("error")]
    last = (errors or output.strip().splitlines() or ["no output"])[-1].strip()
    return f"It failed: {last}\nRun `make clean`, then `make chat` again."


def _unfit_python():
    if not sys.platform.startswith("linux"):
        return _wrong_system()
    if sys.version_info[:2] < LEAST:
        better = [name for name in ("python3.14", "python3.13", "python3.12", "python3.11") if _runs(name)]
        advice = (
            f"Run: make chat PYTHON={better[0]}"
            if better
            else "Install it (Debian, Ubuntu: sudo apt install python3.11 python3.11-venv), then run: "
            "make chat PYTHON=python3.11"
        )
        return f"Rumi needs Python 3.11 or later, and this is {_version()}. {advice}"
    try:
        import ensurepip  # noqa: F401  # Debian packs it apart
        import venv  # noqa: F401
    except ImportError:
        return _no_venv()
    return ""


def _wrong_system():
    name = {"darwin": "macOS", "win32": "Windows", "cygwin": "Windows"}.get(sys.platform, sys.platform)
    way = "in WSL" if name == "Windows" else "in a virtual machine"
    return (
        f"Rumi runs on Linux only, and this is {name}. Run it {way}, or in Docker: "
        "docker build -t rumi -f deploy/Dockerfile ."
    )


def _runs(name):
    # A name on the PATH may be the shim of a version manager that has not activated this version.
    try:
        quiet = subprocess.DEVNULL
        return subprocess.call([name, "-c", "import venv, ensurepip"], stdout=quiet, stderr=quiet) == 0
    except OSError:
        return False


def _no_venv():
    return (
        "Python's module venv is missing. Install it (Debian, Ubuntu: "
        f"sudo apt install python{_version()}-venv), then run `make chat` again."
    )


def _version():
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _unfit_disk(folder, everything):
    free, needed = shutil.disk_usage(folder).free // 10**6, MEGABYTES[everything]
    if free < needed:
        return f"The disk has only {free} MB free; the packages need about {needed} MB. Make room first."
    return ""


def _progress(text):
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r\x1b[K" + text[:width])
        sys.stderr.flush()


def _say(text):
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _failed(sentence, code=1):
    _say("✗ " + sentence)
    return code


if __name__ == "__main__":
    sys.exit(main())
