"""The page's icons as PNG, drawn like `icon.svg`, for browsers that install the page. Run it by hand."""

from pathlib import Path
from typing import Final

from PIL import Image, ImageDraw

TARGET: Final = Path(__file__).parents[2] / "rumi" / "channels" / "page" / "static" / "icons"
GROUND: Final = "#3d5afe"
FINE: Final = 4
"""How many times larger the icons are drawn, before they are reduced to smooth edges."""

STROKES: Final = (((10, 24), (10, 8), (17, 8)), ((10, 18), (18, 18)), ((18.6, 17.75), (22.5, 24)))
"""The straight lines of the R, in the units of the drawing (32 by 32). The bowl is an arc."""

BOWL: Final = (12, 8, 22, 18)


def drawn(size: int, *, share: float = 1.0, round_corners: bool = True) -> Image.Image:
    """Return the icon with that many pixels; the R takes `share` of its usual size."""
    pixels = size * FINE
    image = Image.new("RGBA", (pixels, pixels), (0, 0, 0, 0))
    draw = ImageDraw.Draw(image)
    corner = pixels / 4 if round_corners else 0
    draw.rounded_rectangle((0, 0, pixels - 1, pixels - 1), corner, GROUND)

    def place(value: float) -> float:
        return (16 + (value - 16) * share) * pixels / 32

    width = 3 * share * pixels / 32
    for line in STROKES:
        points = [(place(x), place(y)) for x, y in line]
        draw.line(points, "white", round(width))
        for x, y in points:
            draw.ellipse((x - width / 2, y - width / 2, x + width / 2, y + width / 2), "white")
    left, top, right, bottom = map(place, BOWL)
    half = width / 2  # an arc's width goes inwards
    draw.arc((left - half, top - half, right + half, bottom + half), -91, 91, "white", round(width))
    return image.resize((size, size), Image.Resampling.LANCZOS)


def write() -> None:
    """Write the icons."""
    TARGET.mkdir(exist_ok=True)
    for name, image in {
        "192.png": drawn(192),
        "512.png": drawn(512),
        # Systems cut a maskable icon to their own shape: what counts stays within its inner 80 %.
        "maskable.png": drawn(512, share=0.8, round_corners=False),
        "touch.png": drawn(180, share=0.9, round_corners=False),
    }.items():
        image.save(TARGET / name, optimize=True)


if __name__ == "__main__":
    write()
