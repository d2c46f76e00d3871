"""A request as JSON, so that equal requests are equal texts. Pure but for local files, which are part of a request."""

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic_core import PydanticSerializationError

from unified_llm.spec.errors import ConfigurationError
from unified_llm.spec.request import Request


def request_to_json(request: Request) -> dict[str, Any]:
    """Everything that reaches the provider; what has its default and functions (`Tool.execute`) are left out.

    Raises ConfigurationError if `provider_options` or a tool's schema hold what isn't JSON.
    """
    try:
        return request.model_dump(mode="json", exclude_defaults=True)
    except PydanticSerializationError as error:
        raise ConfigurationError(f"the request can't be written as JSON: {error}", cause=error) from error


def fingerprint(request: Request) -> str:
    """The same 64 hexadecimal digits for requests that ask the same: SHA-256 of their canonical JSON.

    A local file counts by path, size and time of change, as its content is what the model sees.
    """
    content = {"request": request_to_json(request), "files": _local_files(request)}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _local_files(request: Request) -> list[tuple[str, int, int]]:
    media = (part.image or part.audio or part.document for message in request.messages for part in message.content)
    urls = {medium.url for medium in media if medium is not None and medium.url is not None}
    return [_stamp(url) for url in sorted(urls) if url.startswith(("/", "./", "~"))]


def _stamp(url: str) -> tuple[str, int, int]:
    try:
        found = Path(url).expanduser().stat()
    except OSError:
        return url, -1, -1  # the adapter will say what is wrong with it
    return url, found.st_size, found.st_mtime_ns
