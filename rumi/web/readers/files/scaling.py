"""Scaling of pictures in a confined process. The scaled picture is encoded again, without metadata."""

from io import BytesIO
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS: Final = ("JPEG", "PNG", "GIF", "WEBP", "BMP")
"""The supported formats. Each format has one decoder, which uses no threads and opens no files."""

MOST_PIXELS: Final = 64_000_000
"""Maximum number of pixels.

The header is checked first, so that no memory is allocated for a larger picture.
"""

SCALED_PIXELS: Final = 1_200_000
"""Maximum number of pixels of a scaled picture; see `PER_PICTURE` in `rumi.models.model`."""

_ORIENTATION: Final = 0x0112
_QUALITIES: Final = (85, 70, 50, 30)
_LOSSLESS: Final = ("PNG", "GIF", "BMP")


class NoPictureError(Exception):
    """The picture cannot be read. The message is a clause that completes a sentence."""


def load() -> None:
    """Import every module that a picture may need, because the confined process cannot open files."""
    import copy  # noqa: F401

    from PIL import (  # noqa: F401
        BmpImagePlugin,
        GifImagePlugin,
        Image,
        MpoImagePlugin,
        TiffImagePlugin,
        WebPImagePlugin,
    )

    Image.preinit()
    sample, exif = BytesIO(), Image.Exif()
    exif[_ORIENTATION] = 6
    Image.new("RGB", (8, 8)).save(sample, "JPEG", exif=exif)
    for image_format in ("PNG", "JPEG"):
        scaled(sample.getvalue(), 4, 100_000, lossless=image_format == "PNG")


def scaled(body: bytes, most_px: int, most_bytes: int, *, lossless: bool | None = None) -> dict[str, object]:
    """Scale the first frame of a picture, turned upright; return it with facts about the original.

    The longer side has at most `most_px` pixels, and the data at most `most_bytes` bytes. The result is a PNG
    if the original was lossless and the PNG fits these limits; otherwise it is a JPEG.

    Raises:
        NoPictureError: The picture is too large, broken, or not in one of the supported `FORMATS`.
    """
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = None  # checked here, before anything is decoded
    try:
        with Image.open(BytesIO(body), formats=FORMATS) as opened:
            width, height, kind = opened.width, opened.height, str(opened.format)
            if width * height > MOST_PIXELS:
                raise NoPictureError(f"its {width} x {height} pixels are more than {MOST_PIXELS:,}")
            frames = int(getattr(opened, "n_frames", 1))
            share = min(1.0, most_px / max(width, height), (SCALED_PIXELS / (width * height)) ** 0.5)
            size = max(1, int(width * share)), max(1, int(height * share))
            opened.draft("RGB", size)
            opened.seek(0)
            image = _plain(opened)
            image.thumbnail(size, Image.Resampling.LANCZOS)
            orientation = opened.getexif().get(_ORIENTATION, 1)
            turned = {3: 180, 6: 270, 8: 90}
            flipped = {2: Image.Transpose.FLIP_LEFT_RIGHT, 4: Image.Transpose.FLIP_TOP_BOTTOM}
            flipped |= {5: Image.Transpose.TRANSPOSE, 7: Image.Transpose.TRANSVERSE}
            if orientation in turned:
                image = image.rotate(turned[orientation], expand=True)
            elif orientation in flipped:
                image = image.transpose(flipped[orientation])
    except NoPictureError:
        raise
    except UnidentifiedImageError:
        raise NoPictureError("its format is unknown, or it is broken") from None
    except MemoryError:
        raise NoPictureError("it takes too much memory") from None
    except Exception as error:  # noqa: BLE001 - decoders raise what they like
        raise NoPictureError(f"it is broken ({type(error).__name__})") from None
    keep = kind in _LOSSLESS if lossless is None else lossless
    media_type, data = _written(image, most_bytes, lossless=keep)
    about = {"format": kind, "width": width, "height": height, "frames": frames}
    return about | {"media_type": media_type, "data": data, "size": image.size}


def _plain(image: "Image") -> "Image":
    """Return the picture in RGB, on a white background."""
    from PIL import Image

    if image.mode.startswith("I;16") or image.mode == "I":  # 16 bits: PIL would clip instead of scale
        image = image.convert("I").point(lambda value: value / 256).convert("L")
    if "A" in image.getbands() or "transparency" in image.info:
        clear = image.convert("RGBA")
        white = Image.new("RGBA", clear.size, "white")
        white.alpha_composite(clear)
        image = white
    return image.convert("RGB")


def _written(image: "Image", most_bytes: int, *, lossless: bool) -> tuple[str, bytes]:
    image.info.clear()  # comments and colour profiles would otherwise be written to the result
    if lossless and len(data := _encoded(image, "PNG", optimize=True)) <= most_bytes:
        return "image/png", data
    while True:
        for quality in _QUALITIES:
            data = _encoded(image, "JPEG", quality=quality)
            if len(data) <= most_bytes or max(image.size) <= 16:
                return "image/jpeg", data
        image = image.resize((max(1, image.width // 2), max(1, image.height // 2)))


def _encoded(image: "Image", kind: str, **options: object) -> bytes:
    out = BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()
