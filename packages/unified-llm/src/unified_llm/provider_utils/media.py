"""Images, audio and documents as bytes, `data:` URLs, or local files given where a URL may stand (section 3.5)."""

import base64
import mimetypes
import re
from pathlib import Path

from unified_llm.spec.errors import ConfigurationError
from unified_llm.spec.messages import AudioData, DocumentData, ImageData

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
_DATA_URL = re.compile(r"data:([^;,]*)[^,]*;base64,", re.IGNORECASE)


def inline_media(media: ImageData | AudioData | DocumentData) -> tuple[str, str] | None:
    """Base64 text and media type of what is given as bytes, `data:` URL or local file; None for a remote address.

    What is said about the type goes before what the file's name tells. Raises ConfigurationError if a file can't be
    read.
    """
    if media.data is not None:
        data, found = media.data, None
    elif match := _DATA_URL.match(media.url or ""):
        text = (media.url or "")[match.end() :]
        return text, normalize_media_type(media.media_type or match[1] or "application/octet-stream")
    elif (local := load_media(media.url or "")) is not None:
        data, found = local
    else:
        return None
    media_type = normalize_media_type(media.media_type or found or _media_type_of(data, media))
    return base64.b64encode(data).decode("ascii"), media_type


def _media_type_of(data: bytes, media: ImageData | AudioData | DocumentData) -> str:
    """The media type of bytes that come without one."""
    if isinstance(media, AudioData):
        return "audio/wav"
    if data.startswith(b"%PDF"):
        return "application/pdf"
    return guess_media_type((media.file_name if isinstance(media, DocumentData) else None) or "")


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
