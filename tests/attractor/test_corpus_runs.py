"""Pipelines that others wrote run to an end, without a model, a command or a person (`--dry-run --auto-approve`)."""

import os
from pathlib import Path

import anyio
import pytest
from attractor.event_log import read_events
from attractor.events import PipelineCompleted, PipelineFailed
from attractor.interviewers import AutoApproveInterviewer
from attractor.pipeline import PipelineRunner
from attractor.state.checkpoint import Checkpoint
from attractor.state.step import RunStatus

ROOT = Path(__file__).parent.parent.parent
FOLDER = Path(os.environ.get("ATTRACTOR_PIPELINES", ROOT / "../shared/pipelines")).resolve()
FILES = sorted(FOLDER.glob("*.dot"))
SECONDS = 60

pytestmark = pytest.mark.skipif(not FILES, reason=f"no pipelines at {FOLDER} (ATTRACTOR_PIPELINES names the directory)")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem[:60])
async def test_it_runs_to_an_end(path: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    runner = PipelineRunner(
        interviewer=AutoApproveInterviewer(), logs_root=tmp_path / "run", working_dir=work, dry_run=True
    )
    with anyio.fail_after(SECONDS):
        result = await runner.run(path.read_bytes().decode())
    assert result.status == "success" or result.failure_reason
    assert list(work.iterdir()) == [], "a dry run touches nothing"
    checkpoint = Checkpoint.load(tmp_path / "run")
    assert checkpoint.status is (RunStatus.COMPLETED if result.status == "success" else RunStatus.FAILED)
    for node_id in result.node_outcomes:
        assert (tmp_path / "run" / node_id / "status.json").exists()
    last = list(read_events(tmp_path / "run"))[-1]
    assert isinstance(last, PipelineCompleted if result.status == "success" else PipelineFailed)
