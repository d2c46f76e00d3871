"""Running commands (sections 3.3 and 5.4)."""

from agent_loop.environments.base import ExecResult, ExecutionEnvironment
from agent_loop.tools.registry import Arguments, RegisteredTool, ToolContext, ToolDefinition, ToolOutput

# A century: longer than any command runs, and not too long for the clocks of event loops.
_UNLIMITED_MS = 100 * 365 * 24 * 3_600_000


def shell_tool(default_timeout_ms: int | None = None) -> RegisteredTool:
    """The shell tool. `default_timeout_ms` overrides the session's default, within the session's maximum."""

    async def shell(arguments: Arguments, environment: ExecutionEnvironment, *, context: ToolContext) -> ToolOutput:
        config = context.config
        default = default_timeout_ms or config.default_command_timeout_ms or _UNLIMITED_MS
        asked = int(arguments.get("timeout_ms", default))
        timeout_ms = min(asked, config.max_command_timeout_ms or _UNLIMITED_MS)
        result = await environment.exec_command(arguments["command"], timeout_ms, on_output=context.report_output)
        return ToolOutput(text=describe_result(result, timeout_ms), is_error=result.timed_out or result.exit_code != 0)

    default_text = f"{default_timeout_ms} ms" if default_timeout_ms else "set by the session, usually 10000 ms"
    return RegisteredTool(
        ToolDefinition(
            name="shell",
            description=(
                "Run a command in bash, in the working directory, and return its output (stdout, then stderr), exit "
                "code and duration. Each call starts a new shell: directory changes and variables don't carry over. "
                "There is no terminal and stdin is empty, so use flags that make programs non-interactive. The call "
                "returns when the command exits; processes started with & live on until the session ends."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "The command line"},
                    "timeout_ms": {
                        "type": "integer",
                        "minimum": 1,
                        "description": f"Time limit in milliseconds (default {default_text})",
                    },
                    "description": {
                        "type": "string",
                        "description": "What the command does, in a few words, for people",
                    },
                },
                "required": ["command"],
                # An argument that was passed over, a directory for instance, would make another command of it.
                "additionalProperties": False,
            },
        ),
        shell,
    )


def describe_result(result: ExecResult, timeout_ms: int) -> str:
    """Output, then what became of the command."""
    parts = [text.rstrip("\n") for text in (result.stdout, result.stderr) if text]
    if result.output_file is not None:
        kept = "All" if result.output_file_bytes is None else f"The first {result.output_file_bytes} of"
        parts.append(f"[{kept} {result.output_bytes} bytes of output are in {result.output_file}]")
    if result.timed_out:
        parts.append(
            f"[ERROR: Command timed out after {timeout_ms}ms. Partial output is shown above.\n"
            "You can retry with a longer timeout by setting the timeout_ms parameter.]"
        )
    parts.append(f"[exit code {result.exit_code}, {result.duration_ms} ms]")
    return "\n".join(parts)
