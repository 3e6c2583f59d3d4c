"""Makes the Python environment of a checkout, for `make`: `python3 deploy/environment.py .venv`.

It only needs the standard library, and its syntax is that of old versions of Python, so that they can say
what they lack. An interrupted run leaves an environment without the file `.ready`; the next run starts again.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time

LEAST = (3, 11)
MEGABYTES = 700
"""The free disk space that the packages need while they are installed."""

TICK_S = 0.5


def main():
    """Make or update the environment; return the exit code."""
    venv = os.path.abspath(sys.argv[1])
    problem = _unfit_python() or _unfit_disk(os.path.dirname(venv))
    if problem:
        return _failed(problem)
    try:
        # Two calls of make at once: the second one waits, and then finds everything done.
        with open(os.path.join(os.path.dirname(venv), "requirements.lock")) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                _say("Another make is making the environment; waiting for it…")
                fcntl.flock(lock, fcntl.LOCK_EX)
            return 0 if _is_ready(venv) else _make(venv)
    except KeyboardInterrupt:
        return _failed("Interrupted. The next `make chat` starts this again.", 130)


def _make(venv):
    ready, began = os.path.join(venv, ".ready"), time.time()
    count = _count_packages()
    _say(f"Making Rumi's environment in {venv}: one time, {count} packages, about a minute.")
    new = not os.path.exists(ready)
    if new and _run("creating it", [sys.executable, "-m", "venv", "--clear", venv], 0):
        return 1
    pip = [os.path.join(venv, "bin", "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    pip += ["--no-input", "--progress-bar", "off", "--no-deps"]
    if _run("packages", [*pip, "--require-hashes", "-r", "requirements.lock"], count):
        return 1
    if _run("Rumi itself", [*pip, "--no-build-isolation", "-e", "."], 0):
        return 1
    with open(ready, "w"):
        pass
    _say(f"Ready after {time.time() - began:.0f} s.")
    return 0


def _is_ready(venv):
    try:
        at = os.stat(os.path.join(venv, ".ready")).st_mtime
        return all(os.stat(path).st_mtime <= at for path in ("requirements.lock", "pyproject.toml"))
    except OSError:
        return False


def _count_packages():
    with open("requirements.lock") as lock:
        return sum("==" in line for line in lock)


def _run(what, command, count):
    """Run a step, show its progress on a terminal, and explain its failure; return its exit code."""
    environment = dict(os.environ, LC_ALL="C", PIP_NO_COLOR="1")
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
        return f"The disk is full. Make room for about {MEGABYTES} MB, then run `make chat` again."
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
    if sys.version_info[:2] < LEAST:
        better = [name for name in ("python3.13", "python3.12", "python3.11") if _runs(name)]
        advice = (
            f"Run: make chat PYTHON={better[0]}"
            if better
            else "Install it (Debian, Ubuntu: sudo apt install python3.11 python3.11-venv), then run: "
            "make chat PYTHON=python3.11"
        )
        return f"Rumi needs Python 3.11 or later, and this is {_version()}. {advice}"
    if not sys.platform.startswith("linux"):
        return f"Rumi runs on Linux; this is {sys.platform}. Use a Linux machine, a virtual machine or WSL."
    try:
        import ensurepip  # noqa: F401  # Debian packs it apart
        import venv  # noqa: F401
    except ImportError:
        return _no_venv()
    return ""


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


def _unfit_disk(folder):
    free = shutil.disk_usage(folder).free // 10**6
    if free < MEGABYTES:
        return f"The disk has only {free} MB free; the packages need about {MEGABYTES} MB. Make room first."
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
