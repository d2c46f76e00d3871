"""What a request carries for one provider only (section 2.8). Pure."""

from typing import Any

from unified_llm.spec.errors import ConfigurationError
from unified_llm.spec.request import Request


def own_options(request: Request, provider: str) -> dict[str, Any]:
    """A copy of `provider_options[provider]`, empty if there is none.

    Raises ConfigurationError if it is no object, or holds `extra_headers` that don't map text to text.
    """
    options = (request.provider_options or {}).get(provider)
    if options is None:
        return {}
    if not isinstance(options, dict):
        raise ConfigurationError(f"provider_options[{provider!r}] must be a dict, but is {options!r:.100}")
    headers = options.get("extra_headers")
    if headers and not (
        isinstance(headers, dict) and all(isinstance(t, str) for pair in headers.items() for t in pair)
    ):
        raise ConfigurationError(
            f"provider_options[{provider!r}]['extra_headers'] must map text to text, but is {headers!r:.100}"
        )
    return dict(options)
