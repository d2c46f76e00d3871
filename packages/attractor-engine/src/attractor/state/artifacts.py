"""Named storage for large outputs that don't belong in the context (section 5.5)."""

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attractor.errors import AttractorError
from attractor.state.json_values import encode_json, to_bytes, to_json_value
from attractor.state.run_directory import replace_file, stage_name

FILE_BACKING_THRESHOLD = 100 * 1024
ARTIFACTS_NAME = "artifacts"


class ArtifactError(AttractorError):
    """There is no such artifact, or it can't be stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactInfo:
    """`size_bytes` is that of the data as JSON; `stored_at` is seconds since the epoch."""

    id: str
    name: str
    size_bytes: int
    stored_at: float
    is_file_backed: bool


class ArtifactStore:
    """Thread-safe. Data is JSON, kept in memory or, beyond 100 KB, in `artifacts/{id}.json` of `base_dir` (if any)."""

    def __init__(self, base_dir: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        self._base_dir = base_dir
        self._clock = clock
        self._lock = threading.RLock()
        self._infos: dict[str, ArtifactInfo] = {}
        self._data: dict[str, Any] = {}

    def store(self, artifact_id: str, name: str, data: Any) -> ArtifactInfo:
        """Keep data under an id, in the place of what was there. Raises ContextValueError if it isn't JSON."""
        data = to_json_value(data, artifact_id)
        content = to_bytes(encode_json(data))
        in_file = self._base_dir is not None and len(content) > FILE_BACKING_THRESHOLD
        info = ArtifactInfo(
            id=artifact_id, name=name, size_bytes=len(content), stored_at=self._clock(), is_file_backed=in_file
        )
        with self._lock:
            self.remove(artifact_id)
            if in_file:
                path = self._path(artifact_id)
                path.parent.mkdir(parents=True, exist_ok=True)
                replace_file(path, content)
            else:
                self._data[artifact_id] = data
            self._infos[artifact_id] = info
        return info

    def retrieve(self, artifact_id: str) -> Any:
        """The data; raises ArtifactError if there is none of that id."""
        with self._lock:
            info = self._infos.get(artifact_id)
            if info is None:
                known = ", ".join(sorted(self._infos)) or "none"
                raise ArtifactError(f"there is no artifact {artifact_id!r}; stored are: {known}")
            return json.loads(self._path(artifact_id).read_bytes()) if info.is_file_backed else self._data[artifact_id]

    def has(self, artifact_id: str) -> bool:
        """Whether there is one of that id."""
        return artifact_id in self._infos

    def list(self) -> "list[ArtifactInfo]":
        """All of them, in the order in which they were stored."""
        with self._lock:
            return list(self._infos.values())

    def remove(self, artifact_id: str) -> None:
        """Forget one, its file included; nothing happens if there is none."""
        with self._lock:
            info = self._infos.pop(artifact_id, None)
            self._data.pop(artifact_id, None)
            if info is not None and info.is_file_backed:
                self._path(artifact_id).unlink(missing_ok=True)

    def clear(self) -> None:
        """Forget all."""
        for info in self.list():
            self.remove(info.id)

    def _path(self, artifact_id: str) -> Path:
        assert self._base_dir is not None
        return self._base_dir / ARTIFACTS_NAME / f"{stage_name(artifact_id)}.json"
