"""The program of the first process: its source, its version, and the image that is built by hand."""

from importlib import resources

from rumi.sandbox.docker.image import FORMAT
from runner.init import VERSION, source


def test_the_source_the_module_and_the_dockerfile_name_one_version() -> None:
    dockerfile = resources.files("runner").joinpath("Dockerfile").read_text("utf-8")
    assert f'#define VERSION "rumi-init {VERSION}"' in source().decode()
    assert f'"rumi-init {VERSION}"' in dockerfile
    assert f'rumi.runner.init="{VERSION}"' in dockerfile
    assert f'rumi.runner="{FORMAT}"' in dockerfile
