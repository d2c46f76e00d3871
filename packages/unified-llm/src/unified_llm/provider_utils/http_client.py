"""What HttpTransport needs of an HTTP library. One module for each library knows it: httpx_client, aiohttp_client."""

from collections.abc import AsyncIterator, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, NamedTuple, Protocol

from unified_llm.spec.request import AdapterTimeout

if TYPE_CHECKING:
    import aiohttp
    import httpx
    import httpx2

    CallerClient = httpx.AsyncClient | httpx2.AsyncClient | aiohttp.ClientSession
    """A client that a caller may bring along."""


class Fault(Enum):
    """What an exception of an HTTP library means."""

    UNCONNECTED = auto()
    """No connection came about in time. Nothing was sent, so that trying again is safe and may help."""
    SILENT = auto()
    """The server took too long."""
    UNSENDABLE = auto()
    """The request itself is wrong: its address, a header."""
    BROKEN = auto()
    """The connection failed, or what came over it is no HTTP."""
    GARBLED = auto()
    """The body isn't compressed in the way that its headers say."""


class Answer(NamedTuple):
    """An answer that has been read, `content` decompressed as far as can be. Header names are lower-case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class OpenAnswer(Protocol):
    """An answer whose body is still to come. Header names are lower-case."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; those that came several times are joined by commas."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body, decompressed, as it comes."""
        ...

    @property
    def packed_head(self) -> bytes:
        """The first bytes of a compressed body as they came, to show if they can't be decompressed."""
        ...

    async def aclose(self) -> None:
        """Give the connection back if the body was read to its end, else close it."""
        ...


class HttpClient(Protocol):
    """Posts bytes. Redirects are not followed, and no status is an error."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What the methods raise, and the iteration over chunks; `fault_of` tells them apart."""
        ...

    @property
    def is_closed(self) -> bool:
        """Whether it can't be used any more."""
        ...

    async def post(
        self, url: str, content: bytes, headers: Mapping[str, str], timeout: AdapterTimeout, max_bytes: int
    ) -> Answer:
        """The whole answer, or what came of it if its status is an error's.

        Reading stops once the body has more than `max_bytes`, which the caller can tell by its length. Only
        `timeout.connect` is heeded: the caller bounds the rest.
        """
        ...

    async def open(self, url: str, content: bytes, headers: Mapping[str, str], timeout: AdapterTimeout) -> OpenAnswer:
        """The answer's head, within `timeout.request`; later silence is bounded by `timeout.stream_read`."""
        ...

    def fault_of(self, error: Exception) -> Fault:
        """What one of `errors` means."""
        ...
