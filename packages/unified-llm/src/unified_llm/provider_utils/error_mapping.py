"""What a provider says went wrong -> the error tree (sections 6.4 to 6.7). Pure.

The most telling sign wins: a specific error code, then the gRPC code, then the HTTP status, and where the status
leaves it open, the wording of the message.
"""

import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from unified_llm.spec.errors import (
    AccessDeniedError,
    AuthenticationError,
    ContentFilterError,
    ContextLengthError,
    InvalidRequestError,
    NotFoundError,
    ProviderError,
    QuotaExceededError,
    RateLimitError,
    RequestTimeoutError,
    SDKError,
    ServerError,
)

MAX_RETRY_AFTER = 86400.0
"""Seconds. A longer wait than a day is taken for a mistake of the server and ignored."""

_RAW_TEXT = 4096

# Codes that mean the same at whatever status they come (lower case, without separators).
_BY_CODE: dict[str, type[SDKError]] = {
    "insufficientquota": QuotaExceededError,
    "billinghardlimitreached": QuotaExceededError,
    "billingnotactive": QuotaExceededError,
    "billingerror": QuotaExceededError,
    "insufficientbalance": QuotaExceededError,
    "insufficientcredits": QuotaExceededError,
    "exceededcurrentquotaerror": QuotaExceededError,
    "budgetexceeded": QuotaExceededError,
    "arrearage": QuotaExceededError,
    "quotaexceeded": QuotaExceededError,
    "contextlengthexceeded": ContextLengthError,
    "contextwindowexceeded": ContextLengthError,
    "exceedcontextsizeerror": ContextLengthError,
    "toomanyprompttokens": ContextLengthError,
    "modelmaxprompttokensexceeded": ContextLengthError,
    "requesttoolarge": ContextLengthError,
    "ratelimitexceeded": RateLimitError,
    "ratelimiterror": RateLimitError,
    "ratelimitreached": RateLimitError,
    "toomanyrequests": RateLimitError,
    "resourceexhausted": RateLimitError,
    "overloadederror": ServerError,
    "serverisoverloaded": ServerError,
    "slowdown": ServerError,
    "unavailable": ServerError,
    "internal": ServerError,
    "invalidapikey": AuthenticationError,
    "apikeyinvalid": AuthenticationError,
    "authenticationerror": AuthenticationError,
    "unauthenticated": AuthenticationError,
    "permissionerror": AccessDeniedError,
    "permissiondenied": AccessDeniedError,
    "modelnotfound": NotFoundError,
    "deploymentnotfound": NotFoundError,
    "notfounderror": NotFoundError,
    "notfound": NotFoundError,
    "contentfilter": ContentFilterError,
    "contentpolicyviolation": ContentFilterError,
    "responsibleaipolicyviolation": ContentFilterError,
    "moderationblocked": ContentFilterError,
    "datainspectionfailed": ContentFilterError,
    "deadlineexceeded": RequestTimeoutError,
}

# Codes that some servers send with any status: they count only where the status says nothing, as inside a 200.
_BY_VAGUE_CODE: dict[str, type[SDKError]] = {
    "apierror": ServerError,
    "servererror": ServerError,
    "internalservererror": ServerError,
    "serviceunavailable": ServerError,
    "timeouterror": ServerError,
    "invalidrequesterror": InvalidRequestError,
    "invalidargument": InvalidRequestError,
    "failedprecondition": InvalidRequestError,
    "invalidprompt": InvalidRequestError,
    "forbidden": AccessDeniedError,
}

_BY_STATUS: dict[int, type[SDKError]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    402: QuotaExceededError,
    403: AccessDeniedError,
    404: NotFoundError,
    408: RequestTimeoutError,
    413: ContextLengthError,
    422: InvalidRequestError,
    429: RateLimitError,
}

_SPENT = re.compile(
    r"credit balance is too low|insufficient (account )?(balance|funds|credits?)"
    r"|(used all|out of|have any) (\w+ )?credits|spending limit|api usage limits|budget has been exceeded"
)
_FLAGGED = re.compile(r"\bflagged\b")

_BY_MESSAGE: tuple[tuple[re.Pattern[str], type[SDKError]], ...] = (
    (
        re.compile(
            r"context ?(length|limit|window|size)|too many tokens|prompt is too long|input is too long"
            r"|exceeds the maximum number of tokens|maximum context|maximum model length"
        ),
        ContextLengthError,
    ),
    (_SPENT, QuotaExceededError),
    (re.compile(r"content[ _]filter|content management policy|\bsafety\b"), ContentFilterError),
    (
        re.compile(r"unauthorized|(invalid|incorrect) (x-)?(api[ -]?)?key|api key not valid|invalid subscription key"),
        AuthenticationError,
    ),
    (re.compile(r"not found|does not exist"), NotFoundError),
)

# Statuses whose own class the wording of a message may change to these only.
_BY_STATUS_AND_MESSAGE: dict[int, tuple[tuple[re.Pattern[str], type[SDKError]], ...]] = {
    403: ((_SPENT, QuotaExceededError), (_FLAGGED, ContentFilterError)),
    429: ((_SPENT, QuotaExceededError),),
}

# Statuses that decide the class by themselves; elsewhere the wording of the message may refine it.
_PLAIN_STATUSES = frozenset(_BY_STATUS) - {400, 422}


class ErrorClassifier(Protocol):
    """The signature of `error_from_response`, for adapters that bring their own."""

    def __call__(self, *, provider: str, status: int, headers: Mapping[str, str], body: Any, text: str) -> SDKError: ...


