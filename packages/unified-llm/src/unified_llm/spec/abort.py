"""Cooperative cancellation (section 4.7)."""

import threading
from collections.abc import Callable

from unified_llm.spec.errors import AbortError


class AbortSignal:
    """The listening end. `aborted` may be read, and `on_abort` called, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callbacks: dict[int, Callable[[], None]] = {}
        self._next_key = 0
        self._aborted = False
        self.reason: str | None = None

    @property
    def aborted(self) -> bool:
        """Whether the controller has fired."""
        return self._aborted

    def raise_if_aborted(self) -> None:
        """Raise AbortError once the controller has fired."""
        if self._aborted:
            raise AbortError(self.reason or "the operation was aborted")

    def on_abort(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` once, in the aborting thread; at once if aborted already. Returns what takes it back."""
        with self._lock:
            if not self._aborted:
                key = self._next_key
                self._next_key += 1
                self._callbacks[key] = callback
                return lambda: self._forget(key)
        callback()
        return lambda: None

    def _forget(self, key: int) -> None:
        with self._lock:
            self._callbacks.pop(key, None)

    def _fire(self, reason: str | None) -> None:
        with self._lock:
            if self._aborted:
                return
            self._aborted = True
            self.reason = reason
            callbacks, self._callbacks = list(self._callbacks.values()), {}
        for callback in callbacks:
            callback()


class AbortController:
    """The firing end: hand `signal` to calls, and `abort()` from any thread or task."""

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self, reason: str | None = None) -> None:
        """Cancel everything that listens. Further calls do nothing."""
        self.signal._fire(reason)
