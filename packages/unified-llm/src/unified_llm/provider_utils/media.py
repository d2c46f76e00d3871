"""Local files given where a URL may stand (section 3.5)."""

import mimetypes
from pathlib import Path

from unified_llm.spec.errors import ConfigurationError

# What mimetypes doesn't know, or only where the system's tables do.
_MEDIA_TYPES = {
    ".webp": "image/webp",
    ".heic": "image/heic",
    ".heif": "image/heif",
    ".md": "text/markdown",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".flac": "audio/flac",
    ".ogg": "audio/ogg",
    ".m4a": "audio/mp4",
}
_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    "audio/x-wav": "audio/wav",
}


def load_media(url: str) -> tuple[bytes, str] | None:
    """The bytes and the media type of a local file, or None if `url` is no local path.

    A path starts with `/`, `./` or `~`. The media type follows from the extension. Raises ConfigurationError if the
    file can't be read.
    """
    if not url.startswith(("/", "./", "~")):
        return None
    path = Path(url).expanduser()
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"can't read the file {path}: {error.strerror or error}", cause=error) from error
    return data, guess_media_type(path.name)


def guess_media_type(name: str) -> str:
    """The media type that a file's extension stands for; "application/octet-stream" if unknown."""
    suffix = Path(name).suffix.lower()
    guessed = _MEDIA_TYPES.get(suffix) or mimetypes.guess_type(f"file{suffix}")[0]
    return normalize_media_type(guessed or "application/octet-stream")


def normalize_media_type(media_type: str) -> str:
    """The registered name of a media type: "image/jpg" is "image/jpeg". Parameters are dropped."""
    plain = media_type.partition(";")[0].strip().lower()
    return _ALIASES.get(plain, plain)
