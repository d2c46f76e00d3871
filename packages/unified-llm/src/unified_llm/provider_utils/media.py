"""Images, audio and documents as bytes, `data:` URLs, or local files given where a URL may stand (section 3.5)."""

import base64
import mimetypes
import re
import stat
from pathlib import Path

from unified_llm.spec.errors import ConfigurationError, InvalidRequestError
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
# How files of a type begin. A name may lie, and providers refuse an image that isn't what it is called.
_SIGNATURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"....ftyp(?:heic|heix)", re.DOTALL), "image/heic"),
    (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav"),
    (re.compile(rb"ID3"), "audio/mpeg"),
    (re.compile(rb"fLaC"), "audio/flac"),
    (re.compile(rb"OggS"), "audio/ogg"),
    (re.compile(rb"%PDF-"), "application/pdf"),
)
_DATA_URL = re.compile(r"data:([^;,]*)[^,]*;base64,", re.IGNORECASE)

MAX_FILE_BYTES = 100 * 1024 * 1024
"""No provider takes more within a request, so a larger file isn't even read."""


def inline_media(media: ImageData | AudioData | DocumentData) -> tuple[str, str] | None:
    """Base64 text and media type of what is given as bytes, `data:` URL or local file; None for a remote address.

    What is said about the type goes before what the file tells. Raises ConfigurationError if a file can't be
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
    if (found := _type_by_signature(data)) is not None:
        return found
    if isinstance(media, AudioData):
        return "audio/wav"
    return guess_media_type((media.file_name if isinstance(media, DocumentData) else None) or "")


def check_size(data: str, limit: int, media: ImageData | AudioData | DocumentData) -> None:
    """Raise InvalidRequestError, which names the file, if the base64 text `data` stands for more than `limit` bytes."""
    size = len(data) * 3 // 4 - data[-2:].count("=")
    if size > limit:
        path = media.url if media.url is not None and is_local_path(media.url) else None
        kind = type(media).__name__.removesuffix("Data").lower()
        raise InvalidRequestError(
            f"the {kind} {path or 'given'} has {size:,} bytes, and this provider takes at most {limit:,}: "
            "make it smaller, or give its web address"
        )


def is_local_path(url: str) -> bool:
    """Whether a file is meant, and no address: the text starts with `/`, `./` or `~`."""
    return url.startswith(("/", "./", "~"))


def load_media(url: str) -> tuple[bytes, str] | None:
    """The bytes and the media type of a local file, or None if `url` is no local path.

    The media type follows from how the file begins where that is telling, else from its extension. Raises
    ConfigurationError if the file can't be read, is no regular file (a device has no end) or has more than
    MAX_FILE_BYTES.
    """
    if not is_local_path(url):
        return None
    try:
        path = Path(url).expanduser()
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ConfigurationError(f"can't read the file {path}: it is a directory or a device")
        if status.st_size > MAX_FILE_BYTES:
            raise ConfigurationError(
                f"can't send the file {path}: it has {status.st_size:,} bytes, and {MAX_FILE_BYTES:,} are the most"
            )
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"can't read the file {url}: {error.strerror or error}", cause=error) from error
    except (RuntimeError, ValueError) as error:  # "~" of an unknown user, a zero byte
        raise ConfigurationError(f"can't read the file {url!r}: {error}", cause=error) from error
    return data, _type_by_signature(data) or guess_media_type(path.name)


def _type_by_signature(data: bytes) -> str | None:
    return next((media_type for signature, media_type in _SIGNATURES if signature.match(data)), None)


def guess_media_type(name: str) -> str:
    """The media type that a file's extension stands for; "application/octet-stream" if unknown."""
    suffix = Path(name).suffix.lower()
    guessed = _MEDIA_TYPES.get(suffix) or mimetypes.guess_type(f"file{suffix}")[0]
    return normalize_media_type(guessed or "application/octet-stream")


def normalize_media_type(media_type: str) -> str:
    """The registered name of a media type: "image/jpg" is "image/jpeg". Parameters are dropped."""
    plain = media_type.partition(";")[0].strip().lower()
    return _ALIASES.get(plain, plain)
