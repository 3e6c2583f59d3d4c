"""What a model sees of a file: a picture scaled down, or a document's text, made in a confined process."""

from rumi.viewing.kinds import Kind, kind_of_file
from rumi.viewing.reading import ViewLimits, ViewRefused
from rumi.viewing.viewer import PICTURES_FOLDER, Seen, View, Viewer

__all__ = [
    "PICTURES_FOLDER",
    "Kind",
    "Seen",
    "View",
    "ViewLimits",
    "ViewRefused",
    "Viewer",
    "kind_of_file",
]
