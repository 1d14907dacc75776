"""Translation of obstore's errors into frazil's.

What obstore says is a page of debugging output in which only the HTTP status and the code of the
server's answer are reliable; both are read from it here. Messages of ours name the place and say
what to look at. They, and the cause they carry, show no secret.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

from frazil.dataclass import dataclass
from frazil.errors import InvalidInputError, ObjectNotFoundError, StorageError

WRITE = "write"  # the one doing for which nothing has to be there
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})")
_SECRETS = re.compile(  # in URLs: user names and passwords, and queries, which may be signed
    r"(?<=://)[^/\s@]*@|(?<=[/\w])\?[^\s\"<>]+"
)
_NO_CONTAINER = {"NoSuchBucket", "ContainerNotFound", "InvalidBucketName", "AccountNotFound"}
_REFUSED = {401, 403}
_THROTTLED = {"SlowDown", "ServerBusy", "TooManyRequests", "RequestLimitExceeded"}
_UNSETTLED = {408, 409, 429, 499}  # and every 5xx: the request may succeed if made again


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of obstore: the HTTP status and the server's code, if there was a response."""

    error: Exception = field(repr=False)
    status: int | None
    code: str | None
    text: str  # without secrets

    @property
    def missing(self) -> bool:
        """No such object; the bucket is there, as far as the server tells."""
        absent = isinstance(self.error, FileNotFoundError) or self.status == 404
        return absent and not self.no_container

    @property
    def no_container(self) -> bool:
        return self.code in _NO_CONTAINER

    @property
    def beyond_end(self) -> bool:
        return self.status == 416

    @property
    def already_there(self) -> bool:
        """Answered 409, or 412 to a create."""
        return type(self.error).__name__ == "AlreadyExistsError"

    @property
    def condition_failed(self) -> bool:
        return type(self.error).__name__ == "PreconditionError"

    @property
    def unchanged(self) -> bool:
        """Answered 304 to a read with a condition."""
        return type(self.error).__name__ == "NotModifiedError"

    @property
    def without_ranges(self) -> bool:
        """The server sent the whole object though a part was asked for."""
        named = type(self.error).__name__ == "NotSupportedError"
        return named or "non-partial response" in self.text

    @property
    def unsettled(self) -> bool:
        """True if the request may have been carried out, or may yet be."""
        if type(self.error).__name__ != "GenericError":
            return False
        return self.status is None or self.status >= 500 or self.status in _UNSETTLED


def failure_of(error: Exception) -> Failure:
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    return Failure(
        error,
        int(status[1]) if status else None,
        code[1] if code else None,
        _SECRETS.sub(lambda found: "" if found[0].endswith("@") else "?...", text),
    )


def foreign_errors() -> tuple[type[Exception], ...]:
    """All that obstore raises. To be named in `except`, where it costs nothing until needed."""
    from obstore.exceptions import BaseError  # noqa: PLC0415 - `import frazil` stays light

    return BaseError, FileNotFoundError, NotImplementedError, ValueError, PermissionError


@contextmanager
def translate_errors(doing: str, location: str, key: str) -> Iterator[None]:
    """Errors of obstore raised inside become StorageError, ObjectNotFoundError included."""
    try:
        yield
    except (StorageError, InvalidInputError):  # ours already, though also builtins
        raise
    except foreign_errors() as error:
        failure = failure_of(error)
        raise storage_error(failure, doing, location, key) from cause_of(failure)


def storage_error(failure: Failure, doing: str, location: str, key: str) -> StorageError:
    if failure.missing and key and doing != WRITE:
        return ObjectNotFoundError(key)
    where = f"{location.rstrip('/')}/{key}" if key else location
    throttled = failure.code in _THROTTLED or failure.status == 429
    return StorageError(
        f"cannot {doing} {where}: {_reason(failure, location)}",
        kind="throttled" if throttled else "object-store",
    )


def cause_of(failure: Failure) -> Exception:
    """The error itself, or what may be shown of it."""
    if failure.text == str(failure.error):
        return failure.error
    return type(failure.error)(failure.text)


def _reason(failure: Failure, location: str) -> str:
    answered = _answer(failure)
    if failure.no_container:
        return f"{_container(location)} does not exist{answered}"
    if failure.status in _REFUSED:
        return f"access was refused, check the credentials and what they allow{answered}"
    if failure.status == 301:
        return f"{_container(location)} is in another region, or the endpoint is wrong{answered}"
    if failure.status is not None:
        return f"the server answered {failure.status}{answered}"
    return _reason_without_answer(failure)


def _reason_without_answer(failure: Failure) -> str:
    text = failure.text
    if type(failure.error).__name__ == "UnauthenticatedError" or "instance credentials" in text:
        return f"there are no usable credentials: {_first_line(text)}"
    if "Connection refused" in text or "tcp connect error" in text:
        return "cannot connect to the server"
    if "dns error" in text or "failed to lookup address" in text:
        return "the name of the server is not known"
    if "redirect" in text.lower():
        return "the server redirects in a circle, or too often"
    if "TimedOut" in text or "timed out" in text or "Timeout" in text:
        return "the server did not answer in time"
    return _first_line(text)


def _answer(failure: Failure) -> str:
    """The server's code and its own words, which programs and people search for."""
    said = _MESSAGE.search(failure.text)
    told = [failure.code, " ".join(said[1].split()) if said else None]
    return f" ({': '.join(filter(None, told))})" if any(told) else ""


def _container(location: str) -> str:
    scheme, _, rest = location.partition("://")
    return f"{scheme}://{rest.split('/', 1)[0]}"


def _first_line(text: str) -> str:
    return text.partition("\n")[0][:300]
