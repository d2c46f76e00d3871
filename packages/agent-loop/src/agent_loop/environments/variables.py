"""Which environment variables commands get to see (section 4.2)."""

import re
from collections.abc import Mapping
from enum import StrEnum


class EnvironmentPolicy(StrEnum):
    """What commands inherit: everything but secrets (the default), everything, only the core, or nothing."""

    FILTERED = "filtered"
    ALL = "all"
    CORE = "core"
    NONE = "none"


_CORE = re.compile(
    r"""
    PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_\w+|TERM|TMPDIR|TMP|TEMP|TZ
    |GOPATH|GOROOT|GOCACHE|CARGO_HOME|RUSTUP_HOME|NVM_DIR|NODE_PATH|PNPM_HOME|BUN_INSTALL|DENO_DIR
    |PYENV_ROOT|PYTHONPATH|VIRTUAL_ENV|CONDA_PREFIX|UV_CACHE_DIR|GEM_HOME|GEM_PATH|RBENV_ROOT
    |JAVA_HOME|GRADLE_USER_HOME|M2_HOME|SDKMAN_DIR|DOTNET_ROOT|ASDF_DIR
    |SYSTEMROOT|COMSPEC|PATHEXT|APPDATA|LOCALAPPDATA|USERPROFILE|PROGRAMFILES
    """,
    re.IGNORECASE | re.VERBOSE,
)
_SECRET = re.compile(
    r"(?:^|_)(?:API_?KEYS?|SECRETS?|TOKENS?|PASSWORDS?|PASSWD|PASSPHRASE|CREDENTIALS?|(?:ACCESS|SECRET|PRIVATE)_KEYS?)$",
    re.IGNORECASE,
)


def is_core(name: str) -> bool:
    """Whether a variable is one that programs can hardly run without."""
    return _CORE.fullmatch(name) is not None


def is_secret(name: str) -> bool:
    """Whether a variable's name says that its value is a secret."""
    return not is_core(name) and _SECRET.search(name) is not None


def filter_variables(variables: Mapping[str, str], policy: EnvironmentPolicy) -> dict[str, str]:
    """The variables that the policy lets through."""
    match policy:
        case EnvironmentPolicy.ALL:
            return dict(variables)
        case EnvironmentPolicy.FILTERED:
            return {name: value for name, value in variables.items() if not is_secret(name)}
        case EnvironmentPolicy.CORE:
            return {name: value for name, value in variables.items() if is_core(name)}
        case EnvironmentPolicy.NONE:
            return {}
