"""The command `init`: a pipeline to start from."""

import shlex
from importlib.resources import files
from pathlib import Path

import click

from attractor.cli.failure import SUCCESS, CommandError
from attractor.cli.output import write_result
from attractor.cli.parameters import Place

_NAME = "pipeline.dot"


@click.command()
@click.argument("folder", metavar="[DIR]", default=".", type=Place(path_type=Path))
def init(folder: Path) -> int:
    """Write a pipeline to start from into DIR, by default the current directory: pipeline.dot.

    It asks a model, runs commands and asks you, and its comments say how. A file that is there already stays as it is.

    \b
    Example: attractor init my-pipeline
    """
    place = folder / _NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with place.open("x", encoding="utf-8") as file:
            file.write(files("attractor.cli").joinpath("starter.dot").read_text("utf-8"))
    except FileExistsError:
        what = f"{place} exists already" if folder.is_dir() else f"{folder} is a file"
        raise CommandError(f"{what}; name another directory, or move it away.") from None
    except OSError as error:
        raise CommandError(f"{place} can't be written: {error.strerror}.") from error
    name = shlex.quote(str(place))
    write_result(f"Wrote {place}. Try it without a model, then with one:\n")
    write_result(f"  attractor run {name} --simulate\n  attractor run {name}")
    return SUCCESS
