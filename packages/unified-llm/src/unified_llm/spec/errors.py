"""The error tree (section 6.1).

SDKError
 +-- ProviderError              the provider refused or failed
 |    +-- AuthenticationError         401
 |    +-- AccessDeniedError           403
 |    +-- NotFoundError               404
 |    +-- InvalidRequestError         400, 422
 |    +-- RateLimitError              429                     retryable
 |    +-- ServerError                 500 to 599              retryable
 |    +-- ContentFilterError          blocked by a filter
 |    +-- ContextLengthError          413, prompt too long
 |    +-- QuotaExceededError          billing
 +-- RequestTimeoutError        408, or our own limit
 +-- AbortError                 the caller's abort signal
 +-- NetworkError               no usable connection          retryable
 +-- StreamError                a stream broke or lied        retryable
 +-- InvalidToolCallError       arguments failed validation
 +-- UnsupportedToolChoiceError the provider lacks that mode
 +-- NoObjectGeneratedError     structured output unusable
 +-- ConfigurationError         used wrongly, or not set up
"""

import pickle
from typing import Any, ClassVar


class SDKError(Exception):
    """Base of all errors that this library raises.

    `cause` is the exception underneath, if any. The provider's facts are None where they don't apply:
    `provider`, `status_code`, `error_code`, `retry_after` (seconds), `raw` (the body, or its head).
    """

    default_retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        cause: BaseException | None = None,
        provider: str | None = None,
        status_code: int | None = None,
        error_code: str | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        raw: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.cause = cause
        self.provider = provider
        self.status_code = status_code
        self.error_code = error_code
        self.retryable = self.default_retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.raw = raw
        if cause is not None:
            self.__cause__ = cause

    def __reduce__(self) -> tuple[Any, ...]:
        state = dict(self.__dict__)
        try:
            pickle.dumps(self.cause)
        except Exception:
            # An exception of another library that can't go to another process: what it said stays.
            state["cause"] = SDKError(f"{type(self.cause).__name__}: {self.cause}")
        return (type(self), (self.message,), state)


class ProviderError(SDKError):
    """The provider answered with an error. One of no known class is retryable (section 6.3)."""

    default_retryable = True


class AuthenticationError(ProviderError):
    """The key is missing, wrong or expired."""

    default_retryable = False


class AccessDeniedError(ProviderError):
    """The key is right but may not do this."""

    default_retryable = False


class NotFoundError(ProviderError):
    """No such model or endpoint."""

    default_retryable = False


class InvalidRequestError(ProviderError):
    """The provider doesn't accept the request as it stands."""

    default_retryable = False


class RateLimitError(ProviderError):
    """Too many requests or tokens for now; `retry_after` where the provider says how long."""


class ServerError(ProviderError):
    """The provider failed or is overloaded."""


class ContentFilterError(ProviderError):
    """A safety filter blocked the prompt or the answer."""

    default_retryable = False


class ContextLengthError(ProviderError):
    """Prompt and answer don't fit the model's context window."""

    default_retryable = False


class QuotaExceededError(ProviderError):
    """The account's budget is spent; waiting doesn't help."""

    default_retryable = False


class RequestTimeoutError(SDKError):
    """A time limit passed: ours, or the provider's 408. Not retried by default (section 6.3)."""


class AbortError(SDKError):
    """The caller's abort signal fired."""


class NetworkError(SDKError):
    """The provider could not be reached, or the connection broke."""

    default_retryable = True


class StreamError(SDKError):
    """A stream ended early or could not be understood."""

    default_retryable = True


class InvalidToolCallError(SDKError):
    """A tool call's arguments failed validation and could not be repaired."""


class UnsupportedToolChoiceError(SDKError):
    """The provider can't do the requested tool choice."""


class NoObjectGeneratedError(SDKError):
    """The model's answer is not the JSON that was asked for."""


class ConfigurationError(SDKError):
    """The library is used wrongly or not set up: no provider, no key, contradictory arguments."""
