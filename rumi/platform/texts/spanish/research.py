"""Research: what was read, and what cannot be."""

from typing import Final

RESEARCH: Final[dict[str, str]] = {
    "This research has read {count} sources and {size} bytes, and may read no more.": "Esta investigación leyó {count} fuentes y {size} bytes, y no puede leer más.",
    "Nothing was read, because nothing could be reached: {reasons}": "No se leyó nada, porque no se pudo llegar a nada: {reasons}",
    "Look at the network with: rumi doctor": "Mirá la red con: rumi doctor",
    "Answer with what was read.": "Respondé con lo que se leyó.",
    "There is no source {number}.": "No hay una fuente {number}.",
    "The list of sources has their numbers.": "La lista de fuentes tiene sus números.",
    "What was read cannot be stored: {reason}.": "Lo que se leyó no se puede guardar: {reason}.",
    "Free disk space.": "Liberá espacio en el disco.",
    "The folder {folder} cannot be used: {reason}.": "La carpeta {folder} no se puede usar: {reason}.",
}
