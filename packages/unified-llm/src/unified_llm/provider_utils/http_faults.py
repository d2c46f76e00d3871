"""What goes wrong between a provider and us, as our errors. Pure."""

from collections.abc import Mapping
from typing import Any

from unified_llm.provider_utils.error_mapping import error_from_event
from unified_llm.provider_utils.http_client import Fault
from unified_llm.spec.errors import (
    ConfigurationError,
    RequestTimeoutError,
    SDKError,
    ServerError,
    StreamError,
)


class HttpFaults:
    """What goes wrong at one endpoint, as our errors."""

    def __init__(self, provider: str, base_url: str) -> None:
        self._provider = provider
        self._base_url = base_url

    def translated(self, fault: Fault, error: Exception, broken: type[SDKError]) -> SDKError:
        """An exception of the HTTP library as ours; `broken` is what a connection that fails meanwhile means."""
        match fault:
            case Fault.UNCONNECTED:
                return self.timed_out("found no connection in time", cause=error, retryable=True)
            case Fault.SILENT:
                return self.timed_out("got no answer for too long", cause=error)
            case Fault.UNSENDABLE:
                return ConfigurationError(
                    f"the request to {self._provider} at {self._base_url} can't be sent; "
                    f"check base_url, key and headers: {error}",
                    cause=error,
                    provider=self._provider,
                )
            case Fault.BROKEN | Fault.GARBLED:
                reason = str(error) or type(error).__name__
                return broken(
                    f"the connection to {self._provider} at {self._base_url} failed: {reason}",
                    cause=error,
                    provider=self._provider,
                )

    def unusable(self, error: Exception) -> ConfigurationError:
        """No client can be made for the endpoint."""
        return ConfigurationError(
            f"no HTTP client can be made for {self._provider} at {self._base_url}; check base_url and the variables "
            f"that name proxies and certificates: {error}",
            cause=error,
            provider=self._provider,
        )

    def timed_out(self, what: str, *, cause: Exception | None = None, retryable: bool = False) -> RequestTimeoutError:
        return RequestTimeoutError(
            f"the request to {self._provider} {what}", cause=cause, provider=self._provider, retryable=retryable
        )

    def redirected(self, status: int, target: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self._provider} redirects ({status}) to {target}; set base_url to where the API is",
            provider=self._provider,
            status_code=status,
        )

    def reported(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> SDKError:
        """The error that is the body of a 200."""
        return error_from_event(provider=self._provider, payload=body, headers=headers)

    def too_long(self, limit: int, status: int, content: bytes) -> ServerError:
        """Another attempt would most likely read as much again."""
        return ServerError(
            f"{self._provider} answered {status} with more than {limit} bytes; max_response_bytes sets the limit",
            provider=self._provider,
            status_code=status,
            retryable=False,
            raw={"body": read_text(content[:4096])},
        )

    def unreadable(
        self,
        kind: type[SDKError],
        status: int,
        headers: Mapping[str, str],
        content: bytes,
        cause: Exception | None = None,
    ) -> SDKError:
        """A 200 that is not what was asked for."""
        wanted = "an event stream" if kind is StreamError else "a JSON object"
        if content:
            found = f"{headers.get('content-type', 'a body of no type')}: {read_text(content[:80])!r}"
        elif encoding := headers.get("content-encoding"):
            found = f"nothing that could be decompressed ({encoding})"
        else:
            found = "nothing"
        return kind(
            f"{self._provider} answered {status} with {found}, where {wanted} was expected",
            cause=cause,
            provider=self._provider,
            status_code=status,
            raw={"body": read_text(content[:4096])},
        )


def read_text(content: bytes) -> str:
    """Bytes for a person to look at, whatever they are."""
    return content.decode("utf-8", "replace")