def error_from_response(
    *, provider: str, status: int, headers: Mapping[str, str], body: Any, text: str, now: datetime | None = None
) -> SDKError:
    """The error that an HTTP response of `status` >= 400 means.

    `headers` have lower-case names; `body` is the parsed JSON or None, `text` the body as text. The error's `raw` is
    the JSON object, or the head of the text. `now` is what an HTTP date in `retry-after` is compared with, unless
    the response has a `date` of its own.
    """
    report = _Report(body, text)
    kind = _classify(report, status)
    return kind(
        f"{provider} answered {status}{report.label}: {report.message or 'no reason given'}",
        provider=provider,
        status_code=status,
        error_code=report.code,
        retry_after=_retry_after(headers, report.error, now),
        raw=_raw(body, text),
    )


def error_from_event(
    *, provider: str, payload: Mapping[str, Any], headers: Mapping[str, str] | None = None, now: datetime | None = None
) -> SDKError:
    """The error that a 200 carries: an `error` event of a stream, or a body that is an error.

    It has the class that the HTTP status would have given it, and no `status_code`. A failed Responses object, with
    its error under `response`, is understood too.
    """
    response = payload.get("response")
    nested = response if not payload.get("error") and isinstance(response, dict) and response.get("error") else payload
    report = _Report(nested, "")
    return _classify(report, None)(
        f"{provider} reported an error{report.label}: {report.message or 'no reason given'}",
        provider=provider,
        error_code=report.code,
        retry_after=_retry_after(headers or {}, report.error, now),
        raw=dict(payload),
    )


class _Report:
    """The parts of an error body, wherever this provider puts them."""

    def __init__(self, body: Any, text: str) -> None:
        if isinstance(body, list):
            body = body[0] if body else None
        outer = body if isinstance(body, dict) else {}
        error = outer.get("error")
        self.error: dict[str, Any] = error if isinstance(error, dict) else outer
        self.codes = [*_codes(self.error), *(_codes(outer) if error else ())]
        self.reasons = [str(detail["reason"]) for detail in _details(self.error) if detail.get("reason")]
        self.message = _message(self.error, error, text)
        # A word says more than a number that repeats the status.
        self.code = next((code for code in self.codes if not code.isdigit()), next(iter(self.codes), None))

    @property
    def label(self) -> str:
        return f" ({self.code})" if self.code else ""

    @property
    def status(self) -> int | None:
        """The HTTP status that an error inside a 200 would have had."""
        for value in (self.error.get("status_code"), self.error.get("code"), self.error.get("status")):
            if isinstance(value, int | str) and (digits := str(value)).isdecimal() and 400 <= int(digits[:9]) <= 599:
                return int(digits)
        return None


def _codes(error: Mapping[str, Any]) -> Iterator[str]:
    for key in ("code", "type", "status"):
        value = error.get(key)
        if value is not None and not isinstance(value, dict | list) and value not in ("error", "", "response.failed"):
            yield str(value)


def _details(error: Mapping[str, Any]) -> list[dict[str, Any]]:
    details = error.get("details")
    return [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []


def _message(error: Mapping[str, Any], outer: Any, text: str) -> str:
    if isinstance(outer, str):
        return outer
    for key in ("message", "detail", "error_message", "msg"):
        if value := error.get(key):
            message = value if isinstance(value, str) else str(value)
            break
    else:
        message = " ".join(text[:300].split())
    metadata = error.get("metadata")
    # A relay's own message says nothing: what the provider behind it said is under `metadata.raw`.
    if isinstance(metadata, dict) and isinstance(raw := metadata.get("raw"), str):
        message = f"{message}: {raw[:1000]}"
    return message


def _classify(report: _Report, status: int | None) -> type[SDKError]:
    # A specific reason (a bad key) is more telling than the class it comes in (an invalid argument).
    codes = [re.sub(r"[^a-z0-9]", "", code.lower()) for code in (*report.reasons, *report.codes)]
    for code in codes:
        if code in _BY_CODE:
            return _BY_CODE[code]
    effective = status if status is not None else report.status
    if effective is not None and effective >= 500:
        return ServerError
    message = report.message.lower()
    for pattern, kind in _BY_STATUS_AND_MESSAGE.get(effective or 0, ()):
        if pattern.search(message):
            return kind
    if effective in _PLAIN_STATUSES:
        return _BY_STATUS[effective]
    for pattern, kind in _BY_MESSAGE:
        if pattern.search(message):
            return kind
    if effective in _BY_STATUS:
        return _BY_STATUS[effective]
    return next((_BY_VAGUE_CODE[code] for code in codes if code in _BY_VAGUE_CODE), ProviderError)


def _retry_after(headers: Mapping[str, str], error: Mapping[str, Any], now: datetime | None) -> float | None:
    """Seconds to wait: the longest of what the headers and the body ask for, mistakes left out."""
    candidates = [_seconds(headers.get("retry-after-ms"), 0.001)]
    if (value := headers.get("retry-after")) is not None:
        seconds = _seconds(value)
        candidates.append(_until(value, headers.get("date"), now) if seconds is None else seconds)
    candidates.extend(
        _seconds(str(detail.get("retryDelay", "")).removesuffix("s"))
        for detail in _details(error)
        if str(detail.get("@type", "")).endswith("RetryInfo")
    )
    sane = [seconds for seconds in candidates if seconds is not None and 0 <= seconds <= MAX_RETRY_AFTER]
    return max(sane, default=None)


def _seconds(value: str | None, unit: float = 1.0) -> float | None:
    try:
        seconds = float(value or "") * unit
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) else -1.0


def _until(value: str, date: str | None, now: datetime | None) -> float | None:
    target = _http_date(value)
    if target is None:
        return None
    return (target - (_http_date(date or "") or now or datetime.now(UTC))).total_seconds()


def _http_date(value: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(value)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _raw(body: Any, text: str) -> dict[str, Any]:
    if isinstance(body, dict):
        return body
    return {"body": text[:_RAW_TEXT]}
