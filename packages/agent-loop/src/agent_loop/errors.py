"""The error tree of this package. Errors of a model call are unified_llm's own.

AgentLoopError
 +-- SessionError            the session is used wrongly: closed, or busy with another input
 +-- EventsLostError         a reader of events fell too far behind
 +-- SavedHistoryError       what should be a saved conversation isn't one
 +-- PersonalizationError    the memory of how a person works can't do what it was asked
      +-- NotSeededError        there is no memory yet
      +-- AlreadySeededError    there is a memory already, and nobody said to replace it
      +-- DamagedMemoryError    what should hold such a memory doesn't; it is left as it is
      +-- EngineError           what was asked for an update gave no answer
 +-- ToolError               a tool can't do what it was asked; the text is meant for the model
 +-- ExecutionEnvironmentError       the environment can't do what it was asked
      +-- PathNotFoundError     no such file or directory
      +-- PathNotAllowedError   the path is not this environment's to write, or not a regular file
      +-- BinaryFileError       the file is not text
"""


class AgentLoopError(Exception):
    """Base of all errors that this package raises."""


class SessionError(AgentLoopError):
    """The session is closed, or is already busy with another input."""


class EventsLostError(AgentLoopError):
    """This reader fell so far behind that its events are no longer delivered. The session itself goes on."""


class SavedHistoryError(AgentLoopError):
    """A text that should hold a saved conversation doesn't. The message names the line."""


class PersonalizationError(AgentLoopError):
    """The memory of how a person works can't do what it was asked."""


class NotSeededError(PersonalizationError):
    """There is no memory yet: it begins with a few basins that somebody names."""


class AlreadySeededError(PersonalizationError):
    """There is a memory already, and nobody said to replace it."""


class DamagedMemoryError(PersonalizationError):
    """A file or database that should hold such a memory doesn't. It is left as it is."""


class EngineError(PersonalizationError):
    """What was asked for an update of the memory failed, or ran out of time."""


class ToolError(AgentLoopError):
    """A tool can't do what it was asked. The message goes to the model, so it says what to do instead."""


class ExecutionEnvironmentError(AgentLoopError):
    """The environment can't do what it was asked."""


class PathNotFoundError(ExecutionEnvironmentError):
    """There is no such file or directory."""


class PathNotAllowedError(ExecutionEnvironmentError):
    """The path lies outside what may be written, or is no regular file (a directory, a FIFO, a device, a socket)."""


class BinaryFileError(ExecutionEnvironmentError):
    """The file holds something other than text."""
